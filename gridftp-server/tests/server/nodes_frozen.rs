//! Nodes as processes that are frozen or lost in the middle of transfers and storage calls.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::nodes::{BLOCK, deal, join, last, spas, union};
use crate::nodes_ends::{Conduct, Played, Seen};
use crate::nodes_storage::{Cluster, wait_until};
use crate::support::{Data, bytes};

/// The other nodes have what is left of the five seconds, also where one of them does not end.
#[test]
fn a_frozen_node_fails_its_transfer_within_five_seconds() {
    let mut cluster = Cluster::with(&[]);
    cluster.add_node();
    cluster.add_node();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stays = Played::new(Conduct::Stays, cluster.folder.path(), &Seen::default());
    let inner = cluster.inner.parse().unwrap();
    let _stays = join(cluster.folder.path(), "stays", stays, &runtime, inner);
    cluster.wait_for(3);
    let mut ftp = cluster.login();
    ftp.ok("MODE E", 200);
    let to = spas(&mut ftp);
    let conn = |ip: [u8; 4]| {
        let to = to.iter().find(|to| to.ip() == IpAddr::from(ip));
        Data::connect(*to.unwrap())
    };
    ftp.send("STOR f");
    let mut conns = [conn([127, 0, 0, 11]), conn([127, 0, 0, 12])];
    let content = bytes(11 * BLOCK);
    deal(&content[..10 * BLOCK], &mut conns);
    let mut ranges = String::new();
    while ranges != format!("0-{}", 10 * BLOCK) {
        let reply = ftp.reply();
        if reply.code == 111 {
            ranges = union(&ranges, &reply.text());
        }
    }
    cluster.freeze(0);
    let begun = Instant::now();
    conns[1].block(0, 10 * BLOCK as u64, &content[10 * BLOCK..]);
    let failed = loop {
        let reply = ftp.reply();
        match reply.code {
            111 => ranges = union(&ranges, &reply.text()),
            112 => {}
            _ => break reply,
        }
    };
    let taken = begun.elapsed();
    assert_eq!(failed.code, 426, "{failed:?}");
    assert_eq!(ranges, format!("0-{}", content.len()));
    // Three and a half of silence and one for the others, and time for a busy machine.
    assert!(taken < Duration::from_secs(7), "{taken:?}");
}

/// Three seconds are for nodes that all live.
#[test]
fn a_node_lost_after_an_abort_leaves_the_other_a_second() {
    let cluster = Cluster::with(&[]);
    let [dies, lives] = [(); 2].map(|()| tokio::runtime::Runtime::new().unwrap());
    let (folder, seen) = (cluster.folder.path(), Seen::default());
    let inner = cluster.inner.parse().unwrap();
    for (name, runtime) in [("dies", &dies), ("lives", &lives)] {
        let stays = Played::new(Conduct::Stays, folder, &seen);
        join(folder, name, stays, runtime, inner);
    }
    cluster.wait_for(2);
    let mut ftp = cluster.login();
    ftp.ok("MODE E", 200);
    assert_eq!(spas(&mut ftp).len(), 2);
    ftp.ok("STOR f", 150);
    let begun = Instant::now();
    ftp.send("ABOR");
    wait_until(|| seen.lock().unwrap().1.len() == 2);
    dies.shutdown_background();
    assert_eq!(last(&mut ftp).code, 426);
    let taken = begun.elapsed();
    assert!(taken < Duration::from_secs(3), "{taken:?}");
}

#[test]
fn stripes_and_a_frozen_node() {
    let mut cluster = Cluster::start();
    cluster.add_node();
    cluster.add_node();
    let mut ftp = cluster.login();
    ftp.ok("MODE E", 200);
    let to = spas(&mut ftp);
    assert_eq!(to.len(), 2);
    let content = bytes(2 * BLOCK);
    ftp.send("STOR striped");
    let conns = to.into_iter().map(Data::connect).collect::<Vec<_>>();
    assert_eq!(ftp.reply().code, 150);
    for ((mut conn, block), at) in conns.into_iter().zip(content.chunks(BLOCK)).zip([0, BLOCK]) {
        conn.block(0, at as u64, block);
        conn.end(1);
    }
    let reply = ftp.outcome();
    assert_eq!(reply.code, 226, "{reply:?}");
    assert_eq!(cluster.get("striped"), content);
    for n in 0..8 {
        ftp.ok(&format!("MKD d{n}"), 257);
    }
    cluster.freeze(0);
    // What may be done twice is repeated at the other node; within seconds all calls go there.
    for n in 0..8 {
        ftp.ok(&format!("MLST d{n}"), 250);
    }
    cluster.wait_for(1);
    for n in 0..8 {
        ftp.ok(&format!("RMD d{n}"), 250);
    }
}

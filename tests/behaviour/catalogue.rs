//! Stacks of the smaller drivers through the driver suite.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use xio_core::{Incoming as _, Listener as _, Passive as _, Target, Transport as _};
use xio_testkit::driver_suite::{self, Subject};

use crate::{everything, loopback, secured};

/// Sets the capabilities of a stack.
type Known = fn(Subject) -> Subject;

const PLAIN: Known = |subject| subject;
const SHARED: Known = Subject::one_peer_at_a_time;

pub(crate) const STACKS: &[(&str, &[&str], Known)] = &[
    ("tcp,queue", &["tcp", "queue"], |s| {
        s.sends_files().writes_vectored()
    }),
    (
        "mem:chunk=100;seed=6;capacity=500,queue:size=100",
        &["mem", "queue"],
        Subject::writes_vectored,
    ),
    ("tcp,telnet", &["tcp", "telnet"], PLAIN),
    (
        "mem:chunk=70;seed=8;capacity=1000,telnet,count",
        &["mem", "telnet", "count"],
        PLAIN,
    ),
    ("tcp,verify:block=1K", &["tcp", "verify"], PLAIN),
    (
        "mem:chunk=70;seed=9;capacity=100,verify,queue",
        &["mem", "verify", "queue"],
        PLAIN,
    ),
    ("tcp,ordering", &["tcp", "ordering"], |s| {
        s.sends_files().writes_vectored()
    }),
    ("tcp,mode_e", &["tcp", "mode_e"], SHARED),
    ("tcp,mode_e:streams=1", &["tcp", "mode_e"], PLAIN),
    ("tcp,mode_e:streams=4", &["tcp", "mode_e"], SHARED),
    (
        "tcp,tls:OWN,mode_e:streams=3",
        &["tcp", "tls", "mode_e"],
        SHARED,
    ),
    (
        "mem:chunk=3000;seed=10,mode_e:streams=3;block=5000,count,ordering",
        &["mem", "mode_e", "count", "ordering"],
        SHARED,
    ),
    ("tcp,multicast", &["tcp", "multicast"], PLAIN),
    ("udt,mode_e:streams=3", &["udp", "udt", "mode_e"], |s| {
        s.ends_both_ways().one_peer_at_a_time()
    }),
    (
        "mem:chunk=900;seed=11,multicast,rate:rate=1G",
        &["mem", "multicast", "rate"],
        PLAIN,
    ),
];

fn subjects() -> impl Iterator<Item = Subject> {
    STACKS.iter().map(|(text, chain, known)| {
        let stack = everything().stack(&secured::fill_in(text));
        let stack = stack.expect("the string names known drivers");
        known(Subject::new(stack, loopback(), chain))
    })
}

#[tokio::test]
async fn every_stack_passes_the_driver_suite() {
    for subject in subjects() {
        driver_suite::run(&subject).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_stack_passes_the_driver_suite_with_two_threads() {
    for subject in subjects() {
        driver_suite::run(&subject).await;
    }
}

/// Local sockets show a dropped peer as an end; a layer with an end mark detects it.
#[tokio::test]
async fn verify_detects_a_dropped_peer_over_local_sockets() {
    let stack = everything().stack("unix,verify").expect("a stack");
    let at = "unix://".parse().expect("any free name");
    driver_suite::run(&Subject::new(stack, at, &["unix", "verify"])).await;
}

/// The peer waits for the answer, which waits for a flush in the lower layer.
#[tokio::test]
async fn telnet_answers_are_flushed_through_lower_layers() {
    let stack = |text| everything().stack(text).expect("a stack");
    let mut listener = stack("tcp,compress,telnet")
        .listen(&loopback())
        .await
        .unwrap();
    let to = Target::from(listener.info().local.unwrap());
    let mut peer = stack("tcp,compress").connect(&to).await.unwrap();
    let mut near = listener.accept().await.unwrap().open().await.unwrap();
    peer.write_all(b"\xff\xfb\x01").await.unwrap();
    peer.flush().await.unwrap();
    let mut answer = [0; 3];
    let answered = timeout(Duration::from_secs(20), peer.read_exact(&mut answer));
    tokio::select! {
        read = near.read_u8() => panic!("unexpected data: {read:?}"),
        done = answered => { done.expect("an answer in time").unwrap() }
    };
    assert_eq!(answer, *b"\xff\xfe\x01");
}

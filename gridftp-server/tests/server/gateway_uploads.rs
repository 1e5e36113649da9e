//! Hidden files of a gateway's uploads: of several gateways, of broken uploads, with one session.

use std::time::{Duration, Instant};

use byte_ranges::RangeSet;
use bytes::Bytes;
use gridftp_dsi::{ChecksumAlgorithm, Create, Dsi, ErrorKind, Finish, Listing, Progress, Sink};
use gridftp_dsi_gridftp::{Config as Upstream, Gateway, GatewaySink};
use gridftp_dsi_posix::Posix;
use xio_testkit::ftp::{Reaction, ScriptedServer};

use crate::gateway::{path, serve, told, upstream, user};
use crate::support::PATIENCE;

const WHOLE: Create = Create::Whole { size: None };
const RESUME: Create = Create::Resume { size: None };

fn usual() -> (ScriptedServer, Gateway) {
    let server = ScriptedServer::usual().unwrap();
    server.dir("/d");
    let gateway = Gateway::open(&Upstream::new(server.url(""))).unwrap();
    (server, gateway)
}

async fn write(sink: &GatewaySink, at: u64, bytes: &'static [u8]) {
    sink.write_at(at, Bytes::from_static(bytes)).await.unwrap();
}

async fn listed(gateway: &Gateway, dir: &str) -> Vec<String> {
    let mut listing = gateway.list(&user(), &path(dir)).await.unwrap();
    let names = listing.next().await.unwrap().into_iter();
    names
        .map(|stat| String::from_utf8(stat.name).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_before_one_upstream_have_hidden_files_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let (address, _control) = serve(Posix::open(dir.path()).unwrap());
    let mut uploads = Vec::new();
    for (name, bytes) in [("north", b"aaaa"), ("south", b"bbbb")] {
        let mut config = upstream(address);
        config.name = Some(name.to_owned());
        let gateway = Gateway::open(&config).unwrap();
        let sink = gateway.write(&user(), &path("/f"), WHOLE).await.unwrap();
        sink.write_at(0, Bytes::from_static(bytes)).await.unwrap();
        uploads.push((gateway, sink, bytes));
    }
    // Each records its own bytes, and goes on.
    for (gateway, sink, _) in &uploads {
        sink.checkpoint(&RangeSet::up_to(4), false).await.unwrap();
        let held = gateway.held(&user(), &path("/f")).await.unwrap();
        assert_eq!(held, RangeSet::up_to(4));
    }
    for (_gateway, sink, bytes) in uploads {
        sink.write_at(4, Bytes::from_static(bytes)).await.unwrap();
        sink.finish(Finish::whole(8)).await.unwrap();
        let there = std::fs::read(dir.path().join("f")).unwrap();
        assert_eq!(there, [*bytes, *bytes].concat());
    }
}

/// The files of a scripted server are years old.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_removes_old_hidden_files() {
    let (server, gateway) = usual();
    server.file("/d/.gridftp-gateway-0123-replaced", "old");
    server.file("/d/.gridftp-gateway-0123", "broken");
    server.file("/d/x", "x");
    let sink = gateway.write(&user(), &path("/d/f"), WHOLE).await.unwrap();
    let further = gateway.write(&user(), &path("/d/f"), WHOLE).await.unwrap();
    assert_eq!(listed(&gateway, "/d").await, ["x"]);
    let files = server.files();
    assert!(server.bytes("/d/.gridftp-gateway-0123").is_none());
    assert!(server.bytes("/d/.gridftp-gateway-0123-replaced").is_some());
    // With those of the uploads under way.
    assert_eq!(files.len(), 4, "{files:?}");
    for sink in [sink, further] {
        write(&sink, 0, b"new").await;
        sink.finish(Finish::whole(3)).await.unwrap();
    }
    assert_eq!(listed(&gateway, "/d").await, ["f", "x"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_removes_old_hidden_files_of_its_directory() {
    let (server, gateway) = usual();
    server.file("/d/.gridftp-gateway-0123", "broken");
    let sink = gateway.write(&user(), &path("/d/f"), WHOLE).await.unwrap();
    write(&sink, 0, b"new").await;
    sink.finish(Finish::whole(3)).await.unwrap();
    let begun = Instant::now();
    while server.files() != ["/d/f"] {
        assert!(begun.elapsed() < PATIENCE, "{:?}", server.files());
        tokio::task::yield_now().await;
    }
}

/// The hidden file of a second upload to the name counts as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_with_an_upload_under_way_is_not_removed() {
    let (server, gateway) = usual();
    server.file("/d/x", "x");
    let first = gateway.write(&user(), &path("/d/f"), WHOLE).await.unwrap();
    let second = gateway.write(&user(), &path("/d/f"), WHOLE).await.unwrap();
    for sink in [first, second] {
        let refused = gateway.remove_tree(&user(), &path("/d")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Busy, "{}", told(&refused));
        assert!(server.bytes("/d/x").is_some());
        write(&sink, 0, b"new").await;
        sink.finish(Finish::whole(3)).await.unwrap();
    }
    assert_eq!(server.bytes("/d/f").unwrap(), b"new");
}

/// Its server keeps bytes apart from the hidden file, which a restart would continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_upload_forgets_the_bytes_of_a_broken_one() {
    let script = |line: &str| match line {
        "FEAT" => Reaction::say("211-features\r\n SIZE\r\n HELD\r\n211 end"),
        _ if line.starts_with("SITE") => Reaction::say("550 no such file"),
        _ => Reaction::Usual,
    };
    let server = ScriptedServer::start(script).unwrap();
    let gateway = Gateway::open(&Upstream::new(server.url(""))).unwrap();
    for (how, forgotten) in [(RESUME, 0), (WHOLE, 1)] {
        let sink = gateway.write(&user(), &path("/f"), how).await.unwrap();
        write(&sink, 0, b"new").await;
        sink.finish(Finish::whole(3)).await.unwrap();
        let commands = server.commands();
        let is = |line: &&String| line.starts_with("SITE DELHELD /.gridftp-gateway-");
        assert_eq!(
            commands.iter().filter(is).count(),
            forgotten,
            "{commands:?}"
        );
    }
}

/// The upstream has no digests, so that the bytes are read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_session_is_enough() {
    const DIGEST: &str = "8d777f385d3dfec8815d20f7496026dc";
    let server = ScriptedServer::usual().unwrap();
    let mut config = Upstream::new(server.url(""));
    (config.sessions, config.connect_timeout) = (1, Duration::from_secs(5));
    let gateway = Gateway::open(&config).unwrap();
    let (to, md5) = (path("/f"), ChecksumAlgorithm::Md5);
    let sink = gateway.write(&user(), &to, WHOLE).await.unwrap();
    write(&sink, 0, b"data and more").await;
    let all = RangeSet::up_to(13);
    sink.checkpoint(&all, false).await.unwrap();
    drop(sink);
    // Fewer bytes than the broken upload left, and their digest.
    let sink = gateway.write(&user(), &to, RESUME).await.unwrap();
    assert_eq!(sink.held(), all);
    let finish = Finish::whole(4).with_checksum(md5, DIGEST);
    sink.finish(finish).await.unwrap();
    assert_eq!(server.bytes("/f").unwrap(), b"data");
    let (user, progress) = (user(), Progress::new());
    let digest = gateway.checksum(&user, &to, md5, 0, None, &progress);
    assert_eq!(digest.await.unwrap(), DIGEST);
}

/// A block that fails behind its answer is told with the next one, or at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_block_fails_the_upload() {
    let script = |line: &str| match line.starts_with("MIDWAY STOR") {
        true => Reaction::Reset("451 the disk fails".to_owned()),
        false => Reaction::Usual,
    };
    let server = ScriptedServer::start(script).unwrap();
    let gateway = Gateway::open(&Upstream::new(server.url(""))).unwrap();
    let sink = gateway.write(&user(), &path("/f"), WHOLE).await.unwrap();
    let (block, mut at) = (Bytes::from(vec![7; 1 << 20]), 0);
    let failed = loop {
        match sink.write_at(at, block.clone()).await {
            Ok(()) => at += block.len() as u64,
            Err(error) => break error,
        }
    };
    assert!(
        told(&failed).contains("the disk fails"),
        "{}",
        told(&failed)
    );
    sink.finish(Finish::whole(at)).await.unwrap_err();
    assert!(server.bytes("/f").is_none());
}

#[test]
fn users_act_for_themselves_with_grid_security_only() {
    for (url, delegated, acts) in [
        ("gsiftp://h/", true, true),
        ("gsiftp://h/", false, false),
        ("ftp://h/", true, false),
    ] {
        let mut config = Upstream::new(url);
        config.delegated = delegated;
        let gateway = Gateway::open(&config).unwrap();
        assert_eq!(gateway.capabilities().acts_for_users, acts, "{url}");
    }
}

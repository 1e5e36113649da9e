//! `xio-perf` against `globus-xioperf` over TCP and UDT, in both roles and directions.

use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;
use workspace_tests::{Daemon, globus_xioperf, globus_xioperf_addr, run, sha256};
use xio_testkit::Random;

use crate::{LIMIT, check, connect, name, ran, serve, served};

const BYTES: usize = 5_000_003;
const SUITE: &str = "perf: xio-perf against globus-xioperf";

/// A file to send, and the path of its copy.
struct Files {
    source: PathBuf,
    sink: PathBuf,
    _folder: TempDir,
}

impl Files {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (source, sink) = (folder.path().join("source"), folder.path().join("sink"));
        std::fs::write(&source, Random::new(seed).bytes(BYTES)).unwrap();
        Self {
            source,
            sink,
            _folder: folder,
        }
    }

    fn compare(&self) {
        assert_eq!(sha256(&self.source).unwrap(), sha256(&self.sink).unwrap());
    }
}

/// Connects to a serving `globus-xioperf`.
fn they_serve(stack: &str, we_send: bool) {
    let files = Files::new(u64::from(we_send));
    let Some(mut command) = globus_xioperf(SUITE, stack) else {
        return;
    };
    let (theirs, ours, part): (_, _, &[_]) = if we_send {
        ("-R", &files.source, &[])
    } else {
        ("-S", &files.sink, &["--reverse"])
    };
    let file = if we_send { &files.sink } else { &files.source };
    command.args(["-s", theirs, "-F"]).arg(file);
    let mut server = Daemon::start(&mut command, globus_xioperf_addr).unwrap();
    let flags = [part, &["--file", name(ours)]].concat();
    let result = ran(&mut connect(stack, server.addr(), &flags));
    assert!(server.wait(LIMIT).unwrap(), "{}", server.output());
    check_result(&result, stack, we_send, &files);
}

/// Serves a connecting `globus-xioperf`.
fn they_connect(stack: &str, we_send: bool) {
    let files = Files::new(2 + u64::from(we_send));
    let Some(mut command) = globus_xioperf(SUITE, stack) else {
        return;
    };
    let (theirs, ours, part): (_, _, &[_]) = if we_send {
        ("-R", &files.source, &["--reverse"])
    } else {
        ("-S", &files.sink, &[])
    };
    let file = if we_send { &files.sink } else { &files.source };
    let server = serve(stack, &[part, &["--file", name(ours)]].concat());
    command.args(["-c", &server.addr().to_string(), theirs, "-F"]);
    run(command.arg(file), LIMIT).unwrap().ok().unwrap();
    check_result(&served(server), stack, we_send, &files);
}

fn check_result(result: &Value, stack: &str, we_send: bool, files: &Files) {
    check(result, stack, BYTES);
    let way = if we_send { "sent" } else { "received" };
    assert_eq!(result[way], BYTES, "{result}");
    if we_send {
        // A packet of TCP or UDT carries at most 64 KiB.
        let least = BYTES as u64 / (64 << 10);
        assert!(result["packets_sent"].as_u64() > Some(least), "{result}");
        assert!(result["packets_retransmitted"].is_u64(), "{result}");
    }
    files.compare();
}

#[test]
fn tcp_they_serve_and_receive() {
    they_serve("tcp", true);
}

#[test]
fn tcp_they_serve_and_send() {
    they_serve("tcp", false);
}

#[test]
fn tcp_they_connect_and_receive() {
    they_connect("tcp", true);
}

#[test]
fn tcp_they_connect_and_send() {
    they_connect("tcp", false);
}

#[test]
fn udt_they_serve_and_receive() {
    they_serve("udt", true);
}

#[test]
fn udt_they_serve_and_send() {
    they_serve("udt", false);
}

#[test]
fn udt_they_connect_and_receive() {
    they_connect("udt", true);
}

#[test]
fn udt_they_connect_and_send() {
    they_connect("udt", false);
}

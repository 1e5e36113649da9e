//! `xio-perf` against plain sockets: only the payload is on the wire.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread::{self, JoinHandle};

use workspace_tests::{Daemon, binary};
use xio_testkit::Random;

use crate::{check, connect, name, ran, serve, served};

const BYTES: usize = 1_000_003;

/// Runs `part` on one accepted connection, in a thread.
fn peer<T: Send + 'static>(
    part: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (String, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    (
        addr,
        thread::spawn(move || part(listener.accept().unwrap().0)),
    )
}

fn all(mut socket: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_socket_reads_exactly_the_payload() {
    let (addr, reading) = peer(all);
    let bytes = BYTES.to_string();
    let result = ran(&mut connect(
        "tcp",
        addr,
        &["--bytes", &bytes, "--data", "zero"],
    ));
    check(&result, "tcp", BYTES);
    let arrived = reading.join().unwrap();
    assert_eq!(arrived.len(), BYTES);
    assert!(arrived.iter().all(|&byte| byte == 0));
}

#[test]
fn data_of_a_socket_is_written_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let sink = folder.path().join("sink");
    let bytes = Random::new(5).bytes(BYTES);
    let server = serve("tcp", &["--file", name(&sink)]);
    let mut socket = TcpStream::connect(server.addr()).unwrap();
    socket.write_all(&bytes).unwrap();
    drop(socket);
    check(&served(server), "tcp", BYTES);
    assert!(std::fs::read(&sink).unwrap() == bytes);
}

#[test]
fn reverse_transfers_work_with_sockets() {
    let bytes = Random::new(6).bytes(BYTES);
    let given = bytes.clone();
    let (addr, writing) = peer(move |mut socket| socket.write_all(&given).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let sink = folder.path().join("sink");
    let flags = ["--reverse", "--file", name(&sink)];
    check(&ran(&mut connect("tcp", addr, &flags)), "tcp", BYTES);
    writing.join().unwrap();
    assert!(std::fs::read(&sink).unwrap() == bytes);

    let server = serve("tcp", &["--reverse", "--file", name(&sink)]);
    let arrived = all(TcpStream::connect(server.addr()).unwrap());
    check(&served(server), "tcp", BYTES);
    assert!(arrived == bytes);
}

#[test]
fn an_idle_socket_after_the_data_is_not_timed() {
    let (addr, writing) = peer(|mut socket| {
        socket.write_all(&[1; BYTES]).unwrap();
        // Until the other end closes.
        let _ = socket.read(&mut [0]);
    });
    let bytes = BYTES.to_string();
    let result = ran(&mut connect("tcp", addr, &["--reverse", "--bytes", &bytes]));
    writing.join().unwrap();
    check(&result, "tcp", BYTES);
    assert!(result["seconds"].as_f64() < Some(1.0), "{result}");
}

#[test]
fn the_listening_address_is_printed() {
    let mut command = Command::new(binary("xio-perf").unwrap());
    command.args(["serve", "--stack", "unix", "--listen", "unix://"]);
    let ready = |line: &str| (line != "listening on unix://").then_some(([0; 4], 0).into());
    let server = Daemon::start(&mut command, ready).unwrap();
    server.wait_for("listening on ").unwrap();
    let said = server.output();
    let addr = said
        .lines()
        .next()
        .unwrap()
        .trim()
        .strip_prefix("listening on ")
        .unwrap();
    ran(&mut connect("unix", addr, &["--bytes", "10"]));
}

#[test]
fn transfers_in_both_directions_work_with_sockets() {
    let server = serve("tcp", &["--both", "--bytes", "70000"]);
    let socket = TcpStream::connect(server.addr()).unwrap();
    let mut writer = socket.try_clone().unwrap();
    let writing = thread::spawn(move || {
        writer.write_all(&vec![1; BYTES]).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    assert_eq!(all(socket).len(), 70_000);
    writing.join().unwrap();
    let result = served(server);
    check(&result, "tcp", BYTES);
    assert_eq!(result["sent"], 70_000, "{result}");
}

#[test]
fn round_trips_with_an_echoing_socket_are_timed() {
    let (addr, echoing) = peer(|mut socket| {
        let mut turn = [0; 100];
        let mut turns = 0;
        while socket.read_exact(&mut turn).is_ok() {
            socket.write_all(&turn).unwrap();
            turns += 1;
        }
        turns
    });
    let flags = [
        "--ping",
        "--bytes",
        "20000",
        "--block-size",
        "100",
        "--data",
        "random",
    ];
    let result = ran(&mut connect("tcp", addr, &flags));
    assert_eq!(echoing.join().unwrap(), 200);
    let latency = &result["latency_seconds"];
    assert_eq!(latency["turns"], 200);
    let rise =
        ["min", "p50", "p90", "p99", "p999", "max"].map(|key| latency[key].as_f64().unwrap());
    assert!(rise.is_sorted() && rise[0] > 0.0, "{result}");
}

#[test]
fn several_connections_share_the_bytes() {
    let server = serve("tcp", &[]);
    let sockets = [1_usize, 2, 3].map(|part| {
        let mut socket = TcpStream::connect(server.addr()).unwrap();
        socket.write_all(&vec![0; part * 1000]).unwrap();
        socket
    });
    drop(sockets);
    let result = served(server);
    assert_eq!(
        (&result["streams"], &result["received"]),
        (&3.into(), &6000.into())
    );
}

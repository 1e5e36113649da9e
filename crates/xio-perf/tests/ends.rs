//! Both ends as processes, over loopback.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_xio-perf"))
}

/// A serving end, killed when dropped.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut child = program()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        output.read_line(&mut first).unwrap();
        let address = first
            .strip_prefix("listening on ")
            .unwrap()
            .trim()
            .to_owned();
        Self {
            child,
            output,
            address,
        }
    }

    /// Returns the rest of the output, and whether the process succeeded.
    fn end(mut self) -> (String, bool) {
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        (text, self.child.wait().unwrap().success())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

fn run(server: &Server, arguments: &[&str]) -> Output {
    program()
        .args(["run", "--connect", &server.address])
        .args(arguments)
        .output()
        .unwrap()
}

fn last_object(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// Runs one session, and returns the results of both ends, which must succeed.
fn session(serve: &[&str], ran: &[&str]) -> (Value, Value) {
    let server = Server::start(&[serve, &["--json"]].concat());
    let output = run(&server, &[ran, &["--json"]].concat());
    let (text, success) = server.end();
    assert!(output.status.success(), "{output:?}");
    assert!(success, "{text}");
    let near = last_object(std::str::from_utf8(&output.stdout).unwrap());
    (last_object(&text), near)
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Creates a file of `length` bytes that depend on their offset.
fn file(folder: &Path, length: usize) -> std::path::PathBuf {
    let path = folder.join("source");
    let bytes: Vec<u8> = (0..length)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0])
        .collect();
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_file_arrives_unchanged_in_either_direction() {
    let folder = tempfile::tempdir().unwrap();
    let source = file(folder.path(), 3_000_001);
    for (turn, count) in ["--json", "--reverse", "--both"].into_iter().zip(0..) {
        let sink = folder.path().join(format!("sink{count}"));
        let (mut served, mut ran) = (vec!["--file", name(&sink)], vec!["--file", name(&source)]);
        match turn {
            "--reverse" => {
                std::mem::swap(&mut served, &mut ran);
                served.push(turn);
                ran.push(turn);
            }
            "--both" => {
                served.extend([turn, "--bytes", "100000"]);
                ran.push(turn);
            }
            _ => {}
        }
        let (far, near) = session(&served, &ran);
        assert!(
            std::fs::read(&source).unwrap() == std::fs::read(&sink).unwrap(),
            "{turn}"
        );
        let receiver = if turn == "--reverse" { &near } else { &far };
        assert_eq!(receiver["received"], 3_000_001, "{turn}");
        assert_eq!(receiver["bytes"], 3_000_001, "{turn}");
        assert!(receiver["bytes_per_second"].as_f64().unwrap() > 0.0);
        assert!(receiver["seconds"].as_f64().unwrap() > 0.0);
        assert_eq!(receiver["stack"], "tcp");
    }
}

#[test]
fn parallel_connections_are_one_session() {
    let (far, near) = session(
        &[],
        &["--streams", "4", "--bytes", "10000001", "--data", "random"],
    );
    assert_eq!(near["sent"], 10_000_001);
    assert_eq!(far["received"], 10_000_001);
    assert_eq!(far["streams"], 4);
}

#[test]
fn a_time_limit_ends_a_run_with_progress_lines() {
    let (far, near) = session(
        &[],
        &["--time", "0.3", "--interval", "0.1", "--data", "text"],
    );
    let seconds = near["seconds"].as_f64().unwrap();
    assert!((0.3..10.0).contains(&seconds), "{near}");
    assert_eq!(far["received"], near["sent"]);
    assert_ne!(near["sent"], 0);
}

#[test]
fn an_end_without_a_limit_stops_with_the_peer() {
    let (_, near) = session(&["--both"], &["--both", "--bytes", "1M"]);
    assert_eq!(near["sent"], 1 << 20);
    let (_, near) = session(&["--reverse"], &["--reverse", "--bytes", "1M"]);
    assert_eq!(near["received"], 1 << 20);
    let (far, near) = session(
        &["--reverse", "--bytes", "1M"],
        &["--reverse", "--bytes", "1M"],
    );
    assert_eq!(
        (&far["sent"], &near["received"]),
        (&Value::from(1 << 20), &Value::from(1 << 20))
    );
}

#[test]
fn round_trips_are_timed() {
    let (far, near) = session(
        &["--ping", "--stack", "tcp:nodelay=1,count"],
        &[
            "--ping",
            "--stack",
            "tcp:nodelay=1,count",
            "--bytes",
            "1000",
            "--block-size",
            "10",
        ],
    );
    let latency = &near["latency_seconds"];
    assert_eq!(latency["turns"], 100);
    let of = |key: &str| latency[key].as_f64().unwrap();
    assert!(0.0 < of("min") && of("min") <= of("p50") && of("p50") <= of("p99"));
    assert!(of("p99") <= of("max") && of("max") < 30.0);
    assert_eq!(far["received"], 1000);
}

#[test]
fn the_default_report_is_text() {
    let server = Server::start(&[]);
    let output = run(&server, &["--bytes", "2M"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("sent 2.10 MB in") && text.contains("processor time"),
        "{text}"
    );
    assert!(server.end().0.contains("received 2.10 MB in"));
}

#[test]
fn a_connection_without_data_is_no_session() {
    let server = Server::start(&["--json"]);
    drop(TcpStream::connect(&server.address).unwrap());
    let output = run(&server, &["--bytes", "5"]);
    assert!(output.status.success());
    let (text, success) = server.end();
    assert!(success && last_object(&text)["received"] == 5, "{text}");
}

#[test]
fn several_sessions_are_served() {
    let server = Server::start(&["--sessions", "2", "--json"]);
    for bytes in ["7", "8"] {
        assert!(run(&server, &["--bytes", bytes]).status.success());
    }
    let (text, _) = server.end();
    let counts: Vec<Value> = text
        .lines()
        .map(|line| last_object(line)["received"].clone())
        .collect();
    assert_eq!(counts, [7, 8]);
}

#[test]
fn failures_have_a_message_and_a_status() {
    let folder = tempfile::tempdir().unwrap();
    let source = file(folder.path(), 10);
    let closed = {
        let server = Server::start(&[]);
        server.address.clone()
    };
    for (arguments, status, said) in [
        (vec!["run", "--connect", &closed], 1, "Connection refused"),
        (
            vec!["run", "--connect", &closed, "--stack", "tpc"],
            1,
            "tpc",
        ),
        (vec!["run"], 2, "--connect"),
        (
            vec!["run", "--connect", &closed, "--both", "--ping"],
            2,
            "--ping",
        ),
        (
            vec!["run", "--connect", &closed, "--time", "0"],
            2,
            "above 0",
        ),
        (
            vec![
                "run",
                "--connect",
                &closed,
                "--streams",
                "2",
                "--file",
                name(&source),
            ],
            1,
            "one connection",
        ),
        (
            vec!["serve", "--listen", "127.0.0.1:0", "--stack", "file"],
            1,
            "file",
        ),
    ] {
        let output = program().args(&arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}

#[test]
fn a_reset_peer_is_a_failure() {
    let server = Server::start(&["--json"]);
    let mut peer = TcpStream::connect(&server.address).unwrap();
    std::io::Write::write_all(&mut peer, b"half").unwrap();
    // TCP reports the missing rest by a reset.
    socket2::SockRef::from(&peer)
        .set_linger(Some(std::time::Duration::ZERO))
        .unwrap();
    drop(peer);
    let (text, success) = server.end();
    assert!(!success);
    assert!(
        last_object(&text)["error"]
            .as_str()
            .unwrap()
            .contains("reset"),
        "{text}"
    );
}

/// Both ends wait for each other until the time is over.
#[test]
fn ends_with_different_activities_fail_in_time() {
    for (flag, hint) in [
        ("--ping", "serve --ping?"),
        ("--reverse", "no data arrived"),
    ] {
        let server = Server::start(&[]);
        let begun = std::time::Instant::now();
        let output = run(&server, &[flag, "--time", "0.2"]);
        let took = begun.elapsed();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(hint),
            "{flag}: {said}"
        );
        assert!(
            took < std::time::Duration::from_secs(20),
            "{flag}: {took:?}"
        );
    }
}

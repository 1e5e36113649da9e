//! Peers that are missing, refuse, or fail: an error message and an exit status, without a hang.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustix::process::Signal;
use workspace_tests::{Finished, run};
use xio_testkit::Authority;

use crate::{LIMIT, connect, last_object, ran, serve};

/// Runs a command that must fail with exit status 1 and one line on standard error.
fn fails(command: &mut Command) -> Finished {
    let ended = run(command, LIMIT).unwrap().failed().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.report());
    assert!(ended.stderr.starts_with("xio-perf: "), "{}", ended.report());
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.report());
    ended
}

#[test]
fn connection_refused() {
    // Bound and not listening, so that no other socket gets the port meanwhile.
    let holder = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&holder, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let addr = SocketAddr::try_from(getsockname(&holder).unwrap()).unwrap();
    for stack in ["tcp", "udt"] {
        let ended = fails(&mut connect(stack, addr, &["--bytes", "10"]));
        let output = ended.stderr.to_lowercase();
        assert!(output.contains("refused"), "{output}");
        let once = output.matches(&format!("{stack}: connect")).count();
        assert_eq!(once, 1, "{output}");
    }
}

#[test]
fn destination_unreachable() {
    // TCP cannot connect to a broadcast address.
    let ended = fails(&mut connect("tcp", "255.255.255.255:9", &["--bytes", "10"]));
    let output = ended.stderr.to_lowercase();
    assert!(
        output.contains("unreachable") && output.contains("255.255.255.255"),
        "{output}"
    );
}

#[test]
fn a_killed_server_is_an_error() {
    for stack in ["tcp", "udt"] {
        let server = serve(stack, &["--interval", "0.01"]);
        let mut command = connect(stack, server.addr(), &["--time", "3000"]);
        let running = std::thread::spawn(move || fails(&mut command));
        server.wait_for("\"at\"").unwrap();
        server.signal(Signal::KILL).unwrap();
        let ended = running.join().unwrap();
        let result = last_object(&ended.stdout);
        assert_eq!(result["stack"], stack);
        assert!(result["sent"].as_u64() > Some(0), "{result}");
        let fact = result["error"].as_str().unwrap();
        assert!(
            fact.starts_with(stack) && ended.stderr.contains(fact),
            "{}",
            ended.report()
        );
    }
}

#[test]
fn a_reset_by_the_client_is_an_error() {
    let mut server = serve("tcp", &[]);
    let mut socket = TcpStream::connect(server.addr()).unwrap();
    socket.write_all(&[0; 100_000]).unwrap();
    let linger = Some(Duration::ZERO);
    set_socket_linger(&socket, linger).unwrap();
    drop(socket);
    assert!(!server.wait(LIMIT).unwrap());
    let output = server.all_output().unwrap();
    let result = last_object(&output);
    assert!(
        result["error"].as_str().unwrap().contains("reset"),
        "{output}"
    );
}

#[test]
fn a_peer_that_closes_early_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let leaving = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.read_exact(&mut [0; 1000]).unwrap();
    });
    let ended = fails(&mut connect("tcp", addr, &["--bytes", "100M"]));
    leaving.join().unwrap();
    let result = last_object(&ended.stdout);
    assert!(result["sent"].as_u64() < Some(100 << 20), "{result}");
    assert!(result["error"].is_string(), "{result}");
}

/// Starts an HTTP server that reads a request to its end and sends `answer`.
fn answering(answer: &'static [u8]) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let playing = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"0\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            request.extend(byte);
        }
        socket.write_all(answer).unwrap();
    });
    (addr, playing)
}

#[test]
fn a_put_that_is_not_accepted_is_an_error() {
    for (answer, says) in [
        (
            &b"HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n"[..],
            "507",
        ),
        (b"220 ready\r\n", "http"),
        (b"", "http"),
    ] {
        let (addr, playing) = answering(answer);
        let stack = "tcp,http:method=PUT";
        let ended = fails(&mut connect(stack, addr, &["--bytes", "10"]));
        playing.join().unwrap();
        assert!(ended.stderr.contains(says), "{}", ended.report());
    }
}

#[test]
fn a_response_body_after_a_put_is_no_error() {
    let long = [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"[..],
        &[b'.'; (1 << 20) + 1],
    ];
    // More than the client reads, and less than announced.
    let long: &'static [u8] = long.concat().leak();
    for (answer, says) in [
        (
            &b"HTTP/1.1 201 Created\r\nContent-Length: 8\r\n\r\ncreated\n"[..],
            None,
        ),
        (long, None),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ncreate",
            Some("truncated"),
        ),
        (
            b"HTTP/1.1 403 No\r\nContent-Length: 8\r\n\r\nnot here",
            Some("403"),
        ),
    ] {
        let (addr, playing) = answering(answer);
        let stack = "tcp,http:method=PUT";
        let mut command = connect(stack, addr, &["--bytes", "10"]);
        match says {
            None => assert_eq!(ran(&mut command)["sent"], 10),
            Some(says) => {
                let ended = fails(&mut command);
                assert!(ended.stderr.contains(says), "{}", ended.report());
            }
        }
        playing.join().unwrap();
    }
}

/// In TLS 1.3 the client gets the alert after its handshake.
#[test]
fn a_missing_client_certificate_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("authority of the test");
    let ca = authority.write(folder.path()).display().to_string();
    let host = authority.issue("host", &["localhost"]);
    let host = host.write(folder.path(), "host").display().to_string();
    for below in ["tcp", "udt"] {
        let theirs = format!("{below},tls:cert={host};ca={ca};client_cert=required");
        let server = serve(&theirs, &[]);
        let ours = format!("{below},tls:ca={ca};name=localhost");
        let ended = fails(&mut connect(&ours, server.addr(), &["--bytes", "10"]));
        let why = "requires a certificate of us";
        assert!(ended.stderr.contains(why), "{}", ended.report());
    }
}

#[test]
fn fewer_bytes_than_requested_are_an_error() {
    let give = |mut socket: TcpStream| socket.write_all(&[0; 10]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let giving = std::thread::spawn(move || give(listener.accept().unwrap().0));
    let ended = fails(&mut connect("tcp", addr, &["--reverse", "--bytes", "11"]));
    giving.join().unwrap();
    assert!(
        ended.stderr.contains("10 of 11 bytes"),
        "{}",
        ended.report()
    );

    let mut server = serve("tcp", &["--bytes", "11"]);
    give(TcpStream::connect(server.addr()).unwrap());
    assert!(!server.wait(LIMIT).unwrap());
    let output = server.all_output().unwrap();
    assert_eq!(last_object(&output)["received"], 10, "{output}");
}

#[test]
fn a_wrong_echo_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(&[9; 64]).unwrap();
        // Until the other end closes.
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let flags = ["--ping", "--bytes", "64", "--block-size", "64"];
    let ended = fails(&mut connect("tcp", addr, &flags));
    answering.join().unwrap();
    assert!(ended.stderr.contains("--ping"), "{}", ended.report());
}

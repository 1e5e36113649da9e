//! Peers that are not there, refuse, or vanish: a message and an exit status, and no end of waiting.

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

/// What an end that must fail said: it has exit status 1 and one line on standard error.
fn fails(command: &mut Command) -> Finished {
    let ended = run(command, LIMIT).unwrap().failed().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.report());
    assert!(ended.stderr.starts_with("xio-perf: "), "{}", ended.report());
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.report());
    ended
}

#[test]
fn nobody_listens() {
    // Bound and never listening, so that nobody else gets the port meanwhile.
    let holder = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&holder, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let place = SocketAddr::try_from(getsockname(&holder).unwrap()).unwrap();
    for stack in ["tcp", "udt"] {
        let ended = fails(&mut connect(stack, place, &["--bytes", "10"]));
        let said = ended.stderr.to_lowercase();
        let fact = ["refused", "nobody is there"];
        assert!(fact.iter().any(|fact| said.contains(fact)), "{said}");
        let once = said.matches(&format!("{stack}: connect")).count();
        assert_eq!(once, 1, "{said}");
    }
}

#[test]
fn no_way_leads_there() {
    // No TCP connection goes to everybody.
    let ended = fails(&mut connect("tcp", "255.255.255.255:9", &["--bytes", "10"]));
    let said = ended.stderr.to_lowercase();
    assert!(
        said.contains("unreachable") && said.contains("255.255.255.255"),
        "{said}"
    );
}

#[test]
fn the_serving_end_is_killed_in_the_middle() {
    for stack in ["tcp", "udt"] {
        let server = serve(stack, &["--interval", "0.01"]);
        let mut command = connect(stack, server.addr(), &["--time", "3000"]);
        let running = std::thread::spawn(move || fails(&mut command));
        server.hear("\"at\"").unwrap();
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
fn the_connecting_end_resets_in_the_middle() {
    let mut server = serve("tcp", &[]);
    let mut socket = TcpStream::connect(server.addr()).unwrap();
    socket.write_all(&[0; 100_000]).unwrap();
    let linger = Some(Duration::ZERO);
    set_socket_linger(&socket, linger).unwrap();
    drop(socket);
    assert!(!server.wait(LIMIT).unwrap());
    let said = server.last_words().unwrap();
    let result = last_object(&said);
    assert!(
        result["error"].as_str().unwrap().contains("reset"),
        "{said}"
    );
}

#[test]
fn a_peer_that_leaves_before_all_is_sent_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let leaving = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.read_exact(&mut [0; 1000]).unwrap();
    });
    let ended = fails(&mut connect("tcp", place, &["--bytes", "100M"]));
    leaving.join().unwrap();
    let result = last_object(&ended.stdout);
    assert!(result["sent"].as_u64() < Some(100 << 20), "{result}");
    assert!(result["error"].is_string(), "{result}");
}

/// Plays a server of HTTP that reads a request to its end and answers this.
fn answering(answer: &'static [u8]) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
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
    (place, playing)
}

#[test]
fn what_the_peer_did_not_take_has_not_arrived() {
    for (answer, says) in [
        (
            &b"HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n"[..],
            "507",
        ),
        (b"220 ready\r\n", "http"),
        (b"", "http"),
    ] {
        let (place, playing) = answering(answer);
        let stack = "tcp,http:method=PUT";
        let ended = fails(&mut connect(stack, place, &["--bytes", "10"]));
        playing.join().unwrap();
        assert!(ended.stderr.contains(says), "{}", ended.report());
    }
}

#[test]
fn what_the_peer_tells_of_having_taken_all_is_no_failure() {
    let long = [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"[..],
        &[b'.'; (1 << 20) + 1],
    ];
    // More than anybody reads; it is let go with the rest still owed.
    let long: &'static [u8] = long.concat().leak();
    for (answer, says) in [
        (
            &b"HTTP/1.1 201 Created\r\nContent-Length: 8\r\n\r\ncreated\n"[..],
            None,
        ),
        (long, None),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\ncreate",
            Some("not all there is"),
        ),
        (
            b"HTTP/1.1 403 No\r\nContent-Length: 8\r\n\r\nnot here",
            Some("403"),
        ),
    ] {
        let (place, playing) = answering(answer);
        let stack = "tcp,http:method=PUT";
        let mut command = connect(stack, place, &["--bytes", "10"]);
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

/// In TLS 1.3 the client learns of it after its handshake.
#[test]
fn a_peer_that_is_not_let_in_is_told() {
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
fn less_than_was_asked_for_is_told() {
    let give = |mut socket: TcpStream| socket.write_all(&[0; 10]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let giving = std::thread::spawn(move || give(listener.accept().unwrap().0));
    let ended = fails(&mut connect("tcp", place, &["--reverse", "--bytes", "11"]));
    giving.join().unwrap();
    assert!(
        ended.stderr.contains("10 of 11 bytes"),
        "{}",
        ended.report()
    );

    let mut server = serve("tcp", &["--bytes", "11"]);
    give(TcpStream::connect(server.addr()).unwrap());
    assert!(!server.wait(LIMIT).unwrap());
    let said = server.last_words().unwrap();
    assert_eq!(last_object(&said)["received"], 10, "{said}");
}

#[test]
fn a_peer_that_answers_otherwise_is_no_echo() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(&[9; 64]).unwrap();
        // Until the other end has had enough of it.
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let flags = ["--ping", "--bytes", "64", "--block-size", "64"];
    let ended = fails(&mut connect("tcp", place, &flags));
    answering.join().unwrap();
    assert!(ended.stderr.contains("--ping"), "{}", ended.report());
}

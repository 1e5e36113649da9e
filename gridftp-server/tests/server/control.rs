//! The control channel: lines, pipelining, and malformed input.

use std::io::Read as _;
use std::net::TcpStream;

use crate::support::{Ftp, TestServer};

#[test]
fn a_line_without_end_is_cut_off() {
    let server = TestServer::new();
    let mut ftp = server.login();
    // The server may close before all of it is taken.
    let _ = std::io::Write::write_all(&mut ftp.stream, &vec![b'A'; 1 << 20]);
    if let Some(reply) = ftp.try_reply() {
        assert_eq!(reply.code, 500);
    }
    server.wait_for_sessions(0);
    server.login().ok("NOOP", 200);
}

#[test]
fn a_bare_line_feed_ends_a_line() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.raw("NOOP\nPWD\n");
    assert_eq!(ftp.reply().code, 200);
    assert_eq!(ftp.reply().code, 257);
}

#[test]
fn control_bytes_are_refused_and_never_cut_a_path_short() {
    let server = TestServer::new();
    server.put("a", "secret");
    let mut ftp = server.login();
    for line in [&b"SIZE a\0b\r\n"[..], b"\0NOOP\r\n", b"SIZE a\rb\r\n"] {
        ftp.raw(line);
        let reply = ftp.reply();
        assert!(reply.code >= 500, "{line:?}: {reply:?}");
    }
    ftp.ok("NOOP", 200);
}

#[test]
fn telnet_commands_are_taken_out() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.raw(b"NO\xff\xf4\xff\xf2OP\r\n");
    assert_eq!(ftp.reply().code, 200);
}

#[test]
fn unknown_verbs_and_wrong_argument_counts_are_told_apart() {
    let server = TestServer::new();
    let mut ftp = server.login();
    for (line, code) in [
        ("FOOO", 500),
        ("", 500),
        ("   ", 500),
        ("SITE FOO", 500),
        ("RETR", 501),
        ("SIZE", 501),
        ("MKD", 501),
        ("CKSM MD5 0", 501),
        ("SITE CHMOD 644", 501),
        ("TYPE Q", 501),
        ("MODE B", 501),
        ("PORT 1,2,3", 501),
        ("OPTS RETR Parallelism=0;", 500),
        ("REST x", 501),
        ("REST 5-3", 501),
        ("STRU R", 501),
    ] {
        let reply = ftp.cmd(line);
        assert!(
            reply.code == code || reply.code == 504,
            "{line:?}: {reply:?}"
        );
    }
    ftp.ok("NOOP", 200);
}

#[test]
fn a_thousand_pipelined_commands_are_answered_in_order() {
    let server = TestServer::new();
    let mut ftp = server.login();
    let lines: String = (0..1000)
        .map(|i| match i % 4 {
            0 => format!("MKD d{i}\r\n"),
            1 => "PWD\r\n".to_owned(),
            2 => format!("SIZE d{}\r\n", i - 2),
            _ => "NOOP\r\n".to_owned(),
        })
        .collect();
    ftp.raw(lines);
    for i in 0..1000 {
        let wanted = [257, 257, 213, 200][i % 4];
        assert_eq!(ftp.reply().code, wanted, "command {i}");
    }
}

#[test]
fn ten_thousand_commands_before_login_end_in_421_or_a_close() {
    let server = TestServer::new();
    let mut ftp = server.connect();
    let _ = std::io::Write::write_all(&mut ftp.stream, "PWD\r\n".repeat(10_000).as_bytes());
    let (mut last, mut replies) = (0, 0);
    while let Some(reply) = ftp.try_reply() {
        (last, replies) = (reply.code, replies + 1);
        assert!(matches!(last, 530 | 421), "{reply:?}");
    }
    server.wait_for_sessions(0);
    assert!(last == 421 || last == 530);
    assert!(replies <= 101, "{replies} commands were answered");
}

#[test]
fn http_on_the_port_is_dropped() {
    let server = TestServer::new();
    let mut ftp = server.connect();
    ftp.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(ftp.rest().is_empty());
}

#[test]
fn a_connection_reset_before_the_greeting_leaves_nothing() {
    let server = TestServer::new();
    for _ in 0..50 {
        let stream = TcpStream::connect(server.address).unwrap();
        socket2::SockRef::from(&stream)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
    }
    server.wait_for_sessions(0);
    server.login().ok("NOOP", 200);
}

#[test]
fn quit_is_answered_after_the_pipelined_commands() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.raw("PWD\r\nNOOP\r\nQUIT\r\n");
    let codes: Vec<u16> = ftp.rest().iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [257, 200, 221]);
}

#[test]
fn abor_without_a_transfer_is_answered() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("ABOR", 226);
    ftp.ok("NOOP", 200);
}

#[test]
fn a_closed_control_connection_ends_the_session() {
    let server = TestServer::new();
    let ftps: Vec<Ftp> = (0..10).map(|_| server.login()).collect();
    drop(ftps);
    server.wait_for_sessions(0);
}

#[test]
fn the_feature_list_has_the_labels_of_clients() {
    let server = TestServer::new();
    let text = server.login().ok("FEAT", 211).text();
    for wanted in [
        "\n PARALLEL",
        "\n SIZE",
        "\n MLST ",
        "\n REST STREAM",
        "\n UTF8",
        "\n CKSM ",
        "\n PASV AllowDelayed;",
    ] {
        assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
    }
}

/// aria2 and others take one reply per read, and wait for ever for a 226 that arrived in one piece
/// with the 150.
#[test]
fn a_150_goes_out_before_the_data() {
    const TIMES: usize = 40;
    let server = TestServer::new();
    server.put("f", "small");
    let mut ftp = server.login();
    let mut together = 0;
    for _ in 0..TIMES {
        let data = ftp.data();
        ftp.send("RETR f");
        let mut text = Vec::new();
        while !text.ends_with(b"226 Transfer Complete.\r\n") {
            let mut piece = [0; 1000];
            let n = ftp.stream.read(&mut piece).unwrap();
            assert!(n > 0);
            together += usize::from(text.is_empty() && piece[..n].windows(3).any(|w| w == b"226"));
            text.extend_from_slice(&piece[..n]);
        }
        assert_eq!(data.read(), b"small");
    }
    // A reader that is slow to wake may still find both; sent in one piece, both are there every
    // time.
    assert!(together < TIMES, "{together} of {TIMES} in one piece");
}

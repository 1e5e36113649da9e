//! RFC 1123 §4.1.2: the protocol, point by point.

use std::io::Read as _;

use crate::support::{TestServer, host_port};
use crate::{fresh, lines, retrieve_to, table};

/// §4.1.2.1: TYPE L 8 is TYPE I.
#[test]
fn local_8_is_image() {
    let server = TestServer::new();
    server.put("f", "a\nb\r\n\0\u{ff}");
    let mut ftp = fresh(&server);
    ftp.ok("TYPE L 8", 200);
    assert_eq!(ftp.fetch("f"), server.get("f"));
}

/// §4.1.2.3: a host that does not distinguish TYPE A N and TYPE A T accepts both with the same
/// effect.
#[test]
fn telnet_format_is_non_print() {
    let server = TestServer::new();
    server.put("f", "a\nb\n");
    let mut ftp = server.login();
    ftp.ok("TYPE A T", 200);
    assert_eq!(ftp.fetch("f"), b"a\r\nb\r\n");
    // Files have no carriage control here.
    ftp.ok("TYPE A C", 501);
}

/// §4.1.2.7: lines of NLST are valid arguments of RETR, including blanks. Lines of LIST and NLST
/// end in CRLF in every TYPE.
#[test]
fn names_of_nlst_are_valid_arguments() {
    let server = TestServer::new();
    std::fs::create_dir(server.root.join("d")).unwrap();
    let names = ["a b", "c  d ", "e;f", "é", "*", "-x"];
    for name in names {
        server.put(&format!("d/{name}"), name);
    }
    let mut ftp = fresh(&server);
    ftp.ok("CWD d", 250);
    let mut sorted = names;
    sorted.sort_unstable();
    for ty in ["TYPE A", "TYPE I"] {
        ftp.ok(ty, 200);
        let listed = lines(ftp.get("NLST"));
        assert_eq!(listed, sorted);
        assert_eq!(lines(ftp.get("LIST")).len(), names.len());
        for name in listed {
            assert_eq!(ftp.fetch(&name), name.as_bytes());
        }
    }
    ftp.ok("CWD /", 250);
    // As with the Globus server, names of a named directory are relative to it. Names of a pattern,
    // which that server does not support, are paths; the server's own suite tests them.
    assert_eq!(lines(ftp.get("NLST d")), sorted);
}

/// §4.1.2.10: the segmentation of the control connection has no meaning.
#[test]
fn commands_may_be_split_anywhere() {
    let server = TestServer::new();
    let mut ftp = fresh(&server);
    for piece in ["N", "OO", "P\r", "\nPWD\r\nNO", "OP\r\nSYST\r", "\n"] {
        ftp.raw(piece);
    }
    for code in [200, 257, 200, 215] {
        assert_eq!(ftp.reply().code, code);
    }
}

/// §4.1.2.12: Telnet options are refused, and the commands around them are executed.
#[test]
fn telnet_options_are_refused() {
    let server = TestServer::new();
    let mut ftp = fresh(&server);
    // DO ECHO, then WILL LINEMODE.
    ftp.raw(b"\xff\xfd\x01\xff\xfb\x22");
    let mut answers = [0; 6];
    ftp.stream.read_exact(&mut answers).unwrap();
    assert_eq!(answers, *b"\xff\xfc\x01\xff\xfe\x22");
    ftp.ok("NOOP", 200);
}

/// §4.1.2.12: the data connection uses the server address of the control connection, in both
/// directions.
#[test]
fn data_comes_from_the_address_of_the_control_connection() {
    let server = TestServer::with(|o| o.bind = Some([0, 0, 0, 0].into()));
    server.put("f", "x");
    for host in [[127, 0, 0, 1], [127, 0, 0, 5]] {
        let at = std::net::SocketAddr::from((host, server.address.port()));
        // From the same address, so that the data connection is not to a third party.
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket
            .bind(&std::net::SocketAddr::from((host, 0)).into())
            .unwrap();
        socket.connect(&at.into()).unwrap();
        let mut ftp = crate::Ftp::silent(socket.into());
        assert_eq!(ftp.reply().code, 220);
        ftp.login("anonymous", "x");
        assert_eq!(ftp.pasv().ip(), at.ip());
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::from(host), 0)).unwrap();
        ftp.ok(
            &format!("PORT {}", host_port(listener.local_addr().unwrap())),
            200,
        );
        let (bytes, from) = retrieve_to(&mut ftp, &listener, "f");
        assert_eq!((bytes.as_slice(), from.ip()), (&b"x"[..], at.ip()));
    }
}

/// §4.1.2.13: commands that every server must implement.
#[test]
fn the_required_commands_are_implemented() {
    let server = TestServer::new();
    std::fs::create_dir_all(server.root.join("d/e")).unwrap();
    server.put("f", "x");
    let mut ftp = server.connect();
    table(
        &mut ftp,
        "
        331  USER anonymous
        230  PASS test@
        # There are no accounts, for which RFC 959 §4.2 has 202.
        202  ACCT none
        200  PORT 127,0,0,1,200,1
        227  PASV
        200  TYPE A N  TYPE I  TYPE L 8  MODE S  STRU F
        350  RNFR f
        250  RNTO g  DELE g  CWD d  RMD e  CDUP
        257  MKD h  PWD
        215  SYST
        212  STAT
        214  HELP
        200  NOOP
        ",
    );
    for line in ["LIST", "NLST"] {
        ftp.get(line);
    }
    assert_eq!(ftp.store("STOR f", b"a").code, 226);
    assert_eq!(ftp.store("APPE f", b"b").code, 226);
    assert_eq!(ftp.fetch("f"), b"ab");
    ftp.ok("QUIT", 221);
}

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

/// §4.1.2.3: a host that makes no distinction between TYPE A N and TYPE A T takes both for the same.
#[test]
fn telnet_format_is_non_print() {
    let server = TestServer::new();
    server.put("f", "a\nb\n");
    let mut ftp = server.login();
    ftp.ok("TYPE A T", 200);
    assert_eq!(ftp.fetch("f"), b"a\r\nb\r\n");
    // Carriage control would have to be made from what files here do not have.
    ftp.ok("TYPE A C", 501);
}

/// §4.1.2.7: the lines of NLST serve as arguments of RETR, whatever blanks are in them, and those of LIST and NLST end
/// in CRLF whatever the type.
#[test]
fn names_of_nlst_serve_as_arguments() {
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
    // As the Globus server has it: names in a directory that is named are those within it. Of a pattern, which it does
    // not know, each name is a path (the server's own suite asks for that).
    assert_eq!(lines(ftp.get("NLST d")), sorted);
}

/// §4.1.2.10: nothing follows from where one segment of the control connection ends and the next begins.
#[test]
fn commands_may_come_in_any_pieces() {
    let server = TestServer::new();
    let mut ftp = fresh(&server);
    for piece in ["N", "OO", "P\r", "\nPWD\r\nNO", "OP\r\nSYST\r", "\n"] {
        ftp.raw(piece);
    }
    for code in [200, 257, 200, 215] {
        assert_eq!(ftp.reply().code, code);
    }
}

/// §4.1.2.12: Telnet options are refused, and the commands around them are heard.
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

/// §4.1.2.12: data comes from the address that the control connection goes to, whichever end opens the connection.
#[test]
fn data_comes_from_the_address_of_the_control_connection() {
    let server = TestServer::with(|o| o.bind = Some([0, 0, 0, 0].into()));
    server.put("f", "x");
    for host in [[127, 0, 0, 1], [127, 0, 0, 5]] {
        let at = std::net::SocketAddr::from((host, server.address.port()));
        // From the same address, so that the data connection is not one to a third party.
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

/// §4.1.2.13: commands that every server must have.
#[test]
fn the_required_commands_are_there() {
    let server = TestServer::new();
    std::fs::create_dir_all(server.root.join("d/e")).unwrap();
    server.put("f", "x");
    let mut ftp = server.connect();
    table(
        &mut ftp,
        "
        331  USER anonymous
        230  PASS test@
        # Accounts are not kept, and RFC 959 §4.2 has 202 for that.
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

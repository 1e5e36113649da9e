//! FTP over TLS: AUTH TLS, private data connections, certificates and their demands.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use gridftp_server::config::{Config, Require, SessionReuse};
use rustls::version::{TLS12, TLS13};
use xio_testkit::{Authority, Credential, Validity};

use crate::process::Daemon;
use crate::support::{Data, Ftp, PATIENCE, TestServer, bytes};
use crate::tls_support::{
    Secure, TlsServer, config, config_of, half, handshake, is_resumed, put_credential, read_all,
    write_all,
};

#[test]
fn files_go_over_private_connections() {
    let server = TlsServer::new();
    let data = bytes(3_000_001);
    server.server.put("f", &data);
    let mut ftp = server.login();
    assert!(ftp.get("RETR f") == data, "the download differs");
    for name in ["a", "b", "c", "d", "e", "g"] {
        assert_eq!(ftp.store(&format!("STOR {name}"), &data).code, 226);
        assert!(server.server.get(name) == data, "{name} differs");
    }
    assert!(
        String::from_utf8(ftp.get("LIST"))
            .unwrap()
            .contains(" f\r\n")
    );
    ftp.ok("CCC", 534);
    ftp.ok("SSCN ON", 500);
    ftp.ok("QUIT", 221);
}

#[test]
fn the_server_is_the_server_of_tls_where_it_connects() {
    let server = TlsServer::new();
    server.server.put("f", "text");
    let mut ftp = server.login();
    let listener = ftp.port();
    ftp.ok("RETR f", 150);
    let (data, _) = listener.accept().unwrap();
    let data = handshake(data, Arc::clone(&ftp.config)).unwrap();
    assert!(is_resumed(&data));
    assert_eq!(read_all(data), b"text");
    assert_eq!(ftp.reply().code, 226);
}

/// A client may begin the handshake before it sends the command.
#[test]
fn a_handshake_may_precede_the_command() {
    let server = TlsServer::new();
    let mut ftp = server.login();
    let data = TcpStream::connect(ftp.pasv()).unwrap();
    let data = handshake(data, Arc::clone(&ftp.config)).unwrap();
    ftp.ok("STOR f", 150);
    write_all(data, b"text");
    assert_eq!(ftp.reply().code, 226);
    assert_eq!(server.server.get("f"), b"text");
}

#[test]
fn mode_e_is_private_too() {
    let server = TlsServer::new();
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    let address = ftp.pasv();
    ftp.ok("STOR f", 150);
    for (n, text) in [(0, b"one"), (1, b"two")] {
        let data = TcpStream::connect(address).unwrap();
        let mut data = handshake(data, Arc::clone(&ftp.config)).unwrap();
        data.write_all(&crate::support::header(0, 3, n * 3))
            .unwrap();
        data.write_all(text).unwrap();
        let flags = crate::support::EOD | if n == 1 { crate::support::EOF } else { 0 };
        data.write_all(&crate::support::header(flags, 0, 2))
            .unwrap();
        write_all(data, b"");
    }
    let reply = loop {
        let reply = ftp.reply();
        if reply.code >= 200 {
            break reply;
        }
    };
    assert_eq!(reply.code, 226, "{reply:?}");
    assert_eq!(server.server.get("f"), b"onetwo");
}

/// CVE-2011-0411: commands before the handshake are never run.
#[test]
fn commands_injected_before_the_handshake_are_not_run() {
    for injected in ["NOOP\r\n", "USER ann\r\nPASS", "x"] {
        let server = TlsServer::new();
        let mut ftp = server.server.connect();
        ftp.raw(format!("AUTH TLS\r\n{injected}"));
        // The 234 may have been sent; nothing follows it, no handshake either.
        let rest = ftp.rest();
        assert!(
            rest.len() <= 1 && rest.iter().all(|reply| reply.code == 234),
            "{rest:?}"
        );
        server.server.wait_for_sessions(0);
    }
}

/// Row 8: no password crosses a clear channel; from loopback it may, unless the server says more.
#[test]
fn a_password_is_refused_before_it_is_sent() {
    let server = TlsServer::with(|o, _| o.require_control = Some(Require::Private));
    let mut ftp = server.server.connect();
    let reply = ftp.ok("USER ann", 534);
    assert!(reply.text().contains("AUTH TLS"), "{reply:?}");
    ftp.ok("PASS open sesame", 503);
    ftp.login("anonymous", "x@");
    server.login().ok("NOOP", 200);
    let server = TlsServer::with(|o, _| {
        o.require_control = Some(Require::Private);
        o.allow_clear_passwords = Some(vec!["127.0.0.0/8".parse().unwrap()]);
    });
    server.server.connect().login("ann", "open sesame");
    TlsServer::new()
        .server
        .connect()
        .login("ann", "open sesame");
}

/// Row 9.
#[test]
fn data_below_the_demand_is_refused() {
    let server = TlsServer::with(|o, _| {
        (o.require_data, o.require_anonymous_data) =
            (Some(Require::Private), Some(Require::Private));
    });
    let mut ftp = server.connect();
    ftp.ok("USER ann", 331);
    ftp.ok("PASS open sesame", 230);
    ftp.pasv();
    ftp.ok("LIST", 521);
    ftp.ok("PBSZ 0", 200);
    ftp.ok("PROT C", 534);
    ftp.private();
    ftp.get("LIST");
    let mut clear = server.server.login();
    clear.pasv();
    clear.ok("LIST", 521);
}

/// Rows 10 and 11: other protocols.
#[test]
fn other_protocols_are_refused() {
    let server = TlsServer::new();
    let mut config = server.config();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let refused = Secure::over(half(&server.server).stream, Arc::new(config));
    assert!(refused.is_err());
    let mut config = server.config();
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"ftp".to_vec()];
    server.connect_with(config).login();
    let mut ftp = half(&server.server);
    ftp.raw("GET / HTTP/1.1\r\n\r\n");
    let mut rest = Vec::new();
    // An alert, no reply.
    let _ = ftp.reader.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"5") && rest.len() < 20, "{rest:?}");
    server.server.wait_for_sessions(0);
}

/// A session with the certificate of another authority is none.
#[test]
fn a_client_refuses_a_foreign_authority() {
    let server = TlsServer::new();
    let other = config(&Authority::new("another"), None);
    assert!(Secure::over(half(&server.server).stream, Arc::new(other)).is_err());
    server.server.wait_for_sessions(0);
}

/// A stranger on the same host has no session to resume: on demand, and once the client has shown
/// that it can, only resumed connections are served, and the client's own still is.
#[test]
fn a_stolen_data_connection_is_refused_and_the_client_still_served() {
    for (reuse, versions) in [
        (SessionReuse::Optional, &[&TLS12][..]),
        (SessionReuse::Optional, &[&TLS13]),
        (SessionReuse::Required, &[&TLS13]),
    ] {
        let server = TlsServer::with(|o, _| o.tls_session_reuse = Some(reuse));
        server.server.put("f", "secret");
        let mut ftp = server.connect_with(config_of(&server.authority, None, versions));
        ftp.login();
        if reuse == SessionReuse::Optional {
            assert_eq!(ftp.get("RETR f"), b"secret");
        }
        let address = ftp.pasv();
        ftp.ok("RETR f", 150);
        let stranger = TcpStream::connect(address).unwrap();
        let mut stranger = handshake(stranger, ftp.forgetful()).unwrap();
        let mut stolen = Vec::new();
        let _ = stranger.read_to_end(&mut stolen);
        assert!(stolen.is_empty(), "{stolen:?}");
        let own = TcpStream::connect(address).unwrap();
        assert_eq!(
            read_all(handshake(own, Arc::clone(&ftp.config)).unwrap()),
            b"secret"
        );
        assert_eq!(ftp.reply().code, 226);
    }
}

/// Whether the client can resume is not known at first: a stranger who connects before it waits.
#[test]
fn the_first_data_connection_is_not_the_fastest_stranger_s() {
    let server = TlsServer::new();
    server.server.put("f", "secret");
    let mut ftp = server.login();
    let address = ftp.pasv();
    let stranger = TcpStream::connect(address).unwrap();
    let mut stranger = handshake(stranger, ftp.forgetful()).unwrap();
    ftp.ok("RETR f", 150);
    let own = TcpStream::connect(address).unwrap();
    let own = handshake(own, Arc::clone(&ftp.config)).unwrap();
    assert_eq!(read_all(own), b"secret");
    assert_eq!(ftp.reply().code, 226);
    let mut stolen = Vec::new();
    let _ = stranger.read_to_end(&mut stolen);
    assert!(stolen.is_empty(), "{stolen:?}");
}

/// Row 29.
#[test]
fn a_client_that_cannot_resume_learns_the_reason() {
    let server = TlsServer::with(|o, _| o.tls_session_reuse = Some(SessionReuse::Required));
    server.server.put("f", "secret");
    let mut ftp = server.login();
    let data = TcpStream::connect(ftp.pasv()).unwrap();
    ftp.ok("RETR f", 150);
    let mut data = handshake(data, ftp.forgetful()).unwrap();
    let _ = data.read_to_end(&mut Vec::new());
    let reply = ftp.reply();
    assert_eq!(reply.code, 425, "{reply:?}");
    assert!(reply.text().contains("does not resume"), "{reply:?}");
    let server = TlsServer::new();
    server.server.put("f", "text");
    let mut ftp = server.login();
    // Also after it resumed once, when it may have run out of tickets: an upload brings none.
    assert_eq!(ftp.store("STOR g", b"text").code, 226);
    for _ in 0..3 {
        let data = TcpStream::connect(ftp.pasv()).unwrap();
        ftp.ok("RETR f", 150);
        assert_eq!(read_all(handshake(data, ftp.forgetful()).unwrap()), b"text");
        assert_eq!(ftp.reply().code, 226);
    }
}

/// The session of another control connection is none of this one.
#[test]
fn a_session_is_resumed_by_its_own_client_only() {
    let server = TlsServer::with(|o, _| o.tls_session_reuse = Some(SessionReuse::Required));
    server.server.put("f", "secret");
    let (mut ftp, other) = (server.login(), server.login());
    let address = ftp.pasv();
    ftp.ok("RETR f", 150);
    let stranger = TcpStream::connect(address).unwrap();
    let mut stranger = handshake(stranger, Arc::clone(&other.config)).unwrap();
    let _ = stranger.read_to_end(&mut Vec::new());
    assert!(!is_resumed(&stranger));
    assert_eq!(ftp.reply().code, 425);
}

#[test]
fn tls_1_2_works_too() {
    let server = TlsServer::with(|o, _| o.tls_session_reuse = Some(SessionReuse::Required));
    server.server.put("f", "text");
    let mut ftp = server.connect_with(config_of(&server.authority, None, &[&TLS12]));
    ftp.login();
    for _ in 0..3 {
        assert_eq!(ftp.get("RETR f"), b"text");
        assert_eq!(ftp.store("STOR g", b"more").code, 226);
    }
}

#[test]
fn a_certificate_logs_in() {
    let server = TlsServer::with(|o, ca| {
        let map = ca.with_file_name("map");
        std::fs::write(&map, "\"/CN=Bob Example\" bob\nDNS:ann.example.org ann\n").unwrap();
        (o.tls_client_ca, o.tls_map) = (Some(ca.into()), Some(map));
    });
    for (name, hosts, user) in [
        ("Bob Example", &["host.example.org"][..], "bob"),
        ("x", &["ann.example.org"], "ann"),
    ] {
        let own = server.authority.issue(name, hosts);
        let mut ftp = server.connect_with(config(&server.authority, Some(&own)));
        ftp.ok("USER cid", 331);
        ftp.ok(&format!("USER {user}"), 232);
        ftp.private();
        ftp.get("LIST");
    }
    server.login().get("LIST");
}

/// Row 49: certificates that are none.
#[test]
fn a_bad_certificate_of_a_client_is_refused() {
    let server = TlsServer::with(|o, ca| o.tls_client_ca = Some(ca.into()));
    for own in [
        Authority::new("another").issue("Bob Example", &[]),
        server
            .authority
            .issue_valid("Bob Example", &[], Validity::Expired),
        server
            .authority
            .issue_valid("Bob Example", &[], Validity::NotYet),
    ] {
        refuses(&server, &own);
    }
    // A user without a password is not let in by any.
    let mut ftp = server.connect();
    ftp.ok("USER bob", 331);
    ftp.ok("PASS *", 530);
}

/// In TLS 1.3 the client is done before the server has looked at its certificate.
#[track_caller]
fn refuses(server: &TlsServer, own: &Credential) {
    let mut ftp = half(&server.server);
    let config = Arc::new(config(&server.authority, Some(own)));
    let refused = Secure::over(ftp.stream.try_clone().unwrap(), config).and_then(|mut secure| {
        secure
            .stream
            .write_all(b"USER bob\r\n")
            .and_then(|()| secure.try_reply())
    });
    assert!(refused.is_err(), "{refused:?}");
    let _ = ftp.reader.read_to_end(&mut Vec::new());
}

#[test]
fn a_reload_brings_the_new_certificate() {
    let mut server = TlsServer::new();
    let mut running = server.login();
    let other = Authority::new("the next");
    put_credential(&server.cert, &other.issue("server", &["localhost"]));
    let mut options = gridftp_server::config::Options::default();
    options.tls_cert = Some(server.cert.clone());
    let policy = Config::check(&options).unwrap().policy;
    server.server.control.set_policy(policy);
    running.get("LIST");
    server.authority = other;
    server.connect().ok("NOOP", 200);
}

#[test]
fn sighup_reads_the_certificate_again_and_a_broken_one_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (cert, log) = (root.path().join("cert.pem"), root.path().join("log"));
    let (old, new) = (Authority::new("the old"), Authority::new("the new"));
    put_credential(&cert, &old.issue("server", &["localhost"]));
    let flags = ["--anonymous", "ro", "--tls-cert", cert.to_str().unwrap()];
    let log_file = std::fs::File::create(&log).unwrap();
    let daemon = Daemon::start_logging_to(log_file, root.path(), &flags);
    let trusts = |authority: &Authority| {
        let mut ftp = Ftp::connect(daemon.address);
        ftp.ok("AUTH TLS", 234);
        Secure::over(ftp.stream, Arc::new(config(authority, None))).is_ok()
    };
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "never {what}");
            std::thread::yield_now();
        }
    };
    assert!(trusts(&old) && !trusts(&new));
    put_credential(&cert, &new.issue("server", &["localhost"]));
    daemon.signal("HUP");
    until("the new certificate", &|| trusts(&new));
    std::fs::write(&cert, "no certificate").unwrap();
    daemon.signal("HUP");
    let logged = || std::fs::read_to_string(&log).unwrap();
    until("an error", &|| {
        logged().contains("configuration kept as it was")
    });
    assert!(
        logged().contains("tls-cert") && trusts(&new),
        "{}",
        logged()
    );
}

#[test]
fn a_port_of_its_own_begins_with_tls() {
    let server = TlsServer::with(|o, _| o.tls_port = Some(0));
    let address = server.server.tls_address.unwrap();
    let stream = TcpStream::connect(address).unwrap();
    let mut ftp = Secure::over(stream, Arc::new(server.config())).unwrap();
    assert_eq!(ftp.reply().code, 220);
    ftp.login();
    ftp.get("LIST");
    ftp.ok("AUTH TLS", 500);
    // The other port still speaks clear lines.
    server.login().ok("NOOP", 200);
}

/// Handshakes that never end cost a place of those that have not logged in, and evict each other.
#[test]
fn slow_handshakes_keep_nobody_out() {
    let server = TlsServer::with(|o, _| {
        (o.max_unauthenticated, o.max_per_address) = (Some(8), Some(8));
    });
    let flood: Vec<Ftp> = (0..40)
        .map(|n| {
            let mut ftp = half(&server.server);
            // The first bytes of a hello, or of a message of 16 MiB.
            if n % 2 == 0 {
                ftp.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc");
            } else {
                ftp.raw(b"\x16\x03\x01\x40\x00\x01\xff\xff\xff");
            }
            ftp
        })
        .collect();
    server.login().get("LIST");
    assert!(server.server.control.sessions() <= 8 + 16 + 1);
    drop(flood);
}

#[test]
fn a_handshake_ends_by_the_time_for_the_login() {
    let server = TlsServer::with(|o, _| o.login_timeout = Some(1));
    let mut ftp = half(&server.server);
    ftp.raw(b"\x16\x03\x01");
    assert!(ftp.rest().is_empty(), "nothing in clear amid a handshake");
    server.server.wait_for_sessions(0);
}

/// Without close-notify the end of an upload may be a cut, so the upload is none.
#[test]
fn an_upload_cut_short_is_not_published() {
    let server = TlsServer::new();
    let mut ftp = server.login();
    let data = TcpStream::connect(ftp.pasv()).unwrap();
    ftp.ok("STOR f", 150);
    let mut data = handshake(data, Arc::clone(&ftp.config)).unwrap();
    data.write_all(b"half").unwrap();
    data.sock.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(ftp.reply().code, 426);
    assert!(!server.server.has("f"));
}

/// A connection from another address of this host.
fn from_elsewhere(to: std::net::SocketAddr) -> TcpStream {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let own = std::net::SocketAddr::from(([127, 0, 0, 2], 0));
    socket.bind(&own.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Without `--third-party`, private data may go to another host, which proves itself by the
/// session; a stranger there gets nothing, although the client never resumed before.
#[test]
fn private_data_goes_to_any_host_with_the_session() {
    let server = TlsServer::new();
    server.server.put("f", "secret");
    let mut ftp = server.login();
    let address = ftp.pasv();
    ftp.ok("RETR f", 150);
    let stranger = handshake(from_elsewhere(address), ftp.forgetful()).unwrap();
    let mut stolen = Vec::new();
    let _ = { stranger }.read_to_end(&mut stolen);
    assert!(stolen.is_empty(), "{stolen:?}");
    let own = handshake(from_elsewhere(address), Arc::clone(&ftp.config)).unwrap();
    assert_eq!(read_all(own), b"secret");
    assert_eq!(ftp.reply().code, 226);
}

#[test]
fn clear_data_goes_to_the_networks_of_the_option() {
    for (networks, served) in [("127.0.0.2,192.0.2.0/24", true), ("192.0.2.0/24", false)] {
        let server = TestServer::with(|o| o.third_party = Some(networks.parse().unwrap()));
        server.put("f", "text");
        let mut ftp = server.login();
        let address = ftp.pasv();
        ftp.send("RETR f");
        let mut bytes = Vec::new();
        let _ = from_elsewhere(address).read_to_end(&mut bytes);
        assert_eq!(bytes == b"text", served, "{networks}");
        if !served {
            Data::connect(address).read();
        }
        assert_eq!((ftp.reply().code, ftp.reply().code), (150, 226));
        let reply = ftp.cmd("PORT 127,0,0,2,100,1");
        assert_eq!(reply.code, if served { 200 } else { 550 });
        assert_eq!(reply.text().contains("--third-party"), !served);
        ftp.ok("PORT 127,0,0,3,100,1", 550);
    }
}

#[test]
fn without_a_certificate_there_is_no_tls() {
    let server = TestServer::new();
    server.connect().ok("AUTH TLS", 504);
}

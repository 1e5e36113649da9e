//! Grid security: strangers on data connections, injected lines, floods, and other protocols.

use base64ct::{Base64, Encoding as _};
use gsi::credential::Credential;
use gsi::exchange::Delegation;
use tokio::io::AsyncWriteExt as _;
use xio::gsi::Level;

use crate::grid_support::{Lab, clear, cut_off, drive, open, taken, tcp};
use crate::process::Daemon;
use crate::support::Ftp;
use crate::tls_support::TlsServer;

const LEVELS: [(&str, Level); 3] = [
    ("C", Level::Clear),
    ("S", Level::Safe),
    ("P", Level::Private),
];

/// Under `DCAU A` a data connection is of the
/// client's identity, or gets nothing; the client itself is still served.
#[test]
fn a_stranger_gets_no_authenticated_data() {
    let lab = Lab::new();
    let server = lab.serve(|_| ());
    server.put("f", "secret");
    drive(async {
        let mut ftp = lab.login(server.address).await;
        for (letter, level) in LEVELS {
            ftp.ok(&format!("PROT {letter}"), 200).await;
            let address = ftp.pasv().await;
            // One that says nothing, and one of another protocol, hold their places for a while.
            let _silent = tcp(address).await;
            let mut other = tcp(address).await;
            other.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            ftp.send("RETR f").await;
            let stolen = taken(open(lab.stranger(level), address).await).await;
            assert!(stolen.is_empty(), "PROT {letter}: {stolen:?}");
            let own = lab.data(&lab.proxy("Alice Lab"), level);
            let received = taken(open(own, address).await).await;
            assert_eq!(received, b"secret", "PROT {letter}");
            assert!(ftp.outcome().await.starts_with("226"), "PROT {letter}");
        }
    });
}

/// Row 1 of the hostile input: a credential with a long chain is taken, and no other line so long.
#[test]
fn a_long_credential_is_taken_behind_the_exchange() {
    let lab = Lab::new();
    let server = lab.serve(|_| ());
    let own = lab.grid.user("Alice Lab");
    let above = std::iter::repeat_n(lab.grid.root().clone(), 20);
    let chain = own.chain().iter().cloned().chain(above).collect();
    let long = Credential::new(chain, own.key().clone()).unwrap();
    let blob = Base64::encode_string(long.to_pem().as_bytes());
    assert!(blob.len() > 20_000, "{}", blob.len());
    drive(async {
        let mut ftp = lab.login(server.address).await;
        ftp.ok(&format!("DCSC P {blob}"), 250).await;
        ftp.ok(&format!("CWD {blob}"), 500).await;
    });
    server.wait_for_sessions(0);
    let mut clear = Ftp::connect(server.address);
    clear.raw(format!("DCSC P {blob}\r\n"));
    assert!(clear.rest().iter().all(|reply| reply.code == 500));
}

/// An upload by a stranger is none, also where the data is in clear behind the handshake.
#[test]
fn a_stranger_stores_nothing() {
    let lab = Lab::new();
    let server = lab.serve(|_| ());
    drive(async {
        let mut ftp = lab.login(server.address).await;
        for (letter, level) in LEVELS {
            ftp.ok(&format!("PROT {letter}"), 200).await;
            let address = ftp.pasv().await;
            ftp.send("STOR f").await;
            if let Ok(mut stream) = open(lab.stranger(level), address).await {
                let _ = stream.write_all(b"forged").await;
                let _ = stream.shutdown().await;
                taken(Ok(stream)).await;
            }
            let own = lab.data(&lab.proxy("Alice Lab"), level);
            let mut stream = open(own, address).await.unwrap();
            stream.write_all(b"own").await.unwrap();
            stream.shutdown().await.unwrap();
            let reply = ftp.outcome().await;
            assert!(reply.starts_with("226"), "PROT {letter}: {reply}");
            drop(stream);
            assert_eq!(server.get("f"), b"own", "PROT {letter}");
        }
    });
}

/// An end that anybody on the path can cause publishes nothing, unless the client has told the length.
/// `globus-url-copy`, which writes no other end, tells every length but 0.
#[test]
fn an_upload_that_was_cut_off_is_not_published() {
    let lab = Lab::new();
    let server = lab.serve(|_| ());
    let globus = "SITE CLIENTINFO appname=\"globus-url-copy\";";
    drive(async {
        for (letter, level) in &LEVELS[1..] {
            for (before, text, code) in [
                ("NOOP", "half", "426"),
                ("NOOP", "", "426"),
                ("ALLO 4", "half", "226"),
                ("ALLO 8", "half", "426"),
                ("ALLO 0", "", "226"),
                (globus, "half", "426"),
                (globus, "", "226"),
            ] {
                let mut ftp = lab.login(server.address).await;
                ftp.ok(&format!("PROT {letter}"), 200).await;
                ftp.ok(before, if before == globus { 250 } else { 200 })
                    .await;
                let cutting = cut_off(ftp.pasv().await).await;
                ftp.send("STOR f").await;
                let own = lab.data(&lab.proxy("Alice Lab"), *level);
                let mut stream = open(own, cutting).await.unwrap();
                stream.write_all(text.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                let reply = ftp.outcome().await;
                assert!(reply.starts_with(code), "{before} {text:?}: {reply}");
                if code == "226" {
                    assert_eq!(server.get("f"), text.as_bytes(), "{before}");
                    std::fs::remove_file(server.put("f", text)).unwrap();
                } else {
                    assert!(
                        reply.contains("ALLO") || reply.contains("announced"),
                        "{reply}"
                    );
                    assert!(!server.has("f"), "{before} {text:?}");
                }
            }
        }
    });
}

/// The log of logins names the identity, also one that has no name here; and `--gridmap-access ro`
/// keeps names without an account from writing.
#[test]
fn the_log_names_identities_and_mapped_names_may_be_kept_from_writing() {
    let (lab, root) = (Lab::new(), tempfile::tempdir().unwrap());
    let users = lab.grid.write("users", "bob:*:rw\n", 0o600);
    let mut flags = lab.flags().to_vec();
    let users = users.to_str().unwrap();
    flags.extend(["--users", users, "--gridmap-access", "ro"].map(str::to_owned));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let daemon = Daemon::start(root.path(), &flags);
    drive(async {
        let mut alice = lab.login(daemon.address).await;
        alice.ok("MKD d", 550).await;
        let own = |common| lab.authenticate(common, daemon.address, Delegation::None);
        let mut bob = own("Bob Lab").await;
        bob.log_in().await;
        bob.ok("MKD d", 257).await;
        let mut eve = own("Eve Lab").await;
        eve.ok("USER :globus-mapping:", 331).await;
        eve.ok("PASS dummy", 530).await;
    });
    daemon.signal("TERM");
    let (_, log) = daemon.end();
    let line = |words: [&str; 3]| {
        let has = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(log.lines().any(has), "{words:?}: {log}");
    };
    line(["INFO", "login user=alice", "/O=Grid/OU=Lab/CN=Alice Lab"]);
    line(["INFO", "login user=bob", "/O=Grid/OU=Lab/CN=Bob Lab"]);
    line(["WARN", "login refused", "/O=Grid/OU=Lab/CN=Eve Lab"]);
}

/// Row 25: with `DCAU N` the data goes to the client's host alone.
#[test]
fn clear_data_bounces_to_no_other_host() {
    let lab = Lab::new();
    let server = lab.serve(|_| ());
    drive(async {
        let mut ftp = lab.login(server.address).await;
        ftp.ok("DCAU N", 200).await;
        let elsewhere = ftp.ok("PORT 198,51,100,1,100,1", 500).await;
        assert!(elsewhere.contains("--third-party"), "{elsewhere}");
        ftp.ok("PORT 127,0,0,1,0,25", 500).await;
    });
}

/// Nothing that stands behind `AUTH` in clear is run.
#[test]
fn commands_injected_before_the_exchange_are_not_run() {
    let lab = Lab::new();
    for injected in ["NOOP\r\n", "USER alice\r\nPASS", "ADAT AAAA\r\n", "x"] {
        let server = lab.serve(|_| ());
        let mut ftp = Ftp::connect(server.address);
        ftp.raw(format!("AUTH GSSAPI\r\n{injected}"));
        let rest = ftp.rest();
        assert!(
            rest.len() <= 1 && rest.iter().all(|reply| reply.code == 334),
            "{rest:?}"
        );
        server.wait_for_sessions(0);
    }
}

/// Row 1: a token without end ends the session at the bound of a line.
#[test]
fn a_token_without_end_ends_the_session() {
    let lab = Lab::new();
    let server = lab.serve(|_| ());
    let mut ftp = Ftp::connect(server.address);
    ftp.ok("AUTH GSSAPI", 334);
    ftp.raw("ADAT ");
    let piece = [b'A'; 8192];
    let mut sent = 0;
    while sent < 16 << 20 {
        if std::io::Write::write_all(&mut ftp.stream, &piece).is_err() {
            break;
        }
        sent += piece.len();
    }
    assert!(sent < 16 << 20, "{sent} bytes were taken");
    server.wait_for_sessions(0);
}

/// Exchanges that never end evict each other, and end with the time for a login.
#[test]
fn slow_exchanges_keep_nobody_out() {
    let lab = Lab::new();
    let server = lab.serve(|o| {
        (o.max_unauthenticated, o.max_per_address) = (Some(8), Some(8));
    });
    let flood: Vec<Ftp> = (0..40)
        .map(|n| {
            let mut ftp = Ftp::connect(server.address);
            ftp.ok("AUTH GSSAPI", 334);
            ftp.raw(if n % 2 == 0 { "ADAT FgMB" } else { "" });
            ftp
        })
        .collect();
    drive(async { lab.login(server.address).await.ok("NOOP", 200).await });
    assert!(server.control.sessions() <= 8 + 16 + 1);
    drop(flood);
    let server = lab.serve(|o| o.login_timeout = Some(1));
    let mut ftp = Ftp::connect(server.address);
    ftp.ok("AUTH GSSAPI", 334);
    ftp.raw("ADAT FgMB");
    ftp.rest();
    server.wait_for_sessions(0);
}

/// Row 11: other protocols where tokens or commands are expected.
#[test]
fn other_protocols_are_refused() {
    let lab = Lab::new();
    let server = lab.serve(|_| ());
    // A handshake of TLS in place of ADAT lines, and at the start of the session.
    let hello = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\n\x16\x03\x01\n".repeat(3);
    for behind in [true, false] {
        let told = drive(async {
            let mut session = clear(server.address).await;
            if behind {
                session.ok("AUTH GSSAPI", 334).await;
            }
            session.0.write_all(&hello).await.unwrap();
            session.0.shutdown().await.unwrap();
            taken(Ok(session.0)).await
        });
        let told = String::from_utf8_lossy(&told);
        // A handshake is no line that could be answered.
        assert_eq!(told.is_empty(), !behind, "{told}");
        assert!(told.lines().all(|line| line.starts_with('5')), "{told}");
    }
    server.wait_for_sessions(0);
    // Lines of ADAT on the port for TLS, and a handshake without the name of a protocol.
    let server = TlsServer::with(|o, _| o.tls_port = Some(0));
    let told = drive(async {
        let mut stream = tcp(server.server.tls_address.unwrap()).await;
        let lines = b"AUTH GSSAPI\r\nADAT AAAA\r\n";
        stream.write_all(lines).await.unwrap();
        taken(Ok(stream)).await
    });
    assert!(told.len() < 20 && !told.starts_with(b"5"), "{told:?}");
    server.server.wait_for_sessions(0);
}

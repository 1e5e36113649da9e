//! RFC 959 §4.1: the effects of the commands.

use crate::support::TestServer;
use crate::{fresh, lines, retrieve_to, table};

/// Returns the path in a 257 reply, with doubled quotes made single (RFC 959, appendix II).
fn quoted(text: &str) -> String {
    let path = text.strip_prefix("257 ").unwrap();
    let path = path.split_once('"').unwrap().1;
    let (mut out, mut rest) = (String::new(), path.chars().peekable());
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('"', Some('"')) => out.push(rest.next().unwrap()),
            ('"', _) => return out,
            (c, _) => out.push(c),
        }
    }
    panic!("{text:?} has no end of quotes");
}

/// §4.1.1: CDUP has the replies of CWD, and a refused CWD changes nothing.
#[test]
fn cwd_cdup_and_pwd_agree() {
    let server = TestServer::new();
    std::fs::create_dir_all(server.root.join("a/b")).unwrap();
    server.put("f", "");
    let mut ftp = fresh(&server);
    for (line, code, after) in [
        ("CWD a", 250, "/a"),
        ("CWD b", 250, "/a/b"),
        ("CWD nothing", 550, "/a/b"),
        ("CWD /f", 550, "/a/b"),
        ("CDUP", 250, "/a"),
        ("CWD ../a/./b/..", 250, "/a"),
        ("CDUP", 250, "/"),
        ("CDUP", 250, "/"),
        ("CWD", 501, "/"),
    ] {
        ftp.ok(line, code);
        assert_eq!(quoted(&ftp.ok("PWD", 257).text()), after, "{line}");
    }
}

/// Appendix II: a quote in the path is doubled, and the path in MKD's 257 is a valid argument of
/// CWD.
#[test]
fn the_path_of_a_257_is_a_valid_argument() {
    let server = TestServer::new();
    let mut ftp = fresh(&server);
    for name in [
        "plain",
        "with blank",
        "qu\"ote",
        "\"",
        "\"\"",
        "end\"",
        "257 x",
        "€",
    ] {
        ftp.ok("CWD /", 250);
        let made = quoted(&ftp.ok(&format!("MKD {name}"), 257).text());
        assert_eq!(made, format!("/{name}"));
        ftp.ok(&format!("CWD {made}"), 250);
        assert_eq!(quoted(&ftp.ok("PWD", 257).text()), made);
    }
}

/// §4.1.1: a transfer in progress is completed and answered before QUIT closes the session.
#[test]
fn quit_waits_for_the_transfer() {
    let server = TestServer::new();
    let mut ftp = server.login();
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    ftp.send("QUIT");
    data.write(b"all of it");
    data.finish();
    let codes: Vec<u16> = ftp.rest().iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [226, 221]);
    assert_eq!(server.get("f"), b"all of it");
}

/// §4.1.2, §5.1: the initial TYPE is A, as with the Globus server, and TYPE I stays in force.
#[test]
fn the_initial_type_is_a() {
    let server = TestServer::new();
    server.put("f", "a\nb\n");
    let mut ftp = fresh(&server);
    assert_eq!(ftp.fetch("f"), b"a\r\nb\r\n");
    assert_eq!(ftp.store("STOR g", b"c\r\nd\r\n").code, 226);
    assert_eq!(server.get("g"), b"c\nd\n");
    ftp.ok("TYPE I", 200);
    for _ in 0..2 {
        assert_eq!(ftp.fetch("f"), b"a\nb\n");
    }
    ftp.ok("TYPE Q", 501);
    assert_eq!(ftp.fetch("f"), b"a\nb\n", "a refused TYPE changes nothing");
}

/// §4.1.3: DELE removes files only, RMD directories only.
#[test]
fn dele_removes_files_and_rmd_directories() {
    let server = TestServer::new();
    std::fs::create_dir(server.root.join("d")).unwrap();
    server.put("f", "x");
    table(
        &mut fresh(&server),
        "
        550  DELE d  RMD f
        250  DELE f  RMD d
        ",
    );
}

/// §4.1.3: ABOR without a command in progress closes an open data connection, and gets 226.
#[test]
fn abor_when_idle_closes_the_data_connection() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = fresh(&server);
    let data = ftp.data();
    ftp.ok("ABOR", 226);
    let mut byte = [0];
    let read = std::io::Read::read(&mut &data.0, &mut byte);
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    ftp.ok("RETR f", 425);
}

/// §4.1.3: without an argument LIST and NLST list the working directory; STAT with a path sends
/// the lines of LIST on the control connection.
#[test]
fn listings_without_an_argument_are_of_the_working_directory() {
    let server = TestServer::new();
    std::fs::create_dir(server.root.join("d")).unwrap();
    server.put("d/one", "1");
    server.put("d/two", "22");
    server.put("other", "");
    let mut ftp = fresh(&server);
    ftp.ok("CWD d", 250);
    assert_eq!(lines(ftp.get("NLST")), ["one", "two"]);
    let long = lines(ftp.get("LIST"));
    assert_eq!(long, lines(ftp.get("LIST /d")));
    let mut stat = crate::inner(&ftp.ok("STAT .", 213));
    stat.sort();
    assert_eq!(stat, long);
    // RFC 959 has 211 for the system's own status; the Globus server sends 212.
    ftp.ok("STAT", 212);
}

/// §4.1.3: HELP is allowed before USER; its argument names a command.
#[test]
fn help_needs_no_login() {
    let server = TestServer::new();
    let mut ftp = server.connect();
    let all = ftp.ok("HELP", 214).text();
    for name in all.lines().filter(|line| line.starts_with(' ')) {
        for name in name.split_whitespace() {
            let one = ftp.ok(&format!("HELP {name}"), 214);
            assert!(one.lines[1].trim().starts_with(name), "{one:?}");
        }
    }
    ftp.ok("HELP NOSUCH", 502);
    ftp.ok("HELP SITE", 214);
}

/// §4.1.2: a new PORT replaces the data port that was set before.
#[test]
fn the_last_data_port_is_used() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = fresh(&server);
    let forgotten = ftp.port();
    let passive = ftp.data();
    let listener = ftp.port();
    assert_eq!(retrieve_to(&mut ftp, &listener, "f").0, b"x");
    forgotten.set_nonblocking(true).unwrap();
    assert!(forgotten.accept().is_err(), "the first port was used");
    let read = std::io::Read::read(&mut &passive.0, &mut [0]);
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

//! RFC 959 §4.1: what the commands do.

use crate::support::TestServer;
use crate::{fresh, lines, retrieve_to, table};

/// The path in a 257, its doubled quotes made single (RFC 959, appendix II).
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

/// §4.1.1: the replies to CDUP are those of CWD; a directory that cannot be entered is not entered.
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

/// Appendix II: a quote within the path is doubled, and the path of MKD's 257 serves as argument of CWD.
#[test]
fn the_path_in_a_257_serves_as_argument() {
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

/// §4.1.1: when QUIT comes during a transfer, that is finished and answered before the server closes.
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

/// §4.1.2, §5.1: TYPE begins as A (as it does with the Globus server), and TYPE I stays in force once it is said.
#[test]
fn a_session_begins_in_type_a() {
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

/// §4.1.3: DELE is for files, RMD for directories, and neither does the other's work.
#[test]
fn dele_and_rmd_do_not_meet() {
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

/// §4.1.3: ABOR after the end of the command closes a data connection that is open still, and is answered 226.
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

/// §4.1.3: without an argument LIST and NLST mean the working directory, and STAT with one answers as LIST does,
/// on the control connection.
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
    // RFC 959 has 211 for the system's own status; 212 is what the Globus server says.
    ftp.ok("STAT", 212);
}

/// §4.1.3: HELP may be asked before USER; with an argument it is of that command.
#[test]
fn help_is_given_to_strangers() {
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

/// §4.1.2: a new PORT is good at once, whichever set-up stood before it, and takes its place.
#[test]
fn the_last_set_up_counts() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = fresh(&server);
    let forgotten = ftp.port();
    let passive = ftp.data();
    let listener = ftp.port();
    assert_eq!(retrieve_to(&mut ftp, &listener, "f").0, b"x");
    forgotten.set_nonblocking(true).unwrap();
    assert!(forgotten.accept().is_err(), "nothing came to the first");
    let read = std::io::Read::read(&mut &passive.0, &mut [0]);
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

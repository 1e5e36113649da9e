//! RFC 959 §4.2: the form of replies.

use crate::support::{Reply, TestServer};

/// Checks the form: a single line is `ddd text`; of several lines the first is `ddd-text`, the last
/// `ddd text` with the same code. No line between may look like a last line of any code, since
/// clients of the Grid Community Toolkit end the reply there.
#[track_caller]
fn assert_well_formed(reply: &Reply) {
    let code = reply.code.to_string();
    let (last, before) = reply.lines.split_last().unwrap();
    assert!((100..700).contains(&reply.code), "{reply:?}");
    assert!(last.starts_with(&format!("{code} ")), "{reply:?}");
    if let Some((first, inner)) = before.split_first() {
        assert!(first.starts_with(&format!("{code}-")), "{reply:?}");
        for line in inner {
            let digits = line.bytes().take_while(u8::is_ascii_digit).count();
            assert!(
                digits != 3 || line.starts_with(&format!("{code}-")),
                "{reply:?}"
            );
        }
    }
    for line in &reply.lines {
        assert!(!line.contains(['\r', '\0']), "{reply:?}");
    }
}

/// §4.2: file names that look like replies do not end a reply.
#[test]
fn names_that_look_like_replies_end_no_reply() {
    let server = TestServer::new();
    let mut ftp = server.connect();
    for line in ["HELP", "FEAT", "SITE HELP", "PWD", "NOSUCH", ""] {
        assert_well_formed(&ftp.cmd(line));
    }
    ftp.login("anonymous", "test@");
    for name in [
        "226 Transfer Complete.",
        "250 End.",
        "213-x",
        " 550 x",
        "200",
    ] {
        for line in [
            "MKD %", "MKD %", "STAT %", "MLST %", "MLSC /", "STAT /", "CWD %", "PWD",
        ] {
            assert_well_formed(&ftp.cmd(&line.replace('%', name)));
        }
        for line in [
            "RETR %", "SIZE %", "MLST %/x", "RNFR %/x", "DELE %", "CWD %/x", "CWD /",
        ] {
            assert_well_formed(&ftp.cmd(&line.replace('%', name)));
        }
    }
    for line in [
        "FEAT", "HELP", "HELP %", "TYPE %", "MODE %", "LANG %", "OPTS %", "SITE %", "STAT",
    ] {
        assert_well_formed(&ftp.cmd(&line.replace('%', "200 x")));
    }
    ftp.ok("NOOP", 200);
}

/// §4.2: a line end in a name, which a local program can create, ends no line of a reply.
#[test]
fn a_line_end_in_a_name_ends_no_line() {
    let server = TestServer::new();
    server.put("x\r\n226 forged", "");
    let mut ftp = server.connect();
    ftp.login("anonymous", "test@");
    for line in ["MLSC /", "STAT /"] {
        assert_well_formed(&ftp.cmd(line));
        ftp.ok("NOOP", 200);
    }
}

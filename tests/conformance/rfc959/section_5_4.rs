//! RFC 959 §5.4: the reply codes of each command.

use std::collections::BTreeSet;

use crate::support::TestServer;

/// Codes that may answer every command (§5.4, §4.2).
const ANY: &[u16] = &[421, 500, 501, 502, 530];

/// A row holds the codes of §5.4 besides [`ANY`], further codes that we send, and lines of one
/// command separated by two blanks. The further codes are those of the Globus server, unless a
/// remark gives another reason.
const ROWS: &str = "
    202 230 503 | | ACCT x  ACCT
    250 550 | | CWD d  CWD /  CWD f  CWD none  CWD
    # §4.1.1 gives CDUP the codes of CWD, §5.4 has 200: they cannot both be right.
    200 250 550 | | CDUP
    202 250 550 | | SMNT x
    120 220 | | REIN
    200 | | PORT 127,0,0,1,200,1  PORT 1,2  PORT  PORT 127,0,0,1,0,21
    227 | | PASV
    200 504 | | MODE S  MODE B  MODE C  MODE X  MODE
    200 504 | | TYPE A  TYPE E  TYPE L 8  TYPE L 36  TYPE X  TYPE
    200 504 | | STRU F  STRU R  STRU P  STRU X  STRU
    200 202 504 | | ALLO 5  ALLO 5 R 5  ALLO x  ALLO
    350 | | REST 0  REST x  REST
    # Without a data connection; transfers with one are tested below.
    425 451 551 552 532 450 452 553 | | STOR f  STOR d  STOR none/f  STOR
    425 451 551 552 532 450 452 553 | | STOU
    425 426 451 450 550 | | RETR f  RETR none  RETR
    425 426 451 450 | | LIST  LIST none
    425 426 451 450 | | NLST  NLST none
    425 426 451 551 552 532 450 550 452 553 | | APPE f  APPE
    450 550 350 | | RNFR f  RNFR none  RNFR
    250 532 553 503 | | RNTO g  RNTO
    250 450 550 | | DELE gone  DELE d  DELE none  DELE
    250 550 | | RMD away  RMD f  RMD none  RMD
    257 550 | | MKD made  MKD d  MKD none/x  MKD
    257 550 | | PWD
    225 226 | | ABOR
    215 | | SYST
    # For a missing object §5.4 has 450, which means that it may exist soon.
    211 212 213 450 | 550 | STAT  STAT f  STAT d  STAT none
    211 214 | | HELP  HELP RETR  HELP NOSUCH
    200 202 | 214 250 | SITE HELP  SITE CHMOD 644 f  SITE NOSUCH  SITE
    200 | | NOOP
    230 331 332 | 503 | USER x  USER
    230 202 503 332 | | PASS x
";

/// Returns the rows: listed codes, further codes, lines.
fn rows() -> impl Iterator<Item = (Vec<u16>, Vec<u16>, Vec<&'static str>)> {
    let rows = ROWS.lines().map(str::trim);
    rows.filter(|row| !row.is_empty() && !row.starts_with('#'))
        .map(|row| {
            let mut cells = row.splitn(3, '|').map(str::trim);
            let mut codes = || -> Vec<u16> {
                let codes = cells.next().unwrap().split_whitespace();
                codes.map(|code| code.parse().unwrap()).collect()
            };
            let (listed, ours) = (codes(), codes());
            (listed, ours, cells.next().unwrap().split("  ").collect())
        })
}

/// Starts a server with the names that the rows use.
fn server() -> TestServer {
    let server = TestServer::new();
    for dir in ["d", "away"] {
        std::fs::create_dir(server.root.join(dir)).unwrap();
    }
    server.put("d/inside", "");
    for file in ["f", "gone"] {
        server.put(file, "x");
    }
    server
}

/// §5.4: every reply code is listed for its command.
#[test]
fn reply_codes_are_listed_for_their_command() {
    let server = server();
    let mut wrong = Vec::new();
    for (listed, ours, lines) in rows() {
        // A session for each row, so that no row changes the state of the next.
        let mut ftp = server.login();
        let mut seen = BTreeSet::new();
        for line in &lines {
            ftp.ok("CWD /", 250);
            let code = ftp.cmd(line).code;
            seen.insert(code);
            if ![ANY, &listed, &ours]
                .iter()
                .any(|codes| codes.contains(&code))
            {
                wrong.push(format!("{line}: {code}"));
            }
        }
        if let Some(stale) = ours.iter().find(|code| !seen.contains(*code)) {
            wrong.push(format!("{lines:?}: {stale} is allowed, and was never sent"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// §5.4: before the login a command of the table gets 530, unless it needs no login.
#[test]
fn commands_before_the_login_get_530() {
    let server = server();
    for (.., lines) in rows() {
        let mut ftp = server.connect();
        let code = ftp.cmd(lines[0]).code;
        let verb = lines[0].split(' ').next().unwrap();
        match verb {
            "USER" => assert_eq!(code, 331),
            "PASS" => assert_eq!(code, 503),
            "HELP" | "SITE" => assert_eq!(code, 214),
            "NOOP" => assert_eq!(code, 200),
            // Not implemented.
            "SMNT" | "REIN" | "STOU" => assert_eq!(code, 502),
            _ => assert_eq!(code, 530, "{verb}"),
        }
    }
}

/// §5.4: a transfer gets 125 or 150 and then 226 or 250, or one reply that refuses it.
#[test]
fn transfers_get_two_replies_or_one_refusal() {
    let server = server();
    let mut ftp = server.login();
    for line in ["RETR f", "LIST", "LIST d", "NLST", "NLST d"] {
        let data = ftp.data();
        let first = ftp.cmd(line).code;
        assert!([125, 150].contains(&first), "{line}: {first}");
        data.read();
        let last = ftp.reply().code;
        assert!([226, 250].contains(&last), "{line}: {last}");
    }
    // §5.4 has 450 for LIST and NLST, and 553 for STOR. 550 says clearly that a retry will not
    // help.
    for line in [
        "RETR none",
        "RETR d",
        "LIST none",
        "NLST none",
        "STOR d",
        "STOR none/f",
        "APPE d",
    ] {
        ftp.pasv();
        ftp.ok(line, 550);
        ftp.ok("NOOP", 200);
    }
}

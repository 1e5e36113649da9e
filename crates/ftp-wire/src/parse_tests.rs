//! Tables of every command, its rewritten form, and every error.

use proptest::prelude::*;

use super::*;
use crate::command::{BufferSide, Family, SiteCommand, Spot, StackSide, StorAttr, Tag};
use crate::facts::TimeVal;
use crate::path::FtpPath;
use crate::receipt::Extent;
use crate::reply::Code;

/// Received line, and the line of `write_to`; empty when equal.
const LINES: &[(&str, &str)] = &[
    ("USER anonymous", ""),
    ("user a b", "USER a b"),
    ("USER :globus-mapping:", ""),
    ("PASS globus@", ""),
    ("PASS ", ""),
    ("PASS", "PASS "),
    ("PASS  two blanks", ""),
    ("ACCT physics 7", ""),
    ("CWD /a b /c ", ""),
    ("XCWD ..", "CWD .."),
    ("CDUP", ""),
    ("xcup", "CDUP"),
    ("QUIT now", "QUIT"),
    ("PORT 127,0,0,1,216,181", ""),
    ("EPRT |1|127.0.0.1|34409|", ""),
    ("EPRT !2!::1!5!", "EPRT |2|::1|5|"),
    ("SPOR 127,0,0,1,0,21 |2|::1|80|", ""),
    ("PASV", ""),
    ("EPSV", ""),
    ("EPSV 1", ""),
    ("EPSV 2", ""),
    ("epsv all", "EPSV ALL"),
    ("SPAS", ""),
    ("SPAS 2", ""),
    ("TYPE A", ""),
    ("TYPE a n", "TYPE A"),
    ("TYPE A T", "TYPE A"),
    ("TYPE I", ""),
    ("TYPE L 8", "TYPE I"),
    ("STRU F", ""),
    ("STRU r", "STRU R"),
    ("MODE s", "MODE S"),
    ("MODE E", ""),
    ("RETR a  b ", ""),
    ("RETR /€/\u{fe}", ""),
    ("STOR x", ""),
    ("APPE x", ""),
    ("ERET P 5 10 a b", ""),
    ("eret p 5 -1 a", "ERET P 5 -1 a"),
    ("ERET P 18446744073709551615 0 a", ""),
    ("ERET mod=\"a b\" c d", ""),
    ("ERET mod=a c d", ""),
    ("ERET tag=7 a b", ""),
    ("ERET tag=7,P,5,10 a", ""),
    ("ERET tag=18446744073709551615,P,5,-1 a", ""),
    ("ERET tag=7,P,18446744073709551615,1 a", ""),
    ("ERET tag=7,E a", ""),
    ("ESTO A 100 a b", ""),
    ("ESTO tag=0 a b", ""),
    ("ESTO tag=7,A,100 a", ""),
    ("ESTO tag=7,E a", ""),
    ("ESTO tag=+7 a", ""),
    ("ESTO tag= a", ""),
    ("ESTO mod=\"\" x", ""),
    ("ALLO 10485760", ""),
    ("ALLO 5 R 10", "ALLO 5"),
    ("REST 0", ""),
    ("REST 18446744073709551615", ""),
    ("REST 0-10,20-30", ""),
    ("REST 20-30,0-10,5-20", "REST 0-30"),
    ("REST 0-0", ""),
    ("ABOR", ""),
    ("LIST", ""),
    ("LIST ", "LIST"),
    ("LIST -la", "LIST"),
    ("LIST -l -a a b", "LIST a b"),
    ("NLST -1 *.nc", "NLST *.nc"),
    ("MLSD", ""),
    ("MLSD -la", ""),
    ("MLSR /d", ""),
    ("MLST /d e", ""),
    ("MLSC .", ""),
    ("RNFR a b", ""),
    ("RNTO a b", ""),
    ("DELE a b", ""),
    ("RMD a", ""),
    ("XRMD a", "RMD a"),
    ("MKD €uro", ""),
    ("XMKD a", "MKD a"),
    ("PWD", ""),
    ("XPWD", "PWD"),
    ("SIZE a", ""),
    ("MDTM a", ""),
    ("MDTM 20261120194724 a", ""),
    ("MFMT 20261120194724 a b", ""),
    ("MFMT 20261120194724.250 a", ""),
    ("CKSM MD5 0 -1 a b", ""),
    ("CKSM sha256 5 10 a", ""),
    (
        "SCKS md5 D41D8CD98F00B204E9800998ECF8427E",
        "SCKS md5 d41d8cd98f00b204e9800998ecf8427e",
    ),
    ("HELP", ""),
    ("HELP  retr ", "HELP retr"),
    ("HELP SITE", ""),
    ("NOOP x", "NOOP"),
    ("NOOP\tx", "NOOP"),
    ("FEAT", ""),
    ("OPTS RETR Parallelism=4,4,4;", ""),
    ("opts retr parallelism=2", "OPTS RETR Parallelism=2,2,2;"),
    ("OPTS PASV AllowDelayed=1;", ""),
    ("OPTS MLST Type;Size;", ""),
    ("OPTS MLSR OnError=Fail;", ""),
    ("OPTS CKSM markers=5;", ""),
    ("OPTS UTF8", "OPTS UTF8 ON"),
    ("SYST", ""),
    ("STAT", ""),
    ("STAT -l a", "STAT a"),
    ("LANG", ""),
    ("LANG EN", ""),
    ("SBUF 1048576", ""),
    ("TREV PERF 5", ""),
    ("TREV restart 0", "TREV RESTART 0"),
    ("SITE HELP", ""),
    ("site help CHMOD", "SITE HELP CHMOD"),
    ("SITE SBUF 5", ""),
    ("SITE BUFSIZE 5", "SITE SBUF 5"),
    ("SITE RETRBUFSIZE 5", ""),
    ("SITE RBUFSZ 5", "SITE RETRBUFSIZE 5"),
    ("SITE RBUFSIZ 5", "SITE RETRBUFSIZE 5"),
    ("SITE STORBUFSIZE 5", ""),
    ("SITE SBUFSZ 5", "SITE STORBUFSIZE 5"),
    ("SITE SBUFSIZ 5", "SITE STORBUFSIZE 5"),
    ("SITE CHMOD 644 a b", "SITE CHMOD 0644 a b"),
    ("SITE CHGRP users a b", ""),
    ("SITE UTIME 20261120194724 a b", ""),
    ("SITE SYMLINKFROM ../x y", ""),
    ("SITE SYMLINKTO a b", ""),
    ("SITE SYMLINK ../x a b", ""),
    ("SITE RDEL a b", ""),
    ("SITE TRNC 5 a b", ""),
    ("SITE HELD a b", ""),
    ("SITE STAGE 30 a b", ""),
    ("SITE DELHELD a b", ""),
    ("AVBL a b", ""),
    ("SITE XATTR a b", ""),
    ("SITE SETXATTR user.a%20b=AA== a b", ""),
    ("SITE WHOAMI", ""),
    ("SITE WAITS", ""),
    ("SITE RATE 1000", ""),
    ("SITE VERSION", ""),
    ("SITE CLIENTINFO scheme=ftp;appname=\"x y\";", ""),
    ("SITE TASKID 5 6", ""),
    (
        "SITE STORATTR modify=20261120194724;x.checksum.md5=00FF;",
        "SITE STORATTR modify=20261120194724;x.checksum.md5=00ff;",
    ),
    ("SITE STORATTR frob=1", "SITE STORATTR ;"),
    ("SITE STORATTR x.exclusive=1;", ""),
    ("SITE SETNETSTACK udt,gsi", ""),
    ("SITE SETDISKSTACK DEFAULT", "SITE SETDISKSTACK default"),
    ("SITE RESTRICT /a,R/b", ""),
    ("SITE CHROOT /a b", ""),
    ("AUTH GSSAPI", ""),
    ("ADAT QUJD", ""),
    ("PBSZ 0", ""),
    ("PROT p", "PROT P"),
    ("DCAU N", ""),
    ("DCAU a", "DCAU A"),
    ("DCAU S /O=Grid/CN=a b", ""),
    ("DCSC D", ""),
    ("DCSC P QUJD", ""),
];

#[test]
fn every_command_parses_and_is_written_again() {
    for (line, sent) in LINES {
        let command = Command::parse(line.as_bytes()).unwrap_or_else(|bad| panic!("{line}: {bad}"));
        let sent = if sent.is_empty() { line } else { sent };
        let mut wire = Vec::new();
        command.write_to(&mut wire);
        assert_eq!(String::from_utf8_lossy(&wire), format!("{sent}\r\n"));
        // The written line parses to the same command.
        assert_eq!(
            Command::parse(sent.as_bytes()).as_ref(),
            Ok(&command),
            "{sent}"
        );
    }
}

#[test]
fn the_table_leaves_no_verb_out() {
    for (name, syntax) in verbs().chain(site_verbs()) {
        assert!(syntax.starts_with(name));
        let covered = LINES.iter().any(|(line, _)| {
            let line = line.to_ascii_uppercase();
            line == name || line.starts_with(&format!("{name} "))
        });
        assert!(covered, "{name}");
    }
    for (alias, name) in ALIASES {
        assert!(verbs().any(|(verb, _)| verb == *name), "{alias}");
    }
    let both = ABSENT
        .iter()
        .find(|absent| verbs().any(|(verb, _)| verb == **absent));
    assert_eq!(both, None);
}

#[test]
fn arguments_become_values() {
    let path = |text: &str| FtpPath::new(text).unwrap();
    let parse = |line: &str| Command::parse(line.as_bytes()).unwrap();
    let time = TimeVal::parse(b"20261120194724").unwrap();
    assert_eq!(
        parse("SITE CHMOD 0755 a"),
        Command::Site(SiteCommand::Chmod(0o755, path("a")))
    );
    assert_eq!(
        parse("SITE RBUFSZ 9"),
        Command::Site(SiteCommand::Buffer(BufferSide::Receive, 9))
    );
    assert_eq!(
        parse("MFMT  20261120194724 a b"),
        Command::Mfmt(time, path("a b"))
    );
    assert_eq!(parse("SPAS 1"), Command::Spas(Some(Family::V4)));
    assert_eq!(
        parse("ESTO tag=7,A,5 x"),
        Command::Esto(
            Esto::Tagged {
                tag: Tag::new(7, Extent::Head),
                spot: Spot::At(5)
            },
            path("x")
        )
    );
    for (line, extent) in [
        ("ESTO tag=7,S,5 x", Extent::Head),
        ("ESTO digest=7,S,5 x", Extent::Whole),
    ] {
        let (tag, spot) = (Tag::new(7, extent), Spot::Sized(5));
        let sized = Command::Esto(Esto::Tagged { tag, spot }, path("x"));
        assert_eq!(parse(line), sized);
    }
    for other in [
        "tag=7,A",
        "tag=7,S",
        "tag=7,S,-5",
        "digest=",
        "tag=-1",
        "tag=7,E,1",
        "tag=18446744073709551616",
    ] {
        let module = Esto::Module(other.to_owned());
        let command = Command::Esto(module, path("x"));
        assert_eq!(parse(&format!("ESTO {other} x")), command);
    }
    assert_eq!(
        parse("ERET P 1 -1 x"),
        Command::Eret(
            Eret::Partial {
                offset: 1,
                length: None
            },
            path("x")
        )
    );
    let attr = StorAttr {
        modified: Some(time),
        checksum: Some(("sha256".into(), "ab01".into())),
        exclusive: None,
    };
    let line = "SITE STORATTR MODIFY=20261120194724;X.Checksum.SHA256=AB01";
    assert_eq!(parse(line), Command::Site(SiteCommand::StorAttr(attr)));
    assert_eq!(parse("PASS  x"), Command::Pass(Secret::new(" x")));
}

/// Line, code of the reply, verb, byte of the fault.
const BAD: &[(&str, u16, Option<&str>, usize)] = &[
    ("", 500, None, 0),
    ("  \t ", 500, None, 0),
    (" NOOP", 500, None, 0),
    ("FROB", 500, None, 0),
    ("FROBNICATE x", 500, None, 0),
    ("GET / HTTP/1.1", 502, Some("GET"), 0),
    ("RETRX a", 500, None, 0),
    ("stou", 502, Some("STOU"), 0),
    ("REIN", 502, Some("REIN"), 0),
    ("SITE", 501, Some("SITE"), 4),
    ("SITE FROB x", 500, Some("SITE"), 5),
    ("SITE CHMOD", 501, Some("SITE CHMOD"), 10),
    ("SITE CHMOD 644", 501, Some("SITE CHMOD"), 14),
    ("SITE CHMOD 0999 a", 501, Some("SITE CHMOD"), 11),
    ("SITE CHMOD +644 a", 501, Some("SITE CHMOD"), 11),
    ("SITE CHMOD 10000 a", 501, Some("SITE CHMOD"), 11),
    ("SITE SBUF -1", 501, Some("SITE SBUF"), 10),
    ("SITE SYMLINK a", 501, Some("SITE SYMLINK"), 14),
    ("SITE STORATTR ", 501, Some("SITE STORATTR"), 14),
    ("SITE STORATTR x.exclusive=", 501, Some("SITE STORATTR"), 14),
    ("SITE STORATTR modify=x;", 501, Some("SITE STORATTR"), 14),
    (
        "SITE STORATTR a=b;x.checksum.md5=zz;",
        501,
        Some("SITE STORATTR"),
        18,
    ),
    ("USER", 501, Some("USER"), 4),
    ("USER   ", 501, Some("USER"), 7),
    ("RETR", 501, Some("RETR"), 4),
    ("TYPE", 501, Some("TYPE"), 4),
    ("TYPE X", 501, Some("TYPE"), 5),
    ("TYPE I N", 501, Some("TYPE"), 7),
    ("TYPE E", 504, Some("TYPE"), 5),
    ("TYPE A C", 504, Some("TYPE"), 5),
    ("TYPE L 36", 504, Some("TYPE"), 5),
    ("MODE B", 504, Some("MODE"), 5),
    ("MODE X", 501, Some("MODE"), 5),
    ("MODE SE", 501, Some("MODE"), 5),
    ("STRU 1", 501, Some("STRU"), 5),
    ("PORT", 501, Some("PORT"), 4),
    ("PORT 1,2,3,4,5", 501, Some("PORT"), 5),
    ("PORT 1,2,3,4,5,256", 501, Some("PORT"), 5),
    ("EPRT |1|127.0.0.1||", 501, Some("EPRT"), 5),
    ("EPRT |3|x|5|", 522, Some("EPRT"), 5),
    ("EPRT", 501, Some("EPRT"), 4),
    ("EPSV 3", 522, Some("EPSV"), 5),
    ("EPSV x", 501, Some("EPSV"), 5),
    ("SPAS 3", 522, Some("SPAS"), 5),
    ("SPOR", 501, Some("SPOR"), 4),
    ("SPOR 1,2,3,4,5,6 x", 501, Some("SPOR"), 5),
    ("ERET P 5", 501, Some("ERET"), 8),
    ("ERET P 5 10", 501, Some("ERET"), 11),
    ("ERET P 5 -2 a", 501, Some("ERET"), 9),
    ("ERET P 18446744073709551615 1 a", 501, Some("ERET"), 28),
    ("ERET Q 5 10 a", 501, Some("ERET"), 5),
    ("ERET =x a", 501, Some("ERET"), 5),
    ("ERET m=\"x a", 501, Some("ERET"), 5),
    ("ESTO A -1 a", 501, Some("ESTO"), 7),
    ("ALLO x", 501, Some("ALLO"), 5),
    ("ALLO 18446744073709551616", 501, Some("ALLO"), 5),
    ("ALLO 5 Q 6", 501, Some("ALLO"), 7),
    ("ALLO 5 R", 501, Some("ALLO"), 8),
    ("REST", 501, Some("REST"), 4),
    ("REST -5", 501, Some("REST"), 5),
    ("REST 5-3", 501, Some("REST"), 5),
    ("REST 10,20", 501, Some("REST"), 5),
    ("REST 0-10 20-30", 501, Some("REST"), 10),
    ("REST 18446744073709551616", 501, Some("REST"), 5),
    ("MFMT yesterday a", 501, Some("MFMT"), 5),
    ("CKSM MD5 0 -2 a", 501, Some("CKSM"), 11),
    ("CKSM MD5 -1 -1 a", 501, Some("CKSM"), 9),
    ("CKSM MD5 0", 501, Some("CKSM"), 10),
    ("SCKS MD5 xyz", 501, Some("SCKS"), 9),
    ("OPTS", 501, Some("OPTS"), 4),
    ("OPTS FROB x", 501, Some("OPTS"), 5),
    ("OPTS RETR Parallelism=0;", 501, Some("OPTS"), 10),
    ("OPTS UTF8 OFF", 504, Some("OPTS"), 10),
    ("TREV PERF", 501, Some("TREV"), 9),
    ("TREV FROB 5", 504, Some("TREV"), 5),
    ("TREV PERF 4294967296", 501, Some("TREV"), 10),
    ("DCAU", 501, Some("DCAU"), 4),
    ("DCAU S", 501, Some("DCAU"), 6),
    ("DCAU X", 504, Some("DCAU"), 5),
    ("PBSZ x", 501, Some("PBSZ"), 5),
    ("PROT 1", 501, Some("PROT"), 5),
];

/// RFC 959 §5.3: one blank separates a verb from its argument; the rest is the name.
#[test]
fn a_name_keeps_its_blanks_and_control_bytes() {
    let parse = |line: &str| Command::parse(line.as_bytes()).unwrap();
    let path = |text: &str| FtpPath::new(text).unwrap();
    for (line, name) in [
        ("DELE  x", " x"),
        ("DELE \tx", "\tx"),
        ("DELE x ", "x "),
        ("DELE  ", " "),
        ("DELE a\x01\x7fb", "a\x01\x7fb"),
        ("dele\t x", " x"),
    ] {
        assert_eq!(parse(line), Command::Dele(path(name)), "{line:?}");
    }
    assert_eq!(parse("MLSD  x"), Command::Mlsd(Some(path(" x"))));
    assert_eq!(parse("LIST -la  x"), Command::List(Some(path(" x"))));
    assert_eq!(parse("LIST  -la"), Command::List(Some(path(" -la"))));
    for line in ["LIST", "LIST ", "LIST -la", "LIST -la "] {
        assert_eq!(parse(line), Command::List(None), "{line:?}");
    }
    assert_eq!(
        parse("SITE  RDEL  x"),
        Command::Site(SiteCommand::Rdel(path(" x")))
    );
    assert_eq!(
        parse("SITE CHMOD  755  a"),
        Command::Site(SiteCommand::Chmod(0o755, path(" a")))
    );
    assert_eq!(
        parse("CKSM MD5  0 -1  x"),
        Command::Cksm {
            algorithm: "MD5".to_owned(),
            offset: 0,
            length: None,
            path: path(" x"),
        }
    );
}

#[test]
fn every_error_has_its_code_its_verb_and_its_place() {
    for (line, code, verb, at) in BAD {
        let bad = Command::parse(line.as_bytes()).expect_err(line);
        let found = (bad.code(), bad.verb(), bad.at());
        assert_eq!(
            found,
            (Code::new(*code).unwrap(), *verb, *at),
            "{line}: {bad}"
        );
        assert!(!bad.to_string().contains('\n'));
    }
    for line in [
        &b"USER \xff"[..],
        b"PASS \xff",
        b"CKSM \xff 0 -1 a",
        b"DCAU S \xff",
    ] {
        assert_eq!(Command::parse(line).unwrap_err().code(), Code::of::<501>());
    }
    for byte in [0, b'\r', b'\n'] {
        let bad = Command::parse(&[b'C', b'W', b'D', b' ', b'a', byte, b'b']).unwrap_err();
        assert_eq!((bad.code(), bad.at()), (Code::of::<501>(), 5));
    }
    let many: Vec<_> = (0..=MAX_RANGES)
        .map(|i| format!("{}-{}", i * 2, i * 2 + 1))
        .collect();
    let line = format!("REST {}", many.join(","));
    assert_eq!(
        Command::parse(line.as_bytes()).unwrap_err().code(),
        Code::of::<501>()
    );
}

#[test]
fn non_utf8_paths_are_kept_as_they_are() {
    let Ok(Command::Dele(path)) = Command::parse(b"DELE \xff\xfe ") else {
        panic!()
    };
    assert_eq!(path.as_bytes(), b"\xff\xfe ");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_line_panics_and_parsed_commands_round_trip(
        verb in prop::sample::select(verbs().chain(site_verbs()).map(|(name, _)| name).collect::<Vec<_>>()),
        args in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            "[AEPSR0-9|,;=\" .-]{0,30}".prop_map(String::into_bytes),
        ],
    ) {
        let line = [verb.as_bytes(), b" ", &args].concat();
        let Ok(command) = Command::parse(&line) else { return Ok(()) };
        let mut wire = Vec::new();
        command.write_to(&mut wire);
        let mut lines = crate::line::LineSplitter::new();
        lines.push(&wire);
        if let Some(Ok(line)) = lines.next_line()
            && let Ok(again) = Command::parse(line)
        {
            // A name that begins with a blank gets the prefix `./` only once.
            let mut second = Vec::new();
            again.write_to(&mut second);
            prop_assert_eq!(second, wire);
        }
    }
}

#[test]
fn stacks_are_named_or_the_default() {
    let net = |text: Option<&str>| SiteCommand::Stack(StackSide::Net, text.map(str::to_owned));
    for (line, site) in [
        (&b"SITE SETNETSTACK udt,gsi"[..], net(Some("udt,gsi"))),
        (b"site setnetstack  udt ", net(Some("udt"))),
        (b"SITE SETNETSTACK Default", net(None)),
        (
            b"SITE SETDISKSTACK file,compress:codec=zlib",
            SiteCommand::Stack(StackSide::Disk, Some("file,compress:codec=zlib".to_owned())),
        ),
    ] {
        assert_eq!(Command::parse(line).unwrap(), Command::Site(site));
    }
    assert!(Command::parse(b"SITE SETNETSTACK").is_err());
    assert!(Command::parse(b"SITE SETDISKSTACK ").is_err());
}

//! The literal replies of the server, one row a command.

use ftp_wire::attribute::Attribute;
use ftp_wire::facts::EntryKind;

use super::{Rig, entry, listening, refused, settings};
use crate::server::{Ending, Input};
use crate::types::{Action, Event, Names, Outcome};

/// Replies that need no action.
const AT_ONCE: &[(&str, &str)] = &[
    ("NOOP", "200 NOOP command successful.\r\n"),
    ("noop trailing words", "200 NOOP command successful.\r\n"),
    ("SYST", "215 UNIX Type: L8\r\n"),
    ("STAT", "212 GridFTP server status.\r\n"),
    ("TYPE I", "200 Type set to I.\r\n"),
    ("TYPE A", "200 Type set to A.\r\n"),
    ("TYPE A T", "200 Type set to A.\r\n"),
    ("ACCT 42", "202 ACCT is superfluous at this site.\r\n"),
    ("TYPE L 8", "200 Type set to I.\r\n"),
    ("TYPE X", "501 'TYPE X' unrecognized type.\r\n"),
    ("MODE E", "200 Mode set to E.\r\n"),
    ("MODE S", "200 Mode set to S.\r\n"),
    ("MODE B", "501 'MODE B' unrecognized transfer mode.\r\n"),
    ("STRU F", "200 STRU F ok.\r\n"),
    ("STRU R", "501 Syntax error in parameter.\r\n"),
    ("LANG EN", "200 lang set to EN.\r\n"),
    ("LANG", "200 lang set to EN.\r\n"),
    ("LANG en-US", "200 lang set to EN.\r\n"),
    ("LANG FR", "501 'LANG FR' unrecognized language.\r\n"),
    ("PBSZ 65536", "200 PBSZ=65536\r\n"),
    ("PBSZ 4294967296", "501 Bad value for PBSZ: 4294967296\r\n"),
    ("PROT C", "200 Protection level set to C.\r\n"),
    ("PROT P", "536 P protection level not supported.\r\n"),
    ("DCAU N", "200 DCAU N.\r\n"),
    ("DCAU A", "504 Bad DCAU mode.\r\n"),
    ("AUTH TLS", "504 Unknown authentication type.\r\n"),
    (
        "DCSC D",
        "502 DCSC needs Grid security, which this server does not offer.\r\n",
    ),
    ("SBUF 65536", "200 SBUF Command Successful.\r\n"),
    ("ALLO 100", "200 ALLO command successful.\r\n"),
    ("ALLO 100 R 10", "200 ALLO command successful.\r\n"),
    ("ALLO x", "501 Syntax error in parameters or arguments.\r\n"),
    (
        "REST 100",
        "350 Restart Marker OK. Send STORE or RETR to initiate transfer.\r\n",
    ),
    (
        "REST 0-10,20-30",
        "350 Restart Marker OK. Send STORE or RETR to initiate transfer.\r\n",
    ),
    ("REST x", "501 bad parameter.\r\n"),
    ("TREV PERF 2", "200 Command Successful.\r\n"),
    ("TREV RESTART 0", "200 Command Successful.\r\n"),
    ("TREV OTHER 1", "502 Unsupported event.\r\n"),
    (
        "TREV PERF",
        "501 Syntax error in parameters or arguments.\r\n",
    ),
    (
        "OPTS RETR Parallelism=4,4,4;",
        "200 OPTS Command Successful.\r\n",
    ),
    ("OPTS RETR Parallelism=0,0,0;", "500 OPTS failed.\r\n"),
    (
        "OPTS PASV AllowDelayed=1;",
        "200 OPTS Command Successful.\r\n",
    ),
    ("OPTS CKSM markers=2;", "200 OPTS Command Successful.\r\n"),
    ("OPTS UTF8 ON", "200 OPTS Command Successful.\r\n"),
    ("OPTS STOR Eager=1;", "500 OPTS failed.\r\n"),
    ("OPTS NONSENSE x=1;", "500 OPTS failed.\r\n"),
    ("ABOR", "226 Abort successful\r\n"),
    ("PWD", "257 \"/home/ann\" is current directory.\r\n"),
    ("EPSV ALL", "229 EPSV ALL Successful.\r\n"),
    ("EPSV x", "501 Invalid network command.\r\n"),
    (
        "EPSV 3",
        "522 Network protocol not supported, use (1,2).\r\n",
    ),
    (
        "EPRT |3|127.0.0.1|2000|",
        "522 Network protocol not supported, use (1,2).\r\n",
    ),
    ("PORT 1,2,3", "501 Illegal PORT command.\r\n"),
    (
        "PORT 127,0,0,1,0,25",
        "500 Illegal PORT command: ports below 1024 are refused.\r\n",
    ),
    (
        "PORT 127,0,0,2,100,1",
        "500 Illegal PORT command: data goes to the client's own host only, see the server's --third-party.\r\n",
    ),
    ("SCKS MD5 00ff", "200 OK.\r\n"),
    (
        "SCKS WHIRLPOOL 00ff",
        "500 Unknown checksum algorithm requested.\r\n",
    ),
    (
        "CKSM WHIRLPOOL 0 -1 /x",
        "500 Unknown checksum algorithm requested.\r\n",
    ),
    ("RNTO /x", "501 Invalid command arguments.\r\n"),
    ("SITE SYMLINKTO /x", "501 Invalid command arguments.\r\n"),
    (
        "SITE SYMLINKFROM /x",
        "350 OK. Send SITE SYMLINKTO with symlink name.\r\n",
    ),
    ("SITE SBUF 100", "200 Site Command Successful.\r\n"),
    ("SITE RETRBUFSIZE 100", "200 Site Command Successful.\r\n"),
    ("SITE STORBUFSIZE 100", "200 Site Command Successful.\r\n"),
    ("SITE WHOAMI", "200 ann\r\n"),
    ("SITE VERSION", "200 0.1 (test)\r\n"),
    ("SITE CLIENTINFO appname=\"x\";", "250 OK.\r\n"),
    ("SITE TASKID 1", "250 OK.\r\n"),
    ("SITE STORATTR modify=20200101000000;", "250 OK.\r\n"),
    ("SITE RESTRICT R/data", "250 OK.\r\n"),
    (
        "SITE CHMOD 4755 f",
        "550 Permission bits only: setuid, setgid and sticky bits are not set from here.\r\n",
    ),
    (
        "OPTS RETR StripeLayout=Blocked;BlockSize=1048576;",
        "200 OPTS Command Successful: single stripe, StripeLayout and BlockSize change nothing.\r\n",
    ),
    ("SITE RDEL /", "550 The root cannot be removed.\r\n"),
    ("SITE NONSENSE", "500 Invalid command.\r\n"),
    ("USER bob", "503 You are already logged in.\r\n"),
    ("PASS x", "503 You are already logged in.\r\n"),
    ("ERET mod=\"x\" /f", "504 ERET module not available.\r\n"),
    ("ESTO mod=\"x\" /f", "504 ESTO module not available.\r\n"),
    ("ESTO tar=\"\" /f", "504 ESTO module not available.\r\n"),
    (
        "ERET tar=\"x\" /f",
        "501 Bad arguments of the module: ERET <sp> tar=\"\" <sp> path.\r\n",
    ),
    (
        "ERET tar=\"\" /f",
        "504 A module moves bytes, send TYPE I.\r\n",
    ),
    ("FOO", "500 Command not supported.\r\n"),
    ("", "500 Command not supported.\r\n"),
    ("   ", "500 Command not supported.\r\n"),
    ("RETR", "501 Syntax error in parameters or arguments.\r\n"),
    ("HELP NONSENSE", "502 Unknown command 'NONSENSE'.\r\n"),
    ("STOU", "502 Command not implemented.\r\n"),
];

#[test]
fn replies_that_need_no_edge() {
    let mut wrong = Vec::new();
    for (line, reply) in AT_ONCE {
        let said = Rig::logged_in().ask(line);
        if said != *reply {
            wrong.push(format!("{line}: {said:?} instead of {reply:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Replies after the outcome of an action.
fn answers<const N: usize>(rows: [(&str, Outcome, &str); N]) {
    for (line, outcome, reply) in rows {
        let mut rig = Rig::logged_in();
        rig.line(line).done(outcome);
        assert_eq!(rig.take(), reply, "{line}");
    }
}

#[test]
fn replies_that_need_the_edge() {
    let file = || Outcome::Stat(entry(EntryKind::File));
    let dir = || Outcome::Stat(entry(EntryKind::Dir));
    answers([
        ("CWD /d", dir(), "250 CWD command successful.\r\n"),
        ("CDUP", dir(), "250 CWD command successful.\r\n"),
        ("MKD d", Outcome::Done, "257 \"/home/ann/d\" created.\r\n"),
        (
            "MKD a\"b",
            Outcome::Done,
            "257 \"/home/ann/a\"\"b\" created.\r\n",
        ),
        ("RMD d", Outcome::Done, "250 OK.\r\n"),
        ("DELE f", Outcome::Done, "250 OK.\r\n"),
        (
            "RNFR f",
            file(),
            "350 OK. Send RNTO with destination name.\r\n",
        ),
    ]);
}

#[test]
fn replies_that_need_facts() {
    let file = || Outcome::Stat(entry(EntryKind::File));
    let dir = || Outcome::Stat(entry(EntryKind::Dir));
    let dangling = || Outcome::Stat(entry(EntryKind::Slink));
    const MISSING: &str = "550 No such file or directory\r\n";
    answers([
        ("SIZE f", file(), "213 7\r\n"),
        ("MDTM f", file(), "213 20261120192552\r\n"),
        (
            "MFMT 20200101000000.5  f",
            Outcome::Done,
            "213 Modify=20200101000000.500;  f\r\n",
        ),
        ("SIZE l", dangling(), MISSING),
        ("MDTM l", dangling(), MISSING),
        ("SITE CHMOD 644 f", Outcome::Done, "250 OK.\r\n"),
        ("SITE CHGRP users f", Outcome::Done, "250 OK.\r\n"),
        ("SITE UTIME 20200101000000 f", Outcome::Done, "250 OK.\r\n"),
        ("SITE RDEL d", Outcome::Done, "250 OK.\r\n"),
        ("SITE TRNC 5 f", Outcome::Done, "250 OK.\r\n"),
        ("SITE DELHELD f", Outcome::Done, "250 OK.\r\n"),
        (
            "SITE WAITS",
            Outcome::Waits(Box::default()),
            "250 Waits: Moving=0;Storage=0;Digests=0;Unready=0;Busy=0;ReceiverFull=0;\
             BufferFull=0;RoundTrip=0;Sent=0;Retransmitted=0;Connections=0;Lossy=0;\r\n",
        ),
        (
            "SITE STAGE 5 f",
            Outcome::Staged(true),
            "250 f: is at hand.\r\n",
        ),
        (
            "SITE STAGE 5 f",
            Outcome::Staged(false),
            "450 f: is being retrieved from the archive...\r\n",
        ),
        (
            "SITE HELD f",
            Outcome::Held(byte_ranges::RangeSet::up_to(500)),
            "213 Range Marker 0-500\r\n",
        ),
        (
            "SITE HELD f",
            Outcome::Held(byte_ranges::RangeSet::new()),
            "213 Range Marker\r\n",
        ),
        ("AVBL d", Outcome::Free(1 << 40), "213 1099511627776\r\n"),
        (
            "SITE XATTR f",
            Outcome::Attributes(Attribute::new("user.a b", "x").into_iter().collect()),
            "250-Attributes of f\r\n user.a%20b=eA==\r\n250 End.\r\n",
        ),
        ("SITE SETXATTR user.a=eA== f", Outcome::Done, "250 OK.\r\n"),
        ("SITE CHROOT /home", dir(), "250 OK.\r\n"),
        (
            "CKSM MD5 0 -1 f",
            Outcome::Checksum("00ff".into()),
            "213 00ff\r\n",
        ),
        (
            "STAT f",
            Outcome::Lines(vec![b"-rw-r--r-- f".to_vec()]),
            "213-status of f\r\n -rw-r--r-- f\r\n213 End.\r\n",
        ),
        (
            "MLSC d",
            Outcome::Lines(vec![b"Type=file; x".to_vec(), b"Type=dir; y".to_vec()]),
            "250-Contents of d\r\n Type=file; x\r\n Type=dir; y\r\n250 End.\r\n",
        ),
    ]);
}

#[test]
fn replies_that_need_a_data_side() {
    answers([
        (
            "PASV",
            listening(),
            "227 Entering Passive Mode (127,0,0,1,195,80)\r\n",
        ),
        (
            "EPSV",
            listening(),
            "229 Entering Extended Passive Mode (|||50000|)\r\n",
        ),
        (
            "SPAS",
            listening(),
            "229-Entering Striped Passive Mode.\r\n 127,0,0,1,195,80\r\n229 End\r\n",
        ),
        (
            "SPAS 1",
            listening(),
            "229-Entering Striped Passive Mode.\r\n |1|127.0.0.1|50000|\r\n229 End\r\n",
        ),
        (
            "PASV",
            refused::<425>("No ports left."),
            "425 No ports left.\r\n",
        ),
        (
            "PORT 127,0,0,1,100,1",
            Outcome::Done,
            "200 PORT Command successful.\r\n",
        ),
        (
            "EPRT |1|127.0.0.1|2000|",
            Outcome::Done,
            "200 PORT Command successful.\r\n",
        ),
        (
            "SPOR 127,0,0,1,100,1 127,0,0,1,100,2",
            Outcome::Done,
            "200 PORT Command successful.\r\n",
        ),
        ("DELE f", refused::<550>("No."), "550 No.\r\n"),
        // An edge that answers nonsense does not leave the client without a reply.
        ("DELE f", listening(), "451 Local error in processing.\r\n"),
    ]);
}

/// Some clients of plain FTP take the lines of a failure for another one.
#[test]
fn failures_have_fields_for_clients_of_gridftp_only() {
    let plain = [
        "FEAT",
        "TYPE I",
        "MODE S",
        "OPTS MLST type;size;modify;",
        "OPTS UTF8 ON",
        "SITE HELP",
        "ALLO 5",
        "REST 5",
        "PBSZ 0",
        "PROT C",
        "CLNT x",
        "NOOP",
    ];
    let gridftp = [
        "MODE E",
        "OPTS RETR Parallelism=4,4,4;",
        "OPTS CKSM markers=1;",
        "SBUF 5000",
        "TREV PERF 1",
        "DCAU N",
        "SITE CLIENTINFO appname=\"x\";",
        "SITE STORATTR modify=20200101000000;",
    ];
    let told = |lines: &[&str]| {
        let mut rig = Rig::logged_in();
        rig.lines(lines).take();
        let link = Outcome::Stat(entry(EntryKind::Slink));
        rig.line("SIZE l").done(link);
        rig.take()
    };
    assert_eq!(told(&plain), "550 No such file or directory\r\n");
    for line in gridftp {
        assert_eq!(
            told(&[line]),
            "550-No such file or directory\r\n550-GlobusError: v=1 c=PATH_NOT_FOUND\r\n\
             550-GridFTP-Error-String: No such file or directory\r\n550 End.\r\n",
            "{line}"
        );
    }
}

/// Lines as they are found.
fn piece(line: &str) -> Event {
    Event::Lines(vec![line.as_bytes().to_vec()])
}

#[test]
fn a_listing_is_said_as_it_is_found() {
    for (line, first, code) in [
        ("MLSC d", "250-Contents of d", "250"),
        ("STAT d", "213-status of d", "213"),
    ] {
        let mut rig = Rig::logged_in();
        let (ticket, _) = rig.line(line).action();
        rig.input(Input::Event(ticket, piece("Type=file; x")));
        assert_eq!(rig.take(), format!("{first}\r\n Type=file; x\r\n"));
        rig.input(Input::Event(ticket, piece("250 End.")));
        assert_eq!(rig.take(), " 250 End.\r\n");
        rig.input(Input::Done(ticket, Outcome::Lines(vec![b"y".to_vec()])));
        assert_eq!(rig.take(), format!(" y\r\n{code} End.\r\n"));
        assert_eq!(rig.ask("NOOP"), "200 NOOP command successful.\r\n");
    }
}

#[test]
fn a_listing_that_fails_in_mid_reply_never_looks_whole() {
    let mut rig = Rig::logged_in();
    let (ticket, _) = rig.line("MLSC d").action();
    rig.input(Input::Event(ticket, piece("Type=file; x")));
    rig.take();
    rig.input(Input::Done(ticket, refused::<451>("The disk is gone.")));
    assert_eq!(
        (rig.take().as_str(), rig.closed),
        ("", Some(Ending::Incomplete))
    );

    // A client that aborts it knows that it is incomplete.
    let mut rig = Rig::logged_in();
    let (ticket, _) = rig.line("MLSC d").action();
    rig.input(Input::Event(ticket, piece("Type=file; x")));
    rig.take();
    rig.line("ABOR");
    rig.input(Input::Done(ticket, refused::<426>("x")));
    let said = rig.take();
    assert!(said.starts_with("250 Command aborted"), "{said}");
    assert!(said.contains("\r\n226 "), "{said}");
}

#[test]
fn mlst_prints_the_path_as_requested() {
    let mut rig = Rig::logged_in();
    rig.line("MLST ./f")
        .done(Outcome::Stat(entry(EntryKind::File)));
    let said = rig.take();
    assert!(
        said.starts_with("250-status of ./f\r\n Type=file;Modify=20261120192552"),
        "{said}"
    );
    assert!(said.ends_with(" ./f\r\n250 End.\r\n"), "{said}");
}

/// Labels in upper case behind exactly one blank, nothing that is not implemented.
#[test]
fn feat_is_in_the_shape_that_globus_reads() {
    let mut rig = Rig::logged_in();
    let said = rig.ask("FEAT");
    let lines: Vec<&str> = said.split_terminator("\r\n").collect();
    assert_eq!(lines.first(), Some(&"211-Extensions supported"));
    assert_eq!(lines.last(), Some(&"211 End."));
    let inner = &lines[1..lines.len() - 1];
    for line in inner {
        let label = line.strip_prefix(' ').unwrap();
        assert!(
            label.starts_with(|c: char| c.is_ascii_uppercase()),
            "{line}"
        );
    }
    for has in [
        " CKSM MD5:10;SHA256:11;",
        " DSI mem-0.1",
        " PARALLEL",
        " REST STREAM",
        " ERET P,checksum,tar",
        " ESTO A,checksum",
        " SIZE",
        " SBUF",
        " PASV AllowDelayed;",
        " STOR Tagged;Digest;Trailer;",
        " CONNECTIONS 64",
        " HELD",
        " WAITS",
        " RATE",
        " EXCLUSIVE",
        " DURABLE",
        " BOOT 0000000000000000000000000000002a",
        " AVBL",
        " XATTR",
    ] {
        assert!(inner.contains(&has), "{has} is missing in {said}");
    }
    assert!(
        inner.iter().any(|line| line.starts_with(" MLST Type*;")),
        "{said}"
    );
    for not in ["DCAU", "DCSC", "AUTH", "HTTP", "GETPUT", "ABUF"] {
        assert!(!said.contains(not), "{not} is not implemented");
    }
    let mut rig = Rig::with(settings());
    let said = rig.ask("FEAT");
    assert!(said.contains(" PARALLEL\r\n") && !said.contains("CKSM") && !said.contains("DSI"));
    assert!(!said.contains("LOSS"), "{said}");
    for (adapts, line) in [
        (false, " LOSS UDT;\r\n"),
        (true, " LOSS Congestion;UDT;\r\n"),
    ] {
        let mut settings = settings();
        (settings.udt, settings.adapts) = (true, adapts);
        let said = Rig::with(settings).ask("FEAT");
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn site_help_lists_the_commands_of_clients() {
    let mut rig = Rig::logged_in();
    let said = rig.ask("HELP");
    assert!(
        said.starts_with("214-The following commands are recognized:\r\n "),
        "{said}"
    );
    assert!(said.ends_with("214 End\r\n"), "{said}");
    assert!(said.contains("RETR") && !said.contains("ADAT"), "{said}");
    let said = rig.ask("SITE HELP");
    for name in [
        "RETRBUFSIZE",
        "RBUFSZ",
        "RBUFSIZ",
        "STORBUFSIZE",
        "SBUFSZ",
        "SBUFSIZ",
        "CHMOD",
        "CHGRP",
        "UTIME",
        "SYMLINK",
        "CLIENTINFO",
    ] {
        assert!(said.contains(name), "{name} is missing in {said}");
    }
    assert!(!said.contains("SITE CHMOD"), "{said}");
    assert!(
        rig.ask("SITE HELP chmod")
            .starts_with("214-Help for SITE CHMOD:\r\n SITE CHMOD ")
    );
    assert!(rig.ask("SITE HELP nonsense").starts_with("502 "));
    assert!(rig.ask("HELP RETR").starts_with("214-Help for RETR:\r\n "));
    assert!(rig.ask("HELP SITE").contains("\r\n SITE CHMOD"));
}

#[test]
fn the_edge_is_given_absolute_normalised_paths() {
    let mut rig = Rig::logged_in();
    rig.line("DELE ../bob//./f");
    let (_, action) = rig.action();
    assert_eq!(
        action,
        Action::Names(Names::Delete(super::path("/home/bob/f")))
    );
}

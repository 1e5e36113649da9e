//! Transfers at the server: set-up rules, REST and its kin, replies, markers, ABOR.

use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use ftp_wire::command::{Mode, Tag};
use ftp_wire::error::BadLine;
use ftp_wire::receipt::{Extent, Receipt};
use ftp_wire::reply::Reply;

use super::{Rig, listening, path, refused, settings};
use crate::modules::{RetrieveModule, StoreModule};
use crate::server::{Input, Settings};
use crate::types::{Action, Event, ListForm, Outcome, Placement, Transfer, TransferKind};

fn transfer(rig: &mut Rig) -> Transfer {
    match rig.action() {
        (_, Action::Transfer(transfer)) => *transfer,
        (_, other) => panic!("{other:?}"),
    }
}

fn held(kind: &TransferKind) -> String {
    match kind {
        TransferKind::Retrieve { held, .. } | TransferKind::Store { held, .. } => held.to_string(),
        TransferKind::RetrieveBy { .. }
        | TransferKind::StoreBy { .. }
        | TransferKind::RetrieveMemory { .. }
        | TransferKind::StoreMemory { .. }
        | TransferKind::RetrieveFiles { .. }
        | TransferKind::StoreFiles { .. }
        | TransferKind::List { .. } => String::new(),
    }
}

/// Runs the transfer that a line begins to its end, and gives it.
fn complete(rig: &mut Rig, line: &str) -> Transfer {
    rig.line(line);
    let (ticket, action) = rig.action();
    let Action::Transfer(transfer) = action else {
        panic!("{action:?}")
    };
    rig.input(Input::Event(ticket, Event::Opened { reused: false }));
    rig.input(Input::Done(ticket, Outcome::Transferred { bytes: 1 }));
    *transfer
}

fn dropped(rig: &mut Rig) -> bool {
    let found = rig
        .wanted
        .iter()
        .any(|(_, action)| *action == Action::DropData);
    rig.wanted.clear();
    found
}

#[test]
fn a_transfer_needs_a_set_up_that_fits() {
    let mut rig = Rig::logged_in();
    assert!(
        rig.ask("RETR f")
            .starts_with("425 No data connection is set up")
    );
    rig.line("MODE E");
    rig.passive();
    assert!(
        rig.ask("RETR f")
            .starts_with("425 In MODE E the sender of data connects")
    );
    assert!(
        rig.ask("MLSD")
            .starts_with("425 In MODE E the sender of data connects")
    );
    rig.active();
    assert!(
        rig.ask("STOR f")
            .starts_with("425 In MODE E the receiver of data listens")
    );
    rig.line("RETR f");
    assert_eq!(transfer(&mut rig).channel.mode, Mode::Extended);
}

#[test]
fn a_stream_set_up_serves_once_and_an_extended_one_until_it_is_replaced() {
    let mut rig = Rig::logged_in();
    rig.passive();
    complete(&mut rig, "RETR f");
    assert_eq!(
        rig.take(),
        "150 Beginning transfer.\r\n226 Transfer Complete.\r\n"
    );
    assert!(dropped(&mut rig));
    assert!(rig.ask("RETR f").starts_with("425 "));

    rig.line("MODE E");
    rig.active();
    complete(&mut rig, "RETR f");
    rig.take();
    assert!(!dropped(&mut rig));
    rig.line("RETR g");
    let (ticket, _) = rig.action();
    rig.input(Input::Event(ticket, Event::Opened { reused: true }));
    rig.input(Input::Done(ticket, Outcome::Transferred { bytes: 1 }));
    assert_eq!(
        rig.take(),
        "125 Beginning transfer; reusing existing data connection.\r\n226 Transfer Complete.\r\n"
    );
    rig.line("MODE S");
    assert!(
        rig.ask("RETR f")
            .starts_with("425 The data connections are in MODE E")
    );
}

#[test]
fn a_failure_before_data_leaves_the_channel_and_one_after_does_not() {
    let mut rig = Rig::logged_in();
    rig.line("MODE E");
    rig.passive().line("STOR f").done(refused::<550>("No."));
    assert_eq!(rig.take(), "550 No.\r\n");
    assert!(!dropped(&mut rig));
    rig.line("STOR f");
    let (ticket, _) = rig.action();
    rig.input(Input::Event(ticket, Event::Opened { reused: false }));
    rig.input(Input::Done(ticket, refused::<552>("Disk full.")));
    assert_eq!(rig.take(), "150 Beginning transfer.\r\n552 Disk full.\r\n");
    assert!(dropped(&mut rig));
    assert!(rig.ask("STOR f").starts_with("425 "));
}

#[test]
fn rest_survives_other_commands_and_is_spent_by_the_next_transfer() {
    let mut rig = Rig::logged_in();
    rig.lines(&["REST 100", "TYPE I", "NOOP"]);
    rig.passive().line("RETR f");
    assert_eq!(held(&transfer(&mut rig).kind), "0-100");
    rig.session = Rig::logged_in().session;
    rig.line("REST 100");
    rig.passive();
    complete(&mut rig, "LIST");
    rig.passive().line("RETR f");
    assert_eq!(held(&transfer(&mut rig).kind), "");
}

#[test]
fn rest_counts_for_one_file_only() {
    let mut rig = Rig::logged_in();
    rig.lines(&["MODE E", "REST 0-5"]);
    rig.passive();
    assert_eq!(held(&complete(&mut rig, "STOR f").kind), "0-5");
    assert_eq!(held(&complete(&mut rig, "STOR g").kind), "");
}

#[test]
fn a_stream_restarts_at_the_first_hole_and_one_with_a_trailer_and_blocks_at_every_hole() {
    for (mode, rest, store, expected) in [
        ("MODE S", "REST 5-10", "STOR f", ""),
        ("MODE S", "REST 0-5,7-10", "STOR f", "0-5"),
        ("MODE S", "REST 0-5,7-10", "ESTO digest=1 f", "0-5,7-10"),
        ("MODE S", "REST 0-5,7-10", "ERET digest=1 f", "0-5,7-10"),
        ("MODE E", "REST 7-10,0-5", "STOR f", "0-5,7-10"),
        ("MODE E", "REST 9", "STOR f", "0-9"),
        ("MODE S", "REST 0", "STOR f", ""),
    ] {
        let mut rig = Rig::logged_in();
        rig.lines(&["TYPE I", mode, rest]);
        rig.passive().line(store);
        assert_eq!(held(&transfer(&mut rig).kind), expected, "{mode} {rest}");
    }
}

#[test]
fn an_exclusive_store_is_the_next_one_of_a_whole_file() {
    let mut rig = Rig::logged_in();
    rig.lines(&["MODE E", "SITE STORATTR x.exclusive=1;"]);
    rig.passive();
    for (line, into) in [
        ("APPE f", Placement::End),
        ("ESTO A 7 f", Placement::At(7)),
        ("ESTO tag=1,S,5 f", Placement::New),
        ("STOR f", Placement::Whole),
    ] {
        let kind = complete(&mut rig, line).kind;
        assert!(
            matches!(kind, TransferKind::Store { into: found, .. } if found == into),
            "{line}: {kind:?}"
        );
    }
    rig.lines(&[
        "SITE STORATTR x.exclusive=1;",
        "SITE STORATTR x.exclusive=0;",
    ]);
    let kind = complete(&mut rig, "STOR f").kind;
    assert!(matches!(
        kind,
        TransferKind::Store {
            into: Placement::Whole,
            ..
        }
    ));
    let mut settings = settings();
    settings.exclusive = false;
    let mut rig = Rig::logged_in_with(settings);
    assert!(!rig.ask("FEAT").contains("EXCLUSIVE"));
    let refused = rig.ask("SITE STORATTR x.exclusive=1;");
    assert!(refused.starts_with("504 "), "{refused}");
}

#[test]
fn settings_for_a_store_apply_once() {
    let mut rig = Rig::logged_in();
    rig.lines(&[
        "MODE E",
        "ALLO 500",
        "SCKS md5 00FF",
        "SITE STORATTR modify=20200101000000;",
    ]);
    rig.passive();
    let first = complete(&mut rig, "STOR f");
    let TransferKind::Store {
        size,
        modified,
        checksum,
        into,
        ..
    } = first.kind
    else {
        panic!()
    };
    assert_eq!((size, into), (Some(500), Placement::Whole));
    assert_eq!(modified.unwrap().seconds, 1_577_836_800);
    assert_eq!(checksum.unwrap().0, "MD5");
    let second = complete(&mut rig, "STOR g");
    let TransferKind::Store {
        size,
        modified,
        checksum,
        ..
    } = second.kind
    else {
        panic!()
    };
    assert!(size.is_none() && modified.is_none() && checksum.is_none());
}

#[test]
fn parts_and_appends_say_where_offset_zero_lies() {
    let mut rig = Rig::logged_in();
    rig.passive();
    let part = complete(&mut rig, "ERET P 10 20 a b");
    let expected = TransferKind::Retrieve {
        path: path("/home/ann/a b"),
        region: Some((10, Some(20))),
        held: RangeSet::new(),
    };
    assert_eq!(part.kind, expected);
    for (line, expected) in [
        ("ESTO A 7 f", Placement::At(7)),
        ("APPE f", Placement::End),
        ("STOR f", Placement::Whole),
    ] {
        rig.passive();
        let TransferKind::Store { into, .. } = complete(&mut rig, line).kind else {
            panic!()
        };
        assert_eq!(into, expected);
    }
    rig.passive();
    let part = complete(&mut rig, "ERET P 10 -1 f");
    assert!(matches!(
        part.kind,
        TransferKind::Retrieve {
            region: Some((10, None)),
            ..
        }
    ));
}

#[test]
fn a_wait_for_the_storage_is_told_in_the_lines_of_the_150() {
    let mut rig = Rig::logged_in();
    let mut wait = |ends: &[Input<'static>]| {
        rig.passive().line("RETR f");
        let (ticket, _) = rig.action();
        for _ in 0..2 {
            rig.input(Input::Event(ticket, Event::Waiting));
        }
        for end in ends {
            match end {
                Input::Eof => rig.input(Input::Event(ticket, Event::Opened { reused: true })),
                _ => rig.input(Input::Done(ticket, refused::<450>("busy"))),
            };
        }
        let said = rig.take();
        let waits = "150-Waiting for the storage, which retrieves the file.\r\n \
                     The file is not at hand yet.\r\n";
        said.strip_prefix(waits)
            .unwrap_or_else(|| panic!("{said}"))
            .to_owned()
    };
    let opened = wait(&[Input::Eof, Input::Timeout]);
    assert_eq!(opened, "150 Beginning transfer.\r\n450 busy\r\n");
    // A client of plain FTP must not read the failure as a line of the 150.
    let failed = wait(&[Input::Timeout]);
    assert_eq!(failed, "150 The wait is over.\r\n450 busy\r\n");
}

#[test]
fn modules_have_their_arguments() {
    let mut rig = Rig::logged_in();
    rig.ask("TYPE I");
    for (line, expected) in [
        (
            "ERET checksum=\"md5 10 -1\" f",
            Some(RetrieveModule::Checksum {
                algorithm: "MD5".into(),
                offset: 10,
                length: None,
            }),
        ),
        ("ERET TAR= f", Some(RetrieveModule::Tar)),
        ("ERET checksum=\"MD5 1 2 3\" f", None),
        ("ERET checksum=\"CRC 1 2\" f", None),
        ("ERET checksum=\"MD5 18446744073709551615 1\" f", None),
        ("ERET checksum=\"MD5 +1 2\" f", None),
    ] {
        rig.passive();
        let Some(module) = expected else {
            assert!(rig.ask(line).starts_with("501 "), "{line}");
            continue;
        };
        let path = path("/home/ann/f");
        let kind = TransferKind::RetrieveBy { path, module };
        assert_eq!(complete(&mut rig, line).kind, kind, "{line}");
    }
    rig.passive();
    rig.ask("ALLO 5");
    let store = complete(&mut rig, "ESTO checksum=\"SHA-256 AB 7\" f").kind;
    let expected = TransferKind::StoreBy {
        path: path("/home/ann/f"),
        module: StoreModule::Checksum {
            algorithm: "SHA256".into(),
            digest: "ab".into(),
            offset: 7,
        },
        size: Some(5),
    };
    assert_eq!(store, expected);
    // The offset of REST belongs to a whole file, and is spent.
    rig.passive();
    rig.ask("REST 5");
    assert!(rig.ask("ERET tar=\"\" f").starts_with("504 "));
    complete(&mut rig, "ERET tar=\"\" f");
}

#[test]
fn the_digest_of_a_module_ends_the_226() {
    let mut rig = Rig::logged_in();
    rig.ask("TYPE I");
    rig.passive().line("ERET checksum=\"MD5 0 1\" f");
    let (ticket, _) = rig.action();
    rig.input(Input::Event(ticket, Event::Opened { reused: false }));
    let (algorithm, digest) = ("MD5".to_owned(), "0cc1".to_owned());
    let digested = Outcome::Digested {
        bytes: 1,
        algorithm,
        digest,
    };
    rig.input(Input::Done(ticket, digested));
    let said = rig.take();
    let last = "226 Transfer Complete. Bytes=1;MD5=0cc1;\r\n";
    assert!(said.ends_with(last), "{said}");
}

#[test]
fn listings_have_their_forms() {
    let mut rig = Rig::logged_in();
    rig.lines(&["OPTS MLSR OnError=Fail;", "OPTS MLST size;"]);
    let names = |before: &str| ListForm::Names {
        before: before.into(),
    };
    for (line, expected) in [
        ("LIST -la", ListForm::Long),
        ("NLST", names("")),
        ("NLST *.txt", names("")),
        ("NLST ../d/*.txt", names("../d/")),
        ("NLST /*", names("/")),
    ] {
        rig.passive();
        let TransferKind::List { form, .. } = complete(&mut rig, line).kind else {
            panic!()
        };
        assert_eq!(form, expected, "{line}");
    }
    rig.passive();
    let TransferKind::List { form, path: of } = complete(&mut rig, "MLSR d").kind else {
        panic!()
    };
    assert_eq!(of, path("/home/ann/d"));
    assert!(
        matches!(
            form,
            ListForm::Tree {
                fail: true,
                follow: false,
                ..
            }
        ),
        "{form:?}"
    );
}

#[test]
fn options_shape_the_channel_within_bounds() {
    let mut rig = Rig::logged_in();
    rig.lines(&[
        "MODE E",
        "OPTS RETR Parallelism=1000,1,1;",
        "SBUF 99999999999",
        "SITE RETRBUFSIZE 1000",
    ]);
    rig.active().line("RETR f");
    let channel = transfer(&mut rig).channel;
    assert_eq!((channel.parallelism, channel.most_parallelism), (64, 64));
    assert_eq!(
        (channel.send_buffer, channel.receive_buffer),
        (64 << 20, 1000)
    );
}

#[test]
fn the_most_connections_are_those_of_the_client_within_the_limit() {
    for (numbers, start, most) in [
        ("4,4,16", 4, 16),
        ("4", 4, 4),
        ("4,1,1000", 4, 64),
        ("8,1,2", 8, 8),
    ] {
        let mut rig = Rig::logged_in();
        rig.lines(&["MODE E", &format!("OPTS RETR Parallelism={numbers};")]);
        rig.active().line("RETR f");
        let channel = transfer(&mut rig).channel;
        let told = (channel.parallelism, channel.most_parallelism);
        assert_eq!(told, (start, most), "{numbers}");
    }
}

/// Clients of GridFTP wait for the connection to break.
#[test]
fn uploads_that_fail_are_read_to_their_end_for_clients_of_plain_ftp() {
    for (line, drains) in [("TYPE I", true), ("MODE E", false), ("DCAU N", false)] {
        let mut rig = Rig::logged_in();
        rig.line(line);
        rig.passive().line("STOR f");
        assert_eq!(transfer(&mut rig).drains, drains, "{line}");
    }
}

#[test]
fn buffers_are_those_of_a_listening_socket_as_well() {
    let mut rig = Rig::logged_in();
    rig.lines(&["SBUF 5000", "SITE RETRBUFSIZE 1000"]);
    let (_, action) = rig.line("PASV").action();
    let Action::Listen {
        send_buffer,
        receive_buffer,
        ..
    } = action
    else {
        panic!("{action:?} instead of listening");
    };
    assert_eq!((send_buffer, receive_buffer), (5000, 1000));
}

#[test]
fn markers_come_on_extended_receives_and_where_asked_for() {
    let every = |n| Some(Duration::from_secs(n));
    for (lines, line, perf, restart) in [
        (&["MODE E"][..], "STOR f", every(5), every(5)),
        (
            &["MODE E", "TREV PERF 1", "TREV RESTART 0"],
            "STOR f",
            every(1),
            None,
        ),
        (&["MODE S"], "STOR f", None, None),
        (&["MODE S", "TREV PERF 10"], "STOR f", every(10), None),
        (&["MODE S"], "RETR f", None, None),
        (&["OPTS RETR Markers=2;"], "RETR f", every(2), None),
    ] {
        let mut rig = Rig::logged_in();
        rig.lines(lines);
        rig.passive().line(line);
        let transfer = transfer(&mut rig);
        assert_eq!(
            (transfer.perf_every, transfer.restart_every),
            (perf, restart),
            "{lines:?}"
        );
    }
    let mut rig = Rig::logged_in();
    rig.line("MODE E");
    rig.passive().line("STOR f");
    let (ticket, _) = rig.action();
    let ranges: RangeSet = Range64::new(0, 10).unwrap().into();
    rig.input(Input::Event(ticket, Event::Received(ranges.clone())));
    assert_eq!(rig.take(), "", "no marker comes before the 150");
    rig.input(Input::Event(ticket, Event::Opened { reused: false }))
        .take();
    rig.input(Input::Event(
        ticket,
        Event::Moved {
            at: 17_952_027_521,
            stripe: 0,
            stripes: 1,
            bytes: 10,
            waits: None,
        },
    ));
    rig.input(Input::Event(ticket, Event::Received(ranges)));
    assert_eq!(
        rig.take(),
        "112-Perf Marker\r\n Timestamp: 1795202752.1\r\n Stripe Index: 0\r\n \
         Stripe Bytes Transferred: 10\r\n Total Stripe Count: 1\r\n112 End.\r\n\
         111 Range Marker 0-10\r\n"
    );
    rig.input(Input::Event(
        ticket,
        Event::Moved {
            at: 15,
            stripe: 0,
            stripes: 1,
            bytes: 10,
            waits: Some(Box::default()),
        },
    ));
    let said = rig.take();
    assert!(said.contains("\r\n Waits: Moving=0;"), "{said}");
    let scattered = (0..5000)
        .filter_map(|n| Range64::new(2 * n, 2 * n + 1))
        .collect();
    rig.input(Input::Event(ticket, Event::Received(scattered)));
    assert_eq!(rig.take().matches("111 Range Marker ").count(), 2);
}

#[test]
fn abort_gives_both_replies_and_the_session_lives() {
    let mut rig = Rig::logged_in();
    rig.passive().line("RETR f");
    let (ticket, _) = rig.action();
    rig.input(Input::Event(ticket, Event::Opened { reused: false }))
        .take();
    rig.lines(&["DELE g", "NOOP"]);
    assert_eq!(rig.ask("ABOR"), "");
    assert_eq!(rig.wanted.pop_front().unwrap().1, Action::Abort(ticket));
    // A second ABOR does not stop it twice.
    rig.line("abor ");
    rig.input(Input::Done(ticket, refused::<451>("stopped")));
    assert_eq!(
        rig.take(),
        "426 Transfer aborted.\r\n\
         426 Command aborted before it began.\r\n\
         426 Command aborted before it began.\r\n\
         226 Abort successful\r\n\
         226 Abort successful\r\n"
    );
    assert!(dropped(&mut rig));
    assert_eq!(rig.ask("NOOP"), "200 NOOP command successful.\r\n");
    assert!(rig.ask("RETR f").starts_with("425 "));
}

#[test]
fn an_abort_is_answered_in_the_words_of_its_transfer() {
    let mut rig = Rig::logged_in();
    rig.passive().line("STOR /f");
    let (ticket, _) = rig.action();
    rig.line("ABOR");
    rig.take();
    rig.input(Input::Done(ticket, refused::<426>("no peer came")));
    assert_eq!(rig.take(), "426 no peer came\r\n226 Abort successful\r\n");
}

#[test]
fn abort_that_comes_too_late_gives_226_twice() {
    let mut rig = Rig::logged_in();
    rig.passive().line("RETR f");
    let (ticket, _) = rig.action();
    rig.input(Input::Event(ticket, Event::Opened { reused: false }))
        .take();
    rig.line("ABOR");
    rig.input(Input::Done(ticket, Outcome::Transferred { bytes: 1 }));
    assert_eq!(
        rig.take(),
        "226 Transfer Complete.\r\n226 Abort successful\r\n"
    );
}

#[test]
fn delayed_passive_says_where_when_the_transfer_comes() {
    for (line, expected) in [
        ("PASV", "127 Entering Passive Mode (127,0,0,1,195,80)\r\n"),
        ("EPSV", "129 Entering Extended Passive Mode (|||50000|)\r\n"),
        (
            "SPAS",
            "129-Entering Striped Passive Mode.\r\n 127,0,0,1,195,80\r\n129 End\r\n",
        ),
    ] {
        let mut rig = Rig::logged_in();
        rig.line("OPTS PASV AllowDelayed=1;");
        assert_eq!(rig.ask(line), "200 Passive delayed.\r\n");
        assert_eq!(rig.ask("STOR f"), "");
        rig.done(listening());
        assert_eq!(rig.take(), expected);
        let (ticket, action) = rig.action();
        assert!(matches!(action, Action::Transfer(_)));
        rig.input(Input::Event(ticket, Event::Opened { reused: false }));
        rig.input(Input::Done(ticket, Outcome::Transferred { bytes: 1 }));
        assert_eq!(
            rig.take(),
            "150 Beginning transfer.\r\n226 Transfer Complete.\r\n"
        );
    }
    let mut rig = Rig::logged_in();
    rig.lines(&["OPTS PASV AllowDelayed=1;", "PASV", "STOR f"])
        .take();
    rig.done(refused::<425>("No ports left."));
    assert_eq!(rig.take(), "425 No ports left.\r\n");
    assert!(!rig.session.is_busy());
}

#[test]
fn epsv_all_is_kept() {
    let mut rig = Rig::logged_in();
    rig.line("EPSV ALL");
    for line in [
        "PASV",
        "PORT 127,0,0,1,100,1",
        "EPRT |1|127.0.0.1|2000|",
        "SPAS",
    ] {
        assert!(rig.ask(line).starts_with("503 "), "{line}");
    }
    rig.line("EPSV").done(listening());
    assert!(
        rig.take()
            .ends_with("229 Entering Extended Passive Mode (|||50000|)\r\n")
    );
}

#[test]
fn third_parties_are_let_in_by_policy_and_never_below_1024() {
    let mut settings = settings();
    settings.third_party = true;
    let mut rig = Rig::logged_in_with(settings);
    rig.line("PORT 192,0,2,1,100,1").done(Outcome::Done);
    assert!(rig.take().starts_with("200 "));
    assert!(rig.ask("PORT 192,0,2,1,0,80").starts_with("500 "));
}

/// A client from elsewhere could reach services that trust this host, or its link, through the
/// server.
#[test]
fn loopback_and_link_local_targets_are_for_clients_that_are_there() {
    let mut settings = settings();
    settings.third_party = true;
    for (client, host, link) in [
        ("192.0.2.7", false, false),
        ("::ffff:192.0.2.7", false, false),
        ("127.0.0.2", true, true),
        ("fe80::7", false, true),
    ] {
        for target in [
            "|1|127.0.0.1|3128|",
            "|1|0.0.0.0|3128|",
            "|1|169.254.169.254|8080|",
            "|2|::1|3128|",
            "|2|::|3128|",
            "|2|::ffff:127.0.0.1|3128|",
            "|2|fe80::1|3128|",
        ] {
            let mut rig = Rig::logged_in_from(client.parse().unwrap(), settings.clone());
            let said = rig.ask(&format!("EPRT {target}"));
            let on_link = target.contains("169.254") || target.contains("fe80");
            let allowed = if on_link { link } else { host };
            assert_eq!(said.is_empty(), allowed, "{client} {target}: {said}");
        }
        let mut rig = Rig::logged_in_from(client.parse().unwrap(), settings.clone());
        assert_eq!(rig.ask("EPRT |1|198.51.100.1|3128|"), "", "{client}");
    }
}

/// Data on its way to a refused store has a tag, so the channel stays; data out of step ends it.
#[test]
fn a_channel_of_tagged_stores_survives_refusals_and_ends_when_out_of_step() {
    let mut rig = Rig::logged_in();
    rig.lines(&["MODE E", "SITE RESTRICT R/data,/scratch"]);
    rig.passive().line("ESTO tag=1 /scratch/f");
    let (ticket, action) = rig.action();
    let Action::Transfer(transfer) = action else {
        panic!()
    };
    assert_eq!(transfer.tag, Some(Tag::new(1, Extent::Head)));
    let whole = |kind: &TransferKind| {
        matches!(
            kind,
            TransferKind::Store {
                into: Placement::Whole,
                ..
            }
        )
    };
    assert!(whole(&transfer.kind));
    rig.input(Input::Event(ticket, Event::Opened { reused: false }));
    let full = Reply::of::<552>("Disk full.");
    rig.input(Input::Done(ticket, Outcome::Spared(full)));
    assert_eq!(rig.take(), "150 Beginning transfer.\r\n552 Disk full.\r\n");
    assert_eq!(rig.ask("ESTO tag=2 /data/f"), "550 Path not allowed.\r\n");
    rig.input(Input::BadLine(BadLine::Control { byte: 7, at: 11 }));
    assert!(rig.take().starts_with("500 "));
    assert!(
        !dropped(&mut rig),
        "what is left of them is known by its tag"
    );

    rig.line("ESTO digest=4,A,5 /scratch/f");
    let (ticket, action) = rig.action();
    let Action::Transfer(transfer) = action else {
        panic!()
    };
    assert_eq!(transfer.tag, Some(Tag::new(4, Extent::Whole)));
    let receipt = Receipt::new(3, Some([0xa5; 32]));
    rig.input(Input::Event(ticket, Event::Opened { reused: true }));
    rig.input(Input::Done(ticket, Outcome::Proven(receipt)));
    let proven = format!(
        "\r\n226 Transfer Complete. Bytes=3;BLAKE3={};\r\n",
        "a5".repeat(32)
    );
    assert!(rig.take().ends_with(&proven));
    assert!(!dropped(&mut rig));

    rig.line("ESTO tag=5,E /scratch/f");
    let (ticket, _) = rig.action();
    rig.input(Input::Event(ticket, Event::Opened { reused: true }));
    rig.input(Input::Done(ticket, refused::<426>("Data of transfer 6.")));
    assert!(dropped(&mut rig));
    assert!(rig.ask("ESTO tag=6 /scratch/g").starts_with("425 "));
}

#[test]
fn transfers_are_tagged_where_the_mode_has_a_place_and_they_are_allowed_without() {
    let ask = |settings: Settings, mode: &str, line: &str| {
        let mut rig = Rig::logged_in_with(settings);
        rig.line(mode).passive();
        rig.ask(line)
    };
    for line in ["ESTO digest=1,S,5 f", "ERET digest=1,P,2,3 f"] {
        let mut rig = Rig::logged_in();
        rig.lines(&["MODE S", "TYPE I"]).passive();
        rig.line(line);
        let tag = Some(Tag::new(1, Extent::Whole));
        assert_eq!(transfer(&mut rig).tag, tag, "{line}");
        // The trailer is no text.
        let mut rig = Rig::logged_in();
        rig.lines(&["MODE S", "TYPE A"]).passive();
        assert!(rig.ask(line).starts_with("504 "), "{line}");
    }
    for line in ["ESTO tag=1 f", "ERET tag=1 f"] {
        assert!(ask(settings(), "MODE S", line).starts_with("504 "));
        let mut off = settings();
        off.tags = false;
        assert!(ask(off, "MODE E", line).starts_with("504 "));
        let mut denying = settings();
        denying.denied = vec!["STOR".to_owned(), "RETR".to_owned()];
        assert!(ask(denying, "MODE E", line).starts_with("504 "));
    }
}

#[test]
fn checksums_report_and_can_be_aborted() {
    let mut rig = Rig::logged_in();
    rig.lines(&["OPTS CKSM markers=1;", "CKSM md-5 0 -1 f"])
        .take();
    let (ticket, _) = rig.action();
    rig.input(Input::Event(ticket, Event::Hashed { at: 15, bytes: 3 }));
    assert_eq!(
        rig.take(),
        "113-Status Marker\r\n Timestamp: 1.5\r\n Bytes Processed: 3\r\n113 End.\r\n"
    );
    rig.line("ABOR");
    rig.input(Input::Done(ticket, refused::<426>("x")));
    assert_eq!(
        rig.take(),
        "426 Command aborted.\r\n226 Abort successful\r\n"
    );
}

#[test]
fn reads_and_work_in_steps_can_be_aborted_and_a_change_cannot() {
    for (line, stops) in [
        ("STAT d", true),
        ("MLSC d", true),
        ("SIZE f", true),
        ("SITE RDEL d", true),
        ("DELE f", false),
        ("MKD d", false),
    ] {
        let mut rig = Rig::logged_in();
        rig.line(line);
        let (ticket, _) = rig.action();
        rig.take();
        rig.line("ABOR");
        let asked = rig.wanted.pop_front().map(|(_, action)| action);
        assert_eq!(asked, stops.then_some(Action::Abort(ticket)), "{line}");
        if stops {
            rig.input(Input::Done(ticket, refused::<426>("x")));
            assert_eq!(
                rig.take(),
                "426 Command aborted.\r\n226 Abort successful\r\n"
            );
        }
    }
}

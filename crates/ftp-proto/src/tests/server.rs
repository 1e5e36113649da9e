//! The server's end over time: login, deadlines, pipelining, pairs of commands, the end of a
//! session.

use std::time::Duration;

use ftp_wire::command::{Secret, StackSide};
use ftp_wire::error::BadLine;
use ftp_wire::facts::EntryKind;

use super::{Rig, entry, listening, path, refused, settings};
use crate::error::PeerMisbehaved;
use crate::server::{Ending, Input};
use crate::types::{Action, Names, Outcome};

const LOGIN_FIRST: &str = "530 Please login with USER and PASS.\r\n";

#[test]
fn a_session_begins_with_the_greeting_and_ends_with_quit() {
    let mut rig = Rig::with(settings());
    assert_eq!(rig.ask("USER ann"), "331 Password required for ann.\r\n");
    assert_eq!(rig.ask("PASS secret"), "");
    let (ticket, action) = rig.action();
    assert_eq!(
        action,
        Action::Login {
            user: "ann".into(),
            password: Secret::new("secret")
        }
    );
    let outcome = Outcome::LoggedIn {
        user: None,
        home: path("/"),
        message: vec!["Be good.".into()],
    };
    rig.input(Input::Done(ticket, outcome));
    assert_eq!(
        rig.take(),
        "230-User ann logged in.\r\n230-Be good.\r\n230 End.\r\n"
    );
    assert_eq!(rig.session.user(), Some("ann"));
    assert_eq!(rig.ask("QUIT"), "221 Goodbye.\r\n");
    assert_eq!(rig.closed, Some(Ending::Quit));
    assert_eq!(rig.ask("NOOP"), "", "nothing is said after the end");
    assert_eq!(rig.wait, None);
}

#[test]
fn nothing_but_the_table_is_looked_at_before_login() {
    for (verb, _) in ftp_wire::parse::verbs() {
        let mut rig = Rig::with(settings());
        let said = rig.ask(&format!("{verb} x"));
        let open = [
            "USER", "PASS", "QUIT", "FEAT", "HELP", "NOOP", "AUTH", "ADAT",
        ];
        assert_eq!(said != LOGIN_FIRST, open.contains(&verb), "{verb}: {said}");
    }
    let mut rig = Rig::with(settings());
    assert!(rig.ask("SITE HELP").starts_with("214-"));
    assert_eq!(rig.ask("SITE WHOAMI"), LOGIN_FIRST);
    // Even an ill-formed command says no more than that.
    assert_eq!(rig.ask("RETR"), LOGIN_FIRST);
    assert_eq!(rig.ask("STOR /x"), LOGIN_FIRST);
    assert!(rig.wanted.is_empty());
}

#[test]
fn refused_logins_begin_again_and_are_counted() {
    let mut rig = Rig::with(settings());
    assert_eq!(rig.ask("PASS x"), "503 Login with USER first.\r\n");
    for attempt in 1..=4 {
        rig.lines(&["USER ann", "PASS wrong"]).take();
        rig.done(refused::<530>("Login incorrect."));
        let said = rig.take();
        assert!(said.starts_with("530 Login incorrect.\r\n"), "{said}");
        assert_eq!(said.contains("421 "), attempt == 4, "{said}");
    }
    assert_eq!(
        rig.closed,
        Some(Ending::Misbehaved(PeerMisbehaved::TooManyLogins))
    );
}

#[test]
fn bad_commands_before_login_are_counted() {
    let mut rig = Rig::with(settings());
    for _ in 0..40 {
        rig.line("FOO");
    }
    assert_eq!(
        rig.closed,
        Some(Ending::Misbehaved(PeerMisbehaved::TooManyErrors))
    );
    assert!(
        rig.said
            .ends_with("421 Too many bad commands, closing control connection.\r\n")
    );
}

#[test]
fn passwords_are_in_no_debug_text() {
    let mut rig = Rig::with(settings());
    rig.line("USER ann");
    rig.line("PASS hunter2");
    rig.line("PASS hunter2");
    let text = format!(
        "{:?} {:?} {:?}",
        rig.session,
        rig.wanted,
        Input::Line(b"PASS hunter2")
    );
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn login_and_idleness_have_deadlines_and_work_has_none_here() {
    let mut rig = Rig::with(settings());
    // One line every ten seconds does not put the login off.
    for _ in 0..2 {
        rig.after(Duration::from_secs(10)).line("NOOP");
    }
    assert_eq!(rig.closed, None);
    rig.take();
    rig.after(Duration::from_secs(10));
    assert_eq!(
        rig.take(),
        "421 Login Timeout: closing control connection.\r\n"
    );
    assert_eq!(rig.closed, Some(Ending::LoginTimeout));

    let mut rig = Rig::logged_in();
    rig.after(Duration::from_secs(599)).line("NOOP").take();
    rig.after(Duration::from_secs(599));
    assert_eq!(rig.closed, None);
    rig.passive().line("STOR /f");
    assert_eq!(rig.wait, None);
    rig.after(Duration::from_secs(6000));
    rig.done(Outcome::Transferred { bytes: 0 }).take();
    rig.after(Duration::from_secs(600));
    assert_eq!(
        rig.take(),
        "421 Idle Timeout: closing control connection.\r\n"
    );
    assert_eq!(rig.closed, Some(Ending::IdleTimeout));
}

#[test]
fn a_thousand_commands_wait_and_are_answered_in_order() {
    let mut rig = Rig::logged_in();
    rig.line("SIZE first");
    for n in 0..1000 {
        rig.line(&format!("SITE TASKID {n}"));
        rig.line(&format!("LANG X{n}"));
        if n == 499 {
            break;
        }
    }
    assert!(!rig.session.has_room());
    assert_eq!(rig.take(), "");
    rig.done(Outcome::Stat(entry(EntryKind::File)));
    let said = rig.take();
    let mut expected = "213 7\r\n".to_owned();
    for n in 0..500 {
        expected.push_str(&format!(
            "250 OK.\r\n501 'LANG X{n}' unrecognized language.\r\n"
        ));
    }
    assert_eq!(said, expected);
    assert!(rig.session.has_room());
}

#[test]
fn one_command_too_many_or_too_many_bytes_end_the_session() {
    let mut rig = Rig::logged_in();
    rig.line("SIZE first");
    for _ in 0..1000 {
        rig.line("NOOP");
    }
    assert_eq!(rig.closed, None);
    assert_eq!(rig.ask("NOOP"), "500 Pipeline queue full.\r\n");
    assert_eq!(
        rig.closed,
        Some(Ending::Misbehaved(PeerMisbehaved::QueueFull))
    );

    let mut rig = Rig::logged_in();
    rig.line("SIZE first");
    let long = format!("DELE {}", "x".repeat(7000));
    let mut sent = 0;
    while rig.closed.is_none() {
        rig.line(&long);
        sent += 1;
        assert!(sent < 100, "the bytes are not bounded");
    }
}

#[test]
fn only_the_command_that_follows_at_once_completes_a_pair() {
    let mut rig = Rig::logged_in();
    rig.line("RNFR a")
        .done(Outcome::Stat(entry(EntryKind::File)));
    rig.line("RNTO b");
    let (ticket, action) = rig.action();
    let renamed = Names::Rename(path("/home/ann/a"), path("/home/ann/b"));
    assert_eq!(action, Action::Names(renamed));
    rig.input(Input::Done(ticket, Outcome::Done)).take();
    rig.line("RNFR a")
        .done(Outcome::Stat(entry(EntryKind::File)));
    rig.line("NOOP");
    assert_eq!(rig.ask("RNTO b"), "501 Invalid command arguments.\r\n");
    rig.line("RNFR missing")
        .done(refused::<550>("No such file."));
    assert_eq!(rig.ask("RNTO b"), "501 Invalid command arguments.\r\n");

    rig.line("SITE SYMLINKFROM ../target")
        .line("SITE SYMLINKTO l");
    let (_, action) = rig.action();
    let link = Names::Symlink(path("../target"), path("/home/ann/l"));
    assert_eq!(action, Action::Names(link));
}

#[test]
fn lines_of_other_protocols_end_the_session_without_a_word() {
    for line in ["GET / HTTP/1.1", "SSH-2.0-OpenSSH_9.6"] {
        let mut rig = Rig::with(settings());
        assert_eq!(rig.ask(line), "", "{line}");
        assert_eq!(rig.closed, Some(Ending::Misbehaved(PeerMisbehaved::NotFtp)));
    }
    let mut rig = Rig::with(settings());
    rig.input(Input::BadLine(BadLine::Control { byte: 0x16, at: 0 }));
    assert_eq!(
        (rig.take().as_str(), rig.closed.is_some()),
        ("", true),
        "TLS"
    );
    let mut rig = Rig::logged_in();
    rig.line("DELE a HTTP/1.1");
    assert_eq!(rig.closed, None, "a file may be named so");
}

#[test]
fn bad_lines_are_answered_and_long_ones_end_the_session() {
    let mut rig = Rig::logged_in();
    rig.input(Input::BadLine(BadLine::Control { byte: 0, at: 3 }));
    assert_eq!(rig.take(), "500 Command not supported.\r\n");
    assert_eq!(rig.ask("NOOP"), "200 NOOP command successful.\r\n");
    rig.input(Input::BadLine(BadLine::TooLong { limit: 8192 }));
    assert_eq!(rig.take(), "500 Command line too long.\r\n");
    assert_eq!(
        rig.closed,
        Some(Ending::Misbehaved(PeerMisbehaved::LineTooLong))
    );
}

#[test]
fn a_drain_finishes_the_transfer_and_nothing_after_it() {
    let mut rig = Rig::logged_in();
    rig.passive().lines(&["STOR /f", "STOR /g"]);
    rig.input(Input::Drain);
    assert_eq!((rig.take().as_str(), rig.closed), ("", None));
    rig.done(Outcome::Transferred { bytes: 1 });
    let said = rig.take();
    assert!(
        said.contains("226 Transfer Complete.\r\n421 Server is stopping"),
        "{said}"
    );
    assert_eq!(rig.closed, Some(Ending::Drained));

    let mut rig = Rig::logged_in();
    rig.passive().line("STOR /f");
    let (ticket, _) = rig.action();
    rig.input(Input::Drain);
    assert!(rig.wanted.is_empty(), "it is left to end");
    rig.input(Input::Drain);
    assert!(
        rig.wanted
            .iter()
            .any(|(_, action)| *action == Action::Abort(ticket)),
        "asked a second time"
    );
    rig.input(Input::Done(ticket, refused::<426>("x")));
    assert_eq!(rig.closed, Some(Ending::Drained));

    let mut rig = Rig::logged_in();
    rig.input(Input::Drain);
    assert!(rig.take().starts_with("421 "));
    assert_eq!(rig.closed, Some(Ending::Drained));
}

#[test]
fn a_peer_that_goes_away_aborts_unless_it_said_quit() {
    let mut rig = Rig::logged_in();
    rig.passive().lines(&["STOR /f", "NOOP"]);
    rig.input(Input::Eof);
    assert!(matches!(rig.wanted.back(), Some((_, Action::Abort(_)))));
    assert_eq!(rig.closed, None);
    rig.done(refused::<426>("Aborted."));
    assert_eq!(rig.closed, Some(Ending::PeerClosed));

    let mut rig = Rig::logged_in();
    rig.lines(&["SIZE f", "NOOP", "QUIT"]);
    rig.input(Input::Eof);
    rig.done(Outcome::Stat(entry(EntryKind::File)));
    assert_eq!(
        rig.take(),
        "213 7\r\n200 NOOP command successful.\r\n221 Goodbye.\r\n"
    );
    assert_eq!(rig.closed, Some(Ending::Quit));
}

#[test]
fn a_digest_ends_with_its_client_even_after_quit() {
    let mut rig = Rig::logged_in();
    rig.lines(&["CKSM MD5 0 -1 f", "CKSM MD5 0 -1 f", "SIZE f", "QUIT"]);
    let (ticket, _) = rig.action();
    rig.input(Input::Eof);
    assert!(matches!(rig.wanted.back(), Some((_, Action::Abort(stopped))) if *stopped == ticket));
    rig.input(Input::Done(ticket, refused::<426>("x")));
    // All but the digest is still done.
    rig.done(Outcome::Stat(entry(EntryKind::File)));
    let said = rig.take();
    let codes: Vec<&str> = said.lines().filter_map(|line| line.get(..3)).collect();
    assert_eq!(codes, ["426", "426", "213", "221"]);
    assert_eq!(rig.closed, Some(Ending::Quit));
}

#[test]
fn denied_commands_are_not_run_and_not_offered() {
    let mut settings = settings();
    settings.denied = vec![
        "DELE".into(),
        "SITE RDEL".into(),
        "SIZE".into(),
        "MKD".into(),
    ];
    let mut rig = Rig::logged_in_with(settings);
    assert_eq!(rig.ask("DELE f"), "501 Command arguments disabled.\r\n");
    assert_eq!(
        rig.ask("site rdel f"),
        "501 Command arguments disabled.\r\n"
    );
    assert_eq!(
        rig.ask("XMKD d"),
        "501 Command arguments disabled.\r\n",
        "its other name"
    );
    assert!(rig.wanted.is_empty());
    assert!(!rig.ask("SITE HELP").contains("RDEL"));
    assert!(!rig.ask("FEAT").contains(" SIZE\r\n"));
    assert!(!rig.ask("HELP").contains("DELE"));
}

#[test]
fn a_virtual_root_and_restrictions_hold_for_every_path() {
    let mut rig = Rig::logged_in();
    rig.line("SITE CHROOT /home")
        .done(Outcome::Stat(entry(EntryKind::Dir)));
    assert_eq!(rig.ask("PWD"), "257 \"/ann\" is current directory.\r\n");
    rig.line("DELE /../../x");
    assert_eq!(
        rig.action().1,
        Action::Names(Names::Delete(path("/home/x")))
    );
    let mut rig = Rig::logged_in();
    rig.line("SITE RESTRICT R/data,/scratch");
    assert_eq!(rig.ask("DELE /data/x"), "550 Path not allowed.\r\n");
    assert_eq!(rig.ask("CWD /"), "550 Path not allowed.\r\n");
    assert_eq!(
        rig.ask("SITE RESTRICT /"),
        "500 Session restricted paths list already set.\r\n"
    );
    assert_eq!(
        rig.ask("SITE SYMLINKFROM /etc/x"),
        "550 Links are not made after SITE CHROOT or SITE RESTRICT.\r\n"
    );
    assert!(
        rig.wanted
            .iter()
            .any(|(_, action)| *action == Action::NoLinks)
    );
    rig.line("DELE /scratch/x");
    assert_eq!(
        rig.action().1,
        Action::Names(Names::Delete(path("/scratch/x")))
    );
}

/// A caller that reads only while there is room never ends a session because of its queue.
#[test]
fn where_there_is_room_the_next_line_fits() {
    let mut rig = Rig::logged_in();
    rig.line("SIZE f");
    let long = format!("SIZE {}", "f".repeat(8000));
    let mut lines = 0;
    while rig.session.has_room() {
        rig.line(&long);
        lines += 1;
    }
    assert_eq!(rig.closed, None);
    assert!((6..8).contains(&lines), "{lines} lines of 8,000 bytes");
}

#[test]
fn outcomes_of_other_tickets_are_ignored() {
    let mut rig = Rig::logged_in();
    rig.line("PASV");
    let (first, _) = rig.action();
    rig.input(Input::Done(first, listening()));
    rig.line("SIZE f");
    rig.input(Input::Done(first, listening()));
    assert!(rig.session.is_busy());
}

#[test]
fn a_named_stack_replaces_the_data_side() {
    let mut rig = Rig::logged_in();
    rig.passive();
    assert_eq!(rig.ask("SITE SETNETSTACK udt"), "");
    let wanted: Vec<_> = rig
        .wanted
        .iter()
        .map(|(_, action)| action.clone())
        .collect();
    let stack = Some("udt".to_owned());
    let built = Action::Stack(StackSide::Net, stack);
    assert_eq!(wanted.as_slice(), [Action::DropData, built]);
    rig.done(Outcome::Done);
    assert_eq!(rig.take(), "250 OK.\r\n");
    assert!(
        rig.ask("RETR x").starts_with("425 "),
        "the port of PASV is gone"
    );
    // One of files leaves data connections alone, and a refusal is told.
    rig.ask("SITE SETDISKSTACK gopher");
    let stack = Some("gopher".to_owned());
    let (_, asked) = rig.wanted.back().expect("an action");
    assert_eq!(*asked, Action::Stack(StackSide::Disk, stack));
    rig.done(refused::<500>("stack: no driver `gopher`"));
    assert_eq!(rig.take(), "500 stack: no driver `gopher`\r\n");
    assert!(rig.ask("SITE SETNETSTACK").starts_with("501 "));
}

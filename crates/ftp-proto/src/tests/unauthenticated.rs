//! The server's end before login: how little a peer can make it hold, and how it is turned away.

use std::time::Duration;

use super::{Rig, refused, settings};
use crate::error::PeerMisbehaved;
use crate::server::{Ending, Input};

#[test]
fn ten_thousand_commands_before_login_end_the_session() {
    let mut rig = Rig::with(settings());
    let mut sent = 0;
    while rig.closed.is_none() && sent < 10_000 {
        rig.line("NOOP");
        sent += 1;
    }
    assert_eq!(
        rig.closed,
        Some(Ending::Misbehaved(PeerMisbehaved::TooManyCommands)),
        "{sent} commands"
    );
    assert!(
        rig.said
            .ends_with("421 Too many commands without a login, closing control connection.\r\n"),
        "{}",
        rig.said
    );
}

#[test]
fn behind_a_password_wait_few_commands() {
    for line in ["NOOP".to_owned(), format!("USER {}", "x".repeat(8000))] {
        let mut rig = Rig::with(settings());
        rig.lines(&["USER ann", "PASS secret"]);
        let mut bytes = 0;
        while rig.session.has_room() {
            rig.line(&line);
            bytes += line.len();
        }
        assert!(bytes <= 16 << 10, "{bytes} bytes of {}", line.len());
        assert_eq!(rig.closed, None);
        rig.done(crate::types::Outcome::LoggedIn {
            user: None,
            home: super::path("/"),
            message: Vec::new(),
        });
        assert!(rig.session.has_room(), "after the login there is more");
    }
}

#[test]
fn the_login_deadline_does_not_hold_while_a_password_is_looked_at() {
    let mut rig = Rig::with(settings());
    rig.lines(&["USER ann", "PASS wrong"]).take();
    rig.after(Duration::from_secs(3600));
    assert_eq!((rig.closed, rig.wait), (None, None));
    rig.done(refused::<530>("Login incorrect."));
    assert_eq!(rig.closed, None);
    rig.after(Duration::ZERO);
    assert_eq!(rig.closed, Some(Ending::LoginTimeout));
}

#[test]
fn an_evicted_session_is_answered_421() {
    for password in [false, true] {
        let mut rig = Rig::with(settings());
        rig.line("USER ann");
        if password {
            rig.line("PASS secret");
        }
        rig.take();
        rig.input(Input::Evict);
        assert_eq!(
            rig.take(),
            "421 Too many connections that have not logged in: closing control connection.\r\n"
        );
        assert_eq!(rig.closed, Some(Ending::Overloaded));
    }
}

/// RFC 959 §5.4: 421 is the last reply.
#[test]
fn a_login_at_the_limit_of_sessions_ends_the_session() {
    let mut rig = Rig::with(settings());
    rig.lines(&["USER ann", "PASS secret", "FEAT"]).take();
    rig.done(refused::<421>("Full."));
    assert_eq!(rig.take(), "421 Full.\r\n");
    assert_eq!(rig.closed, Some(Ending::Overloaded));
}

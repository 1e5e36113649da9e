//! `SITE RATE`: in force when it arrives, answered in its turn.

use std::num::NonZero;

use super::{Rig, path, settings};
use crate::server::{Ending, Input};
use crate::types::{Action, Event, Outcome};

/// The rates that were handed to the caller since the last call.
fn rates(rig: &mut Rig) -> Vec<Option<u64>> {
    let mut rates = Vec::new();
    rig.wanted.retain(|(_, action)| match action {
        Action::Rate(rate) => {
            rates.push(rate.map(NonZero::get));
            false
        }
        _ => true,
    });
    rates
}

/// A session that sends a file, and the replies up to there looked at.
fn sending() -> Rig {
    let mut rig = Rig::logged_in();
    rig.passive().line("RETR f");
    let (ticket, _) = rig.wanted.back().cloned().unwrap();
    rig.input(Input::Event(ticket, Event::Opened { reused: false }));
    rig.take();
    rig
}

#[test]
fn a_rate_is_in_force_and_answered_at_once_where_nothing_runs() {
    let mut rig = Rig::logged_in();
    assert_eq!(
        rig.ask("SITE RATE 1000"),
        "250 At most 1000 bytes a second of data each way.\r\n"
    );
    assert_eq!(rig.ask("SITE RATE off"), "250 Any rate of data.\r\n");
    assert_eq!(rates(&mut rig), [Some(1000), None]);
    assert!(rig.ask("SITE RATE fast").starts_with("501 "));
    assert!(rates(&mut rig).is_empty());
}

#[test]
fn a_rate_in_mid_transfer_is_in_force_at_once_and_answered_in_its_turn() {
    let mut rig = sending();
    rig.lines(&["NOOP", "SITE RATE 1000", "SITE RATE 500", "NOOP"]);
    assert_eq!(rig.take(), "", "the transfer comes first");
    assert_eq!(rates(&mut rig), [Some(1000), Some(500)]);
    rig.done(Outcome::Transferred { bytes: 5 });
    let said = rig.take();
    let codes: Vec<&str> = said.lines().map(|line| &line[..3]).collect();
    assert_eq!(codes, ["226", "200", "250", "250", "200"]);
    assert!(said.contains("1000 bytes") && said.contains("500 bytes"));
    assert!(rates(&mut rig).is_empty(), "the last one stays in force");
}

/// Files that were asked for between the two would be sent at the older one.
#[test]
fn a_rate_in_its_turn_takes_back_no_later_one() {
    let mut rig = sending();
    rig.lines(&["SITE RATE 1000", "PASV", "SITE RATE 500"]);
    assert_eq!(rates(&mut rig), [Some(1000), Some(500)]);
    rig.done(Outcome::Transferred { bytes: 5 });
    let said = rig.take();
    assert!(said.contains("1000 bytes") && !said.contains("500 bytes"));
    assert!(rates(&mut rig).is_empty());
}

#[test]
fn rates_ahead_of_the_end_of_a_login_are_in_force_in_their_turn() {
    let mut rig = Rig::with(settings());
    rig.lines(&["USER ann", "PASS secret", "SITE RATE 5", "SITE RATE 6"]);
    assert!(rates(&mut rig).is_empty());
    rig.done(Outcome::LoggedIn {
        user: None,
        home: path("/home/ann"),
        message: Vec::new(),
    });
    assert_eq!(rates(&mut rig), [Some(5), Some(6)]);
}

/// It holds already, so that an abort has nothing to take back.
#[test]
fn an_abort_cancels_no_rate() {
    let mut rig = sending();
    rig.lines(&["NOOP", "SITE RATE 1000", "ABOR"]);
    rig.done(Outcome::Transferred { bytes: 5 });
    let said = rig.take();
    let codes: Vec<&str> = said.lines().map(|line| &line[..3]).collect();
    assert_eq!(codes, ["226", "426", "250", "226"], "{said}");
}

#[test]
fn a_rate_keeps_the_first_half_of_a_pair() {
    let mut rig = Rig::logged_in();
    rig.lines(&["SITE SYMLINKFROM a", "SITE RATE 5", "SITE SYMLINKTO b"]);
    let (_, action) = rig.action();
    assert!(matches!(action, Action::Names(_)), "{action:?}");
}

#[test]
fn a_rate_needs_a_login_and_a_server_that_has_it() {
    let mut rig = Rig::with(settings());
    assert!(rig.ask("SITE RATE 5").starts_with("530 "));
    // The password is looked at.
    rig.lines(&["USER ann", "PASS secret", "SITE RATE 5"]);
    assert!(rates(&mut rig).is_empty());

    let mut without = settings();
    without.rates = false;
    let mut rig = Rig::logged_in_with(without);
    assert!(!rig.ask("FEAT").contains(" RATE\r\n"));
    assert!(rig.ask("SITE RATE 5").starts_with("504 "));
    rig.passive().lines(&["RETR f", "SITE RATE 5"]);
    assert!(rates(&mut rig).is_empty());

    let mut denied = settings();
    denied.denied = vec!["SITE RATE".into()];
    let mut rig = Rig::logged_in_with(denied);
    assert!(!rig.ask("FEAT").contains(" RATE\r\n"));
    rig.passive().lines(&["RETR f", "SITE RATE 5"]);
    assert!(rates(&mut rig).is_empty());
}

/// They wait in the queue, and the caller carries each out before the next line.
#[test]
fn rates_are_bounded_by_the_queue() {
    let mut few = settings();
    few.limits.queued_commands = 3;
    let mut rig = Rig::logged_in_with(few);
    rig.passive().line("RETR f");
    rig.lines(&["SITE RATE 1", "SITE RATE 2", "SITE RATE 3"]);
    assert_eq!(rates(&mut rig).len(), 3);
    assert!(!rig.session.has_room());
    rig.line("SITE RATE 4");
    assert!(matches!(rig.closed, Some(Ending::Misbehaved(_))));
}

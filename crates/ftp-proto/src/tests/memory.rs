//! Transfers from and to memory: their bounds, their refusals, and the features.

use ftp_wire::memory::MemoryLimits;

use super::{Rig, path, settings};
use crate::server::{Input, Settings};
use crate::types::{Action, Outcome, TransferKind};

const MOST: MemoryLimits = MemoryLimits::new(1 << 40, 60);

const NO_MODULE: [(&str, &str); 2] = [
    (
        "ERET memory=\"1 1\" d",
        "504 ERET module not available.\r\n",
    ),
    (
        "ESTO memory=\"1 1\" d",
        "504 ESTO module not available.\r\n",
    ),
];

fn measuring(change: impl FnOnce(&mut Settings)) -> Rig {
    let mut settings = settings();
    settings.memory = Some(MOST);
    change(&mut settings);
    let mut rig = Rig::logged_in_with(settings);
    rig.ask("TYPE I");
    rig
}

fn kind(rig: &mut Rig, line: &str) -> TransferKind {
    rig.passive();
    rig.line(line);
    let (ticket, action) = rig.action();
    let Action::Transfer(transfer) = action else {
        panic!("{line}: {action:?}")
    };
    rig.input(Input::Done(ticket, Outcome::Transferred { bytes: 1 }));
    transfer.kind
}

#[test]
fn the_settings_bound_what_a_client_asks_for() {
    let mut rig = measuring(|_| ());
    let at = || path("/home/ann/d");
    for (arguments, most) in [
        ("5 7", MemoryLimits::new(5, 7)),
        ("18446744073709551615 7", MemoryLimits::new(MOST.bytes, 7)),
        ("5 3600", MemoryLimits::new(5, MOST.seconds)),
        ("0 0", MemoryLimits::new(0, 0)),
    ] {
        let sent = kind(&mut rig, &format!("ERET memory=\"{arguments}\" d"));
        assert_eq!(sent, TransferKind::RetrieveMemory { path: at(), most });
        let taken = kind(&mut rig, &format!("ESTO Memory=\"{arguments}\" d"));
        assert_eq!(taken, TransferKind::StoreMemory { path: at(), most });
    }
}

#[test]
fn calls_that_make_no_sense_are_refused() {
    let mut rig = measuring(|_| ());
    rig.passive();
    for arguments in ["", "5", "5 7 9", "5 -1", "+5 7", "18446744073709551616 1"] {
        for verb in ["ERET", "ESTO"] {
            let said = rig.ask(&format!("{verb} memory=\"{arguments}\" d"));
            let syntax = format!("501 Bad arguments of the module: {verb} <sp> memory=");
            assert!(said.starts_with(&syntax), "{arguments}: {said}");
        }
    }
    rig.ask("REST 5");
    let said = rig.ask("ERET memory=\"5 7\" d");
    assert!(said.starts_with("504 A module has no restart"), "{said}");
    rig.ask("TYPE A");
    let said = rig.ask("ESTO memory=\"5 7\" d");
    assert!(said.starts_with("504 A module moves bytes"), "{said}");
}

#[test]
fn who_may_neither_read_nor_write_measures_nothing() {
    let mut rig = measuring(|_| ());
    rig.ask("SITE RESTRICT R/r,W/w,N/n");
    for (place, is_allowed) in [("/r", true), ("/w", true), ("/n", false), ("/other", false)] {
        for verb in ["ERET", "ESTO"] {
            rig.passive();
            rig.line(&format!("{verb} memory=\"5 7\" {place}"));
            let begun = rig.wanted.pop_front();
            match begun {
                Some((ticket, Action::Transfer(_))) if is_allowed => {
                    rig.input(Input::Done(ticket, Outcome::Transferred { bytes: 5 }));
                }
                None if !is_allowed => {
                    let said = rig.take();
                    assert!(said.contains("550"), "{verb} {place}: {said}");
                }
                other => panic!("{verb} {place}: {other:?}"),
            }
        }
    }
}

#[test]
fn settings_without_it_offer_nothing() {
    let mut rig = measuring(|_| ());
    let said = rig.ask("FEAT");
    for line in [
        " ERET P,checksum,tar,memory\r\n",
        " ESTO A,checksum,memory\r\n",
        " MEMORY Bytes=1099511627776;Seconds=60;\r\n",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(rig.ask("HELP ERET").contains("ERET <sp> memory="));
    let mut rig = measuring(|settings| settings.memory = None);
    let said = rig.ask("FEAT");
    assert!(!said.to_lowercase().contains("memory"), "{said}");
    for (line, refusal) in NO_MODULE {
        assert_eq!(rig.ask(line), refusal);
    }
    // One direction is refused with the command that moves files.
    for (denied, (line, refusal)) in ["RETR", "STOR"].into_iter().zip(NO_MODULE) {
        let mut rig = measuring(|settings| settings.denied.push(denied.to_owned()));
        assert_eq!(rig.ask(line), refusal);
    }
}

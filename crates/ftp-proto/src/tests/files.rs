//! Many small files by one command: their names, their tag, and the last reply.

use ftp_wire::command::Tag;
use ftp_wire::facts::TimeVal;
use ftp_wire::receipt::Extent;
use ftp_wire::stored::Stored;

use super::{Rig, path, settings};
use crate::server::{Input, Settings};
use crate::types::{Action, Outcome, Transfer, TransferKind};

fn rig(change: impl FnOnce(&mut Settings)) -> Rig {
    let mut settings = settings();
    settings.files = true;
    change(&mut settings);
    let mut rig = Rig::logged_in_with(settings);
    rig.ask("TYPE I");
    rig
}

/// Runs a transfer to its end; gives it with the replies.
fn run(rig: &mut Rig, line: &str, outcome: Outcome) -> (Transfer, String) {
    // In MODE E the sender connects.
    match line.starts_with("ERET") {
        true => rig.active(),
        false => rig.passive(),
    };
    rig.line(line);
    let (ticket, action) = rig.action();
    let Action::Transfer(transfer) = action else {
        panic!("{line}: {action:?}")
    };
    rig.input(Input::Done(ticket, outcome));
    (*transfer, rig.take())
}

#[test]
fn the_last_names_of_the_path_are_the_files() {
    let mut rig = rig(|_| ());
    for (count, named, dir, names) in [
        (1, "a", "/home/ann", &["a"][..]),
        (2, "a/b c", "/home/ann", &["a", "b c"]),
        (2, "d/a/b", "/home/ann/d", &["a", "b"]),
        (2, "../d//a/b", "/home/d", &["a", "b"]),
        (2, "/a/b", "/", &["a", "b"]),
        (1, "/d/~", "/d", &["~"]),
    ] {
        let line = format!("ERET files=\"3 {count}\" {named}");
        let (transfer, _) = run(&mut rig, &line, Outcome::Transferred { bytes: 1 });
        let kind = TransferKind::RetrieveFiles {
            dir: path(dir),
            names: names.iter().map(|name| name.as_bytes().to_vec()).collect(),
            facts: false,
        };
        assert_eq!(transfer.kind, kind, "{named}");
        assert_eq!(transfer.tag, None);
    }
}

#[test]
fn facts_are_told_where_they_are_asked_for() {
    let mut rig = rig(|_| ());
    let done = Outcome::Transferred { bytes: 1 };
    let (sent, _) = run(&mut rig, "ERET files=\"3 1 facts\" a", done);
    assert!(matches!(
        sent.kind,
        TransferKind::RetrieveFiles { facts: true, .. }
    ));
    rig.active();
    let said = rig.ask("ERET files=\"3 1 other\" a");
    assert!(said.starts_with("501 "), "{said}");
}

#[test]
fn data_has_a_tag_in_mode_e() {
    let mut rig = rig(|_| ());
    rig.ask("MODE E");
    let tag = Some(Tag::new(7, Extent::Head));
    let done = Outcome::Transferred { bytes: 1 };
    let (sent, _) = run(&mut rig, "ERET files=\"7 1\" a", done.clone());
    assert_eq!(sent.tag, tag);
    let (taken, _) = run(&mut rig, "ESTO files=\"7 1\" d", done);
    assert_eq!(taken.tag, tag);
}

#[test]
fn the_last_reply_tells_which_files_are_stored() {
    let mut rig = rig(|_| ());
    let time = TimeVal::new(1_795_973_537, 5_000_000);
    let stored = Outcome::Unpacked(Stored(vec![None, Some(time)]));
    let (taken, said) = run(&mut rig, "ESTO files=\"3 2\" d", stored);
    let kind = TransferKind::StoreFiles {
        dir: path("/home/ann/d"),
        count: 2,
        times: true,
        modes: true,
    };
    assert_eq!(taken.kind, kind);
    let end = "226 Transfer Complete. Stored=-,20261129173217.005;\r\n";
    assert!(said.ends_with(end), "{said}");
}

#[test]
fn times_are_for_those_who_may_set_them_otherwise() {
    let times = |change: fn(&mut Settings)| {
        let done = Outcome::Unpacked(Stored(vec![None]));
        let (taken, _) = run(&mut rig(change), "ESTO files=\"3 1\" d", done);
        matches!(taken.kind, TransferKind::StoreFiles { times: true, .. })
    };
    assert!(times(|_| ()));
    assert!(!times(|settings| settings.times = false));
    assert!(!times(|settings| settings.denied = vec!["MFMT".to_owned()]));
    let done = Outcome::Unpacked(Stored(vec![None]));
    let mut rig = rig(|settings| settings.denied = vec!["SITE CHMOD".to_owned()]);
    let (taken, _) = run(&mut rig, "ESTO files=\"3 1\" d", done);
    assert!(matches!(
        taken.kind,
        TransferKind::StoreFiles { modes: false, .. }
    ));
}

#[test]
fn it_is_offered_where_all_files_are_at_hand_on_this_host() {
    let offered = |change: fn(&mut Settings)| {
        let feat = rig(change).ask("FEAT");
        ["ERET P,checksum,tar,files\r\n", "ESTO A,checksum,files\r\n"]
            .map(|line| feat.contains(line))
    };
    assert_eq!(offered(|_| ()), [true; 2]);
    assert_eq!(offered(|settings| settings.files = false), [false; 2]);
    assert_eq!(offered(|settings| settings.tags = false), [false; 2]);
    assert_eq!(offered(|settings| settings.stripes = Some(2)), [false; 2]);
    let denies = |verb: &str, settings: &mut Settings| settings.denied = vec![verb.to_owned()];
    assert_eq!(
        rig(|all| denies("RETR", all))
            .ask("ERET files=\"1 1\" a")
            .get(..3),
        Some("504")
    );
    assert_eq!(
        rig(|all| denies("STOR", all))
            .ask("ESTO files=\"1 1\" d")
            .get(..3),
        Some("504")
    );
}

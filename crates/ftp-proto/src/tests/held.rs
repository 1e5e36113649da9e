//! `SITE HELD` of a directory: the partial files that the session may write, and no others.

use ftp_wire::facts::TimeVal;
use ftp_wire::partial::{MAX_PARTIALS, Partial};

use super::{Rig, path};
use crate::types::{Action, Names, Outcome};

fn partial(name: &str) -> Partial {
    Partial {
        name: path(name),
        held: 5,
        size: None,
        modified: TimeVal::new(0, 0),
        in_use: false,
    }
}

#[test]
fn a_directory_lists_its_partial_files() {
    let mut rig = Rig::logged_in();
    rig.line("SITE HELD d");
    let asked = rig.wanted.back().map(|(_, action)| action.clone());
    let held = Names::Held(path("/home/ann/d"));
    assert_eq!(asked, Some(Action::Names(held)));
    let all = vec![partial("a b"), partial("e/f")];
    rig.done(Outcome::Partials(all, false));
    assert_eq!(
        rig.take(),
        "213-Partial files in /home/ann/d\r\n Held=5;Modify=19700101000000; a b\r\n \
         Held=5;Modify=19700101000000; e/f\r\n213 End.\r\n"
    );
}

#[test]
fn names_that_a_session_may_not_write_are_left_out() {
    let mut rig = Rig::logged_in();
    rig.line("SITE RESTRICT RW/data,R/data/out,N/data/secret");
    rig.take();
    rig.line("SITE HELD /data");
    let names = ["in/f", "out/f", "secret/f", "outer/f"];
    rig.done(Outcome::Partials(names.map(partial).to_vec(), false));
    let said = rig.take();
    assert!(
        said.contains("; in/f\r\n") && said.contains("; outer/f\r\n"),
        "{said}"
    );
    assert!(
        !said.contains("; out/f") && !said.contains("secret"),
        "{said}"
    );
    assert!(rig.ask("SITE HELD /data/out").starts_with("550 "));
}

#[test]
fn a_list_is_bounded_and_tells_that_it_is_cut() {
    for (count, is_cut, last) in [
        (MAX_PARTIALS, false, "213 End.\r\n"),
        (MAX_PARTIALS + 1, false, "213 More "),
        (1, true, "213 More "),
    ] {
        let mut rig = Rig::logged_in();
        rig.line("SITE HELD /");
        rig.done(Outcome::Partials(vec![partial("f"); count], is_cut));
        let said = rig.take();
        assert_eq!(said.matches("; f\r\n").count(), count.min(MAX_PARTIALS));
        assert!(said.contains(last), "{count}");
    }
}

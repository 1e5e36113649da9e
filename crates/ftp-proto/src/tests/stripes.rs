//! A server whose data connections are on several hosts: SPAS, SPOR and `StripeLayout`.

use std::net::{Ipv6Addr, SocketAddr};
use std::num::NonZero;

use byte_ranges::{Layout, Range64, RangeSet};
use ftp_wire::command::{Dcau, Mode, Tag};
use ftp_wire::receipt::Extent;

use super::{HOST, Rig, listening, path, settings};
use crate::security::{DataProtection, Level, Mechanism, Protection};
use crate::server::{Input, Settings};
use crate::types::{Action, Event, Outcome, Placement, Transfer, TransferKind};

/// The most stripes of the server.
const STRIPES: u32 = 3;

const BOTH: &str = "SPOR 127,0,0,1,100,1 127,0,0,1,100,2";

fn striped() -> Settings {
    let mut settings = settings();
    settings.stripes = Some(STRIPES);
    settings
}

/// A session in MODE E and TYPE I.
fn session() -> Rig {
    let mut rig = Rig::logged_in_with(striped());
    rig.lines(&["MODE E", "TYPE I"]).take();
    rig
}

fn addresses() -> Vec<SocketAddr> {
    let stripe = |port| SocketAddr::new(HOST, port);
    vec![stripe(50_002), stripe(50_000)]
}

fn wanted(rig: &mut Rig, line: &str) -> Option<u32> {
    match rig.line(line).action() {
        (_, Action::Listen { stripes, .. }) => stripes,
        (_, other) => panic!("{other:?}"),
    }
}

/// The transfer that a line begins, at its end.
fn complete(rig: &mut Rig, line: &str) -> Transfer {
    rig.line(line);
    let (ticket, action) = rig.action();
    let Action::Transfer(transfer) = action else {
        panic!("{line}: {action:?}")
    };
    rig.input(Input::Event(ticket, Event::Opened { reused: false }));
    rig.input(Input::Done(ticket, Outcome::Transferred { bytes: 1 }));
    let said = rig.take();
    assert_eq!(
        said,
        "150 Beginning transfer.\r\n226 Transfer Complete.\r\n"
    );
    *transfer
}

/// A session with two stripes that listen.
fn receiving() -> Rig {
    let mut rig = session();
    rig.line("SPAS").done(Outcome::Listening(addresses()));
    let said = "229-Entering Striped Passive Mode.\r\n 127,0,0,1,195,82\r\n \
                127,0,0,1,195,80\r\n229 End\r\n";
    assert_eq!(rig.take(), said);
    rig
}

/// A session with two stripes that connect.
fn sending() -> Rig {
    let mut rig = session();
    rig.line(BOTH).done(Outcome::Done);
    assert_eq!(rig.take(), "200 PORT Command successful.\r\n");
    rig
}

#[test]
fn only_spas_in_mode_e_asks_for_stripes() {
    for (mode, line, stripes) in [
        ("MODE E", "SPAS", Some(STRIPES)),
        ("MODE E", "SPAS 2", Some(STRIPES)),
        ("MODE E", "PASV", None),
        ("MODE E", "EPSV", None),
        ("MODE S", "SPAS", None),
    ] {
        let mut rig = session();
        rig.line(mode);
        assert_eq!(wanted(&mut rig, line), stripes, "{mode} {line}");
        let mut fewer = session();
        fewer.line("OPTS SPAS Stripes=1;").take();
        fewer.line(mode);
        assert_eq!(
            wanted(&mut fewer, line),
            stripes.map(|_| 1),
            "{mode} {line}"
        );
        let mut whole = Rig::logged_in();
        whole.line(mode);
        assert_eq!(wanted(&mut whole, line), None, "{mode} {line}");
    }
    let mut rig = session();
    rig.line("PASV").done(Outcome::Listening(addresses()));
    assert_eq!(
        rig.take(),
        "227 Entering Passive Mode (127,0,0,1,195,82)\r\n"
    );
}

#[test]
fn a_storage_of_one_uploader_lists_all_senders_when_asked() {
    for (options, stripes) in [
        (&[][..], 1),
        (&["OPTS SPAS Command=RETR;"], STRIPES),
        (&["OPTS SPAS Command=RETR;", "OPTS SPAS Stripes=2;"], 2),
        (&["OPTS SPAS Command=RETR;", "OPTS SPAS Command=STOR;"], 1),
    ] {
        let mut settings = striped();
        settings.shares_uploads = false;
        let mut rig = Rig::logged_in_with(settings);
        rig.line("MODE E").lines(options);
        assert_eq!(wanted(&mut rig, "SPAS"), Some(stripes), "{options:?}");
    }
}

#[test]
fn stripes_that_listen_late_are_told_with_129() {
    let mut rig = session();
    rig.line("OPTS SPAS AllowDelayed=1;").take();
    assert_eq!(rig.ask("SPAS"), "200 Passive delayed.\r\n");
    assert_eq!(rig.ask("STOR f"), "");
    let (ticket, action) = rig.action();
    assert!(matches!(
        action,
        Action::Listen {
            stripes: Some(STRIPES),
            ..
        }
    ));
    rig.input(Input::Done(ticket, Outcome::Listening(addresses())));
    let said = "129-Entering Striped Passive Mode.\r\n 127,0,0,1,195,82\r\n \
                127,0,0,1,195,80\r\n129 End\r\n";
    assert_eq!(rig.take(), said);
    assert!(matches!(rig.action().1, Action::Transfer(_)));
}

#[test]
fn all_addresses_of_spor_are_handed_on_in_order() {
    let mut rig = session();
    rig.line("SPOR 127,0,0,1,100,2 |1|127.0.0.1|25601|");
    let ports = [25602, 25601].map(|port| SocketAddr::new(HOST, port));
    assert!(matches!(rig.action().1, Action::Connect(to, _) if to == ports));

    let mut settings = striped();
    settings.limits.stripes = 4;
    let mut rig = Rig::logged_in_with(settings);
    let many = format!("SPOR{}", " 127,0,0,1,100,1".repeat(5));
    assert_eq!(rig.ask(&many), "501 Illegal PORT command.\r\n");
    // More addresses than stripes are no error: one stripe then serves several.
    rig.line(&format!("SPOR{}", " 127,0,0,1,100,1".repeat(4)));
    assert!(matches!(rig.action().1, Action::Connect(to, _) if to.len() == 4));
}

#[test]
fn the_layout_takes_effect() {
    let blocked = |block| Layout::Blocked(NonZero::new(block).unwrap());
    let mut rig = sending();
    for (line, layout) in [
        ("NOOP", blocked(1 << 20)),
        ("OPTS RETR StripeLayout=Partitioned;", Layout::Partitioned),
        ("OPTS RETR Parallelism=4,4,4;", Layout::Partitioned),
        (
            "OPTS RETR StripeLayout=Blocked;BlockSize=65536;",
            blocked(65_536),
        ),
        ("OPTS RETR BlockSize=1;", blocked(4096)),
        (
            "OPTS RETR StripeLayout=Blocked;Parallelism=2;",
            blocked(1 << 20),
        ),
    ] {
        let said = rig.ask(line);
        if line != "NOOP" {
            assert_eq!(said, "200 OPTS Command Successful.\r\n", "{line}");
        }
        assert_eq!(
            complete(&mut rig, "RETR f").channel.layout,
            layout,
            "{line}"
        );
    }
    assert_eq!(complete(&mut rig, "RETR f").channel.parallelism, 2);
    let mut whole = Rig::logged_in();
    let said = whole.ask("OPTS RETR StripeLayout=Partitioned;");
    assert!(said.contains("single stripe"), "{said}");
}

#[test]
fn markers_are_of_one_stripe_each_and_restarts_of_all() {
    let mut rig = receiving();
    rig.line("STOR f");
    let (ticket, _) = rig.action();
    rig.input(Input::Event(ticket, Event::Opened { reused: false }));
    rig.take();
    for (stripe, bytes) in [(1, 7), (0, 5)] {
        let moved = Event::Moved {
            at: 17_952_027_521,
            stripe,
            stripes: 2,
            bytes,
            waits: None,
        };
        rig.input(Input::Event(ticket, moved));
        let said = format!(
            "112-Perf Marker\r\n Timestamp: 1795202752.1\r\n Stripe Index: {stripe}\r\n \
             Stripe Bytes Transferred: {bytes}\r\n Total Stripe Count: 2\r\n112 End.\r\n"
        );
        assert_eq!(rig.take(), said);
    }
    let all: RangeSet = [(0, 5), (10, 17)]
        .into_iter()
        .filter_map(|(start, end)| Range64::new(start, end))
        .collect();
    rig.input(Input::Event(ticket, Event::Received(all)));
    assert_eq!(rig.take(), "111 Range Marker 0-5,10-17\r\n");
}

#[test]
fn options_of_a_transfer_are_those_of_its_stripes() {
    let mut rig = receiving();
    rig.lines(&["SBUF 5000", "REST 0-10,20-30", "ALLO 100"])
        .take();
    let transfer = complete(&mut rig, "STOR f");
    assert_eq!(transfer.channel.receive_buffer, 5000);
    let TransferKind::Store { held, size, .. } = transfer.kind else {
        panic!("{transfer:?}")
    };
    assert_eq!((held.to_string().as_str(), size), ("0-10,20-30", Some(100)));
    let transfer = complete(&mut rig, "ESTO A 7 f");
    assert!(matches!(
        transfer.kind,
        TransferKind::Store {
            into: Placement::At(7),
            ..
        }
    ));

    let mut rig = sending();
    rig.line("REST 0-10").take();
    let transfer = complete(&mut rig, "ERET P 5 50 f");
    let held = RangeSet::up_to(10);
    let (path, region) = (path("/home/ann/f"), Some((5, Some(50))));
    assert_eq!(transfer.kind, TransferKind::Retrieve { path, region, held });
    assert_eq!(transfer.channel.mode, Mode::Extended);
}

#[test]
fn stripes_are_protected_as_a_single_connection_is() {
    let mut settings = striped();
    settings.gssapi = true;
    let mut rig = Rig::from(HOST, settings);
    rig.line("AUTH GSSAPI");
    rig.input(Input::Upgraded(Protection::new(Mechanism::Gssapi)));
    rig.lines(&["USER ann", "PASS secret"]);
    rig.done(Outcome::LoggedIn {
        user: None,
        home: path("/"),
        message: Vec::new(),
    });
    rig.lines(&["MODE E", "TYPE I", "PBSZ 100", "PROT P"])
        .take();
    let private = DataProtection::new(Dcau::Own, Level::Private);
    rig.line("SPAS");
    let (ticket, action) = rig.action();
    assert!(matches!(
        action,
        Action::Listen { protection, stripes: Some(STRIPES), .. } if protection == private
    ));
    rig.input(Input::Done(ticket, Outcome::Listening(addresses())));
    rig.take();
    assert_eq!(complete(&mut rig, "STOR f").channel.protection, private);
    // New protection needs new connections, of all stripes.
    rig.line("PROT C").take();
    assert!(rig.ask("STOR f").starts_with("425 "));
    // With it a stripe may connect to any host, as a single connection may.
    rig.line("SPOR 198,51,100,1,100,1 198,51,100,2,100,1");
    let own = DataProtection::new(Dcau::Own, Level::Clear);
    assert!(matches!(rig.action().1, Action::Connect(to, data) if to.len() == 2 && data == own));
}

#[test]
fn stripes_serve_mode_e_and_type_i_alone() {
    for mut rig in [sending(), receiving()] {
        let transfer = if rig.ask("RETR f").starts_with("425 ") {
            "STOR f"
        } else {
            rig.done(Outcome::Transferred { bytes: 1 });
            "RETR f"
        };
        rig.line("MODE S").take();
        let said = rig.ask(transfer);
        assert!(
            said.starts_with("425 The data connections are in MODE E"),
            "{said}"
        );
        rig.lines(&["MODE E", "TYPE A"]).take();
        let said = rig.ask(transfer);
        assert!(said.starts_with("425 Text has no stripes"), "{said}");
        rig.line("TYPE I").take();
        complete(&mut rig, transfer);
    }
    let mut rig = sending();
    assert!(
        rig.ask("ERET tar=\"\" d")
            .starts_with("425 Modules have no stripes")
    );
    // A listing is sent by one stripe, and the others end their connections.
    let mut rig = sending();
    rig.line("TYPE A").take();
    assert!(matches!(
        complete(&mut rig, "MLSD").kind,
        TransferKind::List { .. }
    ));
    // One address is no stripe.
    let mut rig = session();
    rig.line("SPAS").done(listening());
    rig.lines(&["MODE S", "TYPE A"]).take();
    complete(&mut rig, "STOR f");
}

#[test]
fn tagged_transfers_go_over_stripes() {
    let mut rig = session();
    let said = rig.ask("FEAT");
    assert!(
        said.contains("\r\n STOR Tagged;Digest;Striped;\r\n"),
        "{said}"
    );
    assert!(!said.contains("CONNECTIONS"), "{said}");
    let tag = Some(Tag::new(1, Extent::Whole));
    for (mut rig, line) in [
        (receiving(), "ESTO digest=1 f"),
        (sending(), "ERET digest=1 f"),
    ] {
        assert_eq!(complete(&mut rig, line).tag, tag, "{line}");
    }
    let mut rig = session();
    rig.passive();
    rig.line("ESTO tag=1 f");
    assert!(
        matches!(rig.action().1, Action::Transfer(transfer) if transfer.tag == Some(Tag::new(1, Extent::Head)))
    );
}

#[test]
fn epsv_is_refused_where_data_is_on_other_hosts() {
    let mut settings = striped();
    settings.data_elsewhere = true;
    let mut rig = Rig::logged_in_with(settings.clone());
    for line in ["EPSV", "EPSV 1", "EPSV ALL"] {
        let said = rig.line(line).take();
        assert!(said.starts_with("502 EPSV names no host"), "{line}: {said}");
        assert!(said.contains("send PASV or SPAS"), "{line}: {said}");
    }
    assert!(rig.ask("FEAT").contains("\r\n NODES\r\n"));
    assert_eq!(wanted(&mut rig, "PASV"), None);
    let mut rig = Rig::logged_in_from(Ipv6Addr::LOCALHOST.into(), settings);
    let said = rig.ask("EPSV");
    assert!(said.contains("send EPRT or SPAS"), "{said}");
}

/// Over IPv6 it is the only command for a single address.
#[test]
fn epsv_names_the_address_of_a_node_to_clients_of_gridftp() {
    let mut settings = striped();
    settings.data_elsewhere = true;
    for (node, told) in [
        ("[2001:db8::7]:40000", "|2|2001:db8::7|40000|"),
        ("192.0.2.7:40000", "|1|192.0.2.7|40000|"),
    ] {
        let mut rig = Rig::logged_in_from(Ipv6Addr::LOCALHOST.into(), settings.clone());
        rig.line("MODE E").take();
        rig.line("EPSV");
        let node = Outcome::Listening(vec![node.parse().unwrap()]);
        let said = rig.done(node).take();
        let expected = format!("229 Entering Extended Passive Mode ({told})\r\n");
        assert_eq!(said, expected);
        assert_eq!(rig.ask("EPSV ALL"), "229 EPSV ALL Successful.\r\n");
    }
}

//! AUTH and its kin at the server's end: upgrades, the protection of data, and the demands on
//! logins.

use std::net::IpAddr;
use std::time::Duration;

use ftp_wire::command::{Dcau, Secret};
use ftp_wire::error::BadLine;
use ftp_wire::reply::Reply;

use super::{Rig, listening, path, refused, settings};
use crate::error::PeerMisbehaved;
use crate::security::{DataProtection, Demand, Demands, Level, Mechanism, Protection};
use crate::server::{Ending, Input, ServerSession, Settings, UpgradeFailure};
use crate::types::{Action, Outcome};

const REMOTE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));
const INJECTED: Option<Ending> = Some(Ending::Misbehaved(PeerMisbehaved::Injected));

/// The settings of a server with every mechanism.
fn secure() -> Settings {
    let mut settings = settings();
    (settings.tls, settings.gssapi) = (true, true);
    settings
}

fn upgraded(peer: IpAddr, by: Mechanism) -> Rig {
    let mut rig = Rig::from(peer, secure());
    rig.line(match by {
        Mechanism::Tls => "AUTH TLS",
        Mechanism::Gssapi => "auth gssapi",
    });
    assert_eq!(rig.upgrading.take(), Some(by));
    rig.input(Input::Upgraded(Protection::new(by))).take();
    rig
}

fn in_session(by: Mechanism) -> Rig {
    let mut rig = upgraded(REMOTE, by);
    log_in(&mut rig);
    rig
}

fn log_in(rig: &mut Rig) {
    rig.lines(&["USER ann", "PASS secret"]);
    rig.done(logged_in()).take();
}

fn logged_in() -> Outcome {
    Outcome::LoggedIn {
        user: None,
        home: path("/"),
        message: Vec::new(),
    }
}

/// The protection that a transfer is handed.
fn data(rig: &mut Rig) -> DataProtection {
    rig.passive().line("RETR /f");
    let (ticket, action) = rig.action();
    let Action::Transfer(transfer) = action else {
        panic!("{action:?}")
    };
    rig.input(Input::Done(ticket, refused::<550>("no"))).take();
    transfer.channel.protection
}

#[test]
fn a_password_follows_the_handshake() {
    let mut rig = Rig::from(REMOTE, secure());
    let refused = rig.ask("USER ann");
    assert!(
        refused.starts_with("534 ") && refused.contains("AUTH TLS"),
        "{refused}"
    );
    assert_eq!(rig.ask("PASS secret"), "503 Login with USER first.\r\n");
    assert_eq!(rig.ask("AUTH TLS"), "234 AUTH TLS successful.\r\n");
    assert_eq!(rig.upgrading, Some(Mechanism::Tls));
    assert!(rig.session.is_busy());
    rig.input(Input::Upgraded(Protection::new(Mechanism::Tls)));
    assert_eq!(rig.take(), "");
    assert_eq!(rig.ask("USER ann"), "331 Password required for ann.\r\n");
    assert!(rig.ask("AUTH TLS").starts_with("503 "), "once only");
    log_in(&mut rig);
    assert_eq!(rig.session.user(), Some("ann"));
    assert_eq!(rig.ask("AUTH TLS"), "500 Command not supported.\r\n");
    assert!(rig.ask("CCC").starts_with("534 "));
}

/// The injected command of CVE-2011-0411 and its kin.
#[test]
fn a_command_injected_before_the_handshake_is_never_run() {
    // Queued ahead of AUTH's turn.
    let mut rig = Rig::with(secure());
    rig.lines(&["USER ann", "PASS wrong", "AUTH TLS", "USER evil"]);
    rig.done(refused::<530>("Login incorrect.")).take();
    assert_eq!((rig.closed, rig.upgrading), (INJECTED, None));
    // Fed behind it, whole, in pieces that make no line, or held by the caller.
    for input in [
        Input::Line(b"USER evil"),
        Input::BadLine(BadLine::TooLong { limit: 1 }),
        Input::UpgradeFailed(UpgradeFailure::Injected),
    ] {
        let mut rig = Rig::with(secure());
        rig.line("AUTH TLS").take();
        rig.input(input);
        assert_eq!((rig.take().as_str(), rig.closed), ("", INJECTED));
        rig.input(Input::Upgraded(Protection::new(Mechanism::Tls)));
        assert_eq!(rig.take(), "");
        assert!(rig.wanted.is_empty());
    }
}

#[test]
fn a_handshake_ends_by_the_deadline_of_the_login() {
    let end = |input: Input<'_>| {
        let mut rig = Rig::with(secure());
        rig.after(Duration::from_secs(10)).line("AUTH TLS").take();
        assert_eq!(rig.wait, Some(rig.now + Duration::from_secs(20)));
        if matches!(input, Input::Timeout) {
            rig.now += Duration::from_secs(20);
        }
        rig.input(input);
        (rig.take(), rig.closed)
    };
    let quiet = |ending| (String::new(), Some(ending));
    assert_eq!(end(Input::Timeout), quiet(Ending::LoginTimeout));
    assert_eq!(end(Input::Eof), quiet(Ending::PeerClosed));
    assert_eq!(end(Input::Evict), quiet(Ending::Overloaded));
    let failed = |reply| end(Input::UpgradeFailed(UpgradeFailure::Handshake(reply)));
    assert_eq!(failed(None), quiet(Ending::HandshakeFailed));
    let reply = Reply::of::<530>("no certificate");
    let said = (
        "530 no certificate\r\n".to_owned(),
        Some(Ending::HandshakeFailed),
    );
    assert_eq!(failed(Some(reply)), said);
}

#[test]
fn a_stop_waits_for_the_handshake() {
    let mut rig = Rig::with(secure());
    rig.line("AUTH TLS").take();
    rig.input(Input::Drain);
    assert_eq!((rig.take().as_str(), rig.closed), ("", None));
    rig.input(Input::Upgraded(Protection::new(Mechanism::Tls)));
    assert!(rig.take().starts_with("421 "));
    assert_eq!(rig.closed, Some(Ending::Drained));
}

/// RFC 4217 §8, §9.
#[test]
fn tls_data_is_private_after_pbsz_and_prot() {
    // Some clients send both before the login.
    let mut rig = upgraded(REMOTE, Mechanism::Tls);
    assert!(rig.ask("PROT P").starts_with("503 "));
    assert_eq!(rig.ask("PBSZ 100"), "200 PBSZ=0\r\n");
    assert_eq!(rig.ask("PROT P"), "200 Protection level set to P.\r\n");
    log_in(&mut rig);
    let private = DataProtection::new(Dcau::None, Level::Private);
    assert_eq!(data(&mut rig), private);
    for letter in ["S", "E"] {
        assert_eq!(
            rig.ask(&format!("PROT {letter}")),
            format!("536 {letter} protection level not supported.\r\n")
        );
    }
    assert_eq!(rig.ask("DCAU A"), "504 Bad DCAU mode.\r\n");
    assert_eq!(data(&mut rig), private);
    rig.line("PROT C").take();
    assert_eq!(data(&mut rig), DataProtection::default());
    assert!(in_session(Mechanism::Tls).ask("PROT P").starts_with("503 "));
}

/// Traps 6 and 19 of Grid security: `DCAU A` is in force with no command sent, and
/// `PROT` counts for nothing under `DCAU N`; in the words of the Globus server.
#[test]
fn grid_data_is_authenticated_without_a_command() {
    let mut rig = in_session(Mechanism::Gssapi);
    assert_eq!(data(&mut rig), DataProtection::new(Dcau::Own, Level::Clear));
    for (line, said) in [
        ("PBSZ 1048576", "200 PBSZ=1048576"),
        ("PROT p", "200 Protection level set to P."),
        ("PROT S", "200 Protection level set to S."),
        ("PROT E", "536 E protection level not supported."),
        ("DCAU A", "200 DCAU A."),
        ("DCAU S", "501 DCAU S expected subject."),
        ("DCAU S /O=Grid/CN=a b", "200 DCAU S."),
        ("DCSC X", "501 Invalid command arguments."),
        ("DCSC P", "501 Invalid command arguments."),
        ("PROT", "501 Syntax error in parameters or arguments."),
        ("AUTH GSSAPI", "500 Command not supported."),
    ] {
        assert_eq!(rig.ask(line), format!("{said}\r\n"), "{line}");
    }
    let subject = Dcau::Subject("/O=Grid/CN=a b".into());
    assert_eq!(
        data(&mut rig),
        DataProtection::new(subject, Level::Integrity)
    );
    // PROT counts for nothing under DCAU N.
    assert_eq!(rig.ask("DCAU N"), "200 DCAU N.\r\n");
    assert_eq!(data(&mut rig), DataProtection::default());
}

#[test]
fn a_credential_for_data_is_handed_over() {
    let mut rig = in_session(Mechanism::Gssapi);
    rig.line("DCSC p QUJD");
    let (ticket, action) = rig.action();
    assert_eq!(action, Action::DataCredential(Some(Secret::new("QUJD"))));
    rig.input(Input::Done(ticket, Outcome::Done));
    assert_eq!(rig.take(), "250 OK.\r\n");
    rig.line("DCSC D");
    let (ticket, action) = rig.action();
    assert_eq!(action, Action::DataCredential(None));
    rig.input(Input::Done(
        ticket,
        refused::<500>("Credential import failed."),
    ));
    assert!(rig.take().starts_with("500"));
}

#[test]
fn a_change_of_protection_closes_the_data_side() {
    let mut rig = in_session(Mechanism::Gssapi);
    rig.passive().line("PROT C");
    assert!(rig.wanted.is_empty(), "nothing changed");
    rig.line("PROT P");
    assert!(matches!(
        rig.wanted.pop_front(),
        Some((_, Action::DropData))
    ));
    assert!(rig.ask("RETR /f").starts_with("425 "));
}

/// RFC 4217 §2, 521: the server does not open such a data connection.
#[test]
fn data_below_the_demand_is_refused() {
    let demands = |data| {
        let user = Demand::new(Level::Clear, data);
        Demands::new(user, Demand::default())
    };
    for (by, demand, said) in [
        (Mechanism::Tls, Level::Private, "521 "),
        (
            Mechanism::Gssapi,
            Level::Private,
            "534 Data connection auth error : Encryption is required.",
        ),
        (
            Mechanism::Gssapi,
            Level::Integrity,
            "534 Data connection auth error : Integrity is required.",
        ),
    ] {
        let mut rig = upgraded(REMOTE, by);
        rig.session = rig.session.with_demands(demands(demand));
        rig.line("PBSZ 0");
        log_in(&mut rig);
        rig.passive();
        assert!(rig.ask("LIST").starts_with(said), "{by:?}");
        assert!(rig.ask("PROT C").starts_with("534 "));
        rig.line("PROT P").take();
        assert_eq!(data(&mut rig).level, Level::Private);
    }
    let mut rig = Rig::from(REMOTE, secure());
    rig.session = rig.session.with_demands(demands(Level::Private));
    log_in(&mut rig);
    rig.passive();
    assert!(rig.ask("RETR /f").starts_with("521 "));
}

#[test]
fn a_certificate_logs_in_without_a_password() {
    let mut rig = Rig::from(REMOTE, secure());
    rig.line("AUTH TLS");
    let mut protection = Protection::new(Mechanism::Tls);
    protection.users = vec!["ann".into()];
    rig.input(Input::Upgraded(protection)).take();
    assert!(rig.ask("USER bob").starts_with("331 "));
    assert_eq!(rig.ask("USER ann"), "");
    let (ticket, action) = rig.action();
    assert_eq!(action, Action::LoginCertified { user: "ann".into() });
    rig.input(Input::Done(ticket, logged_in()));
    assert_eq!(rig.take(), "232 User ann logged in.\r\n");
    assert_eq!(rig.session.user(), Some("ann"));
}

#[test]
fn a_login_may_map_the_name() {
    let mut rig = upgraded(REMOTE, Mechanism::Gssapi);
    rig.lines(&["USER :globus-mapping:", "PASS dummy"]).take();
    rig.done(Outcome::LoggedIn {
        user: Some("ann".into()),
        home: path("/"),
        message: Vec::new(),
    });
    assert_eq!(rig.take(), "230 User ann logged in.\r\n");
    assert_eq!(rig.session.user(), Some("ann"));
}

#[test]
fn only_passwords_of_the_network_need_protection() {
    let mut rig = Rig::with(secure());
    assert!(rig.ask("USER ann").starts_with("331 "), "from loopback");
    let mut rig = Rig::from(REMOTE, secure());
    assert!(rig.ask("USER Anonymous").starts_with("331 "));
    // The refused name is not left to the next password.
    assert!(rig.ask("USER ann").starts_with("534 "));
    assert!(rig.ask("PASS secret").starts_with("503 "));
    let mut rig = Rig::from(REMOTE, settings());
    assert!(rig.ask("USER ann").contains("--tls-cert"));
    rig.session = rig.session.with_demands(Demands::default());
    assert!(rig.ask("USER ann").starts_with("331 "));
}

#[test]
fn features_name_the_mechanisms() {
    let said = Rig::with(secure()).ask("FEAT");
    for line in [
        "AUTH TLS",
        "AUTH GSSAPI",
        "PBSZ",
        "PROT",
        "DCAU",
        "DCSC P,D",
    ] {
        assert!(said.contains(&format!(" {line}\r\n")), "{line}: {said}");
    }
    assert!(Rig::with(secure()).ask("HELP").contains("AUTH"));
}

/// Data connections of Grid security need a session of Grid security: a clear one would lend the
/// host's credential to anybody, and send the key of `DCSC P` in clear.
#[test]
fn clear_sessions_have_no_grid_data() {
    for (by, level) in [(None, "536 "), (Some(Mechanism::Tls), "200 ")] {
        let mut rig = match by {
            Some(by) => upgraded(REMOTE, by),
            None => Rig::with(secure()),
        };
        rig.lines(&["USER ftp", "PASS x"]);
        rig.done(logged_in()).take();
        assert!(rig.ask("DCAU A").starts_with("504 "), "{by:?}");
        assert!(rig.ask("DCAU S /O=Grid/CN=a").starts_with("504 "));
        assert!(rig.ask("DCSC P QUJD").starts_with("502 "));
        rig.line("PBSZ 0").take();
        assert!(rig.ask("PROT S").starts_with("536 "));
        assert!(rig.ask("PROT P").starts_with(level));
        let said = rig.ask("FEAT");
        assert!(!said.contains("DCAU") && !said.contains("DCSC"), "{said}");
    }
    // A channel that belongs to one person has them.
    let mut settings = settings();
    settings.dcsc = true;
    let mut rig = Rig::with(settings);
    log_in(&mut rig);
    assert_eq!(rig.ask("DCAU A"), "200 DCAU A.\r\n");
    assert!(rig.ask("FEAT").contains(" DCSC P,D\r\n"));
}

/// RFC 2577 §3: protection of the data does not let strangers probe the ports of other hosts.
#[test]
fn anonymous_users_connect_to_their_own_host_only() {
    let mut rig = upgraded(REMOTE, Mechanism::Tls);
    rig.lines(&["PBSZ 0", "PROT P", "USER ftp", "PASS x"]);
    rig.done(logged_in()).take();
    let said = rig.ask("PORT 198,51,100,1,100,1");
    assert!(
        said.starts_with("500 ") && said.contains("--third-party"),
        "{said}"
    );
    // A user with a certificate that is mapped to that name is known.
    let mut rig = upgraded(REMOTE, Mechanism::Gssapi);
    rig.lines(&["USER ftp", "PASS x"]);
    rig.done(logged_in()).take();
    rig.line("PORT 198,51,100,1,100,1");
    assert!(matches!(rig.action().1, Action::Connect(..)));
}

/// With authenticated data a stranger gets nothing, whichever host it is.
#[test]
fn protected_data_may_go_to_another_host() {
    let mut rig = in_session(Mechanism::Gssapi);
    rig.line("PORT 198,51,100,1,100,1");
    assert!(matches!(rig.action().1, Action::Connect(_, protection) if protection.is_some()));
    let mut rig = in_session(Mechanism::Gssapi);
    rig.line("DCAU N").take();
    let said = rig.ask("PORT 198,51,100,1,100,1");
    assert!(
        said.starts_with("500 ") && said.contains("--third-party"),
        "{said}"
    );
    rig.line("DCAU A").line("PASV");
    let (ticket, action) = rig.action();
    assert!(matches!(action, Action::Listen { protection, .. } if protection.is_some()));
    rig.input(Input::Done(ticket, listening()));
}

/// TLS on a port of its own.
#[test]
fn a_session_may_begin_with_the_handshake() {
    let mut rig = Rig::from(REMOTE, secure());
    rig.session =
        ServerSession::new(rig.now, secure().into(), REMOTE).with_handshake(Mechanism::Tls);
    rig.drain();
    assert_eq!(
        (rig.take().as_str(), rig.upgrading),
        ("", Some(Mechanism::Tls))
    );
    rig.input(Input::Upgraded(Protection::new(Mechanism::Tls)));
    assert!(rig.take().starts_with("220 "));
    assert!(rig.ask("USER ann").starts_with("331 "));
    assert_eq!(rig.session.protection().level(), Level::Private);
    assert!(rig.ask("AUTH TLS").starts_with("503 "));
}

/// RFC 2228 §3: 536 to a level that the mechanism does not have here.
#[test]
fn tls_protects_no_data_on_other_hosts() {
    let mut settings = secure();
    settings.data_elsewhere = true;
    let mut rig = Rig::from(REMOTE, settings);
    rig.line("AUTH TLS").take();
    rig.input(Input::Upgraded(Protection::new(Mechanism::Tls)));
    rig.take();
    rig.line("PBSZ 0").take();
    let refused = rig.ask("PROT P");
    assert!(
        refused.starts_with("536 Data connections are on other hosts"),
        "{refused}"
    );
    assert!(rig.ask("PROT C").starts_with("200 "));
}

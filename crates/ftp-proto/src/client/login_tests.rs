//! Tests of `Login`: the commands it sends, and the replies that end it.

use ftp_wire::command::{Command, Dcau, Mode, Secret};
use ftp_wire::reply::{Code, Reply};

use super::login::*;
use crate::security::{DataProtection, Level, Mechanism};

fn run(mut login: Login, replies: &[Reply]) -> (Vec<String>, Result<LoggedIn, LoginError>) {
    let mut replies = replies.iter();
    let mut sent = Vec::new();
    loop {
        match login.step() {
            LoginStep::Send(command) => sent.push(command.verb().to_owned()),
            LoginStep::Secure(mechanism) => {
                sent.push(format!("({})", mechanism.name()));
                login.secured();
            }
            LoginStep::Wait => login.reply(replies.next().expect("no reply is left")),
            LoginStep::Done(result) => {
                assert!(replies.next().is_none(), "a reply is left over");
                return (sent, result);
            }
        }
    }
}

fn ann(mode: Option<Mode>) -> Login {
    Login::new("ann", Secret::new("secret"), mode)
}

#[test]
fn nothing_is_sent_before_a_greeting_that_welcomes() {
    assert!(matches!(ann(None).step(), LoginStep::Wait));
    let busy = Reply::of::<421>("Service busy");
    let (sent, result) = run(ann(None), std::slice::from_ref(&busy));
    assert!(sent.is_empty());
    assert_eq!(result, Err(LoginError::Greeting(busy)));
}

#[test]
fn a_login_without_a_password_is_put_up_with() {
    let replies = [
        Reply::of::<220>("hi"),
        Reply::of::<230>("come in"),
        Reply::of::<500>("FEAT?"),
        Reply::of::<200>("I"),
    ];
    let (sent, result) = run(ann(Some(Mode::Stream)), &replies);
    assert_eq!(sent, ["USER", "FEAT", "TYPE"]);
    assert!(!result.unwrap().extended);
}

#[test]
fn servers_that_drop_bytes_of_names_are_known_by_their_greeting() {
    for (greeting, drops) in [
        (
            "vm GridFTP Server 13.24 (gcc64, 1) [Grid Community Toolkit 6.2] ready.",
            true,
        ),
        ("vm GridFTP Server 0.1.0 ready.", false),
    ] {
        let mut replies = vec![Reply::of::<200>("ok"); 6];
        replies[0] = Reply::of::<220>(greeting);
        replies[1] = Reply::of::<331>("?");
        assert_eq!(run(ann(None), &replies).1.unwrap().ascii_only, drops);
    }
}

#[test]
fn a_refused_login_is_told_at_once() {
    let replies = [
        Reply::of::<220>("hi"),
        Reply::of::<331>("Password required for ann."),
        Reply::of::<530>("Login incorrect."),
    ];
    // The server may close the connection at once, so nothing else is awaited.
    let (sent, result) = run(ann(Some(Mode::Extended)), &replies);
    assert_eq!(sent, ["USER", "PASS", "FEAT", "TYPE", "MODE"]);
    assert_eq!(result, Err(LoginError::Account(replies[2].clone())));
    assert_eq!(
        result.unwrap_err().to_string(),
        "server: login: 530 Login incorrect."
    );
}

#[test]
fn no_password_goes_to_a_server_that_wants_another_mechanism_first() {
    for want in [
        Reply::of::<530>("Must perform GSSAPI authentication."),
        Reply::of::<530>("Do AUTH TLS first."),
        Reply::of::<530>("Non-anonymous sessions must use encryption."),
        Reply::of::<534>("Not like this."),
    ] {
        let (sent, result) = run(ann(None), &[Reply::of::<220>("hi"), want.clone()]);
        assert_eq!(sent, ["USER"]);
        assert_eq!(result, Err(LoginError::Clear(want)));
    }
}

#[test]
fn mode_e_is_done_without_unless_it_was_asked_for() {
    let replies = [
        Reply::of::<220>("hi"),
        Reply::of::<331>("?"),
        Reply::of::<230>("in"),
        Reply::of::<500>("FEAT?"),
        Reply::of::<200>("I"),
        Reply::of::<504>("E?"),
    ];
    assert!(!run(ann(None), &replies).1.unwrap().extended);
    let error = run(ann(Some(Mode::Extended)), &replies).1.unwrap_err();
    assert!(matches!(error, LoginError::Setting(..)), "{error}");
}

fn secured(security: Security) -> Login {
    ann(Some(Mode::Stream)).with_security(security)
}

#[test]
fn the_connection_is_protected_before_the_account_is_named() {
    let mut replies = vec![Reply::of::<200>("ok"); 8];
    replies[0] = Reply::of::<220>("hi");
    replies[1] = Reply::of::<234>("go on");
    replies[4] = Reply::of::<331>("?");
    replies[5] = Reply::of::<230>("in");
    let explicit = Security::Explicit(Mechanism::Tls, Level::Private);
    let (sent, result) = run(secured(explicit), &replies);
    assert_eq!(
        sent,
        [
            "AUTH", "(TLS)", "PBSZ", "PROT", "USER", "PASS", "FEAT", "TYPE"
        ]
    );
    result.unwrap();
    // The greeting of implicit TLS comes over the protected connection.
    replies.remove(1);
    let (sent, result) = run(secured(Security::Implicit(Level::Clear)), &replies);
    assert_eq!(sent, ["PBSZ", "PROT", "USER", "PASS", "FEAT", "TYPE"]);
    result.unwrap();
}

#[test]
fn nothing_follows_a_refused_mechanism() {
    let refusals = [
        Reply::of::<500>("AUTH not understood"),
        Reply::of::<502>("no TLS here"),
        Reply::of::<504>("unknown mechanism"),
        Reply::of::<530>("please log in with USER and PASS"),
        Reply::of::<431>("no certificate"),
        // Success, and intermediate success, of something else.
        Reply::of::<200>("fine"),
        Reply::of::<334>("ADAT must follow"),
    ];
    for refusal in refusals {
        let login = secured(Security::Explicit(Mechanism::Tls, Level::Private));
        let (sent, result) = run(login, &[Reply::of::<220>("hi"), refusal.clone()]);
        assert_eq!(sent, ["AUTH"], "{refusal}");
        assert_eq!(
            result,
            Err(LoginError::Mechanism(Mechanism::Tls, refusal.clone()))
        );
    }
}

#[test]
fn no_password_follows_a_refused_protection_of_data() {
    let (ok, refusal) = (Reply::of::<200>("ok"), Reply::of::<536>("not that"));
    let start = [Reply::of::<220>("hi"), Reply::of::<234>("go on")];
    for (replies, command) in [
        (vec![refusal.clone()], Command::Pbsz(0)),
        (vec![ok, refusal.clone()], Command::Prot('P')),
    ] {
        let replies = [&start[..], &replies].concat();
        let login = secured(Security::Explicit(Mechanism::Tls, Level::Private));
        let (sent, result) = run(login, &replies);
        assert_eq!(sent, ["AUTH", "(TLS)", "PBSZ", "PROT", "USER"]);
        assert_eq!(result, Err(LoginError::Setting(command, refusal.clone())));
    }
}

const GSSAPI: Security = Security::Explicit(Mechanism::Gssapi, Level::Private);

fn feat(lines: &[&'static str]) -> Reply {
    let lines = lines.iter().copied();
    Reply::indented(Code::of::<211>(), "Extensions supported", lines, "End.")
}

fn data(authentication: Dcau, level: Level, credential: Option<&str>) -> DataSecurity {
    DataSecurity {
        credential: credential.map(Secret::new),
        protection: DataProtection::new(authentication, level),
    }
}

/// The commands behind the password, in full, and the result with this reply to `FEAT`, where all
/// else succeeds but `refused`.
fn settled(
    security: Security,
    data: DataSecurity,
    feat: &Reply,
    refused: &str,
) -> (Vec<String>, Result<LoggedIn, LoginError>) {
    let mut login = secured(security).with_data(data);
    let (mut sent, mut due) = (
        Vec::new(),
        std::collections::VecDeque::from(["hi".to_owned()]),
    );
    loop {
        match login.step() {
            LoginStep::Send(command) => {
                let mut wire = Vec::new();
                command.write_to(&mut wire);
                let line = String::from_utf8(wire).unwrap().trim_end().to_owned();
                due.push_back(line.clone());
                sent.push(line);
            }
            LoginStep::Secure(_) => login.secured(),
            LoginStep::Wait => login.reply(&match due.pop_front().unwrap().as_str() {
                "AUTH GSSAPI" => Reply::of::<334>("ADAT must follow"),
                "USER ann" => Reply::of::<331>("?"),
                "FEAT" => feat.clone(),
                line if line == refused => Reply::of::<500>("no"),
                _ => Reply::of::<200>("ok"),
            }),
            LoginStep::Done(result) => {
                let from = sent.iter().position(|line| line == "FEAT");
                return (sent.split_off(from.map_or(sent.len(), |at| at + 1)), result);
            }
        }
    }
}

/// Trap 6 of Grid security: the authentication is in force after the login, with no
/// command; a server that does not list it ignores the demand.
#[test]
fn protection_of_data_by_grid_security_is_listed_or_refused() {
    let good = feat(&["DCAU", "DCSC P,D", "PBSZ"]);
    let subject = || Dcau::Subject("/O=Grid/CN=Alice Lab".to_owned());
    for (security, wish, commands) in [
        (
            GSSAPI,
            data(Dcau::Own, Level::Private, None),
            vec!["PBSZ 1048576", "PROT P", "TYPE I"],
        ),
        (
            GSSAPI,
            data(subject(), Level::Clear, None),
            vec![
                "DCAU S /O=Grid/CN=Alice Lab",
                "PBSZ 1048576",
                "PROT C",
                "TYPE I",
            ],
        ),
        (
            GSSAPI,
            data(Dcau::None, Level::Clear, None),
            vec!["DCAU N", "TYPE I"],
        ),
        (
            GSSAPI,
            data(Dcau::Own, Level::Integrity, Some("QUI=")),
            vec!["DCSC P QUI=", "DCAU A", "PBSZ 1048576", "PROT S", "TYPE I"],
        ),
        (
            Security::Clear,
            data(Dcau::Own, Level::Private, Some("QUI=")),
            vec!["DCSC P QUI=", "DCAU A", "PROT P", "TYPE I"],
        ),
    ] {
        let needs_dcsc = wish.credential.is_some();
        let authenticates = wish.protection.authentication != Dcau::None;
        let (sent, result) = settled(security, wish.clone(), &good, "");
        assert_eq!(sent, commands);
        assert!(result.is_ok(), "{commands:?}");
        for command in commands.iter().filter(|command| **command != "TYPE I") {
            let result = settled(security, wish.clone(), &good, command).1;
            assert!(matches!(result, Err(LoginError::Setting(..))), "{command}");
        }
        let result = settled(security, wish.clone(), &feat(&["PBSZ"]), "DCAU N").1;
        match authenticates {
            true if needs_dcsc => assert_eq!(result, Err(LoginError::Feature("DCSC"))),
            true => assert_eq!(result, Err(LoginError::Feature("DCAU"))),
            false => assert!(result.is_ok()),
        }
    }
}

#[test]
fn neither_name_nor_password_follows_a_refused_mechanism() {
    for refusal in [
        Reply::of::<504>("Unknown authentication type."),
        // That of TLS.
        Reply::of::<234>("go on"),
    ] {
        let (sent, result) = run(secured(GSSAPI), &[Reply::of::<220>("hi"), refusal.clone()]);
        assert_eq!(sent, ["AUTH"]);
        assert_eq!(
            result,
            Err(LoginError::Mechanism(Mechanism::Gssapi, refusal))
        );
    }
}

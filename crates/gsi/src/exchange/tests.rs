//! Exchanges between an initiator and an acceptor, and peers that break the protocol.

use rustls::ProtocolVersion;
use rustls::pki_types::{ServerName, UnixTime};

use super::*;
use crate::certificate::{Kind, ProxyFormat, ProxyRights};
use crate::credential::Credential;
use crate::key::KeyPair;
use crate::lab::{KEYS, Lab, now};
use crate::proxy::{ProxyError, ProxyOptions};
use crate::tls::{Clients, Fixed, Tls, Versions};

use std::sync::Arc;

fn options(
    versions: Versions,
    user: Option<&Credential>,
    delegation: Delegation,
) -> InitiatorOptions {
    let tls = Lab::tls(versions);
    let config = Arc::new(tls.client(user).unwrap());
    let name = ServerName::try_from("localhost").unwrap();
    let mut options = InitiatorOptions::new(
        config,
        Arc::clone(tls.verifier()),
        name,
        Box::new(|_| Ok(())),
    );
    options.credential = user.cloned();
    options.delegation = delegation;
    options
}

fn acceptor(mode: Mode, clients: Clients) -> Acceptor {
    let tls = Lab::tls(Versions::All);
    let config = tls.server(&Lab::get().host, clients).unwrap();
    Acceptor::new(Arc::new(config), Arc::clone(tls.verifier()), mode).unwrap()
}

/// Both ends of a complete exchange, and its tokens in turn.
struct Met {
    initiator: Session,
    acceptor: Session,
    tokens: Vec<Vec<u8>>,
}

/// Carries tokens from end to end until both are done, and the last one fails or not.
fn meet(options: InitiatorOptions, mut acceptor: Acceptor) -> Result<Met, ExchangeError> {
    let (mut initiator, first) = Initiator::new(options, now())?;
    let mut tokens = vec![first];
    let (mut near, mut far) = (None, None);
    for turn in 0..9 {
        let token = tokens.last().unwrap().clone();
        let mut step = match turn % 2 {
            0 => acceptor.step(&token, now())?,
            _ => initiator.step(&token, now())?,
        };
        if let Step::NeedKey(size) = step {
            assert_eq!(size, KeySize::Bits2048);
            step = acceptor.supply(KEYS[1].clone())?;
        }
        match step {
            Step::Send(token) => tokens.push(token),
            Step::NeedKey(_) => unreachable!("the key was supplied"),
            Step::Done { token, session } => {
                tokens.extend(token);
                *(if turn % 2 == 0 { &mut far } else { &mut near }) = Some(*session);
            }
        }
        if near.is_some() && far.is_some() {
            break;
        }
    }
    let (initiator, acceptor) = (near.unwrap(), far.unwrap());
    Ok(Met {
        initiator,
        acceptor,
        tokens,
    })
}

fn version(versions: Versions) -> ProtocolVersion {
    match versions {
        Versions::Tls12 => ProtocolVersion::TLSv1_2,
        _ => ProtocolVersion::TLSv1_3,
    }
}

#[test]
fn every_version_delegates_from_every_format() {
    let user = Lab::get().user.clone();
    let formats = [ProxyFormat::Rfc, ProxyFormat::Draft, ProxyFormat::Legacy];
    let proxies = formats.map(|format| Lab::proxy(format, ProxyRights::Full));
    let issued = [
        ProxyFormat::Rfc,
        ProxyFormat::Rfc,
        ProxyFormat::Draft,
        ProxyFormat::Legacy,
    ];
    for versions in [Versions::Tls12, Versions::Tls13] {
        for (from, format) in [&user].into_iter().chain(&proxies).zip(issued) {
            for delegation in [Delegation::None, Delegation::Limited, Delegation::Full] {
                let case = format!("{versions:?} {format:?} {delegation:?}");
                let options = options(versions, Some(from), delegation);
                let mut met = meet(options, acceptor(Mode::Gsi, Clients::Certified)).expect(&case);
                assert_eq!(met.acceptor.version(), Some(version(versions)), "{case}");
                let peer = met.acceptor.peer().unwrap();
                assert_eq!(
                    peer.identity.to_string(),
                    "/O=Grid/OU=Lab/CN=Alice Lab",
                    "{case}"
                );
                assert_eq!(
                    met.initiator.peer().unwrap().identity,
                    *Lab::get().host.subject()
                );

                let delegated = met.acceptor.delegated();
                assert_eq!(
                    met.tokens.len(),
                    if delegated.is_some() { 7 } else { 5 },
                    "{case}"
                );
                assert_eq!(
                    delegated.is_none(),
                    delegation == Delegation::None,
                    "{case}"
                );
                if let Some(delegated) = delegated {
                    let Kind::Proxy(proxy) = delegated.kind() else {
                        panic!("{case}: no proxy")
                    };
                    let rights = match delegation {
                        Delegation::Limited => ProxyRights::Limited,
                        _ => ProxyRights::Full,
                    };
                    assert_eq!((proxy.format, proxy.rights), (format, rights), "{case}");
                    assert_eq!(delegated.identity(), peer.identity, "{case}");
                    assert_eq!(delegated.chain().len(), from.chain().len() + 1, "{case}");
                }

                let token = met.initiator.wrap(b"USER :globus-mapping:\r\n");
                assert_eq!(
                    met.acceptor.unwrap(&token).unwrap(),
                    b"USER :globus-mapping:\r\n"
                );
                let token = met.acceptor.wrap(b"331 Password required.\r\n");
                assert_eq!(
                    met.initiator.unwrap(&token).unwrap(),
                    b"331 Password required.\r\n"
                );
            }
        }
    }
}

/// Fact sheet §1.2 and §7 row 2: the token after the handshake is a record with one zero byte
/// under TLS 1.3, and the end of the handshake under TLS 1.2; the flag follows it.
#[test]
fn the_resync_record_comes_before_the_flag() {
    for (versions, fourth, fifth) in [(Versions::Tls13, 23, 23), (Versions::Tls12, 51, 30)] {
        let options = options(versions, Some(&Lab::get().user), Delegation::None);
        let met = meet(options, acceptor(Mode::Gsi, Clients::Certified)).unwrap();
        let sizes: Vec<_> = met.tokens.iter().map(Vec::len).collect();
        let [_, _, _, resync, flag] = sizes[..] else {
            panic!("{sizes:?}")
        };
        assert_eq!((resync, flag), (fourth, fifth), "{versions:?}");
        // RFC 8446 §5.1: application data is 23, a change of cipher spec 20.
        let kinds = if versions == Versions::Tls13 {
            (23, 23)
        } else {
            (20, 23)
        };
        assert_eq!((met.tokens[3][0], met.tokens[4][0]), kinds, "{versions:?}");
    }
}

#[test]
fn plain_mode_ends_with_the_handshake() {
    for (versions, tokens) in [(Versions::Tls13, 3), (Versions::Tls12, 4)] {
        let mut options = options(versions, Some(&Lab::get().user), Delegation::None);
        options.mode = Mode::Plain;
        let mut met = meet(options, acceptor(Mode::Plain, Clients::Certified)).unwrap();
        assert_eq!(met.tokens.len(), tokens, "{versions:?}");
        let token = met.initiator.wrap(b"data");
        assert_eq!(met.acceptor.unwrap(&token).unwrap(), b"data");
    }
}

#[test]
fn an_anonymous_client_has_no_peer_and_delegates_nothing() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        let met = meet(
            options(versions, None, Delegation::None),
            acceptor(Mode::Gsi, Clients::Anonymous),
        );
        assert!(met.unwrap().acceptor.peer().is_none());

        let refused = meet(
            options(versions, None, Delegation::None),
            acceptor(Mode::Gsi, Clients::Certified),
        );
        let error = refused.err().unwrap();
        assert_eq!(error.party(), Party::Peer, "{error}");
        assert!(!error.alert().is_empty(), "{error}");

        let (mut initiator, mut acceptor) = up_to_flag(versions, None);
        let flag = initiator.engine().wrap(b"D");
        let error = acceptor.step(&flag, now()).unwrap_err();
        assert!(
            matches!(error.fault(), Fault::AnonymousDelegation),
            "{error}"
        );
    }
    let none = Initiator::new(options(Versions::All, None, Delegation::Limited), now());
    assert!(matches!(
        none.unwrap_err().fault(),
        Fault::NothingToDelegate
    ));
}

/// Returns both ends when the acceptor waits for the flag.
fn up_to_flag(versions: Versions, user: Option<&Credential>) -> (Initiator, Acceptor) {
    let delegation = if user.is_some() {
        Delegation::Limited
    } else {
        Delegation::None
    };
    let clients = if user.is_some() {
        Clients::Certified
    } else {
        Clients::Anonymous
    };
    let (mut initiator, first) =
        Initiator::new(options(versions, user, delegation), now()).unwrap();
    let mut acceptor = acceptor(Mode::Gsi, clients);
    let second = sent(acceptor.step(&first, now()));
    let third = sent(initiator.step(&second, now()));
    let fourth = sent(acceptor.step(&third, now()));
    if versions == Versions::Tls12 {
        // Finish the handshake without the flag.
        initiator.engine().feed(&fourth).unwrap();
    }
    (initiator, acceptor)
}

fn sent(step: Result<Step, ExchangeError>) -> Vec<u8> {
    match step {
        Ok(Step::Send(token)) => token,
        other => panic!("no token but {other:?}"),
    }
}

#[test]
fn other_flags_are_refused() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        for flag in [&b"x"[..], b"d", b"00", b"D0", b"\0"] {
            let (mut initiator, mut acceptor) = up_to_flag(versions, Some(&Lab::get().user));
            let token = initiator.engine().wrap(flag);
            let error = acceptor.step(&token, now()).unwrap_err();
            assert!(matches!(error.fault(), Fault::Flag), "{flag:?}: {error}");
            let error = acceptor.step(&token, now()).unwrap_err();
            assert!(
                matches!(error.fault(), Fault::Misuse),
                "the acceptor goes on: {error}"
            );
        }
    }
}

/// Returns the acceptor's request, decrypted, with both ends.
fn up_to_request(user: &Credential) -> (Initiator, Acceptor, Vec<u8>) {
    let (mut initiator, mut acceptor) = up_to_flag(Versions::Tls13, Some(user));
    let engine = initiator.engine();
    let flag = engine.wrap(b"D");
    assert!(matches!(
        acceptor.step(&flag, now()),
        Ok(Step::NeedKey(KeySize::Bits2048))
    ));
    let request = sent(acceptor.supply(KEYS[1].clone()));
    // The zero byte of the fourth token was not read yet.
    (initiator, acceptor, request)
}

#[test]
fn a_delegated_certificate_must_be_for_our_key_and_of_the_peer() {
    let lab = Lab::get();
    let limited = ProxyOptions::limited();
    let [other, ours, _] = &*KEYS;
    let issue = |from: &Credential, key: &KeyPair| {
        from.issue_proxy(key.public_key(), &limited, now())
            .unwrap()
            .to_vec()
    };
    let cases = [
        (issue(&lab.user, other), "for the requested key"),
        (issue(&lab.curve, ours), "client's own certificate"),
        (lab.user.chain()[0].to_vec(), "no proxy"),
        (b"garbage".to_vec(), "malformed"),
        (Vec::new(), "malformed"),
        (vec![0x30, 3, 1, 1, 1], "malformed"),
    ];
    for (certificate, reason) in cases {
        let (mut initiator, mut acceptor, _) = up_to_request(&lab.user);
        let token = initiator.engine().wrap(&certificate);
        if token.is_empty() {
            continue;
        }
        let error = acceptor.step(&token, now()).unwrap_err();
        assert!(error.to_string().contains(reason), "{reason}: {error}");
        assert_eq!(error.party(), Party::Peer);
    }
    let (mut initiator, mut acceptor, _) = up_to_request(&lab.user);
    let mut forged = issue(&lab.user, ours);
    *forged.last_mut().unwrap() ^= 1;
    let token = initiator.engine().wrap(&forged);
    let error = acceptor.step(&token, now()).unwrap_err();
    assert!(
        matches!(error.fault(), Fault::DelegatedRefused(_)),
        "{error}"
    );
}

#[test]
fn a_request_that_its_key_did_not_sign_gets_no_proxy() {
    let request = crate::request::Request::write(&KEYS[1]).unwrap();
    for broken in [
        &b"garbage"[..],
        &request[..request.len() - 1],
        &flipped(&request),
    ] {
        let options = options(Versions::Tls12, Some(&Lab::get().user), Delegation::Full);
        let (mut initiator, first) = Initiator::new(options, now()).unwrap();
        let mut acceptor = acceptor(Mode::Gsi, Clients::Certified);
        let mut token = first;
        for _ in 0..2 {
            token = sent(acceptor.step(&token, now()));
            token = sent(initiator.step(&token, now()));
        }
        assert!(matches!(acceptor.step(&token, now()), Ok(Step::NeedKey(_))));
        let token = acceptor.engine().wrap(broken);
        let error = initiator.step(&token, now()).unwrap_err();
        assert!(matches!(error.fault(), Fault::Request(_)), "{error}");
    }
}

fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    bytes
}

#[test]
fn the_name_of_the_server_is_checked_before_anything_is_delegated() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        let mut options = options(versions, Some(&Lab::get().user), Delegation::Limited);
        options.expect =
            Box::new(|peer| Err(format!("{} is not example.org", peer.identity).into()));
        let error = meet(options, acceptor(Mode::Gsi, Clients::Certified))
            .err()
            .unwrap();
        assert!(matches!(error.fault(), Fault::Unexpected(_)), "{error}");
        assert_eq!(
            error.to_string(),
            "/O=Grid/OU=Lab/CN=localhost is not example.org"
        );
    }
}

#[test]
fn a_refusal_keeps_its_text_and_has_an_alert() {
    let late = UnixTime::since_unix_epoch(std::time::Duration::from_secs(2_300_000_000));
    for versions in [Versions::Tls12, Versions::Tls13] {
        let options = options(versions, Some(&Lab::get().user), Delegation::None);
        let lab = Lab::tls(versions);
        let tls = Tls::new(Arc::clone(lab.verifier()), Arc::new(Fixed(late)));
        let config = tls.server(&Lab::get().host, Clients::Certified).unwrap();
        let acceptor =
            Acceptor::new(Arc::new(config), Arc::clone(tls.verifier()), Mode::Gsi).unwrap();
        let error = meet(options, acceptor).err().unwrap();
        assert!(matches!(error.fault(), Fault::Refused(_)), "{error:?}");
        assert!(
            error.to_string().contains("Alice Lab: it expired"),
            "{error}"
        );
        assert_eq!(
            error.alert().first(),
            Some(&if versions == Versions::Tls12 { 21 } else { 23 })
        );
    }
}

#[test]
fn tokens_are_whole_and_bounded() {
    let options = options(Versions::All, Some(&Lab::get().user), Delegation::None);
    let (_, hello) = Initiator::new(options, now()).unwrap();
    type Check = fn(&Fault) -> bool;
    let cases: [(Vec<u8>, Check); 9] = [
        (Vec::new(), |fault| matches!(fault, Fault::Empty)),
        (hello[..1].to_vec(), |fault| {
            matches!(fault, Fault::Truncated)
        }),
        (hello[..4].to_vec(), |fault| {
            matches!(fault, Fault::Truncated)
        }),
        (hello[..hello.len() - 1].to_vec(), |fault| {
            matches!(fault, Fault::Truncated)
        }),
        (b"GET / HTTP/1.0\r\n\r\n".to_vec(), |fault| {
            matches!(fault, Fault::NotTls(b'G'))
        }),
        (vec![0x16; MAX_TOKEN + 1], |fault| {
            matches!(fault, Fault::TooLong(_))
        }),
        (vec![22, 3, 1, 0xff, 0xff], |fault| {
            matches!(fault, Fault::TooLong(_))
        }),
        // A record of its own with the head of the greeting.
        ([&[22, 3, 1, 0, 9], &hello[5..14]].concat(), |fault| {
            matches!(fault, Fault::Incomplete)
        }),
        (vec![23, 3, 3, 0, 1, 0], |fault| {
            matches!(fault, Fault::Tls(_))
        }),
    ];
    for (token, expected) in cases {
        let error = acceptor(Mode::Gsi, Clients::Certified)
            .step(&token, now())
            .unwrap_err();
        assert!(expected(error.fault()), "{error:?}");
        assert_eq!(error.party(), Party::Peer, "{error:?}");
    }
}

#[test]
fn tokens_cannot_be_replayed_swapped_or_changed() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        let met = || {
            let options = options(versions, Some(&Lab::get().user), Delegation::None);
            meet(options, acceptor(Mode::Gsi, Clients::Certified)).unwrap()
        };
        let mut replayed = met();
        let token = replayed.initiator.wrap(b"DELE a\r\n");
        replayed.acceptor.unwrap(&token).unwrap();
        assert!(replayed.acceptor.unwrap(&token).is_err(), "{versions:?}");

        let mut swapped = met();
        let _first = swapped.initiator.wrap(b"CWD a\r\n");
        let second = swapped.initiator.wrap(b"DELE b\r\n");
        assert!(swapped.acceptor.unwrap(&second).is_err(), "{versions:?}");

        let mut other = met();
        assert!(other.acceptor.unwrap(&token).is_err(), "{versions:?}");

        let mut changed = met();
        let token = flipped(&changed.initiator.wrap(b"DELE a\r\n"));
        let error = changed.acceptor.unwrap(&token).unwrap_err();
        assert!(matches!(error.fault(), Fault::Tls(_)), "{error:?}");
        assert!(!error.alert().is_empty());
    }
}

#[test]
fn long_texts_take_several_records_in_one_token() {
    let options = options(Versions::Tls13, Some(&Lab::get().user), Delegation::None);
    let mut met = meet(options, acceptor(Mode::Gsi, Clients::Certified)).unwrap();
    let text: Vec<u8> = (0..40_000u32).map(|byte| byte.to_le_bytes()[0]).collect();
    let token = met.initiator.wrap(&text);
    assert_eq!(met.acceptor.unwrap(&token).unwrap(), text);
}

#[test]
fn a_limited_proxy_delegates_only_limited_ones() {
    let limited = Lab::proxy(ProxyFormat::Rfc, ProxyRights::Limited);
    let full = Initiator::new(
        options(Versions::All, Some(&limited), Delegation::Full),
        now(),
    );
    let error = full.unwrap_err();
    assert!(
        matches!(error.fault(), Fault::Proxy(ProxyError::Limited(_))),
        "{error}"
    );
    assert_eq!(error.party(), Party::Local);
    let options = options(Versions::All, Some(&limited), Delegation::Limited);
    let met = meet(options, acceptor(Mode::Gsi, Clients::Certified)).unwrap();
    assert!(met.acceptor.delegated().is_some());
}

#[test]
fn a_user_with_a_curve_key_delegates_to_a_fresh_rsa_key() {
    let options = options(Versions::All, Some(&Lab::get().curve), Delegation::Limited);
    let met = meet(options, acceptor(Mode::Gsi, Clients::Certified)).unwrap();
    let delegated = met.acceptor.delegated().unwrap();
    assert_eq!(
        delegated.identity().to_string(),
        "/O=Grid/OU=Lab/CN=Eve Curve"
    );
    assert_eq!(delegated.key().public_key(), KEYS[1].public_key());
}

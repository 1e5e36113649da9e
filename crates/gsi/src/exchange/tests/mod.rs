//! Exchanges between an initiator and an acceptor, and peers that break the protocol.

mod hostile;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{CipherSuiteCommon, ProtocolVersion, SupportedCipherSuite, Tls12CipherSuite};

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

/// Carries tokens from end to end until both are done.
fn meet(options: InitiatorOptions, acceptor: Acceptor) -> Result<Met, ExchangeError> {
    meet_over(options, acceptor, |_, _| {})
}

/// Carries tokens through `wire`, which may change them and knows their number.
fn meet_over(
    options: InitiatorOptions,
    mut acceptor: Acceptor,
    mut wire: impl FnMut(usize, &mut Vec<u8>),
) -> Result<Met, ExchangeError> {
    let (mut initiator, first) = Initiator::new(options, now())?;
    let mut tokens = vec![first];
    let (mut near, mut far) = (None, None);
    for turn in 0..9 {
        let mut token = tokens.last().unwrap().clone();
        wire(turn, &mut token);
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

/// Traps 7 to 11: proxies of every format log in and delegate, and the chain of the
/// delegated credential is the new proxy and the peer's. The constructors of rustls that parse the
/// certificate would refuse all but the legacy ones.
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

                let token = met.initiator.wrap(b"USER :globus-mapping:\r\n").unwrap();
                assert_eq!(
                    met.acceptor.unwrap(&token).unwrap(),
                    b"USER :globus-mapping:\r\n"
                );
                let token = met.acceptor.wrap(b"331 Password required.\r\n").unwrap();
                assert_eq!(
                    met.initiator.unwrap(&token).unwrap(),
                    b"331 Password required.\r\n"
                );
            }
        }
    }
}

/// Trap 2: the token after the handshake is a record with one zero byte
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

/// Trap 22: acceptors before 2022 send session tickets in place of the zero byte.
#[test]
fn the_content_of_the_resync_token_does_not_matter() {
    let lab = Lab::tls(Versions::Tls13);
    let mut config = lab.server(&Lab::get().host, Clients::Certified).unwrap();
    config.send_tls13_tickets = 2;
    config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    let old = Acceptor::new(Arc::new(config), Arc::clone(lab.verifier()), Mode::Gsi).unwrap();
    let options = options(Versions::Tls13, Some(&Lab::get().user), Delegation::Limited);
    let met = meet(options, old).unwrap();
    assert!(met.tokens[3].len() > 100, "no tickets were sent");
    assert!(met.acceptor.delegated().is_some());
}

#[test]
fn plain_mode_ends_with_the_handshake() {
    for (versions, tokens) in [(Versions::Tls13, 3), (Versions::Tls12, 4)] {
        let mut options = options(versions, Some(&Lab::get().user), Delegation::None);
        options.mode = Mode::Plain;
        let mut met = meet(options, acceptor(Mode::Plain, Clients::Certified)).unwrap();
        assert_eq!(met.tokens.len(), tokens, "{versions:?}");
        let token = met.initiator.wrap(b"data").unwrap();
        assert_eq!(met.acceptor.unwrap(&token).unwrap(), b"data");
    }
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
fn long_texts_take_several_records_in_one_token() {
    let options = options(Versions::Tls13, Some(&Lab::get().user), Delegation::None);
    let mut met = meet(options, acceptor(Mode::Gsi, Clients::Certified)).unwrap();
    let text: Vec<u8> = (0..40_000u32).map(|byte| byte.to_le_bytes()[0]).collect();
    let token = met.initiator.wrap(&text).unwrap();
    assert_eq!(met.acceptor.unwrap(&token).unwrap(), text);
}

/// Nothing may be taken for sent that never was.
#[test]
fn used_up_keys_are_told_to_the_sender() {
    let user = &Lab::get().user;
    let stock = aws_lc_rs::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
    let SupportedCipherSuite::Tls12(stock) = stock else {
        panic!("it is of TLS 1.2")
    };
    let common = CipherSuiteCommon {
        suite: stock.common.suite,
        hash_provider: stock.common.hash_provider,
        confidentiality_limit: 10,
    };
    let weak = Box::leak(Box::new(Tls12CipherSuite { common, ..*stock }));
    let provider = CryptoProvider {
        cipher_suites: vec![SupportedCipherSuite::Tls12(weak)],
        ..aws_lc_rs::default_provider()
    };
    let config = Lab::tls(Versions::Tls12).client_with(provider, Some(user));
    let mut options = options(Versions::Tls12, Some(user), Delegation::None);
    options.config = Arc::new(config.unwrap());
    let mut met = meet(options, acceptor(Mode::Gsi, Clients::Certified)).unwrap();
    let error = (0..20).find_map(|_| met.initiator.wrap(b"NOOP\r\n").err());
    let error = error.expect("the keys are used up");
    assert_eq!(error.party(), Party::Local, "{error}");
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

#[test]
fn an_exchange_moves_between_threads() {
    fn is_send<T: Send + 'static>() {}
    is_send::<(
        Initiator,
        Acceptor,
        Session,
        DataChannel,
        Step,
        ExchangeError,
    )>();
    is_send::<(Credential, KeyPair, Tls, crate::sni::NameFilter)>();
}

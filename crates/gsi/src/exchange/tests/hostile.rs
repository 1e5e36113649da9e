//! Peers that break the protocol, are refused, or lie.

use super::*;

#[test]
fn a_closed_session_takes_nothing_more() {
    let options = options(Versions::Tls13, Some(&Lab::get().user), Delegation::None);
    let (mut initiator, first) = Initiator::new(options, now()).unwrap();
    let mut acceptor = acceptor(Mode::Gsi, Clients::Certified);
    let second = sent(acceptor.step(&first, now()));
    let third = sent(initiator.step(&second, now()));
    sent(acceptor.step(&third, now()));
    let close = initiator.engine().close();
    let error = acceptor.step(&close, now()).unwrap_err();
    assert!(matches!(error.fault(), Fault::Closed), "{error}");
}

/// Row 52 of the hostile input: nobody delegates without a name.
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
        let flag = initiator.engine().wrap(b"D").unwrap();
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

#[test]
fn other_flags_are_refused() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        for flag in [&b"x"[..], b"d", b"00", b"D0", b"\0"] {
            let (mut initiator, mut acceptor) = up_to_flag(versions, Some(&Lab::get().user));
            let token = initiator.engine().wrap(flag).unwrap();
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
    let flag = engine.wrap(b"D").unwrap();
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
        let token = initiator.engine().wrap(&certificate).unwrap();
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
    let token = initiator.engine().wrap(&forged).unwrap();
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
        let token = acceptor.engine().wrap(broken).unwrap();
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
        let token = replayed.initiator.wrap(b"DELE a\r\n").unwrap();
        replayed.acceptor.unwrap(&token).unwrap();
        assert!(replayed.acceptor.unwrap(&token).is_err(), "{versions:?}");

        let mut swapped = met();
        let _first = swapped.initiator.wrap(b"CWD a\r\n").unwrap();
        let second = swapped.initiator.wrap(b"DELE b\r\n").unwrap();
        assert!(swapped.acceptor.unwrap(&second).is_err(), "{versions:?}");

        let mut other = met();
        assert!(other.acceptor.unwrap(&token).is_err(), "{versions:?}");

        let mut changed = met();
        let token = flipped(&changed.initiator.wrap(b"DELE a\r\n").unwrap());
        let error = changed.acceptor.unwrap(&token).unwrap_err();
        assert!(matches!(error.fault(), Fault::Tls(_)), "{error:?}");
        assert!(!error.alert().is_empty());
    }
}

/// The tokens of a client, taken from the wire, are of no use to anybody else.
#[test]
fn recorded_tokens_authenticate_nobody() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        let options = options(versions, Some(&Lab::get().user), Delegation::None);
        let met = meet(options, acceptor(Mode::Gsi, Clients::Certified)).unwrap();
        let mut acceptor = acceptor(Mode::Gsi, Clients::Certified);
        let mut of_client = met.tokens.iter().step_by(2);
        sent(acceptor.step(of_client.next().unwrap(), now()));
        let error = acceptor.step(of_client.next().unwrap(), now()).unwrap_err();
        assert!(matches!(error.fault(), Fault::Tls(_)), "{error:?}");
        assert_eq!(error.party(), Party::Peer);
    }
}

/// Row 49 of the hostile input: a chain of a hundred certificates, and a certificate of a megabyte.
#[test]
fn chains_beyond_the_bounds_are_refused() {
    let user = &Lab::get().user;
    let root = Lab::get().root.clone();
    let many = std::iter::repeat_n(root, 100);
    let many = user.chain().iter().cloned().chain(many).collect();
    let many = Credential::new(many, user.key().clone()).unwrap();
    let large = Lab::large(1 << 20);
    for versions in [Versions::Tls12, Versions::Tls13] {
        for credential in [&many, &large] {
            let options = options(versions, Some(credential), Delegation::None);
            let refused = meet(options, acceptor(Mode::Gsi, Clients::Certified));
            let error = refused.err().unwrap();
            let is_bound = match error.fault() {
                Fault::TooLong(_) | Fault::Tls(_) => true,
                Fault::Refused(refusal) => matches!(
                    refusal.rule,
                    crate::verify::Rule::TooMany { .. } | crate::verify::Rule::TooLarge { .. }
                ),
                _ => false,
            };
            assert!(is_bound, "{versions:?}: {error:?}");
        }
    }
}

/// A middle box that changes a bit of a token stops the exchange, or changes nothing: the version
/// in the header of a clear record has no meaning.
#[test]
fn a_changed_token_never_changes_the_outcome() {
    let user = &Lab::get().user;
    for versions in [Versions::Tls12, Versions::Tls13] {
        for number in 0..7 {
            for place in 0..12 {
                let options = options(versions, Some(user), Delegation::Limited);
                let acceptor = acceptor(Mode::Gsi, Clients::Certified);
                let met = meet_over(options, acceptor, |turn, token| {
                    if turn == number {
                        let at = token.len() * place / 12;
                        token[at] ^= 1 << (place % 8);
                    }
                });
                let case = format!("{versions:?} {number} {place}");
                match met {
                    Ok(met) => {
                        let identity = &met.acceptor.peer().unwrap().identity;
                        assert_eq!(identity, user.subject(), "{case}");
                        let delegated = met.acceptor.delegated().unwrap().certificate();
                        let rights = delegated.proxy().unwrap().rights;
                        assert_eq!(rights, ProxyRights::Limited, "{case}");
                    }
                    Err(error) => assert_eq!(error.party(), Party::Peer, "{case}: {error}"),
                }
            }
        }
    }
}

#[test]
fn a_token_cut_or_repeated_stops_the_exchange() {
    let user = &Lab::get().user;
    for versions in [Versions::Tls12, Versions::Tls13] {
        for number in 0..7 {
            for repeat in [false, true] {
                let options = options(versions, Some(user), Delegation::Limited);
                let acceptor = acceptor(Mode::Gsi, Clients::Certified);
                let met = meet_over(options, acceptor, |turn, token| match (turn, repeat) {
                    (turn, true) if turn == number => token.extend_from_within(..),
                    (turn, false) if turn == number => token.truncate(token.len() / 2),
                    _ => {}
                });
                assert!(met.is_err(), "{versions:?} {number} {repeat}");
            }
        }
    }
}

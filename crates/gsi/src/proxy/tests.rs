//! Proxies of every format, by their bytes and by the rules between issuer and proxy.

use super::*;
use crate::key::KeySize;
use crate::lab::{KEYS, Lab, now, trust};
use crate::verify::Verifier;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn parse(der: CertificateDer<'static>) -> Certificate {
    Certificate::parse(der).unwrap()
}

fn issued(format: ProxyFormat, rights: ProxyRights) -> Certificate {
    let options = ProxyOptions {
        format: Some(format),
        rights,
        ..ProxyOptions::default()
    };
    parse(
        Lab::get()
            .user
            .issue_proxy(KEYS[1].public_key(), &options, now())
            .unwrap(),
    )
}

/// Trap 20: the encodings of `grid-proxy-init`, but for a path length of 0, which it drops.
#[test]
fn proxy_cert_info_is_encoded_as_by_globus() {
    let with = |path_length| ProxyOptions {
        path_length,
        ..ProxyOptions::default()
    };
    let rfc = |path_length| hex(&rfc_info(&with(path_length)).unwrap());
    assert_eq!(rfc(None), "300C300A06082B06010505071501");
    assert_eq!(rfc(Some(1)), "300F020101300A06082B06010505071501");
    assert_eq!(rfc(Some(0)), "300F020100300A06082B06010505071501");
    let draft = draft_info(&with(Some(3))).unwrap();
    assert_eq!(hex(&draft), "3011300A06082B06010505071501A103020103");
}

#[test]
fn serial_number_and_name_are_made_of_the_key() {
    let proxy = issued(ProxyFormat::Rfc, ProxyRights::Full);
    let number = number(KEYS[1].public_key());
    assert_eq!(
        proxy.subject().to_string(),
        format!("/O=Grid/OU=Lab/CN=Alice Lab/CN={number}")
    );
    assert!(number < 1 << 31);
    let serial = proxy
        .serial()
        .iter()
        .fold(0u64, |serial, byte| serial << 8 | u64::from(*byte));
    assert_eq!(serial, u64::from(number));
    assert_eq!(proxy.issuer().as_der(), Lab::get().user.subject().as_der());

    let user = Lab::get().user.certificate();
    for (rights, name) in [
        (ProxyRights::Full, "proxy"),
        (ProxyRights::Limited, "limited proxy"),
    ] {
        let legacy = issued(ProxyFormat::Legacy, rights);
        assert_eq!(
            legacy.subject().to_string(),
            format!("/O=Grid/OU=Lab/CN=Alice Lab/CN={name}")
        );
        assert_eq!(legacy.serial(), user.serial());
    }
}

/// Purposes, usage without two bits, then the facts about the proxy.
#[test]
fn extensions_are_inherited_in_the_order_of_globus() {
    let oids = |proxy: &Certificate| -> Vec<Vec<u8>> {
        proxy
            .extensions()
            .iter()
            .map(|extension| extension.oid.clone())
            .collect()
    };
    let common = [oid::EXTENDED_KEY_USAGE, oid::KEY_USAGE];
    for (format, last) in [
        (ProxyFormat::Rfc, &[oid::PROXY_CERT_INFO][..]),
        (ProxyFormat::Draft, &[oid::PROXY_CERT_INFO_DRAFT]),
        (ProxyFormat::Legacy, &[]),
    ] {
        let proxy = issued(format, ProxyRights::Full);
        assert_eq!(oids(&proxy), [&common[..], last].concat(), "{format:?}");
        let usage = proxy.extension(oid::KEY_USAGE).unwrap();
        assert!(usage.critical);
        // The user has digitalSignature, nonRepudiation and keyEncipherment.
        assert_eq!(hex(&usage.value), "030205A0");
    }
    assert_eq!(hex(&inherited(&[1, 0x06]).unwrap()), "03020102");
    assert_eq!(hex(&inherited(&[2, 0x44]).unwrap()), "030100");
    assert_eq!(hex(&inherited(&[7, 0xe0, 0x80]).unwrap()), "030307A080");
}

#[test]
fn every_issuer_signs_proxies_that_verify() {
    let lab = Lab::get();
    let chain = [
        Lab::proxy(ProxyFormat::Rfc, ProxyRights::Full),
        Lab::proxy(ProxyFormat::Draft, ProxyRights::Full),
        Lab::proxy(ProxyFormat::Legacy, ProxyRights::Full),
    ];
    for issuer in [&lab.user, &lab.host, &lab.curve].into_iter().chain(&chain) {
        let below = issuer
            .make_proxy(KEYS[0].clone(), &ProxyOptions::limited(), now())
            .unwrap();
        let peer = trust(&lab.root).verify(below.chain(), now()).unwrap();
        assert!(peer.is_limited());
        assert_eq!(below.chain()[1..], *issuer.chain());
    }
}

#[test]
fn the_root_is_left_out_of_a_new_chain() {
    let lab = Lab::get();
    let mut chain = lab.user.chain().to_vec();
    chain.push(lab.root.clone());
    let user = Credential::new(chain, lab.user.key().clone()).unwrap();
    let proxy = user
        .make_proxy(KEYS[1].clone(), &ProxyOptions::default(), now())
        .unwrap();
    assert_eq!(proxy.chain().len(), 2);
}

#[test]
fn time_is_cut_to_the_issuers() {
    let user = &Lab::get().user;
    let times = |lifetime| {
        let options = ProxyOptions {
            lifetime,
            ..ProxyOptions::default()
        };
        let proxy = parse(
            user.issue_proxy(KEYS[1].public_key(), &options, now())
                .unwrap(),
        );
        (proxy.not_before().as_secs(), proxy.not_after().as_secs())
    };
    let now = now().as_secs();
    let end = user.not_after().as_secs();
    assert_eq!(
        times(Some(Duration::from_secs(43_200))),
        (now - 300, now + 43_200)
    );
    assert_eq!(times(None), (now - 300, end));
    assert_eq!(times(Some(Duration::MAX)), (now - 300, end));
}

#[test]
fn the_rules_between_issuer_and_proxy_are_kept() {
    let lab = Lab::get();
    let issue = |from: &Credential, options: ProxyOptions, at: u64| {
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
        from.issue_proxy(KEYS[1].public_key(), &options, at)
            .map(drop)
    };
    let with = |format, rights| ProxyOptions {
        format,
        rights,
        ..ProxyOptions::default()
    };
    let instant = now();
    let now = instant.as_secs();
    let (full, limited) = (ProxyRights::Full, ProxyRights::Limited);

    let rfc = Lab::proxy(ProxyFormat::Rfc, full);
    for other in [ProxyFormat::Draft, ProxyFormat::Legacy] {
        let mixed = issue(&rfc, with(Some(other), full), now).unwrap_err();
        assert!(matches!(mixed, ProxyError::Mixed(_)), "{mixed}");
    }
    assert!(issue(&rfc, with(Some(ProxyFormat::Rfc), limited), now).is_ok());

    for format in [ProxyFormat::Rfc, ProxyFormat::Draft, ProxyFormat::Legacy] {
        let proxy = Lab::proxy(format, limited);
        assert!(issue(&proxy, with(None, limited), now).is_ok());
        for rights in [full, ProxyRights::Independent] {
            let error = issue(&proxy, with(None, rights), now).unwrap_err();
            assert!(matches!(error, ProxyError::Limited(_)), "{error}");
        }
    }

    let options = ProxyOptions {
        path_length: Some(0),
        ..ProxyOptions::default()
    };
    let last = lab
        .user
        .make_proxy(KEYS[1].clone(), &options, instant)
        .unwrap();
    let error = issue(&last, with(None, full), now).unwrap_err();
    assert!(matches!(error, ProxyError::PathLength(_)), "{error}");

    let error = issue(&lab.user, with(None, full), 2_300_000_000).unwrap_err();
    assert!(matches!(error, ProxyError::Expired(_)), "{error}");
    for impossible in [
        with(None, ProxyRights::Restricted),
        with(Some(ProxyFormat::Legacy), ProxyRights::Independent),
        ProxyOptions {
            format: Some(ProxyFormat::Legacy),
            ..options
        },
    ] {
        let error = issue(&lab.user, impossible, now).unwrap_err();
        assert!(matches!(error, ProxyError::NoSuchProxy(..)), "{error}");
    }
    let error = lab
        .user
        .issue_proxy(b"no key", &ProxyOptions::default(), instant);
    assert!(matches!(error, Err(ProxyError::PublicKey)));
}

#[test]
fn requests_are_as_long_as_those_of_globus_and_checked() {
    use crate::request::{BadRequest, Request};
    let request = Request::write(&KEYS[1]).unwrap();
    // 667 bytes for a key of 2048 bits.
    assert_eq!(request.len(), 667);
    assert_eq!(
        Request::parse(&request).unwrap().public_key(),
        KEYS[1].public_key()
    );
    assert_eq!(Request::parse(&request[..100]), Err(BadRequest::Malformed));
    assert_eq!(
        Request::parse(&[&request[..], &[0]].concat()),
        Err(BadRequest::Malformed)
    );
    let mut forged = request;
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(Request::parse(&forged), Err(BadRequest::Signature));
    let curve = Request::write(Lab::get().curve.key()).unwrap();
    assert!(Request::parse(&curve).is_ok());
    assert_eq!(KeySize::at_least(1024), KeySize::Bits2048);
    assert_eq!(KeySize::at_least(16_384).bits(), 4096);
}

//! Names of hosts in certificates.

use gsi::certificate::Certificate;
use gsi::host::{Expected, Host, Names};
use gsi::oid;

use crate::build::{Draft, extension, keys, rfc, sequence, tlv};
use crate::table::{proxy, root, store, user, verify};

/// The certificate of a subject with these alternative names.
fn certificate(subject: &str, hosts: &[&str], addresses: &[&[u8]]) -> Certificate {
    let hosts = hosts.iter().map(|host| tlv(0x82, host.as_bytes()));
    let all: Vec<Vec<u8>> = hosts
        .chain(addresses.iter().map(|bytes| tlv(0x87, bytes)))
        .collect();
    let mut draft = Draft::new(subject, &keys().user);
    if !all.is_empty() {
        draft = draft.with(extension(
            oid::SUBJECT_ALT_NAME,
            false,
            &sequence(&[&all.concat()]),
        ));
    }
    Certificate::parse(draft.by(&root()).der()).unwrap()
}

#[test]
fn rfc_2818_prefers_alternative_names() {
    let fits =
        |certificate: &Certificate, host: &str| Host::new(host).fits(certificate, Names::default());
    let named = certificate(
        "/O=Grid/CN=old.lab.org",
        &["a.lab.org", "B.lab.org"],
        &[&[10, 0, 0, 1]],
    );
    for (host, expected) in [
        ("a.lab.org", true),
        ("b.LAB.org.", true),
        ("old.lab.org", false),
        ("lab.org", false),
        ("c.a.lab.org", false),
        ("10.0.0.1", true),
        ("10.0.0.2", false),
    ] {
        assert_eq!(fits(&named, host), expected, "{host}");
    }
    let other = Host::new("alias").address("10.0.0.1".parse().unwrap());
    assert!(other.fits(&named, Names::Rfc2818));
    let v6 = certificate(
        "/CN=x",
        &[],
        &[&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]],
    );
    assert!(fits(&v6, "::1") && fits(&v6, "[0::1]") && fits(&v6, "x") && !fits(&v6, "::2"));
    for subject in ["/O=Grid/CN=a.lab.org", "/O=Grid/CN=host|a.lab.org"] {
        let plain = certificate(subject, &[], &[]);
        assert!(
            fits(&plain, "A.lab.org") && !fits(&plain, "b.lab.org"),
            "{subject}"
        );
    }
    assert!(!fits(&certificate("/O=Grid", &[], &[]), "grid"));
}

#[test]
fn a_star_ends_the_first_label() {
    for (pattern, host, expected) in [
        ("*", "localhost", true),
        ("local*", "localhost", true),
        ("*.lab.org", "a.lab.org", true),
        ("a*.lab.org", "a.lab.org", true),
        ("*.lab.org", "lab.org", false),
        ("*.lab.org", "a.b.lab.org", false),
        ("*host", "localhost", false),
        ("l*l*", "localhost", false),
        ("a.*.org", "a.lab.org", false),
        ("*", "10.0.0.1", false),
        ("*.0.0.1", "10.0.0.1", false),
    ] {
        let certificate = certificate("/CN=x", &[pattern], &[]);
        assert_eq!(
            Host::new(host).fits(&certificate, Names::Rfc2818),
            expected,
            "{pattern} {host}"
        );
    }
}

#[test]
fn older_rules_know_interfaces_and_reverse_names() {
    let named = certificate("/O=Grid/CN=host|a-eth0.lab.org", &["b.lab.org"], &[]);
    let reverse = || Host::new("alias").reverse("a.lab.org");
    for (host, rules, expected) in [
        (Host::new("a.lab.org"), Names::Gt2, true),
        (Host::new("a.lab.org"), Names::Hybrid, true),
        (Host::new("a.lab.org"), Names::Rfc2818, false),
        (Host::new("b.lab.org"), Names::Gt2, false),
        (Host::new("b.lab.org"), Names::Hybrid, true),
        (Host::new("a.other.org"), Names::Gt2, false),
        (Host::new("a-eth1.lab.org"), Names::Gt2, false),
        (reverse(), Names::Gt2, true),
        (reverse(), Names::Rfc2818, false),
    ] {
        assert_eq!(host.fits(&named, rules), expected, "{host:?} {rules:?}");
    }
}

#[test]
fn a_subject_is_compared_exactly() {
    let root = root();
    let host = user("/O=Grid/CN=host|lab").by(&root);
    let peer = verify(&store(&[&root]), &[&host]).unwrap();
    for (text, fits) in [
        ("/O=Grid/CN=host/lab", true),
        ("/O=grid/CN=host/lab", false),
        ("/O=Grid/CN=lab", false),
        ("host@lab", true),
        ("host@bal", false),
    ] {
        let checked = Expected::subject(text).check(&peer, Names::Rfc2818);
        assert_eq!(checked.is_ok(), fits, "{text}");
    }
    let wrong = Expected::Host(Host::new("bal"))
        .check(&peer, Names::Rfc2818)
        .unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "the server is /O=Grid/CN=host/lab, not bal: \
         connect to a name of its certificate, or expect its subject"
    );
}

/// Its identity is its own, and only that: everybody with a proxy of the host could make one.
#[test]
fn an_independent_proxy_of_a_host_is_not_the_host() {
    let root = root();
    let host = user("/O=Grid/CN=host|lab").by(&root);
    for (language, is_host) in [(oid::INHERIT_ALL, true), (oid::INDEPENDENT, false)] {
        let proxy = proxy(&host, "123", Some(rfc(language, None))).by(&host);
        let peer = verify(&store(&[&root]), &[&proxy, &host]).unwrap();
        for rules in [Names::Rfc2818, Names::Gt2, Names::Hybrid] {
            let checked = Expected::Host(Host::new("lab")).check(&peer, rules);
            assert_eq!(checked.is_ok(), is_host, "{rules:?} {}", peer.identity);
        }
    }
}

#[test]
fn rules_have_the_names_of_gsi_conf() {
    assert_eq!("STRICT_RFC2818".parse(), Ok(Names::default()));
    assert_eq!("HYBRID".parse(), Ok(Names::Hybrid));
    assert_eq!("STRICT_GT2".parse(), Ok(Names::Gt2));
    assert_eq!(
        "GT2".parse::<Names>().unwrap_err().to_string(),
        "name compatibility GT2 is unknown: use STRICT_RFC2818, HYBRID or STRICT_GT2"
    );
}

//! Contact strings: each form, each refusal, and printing as the inverse of reading.

use proptest::prelude::{Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};

use super::*;

fn read(text: &str) -> Target {
    text.parse().unwrap()
}

fn url(scheme: &str) -> Target {
    Target {
        scheme: Some(scheme.to_owned()),
        ..Target::default()
    }
}

#[test]
fn each_form_is_read() {
    assert_eq!(read("dtn1:2811"), Target::host("dtn1", 2811));
    assert_eq!(read("[::1]:2811"), Target::host("::1", 2811));
    assert_eq!(read("/etc/motd"), Target::file("/etc/motd"));
    assert_eq!(read("file:/etc/mo%20td"), Target::file("/etc/mo%20td"));
    assert_eq!(read("name"), Target::file("name"));
    assert_eq!(read("a/b:1"), Target::file("a/b:1"));
    let whole = read("ftp://me:se%3Acret@[::1]:2811//data/a%20b%%");
    assert_eq!(
        whole,
        Target {
            user: Some("me".to_owned()),
            password: Some("se:cret".to_owned()),
            host: Some("::1".to_owned()),
            port: Some(2811),
            path: Some("/data/a b%".to_owned()),
            ..url("ftp")
        }
    );
    let subject = read("gsiftp://me@</C=DE/CN=host/dtn1>:dtn1/x");
    assert_eq!(
        subject,
        Target {
            user: Some("me".to_owned()),
            subject: Some("/C=DE/CN=host/dtn1".to_owned()),
            host: Some("dtn1".to_owned()),
            path: Some("x".to_owned()),
            ..url("gsiftp")
        }
    );
    assert_eq!(read("stdin://"), url("stdin"));
    assert_eq!(read("ftp://h/a<b>:c@<d").path.as_deref(), Some("a<b>:c@<d"));
    assert_eq!(read("ftp://h/%2Fetc").path.as_deref(), Some("/etc"));
}

#[test]
fn what_is_none_is_refused_without_repeating_it() {
    for text in [
        "",
        "host:port",
        "host:70000",
        "host:+1",
        "::1:2811",
        "[::1:2811",
        "[::1]2811",
        "[dtn1]:2811",
        "ftp://me:secret@host:x/",
        "ftp://h/%4",
        "ftp://h/%ff",
        "ftp://<never ends",
        "a\0b",
    ] {
        let error = text.parse::<Target>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadTarget, "{text:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[test]
fn addresses_go_both_ways() {
    for text in ["127.0.0.1:2811", "[::1]:2811"] {
        let address: SocketAddr = text.parse().unwrap();
        assert_eq!(Target::from(address).address(), Some(address));
        assert_eq!(Target::from(address).to_string(), text);
        assert_eq!(read(text).address(), Some(address));
    }
    let scoped = SocketAddr::V6(std::net::SocketAddrV6::new(
        "fe80::1".parse().unwrap(),
        1,
        0,
        7,
    ));
    assert_eq!(Target::from(scoped).address(), Some(scoped));
    assert_eq!(Target::host("dtn1", 1).address(), None);
}

#[test]
fn hints_are_found_by_type_and_the_last_one_counts() {
    let hints = SocketHints::new();
    let target = Target::host("h", 1)
        .with(hints.backlog(1))
        .with(7_u32)
        .with(hints.backlog(2));
    assert_eq!(target.hint::<SocketHints>().unwrap().backlog, Some(2));
    assert_eq!(target.hint::<u32>(), Some(&7));
    assert_eq!(target.hint::<u64>(), None);
}

#[test]
fn debug_keeps_the_password() {
    let target = read("ftp://me:secret@h/");
    assert_eq!(format!("{target:?}"), "ftp://me:%2A%2A%2A@h/");
    assert_eq!(target.to_string(), "ftp://me:secret@h/");
}

fn part() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| text.replace('\0', ""))
}

fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<std::net::Ipv4Addr>().prop_map(|ip| ip.to_string()),
        any::<Ipv6Addr>().prop_map(|ip| ip.to_string()),
        part().prop_filter("an empty host is none", |h| !h.is_empty()),
    ]
}

#[test]
fn a_port_alone_reads_back() {
    let target = read(":2");
    assert_eq!((target.host.as_deref(), target.port), (None, Some(2)));
    assert_eq!(target.to_string(), ":2");
    // Outside the form with a scheme a % is a character like any other.
    assert_eq!(read("%:2").to_string(), "%:2");
}

proptest! {
    #[test]
    fn a_printed_target_reads_back(
        scheme in prop_oneof!["[a-z][a-z0-9]{0,5}", proptest::strategy::Just("file".to_owned())],
        login in prop::option::of((part(), prop::option::of(part()))),
        subject in prop::option::of(part()),
        host in prop::option::of(host()),
        port in any::<Option<u16>>(),
        path in prop::option::of(part()),
    ) {
        let target = Target {
            user: login.as_ref().map(|l| l.0.clone()),
            password: login.and_then(|l| l.1),
            subject,
            host,
            port,
            path,
            ..url(&scheme)
        };
        prop_assert_eq!(read(&target.to_string()), target);
    }

    #[test]
    fn host_and_port_read_back(host in "[a-zA-Z0-9.-]{1,20}", port in any::<u16>()) {
        let target = Target::host(host, port);
        prop_assert_eq!(read(&target.to_string()), target);
    }

    #[test]
    fn any_text_is_a_target_or_an_error(text in any::<String>()) {
        if let Ok(target) = text.parse::<Target>() {
            prop_assert_eq!(read(&target.to_string()), target);
        }
    }

    #[test]
    fn and_text_of_the_grammar_too(text in "([a-c]{0,3}|file:|file)(://)?[a:@%</>\\[\\]2\\\\]{0,12}") {
        if let Ok(target) = text.parse::<Target>() {
            prop_assert_eq!(read(&target.to_string()), target);
        }
    }
}

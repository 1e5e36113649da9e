//! Addresses in every form, both directions, and forms that are refused.

use proptest::prelude::*;

use super::*;

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn reads_the_replies_of_servers() {
    let one = |text: &str| Ok(Passive::Addrs(vec![addr(text)]));
    for (reply, expected) in [
        (
            Reply::of::<227>("Entering Passive Mode (127,0,0,1,216,181)"),
            one("127.0.0.1:55477"),
        ),
        (
            Reply::of::<127>("Entering Passive Mode (127,0,0,1,135,159)"),
            one("127.0.0.1:34719"),
        ),
        (
            Reply::of::<227>("Entering Passive Mode 127,0,0,1,216,181"),
            one("127.0.0.1:55477"),
        ),
        (
            Reply::of::<227>("at 1 host: =127,0,0,1,216,181, go"),
            one("127.0.0.1:55477"),
        ),
        (
            Reply::of::<227>("Entering Passive Mode (127,0,0,1,216)"),
            Err(BadAddress::HostPort),
        ),
        (
            Reply::of::<227>("Entering Passive Mode (127,0,0,1,216,256)"),
            Err(BadAddress::HostPort),
        ),
        (
            Reply::of::<227>("Entering Passive Mode"),
            Err(BadAddress::Reply),
        ),
        (
            Reply::of::<227>("port none (127,0,0,1,0,0)"),
            Err(BadAddress::HostPort),
        ),
        (
            Reply::of::<229>("Entering Extended Passive Mode (|||34409|)"),
            Ok(Passive::Port(34409)),
        ),
        (Reply::of::<129>("x (!!!34409!)"), Ok(Passive::Port(34409))),
        (
            Reply::of::<229>("x (|1|127.0.0.1|34409|)"),
            one("127.0.0.1:34409"),
        ),
        (Reply::of::<229>("x (|2|::1|34409|)"), one("[::1]:34409")),
        (Reply::of::<229>("x (|||0|)"), Err(BadAddress::Extended)),
        (Reply::of::<229>("x (|||65536|)"), Err(BadAddress::Extended)),
        (Reply::of::<229>("x (|3|a|1|)"), Err(BadAddress::Family)),
        (Reply::of::<229>("x"), Err(BadAddress::Reply)),
        (
            Reply::of::<229>("EPSV ALL Successful."),
            Err(BadAddress::Reply),
        ),
        (Reply::of::<200>("Passive delayed."), Err(BadAddress::Reply)),
    ] {
        assert_eq!(Passive::from_reply(&reply), expected, "{reply}");
    }
}

#[test]
fn striped_replies_keep_the_form_gct_counts_on() {
    let two = [addr("127.0.0.1:39385"), addr("10.0.0.2:1")];
    let plain = spas_reply(&two, false, false);
    assert_eq!(
        plain.to_string(),
        "229-Entering Striped Passive Mode.\r\n 127,0,0,1,153,217\r\n 10,0,0,2,0,1\r\n229 End\r\n"
    );
    let extended = spas_reply(&two, true, true);
    assert_eq!(
        extended.to_string(),
        "129-Entering Striped Passive Mode.\r\n |1|127.0.0.1|39385|\r\n |1|10.0.0.2|1|\r\n129 End\r\n"
    );
    for reply in [plain, extended] {
        assert_eq!(
            Passive::from_reply(&reply),
            Ok(Passive::Addrs(two.to_vec()))
        );
    }
    let v6 = spas_reply(&[addr("[::1]:7")], false, false);
    assert_eq!(v6.inner(), [b"|2|::1|7|".to_vec()]);
}

#[test]
fn lists_are_bounded_and_mixed_forms_pass() {
    let list = parse_list(b"127,0,0,1,0,21  |2|::1|80| |1|1.2.3.4|9|").unwrap();
    assert_eq!(
        list,
        [addr("127.0.0.1:21"), addr("[::1]:80"), addr("1.2.3.4:9")]
    );
    assert_eq!(list_text(&list), "127,0,0,1,0,21 |2|::1|80| 1,2,3,4,0,9");
    assert_eq!(parse_list(b" "), Err(BadAddress::Empty));
    let many = "1,2,3,4,5,6 ".repeat(MAX_ADDRESSES + 1);
    assert_eq!(
        parse_list(many.as_bytes()),
        Err(BadAddress::TooMany {
            limit: MAX_ADDRESSES
        })
    );
}

#[test]
fn malformed_eprt_is_refused() {
    for (text, error) in [
        ("", BadAddress::Empty),
        ("|1|127.0.0.1||", BadAddress::Extended),
        ("|1|127.0.0.1|80", BadAddress::Extended),
        ("|1|127.0.0.1|80||", BadAddress::Extended),
        ("|1|::1|80|", BadAddress::Extended),
        ("|2|127.0.0.1|80|", BadAddress::Extended),
        ("|2|fe80::1%eth0|80|", BadAddress::Extended),
        ("|1|127.0.0.1|+80|", BadAddress::Extended),
        ("|1|127.0.0.1|0|", BadAddress::Extended),
        ("|3|127.0.0.1|80|", BadAddress::Family),
        ("|x|127.0.0.1|80|", BadAddress::Extended),
        ("a1a127.0.0.1a80a", BadAddress::Extended),
    ] {
        assert_eq!(parse_eprt(text.as_bytes()), Err(error), "{text}");
    }
}

#[test]
fn mapped_addresses_are_ipv4() {
    let mapped = addr("[::ffff:10.1.2.3]:258");
    assert_eq!(
        parse_eprt(b"|2|::ffff:10.1.2.3|258|"),
        Ok(addr("10.1.2.3:258"))
    );
    assert_eq!(port_text(mapped).as_deref(), Some("10,1,2,3,1,2"));
    assert_eq!(eprt_text(mapped), "|1|10.1.2.3|258|");
    assert_eq!(pasv_reply(addr("[::1]:5"), false), None);
}

#[test]
fn unspecified_hosts_become_the_peer() {
    let peer: IpAddr = "192.0.2.7".parse().unwrap();
    assert_eq!(Passive::Port(5).resolve(peer), [addr("192.0.2.7:5")]);
    let some = Passive::Addrs(vec![addr("0.0.0.0:6"), addr("10.0.0.1:7")]);
    assert_eq!(
        some.resolve(peer),
        [addr("192.0.2.7:6"), addr("10.0.0.1:7")]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_address_survives_every_form(ip: [u8; 4], v6: u128, port in 1u16..) {
        let v4 = SocketAddr::from((ip, port));
        prop_assert_eq!(parse_port(port_text(v4).unwrap().as_bytes()), Ok(v4));
        let v6 = SocketAddr::from((Ipv6Addr::from_bits(v6), port));
        for addr in [v4, SocketAddr::new(v6.ip().to_canonical(), port)] {
            prop_assert_eq!(parse_eprt(eprt_text(addr).as_bytes()), Ok(addr));
            let reply = Reply::of::<129>(format!("Entering Passive Mode ({})", eprt_text(addr)));
            prop_assert_eq!(Passive::from_reply(&reply), Ok(Passive::Addrs(vec![addr])));
            let reply = epsv_host_reply(addr, false);
            prop_assert_eq!(Passive::from_reply(&reply), Ok(Passive::Addrs(vec![addr])));
        }
        prop_assert_eq!(Passive::from_reply(&epsv_reply(port, false)), Ok(Passive::Port(port)));
    }
}

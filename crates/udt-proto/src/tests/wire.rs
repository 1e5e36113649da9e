//! Packets byte for byte as the reference sends them.

use crate::handshake::{Handshake, Request, address_words};
use crate::packet::{
    Ack, Control, FullAck, Message, Packet, Rates, begin_nak, push_loss, write_control,
    write_data_header,
};

/// Bytes from words in hexadecimal.
fn bytes(words: &str) -> Vec<u8> {
    let words = words.split_whitespace();
    let words = words.map(|word| u32::from_str_radix(word, 16).unwrap());
    words.flat_map(u32::to_be_bytes).collect()
}

/// Writes a packet and parses it again.
fn check(control: Control<'_>, to: u32, expected: &str) {
    let expected = bytes(expected);
    let mut out = Vec::new();
    write_control(&mut out, &control, to);
    assert_eq!(out, expected);
    assert_eq!(Packet::parse(&expected), Some(Packet::Control(control)));
}

#[test]
fn handshakes() {
    let ask = Handshake {
        version: 4,
        service: 1,
        initial: 0x5ea8_f91c,
        mss: 1500,
        window: 8192,
        request: Request::Ask,
        id: 0x130b_b38f,
        cookie: 0,
        address: address_words("127.0.0.1".parse().unwrap()),
    };
    check(
        Control::Handshake(ask),
        0,
        "80000000 00000000 00000000 00000000 00000004 00000001 5ea8f91c 000005dc 00002000 00000001 130bb38f 00000000 0100007f 0 0 0",
    );
    let cookie = Handshake {
        cookie: 0xc7d6_2d80,
        ..ask
    };
    check(
        Control::Handshake(cookie),
        0x130b_b38f,
        "80000000 00000000 00000000 130bb38f 00000004 00000001 5ea8f91c 000005dc 00002000 00000001 130bb38f c7d62d80 0100007f 0 0 0",
    );
    let confirm = Handshake {
        request: Request::Confirm,
        ..cookie
    };
    check(
        Control::Handshake(confirm),
        0,
        "80000000 00000000 00000000 00000000 00000004 00000001 5ea8f91c 000005dc 00002000 ffffffff 130bb38f c7d62d80 0100007f 0 0 0",
    );
    let answer = Handshake {
        id: 0x14ea_ee59,
        ..confirm
    };
    check(
        Control::Handshake(answer),
        0x130b_b38f,
        "80000000 00000000 00000000 130bb38f 00000004 00000001 5ea8f91c 000005dc 00002000 ffffffff 14eaee59 c7d62d80 0100007f 0 0 0",
    );
}

#[test]
fn acknowledgements_have_three_lengths() {
    let ack = |number, next, full| Control::Ack(Ack { number, next, full });
    let full = |rtt, variance, room, rates| {
        Some(FullAck {
            rtt,
            variance,
            room,
            rates,
        })
    };
    let rates = Rates {
        received: 0x51616,
        capacity: 1000,
    };
    check(
        ack(1, 0x5ea8_f92c, full(100_000, 50_000, 0x1fef, Some(rates))),
        0x130b_b38f,
        "80020000 00000001 00000000 130bb38f 5ea8f92c 000186a0 0000c350 00001fef 00051616 000003e8",
    );
    check(
        ack(2, 0x5ea8_f94a, full(0x155d0, 0xf41b, 0x1fe1, None)),
        0x130b_b38f,
        "80020000 00000002 00000000 130bb38f 5ea8f94a 000155d0 0000f41b 00001fe1",
    );
    check(
        ack(0, 0x5ea8_f94a, None),
        7,
        "80020000 00000000 00000000 00000007 5ea8f94a",
    );
}

#[test]
fn the_short_ones_are_padded() {
    let to = 0x14ea_ee59;
    check(
        Control::Ack2 { number: 1 },
        to,
        "80060000 00000001 00000000 14eaee59 00000000",
    );
    check(
        Control::KeepAlive,
        to,
        "80010000 00000000 00000000 14eaee59 00000000",
    );
    check(
        Control::Shutdown { reason: 0 },
        to,
        "80050000 00000000 00000000 14eaee59 00000000",
    );
    let drop = Control::Drop {
        message: 5,
        first: 0x7fff_ffff,
        last: 2,
    };
    check(
        drop,
        to,
        "80070000 00000005 00000000 14eaee59 7fffffff 00000002",
    );
    // Without the padding they mean the same.
    let bare = bytes("80010000 00000000 00000000 14eaee59");
    assert_eq!(
        Packet::parse(&bare),
        Some(Packet::Control(Control::KeepAlive))
    );
}

#[test]
fn loss_reports_hold_numbers_and_ranges() {
    let mut out = Vec::new();
    begin_nak(&mut out, 0x1d60_a9b9);
    push_loss(&mut out, 0x498e_6475, 0x498e_6475);
    assert_eq!(out, bytes("80030000 00000000 00000000 1d60a9b9 498e6475"));
    push_loss(&mut out, 0x498e_6480, 0x498e_6481);
    push_loss(&mut out, 0x7fff_ffff, 3);
    let expected =
        bytes("80030000 00000000 00000000 1d60a9b9 498e6475 c98e6480 498e6481 ffffffff 00000003");
    assert_eq!(out, expected);
    let Some(Packet::Control(Control::Nak(report))) = Packet::parse(&out) else {
        panic!("a loss report");
    };
    let ranges: Vec<_> = report.map(|range| range.unwrap()).collect();
    let number = 0x498e_6475;
    assert_eq!(
        ranges,
        [
            (number, number),
            (0x498e_6480, 0x498e_6481),
            (0x7fff_ffff, 3)
        ]
    );
}

#[test]
fn data() {
    let mut place = [0; 16];
    write_data_header(
        &mut place,
        0x5ea8_f91c,
        Message::new(1, true, false, false),
        0x14ea_ee59,
    );
    assert_eq!(place.to_vec(), bytes("5ea8f91c 80000001 00000000 14eaee59"));
    let sent = [
        bytes("5ea8f91c 80000001 00000b7e 14eaee59"),
        b"payload".to_vec(),
    ]
    .concat();
    let Some(Packet::Data(data)) = Packet::parse(&sent) else {
        panic!("data");
    };
    assert_eq!((data.sequence, data.message.number()), (0x5ea8_f91c, 1));
    assert!(data.message.is_first() && !data.message.is_last() && !data.message.in_order());
    assert_eq!(data.payload, b"payload");
}

#[test]
fn short_or_odd_packets_are_none_or_unknown() {
    let handshake = bytes("80000000 0 0 0 4 1 5ea8f91c 5dc 2000 1 130bb38f 0 0100007f 0 0 0");
    for len in 0..16 {
        assert_eq!(Packet::parse(&handshake[..len]), None, "{len}");
    }
    for len in 16..64 {
        let packet = Packet::parse(&handshake[..len]);
        assert_eq!(packet, Some(Packet::Control(Control::Unknown)), "{len}");
    }
    let longer = [handshake, vec![0]].concat();
    let packet = Packet::parse(&longer);
    assert_eq!(packet, Some(Packet::Control(Control::Unknown)));
    let user = bytes("ffff0007 0 0 1 0");
    assert_eq!(
        Packet::parse(&user),
        Some(Packet::Control(Control::Unknown))
    );
    let half = bytes("80030000 0 0 1 80000005");
    let Some(Packet::Control(Control::Nak(mut report))) = Packet::parse(&half) else {
        panic!("a loss report");
    };
    assert!(report.next().unwrap().is_err());
    assert_eq!(report.next(), None);
}

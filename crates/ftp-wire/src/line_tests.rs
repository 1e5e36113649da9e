//! Lines at every split point, Telnet commands, limits and control bytes.

use proptest::prelude::*;

use super::*;

type Owned = Result<Vec<u8>, BadLine>;

fn drain(splitter: &mut LineSplitter, out: &mut Vec<Owned>) {
    while let Some(line) = splitter.next_line() {
        out.push(line.map(<[u8]>::to_vec));
    }
}

/// The lines and the Telnet answers when `wire` arrives in these pieces.
fn split(limit: usize, pieces: &[&[u8]]) -> (Vec<Owned>, Vec<u8>) {
    let mut splitter = LineSplitter::with_limit(limit);
    let (mut lines, mut answers) = (Vec::new(), Vec::new());
    for piece in pieces {
        splitter.push(piece);
        drain(&mut splitter, &mut lines);
        answers.extend(splitter.take_answers());
    }
    (lines, answers)
}

/// Checks `wire` whole, byte by byte, and in two pieces cut everywhere.
fn check(limit: usize, wire: &[u8], lines: &[Owned], answers: &[u8]) {
    let expected = (lines.to_vec(), answers.to_vec());
    assert_eq!(split(limit, &[wire]), expected);
    assert_eq!(split(limit, &wire.chunks(1).collect::<Vec<_>>()), expected);
    for at in 0..wire.len() {
        let (a, b) = wire.split_at(at);
        assert_eq!(split(limit, &[a, b]), expected, "cut at {at}");
    }
}

fn ok(text: &[u8]) -> Owned {
    Ok(text.to_vec())
}

#[test]
fn crlf_and_bare_lf_end_lines() {
    check(
        99,
        b"NOOP\r\nQUIT\n\r\n\nx",
        &[ok(b"NOOP"), ok(b"QUIT"), ok(b""), ok(b"")],
        b"",
    );
}

#[test]
fn utf8_and_every_other_high_byte_is_kept() {
    let name = "MKD €uro\t\u{e9}".as_bytes();
    check(
        99,
        &[name, b"\xfe\x80\r\n"].concat(),
        &[ok(&[name, b"\xfe\x80"].concat())],
        b"",
    );
}

#[test]
fn control_bytes_are_named_and_cost_one_line_only() {
    let control = |byte, at| Err(BadLine::Control { byte, at });
    check(
        99,
        b"A\0B\r\nC\rD\r\nE\r\r\nF\x1b[m\n\x7f\r\nG h\0\r\nG h\ri\r\nNOOP\r\n",
        &[
            control(0, 1),
            control(13, 1),
            control(13, 1),
            control(27, 1),
            control(127, 0),
            control(0, 3),
            control(13, 3),
            ok(b"NOOP"),
        ],
        b"",
    );
}

/// A file may have any name without a line end.
#[test]
fn names_may_hold_control_bytes() {
    let name: Vec<u8> = (1..=0xfe).filter(|b| !b"\r\n".contains(b)).collect();
    let line = [b"DELE ", name.as_slice()].concat();
    check(999, &[&line, &b"\r\n"[..]].concat(), &[ok(&line)], b"");
}

#[test]
fn telnet_commands_are_taken_out_and_options_refused() {
    check(
        99,
        b"AB\xff\xf4\xff\xf2OR\r\n\xff\xfb\x01NO\xff\xfd\x03OP\xff\xfc\x01\xff\xfe\x01\r\n",
        &[ok(b"ABOR"), ok(b"NOOP")],
        &[IAC, DONT, 1, IAC, WONT, 3],
    );
    check(99, b"a\xff\xff\xff\xffb\r\n", &[ok(b"a\xff\xffb")], b"");
    check(
        99,
        b"a\xff\xfa\x18\x01x\r\n\xff\xff\xff\xf0b\r\n",
        &[ok(b"ab")],
        b"",
    );
    // An option may have the number of a line end.
    check(
        99,
        b"\xff\xfd\x0aNOOP\r\n",
        &[ok(b"NOOP")],
        &[IAC, WONT, 10],
    );
}

#[test]
fn a_synch_whose_urgent_byte_was_lost_still_gives_abor() {
    check(99, b"\xff\xf4\xffABOR\r\n", &[ok(b"ABOR")], b"");
}

#[test]
fn over_long_lines_are_reported_once_and_the_next_line_is_whole() {
    let long = Err(BadLine::TooLong { limit: 4 });
    check(
        4,
        b"NOOP\r\nABCDE\r\nQUIT\r\n",
        &[ok(b"NOOP"), long.clone(), ok(b"QUIT")],
        b"",
    );
    check(4, b"NOOP\n", &[ok(b"NOOP")], b"");
    check(
        4,
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZ\n",
        std::slice::from_ref(&long),
        b"",
    );
    check(4, b"ABCD\rE\r\nNOOP\r\n", &[long, ok(b"NOOP")], b"");
}

#[test]
fn a_line_without_end_is_cut_off_and_takes_no_memory() {
    for filler in [&b"x"[..], b"\xff\xf1", b"\xff\xfa\xff\xff"] {
        let mut splitter = LineSplitter::new();
        let chunk = filler.repeat(4096);
        let mut lines = Vec::new();
        for _ in 0..256 {
            splitter.push(&chunk);
            drain(&mut splitter, &mut lines);
        }
        assert_eq!(
            lines,
            [Err(BadLine::TooLong {
                limit: DEFAULT_LIMIT
            })]
        );
        assert!(splitter.raw.capacity() + splitter.line.capacity() <= KEEP);
    }
}

#[test]
fn answers_are_bounded() {
    let mut splitter = LineSplitter::new();
    splitter.push(&b"\xff\xfb\x01".repeat(2000));
    assert_eq!(splitter.next_line(), None);
    assert!(splitter.take_answers().len() <= MAX_ANSWERS);
}

#[test]
fn buffered_counts_bytes_ahead_of_a_handshake() {
    let mut splitter = LineSplitter::new();
    splitter.push(b"AUTH TLS\r\nUSER evil\r\nPA");
    assert_eq!(splitter.next_line(), Some(Ok(&b"AUTH TLS"[..])));
    assert_eq!(splitter.buffered(), 13);
    assert_eq!(splitter.next_line(), Some(Ok(&b"USER evil"[..])));
    assert_eq!(splitter.buffered(), 2);
    assert_eq!(splitter.next_line(), None);
    assert_eq!(splitter.buffered(), 2);
    splitter.push(b"SS\r\n");
    assert_eq!(splitter.next_line(), Some(Ok(&b"PASS"[..])));
    assert_eq!(splitter.next_line(), None);
    assert_eq!(splitter.buffered(), 0);
}

#[test]
fn the_limit_can_be_raised_for_one_long_line() {
    let mut splitter = LineSplitter::with_limit(8);
    splitter.push(b"ADAT");
    assert_eq!(splitter.next_line(), None);
    splitter.set_limit(64);
    splitter.push(b" 0123456789\r\n");
    assert_eq!(splitter.next_line(), Some(Ok(&b"ADAT 0123456789"[..])));
}

/// Row 1 of the hostile input: only credentials of known peers may be long.
#[test]
fn a_credential_may_be_longer_than_other_lines() {
    let long = |verb: &str, length: usize| format!("{verb} P {}\r\n", "A".repeat(length));
    for (allowed, verb, length, taken) in [
        (true, "DCSC", 100_000, true),
        (true, "dcsc", 100_000, true),
        (false, "DCSC", 100_000, false),
        (true, "DCSCX", 100_000, false),
        (true, "RETR", 100_000, false),
        (true, "DCSC", CREDENTIAL_LIMIT, false),
    ] {
        let mut splitter = LineSplitter::new();
        if allowed {
            splitter.allow_credentials();
        }
        splitter.push(long(verb, length).as_bytes());
        let line = splitter.next_line();
        assert_eq!(line.unwrap().is_ok(), taken, "{verb} {length}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cuts_change_nothing(
        wire in prop::collection::vec(prop::sample::select(b"Aa\r\n\0\xff\xfb\xfa\xf0\xf2\x01 ".to_vec()), 0..80),
        limit in 1usize..20,
        cut in 0usize..80,
    ) {
        let whole = split(limit, &[&wire]);
        let (a, b) = wire.split_at(cut.min(wire.len()));
        prop_assert_eq!(&split(limit, &[a, b]), &whole);
        prop_assert_eq!(&split(limit, &wire.chunks(1).collect::<Vec<_>>()), &whole);
        for line in whole.0.iter().flatten() {
            prop_assert!(line.len() <= limit);
        }
    }
}

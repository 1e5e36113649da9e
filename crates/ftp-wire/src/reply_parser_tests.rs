//! Replies of real servers at every split point, and hostile servers.

use proptest::prelude::*;

use super::*;

/// The replies, written again, when `wire` arrives in these pieces.
fn parse(limit: usize, pieces: &[&[u8]]) -> Vec<Result<String, BadReply>> {
    let mut parser = ReplyParser::with_limit(limit);
    let mut out = Vec::new();
    for piece in pieces {
        parser.push(piece);
        while let Some(reply) = parser.next_reply() {
            out.push(reply.map(|reply| reply.to_string()));
            if out.last().is_some_and(Result::is_err) {
                return out;
            }
        }
    }
    out
}

fn check(wire: &str, replies: &[&str]) {
    let expected: Vec<_> = replies
        .iter()
        .map(|reply| Ok((*reply).to_owned()))
        .collect();
    let wire = wire.as_bytes();
    assert_eq!(parse(DEFAULT_LIMIT, &[wire]), expected);
    for at in 0..wire.len() {
        let (a, b) = wire.split_at(at);
        assert_eq!(parse(DEFAULT_LIMIT, &[a, b]), expected, "cut at {at}");
    }
}

#[test]
fn replies_of_both_styles_come_out_whole() {
    let wire = "220 host GridFTP Server ready.\r\n331 Password required for a.\r\n\
        230-User a logged in.\r\n230-welcome\r\n230 End.\r\n\
        112-Perf Marker\r\n Timestamp:  1.1\r\n Stripe Index: 0\r\n112 End.\r\n226 \r\n";
    check(
        wire,
        &[
            "220 host GridFTP Server ready.\r\n",
            "331 Password required for a.\r\n",
            "230-User a logged in.\r\n230-welcome\r\n230 End.\r\n",
            "112-Perf Marker\r\n Timestamp:  1.1\r\n Stripe Index: 0\r\n112 End.\r\n",
            "226 \r\n",
        ],
    );
}

#[test]
fn a_bare_code_and_bare_line_feeds_are_taken() {
    check("200\r\n", &["200 \r\n"]);
    check(
        "220-a\n b\n220 c\n200 d\n",
        &["220-a\r\n b\r\n220 c\r\n", "200 d\r\n"],
    );
}

#[test]
fn the_second_line_of_an_echoed_command_is_skipped() {
    check(
        "501 'TYPE L 8\r\n' unrecognized type.\r\n200 Type set to I.\r\n",
        &["501 'TYPE L 8\r\n", "200 Type set to I.\r\n"],
    );
}

#[test]
fn a_line_of_another_code_is_text() {
    let text = "220-news\r\n200 users are here\r\n220 go\r\n";
    let mut parser = ReplyParser::new();
    parser.push(text.as_bytes());
    let reply = parser.next_reply().unwrap().unwrap();
    assert_eq!(reply.inner(), [b"200 users are here".to_vec()]);
    assert_eq!(parser.settle(), None);
}

#[test]
fn settling_ends_a_reply_that_closes_with_another_code() {
    let mut parser = ReplyParser::new();
    parser.push(b"226-moved\r\n all of it\r\n250 End.\r\n");
    assert_eq!(parser.next_reply(), None);
    let reply = parser.settle().unwrap();
    assert_eq!(reply.to_string(), "226-moved\r\n all of it\r\n226 End.\r\n");
    assert_eq!(parser.buffered(), 0);
    parser.push(b"220-a\r\n b\r\n");
    assert_eq!(parser.next_reply(), None);
    assert_eq!(parser.settle(), None);
    parser.push(b"220 c\r\n");
    assert!(parser.next_reply().is_some());
}

#[test]
fn endless_lines_endless_replies_and_garbage_are_refused() {
    let long = Err(BadReply::TooLong { limit: 64 });
    assert_eq!(parse(64, &[&[b'x'; 65]]), std::slice::from_ref(&long));
    let many = b"220-a\r\n".repeat(20);
    assert_eq!(parse(64, &[&many]), [long]);
    let garbage = b"<html>\r\n".repeat(MAX_GARBAGE + 1);
    let refused = Err(BadReply::Garbage {
        lines: MAX_GARBAGE + 1,
    });
    assert_eq!(
        parse(DEFAULT_LIMIT, &[&garbage]),
        std::slice::from_ref(&refused)
    );
    let mut parser = ReplyParser::new();
    parser.push(&garbage);
    while parser.next_reply().is_none() {}
    parser.push(b"220 ok\r\n");
    assert_eq!(
        parser.next_reply().map(|r| r.map(|r| r.to_string())),
        Some(refused)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cuts_change_nothing(
        wire in prop::collection::vec(prop::sample::select(b"12 -\r\nx".to_vec()), 0..80),
        cut in 0usize..80,
    ) {
        let whole = parse(48, &[&wire]);
        let (a, b) = wire.split_at(cut.min(wire.len()));
        prop_assert_eq!(&parse(48, &[a, b]), &whole);
        prop_assert_eq!(&parse(48, &wire.chunks(1).collect::<Vec<_>>()), &whole);
    }
}

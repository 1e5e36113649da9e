//! Replies to the byte, and text that tries to pass for another reply.

use proptest::prelude::*;

use super::*;
use crate::reply_parser::ReplyParser;

#[test]
fn writes_the_forms_of_gct() {
    for (reply, wire) in [
        (
            Reply::of::<200>("NOOP command successful."),
            "200 NOOP command successful.\r\n",
        ),
        (Reply::of::<220>(""), "220 \r\n"),
        (
            Reply::coded(Code::of::<230>(), ["a", "b", "End."]),
            "230-a\r\n230-b\r\n230 End.\r\n",
        ),
        (Reply::coded(Code::of::<230>(), ["a"]), "230 a\r\n"),
        (Reply::coded(Code::of::<230>(), [""; 0]), "230 \r\n"),
        (
            Reply::indented(Code::of::<211>(), "Extensions supported", ["UTF8"], "End."),
            "211-Extensions supported\r\n UTF8\r\n211 End.\r\n",
        ),
        (
            Reply::indented(Code::of::<211>(), "a", [""; 0], "End."),
            "211-a\r\n211 End.\r\n",
        ),
    ] {
        assert_eq!(reply.to_string(), wire);
    }
}

#[test]
fn structured_errors_are_written_and_read() {
    let fields = [
        ("GridFTP-Errno", "2"),
        ("GridFTP-Error-String", "No such file or directory"),
    ];
    let reply = Reply::globus_error(
        Code::of::<550>(),
        "/x: No such file or directory",
        "PATH_NOT_FOUND",
        &fields,
    );
    assert_eq!(
        reply.to_string(),
        "550-/x: No such file or directory\r\n550-GlobusError: v=1 c=PATH_NOT_FOUND\r\n\
         550-GridFTP-Errno: 2\r\n\
         550-GridFTP-Error-String: No such file or directory\r\n550 End.\r\n"
    );
    assert_eq!(reply.error_class().as_deref(), Some("PATH_NOT_FOUND"));
    assert_eq!(reply.field("gridftp-errno").as_deref(), Some("2"));
    assert_eq!(reply.field("End."), None);
    assert_eq!(reply.text().lines().count(), 4);
    assert_eq!(Reply::of::<550>("nope").error_class(), None);
    assert_eq!(Reply::of::<226>("End.").text(), "End.");
}

#[test]
fn text_cannot_end_a_reply_early() {
    let evil = "x\r\n226 done\r\n\0";
    let reply = Reply::of::<550>(evil);
    assert_eq!(reply.to_string(), "550 x  226 done   \r\n");
    let reply = Reply::indented(Code::of::<213>(), evil, ["213 End.", evil], evil);
    assert_eq!(reply.to_string().lines().count(), 4);
}

#[test]
fn codes_know_their_class() {
    assert_eq!(Code::new(99), None);
    assert_eq!(Code::new(700), None);
    let code = Code::new(426).unwrap();
    assert!(code.is_transient() && code.is_failure() && !code.is_success());
    assert!(Code::of::<127>().is_preliminary());
}

#[test]
fn answers_are_read_from_the_last_line() {
    assert_eq!(Reply::of::<213>(" 42 ").size(), Some(42));
    assert_eq!(Reply::of::<213>("-1").size(), None);
    let digest = Reply::coded(Code::of::<213>(), ["marker", "00FFab "]).digest();
    assert_eq!(digest.as_deref(), Some("00ffab"));
    assert_eq!(Reply::of::<213>("").digest(), None);
    assert_eq!(Reply::of::<213>("no digest").digest(), None);
    let time = Reply::of::<213>("19700101000001").time().unwrap();
    assert_eq!(time.seconds, 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A reply with any text is parsed as the same single reply.
    #[test]
    fn any_text_makes_one_reply(
        number in 100u16..700,
        first in prop::collection::vec(any::<u8>(), 0..12),
        inner in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..12),
            "[1-6][0-9]{2}[ -][a-z]{0,3}".prop_map(String::into_bytes),
        ], 0..5),
        last in "[ -~]{0,12}",
        indented: bool,
    ) {
        let code = Code::new(number).unwrap();
        let reply = if indented {
            Reply::indented(code, first, inner, last)
        } else {
            Reply::coded(code, std::iter::once(first).chain(inner).chain([last.into_bytes()]))
        };
        let mut wire = Vec::new();
        reply.write_to(&mut wire);
        let mut parser = ReplyParser::new();
        parser.push(&wire);
        let parsed = parser.next_reply().unwrap().unwrap();
        prop_assert_eq!(parsed.lines(), reply.lines());
        prop_assert_eq!(parsed.code(), reply.code());
        prop_assert_eq!(parser.next_reply(), None);
        prop_assert_eq!(parser.buffered(), 0);
        let mut again = Vec::new();
        parsed.write_to(&mut again);
        prop_assert_eq!(again, wire);
    }
}

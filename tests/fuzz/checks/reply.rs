//! Replies: segmentation changes no reply, and replies round-trip.

use ftp_wire::error::BadReply;
use ftp_wire::feat::Features;
use ftp_wire::path::unquote;
use ftp_wire::reply::Reply;
use ftp_wire::reply_parser::ReplyParser;

fn parse(pieces: &[&[u8]]) -> Vec<Result<Reply, BadReply>> {
    let mut parser = ReplyParser::with_limit(256);
    let mut out = Vec::new();
    for piece in pieces {
        parser.push(piece);
        while let Some(reply) = parser.next_reply() {
            let failed = reply.is_err();
            out.push(reply);
            if failed {
                return out;
            }
        }
    }
    out
}

/// The first byte is the position of the cut.
pub(crate) fn check(data: &[u8]) {
    let [cut, wire @ ..] = data else { return };
    let whole = parse(&[wire]);
    let (head, tail) = wire.split_at(usize::from(*cut).min(wire.len()));
    assert_eq!(parse(&[head, tail]), whole);
    assert_eq!(parse(&wire.chunks(1).collect::<Vec<_>>()), whole);
    for reply in whole.iter().flatten() {
        let mut again = Vec::new();
        reply.write_to(&mut again);
        let mut parser = ReplyParser::new();
        parser.push(&again);
        assert_eq!(parser.next_reply(), Some(Ok(reply.clone())));
        assert_eq!(parser.next_reply(), None);
        let features = Features::from_reply(reply);
        assert!(features.checksums().len() <= again.len());
        let _ = (
            reply.text(),
            reply.error_class(),
            unquote(reply.first_line()),
        );
    }
    let mut parser = ReplyParser::with_limit(256);
    parser.push(wire);
    while let Some(Ok(_)) = parser.next_reply() {}
    let _ = parser.settle();
}

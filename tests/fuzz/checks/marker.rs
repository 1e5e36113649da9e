//! Markers round-trip through replies.

use ftp_wire::marker::Marker;
use ftp_wire::reply_parser::ReplyParser;

/// `data` is a sequence of replies.
pub(crate) fn check(data: &[u8]) {
    let mut parser = ReplyParser::new();
    parser.push(data);
    while let Some(Ok(reply)) = parser.next_reply() {
        if let Some(Ok(marker)) = Marker::from_reply(&reply) {
            assert_eq!(Marker::from_reply(&marker.to_reply()), Some(Ok(marker)));
        }
    }
}

//! HTTP heads: segmentation does not change the result, and accepted heads are bounded.

use xio_http::parse::{
    HeadEnd, MAX_FIELDS, MAX_HEAD, request, request_framing, response, response_framing,
};
use xio_http::{BadHead, Headers};

/// Checks the fields of an accepted head.
fn check_fields(headers: &Headers) {
    assert!(headers.iter().count() <= MAX_FIELDS);
    for (name, value) in headers.iter() {
        assert!(!name.is_empty() && !name.contains([' ', ':', '\r', '\n']));
        assert!(!value.iter().any(|b| matches!(b, 0 | b'\r' | b'\n')));
    }
}

/// The result of a parser: a message and its length, nothing yet, or a refusal.
type Parsed<T> = Result<Option<(T, usize)>, BadHead>;

/// Parses bytes that arrive in two pieces.
fn in_two<T>(wire: &[u8], cut: usize, parse: fn(&[u8], &mut HeadEnd) -> Parsed<T>) -> Parsed<T> {
    let mut end = HeadEnd::default();
    match parse(&wire[..cut], &mut end) {
        Ok(None) => parse(wire, &mut end),
        early => early,
    }
}

/// The first byte is the position of the cut.
pub(crate) fn check(data: &[u8]) {
    let [cut, wire @ ..] = data else {
        return;
    };
    let cut = usize::from(*cut).min(wire.len());
    let whole = request(wire, &mut HeadEnd::default());
    let cut_in_two = in_two(wire, cut, request);
    // A cut may reveal an error early, but does not turn an invalid head into a request.
    assert_eq!(
        whole.is_ok_and(|found| found.is_some()),
        cut_in_two.is_ok_and(|f| f.is_some())
    );
    if let Ok(Some((found, n))) = request(wire, &mut HeadEnd::default()) {
        assert!(n <= wire.len() && n <= MAX_HEAD + 8);
        check_fields(&found.headers);
        assert!(found.target.bytes().all(|b| b.is_ascii_graphic()));
        // A request has not both a length and chunks.
        if request_framing(&found).is_ok() {
            let both = ["content-length", "transfer-encoding"];
            assert!(
                !both
                    .iter()
                    .all(|name| found.headers.all(name).next().is_some())
            );
        }
    }
    let whole = response(wire, &mut HeadEnd::default());
    let cut_in_two = in_two(wire, cut, response);
    assert_eq!(
        whole.is_ok_and(|found| found.is_some()),
        cut_in_two.is_ok_and(|f| f.is_some())
    );
    if let Ok(Some((found, n))) = response(wire, &mut HeadEnd::default()) {
        assert!(n <= wire.len() && (100..=999).contains(&found.status));
        check_fields(&found.headers);
        let _ = response_framing(&found, "GET");
    }
}

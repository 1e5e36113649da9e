//! Parses heads: bounded, strict about line ends and the fields that delimit a body.

use httparse::{EMPTY_HEADER, Status};

use crate::bad::BadHead;
use crate::head::{Headers, Request, Response, Version};

/// Longest head, in bytes.
pub const MAX_HEAD: usize = 64 * 1024;
/// Most header fields of a head.
pub const MAX_FIELDS: usize = 128;
/// Most empty lines skipped before a request line; RFC 9112 §2.2 requires one.
const MAX_EMPTY_LINES: usize = 4;

/// The way a body is delimited (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// There is no body.
    Empty,
    /// It has this number of bytes.
    Length(u64),
    /// It ends with a chunk of no bytes.
    Chunked,
    /// It ends with the stream below.
    UntilClose,
}

/// Finds the end of a head in bytes that arrive in pieces, reading each byte at most twice.
#[derive(Debug, Default, Clone)]
pub struct HeadEnd {
    scanned: usize,
    next_try: usize,
}

impl HeadEnd {
    /// Returns start and end of the head in `bytes`, once it is complete.
    ///
    /// `bytes` begins with the bytes of the last call.
    ///
    /// # Errors
    /// For a head that is too long.
    pub fn find(&mut self, bytes: &[u8]) -> Result<Option<(usize, usize)>, BadHead> {
        let start = bytes
            .chunks_exact(2)
            .take_while(|pair| *pair == b"\r\n")
            .count()
            * 2;
        if start > MAX_EMPTY_LINES * 2 {
            return Err(BadHead::RequestLine);
        }
        let from = self.scanned.saturating_sub(3).max(start);
        let tail = bytes.get(from..).unwrap_or_default();
        self.scanned = bytes.len();
        match tail.windows(4).position(|four| four == b"\r\n\r\n") {
            Some(at) if from + at + 4 - start > MAX_HEAD => Err(BadHead::TooLong),
            Some(at) => Ok(Some((start, from + at + 4))),
            None if bytes.len() - start >= MAX_HEAD => Err(BadHead::TooLong),
            None => Ok(None),
        }
    }

    /// Whether to parse an incomplete head, which is due whenever its length has doubled.
    fn is_due(&mut self, len: usize) -> bool {
        let due = len >= self.next_try.max(16);
        if due {
            self.next_try = len * 2;
        }
        due
    }
}

/// Checks that every line ends with CR LF and neither byte is alone: peers disagree about those.
fn check_line_ends(head: &[u8]) -> Result<(), BadHead> {
    let mut before = 0;
    for &byte in head {
        if (byte == b'\n') != (before == b'\r') {
            return Err(BadHead::LineEnd);
        }
        before = byte;
    }
    Ok(())
}

fn version(minor: Option<u8>) -> Result<Version, BadHead> {
    match minor {
        Some(0) => Ok(Version::Http10),
        Some(1) => Ok(Version::Http11),
        _ => Err(BadHead::Version),
    }
}

fn fields(parsed: &[httparse::Header<'_>]) -> Result<Headers, BadHead> {
    let mut headers = Headers::new();
    for field in parsed {
        headers.push(field.name, field.value)?;
    }
    Ok(headers)
}

fn blame(error: httparse::Error, line: BadHead) -> BadHead {
    match error {
        httparse::Error::TooManyHeaders => BadHead::TooManyFields,
        httparse::Error::HeaderName | httparse::Error::HeaderValue => BadHead::Field,
        httparse::Error::Version => BadHead::Version,
        httparse::Error::NewLine => BadHead::LineEnd,
        httparse::Error::Status | httparse::Error::Token => line,
    }
}

/// A status line begins with the version, so bytes of another protocol look like a wrong version.
fn blame_status(error: httparse::Error, bytes: &[u8]) -> BadHead {
    match blame(error, BadHead::StatusLine) {
        BadHead::Version if !bytes.starts_with(b"HTTP/") => BadHead::StatusLine,
        bad => bad,
    }
}

/// Parses a request at the front of `bytes`; returns it and its length, once it is complete.
///
/// # Errors
/// Its fault.
pub fn request(bytes: &[u8], end: &mut HeadEnd) -> Result<Option<(Request, usize)>, BadHead> {
    let mut room = [EMPTY_HEADER; MAX_FIELDS];
    let Some((start, stop)) = end.find(bytes)? else {
        // Refuse bytes at once that can never become a request.
        if end.is_due(bytes.len()) {
            let mut early = httparse::Request::new(&mut room);
            early
                .parse(bytes)
                .map_err(|error| blame(error, BadHead::RequestLine))?;
        }
        return Ok(None);
    };
    let head = bytes.get(start..stop).unwrap_or_default();
    check_line_ends(head)?;
    let mut parsed = httparse::Request::new(&mut room);
    let whole = parsed
        .parse(head)
        .map_err(|error| blame(error, BadHead::RequestLine))?;
    let (Status::Complete(_), Some(method), Some(target)) = (whole, parsed.method, parsed.path)
    else {
        return Err(BadHead::RequestLine);
    };
    let mut request = Request::new(method, target)?;
    request.version = version(parsed.version)?;
    request.headers = fields(parsed.headers)?;
    // RFC 9112 §3.2: a server MUST answer 400 to a request of 1.1 without Host, or with several.
    if request.version == Version::Http11 && request.headers.all("host").count() != 1 {
        return Err(BadHead::Host);
    }
    Ok(Some((request, stop)))
}

/// Parses a response at the front of `bytes`; returns it and its length, once it is complete.
///
/// # Errors
/// Its fault.
pub fn response(bytes: &[u8], end: &mut HeadEnd) -> Result<Option<(Response, usize)>, BadHead> {
    let mut room = [EMPTY_HEADER; MAX_FIELDS];
    let Some((start, stop)) = end.find(bytes)? else {
        if end.is_due(bytes.len()) {
            let mut early = httparse::Response::new(&mut room);
            early
                .parse(bytes)
                .map_err(|error| blame_status(error, bytes))?;
        }
        return Ok(None);
    };
    let head = bytes.get(start..stop).unwrap_or_default();
    check_line_ends(head)?;
    let mut parsed = httparse::Response::new(&mut room);
    let whole = parsed
        .parse(head)
        .map_err(|error| blame_status(error, head))?;
    let (Status::Complete(_), Some(status)) = (whole, parsed.code) else {
        return Err(BadHead::StatusLine);
    };
    if !(100..=999).contains(&status) {
        return Err(BadHead::StatusLine);
    }
    Ok(Some((
        Response {
            status,
            reason: parsed.reason.unwrap_or_default().to_owned(),
            version: version(parsed.version)?,
            headers: fields(parsed.headers)?,
        },
        stop,
    )))
}

/// The framing according to the header fields; `None` if they have none.
fn told(headers: &Headers, version: Version) -> Result<Option<Framing>, BadHead> {
    let length = length(headers)?;
    let mut codings = headers.all("transfer-encoding");
    let Some(coding) = codings.next() else {
        return Ok(length.map(Framing::Length));
    };
    // Peers that follow one field would see another message than peers that follow the other
    // (RFC 9112 §6.1).
    if length.is_some() {
        return Err(BadHead::LengthAndCoding);
    }
    // RFC 9112 §6.1: a server MUST treat the framing as faulty in a message of 1.0.
    let known = coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none();
    match known && version == Version::Http11 {
        true => Ok(Some(Framing::Chunked)),
        false => Err(BadHead::Coding),
    }
}

/// The length in the fields Content-Length, which must agree.
pub(crate) fn length(headers: &Headers) -> Result<Option<u64>, BadHead> {
    let mut told = None;
    for value in headers.all("content-length") {
        // Digits alone: no sign, no list, no blanks.
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(BadHead::Length);
        }
        let number = std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok());
        let number: u64 = number.ok_or(BadHead::Length)?;
        if i64::try_from(number).is_err() || told.is_some_and(|known| known != number) {
            return Err(BadHead::Length);
        }
        told = Some(number);
    }
    Ok(told)
}

/// The framing of a request's body.
///
/// # Errors
/// For contradictory fields.
pub fn request_framing(request: &Request) -> Result<Framing, BadHead> {
    Ok(told(&request.headers, request.version)?.unwrap_or(Framing::Empty))
}

/// Whether a tunnel begins behind the head of a response to `method`, of whatever fields
/// (RFC 9112 §6.3).
pub(crate) fn is_tunnel(response: &Response, method: &str) -> bool {
    method == "CONNECT" && response.is_success()
}

/// The framing of the body of a response to `method`.
///
/// # Errors
/// For contradictory fields.
pub fn response_framing(response: &Response, method: &str) -> Result<Framing, BadHead> {
    if is_tunnel(response, method) {
        return Ok(Framing::UntilClose);
    }
    let told = told(&response.headers, response.version)?;
    if method == "HEAD" || matches!(response.status, 100..=199 | 204 | 304) {
        return Ok(Framing::Empty);
    }
    Ok(told.unwrap_or(Framing::UntilClose))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_of(text: &str) -> Result<(Request, Framing), BadHead> {
        let (request, n) =
            request(text.as_bytes(), &mut HeadEnd::default())?.expect("a whole head");
        assert_eq!(n, text.len());
        let framing = request_framing(&request)?;
        Ok((request, framing))
    }

    #[test]
    fn a_request_is_read() {
        let (request, framing) = request_of(
            "\r\nPUT /a%20b?c=d HTTP/1.1\r\nHost: x\r\nContent-Length:  12 \r\nX-Y: caf\u{e9}\r\n\r\n",
        )
        .unwrap();
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("PUT", "/a%20b?c=d")
        );
        assert_eq!(request.headers.get("x-y"), Some("caf\u{e9}"));
        assert_eq!(framing, Framing::Length(12));
        let (request, framing) = request_of("GET / HTTP/1.0\r\n\r\n").unwrap();
        assert_eq!(
            (request.version, framing),
            (Version::Http10, Framing::Empty)
        );
    }

    // RFC 9112 §6.1, §6.3, §11.2: messages that two peers could read in two ways.
    #[test]
    fn messages_that_could_smuggle_a_request_are_refused() {
        let with = |fields: &str| {
            request_of(&format!("POST / HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n")).map(|(_, f)| f)
        };
        for (fields, why) in [
            (
                "Content-Length: 5\r\nTransfer-Encoding: chunked",
                BadHead::LengthAndCoding,
            ),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 0",
                BadHead::LengthAndCoding,
            ),
            ("Content-Length: 5\r\nContent-Length: 6", BadHead::Length),
            ("Content-Length: 5, 5", BadHead::Length),
            ("Content-Length: +5", BadHead::Length),
            ("Content-Length: -5", BadHead::Length),
            ("Content-Length: 0x5", BadHead::Length),
            ("Content-Length: 5 5", BadHead::Length),
            ("Content-Length: ", BadHead::Length),
            ("Content-Length: 9223372036854775808", BadHead::Length),
            ("Content-Length: 99999999999999999999", BadHead::Length),
            ("Transfer-Encoding: gzip, chunked", BadHead::Coding),
            ("Transfer-Encoding: chunked, chunked", BadHead::Coding),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                BadHead::Coding,
            ),
            ("Transfer-Encoding: xchunked", BadHead::Coding),
            ("Transfer-Encoding: \"chunked\"", BadHead::Coding),
            ("Transfer-Encoding: identity", BadHead::Coding),
            ("Content-Length : 5", BadHead::Field),
            ("X: a\r\n folded", BadHead::Field),
            ("X: a\r\n\tfolded", BadHead::Field),
            (" X: a", BadHead::Field),
            ("X: a\nY: b", BadHead::LineEnd),
            ("X: a\rY: b", BadHead::LineEnd),
            ("Host: y", BadHead::Host),
            ("X: a\0b", BadHead::Field),
            (": a", BadHead::Field),
            ("X", BadHead::Field),
        ] {
            let got = with(fields);
            // A bare line end may count as a fault of the field or of the line.
            assert!(
                got == Err(why) || (why == BadHead::LineEnd && got == Err(BadHead::Field)),
                "{fields:?}: {got:?}"
            );
        }
        assert_eq!(with("Transfer-Encoding: Chunked"), Ok(Framing::Chunked));
        assert_eq!(
            with("Content-Length: 5\r\nContent-Length: 5"),
            Ok(Framing::Length(5))
        );
        let old = request_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(old.unwrap_err(), BadHead::Coding);
        let nameless = request_of("GET / HTTP/1.1\r\n\r\n");
        assert_eq!(nameless.unwrap_err(), BadHead::Host);
        let newer = request_of("GET / HTTP/2.0\r\nHost: x\r\n\r\n");
        assert_eq!(newer.unwrap_err(), BadHead::Version);
    }

    #[test]
    fn responses_determine_their_end() {
        let of = |text: &str, method: &str| {
            let found = response(text.as_bytes(), &mut HeadEnd::default())?;
            response_framing(&found.expect("a whole head").0, method)
        };
        for (text, method, framing) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
                "GET",
                Framing::Length(3),
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
                "HEAD",
                Framing::Empty,
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", "PUT", Framing::Empty),
            (
                "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
                "GET",
                Framing::Empty,
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n", "PUT", Framing::Empty),
            ("HTTP/1.1 200\r\n\r\n", "GET", Framing::UntilClose),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                "CONNECT",
                Framing::UntilClose,
            ),
            (
                "HTTP/1.1 407 No\r\nContent-Length: 3\r\n\r\n",
                "CONNECT",
                Framing::Length(3),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                "GET",
                Framing::Chunked,
            ),
        ] {
            assert_eq!(of(text, method), Ok(framing), "{text:?}");
        }
        for text in [
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 099 Low\r\n\r\n",
            "HTTP/1.1 20 Short\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
        ] {
            assert!(of(text, "GET").is_err(), "{text:?}");
        }
    }

    #[test]
    fn garbage_is_refused_early_and_endless_heads_are_cut() {
        let mut end = HeadEnd::default();
        let garbage = [0xff; 64];
        assert_eq!(request(&garbage, &mut end), Err(BadHead::RequestLine));
        let mut end = HeadEnd::default();
        let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefghijkl";
        assert_eq!(response(tls, &mut end), Err(BadHead::StatusLine));

        let mut bytes = b"GET / HTTP/1.1\r\nX: ".to_vec();
        let mut end = HeadEnd::default();
        while bytes.len() < MAX_HEAD {
            assert_eq!(request(&bytes, &mut end), Ok(None));
            bytes.extend_from_slice(&[b'a'; 1000]);
        }
        assert_eq!(request(&bytes, &mut end), Err(BadHead::TooLong));

        let mut bytes = b"GET / HTTP/1.1\r\nHost: x\r\n".to_vec();
        for _ in 0..MAX_FIELDS {
            bytes.extend_from_slice(b"A: b\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        assert_eq!(
            request(&bytes, &mut HeadEnd::default()),
            Err(BadHead::TooManyFields)
        );
        let lines = b"\r\n".repeat(100);
        assert_eq!(
            request(&lines, &mut HeadEnd::default()),
            Err(BadHead::RequestLine)
        );
    }

    #[test]
    fn pieces_change_nothing() {
        let text = b"GET /a HTTP/1.1\r\nHost: x\r\nX: y\r\n\r\nbody";
        let mut end = HeadEnd::default();
        for upto in 0..text.len() - 4 {
            assert_eq!(request(&text[..upto], &mut end), Ok(None), "{upto}");
        }
        let (request, n) = request(text, &mut end).unwrap().unwrap();
        assert_eq!((request.target.as_str(), n), ("/a", text.len() - 4));
    }
}

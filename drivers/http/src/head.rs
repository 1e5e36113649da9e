//! `Request`, `Response`, `Headers`: the head of a message as values, and as bytes.

use std::fmt;

use crate::bad::BadHead;

/// The version of the protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Version {
    /// HTTP/1.0 (RFC 1945): no chunks, one exchange per connection.
    Http10,
    /// HTTP/1.1 (RFC 9112).
    #[default]
    Http11,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        })
    }
}

/// Header fields in the order of the message; names match in any case (RFC 9110 §5.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, Vec<u8>)>);

impl Headers {
    /// No fields.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a field.
    ///
    /// # Errors
    /// For a name or a value with invalid bytes, such as line ends.
    pub fn push(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), BadHead> {
        let value = value.as_ref();
        if !is_token(name.as_bytes()) || !value.iter().all(|&b| is_field_byte(b)) {
            return Err(BadHead::Field);
        }
        self.0.push((name.to_owned(), value.trim_ascii().to_vec()));
        Ok(())
    }

    /// The first field of this name, if it is text.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.all(name).next()?).ok()
    }

    /// Every field of this name.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Every field.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Whether a comma-separated field of this name has `word`, in any case.
    #[must_use]
    pub fn names(&self, name: &str, word: &str) -> bool {
        self.all(name)
            .flat_map(|value| value.split(|&b| b == b','))
            .any(|item| item.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
    }

    fn write(&self, out: &mut Vec<u8>) {
        for (name, value) in self.iter() {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The head of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The method, as `GET`.
    pub method: String,
    /// The target in the request line: `/path?query`.
    pub target: String,
    /// The version of the message.
    pub version: Version,
    /// The header fields.
    pub headers: Headers,
}

impl Request {
    /// A request without fields.
    ///
    /// # Errors
    /// For a method that is no token, or a target with invalid bytes.
    pub fn new(method: &str, target: &str) -> Result<Self, BadHead> {
        let visible = |b: &u8| b.is_ascii_graphic();
        if !is_token(method.as_bytes()) {
            return Err(BadHead::Field);
        }
        if target.is_empty() || !target.as_bytes().iter().all(visible) {
            return Err(BadHead::Target);
        }
        Ok(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            ..Self::default()
        })
    }

    /// Whether requests of this method have an entity.
    #[must_use]
    pub fn has_entity(&self) -> bool {
        !matches!(
            self.method.as_str(),
            "GET" | "HEAD" | "DELETE" | "OPTIONS" | "TRACE" | "CONNECT"
        )
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Self {
            method,
            target,
            version,
            ..
        } = self;
        out.extend_from_slice(format!("{method} {target} {version}\r\n").as_bytes());
        self.headers.write(out);
    }
}

/// The head of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Response {
    /// The status code, from 100 to 999.
    pub status: u16,
    /// The reason phrase.
    pub reason: String,
    /// The version of the message.
    pub version: Version,
    /// The header fields.
    pub headers: Headers,
}

impl Response {
    /// A response of this status, with the standard reason phrase and no fields.
    ///
    /// # Errors
    /// For a status that is not final: below 200 or above 999.
    pub fn new(status: u16) -> Result<Self, BadHead> {
        if !(200..=999).contains(&status) {
            return Err(BadHead::Status);
        }
        Ok(Self {
            status,
            reason: reason(status).to_owned(),
            version: Version::Http11,
            headers: Headers::new(),
        })
    }

    /// Whether the request succeeded (2xx).
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.status >= 200 && self.status < 300
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Self {
            status, version, ..
        } = self;
        // The reason of the application must not end the line.
        let reason: String = self.reason.chars().filter(|c| !c.is_control()).collect();
        out.extend_from_slice(format!("{version} {status} {reason}\r\n").as_bytes());
        self.headers.write(out);
    }
}

/// The standard reason phrase of a status (RFC 9110 §15).
pub(crate) const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "",
    }
}

/// Whether these bytes are a token (RFC 9110 §5.6.2).
fn is_token(bytes: &[u8]) -> bool {
    let word = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !bytes.is_empty() && bytes.iter().all(word)
}

/// Whether a byte is valid in a field's value (RFC 9110 §5.5).
const fn is_field_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_would_split_a_message_are_refused() {
        let mut headers = Headers::new();
        for (name, value) in [
            ("X", "a\r\nY: b"),
            ("X", "a\nY: b"),
            ("X", "a\0b"),
            ("X Y", "a"),
            ("X:", "a"),
            ("", "a"),
            ("X\r\nY", "a"),
        ] {
            assert_eq!(
                headers.push(name, value),
                Err(BadHead::Field),
                "{name:?}: {value:?}"
            );
        }
        assert!(Request::new("GET /x", "/").is_err());
        assert!(Request::new("GET", "/a b").is_err());
        assert!(Request::new("GET", "/a\r\nX: y").is_err());
        assert!(Request::new("GET", "").is_err());
        assert!(Response::new(100).is_err());
        assert!(Response::new(1000).is_err());
    }

    #[test]
    fn fields_are_found_in_any_case() {
        let mut headers = Headers::new();
        headers.push("Connection", "Keep-Alive, X").unwrap();
        headers.push("connection", "close").unwrap();
        assert_eq!(headers.get("CONNECTION"), Some("Keep-Alive, X"));
        assert_eq!(headers.all("connection").count(), 2);
        assert!(headers.names("connection", "x") && headers.names("connection", "CLOSE"));
        assert!(!headers.names("connection", "keep"));
    }

    #[test]
    fn a_head_is_written_according_to_the_grammar() {
        let mut request = Request::new("PUT", "/a%20b").unwrap();
        request.headers.push("Host", "h:1").unwrap();
        let mut out = Vec::new();
        request.write(&mut out);
        assert_eq!(out, b"PUT /a%20b HTTP/1.1\r\nHost: h:1\r\n\r\n");
        let mut response = Response::new(404).unwrap();
        response.reason = "No\r\nX: y".to_owned();
        out.clear();
        response.write(&mut out);
        assert_eq!(out, b"HTTP/1.1 404 NoX: y\r\n\r\n");
    }
}

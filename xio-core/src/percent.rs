//! `%HH`: decoding, and encoding what a grammar gives a meaning to.

use std::fmt::Write as _;

/// Decodes `%HH` and `%%`; `None` when a `%` stands alone or the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = rest.next()?;
        if high == b'%' {
            bytes.push(b'%');
            continue;
        }
        let digit = |b: u8| {
            char::from(b)
                .to_digit(16)
                .and_then(|d| u8::try_from(d).ok())
        };
        bytes.push(digit(high)? << 4 | digit(rest.next()?)?);
    }
    String::from_utf8(bytes).ok()
}

fn encode(text: &str, keep: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if keep(byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Encodes one part of a contact string.
pub(crate) fn component(text: &str) -> String {
    encode(text, unreserved)
}

/// Encodes a path; slashes stay, so that it can be read.
pub(crate) fn path(text: &str) -> String {
    encode(text, |b| unreserved(b) || b == b'/')
}

/// Encodes the value of an option of a stack string.
pub(crate) fn option(text: &str) -> String {
    encode(text, |b| {
        unreserved(b) || matches!(b, b'/' | b'+' | b'@' | b'[' | b']' | b'#' | b' ')
    })
}

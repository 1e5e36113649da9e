//! `%HH`: decoding, and encoding characters that a grammar gives a meaning to.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// All but the unreserved characters of RFC 3986 §2.3.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// Slashes stay, so that a path can be read.
const PATH: &AsciiSet = &COMPONENT.remove(b'/');
const OPTION: &AsciiSet = &PATH
    .remove(b'+')
    .remove(b'@')
    .remove(b'[')
    .remove(b']')
    .remove(b'#')
    .remove(b' ');

/// Decodes `%HH` and `%%`; `None` when a `%` stands alone or the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<String> {
    let text = text.replace("%%", "%25");
    let hex = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(hex) {
        return None;
    }
    Some(percent_decode_str(&text).decode_utf8().ok()?.into_owned())
}

/// Encodes one part of a contact string.
pub(crate) fn component(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string()
}

/// Encodes a path.
pub(crate) fn path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// Encodes the value of an option of a stack string.
pub(crate) fn option(text: &str) -> String {
    utf8_percent_encode(text, OPTION).to_string()
}

//! URLs of web servers: path and query stay as they are written, since only the server knows
//! their meaning.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};

use super::{Site, show_text};

/// Characters that a request line cannot have as they are; `%` begins an encoded one.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>');

/// The request target of the part of a URL behind its host; a fragment is not sent.
pub(super) fn target(text: &str) -> Vec<u8> {
    let text = text.split('#').next().unwrap_or_default();
    let slash = if text.starts_with('/') { "" } else { "/" };
    format!("{slash}{}", utf8_percent_encode(text, ENCODED)).into_bytes()
}

/// The path of a target, without the query.
pub(crate) fn url_path(target: &[u8]) -> &[u8] {
    target.split(|byte| *byte == b'?').next().unwrap_or(target)
}

/// The name of the file that a target leads to; empty where its path ends in a slash.
pub(crate) fn file_name(target: &[u8]) -> Vec<u8> {
    let name = url_path(target).rsplit(|byte| *byte == b'/').next();
    percent_decode(name.unwrap_or_default()).collect()
}

impl Site {
    /// The URL of a target here, without the password.
    pub(super) fn web_url(&self, target: &[u8]) -> String {
        let (scheme, user) = (self.scheme.name(), self.account());
        format!("{scheme}://{user}{self}{}", show_text(target))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Location, Remote, Scheme, UrlError};
    use super::*;

    fn parse(text: &str) -> Remote {
        match Location::parse(text) {
            Ok(Location::Remote(remote)) => remote,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_target_is_what_was_written() {
        for (url, target, name) in [
            ("http://h/a/b%2Fc?x=%20y", "/a/b%2Fc?x=%20y", "b/c"),
            ("https://h", "/", ""),
            ("https://h?q=/", "/?q=/", ""),
            ("https://h/~ann//f#part", "/~ann//f", "f"),
            ("https://h/a b/\u{e4}*", "/a%20b/%C3%A4*", "\u{e4}*"),
        ] {
            let remote = parse(url);
            assert_eq!(String::from_utf8_lossy(&remote.path), target, "{url}");
            assert_eq!(file_name(&remote.path), name.as_bytes(), "{url}");
            assert_eq!(remote.pattern, None, "{url}");
            assert_eq!(parse(&remote.to_string()), remote, "{url}");
        }
        assert_eq!(
            parse("http://ann:pw@h/x").to_string(),
            "http://ann@h:80/x",
            "the password is not told"
        );
    }

    #[test]
    fn a_slash_at_the_end_of_the_path_means_a_directory() {
        for (url, means) in [
            ("http://h/d/", true),
            ("http://h/d/?list", true),
            ("http://h", true),
            ("http://h/f?under=/", false),
        ] {
            let location = Location::parse(url).unwrap();
            assert_eq!(location.means_contents(), means, "{url}");
        }
    }

    #[test]
    fn lines_cannot_be_put_into_a_request() {
        let remote = parse("http://h/a\r\nX: y");
        assert_eq!(remote.path, b"/a%0D%0AX:%20y");
        assert_eq!(remote.site.scheme, Scheme::Http);
        assert_eq!(Location::parse("http:///x"), Err(UrlError::NoHost));
    }
}

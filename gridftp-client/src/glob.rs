//! Reads the last component of a URL as a pattern of [`ftp_wire::glob`].

/// Reads the last component of a URL's path as a pattern; `None` when it has no wildcards.
///
/// A percent-encoded character stands for itself, so `%2A` is a star in a name.
pub(crate) fn pattern(component: &str) -> Option<Vec<u8>> {
    if !component.contains(['*', '?', '[']) {
        return None;
    }
    let mut out = Vec::with_capacity(component.len());
    let mut rest = component;
    while let Some(byte) = rest.bytes().next() {
        let encoded = (byte == b'%')
            .then(|| u8::from_str_radix(rest.get(1..3)?, 16).ok())
            .flatten();
        match encoded {
            Some(byte @ (b'*' | b'?' | b'[' | b'\\')) => out.extend([b'[', byte, b']']),
            None if byte == b'\\' => out.extend(b"[\\]"),
            Some(byte) => out.push(byte),
            None => out.push(byte),
        }
        // A byte that begins no encoded one is copied with the rest of its character.
        let step = if encoded.is_some() {
            3
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        if encoded.is_none() {
            out.extend_from_slice(rest.as_bytes().get(1..step).unwrap_or_default());
        }
        rest = rest.get(step..).unwrap_or_default();
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(url: &str, name: &str) -> bool {
        ftp_wire::glob::matches(&pattern(url).unwrap(), name.as_bytes())
    }

    #[test]
    fn wildcards_match_as_in_a_shell() {
        for (url, name) in [
            ("*", "a"),
            ("*.dat", "x.dat"),
            ("a*b*c", "aXbYbc"),
            ("?.x", "ü.x"),
            ("[a-c]1", "b1"),
            ("[!a-c]1", "d1"),
            ("[]]*", "]x"),
            ("[a[:]", ":"),
            ("x[*", "x[y"),
            (".*", ".hidden"),
            ("%2A*", "*x"),
            ("%61*%20b", "a b"),
            ("ü*", "üx"),
            ("\\*", "\\x"),
            ("%5C*", "\\x"),
        ] {
            assert!(hits(url, name), "{url} {name}");
        }
        for (url, name) in [
            ("*", ".hidden"),
            ("*.dat", "x.dat2"),
            ("?", "ab"),
            ("[a-c]", "d"),
            ("%2A?", "ab"),
            ("a*", ""),
            ("[!x]", ".h"),
        ] {
            assert!(!hits(url, name), "{url} {name}");
        }
        assert_eq!(pattern("plain%2A"), None);
    }

    #[test]
    fn many_stars_take_no_time() {
        let stars = "*a".repeat(200) + "b";
        assert!(!hits(&stars, &"a".repeat(4000)));
    }
}

//! Matches names against the wildcards of a URL's last component: `*`, `?`, `[set]` and `[!set]`.

/// Reads the last component of a URL's path as a pattern; `None` when it has no wildcards.
///
/// What is percent-encoded stands for itself, so `%2A` is a star in a name.
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
            Some(byte @ (b'*' | b'?' | b'[')) => out.extend([b'[', byte, b']']),
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

/// Says whether `name` matches; as in a shell, a dot at the beginning must be written.
///
/// Takes at most the product of both lengths, whatever they are.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    let (mut pattern, mut name) = (pattern, name);
    // Where to go on when what follows the last star does not match.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            again = Some((rest, name));
            continue;
        }
        if pattern.is_empty() && name.is_empty() {
            return true;
        }
        if let Some((next, left)) = one(pattern, name) {
            (pattern, name) = (next, left);
            continue;
        }
        match again {
            Some((after_star, [_, left @ ..])) => {
                (pattern, name) = (after_star, left);
                again = Some((after_star, left));
            }
            _ => return false,
        }
    }
}

/// Matches one character; what is left of both.
fn one<'p, 'n>(pattern: &'p [u8], name: &'n [u8]) -> Option<(&'p [u8], &'n [u8])> {
    let (byte, left) = name.split_first()?;
    match pattern {
        [b'?', rest @ ..] => {
            // All of a UTF-8 character counts as one.
            let more = left.iter().take_while(|b| **b & 0xc0 == 0x80).count();
            let more = if *byte >= 0xc0 { more } else { 0 };
            Some((rest, left.get(more..)?))
        }
        [b'[', rest @ ..] => match set(rest, *byte) {
            Some((true, rest)) => Some((rest, left)),
            Some((false, _)) => None,
            // A bracket that nothing closes is a bracket.
            None => (*byte == b'[').then_some((rest, left)),
        },
        [first, rest @ ..] => (first == byte).then_some((rest, left)),
        [] => None,
    }
}

/// Reads a set behind its `[`: whether the byte is in it, and what follows the `]`.
fn set(text: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (negated, mut rest) = match text {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut found = false;
    let mut first = true;
    loop {
        match rest {
            [b']', after @ ..] if !first => return Some((found != negated, after)),
            [low, b'-', high, after @ ..] if *high != b']' => {
                found |= (*low..=*high).contains(&byte);
                rest = after;
            }
            [one, after @ ..] => {
                found |= *one == byte;
                rest = after;
            }
            [] => return None,
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(url: &str, name: &str) -> bool {
        matches(&pattern(url).unwrap(), name.as_bytes())
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
            ("x[*", "x[y"),
            (".*", ".hidden"),
            ("%2A*", "*x"),
            ("%61*%20b", "a b"),
            ("ü*", "üx"),
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

//! Wildcards of a shell (`*`, `?`, `[a-z]`, `[!a-z]`, `\\*`), matched against one name.

/// Says whether a name has a wildcard.
#[must_use]
pub fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|b| matches!(b, b'*' | b'?' | b'['))
}

/// Says whether `name` matches `pattern`; as in a shell, no wildcard matches a leading dot.
///
/// Takes time of at most the product of both lengths, since only the last `*` is tried again.
#[must_use]
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    let (mut p, mut n) = (pattern, name);
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = p {
            retry = Some((rest, n));
            p = rest;
            continue;
        }
        if p.is_empty() && n.is_empty() {
            return true;
        }
        match (step(p, n), retry) {
            (Some(rest), _) => (p, n) = rest,
            (None, Some((after, [_, later @ ..]))) => {
                retry = Some((after, later));
                (p, n) = (after, later);
            }
            (None, _) => return false,
        }
    }
}

/// Matches one character of the name with one element of the pattern other than `*`; returns the
/// rest of both.
fn step<'p, 'n>(pattern: &'p [u8], name: &'n [u8]) -> Option<(&'p [u8], &'n [u8])> {
    let (byte, left) = name.split_first()?;
    match pattern {
        [b'?', rest @ ..] => {
            // All bytes of a UTF-8 character count as one.
            let more = left.iter().take_while(|b| **b & 0xc0 == 0x80).count();
            let more = if *byte >= 0xc0 { more } else { 0 };
            Some((rest, left.get(more..)?))
        }
        [b'[', set @ ..] => match class(set, *byte) {
            Some((found, rest)) => found.then_some((rest, left)),
            // Without a closing bracket, `[` is an ordinary character.
            None => (*byte == b'[').then_some((set, left)),
        },
        [b'\\', wanted, rest @ ..] | [wanted, rest @ ..] => {
            (wanted == byte).then_some((rest, left))
        }
        [] => None,
    }
}

/// Looks `byte` up in the class behind a `[`; returns the result and the pattern behind the `]`.
fn class(set: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (negated, mut set) = match set {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let (mut found, mut first) = (false, true);
    loop {
        match set {
            [b']', rest @ ..] if !first => return Some((found != negated, rest)),
            [low, b'-', high, rest @ ..] if *high != b']' => {
                found |= (*low..=*high).contains(&byte);
                set = rest;
            }
            [one, rest @ ..] => {
                found |= *one == byte;
                set = rest;
            }
            [] => return None,
        }
        first = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_shell_does() {
        for (pattern, name) in [
            ("*", "abc"),
            ("*.txt", "a.txt"),
            ("a*c", "abcabc"),
            ("?b?", "abc"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]a]", "]"),
            // POSIX, XCU 2.13.1: `[:` is special only before `:]`.
            ("[a[:]", "a"),
            ("[a[:]", "["),
            ("[a[:]", ":"),
            ("[![:]", "]"),
            ("[x", "[x"),
            ("\\*", "*"),
            (".*", ".hidden"),
            ("**", ""),
            ("?.x", "ü.x"),
            ("a*b*c", "aXbYbc"),
            ("[\\]x", "\\x"),
            ("a\\", "a\\"),
        ] {
            assert!(
                matches(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
        for (pattern, name) in [
            ("*", ".hidden"),
            ("*.txt", "a.txt2"),
            ("?", ""),
            ("[a-c]x", "dx"),
            ("[a[:]", "]"),
            ("[a[:]", "a:"),
            ("[![:]", "["),
            ("a", "ab"),
            ("", "a"),
            ("\\*", "a"),
        ] {
            assert!(
                !matches(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let pattern = b"*a".repeat(120);
        let name = b"a".repeat(119);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &name));
    }
}

//! Shell patterns (`*`, `?`, `[a-z]`) against one name, in time that no pattern can blow up.

/// Says whether a name holds any character that means something in a pattern.
pub(crate) fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|b| matches!(b, b'*' | b'?' | b'['))
}

/// Says whether `name` matches `pattern`; a leading dot must be matched by a dot.
///
/// Only the last `*` is ever tried again, so the work is at most the product of both lengths.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
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
        match (step(p, n), retry) {
            (Step::Matched(rest), _) => (p, n) = (rest, n.get(1..).unwrap_or(&[])),
            (Step::End, _) => return true,
            (Step::Failed, Some((after, [_, later @ ..]))) => {
                retry = Some((after, later));
                (p, n) = (after, later);
            }
            (Step::Failed, _) => return false,
        }
    }
}

enum Step<'a> {
    /// One byte of the name matched; this is the pattern's rest.
    Matched(&'a [u8]),
    /// Both are at their ends.
    End,
    Failed,
}

/// Matches one byte of the name with one element of the pattern, which is no `*`.
fn step<'a>(pattern: &'a [u8], name: &[u8]) -> Step<'a> {
    match (pattern, name) {
        ([], []) => Step::End,
        ([b'?', rest @ ..], [_, ..]) => Step::Matched(rest),
        ([b'[', set @ ..], [byte, ..]) => match class(set, *byte) {
            Some((true, rest)) => Step::Matched(rest),
            Some((false, _)) => Step::Failed,
            // Without its bracket it is an ordinary character.
            None if *byte == b'[' => Step::Matched(set),
            None => Step::Failed,
        },
        ([b'\\', wanted, rest @ ..], [byte, ..]) if wanted == byte => Step::Matched(rest),
        ([wanted, rest @ ..], [byte, ..]) if wanted == byte => Step::Matched(rest),
        _ => Step::Failed,
    }
}

/// Looks `byte` up in a class whose `[` is gone; whether it is in, and the pattern behind the `]`.
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
            ("[x", "[x"),
            ("\\*", "*"),
            (".*", ".hidden"),
            ("**", ""),
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

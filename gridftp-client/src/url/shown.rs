//! Names and lines of text written so that they cannot drive a terminal, and such names read again.

/// Writes a name for a person: UTF-8 as it is, control and stray bytes escaped, so that no name
/// can drive a terminal. A backslash is escaped too: [`unshow`] reads the name again.
pub fn show(bytes: &[u8]) -> String {
    escape(bytes, |c| c == '\\' || is_active(c))
}

/// Writes a line of text, as a reply or a command, as [`show`] does, but backslashes as they are:
/// a name in it may be escaped already.
pub(crate) fn show_text(bytes: &[u8]) -> String {
    escape(bytes, is_active)
}

/// Reads a name that [`show`] has written; `None` for any other text.
pub fn unshow(text: &str) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        name.extend_from_slice(plain.as_bytes());
        let (kind, after) = escaped.split_at_checked(1)?;
        rest = after;
        match kind {
            "\\" => name.push(b'\\'),
            "n" => name.push(b'\n'),
            "r" => name.push(b'\r'),
            "t" => name.push(b'\t'),
            "x" => {
                let (digits, after) = rest.split_at_checked(2)?;
                name.push(u8::from_str_radix(digits, 16).ok()?);
                rest = after;
            }
            "u" => {
                let (digits, after) = rest.strip_prefix('{')?.split_once('}')?;
                let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
                name.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                rest = after;
            }
            _ => return None,
        }
    }
    name.extend_from_slice(rest.as_bytes());
    (show(&name) == text).then_some(name)
}

fn escape(bytes: &[u8], is_escaped: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_escaped(c) {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Says whether `c` controls a terminal, breaks the line or turns the direction of writing, which
/// can make a name read as another.
fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_names_cannot_drive_a_terminal() {
        assert_eq!(show(b"a\x1b[31m\n\xff\xc3\xa9"), "a\\u{1b}[31m\\n\\xffé");
        assert_eq!(show("x\u{202e}gpj.exe".as_bytes()), "x\\u{202e}gpj.exe");
    }

    #[test]
    fn a_shown_name_is_that_of_one_file() {
        let odd = [
            &b"a\nb"[..],
            b"a\\nb",
            b"a\\\\nb",
            b"\\",
            b"\t\r\x7f\x1b\0",
            b"\xff",
            b"\\xff",
            b"\\u{1b}",
            b"\xc3\\\xa9",
            "é\u{2028}\u{85}\u{1f980}".as_bytes(),
            b"",
        ];
        for (at, name) in odd.iter().enumerate() {
            let shown = show(name);
            assert_eq!(unshow(&shown).as_deref(), Some(*name), "{shown}");
            let is_other = |other: &&[u8]| show(other) != shown;
            assert!(odd.iter().skip(at + 1).all(is_other), "{shown}");
        }
        for byte in 0..=255_u8 {
            assert_eq!(unshow(&show(&[b'x', byte])), Some(vec![b'x', byte]));
        }
        for text in [
            "\\",
            "\\q",
            "\\x4",
            "\\x41",
            "\\x+f",
            "\\xFF",
            "\\u{a}",
            "\\u{110000}",
            "\\u{1b",
            "\n",
            "\\é",
        ] {
            assert_eq!(unshow(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_line_keeps_its_backslashes() {
        let line = "550 C:\\data\\\u{1b}[1m: no such file";
        let shown = "550 C:\\data\\\\u{1b}[1m: no such file";
        assert_eq!(show_text(line.as_bytes()), shown);
        assert_eq!(show_text(shown.as_bytes()), shown);
    }
}

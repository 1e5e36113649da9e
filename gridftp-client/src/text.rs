//! Text for a person: replies and chains of errors as one line of bounded length, and counts.

use std::fmt;

use ftp_wire::reply::Reply;

use crate::url::show_text;

/// Bytes of a reply that an error repeats: no server fills a screen.
const LONGEST_TEXT: usize = 1000;

/// Prints a reply for a person: its code and its text, without protocol dressing.
pub(crate) struct Text<'a>(pub(crate) &'a Reply);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(reply) = self;
        write!(f, "{} ", reply.code().number())?;
        let told = ["GridFTP-Error-String", "GridFTP-Reason"]
            .iter()
            .find_map(|name| reply.field(name));
        if let Some(why) = told {
            return f.write_str(cut(&show_text(why.as_bytes()), LONGEST_TEXT));
        }
        let mut first = true;
        let mut room = LONGEST_TEXT;
        for line in reply.lines() {
            let line = line.trim_ascii();
            if line.is_empty()
                || matches!(line, b"End." | b"End")
                || line.starts_with(b"GlobusError:")
            {
                continue;
            }
            if !std::mem::take(&mut first) {
                f.write_str(": ")?;
            }
            let line = show_text(line.get(..room).unwrap_or(line));
            let line = cut(&line, room);
            f.write_str(line)?;
            room -= line.len();
            if room == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// A number of things, by the name of one and that of any other number.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    let name = if number == 1 { one } else { many };
    format!("{number} {name}")
}

/// A number of bytes.
pub(crate) fn bytes(number: &u64) -> String {
    counted(*number, "byte", "bytes")
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rfind(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

/// Prints an error and its causes on one line, each said once. Of errors of the storage only the
/// cause is told: the caller has printed the operation and the path.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn std::error::Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = String::new();
        let mut next = Some(self.0);
        while let Some(error) = next {
            next = error.source();
            let text = match own_words(error) {
                None if next.is_some() => continue,
                None => error.to_string(),
                Some(text) => text,
            };
            let known = text.split(" (os error ").next().unwrap_or_default();
            if said.to_lowercase().contains(&known.to_lowercase()) {
                continue;
            }
            if !said.is_empty() {
                f.write_str(": ")?;
            }
            f.write_str(&text)?;
            said = text;
        }
        Ok(())
    }
}

/// An error's own text; `None` when it only says that the storage failed.
fn own_words(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(storage) = error.downcast_ref::<gridftp_dsi::Error>() {
        let kind = storage.kind();
        return (kind != gridftp_dsi::ErrorKind::Io).then(|| kind.to_string());
    }
    let of_storage = error
        .downcast_ref::<gridftp_data::Error>()
        .is_some_and(|error| error.kind() == gridftp_data::ErrorKind::Storage);
    (!of_storage).then(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use gridftp_dsi::{Error as StorageError, ErrorKind};

    use super::*;
    use crate::error::TransferError;

    #[test]
    fn one_thing_has_its_own_name() {
        for (number, text) in [(0, "0 entries"), (1, "1 entry"), (2, "2 entries")] {
            assert_eq!(counted(number, "entry", "entries"), text);
        }
        assert_eq!(bytes(&1), "1 byte");
    }

    #[test]
    fn each_thing_is_said_once() {
        let denied = || std::io::Error::from_raw_os_error(13);
        for (cause, text) in [
            (
                StorageError::new(ErrorKind::Denied, "create")
                    .at("/a")
                    .because(denied()),
                "permission denied",
            ),
            (
                StorageError::new(ErrorKind::Denied, "create").because("this user may only read"),
                "permission denied: this user may only read",
            ),
            (
                StorageError::new(ErrorKind::Io, "create").because(denied()),
                "Permission denied (os error 13)",
            ),
            (
                StorageError::new(ErrorKind::Io, "create"),
                "storage: create: the storage failed",
            ),
        ] {
            let error = TransferError::local("create", "/a", cause);
            assert_eq!(error.to_string(), format!("local: create /a: {text}"));
        }
    }
}

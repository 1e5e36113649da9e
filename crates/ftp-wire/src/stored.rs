//! `Stored`: the files that `ESTO files=` stored, in the text of its 226.

use std::fmt;

use crate::facts::TimeVal;

/// Most files of `ERET files=` and `ESTO files=`.
pub const MOST_FILES: usize = 512;

/// Longest name of a file of `ERET files=` and `ESTO files=`, in bytes.
pub const LONGEST_NAME: usize = 1024;

/// The outcome of each file of `ESTO files=`, in order, as
/// `Stored=20261129173217.123,-,20261129173217.124;`: the modification time of a stored file in
/// milliseconds, or `None`. The client sends a file that is not stored by a command of its own, and
/// the reply to that command tells the reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "it is a list and nothing else")]
pub struct Stored(pub Vec<Option<TimeVal>>);

impl Stored {
    /// Finds the files in the text of a reply.
    pub fn parse(text: &str) -> Option<Self> {
        let items = text.split_ascii_whitespace().last()?;
        let list = items.strip_prefix("Stored=")?.strip_suffix(';')?;
        let file = |text: &str| match text {
            "-" => Some(None),
            time => TimeVal::parse(time.as_bytes()).map(Some),
        };
        list.split(',').map(file).collect::<Option<_>>().map(Self)
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stored=")?;
        for (n, file) in self.0.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            match file {
                Some(time) => write!(f, "{comma}{}", time.to_millis())?,
                None => write!(f, "{comma}-")?,
            }
        }
        f.write_str(";")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_time_or_is_not_stored() {
        let time = |nanos| Some(TimeVal::new(1_795_973_537, nanos));
        for (files, text) in [
            (vec![None], "Stored=-;"),
            (vec![time(0)], "Stored=20261129173217;"),
            (
                vec![time(123_000_000), None, time(1_000_000)],
                "Stored=20261129173217.123,-,20261129173217.001;",
            ),
        ] {
            let stored = Stored(files);
            assert_eq!(stored.to_string(), text);
            let reply = format!("Transfer Complete. {text}");
            assert_eq!(Stored::parse(&reply), Some(stored));
        }
        let finer = Stored(vec![time(123_456_789)]);
        assert_eq!(finer.to_string(), "Stored=20261129173217.123;");
        for text in [
            "",
            "Transfer Complete.",
            "Stored=",
            "Stored=;",
            "Stored=x;",
            "Stored=-",
        ] {
            assert_eq!(Stored::parse(text), None, "{text}");
        }
    }
}

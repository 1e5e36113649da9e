//! `TimeoutOptions`: how long each operation may go without progress.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use xio_core::{BadValue, Entry, Error, Opt, OptionText, Result, Value, seconds};

const TAKES: &str = "seconds, as 30 or 2.5";

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new("accept", TAKES, "how long to wait for a peer"),
    Opt::new(
        "all",
        TAKES,
        "what open, read, write and close get that are not named themselves",
    ),
    Opt::new("close", TAKES, "how long ending in good order may take"),
    Opt::new(
        "open",
        TAKES,
        "how long connecting and the handshakes may take",
    ),
    Opt::new("read", TAKES, "how long a read may wait for bytes"),
    Opt::new("write", TAKES, "how long a write may wait for room"),
];

/// How long each operation may go without progress; `None` is for ever.
///
/// The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeoutOptions {
    /// How long to wait for a peer.
    pub accept: Option<Duration>,
    /// How long ending in good order may take.
    pub close: Option<Duration>,
    /// How long connecting, or the handshakes of an accepted peer, may take as a whole.
    pub open: Option<Duration>,
    /// How long a read may wait for bytes.
    pub read: Option<Duration>,
    /// How long a write, a flush or a send-file may wait for room.
    pub write: Option<Duration>,
}

impl TimeoutOptions {
    /// The same time for opening, reading, writing and closing.
    ///
    /// Waiting for a peer is not among them, since having none is no fault of anyone.
    #[must_use]
    pub const fn all(time: Duration) -> Self {
        Self {
            accept: None,
            close: Some(time),
            open: Some(time),
            read: Some(time),
            write: Some(time),
        }
    }

    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An option that is unknown or whose value is not accepted.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        // `all` is what the others start from, wherever in the string it stands.
        let mut options = Self::default();
        entry.apply(OPTIONS, &mut options, |options, key, value| {
            if key == "all" {
                *options = Self::all(value.seconds()?);
            }
            Ok(())
        })?;
        entry.apply(OPTIONS, &mut options, Self::set)?;
        Ok(options)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), BadValue> {
        let time = Some(value.seconds()?);
        match key {
            "accept" => self.accept = time,
            "all" => {}
            "close" => self.close = time,
            "open" => self.open = time,
            "read" => self.read = time,
            "write" => self.write = time,
            _ => return Err(BadValue),
        }
        Ok(())
    }
}

impl FromStr for TimeoutOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new("timeout")?.with_options(text)?)
    }
}

impl fmt::Display for TimeoutOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        OptionText::new()
            .add("accept", self.accept.map(seconds))
            .add("close", self.close.map(seconds))
            .add("open", self.open.map(seconds))
            .add("read", self.read.map(seconds))
            .add("write", self.write.map(seconds))
            .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, prop, prop_assert_eq, proptest};

    use super::*;

    fn time() -> impl Strategy<Value = Option<Duration>> {
        prop::option::of((1..1_000_000_000_u64).prop_map(Duration::from_millis))
    }

    proptest! {
        #[test]
        fn display_round_trips(t in (time(), time(), time(), time(), time())) {
            let options = TimeoutOptions { accept: t.0, close: t.1, open: t.2, read: t.3, write: t.4 };
            prop_assert_eq!(options.to_string().parse::<TimeoutOptions>().unwrap(), options);
        }
    }

    #[test]
    fn all_leaves_accept_out_and_yields_to_names() {
        let options: TimeoutOptions = "read=5;all=30".parse().unwrap();
        let time = |s| Some(Duration::from_secs(s));
        assert_eq!(options.read, time(5));
        assert_eq!(
            (options.open, options.write, options.close),
            (time(30), time(30), time(30))
        );
        assert_eq!(options.accept, None);
    }

    #[test]
    fn zero_is_refused() {
        let error = "read=0".parse::<TimeoutOptions>().unwrap_err().to_string();
        assert!(error.contains("option read"), "{error}");
    }
}

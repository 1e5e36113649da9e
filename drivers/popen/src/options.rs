//! `PopenOptions`: which program, with which words and variables, from a string and back.

use std::fmt;
use std::str::FromStr;

use xio_core::{BadValue, Entry, Error, Opt, OptionText, Result, Value};

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new(
        "argv",
        "a list, as #/bin/cat#-n",
        "the program and its arguments",
    ),
    Opt::new(
        "blocking",
        "yes or no",
        "changes nothing: this driver never blocks",
    ),
    Opt::new("env", "a list, as #HOME=/#LANG=C", "variables to set"),
    Opt::new(
        "ignore_errors",
        "yes or no",
        "take any exit status for a clean end",
    ),
    Opt::new("pass_env", "yes or no", "hand on this program's variables"),
];

/// What is run. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PopenOptions {
    /// The program and its arguments; where empty, the path of the contact is the program.
    pub argv: Vec<String>,
    /// Variables to set.
    pub env: Vec<(String, String)>,
    /// Whether any exit status is a clean end; not by default.
    pub ignore_errors: bool,
    /// Whether the program gets this one's variables; not by default.
    pub pass_env: bool,
}

impl PopenOptions {
    /// This program with these arguments.
    #[must_use]
    pub fn run<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An option that is unknown or whose value is not accepted.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        let mut options = Self::default();
        entry.apply(OPTIONS, &mut options, Self::set)?;
        Ok(options)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), BadValue> {
        match key {
            "argv" => {
                let argv: Vec<_> = value.list()?.into_iter().map(str::to_owned).collect();
                if argv.first().is_none_or(String::is_empty) {
                    return Err(BadValue);
                }
                self.argv = argv;
            }
            "blocking" => drop(value.bool()?),
            "env" => {
                let pair = |text: &str| match text.split_once('=') {
                    Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
                    _ => Err(BadValue),
                };
                self.env = value
                    .list()?
                    .into_iter()
                    .map(pair)
                    .collect::<Result<_, _>>()?;
            }
            "ignore_errors" => self.ignore_errors = value.bool()?,
            "pass_env" => self.pass_env = value.bool()?,
            _ => return Err(BadValue),
        }
        Ok(())
    }
}

impl FromStr for PopenOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new("popen")?.with_options(text)?)
    }
}

/// Writes a list with a delimiter that none of its items holds.
fn list(items: &[String]) -> Option<String> {
    if items.is_empty() {
        return None;
    }
    let free = |mark: &char| !items.iter().any(|item| item.contains(*mark));
    let mark = ['#', '|', '@'].into_iter().chain('\u{1}'..).find(free)?;
    Some(
        items
            .iter()
            .flat_map(|item| [mark.to_string(), item.clone()])
            .collect(),
    )
}

impl fmt::Display for PopenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env: Vec<_> = self
            .env
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        OptionText::new()
            .add("argv", list(&self.argv))
            .add("env", list(&env))
            .add("ignore_errors", self.ignore_errors.then_some(1))
            .add("pass_env", self.pass_env.then_some(1))
            .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn display_round_trips(
            program in "[^\0]{1,9}", words in proptest::collection::vec("[^\0]{0,9}", 0..4),
            env in proptest::collection::vec(("[^=\0]{1,5}", "[^\0]{0,5}"), 0..4),
            ignore_errors in any::<bool>(), pass_env in any::<bool>(),
        ) {
            let argv = std::iter::once(program).chain(words).collect();
            let options = PopenOptions { argv, env, ignore_errors, pass_env };
            prop_assert_eq!(options.to_string().parse::<PopenOptions>().unwrap(), options);
        }
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "argv=",
            "argv=#",
            "env=#A",
            "env=#=x",
            "pass_env=maybe",
            "blocking=x",
        ] {
            assert!(bad.parse::<PopenOptions>().is_err(), "{bad}");
        }
        let options: PopenOptions = "argv=#/bin/cat#a%2Cb;env=|A=1|B=2".parse().unwrap();
        assert_eq!(options.argv, ["/bin/cat", "a,b"]);
        assert_eq!(options.env.len(), 2);
    }
}

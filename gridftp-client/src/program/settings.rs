//! Settings of the configuration file and the environment, as words of the command line.

pub mod audit;
mod config;
mod own;
mod places;
mod scope;

use std::any::TypeId;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, Parser};

use self::config::Values;
pub use self::config::{Config, NamedPlace, SIBLING};
use self::places::OwnFlags;
pub use self::scope::{RULES, flags};
use self::scope::{is_copy, settable, suits};
use super::accounts::PlaceAccess;
use super::exit::Status;
use super::report::Report;
use crate::url::show_text;

/// Command line of a program with its settings in it.
#[derive(Debug)]
struct Words {
    /// All words, from the name of the program on.
    all: Vec<OsString>,
    /// Words that are settings, each with its origin.
    settings: Vec<String>,
    /// Flags of places that hold at their own servers, each with its origin.
    own: Vec<(String, OwnFlags)>,
}

/// Parses the command line of a program with the settings that it leaves open, and those of places
/// that hold at their own servers; prints mistakes.
///
/// # Errors
/// The exit status, and the kind of a mistake in the command line.
pub fn parse<F: Parser>(
    program: &'static str,
) -> Result<(F, Vec<PlaceAccess>), (Status, Option<ErrorKind>)> {
    let wrong = |error: anyhow::Error| {
        Report::of_lines(program, false, false).fatal(&format!("{error:#}"), None);
        (Status::Usage, None)
    };
    let words = words(&F::command(), std::env::args_os().collect()).map_err(wrong)?;
    let flags = F::try_parse_from(&words.all).map_err(|error| {
        // Nobody is left to tell when standard error is closed.
        let _gone = error.print();
        let status = match error.use_stderr() {
            true => Status::Usage,
            false => Status::Done,
        };
        if error.use_stderr() && !words.settings.is_empty() {
            let all = words.settings.join("\n  ");
            let _gone = writeln!(std::io::stderr(), "\nSettings in use:\n  {all}");
        }
        (status, Some(error.kind()))
    })?;
    let own = words
        .own
        .into_iter()
        .map(|(origin, OwnFlags { urls, flags, .. })| {
            let access = Arc::new(own::access(&flags).context(origin)?);
            Ok(PlaceAccess { urls, access })
        });
    let own = own.collect::<anyhow::Result<_>>().map_err(wrong)?;
    Ok((flags, own))
}

/// Parses the words of a command line with its settings, without a word about mistakes.
pub fn parse_silently<F: Parser>(given: Vec<OsString>) -> Option<F> {
    let words = words(&F::command(), given).ok()?;
    F::try_parse_from(words.all).ok()
}

/// Returns the words of a command line with the settings that they leave open: those of the
/// environment before those of the places in use, and the defaults last.
fn words(command: &Command, given: Vec<OsString>) -> anyhow::Result<Words> {
    words_of(command, given, Config::read, &|name| std::env::var_os(name))
}

/// As [`words`], with that file and environment.
fn words_of(
    command: &Command,
    given: Vec<OsString>,
    config: impl FnOnce() -> anyhow::Result<Config>,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> anyhow::Result<Words> {
    let mut words = Words {
        all: given,
        settings: Vec::new(),
        own: Vec::new(),
    };
    let lenient = command.clone().ignore_errors(true);
    // Help, the version and an empty command line need no settings.
    let Ok(matches) = lenient.try_get_matches_from(&words.all) else {
        return Ok(words);
    };
    let config = config()?;
    if command.get_name() == "gridftp-cp" {
        config.check(command)?;
    }
    let mut command = command.clone();
    command.build();
    let (mut inner, mut matched, mut at) = (&command, &matches, 1);
    while let Some((name, found)) = matched.subcommand() {
        inner = inner.find_subcommand(name).context("no such command")?;
        matched = found;
        let mut rest = words.all.iter().enumerate().skip(at);
        at = rest
            .find(|(_, word)| *word == name)
            .map_or(at, |(at, _)| at + 1);
    }
    let mut settings = Settings::beside(inner, matched);
    let path = config.path.display();
    let variables = variables(inner, environment);
    settings.add("environment", &variables)?;
    let is_taken = |id: &str| settings.taken.contains(id);
    let named = places::expand(&config, inner, matched, &mut words.all, is_taken)?;
    let origin = |own: &OwnFlags| format!("{path}: [place.{}]", own.place);
    let own = named.own.into_iter();
    words.own = own.map(|own| (origin(&own), own)).collect();
    settings.add(&format!("{path}: [place]"), &named.all)?;
    settings.add(&format!("{path}: [defaults]"), &config.defaults)?;
    let added = settings.complete();
    words.settings = (added.iter())
        .map(|(word, origin)| format!("{} ({origin})", show_text(word.as_bytes())))
        .collect();
    let added = added.into_iter().map(|(word, _)| word);
    words.all.splice(at..at, added);
    Ok(words)
}

/// The settings of a command, beside the flags on its command line.
struct Settings<'a> {
    command: &'a Command,
    /// Flags that are decided, by the command line or a setting before others.
    taken: HashSet<&'a str>,
    /// Those of them that are not turned off.
    on: HashSet<&'a str>,
    /// Each setting with its words and their origin.
    all: Vec<(&'a Arg, Vec<OsString>, String)>,
}

impl<'a> Settings<'a> {
    fn beside(command: &'a Command, matches: &ArgMatches) -> Self {
        let ids = command.get_arguments().map(|arg| arg.get_id().as_str());
        let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let on: HashSet<_> = ids.filter(given).collect();
        Self {
            command,
            taken: on.clone(),
            on,
            all: Vec::new(),
        }
    }

    /// Adds the values of one origin for flags that are open.
    fn add(&mut self, origin: &str, all: &Values) -> anyhow::Result<()> {
        let (mut taken, mut on) = (Vec::new(), Vec::new());
        let is_taken = |id: &str| self.taken.contains(id);
        // With --discard, -r removes the partial files of other users.
        let is_copy = is_copy(self.command, is_taken);
        for (name, values) in all {
            let Some(arg) = settable(self.command, name).filter(|arg| suits(arg, values)) else {
                continue;
            };
            let id = arg.get_id().as_str();
            let is_left_out = is_taken(id)
                || id == "recursive" && !is_copy
                || is_covered(name, is_taken)
                || lost_its_pair(name, all, is_taken)
                || conflicts(self.command, arg, &self.on);
            if is_left_out {
                continue;
            }
            let is_text = values.iter().all(|value| value.to_str().is_some());
            ensure!(
                is_text || takes_bytes(arg),
                "{}: its value is not UTF-8, and --{name} takes text",
                variable(name)
            );
            let words = values.iter().flat_map(|value| spelled(arg, name, value));
            let words: Vec<_> = words.collect();
            taken.push(id);
            if !words.is_empty() {
                on.push(id);
                self.all.push((arg, words, origin.to_owned()));
            }
        }
        self.taken.extend(taken);
        self.on.extend(on);
        Ok(())
    }

    /// The words of all settings, each with its origin, but of those that lack a flag they need.
    fn complete(self) -> Vec<(OsString, String)> {
        let Self { on, all, .. } = self;
        let lacks = |id: &str| {
            NEEDS
                .iter()
                .any(|(flag, needed)| *flag == id && !on.contains(needed))
        };
        (all.into_iter()
            .filter(|(arg, ..)| !lacks(arg.get_id().as_str())))
        .flat_map(|(_, words, origin)| words.into_iter().map(move |word| (word, origin.clone())))
        .collect()
    }
}

/// Settings that are left out where another flag is not given, which clap does not tell.
const NEEDS: [(&str, &str); 2] = [("max_delete", "delete"), ("key", "cert")];

/// Returns whether a flag is the private key of a certificate that another setting replaces.
fn lost_its_pair(name: &str, values: &Values, is_taken: impl Fn(&str) -> bool) -> bool {
    name == "key" && values.contains_key("cert") && is_taken("cert")
}

/// Returns whether a flag is the credential of one end, and `--cred` names that of both already.
fn is_covered(name: &str, is_taken: impl Fn(&str) -> bool) -> bool {
    ["src-cred", "dst-cred"].contains(&name) && is_taken("cred")
}

/// The `--NAME=` of a word that begins so, and the rest of the word.
pub(super) fn value_of(word: &[u8]) -> (&[u8], &[u8]) {
    let end = match word.starts_with(b"--") {
        true => word.iter().position(|byte| *byte == b'='),
        false => None,
    };
    let divided = end.and_then(|end| word.split_at_checked(end + 1));
    divided.unwrap_or((b"", word))
}

/// Values of `GRIDFTP_*` for the flags of a command; other variables are not ours.
fn variables(command: &Command, environment: &dyn Fn(&str) -> Option<OsString>) -> Values {
    let read = |arg: &Arg| {
        let name = arg.get_long()?;
        let value = environment(&variable(name))?;
        Some((name.to_owned(), vec![value]))
    };
    command.get_arguments().filter_map(read).collect()
}

/// The variable of a flag.
fn variable(flag: &str) -> String {
    format!("GRIDFTP_{}", flag.to_ascii_uppercase().replace('-', "_"))
}

/// Returns whether the value of a flag is a path or a name, which may have any bytes.
fn takes_bytes(arg: &Arg) -> bool {
    let value = arg.get_value_parser().type_id();
    value == TypeId::of::<PathBuf>() || value == TypeId::of::<OsString>()
}

/// Returns whether a flag cannot stand beside one of those taken.
fn conflicts(command: &Command, arg: &Arg, taken: &HashSet<&str>) -> bool {
    let of = |arg: &Arg| -> Vec<String> {
        let others = command.get_arg_conflicts_with(arg);
        others
            .iter()
            .map(|other| other.get_id().to_string())
            .collect()
    };
    of(arg).iter().any(|other| taken.contains(other.as_str()))
        || (command.get_arguments())
            .filter(|other| taken.contains(other.get_id().as_str()))
            .any(|other| of(other).contains(&arg.get_id().to_string()))
}

/// The words for one value of a flag: none where the value turns the flag off.
fn spelled(arg: &Arg, name: &str, value: &OsStr) -> Vec<OsString> {
    let alone = OsString::from(format!("--{name}"));
    let may_stand_alone = arg
        .get_num_args()
        .is_some_and(|number| number.min_values() == 0);
    match (arg.get_action(), value.to_str()) {
        (ArgAction::Count, Some(number)) if number.parse::<u8>().is_ok() => {
            vec![alone; usize::from(number.parse::<u8>().unwrap_or(0))]
        }
        (ArgAction::SetTrue, Some("0")) => Vec::new(),
        (ArgAction::SetTrue, Some("" | "1")) => vec![alone],
        (_, Some("true")) if may_stand_alone => vec![alone],
        (_, Some("false")) if may_stand_alone => Vec::new(),
        _ => {
            let mut word = alone;
            word.push("=");
            word.push(value);
            vec![word]
        }
    }
}

#[cfg(test)]
mod tests;

//! Settings of the configuration file and the environment, as words of the command line.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, Parser, ValueHint};
use toml::{Table, Value};

use super::exit::Status;
use super::report::Report;
use crate::url::{Location, show_text};

/// Flags of `gridftp` beside those of connections. The file is that of both programs, and
/// `gridftp-cp` takes no flag of the other one for a mistake.
pub const SIBLING: &str = "algorithm all bytes checksum compare depth force human lines long \
    no-clobber no-create parallel parents read recursive seconds size summarize symbolic time times \
    unsigned";

/// Largest configuration file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Values of flags by long name.
type Values = BTreeMap<String, Vec<OsString>>;

/// Command line of a program with its settings in it.
#[derive(Debug)]
struct Words {
    /// All words, from the name of the program on.
    all: Vec<OsString>,
    /// Words that are settings, each with its origin.
    settings: Vec<String>,
}

/// A named URL of the configuration file, with flags of its own.
#[derive(Debug)]
pub struct NamedPlace {
    pub url: String,
    flags: Values,
}

/// The configuration file.
#[derive(Debug, Default)]
pub struct Config {
    path: PathBuf,
    defaults: Values,
    pub places: BTreeMap<String, NamedPlace>,
}

impl Config {
    /// Reads `$GRIDFTP_CONFIG`, or `gridftp/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`. A
    /// missing file is empty, unless `$GRIDFTP_CONFIG` names it.
    pub fn read() -> anyhow::Result<Self> {
        let named = std::env::var_os("GRIDFTP_CONFIG").map(PathBuf::from);
        let Some(path) = named.clone().or_else(usual) else {
            return Ok(Self::default());
        };
        let mut text = String::new();
        let read = std::fs::File::open(&path)
            .and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
        match read {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {
                return Ok(Self::default());
            }
            read => read.with_context(|| path.display().to_string())?,
        };
        ensure!(
            text.len() as u64 <= LARGEST,
            "{}: larger than 1 MiB",
            path.display()
        );
        let parsed = Self::parse(&text).with_context(|| path.display().to_string())?;
        Ok(Self { path, ..parsed })
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut config = Self::default();
        for (key, value) in text.parse::<Table>()? {
            match (key.as_str(), value) {
                ("defaults", Value::Table(table)) => {
                    config.defaults = values(table).context("[defaults]")?;
                }
                ("place", Value::Table(places)) => {
                    for (name, value) in places {
                        let place = NamedPlace::parse(&name, value)
                            .with_context(|| format!("[place.{name}]"))?;
                        config.places.insert(name, place);
                    }
                }
                _ => bail!("{key}: unknown; write [defaults] or [place.NAME]"),
            }
        }
        Ok(config)
    }

    /// Refuses names that are flags of neither program.
    fn check(&self, command: &Command) -> anyhow::Result<()> {
        let tables = (self.places.iter())
            .map(|(name, place)| (format!("place.{name}"), &place.flags))
            .chain([("defaults".to_owned(), &self.defaults)]);
        for (table, flags) in tables {
            for flag in flags.keys() {
                ensure!(
                    is_flag(command, flag) || SIBLING.split(' ').any(|known| known == flag),
                    "{}: [{table}]: {flag}: {} has no flag --{flag}, and neither has gridftp",
                    self.path.display(),
                    command.get_name(),
                );
            }
        }
        Ok(())
    }

    /// The place that a word names, with the URL that the word stands for.
    fn place<'a>(&'a self, word: &'a OsStr) -> Option<(&'a str, OsString)> {
        let bytes = word.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':')?;
        let (name, rest) = (bytes.get(..colon)?, bytes.get(colon + 1..)?);
        let (name, place) = self
            .places
            .get_key_value(std::str::from_utf8(name).ok()?)
            .filter(|_| !rest.starts_with(b"//"))?;
        let mut url = place.url.clone().into_bytes();
        if !rest.is_empty() {
            let rest = rest.strip_prefix(b"/").unwrap_or(rest);
            let base = place.url.trim_end_matches('/').as_bytes();
            url = [base, b"/", rest].concat();
        }
        Some((name, OsString::from_vec(url)))
    }
}

impl NamedPlace {
    fn parse(name: &str, value: Value) -> anyhow::Result<Self> {
        let Value::Table(mut table) = value else {
            bail!("no table; write url = \"gsiftp://HOST/\" in it");
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        ensure!(
            !name.is_empty() && name.chars().all(is_plain),
            "a name has letters, digits, '-', '_' and '.' only"
        );
        let Some(Value::String(url)) = table.remove("url") else {
            bail!("no url; write url = \"gsiftp://HOST/\"");
        };
        let Location::Remote(remote) = Location::parse(&url).context("url")? else {
            bail!("url: {url}: no server in it");
        };
        ensure!(
            remote.site.password.is_none(),
            "url: has a password; use a .netrc and netrc = true"
        );
        let flags = values(table)?;
        Ok(Self { url, flags })
    }
}

/// Parses the command line of a program with the settings that it leaves open, and prints
/// mistakes.
///
/// # Errors
/// The exit status, and the kind of a mistake in the command line.
pub fn parse<F: Parser>(program: &'static str) -> Result<F, (Status, Option<ErrorKind>)> {
    let words = match words(&F::command(), std::env::args_os().collect()) {
        Ok(words) => words,
        Err(error) => {
            Report::of_lines(program, false, false).fatal(&format!("{error:#}"), None);
            return Err((Status::Usage, None));
        }
    };
    F::try_parse_from(&words.all).map_err(|error| {
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
    })
}

/// Parses the words of a command line with its settings, without a word about mistakes.
pub fn parse_silently<F: Parser>(given: Vec<OsString>) -> Option<F> {
    let words = words(&F::command(), given).ok()?;
    F::try_parse_from(words.all).ok()
}

/// Returns the words of a command line with the settings that they leave open: those of the
/// environment before those of the places in use, and the defaults last.
fn words(command: &Command, given: Vec<OsString>) -> anyhow::Result<Words> {
    let mut words = Words {
        all: given,
        settings: Vec::new(),
    };
    let lenient = command.clone().ignore_errors(true);
    // Help, the version and an empty command line need no settings.
    let Ok(matches) = lenient.try_get_matches_from(&words.all) else {
        return Ok(words);
    };
    let config = Config::read()?;
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
    let named = expand(&config, inner, matched, &mut words.all)?;
    let environment = environment(inner);
    let mut taken: HashSet<&str> = (inner.get_arguments())
        .map(|arg| arg.get_id().as_str())
        .filter(|id| matched.value_source(id) == Some(ValueSource::CommandLine))
        .collect();
    let path = config.path.display();
    let levels = [
        ("environment".to_owned(), environment),
        (format!("{path}: [place]"), named),
        (format!("{path}: [defaults]"), config.defaults.clone()),
    ];
    for (origin, values) in levels {
        let mut now = Vec::new();
        for (name, values) in &values {
            let Some(arg) = settable(inner, name) else {
                continue;
            };
            if taken.contains(arg.get_id().as_str()) || conflicts(inner, arg, &taken) {
                continue;
            }
            let is_text = values.iter().all(|value| value.to_str().is_some());
            ensure!(
                is_text || takes_bytes(arg),
                "{}: its value is not UTF-8, and --{name} takes text",
                variable(name)
            );
            now.push(arg.get_id().as_str());
            for word in (values.iter()).flat_map(|value| spelled(arg, name, value)) {
                let shown = show_text(word.as_bytes());
                words.settings.push(format!("{shown} ({origin})"));
                words.all.insert(at, word);
                at += 1;
            }
        }
        taken.extend(now);
    }
    Ok(words)
}

/// Replaces places by their URLs, and returns the flags of those places.
fn expand(
    config: &Config,
    command: &Command,
    matches: &ArgMatches,
    words: &mut [OsString],
) -> anyhow::Result<Values> {
    let is_url = |arg: &&Arg| arg.is_positional() || arg.get_value_hint() == ValueHint::Url;
    let locations: HashSet<&OsStr> = (command.get_arguments().filter(is_url))
        .filter_map(|arg| matches.try_get_raw(arg.get_id().as_str()).ok().flatten())
        .flatten()
        .collect();
    let mut named: HashMap<&str, (&str, &Vec<OsString>)> = HashMap::new();
    for word in words.iter_mut().skip(1) {
        let (flag, value) = value_of(word.as_bytes());
        let value = OsStr::from_bytes(value);
        let Some((name, url)) = config.place(value).filter(|_| locations.contains(value)) else {
            continue;
        };
        let Some((name, place)) = config.places.get_key_value(name) else {
            continue;
        };
        for (flag, values) in &place.flags {
            let (other, before) = *named.entry(flag).or_insert((name, values));
            ensure!(
                before == values,
                "{}: {flag} differs between [place.{other}] and [place.{name}]; write --{flag}",
                config.path.display(),
            );
        }
        *word = OsString::from_vec([flag, url.as_bytes()].concat());
    }
    let owned =
        |(flag, (_, values)): (&str, (_, &Vec<OsString>))| (flag.to_owned(), values.clone());
    Ok(named.into_iter().map(owned).collect())
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
fn environment(command: &Command) -> Values {
    let read = |arg: &Arg| {
        let name = arg.get_long()?;
        let value = std::env::var_os(variable(name))?;
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

/// Names of the flags of a command, and of those in it, that settings may give.
pub fn flags(command: &Command) -> BTreeSet<String> {
    let names = command.get_arguments().filter_map(Arg::get_long);
    let own = names.filter(|name| settable(command, name).is_some());
    let mut all: BTreeSet<_> = own.map(str::to_owned).collect();
    all.extend(command.get_subcommands().flat_map(flags));
    all
}

/// Returns whether a command, or one in it, has a flag that settings may give.
fn is_flag(command: &Command, name: &str) -> bool {
    let mut inner = command.get_subcommands();
    settable(command, name).is_some() || inner.any(|command| is_flag(command, name))
}

/// The flag of that name, if settings may give it.
fn settable<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    let mut flags = command.get_arguments();
    flags.find(|arg| {
        let is_work = matches!(
            arg.get_action(),
            ArgAction::Set | ArgAction::Append | ArgAction::SetTrue | ArgAction::Count
        );
        arg.get_long() == Some(name) && is_work && !arg.is_exclusive_set()
    })
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

/// The values of a table, as they would be written on a command line.
fn values(table: Table) -> anyhow::Result<Values> {
    let text = |key: &str, value: Value| {
        Ok(OsString::from(match value {
            Value::String(text) => text,
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Boolean(on) => on.to_string(),
            _ => bail!("{key}: write a text, a number, true, false, or a list of them"),
        }))
    };
    (table.into_iter())
        .map(|(key, value)| {
            let values = match value {
                Value::Array(all) => (all.into_iter().map(|value| text(&key, value))).collect(),
                value => text(&key, value).map(|text| vec![text]),
            };
            Ok((key, values?))
        })
        .collect()
}

/// `gridftp/config.toml` in `$XDG_CONFIG_HOME`, by default in `~/.config`.
fn usual() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = match named.filter(|config| config.is_absolute()) {
        Some(config) => config,
        None => std::env::home_dir()?.join(".config"),
    };
    Some(config.join(Path::new("gridftp/config.toml")))
}

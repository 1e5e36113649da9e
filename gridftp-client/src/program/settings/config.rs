//! `Config`: the configuration file, with its defaults and named places.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Command;
use toml::{Table, Value};

use super::scope::{is_flag, is_given_alone};
use crate::url::Location;

/// Flags of `gridftp` beside those of connections. The file is that of both programs, and
/// `gridftp-cp` takes no flag of the other one for a mistake.
pub const SIBLING: &str = "algorithm all bytes checksum compare depth human lines long no-clobber \
    no-create parallel parents read seconds size summarize times unsigned";

/// Largest configuration file, in bytes.
const LARGEST: u64 = 1 << 20;

/// Values of flags by long name.
pub(super) type Values = BTreeMap<String, Vec<OsString>>;

/// A named URL of the configuration file, with flags of its own.
#[derive(Debug)]
pub struct NamedPlace {
    pub url: String,
    pub(super) user: Option<String>,
    pub(super) flags: Values,
}

/// The configuration file.
#[derive(Debug, Default)]
pub struct Config {
    pub(super) path: PathBuf,
    pub(super) defaults: Values,
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

    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
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
    pub(super) fn check(&self, command: &Command) -> anyhow::Result<()> {
        let tables = (self.places.iter())
            .map(|(name, place)| (format!("place.{name}"), &place.flags))
            .chain([("defaults".to_owned(), &self.defaults)]);
        for (table, flags) in tables {
            for flag in flags.keys() {
                ensure!(
                    !is_given_alone(flag),
                    "{}: [{table}]: {flag}: --{flag} comes from the command line alone; leave it out here",
                    self.path.display(),
                );
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
    pub(super) fn place<'a>(&'a self, word: &OsStr) -> Option<(&'a str, &'a NamedPlace, OsString)> {
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
        Some((name, place, OsString::from_vec(url)))
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
        let Location::Remote(remote) = Location::parse(&url)? else {
            bail!("url: {url}: no server in it");
        };
        ensure!(
            remote.site.password.is_none(),
            "url: has a password; use a .netrc and netrc = true"
        );
        let mut flags = values(table)?;
        let user = flags.remove("user").map(|names| match names.as_slice() {
            [name] => Ok(name.to_string_lossy().into_owned()),
            _ => bail!("user: write one name"),
        });
        let user = user.transpose()?;
        Ok(Self { url, user, flags })
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

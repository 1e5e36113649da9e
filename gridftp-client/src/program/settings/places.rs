//! Words of a command line that name places, and the flags of these.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use anyhow::{bail, ensure};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, ValueHint};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::config::{Config, NamedPlace, Values};
use super::scope::{has, is_copy, settable};
use super::{lost_its_pair, value_of};
use crate::url::{Location, Site};

/// Flags of accounts, protection and stacks, which belong to the server of their place.
pub(super) const OF_SERVER: &str = "netrc security protect ca cert key cred src-cred dst-cred delegation subject \
    names dcau data-cred remote-program trust-pasv-address stack disk-stack";

/// A location on the command line.
struct End<'a> {
    word: &'a OsStr,
    place: Option<(&'a str, &'a NamedPlace)>,
    /// The URL of a place, or the word itself.
    url: OsString,
    site: Option<Site>,
    is_destination: bool,
}

impl End<'_> {
    /// Returns whether both are of one server.
    fn is_with(&self, other: &Self) -> bool {
        let server = |end: &Self| {
            let site = end.site.as_ref()?;
            Some((site.scheme, site.host.to_ascii_lowercase(), site.port))
        };
        server(self) == server(other)
    }

    /// The values of a flag of its place.
    fn values(&self, flag: &str) -> Option<&Vec<OsString>> {
        self.place.and_then(|(_, place)| place.flags.get(flag))
    }
}

/// Replaces places by their URLs, with their users, and returns their other flags. Those that
/// `is_taken` says to be on the command line or in the environment are left out.
pub(super) fn expand(
    config: &Config,
    command: &Command,
    matches: &ArgMatches,
    words: &mut [OsString],
    is_taken: impl Fn(&str) -> bool,
) -> anyhow::Result<Values> {
    let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let is_copy = is_copy(command, is_given);
    let mut ends = ends(config, command, matches, is_taken("user"));
    if let Some(last) = ends.last_mut().filter(|_| is_copy) {
        last.is_destination = true;
    }
    for word in words.iter_mut().skip(1) {
        let (flag, value) = value_of(word.as_bytes());
        if let Some(end) = ends.iter().find(|end| end.word.as_bytes() == value) {
            *word = OsString::from_vec([flag, end.url.as_bytes()].concat());
        }
    }
    let path = config.path.display();
    let mut named: BTreeMap<&str, (&str, &Vec<OsString>)> = BTreeMap::new();
    for end in &ends {
        let Some((name, place)) = end.place else {
            continue;
        };
        for (flag, values) in &place.flags {
            let left_out = settable(command, flag)
                .is_none_or(|arg| is_taken(arg.get_id().as_str()))
                || lost_its_pair(flag, &place.flags, &is_taken)
                || flag == "backup-dir" && !end.is_destination;
            if left_out {
                continue;
            }
            let flag = match of_end(end, &ends, flag, is_copy) {
                Ok(flag) => flag,
                Err(site) => bail!(
                    "{path}: {flag} of [place.{name}] would also hold at {site}; write --{flag} to \
                     say so for both"
                ),
            };
            let (other, before) = *named.entry(flag).or_insert((name, values));
            ensure!(
                before == values,
                "{path}: {flag} differs between [place.{other}] and [place.{name}]; write --{flag}",
            );
        }
    }
    let owned = |(flag, (_, values)): (&str, (_, &Vec<_>))| (flag.to_owned(), values.clone());
    Ok(named.into_iter().map(owned).collect())
}

/// The locations of a command line, those of its commands in their order.
fn ends<'a>(
    config: &'a Config,
    command: &Command,
    matches: &'a ArgMatches,
    has_user: bool,
) -> Vec<End<'a>> {
    let is_url = |arg: &&Arg| arg.is_positional() || arg.get_value_hint() == ValueHint::Url;
    (command.get_arguments().filter(is_url))
        .filter_map(|arg| matches.try_get_raw(arg.get_id().as_str()).ok().flatten())
        .flatten()
        .map(|word| {
            let named = config.place(word);
            let (place, mut url) = match named {
                Some((name, place, url)) => (Some((name, place)), url),
                None => (None, word.to_owned()),
            };
            let user = place.and_then(|(_, place)| place.user.as_deref());
            if let Some(user) = user.filter(|_| !has_user) {
                url = with_user(url, user);
            }
            let site = match Location::parse_os(&url) {
                Ok(Location::Remote(remote)) => Some(remote.site),
                _ => None,
            };
            End {
                word,
                place,
                url,
                site,
                is_destination: false,
            }
        })
        .collect()
}

/// The flag of the command by which a flag of a place holds at its own server.
///
/// # Errors
/// Another server, where it would hold too.
fn of_end<'a>(
    end: &End<'_>,
    ends: &[End<'_>],
    flag: &'a str,
    is_copy: bool,
) -> Result<&'a str, String> {
    if !has(OF_SERVER, flag) {
        return Ok(flag);
    }
    let is_credential = flag == "cred" && is_copy;
    let others = ends.iter().filter_map(|other| {
        let site = other.site.as_ref()?;
        let of_other = other.values(flag);
        let is_apart = !other.is_with(end) || is_credential && of_other.is_some();
        (is_apart && of_other != end.values(flag)).then_some((other.is_destination, site))
    });
    let others: Vec<_> = others.collect();
    let flag_of_end = match (is_credential, end.is_destination) {
        _ if others.is_empty() => Some(flag),
        (true, true) => Some("dst-cred"),
        (true, false) => others
            .iter()
            .all(|(is_last, _)| *is_last)
            .then_some("src-cred"),
        (false, _) => None,
    };
    let named = || others.first().map(|(_, site)| site.to_string());
    flag_of_end.ok_or_else(|| named().unwrap_or_default())
}

/// Names the account in a URL of a server that names none.
fn with_user(url: OsString, user: &str) -> OsString {
    let Some((text, Ok(Location::Remote(remote)))) =
        url.to_str().map(|text| (text, Location::parse(text)))
    else {
        return url;
    };
    if remote.site.user.is_some() {
        return url;
    }
    // Hosts that are reached through ssh may have no scheme.
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) if !scheme.contains(['/', ':']) => (format!("{scheme}://"), rest),
        _ => (String::new(), text),
    };
    let user = utf8_percent_encode(user, NON_ALPHANUMERIC);
    format!("{scheme}{user}@{rest}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_place_goes_into_its_url() {
        for (url, expected) in [
            ("ftp://h/a", "ftp://ann%40x@h/a"),
            ("ftp://bob@h/a", "ftp://bob@h/a"),
            ("ftp://[::1]:2811/a@b", "ftp://ann%40x@[::1]:2811/a@b"),
            ("host:/a://b", "ann%40x@host:/a://b"),
        ] {
            let named = with_user(url.into(), "ann@x");
            assert_eq!(named, expected);
            let Ok(Location::Remote(remote)) = Location::parse_os(&named) else {
                panic!("{expected} is no URL of a server");
            };
            assert_ne!(remote.site.user, None);
        }
    }
}

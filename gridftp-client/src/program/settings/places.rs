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
use super::{is_covered, lost_its_pair, value_of};
use crate::url::{Location, Site};

/// Flags that hold at the server of their place alone.
pub(super) const OF_SERVER: &str =
    "security ca cert key cred delegation subject names remote-program trust-pasv-address";

/// Flags of accounts and of data between two servers, which a place may not set for another server.
pub(super) const NOT_FOR_OTHERS: &str =
    "netrc protect src-cred dst-cred dcau data-cred stack disk-stack";

/// A location on the command line.
struct End<'a> {
    word: &'a OsStr,
    place: Option<(&'a str, &'a NamedPlace)>,
    /// The URL of a place, or the word itself.
    url: OsString,
    site: Option<Site>,
    is_destination: bool,
    /// Name of the place in force at the server, and its flags for that server alone.
    held: Option<(&'a str, Values)>,
}

impl<'a> End<'a> {
    /// Returns whether both are of one server.
    fn is_with(&self, other: &Self) -> bool {
        let server = |end: &Self| {
            let site = end.site.as_ref()?;
            Some((site.scheme, site.host.to_ascii_lowercase(), site.port))
        };
        server(self) == server(other)
    }

    /// The values of a flag of its place.
    fn named(&self, flag: &str) -> Option<&Vec<OsString>> {
        self.place.and_then(|(_, place)| place.flags.get(flag))
    }

    /// The flags for its server alone.
    fn held(&self) -> Option<&Values> {
        self.held.as_ref().map(|(_, flags)| flags)
    }

    /// The values of a flag at its server.
    fn values(&self, flag: &str) -> Option<&Vec<OsString>> {
        let held = self.held().and_then(|held| held.get(flag));
        held.or_else(|| self.named(flag))
    }

    /// The first of other servers for which its place would say something else by a flag.
    fn other<'b>(&self, ends: &'b [Self], flag: &str) -> Option<&'b Site> {
        let mut others = ends.iter().filter(|other| !other.is_with(self));
        others.find_map(|other| {
            let site = other.site.as_ref()?;
            (other.values(flag) != self.values(flag)).then_some(site)
        })
    }

    /// Its place, and those of its flags that hold at the server of `at` alone.
    fn own(
        &self,
        at: &Self,
        is_left_out: impl Fn(&NamedPlace, &Self, &str) -> bool,
    ) -> Option<(&'a str, Values)> {
        let (name, place) = self.place?;
        let is_own = |flag: &str| has(OF_SERVER, flag) && !is_left_out(place, at, flag);
        let own = place.flags.iter().filter(|(flag, _)| is_own(flag));
        let mut own: Values = own.map(|(flag, all)| (flag.clone(), all.clone())).collect();
        if !own.contains_key("cert") {
            // It is of another certificate.
            own.remove("key");
        }
        (!own.is_empty()).then_some((name, own))
    }
}

/// The flags of a place that hold at its own server, and at no other one of a command.
#[derive(Debug)]
pub(super) struct OwnFlags {
    pub(super) place: String,
    /// The URLs that name the server.
    pub(super) urls: Vec<OsString>,
    pub(super) flags: Values,
}

/// Flags of the places in a command line.
#[derive(Debug)]
pub(super) struct PlaceFlags {
    /// Those of the whole command.
    pub(super) all: Values,
    /// Those of single servers.
    pub(super) own: Vec<OwnFlags>,
}

/// Replaces places by their URLs, with their users, and returns their other flags. Those that
/// `is_taken` says to be on the command line or in the environment are left out.
pub(super) fn expand(
    config: &Config,
    command: &Command,
    matches: &ArgMatches,
    words: &mut [OsString],
    is_taken: impl Fn(&str) -> bool,
) -> anyhow::Result<PlaceFlags> {
    let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let mut ends = ends(config, command, matches, is_taken("user"));
    let is_copy = is_copy(command, is_given);
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
    let is_left_out = |place: &NamedPlace, at: &End<'_>, flag: &str| {
        let of_end = if at.is_destination {
            "dst_cred"
        } else {
            "src_cred"
        };
        settable(command, flag).is_none_or(|arg| is_taken(arg.get_id().as_str()))
            || lost_its_pair(flag, &place.flags, &is_taken)
            || is_covered(flag, &is_taken)
            || is_copy && flag == "cred" && is_taken(of_end)
            || flag == "backup-dir" && !at.is_destination
    };
    hold(&mut ends, is_left_out).map_err(|error| error.context(path.to_string()))?;
    let own = own_flags(&ends);
    let mut named: BTreeMap<&str, (&str, &Vec<OsString>)> = BTreeMap::new();
    for end in &ends {
        let Some((name, place)) = end.place else {
            continue;
        };
        for (flag, values) in &place.flags {
            let is_own = |own: &OwnFlags| own.place == name && own.flags.contains_key(flag);
            if own.iter().any(is_own) || is_left_out(place, end, flag) {
                continue;
            }
            let stays = has(NOT_FOR_OTHERS, flag) || has(OF_SERVER, flag);
            if let Some(site) = end.other(&ends, flag).filter(|_| stays) {
                bail!(
                    "{path}: {flag} of [place.{name}] would also hold at {site}; write --{flag} to \
                     say so for both"
                );
            }
            let (other, before) = *named.entry(flag).or_insert((name, values));
            ensure!(
                before == values,
                "{path}: {flag} differs between [place.{other}] and [place.{name}]; write --{flag}",
            );
        }
    }
    let owned = |(flag, (_, values)): (&str, (_, &Vec<_>))| (flag.to_owned(), values.clone());
    Ok(PlaceFlags {
        all: named.into_iter().map(owned).collect(),
        own,
    })
}

/// Gives each URL of a server the flags of its place that hold there alone. One without such flags
/// has those of a place at its server.
///
/// # Errors
/// Two places differ in such a flag for one URL.
fn hold<'a>(
    ends: &mut [End<'a>],
    is_left_out: impl Fn(&NamedPlace, &End<'a>, &str) -> bool,
) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for end in &*ends {
        let is_bare = end.own(end, &is_left_out).is_none();
        let places = ends.iter().filter(|other| {
            let is_its = is_bare && other.is_with(end) || other.url == end.url;
            end.site.is_some() && is_its
        });
        let mut found = places.filter_map(|other| other.own(end, &is_left_out));
        let first = found.next();
        if let Some((one, own)) = &first
            && let Some((two, other)) = found.find(|(_, other)| own != other)
        {
            let mut flags = own.keys().chain(other.keys());
            let flag = flags.find(|flag| own.get(*flag) != other.get(*flag));
            let (flag, url) = (flag.map_or("", String::as_str), end.url.display());
            bail!(
                "{flag} differs between [place.{one}] and [place.{two}] for {url}; write --{flag}"
            );
        }
        all.push(first);
    }
    for (end, held) in ends.iter_mut().zip(all) {
        end.held = held;
    }
    Ok(())
}

/// The flags that hold at single servers; none where all servers of the command have the same ones.
fn own_flags(ends: &[End<'_>]) -> Vec<OwnFlags> {
    let sites: Vec<_> = ends.iter().filter(|end| end.site.is_some()).collect();
    let is_one = sites
        .windows(2)
        .all(|two| matches!(two, [a, b] if a.held() == b.held()));
    let mut found: Vec<OwnFlags> = Vec::new();
    for end in sites.into_iter().filter(|_| !is_one) {
        let Some((name, own)) = &end.held else {
            continue;
        };
        let known = found
            .iter_mut()
            .find(|it| it.place == *name && it.flags == *own);
        match known {
            Some(known) => known.urls.push(end.url.clone()),
            None => found.push(OwnFlags {
                place: (*name).to_owned(),
                urls: vec![end.url.clone()],
                flags: own.clone(),
            }),
        }
    }
    found
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
                held: None,
            }
        })
        .collect()
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

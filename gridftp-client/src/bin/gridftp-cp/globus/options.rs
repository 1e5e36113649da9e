//! The options of `globus-url-copy`, each with its meaning in our own words or the reason why not.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use gridftp_client::options::Compare;

/// The output about files that are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Verbosity {
    #[default]
    Nothing,
    /// Names.
    Names,
    /// Names, and bytes and rate each second.
    Rates,
}

/// The information that is asked for in place of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    Help,
    Version,
}

/// A command line of `globus-url-copy`.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// The same in words of `gridftp-cp`.
    pub(super) words: Vec<OsString>,
    pub(super) urls: Vec<OsString>,
    pub(super) ask: Option<Query>,
    pub(super) shown: Verbosity,
    pub(super) list: Option<OsString>,
    /// `-f`.
    pub(super) pairs_from: Option<PathBuf>,
    /// `-df`.
    pub(super) dump: Option<PathBuf>,
    /// `-do`.
    pub(super) plan: Option<PathBuf>,
    /// `-c`.
    pub(super) goes_on: bool,
    /// `-r`.
    pub(super) recursive: bool,
    /// `-rp`.
    pub(super) relative: bool,
    /// `-notpt`.
    pub(super) relays: bool,
    /// `-ss` and `-ds`.
    pub(super) subjects: [Option<OsString>; 2],
    /// `-t`.
    pub(super) within: Option<Duration>,
    /// `-stall-timeout`; 0 for none.
    pub(super) stall: Option<Duration>,
    restarts: Restarts,
    sync: Option<u8>,
    verifies: bool,
    algorithm: Option<OsString>,
    protection: Option<&'static str>,
}

/// `-rst` and the options with that beginning.
#[derive(Debug, Default)]
struct Restarts {
    on: bool,
    most: Option<u32>,
    interval: Option<Duration>,
    within: Option<u64>,
}

/// The meaning of an option.
enum Meaning {
    /// The behaviour of every copy.
    Always,
    /// Our words.
    Words(&'static [&'static str]),
    /// Our flag with the same value.
    Flag(&'static str),
    /// A choice that is made.
    Sets(fn(&mut Options)),
    /// A choice with a value.
    Takes(fn(&mut Options, &OsStr) -> Result<(), String>),
    /// No value, and why it cannot be honoured.
    Refuses(&'static str),
    /// The same of an option with a value.
    RefusesValue(&'static str),
}

use Meaning::{Always, Flag, Refuses, RefusesValue, Sets, Takes, Words};

const STORAGE: &str = "storage modules of a session are not chosen by clients";
const ASSERTION: &str = "authorization assertions are not sent";
const POPEN: &str = "programs at servers are not run";
const ONE_END: &str = "both ends have one stack; use the option for both";

/// Names of each option, and its meaning.
const OPTIONS: &[(&[&str], Meaning)] = &[
    (&["help", "usage"], Sets(|it| it.ask = Some(Query::Help))),
    (
        &["version", "versions"],
        Sets(|it| it.ask = Some(Query::Version)),
    ),
    (&["c", "continue-on-error"], Sets(|it| it.goes_on = true)),
    (
        &["a", "ascii"],
        Refuses("text is not converted; files are copied as they are"),
    ),
    (&["b", "binary"], Always),
    (&["f"], Takes(|it, file| path(&mut it.pairs_from, file))),
    // Directories are made anyway.
    (&["cd", "create-dest"], Always),
    (&["r", "recurse"], Sets(|it| it.recursive = true)),
    (&["fast"], Words(&["--mode", "extended"])),
    (&["t"], Takes(|it, text| seconds(&mut it.within, text))),
    (&["q", "quiet"], Words(&["--quiet"])),
    (
        &["v", "verbose"],
        Sets(|it| it.shown = it.shown.max(Verbosity::Names)),
    ),
    (
        &["vb", "verbose-perf"],
        Sets(|it| it.shown = Verbosity::Rates),
    ),
    (&["dbg", "debugftp"], Words(&["--debug"])),
    (&["rst", "restart"], Sets(|it| it.restarts.on = true)),
    (
        &["rst-retries"],
        Takes(|it, text| {
            it.restarts.most = Some(number(text)?);
            Ok(())
        }),
    ),
    (
        &["rst-interval"],
        Takes(|it, text| seconds(&mut it.restarts.interval, text)),
    ),
    (
        &["rst-timeout"],
        Takes(|it, text| {
            it.restarts.within = Some(number(text)?);
            Ok(())
        }),
    ),
    (
        &["stall-timeout", "st"],
        Takes(|it, text| seconds(&mut it.stall, text)),
    ),
    (
        &["df", "dumpfile"],
        Takes(|it, file| path(&mut it.dump, file)),
    ),
    (
        &["do", "dump-only"],
        Takes(|it, file| path(&mut it.plan, file)),
    ),
    (&["rp", "relative-paths"], Sets(|it| it.relative = true)),
    (&["s", "subject"], Flag("--subject")),
    (
        &["ss", "source-subject"],
        Takes(|it, text| subject(it, 0, text)),
    ),
    (
        &["ds", "dest-subject"],
        Takes(|it, text| subject(it, 1, text)),
    ),
    (&["tcp-bs", "tcp-buffer-size"], Flag("--tcp-buffer")),
    (&["bs", "block-size"], Flag("--block-size")),
    (
        &["p", "parallel"],
        Takes(|it, text| {
            it.say(&["--mode", "extended", "--parallel"]);
            it.words.push(text.to_owned());
            Ok(())
        }),
    ),
    (
        &["notpt", "no-third-party-transfers"],
        Sets(|it| it.relays = true),
    ),
    (
        &["nodcau", "no-data-channel-authentication"],
        Words(&["--dcau", "none"]),
    ),
    (
        &["dcsafe", "data-channel-safe"],
        Sets(|it| it.protection = Some("safe")),
    ),
    (
        &["dcpriv", "data-channel-private"],
        Sets(|it| it.protection = Some("private")),
    ),
    (&["off", "partial-offset"], Flag("--offset")),
    (&["len", "partial-length"], Flag("--length")),
    (
        &["list"],
        Takes(|it, url| {
            it.list = Some(url.to_owned());
            Ok(())
        }),
    ),
    // All stripes of a server are used anyway.
    (&["stripe", "striped"], Always),
    (
        &["sbs", "striped-block-size"],
        Takes(|it, text| {
            match number::<u64>(text)? {
                0 => it.say(&["--stripe-layout", "partitioned"]),
                _ => it.words.extend(["--stripe-block".into(), text.to_owned()]),
            }
            Ok(())
        }),
    ),
    // Both families are used anyway.
    (&["ipv6"], Always),
    (&["udt", "u"], Words(&["--stack", "udt"])),
    // Commands of GridFTP version 2 are not used.
    (&["no-g2", "nogridftp2", "nog2", "g2"], Always),
    (
        &["dp", "delayed-pasv"],
        Refuses("servers tell their address before the file is known"),
    ),
    (&["mn", "module-name"], RefusesValue(STORAGE)),
    (&["mp", "module-parameters"], RefusesValue(STORAGE)),
    (&["smn", "src-module-name"], RefusesValue(STORAGE)),
    (&["smp", "src-module-parameters"], RefusesValue(STORAGE)),
    (&["dmn", "dst-module-name"], RefusesValue(STORAGE)),
    (&["dmp", "dst-module-parameters"], RefusesValue(STORAGE)),
    (&["aa", "authz-assert"], RefusesValue(ASSERTION)),
    (&["saa", "src-authz-assert"], RefusesValue(ASSERTION)),
    (&["daa", "dst-authz-assert"], RefusesValue(ASSERTION)),
    (&["cache-aa", "cache-authz-assert"], Refuses(ASSERTION)),
    (&["cache-saa", "cache-src-authz-assert"], Refuses(ASSERTION)),
    (&["cache-daa", "cache-dst-authz-assert"], Refuses(ASSERTION)),
    // Commands are pipelined anyway, as far as the server allows.
    (&["pipeline", "pp"], Always),
    (&["ppq"], Takes(|_, text| number::<u32>(text).map(drop))),
    (&["concurrency", "cc"], Flag("--concurrency")),
    (
        &["nl-bottleneck", "nlb"],
        Refuses("there is no NetLogger; gridftp speed measures the parts of the way"),
    ),
    (&["src-pipe", "SP"], RefusesValue(POPEN)),
    (&["dst-pipe", "DP"], RefusesValue(POPEN)),
    (&["pipe", "P"], RefusesValue(POPEN)),
    (
        &["dcstack", "data-channel-stack"],
        Takes(|it, text| {
            let text = text.to_str().ok_or("it is no text")?;
            // That layer is there wherever data channels are authenticated.
            let drivers: Vec<_> = text.split(',').filter(|one| *one != "gsi").collect();
            it.say(&["--stack", &drivers.join(",")]);
            Ok(())
        }),
    ),
    (&["fsstack", "file-system-stack"], Flag("--disk-stack")),
    (
        &["src-dcstack", "source-data-channel-stack"],
        RefusesValue(ONE_END),
    ),
    (
        &["src-fsstack", "source-file-system-stack"],
        RefusesValue(ONE_END),
    ),
    (
        &["dst-dcstack", "dest-data-channel-stack"],
        RefusesValue(ONE_END),
    ),
    (
        &["dst-fsstack", "dest-file-system-stack"],
        RefusesValue(ONE_END),
    ),
    (&["cred"], Flag("--cred")),
    (&["src-cred", "sc"], Flag("--src-cred")),
    (&["dst-cred", "dc"], Flag("--dst-cred")),
    (
        &["data-cred"],
        Takes(|it, text| {
            if text != "auto" {
                return Err(
                    "data connections have the credential of the session, or auto".to_owned(),
                );
            }
            it.say(&["--data-cred", "auto"]);
            Ok(())
        }),
    ),
    (
        &["af", "alias-file"],
        RefusesValue("a host stands for itself; name it in the URL"),
    ),
    (&["sync"], Sets(|it| it.sync = it.sync.or(Some(2)))),
    (
        &["sync-level"],
        Takes(|it, text| {
            let level = number(text)?;
            it.sync = Some(level);
            match level {
                0..=3 => Ok(()),
                _ => Err("levels are 0 to 3".to_owned()),
            }
        }),
    ),
    (
        &["checksum-alg"],
        Takes(|it, text| {
            it.algorithm = Some(text.to_owned());
            Ok(())
        }),
    ),
    (&["verify-checksum"], Sets(|it| it.verifies = true)),
    (&["preserve", "cp", "allo"], Always),
    (
        &["no-allo"],
        Refuses("sizes are told to servers that take them"),
    ),
    (&["X"], RefusesValue("there are no extensions")),
    (&["MC"], RefusesValue("a file is copied to one place")),
    (&["CP"], RefusesValue("there are no plugins")),
];

fn path(place: &mut Option<PathBuf>, text: &OsStr) -> Result<(), String> {
    *place = Some(text.into());
    Ok(())
}

fn subject(it: &mut Options, end: usize, text: &OsStr) -> Result<(), String> {
    if let Some(place) = it.subjects.get_mut(end) {
        *place = Some(text.to_owned());
    }
    Ok(())
}

fn number<T: std::str::FromStr>(text: &OsStr) -> Result<T, String> {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("{}: is no number", text.display()))
}

fn seconds(place: &mut Option<Duration>, text: &OsStr) -> Result<(), String> {
    *place = Some(Duration::from_secs(number(text)?));
    Ok(())
}

impl Options {
    /// Reads a command line without the name of the program. An error names the option, and why it
    /// cannot be honoured.
    pub(super) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut it = Self::default();
        let mut args = args.into_iter();
        let mut number = 0;
        while let Some(word) = args.next() {
            number += 1;
            let name = word.to_str().and_then(|word| word.strip_prefix('-'));
            let Some(name) = name.filter(|name| !name.is_empty()) else {
                it.urls.push(word);
                continue;
            };
            let failed = |why: &str| format!("argument #{number} ({}) : {why}", word.display());
            let known = OPTIONS.iter().find(|(names, _)| names.contains(&name));
            let (_, meaning) = known.ok_or_else(|| failed("unknown option"))?;
            let mut value = || args.next().ok_or_else(|| failed("not enough arguments"));
            match meaning {
                Always => {}
                Words(words) => it.say(words),
                Flag(flag) => it.words.extend([OsString::from(flag), value()?]),
                Sets(choose) => choose(&mut it),
                Takes(choose) => {
                    let value = value()?;
                    choose(&mut it, &value).map_err(|why| failed(&why))?;
                }
                Refuses(why) | RefusesValue(why) => {
                    return Err(failed(&format!("cannot be honoured: {why}")));
                }
            }
        }
        it.complete();
        Ok(it)
    }

    fn say(&mut self, words: &[&str]) {
        self.words.extend(words.iter().map(OsString::from));
    }

    /// Adds the words for options that depend on each other, and for defaults that differ.
    fn complete(&mut self) {
        // Protected data is asked for there; the ends of data connections are known all the same.
        self.say(&["--protect", self.protection.unwrap_or("clear")]);
        let restarts = std::mem::take(&mut self.restarts);
        let retries = match (restarts.on, restarts.most) {
            (false, _) => 0,
            (true, None) => 5,
            (true, Some(0)) => u32::MAX,
            (true, Some(most)) => most,
        };
        let within = restarts.within.filter(|_| restarts.on).unwrap_or(0);
        self.say(&[
            "--retries",
            &retries.to_string(),
            "--retry-for",
            &within.to_string(),
        ]);
        self.restarts = restarts;
        if !self.goes_on {
            self.say(&["--fail-fast"]);
        }
        match self.sync {
            Some(0) => self.say(&["--no-clobber"]),
            Some(3) => self.say(&["--checksum"]),
            _ => {}
        }
        if self.verifies {
            let algorithm = self.algorithm.clone().unwrap_or_else(|| "MD5".into());
            let mut word = OsString::from("--verify=");
            word.push(algorithm);
            self.words.push(word);
        }
    }

    /// The way to compare of `-sync-level`, where no word of ours has it.
    pub(super) fn compare(&self) -> Option<Compare> {
        match self.sync? {
            1 => Some(Compare::Size),
            2 => Some(Compare::NotOlder),
            _ => None,
        }
    }

    /// The pause before the first attempt again, where one is asked for.
    pub(super) fn interval(&self) -> Option<Duration> {
        self.restarts.interval.filter(|pause| !pause.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn an_option_has_one_meaning() {
        let names = || OPTIONS.iter().flat_map(|(names, _)| names.iter());
        for name in names() {
            assert_eq!(names().filter(|other| *other == name).count(), 1, "{name}");
        }
    }

    #[test]
    fn options_become_our_words() {
        for (line, words) in [
            ("-p 4 a b", "--mode extended --parallel 4"),
            ("-dcpriv a b", "--protect private"),
            ("-tcp-bs 65536 a b", "--tcp-buffer 65536"),
            ("-sbs 0 a b", "--stripe-layout partitioned"),
            ("-sbs 4096 a b", "--stripe-block 4096"),
            ("-rst a b", "--retries 5 --retry-for 0"),
            (
                "-rst -rst-retries 0 -rst-timeout 9 a b",
                "--retries 4294967295 --retry-for 9",
            ),
            ("-dcstack tcp,gsi a b", "--stack tcp"),
            ("-sync -sync-level 3 a b", "--checksum"),
            (
                "-verify-checksum -checksum-alg SHA256 a b",
                "--verify=SHA256",
            ),
        ] {
            let wanted = parse(line).unwrap();
            let said: Vec<_> = wanted
                .words
                .iter()
                .map(|word| word.to_str().unwrap())
                .collect();
            assert!(said.join(" ").contains(words), "{line}: {said:?}");
            assert_eq!(wanted.urls, ["a", "b"]);
        }
        assert_eq!(
            parse("-sync a b").unwrap().compare(),
            Some(Compare::NotOlder)
        );
        assert_eq!(parse("-vb -v a b").unwrap().shown, Verbosity::Rates);
    }

    #[test]
    fn what_cannot_be_honoured_is_told() {
        for (line, told) in [
            ("-frob a b", "argument #1 (-frob) : unknown option"),
            ("a b -p", "argument #3 (-p) : not enough arguments"),
            ("-a a b", "argument #1 (-a) : cannot be honoured: text is"),
            (
                "-mn x a b",
                "argument #1 (-mn) : cannot be honoured: storage",
            ),
            ("-t soon a b", "argument #1 (-t) : soon: is no number"),
            ("-sync-level 4 a b", "levels are 0 to 3"),
            ("-data-cred x a b", "or auto"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}

//! A command line of `globus-url-copy`, and the same in words of `gridftp-cp`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use gridftp_client::options::Compare;
use gridftp_client::program::values::LONGEST;
use gridftp_dsi::types::ChecksumAlgorithm;

use super::table::{Meaning, OPTIONS};

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
    /// `-ss` and `-ds`.
    pub(super) subjects: [Option<OsString>; 2],
    /// `-t`.
    pub(super) within: Option<Duration>,
    /// `-stall-timeout`; 0 for none.
    pub(super) stall: Option<Duration>,
    pub(super) restarts: Restarts,
    pub(super) sync: Option<u8>,
    pub(super) verifies: bool,
    /// `-checksum-alg`.
    pub(super) algorithm: Option<ChecksumAlgorithm>,
    /// `-cp`, which may be there twice.
    pub(super) preserves: bool,
    pub(super) protection: Option<&'static str>,
}

/// `-rst` and the options with that beginning.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    pub(super) on: bool,
    pub(super) most: Option<u32>,
    pub(super) interval: Option<Duration>,
    pub(super) within: Option<u64>,
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
                Meaning::Always(_) => {}
                Meaning::Words(words) => it.say(words),
                Meaning::Flag(flag) => it.words.extend([OsString::from(flag), value()?]),
                Meaning::Sets(choose) => choose(&mut it),
                Meaning::Takes(choose) => {
                    let value = value()?;
                    choose(&mut it, &value).map_err(|why| failed(&why))?;
                }
                Meaning::Refuses(why) | Meaning::RefusesValue(why) => {
                    return Err(failed(&format!("cannot be honoured: {why}")));
                }
            }
        }
        it.complete();
        Ok(it)
    }

    pub(super) fn say(&mut self, words: &[&str]) {
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
        let within = within.min(LONGEST);
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
            let algorithm = self.algorithm.unwrap_or(ChecksumAlgorithm::Md5);
            self.say(&[&format!("--verify={}", algorithm.name())]);
        }
        if self.preserves {
            self.say(&["--preserve"]);
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
            (
                "a b",
                "--protect clear --retries 0 --retry-for 0 --fail-fast",
            ),
            ("-fast a b", "--mode extended"),
            ("-cc 3 a b", "--concurrency 3"),
            ("-bs 65536 a b", "--block-size 65536"),
            ("-off 3 -len 4 a b", "--offset 3 --length 4"),
            ("-notpt a b", "--relay always"),
            ("-nodcau a b", "--dcau none"),
            ("-dcsafe a b", "--protect safe"),
            ("-udt a b", "--stack udt"),
            ("-fsstack file a b", "--disk-stack file"),
            ("-s /CN=x a b", "--subject /CN=x"),
            ("-cred x a b", "--cred x"),
            ("-sc x -dc y a b", "--src-cred x --dst-cred y"),
            ("-data-cred auto a b", "--data-cred auto"),
            ("-q -dbg a b", "--quiet --debug"),
            ("-sync -sync-level 0 a b", "--no-clobber"),
            ("-dcpriv a b", "--protect private"),
            ("-tcp-bs 65536 a b", "--tcp-buffer 65536"),
            ("-sbs 0 a b", "--stripe-layout partitioned"),
            ("-sbs 4096 a b", "--stripe-block 4096"),
            ("-rst a b", "--retries 5 --retry-for 0"),
            (
                "-rst -rst-retries 0 -rst-timeout 9 a b",
                "--retries 4294967295 --retry-for 9",
            ),
            ("-rst -rst-timeout 9999999999 a b", "--retry-for 864000000"),
            ("-dcstack tcp,gsi a b", "--stack tcp"),
            ("-sync -sync-level 3 a b", "--checksum"),
            (
                "-verify-checksum -checksum-alg SHA256 a b",
                "--verify=SHA256",
            ),
            ("-checksum -algo sha-512 a b", "--verify=SHA512"),
            ("-cp -preserve a b", "--preserve"),
            ("-restart -restart-retries 2 a b", "--retries 2"),
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
        let goes_on = parse("-c a b").unwrap();
        assert!(!goes_on.words.iter().any(|word| word == "--fail-fast"));
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
            ("-algo crc a b", "argument #1 (-algo) : unknown algorithm"),
            (
                "-sp x a b",
                "argument #1 (-sp) : cannot be honoured: programs",
            ),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}

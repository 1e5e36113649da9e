//! `ChoiceFlags`: the part of the command line that chooses the files to copy.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::{ArgMatches, Args, FromArgMatches, ValueHint};
use gridftp_client::program::failed_list::names;
use gridftp_client::program::values::{LONGEST, size, time};
use gridftp_client::{Choice, Filter};

/// Choices of files, with the order of the rules among them.
#[derive(Debug)]
pub(crate) struct ChoiceFlags {
    args: ChoiceArgs,
    /// Places of the rules on the command line.
    order: Vec<(usize, Rule)>,
}

/// A rule, or a file of them.
#[derive(Debug)]
enum Rule {
    Include(OsString),
    Exclude(OsString),
    From(PathBuf),
}

#[derive(Debug, Args)]
struct ChoiceArgs {
    /// Copy the files that PATTERN fits, and no others unless a rule excludes some. Of all rules the
    /// first that fits decides: *.c fits in every directory, /a/*.c from the source directory on, a/
    /// directories and all in them, ** slashes too. No rule is needed for the directories of such
    /// files: the */ that rsync needs there takes all files in them
    #[arg(long, value_name = "PATTERN")]
    include: Vec<OsString>,

    /// Leave out the files and directories that PATTERN fits
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<OsString>,

    /// Read rules from FILE, one a line: + PATTERN, - PATTERN, ! to drop those before, # for comments
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    filter_from: Vec<PathBuf>,

    /// Copy only the names in FILE, or - for standard input, relative to the one source directory:
    /// one a line, or each ended by a NUL
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files_from: Option<PathBuf>,

    /// Leave out larger files; K, M and G are accepted
    #[arg(long, value_name = "BYTES", value_parser = size)]
    max_size: Option<u64>,

    /// Leave out smaller files; K, M and G are accepted
    #[arg(long, value_name = "BYTES", value_parser = size)]
    min_size: Option<u64>,

    /// Leave out files that were modified longer ago, in seconds, or as 90m, 12h, 7d or 2w; files of
    /// which the server tells no time are copied, with a warning
    #[arg(long, value_name = "TIME", value_parser = time(0..=10 * LONGEST))]
    max_age: Option<Duration>,

    /// Copy no deeper than N components below the source directory: 1 for the files in it alone
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_depth: Option<u32>,
}

impl Args for ChoiceFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        ChoiceArgs::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        ChoiceArgs::augment_args_for_update(command)
    }
}

impl FromArgMatches for ChoiceFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let args = ChoiceArgs::from_arg_matches(matches)?;
        let places = |id: &str| matches.indices_of(id).into_iter().flatten();
        let include = args.include.iter().cloned().map(Rule::Include);
        let exclude = args.exclude.iter().cloned().map(Rule::Exclude);
        let from = args.filter_from.iter().cloned().map(Rule::From);
        let mut order: Vec<(usize, Rule)> = places("include")
            .zip(include)
            .chain(places("exclude").zip(exclude))
            .chain(places("filter_from").zip(from))
            .collect();
        order.sort_by_key(|(place, _)| *place);
        Ok(Self { args, order })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ChoiceFlags {
    /// The choice; reads the files that it names.
    pub(crate) fn choice(&self) -> anyhow::Result<Choice> {
        let args = &self.args;
        let is_input = |path: &&PathBuf| path.as_os_str() == "-";
        let lists = args.filter_from.iter().chain(&args.files_from);
        anyhow::ensure!(
            lists.filter(is_input).count() < 2,
            "usage: --filter-from, --files-from: standard input is one list"
        );
        let mut choice = Choice::default();
        choice.filter = self.filter()?;
        choice.max_size = args.max_size;
        choice.min_size = args.min_size;
        choice.max_depth = args.max_depth;
        if let Some(age) = args.max_age {
            let oldest = SystemTime::now().checked_sub(age);
            choice.not_before = Some(oldest.unwrap_or(SystemTime::UNIX_EPOCH));
        }
        let files = args.files_from.as_deref();
        if let Some(path) = files {
            let text = read(path)?;
            choice.names = Some(names(&text).map(<[u8]>::to_vec).collect());
        }
        Ok(choice)
    }

    fn filter(&self) -> anyhow::Result<Filter> {
        let mut filter = Filter::default();
        let bad = |flag: &str, pattern: &OsString, why: &str| {
            anyhow::anyhow!("usage: {flag} {}: {why}", pattern.display())
        };
        for (_, rule) in &self.order {
            match rule {
                Rule::Include(pattern) => filter
                    .include(pattern.as_bytes())
                    .map_err(|why| bad("--include", pattern, why))?,
                Rule::Exclude(pattern) => filter
                    .exclude(pattern.as_bytes())
                    .map_err(|why| bad("--exclude", pattern, why))?,
                Rule::From(path) => filter.add_rules(&read(path)?).map_err(|(line, why)| {
                    anyhow::anyhow!("--filter-from: {}: line {line}: {why}", path.display())
                })?,
            }
        }
        Ok(filter)
    }
}

/// Reads a file, or standard input.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    if path == Path::new("-") {
        let read = std::io::stdin().lock().read_to_end(&mut text);
        read.context("standard input: read")?;
        return Ok(text);
    }
    std::fs::read(path).with_context(|| format!("{}: read", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::flags::Flags;

    fn choice(args: &[&str]) -> anyhow::Result<Choice> {
        Flags::try_parse_from([&["gridftp-cp"], args, &["a", "b"]].concat())?
            .choice
            .choice()
    }

    #[test]
    fn rules_have_the_order_of_the_command_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"- *.o\n").unwrap();
        let path = file.path().to_str().unwrap();
        let mut wanted = Filter::default();
        wanted.exclude(b"a").unwrap();
        wanted.include(b"b").unwrap();
        wanted.exclude(b"*.o").unwrap();
        wanted.include(b"c").unwrap();
        let args = [
            "--exclude=a",
            "--include",
            "b",
            "--filter-from",
            path,
            "--include=c",
        ];
        assert_eq!(choice(&args).unwrap().filter, wanted);
    }

    #[test]
    fn bad_values_are_refused() {
        for args in [
            ["--include", "[a"],
            ["--exclude", ""],
            ["--filter-from", "/nowhere"],
            ["--max-age", "old"],
            ["--max-depth", "0"],
            ["--max-size", "much"],
            ["--files-from=-", "--filter-from=-"],
        ] {
            assert!(choice(&args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn names_end_with_their_lines_or_with_a_nul() {
        let read = |text: &'static [u8]| names(text).collect::<Vec<_>>();
        assert_eq!(read(b"a\n b \n\nc"), [&b"a"[..], b" b ", b"c"]);
        assert_eq!(read(b"a\nb\0c\0"), [&b"a\nb"[..], b"c"]);
    }

    #[test]
    fn ages_have_units() {
        let now = SystemTime::now();
        for text in ["7d", "1w", "1week"] {
            let oldest = choice(&["--max-age", text]).unwrap().not_before.unwrap();
            let age = now.duration_since(oldest).unwrap().as_secs();
            assert!(
                (7 * 86_400 - 60..=7 * 86_400).contains(&age),
                "{text}: {age}"
            );
        }
    }
}

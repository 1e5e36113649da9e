//! What the person who runs the bench chooses: parts, amounts, and where pictures go.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use workspace_benches::picture;

const USAGE: &str = "\
usage: cargo xtask bench udt [--quick] [--only PART] [--runs N] [--seconds S] [--pictures FOLDER]

  --only PART      loopback, emulator, links, mixed or sharing
  --runs N         of which the median counts; otherwise 5 on loopback, 15 mixed, 1 elsewhere
  --seconds S      that each flow over an emulated link takes; 30 otherwise
  --pictures FOLDER  for the pictures; none are drawn otherwise
  --quick          as little as shows that all works";

const PARTS: &[&str] = &["loopback", "emulator", "links", "mixed", "sharing"];

/// What was chosen.
#[derive(Debug)]
pub(crate) struct Options {
    only: Option<String>,
    runs: Option<usize>,
    /// Seconds that each flow over an emulated link takes.
    pub(crate) seconds: u32,
    /// Where pictures go.
    pub(crate) pictures: Option<PathBuf>,
    /// Whether this only shows that all works.
    pub(crate) quick: bool,
}

impl Options {
    /// Reads the words after the name of the bench.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        // Cargo passes `--bench` when it measures; as a test, little shows that all works.
        let measure = words.iter().any(|word| word == "--bench");
        let quick = !measure || words.iter().any(|word| word == "--quick");
        let mut options = Self {
            only: None,
            runs: quick.then_some(1),
            seconds: if quick { 2 } else { 30 },
            pictures: None,
            quick,
        };
        let mut words = words
            .iter()
            .filter(|word| !["--bench", "--quick"].contains(&word.as_str()));
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word} wants a value\n{USAGE}"))
            };
            match word.as_str() {
                "--only" => {
                    let part = value()?;
                    ensure!(
                        PARTS.contains(&part.as_str()),
                        "no part is called {part}\n{USAGE}"
                    );
                    options.only = Some(part.clone());
                }
                "--runs" => options.runs = Some(value()?.parse()?),
                "--seconds" => options.seconds = value()?.parse()?,
                "--pictures" => options.pictures = Some(picture::folder(value()?)),
                _ => bail!("{word}: unknown\n{USAGE}"),
            }
        }
        ensure!(
            options.runs != Some(0) && options.seconds > 0,
            "too little to measure\n{USAGE}"
        );
        Ok(options)
    }

    /// Whether a part is to be run.
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }

    /// How many runs there are of each thing, where so many are usual.
    pub(crate) fn runs(&self, usual: usize) -> usize {
        self.runs.unwrap_or(usual)
    }
}

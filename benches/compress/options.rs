//! What the person who runs the bench chooses: parts, amounts, and where pictures go.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use workspace_benches::picture;

const USAGE: &str = "\
usage: cargo xtask bench compress [--quick] [--only PART] [--size BYTES] [--seconds S] [--runs N] [--pictures FOLDER]

  --only PART      sizes, speed, streams, overhead or auto
  --size BYTES     of each set of data, as 1200M; 64M otherwise
  --seconds S      that each transfer takes; 1 otherwise
  --runs N         of which the median counts; 1 otherwise
  --pictures FOLDER  for the pictures; none are drawn otherwise
  --quick          as little as shows that all works";

const PARTS: &[&str] = &["sizes", "speed", "streams", "overhead", "auto"];

/// What was chosen.
#[derive(Debug)]
pub(crate) struct Options {
    only: Option<String>,
    /// Bytes of each set of data.
    pub(crate) size: usize,
    /// How long each transfer takes.
    pub(crate) time: Duration,
    /// How many transfers there are, of which the median counts.
    pub(crate) runs: usize,
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
            size: if quick { 1 << 20 } else { 64 << 20 },
            time: Duration::from_millis(if quick { 50 } else { 1000 }),
            runs: 1,
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
                "--size" => {
                    let size: xio_core::ByteSize = value()?.parse()?;
                    options.size = size.in_memory();
                }
                "--seconds" => options.time = Duration::try_from_secs_f64(value()?.parse()?)?,
                "--runs" => options.runs = value()?.parse()?,
                "--pictures" => options.pictures = Some(picture::folder(value()?)),
                _ => bail!("{word}: unknown\n{USAGE}"),
            }
        }
        ensure!(
            options.size >= 64 << 10 && options.runs > 0,
            "too little to measure\n{USAGE}"
        );
        Ok(options)
    }

    /// Whether a part is to be run.
    pub(crate) fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }
}

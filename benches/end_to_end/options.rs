//! What to measure and how much of it.

use anyhow::{Context, Result, bail, ensure};

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [--quick] [--only NAME]... [--runs N]

  bulk     one large file, MODE S and MODE E with 1 and 4 streams
  small    10,000 files of 1 kB, both directions
  link     500 files of 10 kB over an emulated link of 50 ms round trip (needs root)
  memory   server memory of 400 sessions in the middle of a slow download
  logins   logins per second

  --quick  smaller, for trying out; the numbers are no measurement";

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) runs: usize,
    pub(crate) quick: bool,
    only: Vec<String>,
}

impl Options {
    /// Reads the words; nothing when help was asked for.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut options = Self {
            runs: 5,
            quick: false,
            only: Vec::new(),
        };
        let mut runs = None;
        let mut words = words;
        while let Some(word) = words.next() {
            match word.as_str() {
                // Cargo itself says this to every bench.
                "--bench" => {}
                "--quick" => options.quick = true,
                "--runs" => runs = Some(words.next().context("--runs needs a number")?.parse()?),
                "--only" => {
                    let name = words.next().context("--only needs a name")?;
                    ensure!(
                        USAGE.contains(&format!("  {name} ")),
                        "nothing is called {name}\n{USAGE}"
                    );
                    options.only.push(name);
                }
                "--help" | "-h" => return Ok(None),
                other => bail!("{other} is not understood\n{USAGE}"),
            }
        }
        options.runs = runs.unwrap_or(if options.quick { 1 } else { 5 });
        Ok(Some(options))
    }

    /// Returns whether a measurement is to be made.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Returns the full amount, or the small one when quick.
    pub(crate) fn amount(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }
}

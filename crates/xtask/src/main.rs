//! `cargo xtask`: runs a chore with its arguments.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "chores print their results"
)]

mod bench;
mod chaos;
mod demo;
mod fuzz;
mod map;
mod metadata;
mod striped;
mod test;
mod tidy;

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail, ensure};

const USAGE: &str = "\
usage: cargo xtask CHORE

  demo [--quick]             copies files between the programs and compares them;
       [--striped]           over a front end and three data nodes, one of which is killed
  test [NAME...]             installs missing peers if possible, then runs all tests
  chaos [--rounds N] [--seed N] [--with ours|globus|vsftpd]
                             kills, stalls and resets the ends of random copies, and checks every
                             file, the bytes sent again and leftovers; large files without --with
  bench [--quick] [--only NAME] [--runs N]
                             ratios against the Globus programs; `bench stack` measures layers
  tidy                       checks ranks, manifests, licences, file lengths and the README's map
  map [--write]              prints the README's map, or updates it
  fuzz [TARGET] [SECONDS]    runs fuzz targets (needs nightly and cargo-fuzz)";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match chore(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn chore(words: &[String]) -> Result<()> {
    let (name, rest) = words
        .split_first()
        .map_or(("help", &[][..]), |(name, rest)| (name.as_str(), rest));
    match name {
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "chaos" => chaos::run(rest),
        "bench" => bench::run(rest),
        "tidy" => tidy::run(),
        "map" => map::run(rest),
        "fuzz" => fuzz::run(rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => bail!("no chore is called {other}\n{USAGE}"),
    }
}

/// Returns a command for the cargo that runs this chore.
fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(metadata::root());
    cargo
}

/// Runs a command, and returns an error unless it succeeds.
fn must(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    let words: Vec<_> = command
        .get_args()
        .map(|word| word.to_string_lossy())
        .collect();
    ensure!(
        status.success(),
        "{} {}: {status}",
        command.get_program().display(),
        words.join(" ")
    );
    Ok(())
}

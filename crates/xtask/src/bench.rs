//! Runs a bench of ratios in release mode with its arguments.

use anyhow::Result;
use workspace_tests::{Profile, binaries};

use crate::{cargo, must};

/// Runs the bench named by the first argument, or else the comparison with the Globus programs.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let (bench, rest) = match words.split_first() {
        Some((first, rest)) if !first.starts_with('-') => (first.as_str(), rest),
        _ => ("end_to_end", words),
    };
    let programs = binaries(Profile::Release)?;
    let mut bench_run = cargo();
    bench_run.args([
        "bench",
        "--quiet",
        "--package",
        "workspace-benches",
        "--bench",
        bench,
        "--",
    ]);
    must(bench_run.args(rest).env("GRIDFTP_BIN_DIR", programs))
}

//! Runs the benches that print ratios, in release, with the words given.

use anyhow::Result;
use workspace_tests::Profile;

use crate::{cargo, must};

/// Runs `stack` when that is the first word, else the comparison with the Globus programs.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let (bench, rest) = match words.split_first() {
        Some((first, rest)) if !first.starts_with('-') => (first.as_str(), rest),
        _ => ("end_to_end", words),
    };
    let mut build = cargo();
    build.args([
        "build",
        "--profile",
        Profile::Release.name(),
        "--package",
        "gridftp-server",
    ]);
    must(build.args(["--package", "gridftp-client", "--bins"]))?;
    must(
        cargo()
            .args([
                "bench",
                "--quiet",
                "--package",
                "workspace-benches",
                "--bench",
                bench,
                "--",
            ])
            .args(rest),
    )
}

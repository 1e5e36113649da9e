//! Runs the fuzz targets of `tests/fuzz`.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::metadata::root;
use crate::{cargo, must};

const SECONDS: &str = "60";

/// Runs one target, or all of them, for a number of seconds each.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let folder = root().join("tests/fuzz");
    let listed =
        fs::read_dir(folder.join("fuzz_targets")).context("tests/fuzz holds no fuzz_targets")?;
    let mut targets: Vec<String> = listed
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    targets.sort();
    let (only, seconds) = match words {
        [] => (None, SECONDS),
        [target] => (Some(target), SECONDS),
        [target, seconds] => (Some(target), seconds.as_str()),
        _ => bail!("fuzz takes a target and a number of seconds"),
    };
    if let Some(only) = only {
        ensure!(
            targets.contains(only),
            "no fuzz target {only}; the targets are {}",
            targets.join(", ")
        );
        targets.retain(|target| target == only);
    }
    for target in targets {
        let limit = format!("-max_total_time={seconds}");
        // `+nightly` works only with rustup's cargo, not with the cargo that runs this chore.
        must(
            cargo()
                .env_remove("RUSTUP_TOOLCHAIN")
                .env("RUSTUP_TOOLCHAIN", "nightly")
                // GCC's code and LLVM's sanitizer disagree about the memory of inlined functions.
                .env("CFLAGS", "-fno-sanitize-address-use-after-scope")
                .args([
                    "fuzz",
                    "run",
                    "--fuzz-dir",
                    "tests/fuzz",
                    &target,
                    "--",
                    &limit,
                ]),
        )
        .context("fuzzing needs a nightly toolchain and cargo-fuzz (cargo install cargo-fuzz)")?;
    }
    Ok(())
}

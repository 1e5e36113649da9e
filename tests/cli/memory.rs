//! Peak resident memory of a copy.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use workspace_tests::{ScriptedServer, Tree};

use crate::command;

/// Numbers of names in the two directories, both above the limit of names in memory.
const FEW: usize = 50_000;
const MANY: usize = 350_000;
/// Bound on the difference of two runs, in bytes for each further name; a kept name takes more.
const NOISE: usize = 40;

/// Returns the peak resident memory of a process so far, in KiB.
pub(crate) fn peak(child: &Child) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no VmHWM")?.parse()?)
}

/// Finds `files` in one directory, and returns the peak memory in KiB.
fn peak_of(files: usize) -> Result<u64> {
    let server = ScriptedServer::usual()?;
    for n in 0..files {
        server.file(&format!("/dir/a-name-of-some-length-{n}"), "");
    }
    let tree = Tree::new()?;
    let args = ["--dry-run", "-r", &server.url("dir/"), "to/"];
    let mut child = command(&tree, &args)?.stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(child.stdout.take().context("piped")?).lines();
    let (mut told, mut most) = (0, 0);
    for line in lines {
        told += usize::from(line?.contains("a-name-of-some-length"));
        // The process may exit after the last file.
        if told % 1000 == 0 && told < files {
            most = peak(&child)?;
        }
    }
    ensure!(child.wait()?.success());
    ensure!(told == files, "{told} of {files} files");
    Ok(most)
}

#[test]
fn memory_does_not_grow_with_the_names_of_a_directory() -> Result<()> {
    let (few, many) = (peak_of(FEW)?, peak_of(MANY)?);
    let growth = many.saturating_sub(few) << 10;
    ensure!(
        growth < u64::try_from((MANY - FEW) * NOISE)?,
        "{few} KiB for {FEW} names, {many} KiB for {MANY}"
    );
    Ok(())
}

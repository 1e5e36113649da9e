//! What a copy costs in memory, as the system counts it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use workspace_tests::{Played, Tree};

use crate::command;

/// What two runs may differ by, in KiB: a hundred bytes for each further name.
const NOISE: u64 = 10 << 10;

/// The most resident memory of a process so far, in KiB.
fn peak(child: &Child) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no VmHWM")?.parse()?)
}

/// Finds so many files in one directory, and gives the most memory that took, in KiB.
fn found(files: usize) -> Result<u64> {
    let server = Played::usual()?;
    for n in 0..files {
        server.file(&format!("/dir/a name of some length {n}"), "");
    }
    let tree = Tree::new()?;
    let args = ["--dry-run", "-r", &server.url("dir/"), "to/"];
    let mut child = command(&tree, &args)?.stdout(Stdio::piped()).spawn()?;
    let lines = BufReader::new(child.stdout.take().context("piped")?).lines();
    let (mut told, mut most) = (0, 0);
    for line in lines {
        told += usize::from(line?.contains("a name of some length"));
        // It ends soon after the last.
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
    // The few are more than may wait in memory.
    let (few, many) = (found(50_000)?, found(150_000)?);
    ensure!(
        many < few + NOISE,
        "{few} KiB for 50,000 names, {many} for 150,000"
    );
    Ok(())
}

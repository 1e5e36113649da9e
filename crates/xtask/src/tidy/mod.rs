//! Checks the rules of the repository that the compiler does not check.

mod files;
mod licences;
mod manifests;
mod ranks;

use std::fs;

use anyhow::{Result, bail};

use crate::map;
use crate::metadata::{Metadata, root};

/// Runs every check and reports all findings together.
pub(crate) fn run() -> Result<()> {
    let metadata = Metadata::read()?;
    let mut findings = Vec::new();
    ranks::check(&metadata, &mut findings);
    manifests::check(&metadata, &mut findings)?;
    licences::check(&metadata, &mut findings)?;
    files::check(&metadata, &mut findings)?;
    check_map(&metadata, &mut findings)?;
    if findings.is_empty() {
        println!("tidy: {} crates, no findings", metadata.members().len());
        return Ok(());
    }
    findings.sort();
    bail!("{} findings:\n{}", findings.len(), findings.join("\n"))
}

fn check_map(metadata: &Metadata, findings: &mut Vec<String>) -> Result<()> {
    let readme = fs::read_to_string(root().join("README.md"))?;
    if map::current(&readme)? != map::draw(metadata) {
        findings.push("README.md: the map is out of date; run `cargo xtask map --write`".into());
    }
    if readme.lines().count() > 150 {
        findings.push("README.md: more than 150 lines".into());
    }
    Ok(())
}

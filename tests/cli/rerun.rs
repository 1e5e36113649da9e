//! A copy of a tree that was killed, and is started again by the same command: finished files stay;
//! files that have changed at either end since are copied again.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Finished, tree_digests};

use crate::Bed;
use crate::journal::{kill_midway, notes};
use crate::stacks::bed;

/// Files of a tree, and the bytes of each.
const FILES: u64 = 64;
const SIZE: u64 = 1 << 20;
/// The flags of all runs, and those by which the first takes four seconds.
const FLAGS: [&str; 2] = ["-r", "--json"];
const SLOW: [&str; 2] = ["--bwlimit", "16M"];
/// Finished files of which the record tells before the kill.
const SAFE: u64 = 8;
/// Bytes of a line of the record.
const LINE: u64 = 33;

/// The trees of one direction.
struct Killed {
    bed: Bed,
    from: String,
    to: String,
    source: PathBuf,
    target: PathBuf,
}

impl Killed {
    /// Kills a copy once the record tells of some files.
    fn new(way: &str) -> Result<Self> {
        let syncs = (way != "up, unsynced").then_some("--sync-writes");
        let bed = bed(syncs.as_slice())?;
        let (from, to, source, target) = match way {
            "up" | "up, unsynced" => ("tree/".to_owned(), bed.url("to"), &bed.here, &bed.there),
            "down" => (bed.url("tree/"), "to".to_owned(), &bed.there, &bed.here),
            _ => ("tree/".to_owned(), "to".to_owned(), &bed.here, &bed.here),
        };
        for n in 0..FILES {
            source.file(&format!("tree/d{}/{n}", n % 3), SIZE, n)?;
        }
        let (source, target) = (source.path("tree"), target.path("to"));
        let killed = Self {
            bed,
            from,
            to,
            source,
            target,
        };
        let args = killed.args(&SLOW);
        let is_recorded = || killed.recorded().is_some_and(|lines| lines >= SAFE);
        let here = &killed.bed.here;
        kill_midway(here, &args, &notes(here), is_recorded)?;
        Ok(killed)
    }

    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let places = [self.from.as_str(), self.to.as_str()];
        [&FLAGS[..], more, &places[..]].concat()
    }

    /// The record, where there is one.
    fn record(&self) -> Option<PathBuf> {
        let mut entries = std::fs::read_dir(notes(&self.bed.here)).ok()?.flatten();
        let record =
            entries.find(|entry| entry.file_name().as_encoded_bytes().starts_with(b"done-"));
        Some(record?.path())
    }

    /// Files of which the record tells.
    fn recorded(&self) -> Option<u64> {
        let text = std::fs::read(self.record()?).ok()?;
        let title = text.iter().position(|byte| *byte == b'\n')? + 1;
        Some((text.len() - title) as u64 / LINE)
    }

    /// Repeats the command, which has to complete the tree; gives the number of files that were left
    /// as they are.
    fn again(&self, more: &[&str]) -> Result<u64> {
        let said = self.bed.cp(&self.args(more))?.ok()?;
        ensure!(
            tree_digests(&self.source)? == tree_digests(&self.target)?,
            "it differs: {}",
            said.report()
        );
        let same = same(&said).context("no summary")?;
        let files = format!("\"files\":{},", FILES - same);
        let end = said.stdout.lines().last().unwrap_or_default();
        ensure!(end.contains(&files), "{same}: {end}");
        Ok(same)
    }
}

/// The files of the summary that were there.
fn same(said: &Finished) -> Option<u64> {
    let end = said.stdout.lines().last()?;
    let (_, rest) = end.split_once("\"same\":")?;
    rest.split([',', '}']).next()?.parse().ok()
}

/// The files below a directory that have all their bytes under their own names.
fn whole(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if path.is_dir() {
            found.extend(whole(&path)?);
        } else if !is_hidden && entry.metadata()?.len() == SIZE {
            found.push(path);
        }
    }
    Ok(found)
}

fn each(act: impl Fn(&Killed) -> Result<()>) -> Result<()> {
    for way in ["up", "up, unsynced", "down", "here"] {
        Killed::new(way)
            .and_then(|killed| act(&killed))
            .context(way)?;
    }
    Ok(())
}

#[test]
fn the_same_command_leaves_the_files_that_a_killed_one_finished() -> Result<()> {
    each(|killed| {
        let recorded = killed.recorded().context("no record")?;
        ensure!((SAFE..FILES).contains(&recorded), "{recorded}");
        let planned = killed.bed.cp(&killed.args(&["--dry-run"]))?.ok()?;
        ensure!(same(&planned) == Some(recorded), "{}", planned.report());
        ensure!(killed.recorded() == Some(recorded), "a dry run changes it");
        let same = killed.again(&[])?;
        ensure!(same == recorded, "{same} of {recorded}");
        ensure!(
            killed.record().is_none(),
            "the record of a complete tree stays"
        );
        ensure!(killed.again(&[])? == 0, "a complete copy is not repeated");
        Ok(())
    })
}

#[test]
fn files_that_changed_behind_a_kill_are_copied_again() -> Result<()> {
    each(|killed| {
        for (n, copy) in whole(&killed.target)?.iter().enumerate() {
            let source = killed.source.join(copy.strip_prefix(&killed.target)?);
            match n % 3 {
                0 => std::fs::remove_file(copy)?,
                1 => std::fs::write(copy, vec![1; usize::try_from(SIZE)?])?,
                _ => std::fs::write(source, vec![2; usize::try_from(SIZE)?])?,
            }
        }
        let same = killed.again(&[])?;
        ensure!(same == 0, "{same} files are not copied");
        Ok(())
    })
}

#[test]
fn a_copy_without_resume_begins_anew() -> Result<()> {
    let killed = Killed::new("down")?;
    ensure!(killed.again(&["--no-resume"])? == 0, "files are left out");
    Ok(())
}

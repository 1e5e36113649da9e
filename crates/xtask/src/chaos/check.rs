//! The rules for the files of both ends after a copy.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use workspace_tests::sha256;

use super::files::files;
use super::plan::{End, Fault};
use super::round::{POLL, Round};

/// Longest time for which a session of the first copy may keep a hidden file behind the second.
const LEAVING: Duration = Duration::from_secs(10);
/// The index of partial files in the root directory of our server.
const INDEX: &str = ".gridftp-index/";
/// The client's notes and records.
const STATE: &str = "home/.local/state";

impl Round<'_> {
    /// Checks that every name has the new file, or the old state unless the copy succeeded. This
    /// holds at other servers too: a file has a hidden name there until it is whole.
    pub(super) fn look(&self, success: bool) -> Result<()> {
        ensure!(
            !success || self.refused.is_empty(),
            "success although names were refused"
        );
        for (name, want) in &self.source {
            let path = self.tree.path("to").join(name);
            if self.refused.contains(name) {
                ensure!(path.is_dir(), "{name} is no longer a directory");
                continue;
            }
            let got = path.exists().then(|| sha256(&path)).transpose()?;
            let whole = got.as_ref() == Some(want);
            let old = got.as_ref() == self.before.get(name);
            let size = fs::metadata(&path).map_or(0, |meta| meta.len());
            ensure!(
                whole || (old && !success),
                "{name} is wrong: {size} bytes, digest {got:?}; success is {success}"
            );
        }
        Ok(())
    }

    pub(super) fn check_complete(&self) -> Result<()> {
        for (name, want) in &self.source {
            let path = self.tree.path("to").join(name);
            ensure!(
                self.refused.contains(name) || sha256(&path)? == *want,
                "{name} is missing or wrong"
            );
        }
        Ok(())
    }

    /// Checks that both ends have no names but those of the files that were there or copied, and
    /// that the client keeps no notes of a copy that is complete.
    pub(super) fn check_leftovers(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            let left = self.leftovers()?;
            if left.is_empty() {
                return Ok(());
            }
            ensure!(started.elapsed() < LEAVING, "left behind: {left:?}");
            thread::sleep(POLL);
        }
    }

    fn leftovers(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for (end, folder) in [(End::Source, "from"), (End::Destination, "to")] {
            for (name, _) in files(&self.tree.path(folder))? {
                let was_there = end == End::Destination && self.before.contains_key(&name);
                if !was_there && !self.source.contains_key(&name) && !self.may_stay(end, &name) {
                    left.push(format!("{folder}/{name}"));
                }
            }
        }
        let state = self.tree.path(STATE);
        // Behind a failure a later run goes on.
        if self.refused.is_empty() && state.exists() {
            let notes = files(&state)?.into_iter();
            left.extend(notes.map(|(name, _)| format!("{STATE}/{name}")));
        }
        Ok(left)
    }

    /// Says whether it is an entry of the index, which a kill of the server may leave until it is
    /// old; the partial file that the entry names may not stay.
    fn may_stay(&self, end: End, name: &str) -> bool {
        name.strip_prefix(INDEX)
            .is_some_and(|entry| entry == "identity" || self.plan.fault == Fault::Kill(end))
    }

    /// Total size of the source, in bytes.
    pub(super) fn sizes(&self) -> Result<u64> {
        let files = files(&self.tree.path("from"))?;
        Ok(files.iter().map(|(_, file)| file.len()).sum())
    }

    /// Bytes of the largest partial file: of our server, of the client, or under the hidden name
    /// that the client gives a file at other servers.
    pub(super) fn partial(&self) -> Result<u64> {
        let files = files(&self.tree.path("to"))?.into_iter();
        let hidden = files.filter(|(name, _)| name.contains(".gridftp-"));
        Ok(hidden
            .map(|(_, file)| file.blocks() * 512)
            .max()
            .unwrap_or(0))
    }
}

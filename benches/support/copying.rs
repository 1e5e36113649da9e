//! One copy by either client: its ends, its time, and the comparison of the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Host, Peer, Place, Tree, binary, file_url, same_file};

use crate::pair::{Side, quiet, time_of};

/// The file that is copied, and the name of its copy.
pub const FILE: &str = "file";
const COPY: &str = "copy";

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "benches handle each variant")]
pub enum Way {
    /// From a server.
    Get,
    /// To a server.
    Put,
}

impl Way {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Get, Self::Put];

    /// Its name in a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
        }
    }
}

/// A client on a host.
#[derive(Debug)]
pub struct Client {
    program: PathBuf,
    at: Place,
    flags: &'static [&'static str],
}

impl Client {
    /// Finds a side's client, or returns nothing after reporting that it is missing.
    pub fn find(side: Side, at: Place) -> Result<Option<Self>> {
        let program = match side {
            Side::Ours => binary("gridftp-cp")?,
            Side::Globus => match Peer::GlobusUrlCopy.require("bench") {
                Some(command) => command.get_program().into(),
                None => return Ok(None),
            },
        };
        let flags = quiet(side);
        Ok(Some(Self { program, at, flags }))
    }

    /// With these flags in place of those of a bench, which leave verification out.
    #[must_use]
    pub const fn with_flags(mut self, flags: &'static [&'static str]) -> Self {
        self.flags = flags;
        self
    }

    /// Copies between `server`, over `tree`, and a local file of the same tree; returns the time.
    pub fn copy(&self, flags: &[&str], server: &Host, tree: &Tree, way: Way) -> Result<Duration> {
        let (here, there) = match way {
            Way::Get => (COPY, FILE),
            Way::Put => (FILE, COPY),
        };
        let (here, there) = (file_url(&tree.path(here)), server.url(there));
        let (from, to) = match way {
            Way::Get => (there, here),
            Way::Put => (here, there),
        };
        self.run(flags, &from, &to, &tree.path(FILE), &tree.path(COPY))
            .with_context(|| format!("output of the server:\n{}", server.output()))
    }

    /// Has one server send its file to the other; returns the time.
    pub fn third_party(&self, flags: &[&str], (from, to): (&Host, &Host)) -> Result<Duration> {
        let (source, copied) = (from.path(FILE), to.path(COPY));
        self.run(flags, &from.url(FILE), &to.url(COPY), &source, &copied)
            .with_context(|| format!("output of the servers:\n{}{}", from.output(), to.output()))
    }

    fn run(
        &self,
        flags: &[&str],
        from: &str,
        to: &str,
        source: &Path,
        copied: &Path,
    ) -> Result<Duration> {
        let _ = fs::remove_file(copied);
        let mut command: Command = self.at.command(&self.program);
        command.args(self.flags).args(flags).args([from, to]);
        let took = time_of(&mut command)?;
        same_file(source, copied)?;
        ensure!(took > Duration::ZERO, "the copy took no time");
        Ok(took)
    }
}

//! One copy by either client: its ends, its time, and the comparison of the files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_benches::pair::{Side, quiet, time_of};
use workspace_tests::{Host, Peer, Place, Tree, binary, file_url, same_file};

/// The file that is copied, and the name of its copy.
pub(crate) const FILE: &str = "file";
const COPY: &str = "copy";

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Get,
    Put,
}

impl Way {
    pub(crate) const ALL: [Self; 2] = [Self::Get, Self::Put];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
        }
    }
}

/// A client on a host.
pub(crate) struct Client {
    side: Side,
    program: PathBuf,
    at: Place,
}

impl Client {
    /// Finds a side's client, or returns nothing after reporting that it is missing.
    pub(crate) fn find(side: Side, at: Place) -> Result<Option<Self>> {
        let program = match side {
            Side::Ours => binary("gridftp-cp")?,
            Side::Globus => match Peer::GlobusUrlCopy.require("bench striping") {
                Some(command) => command.get_program().into(),
                None => return Ok(None),
            },
        };
        Ok(Some(Self { side, program, at }))
    }

    /// Copies between `server`, over `tree`, and a local file of the same tree; returns the time.
    pub(crate) fn copy(
        &self,
        flags: &[&str],
        server: &Host,
        tree: &Tree,
        way: Way,
    ) -> Result<Duration> {
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
    pub(crate) fn third_party(
        &self,
        flags: &[&str],
        (from, to): (&Host, &Host),
    ) -> Result<Duration> {
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
        command.args(quiet(self.side)).args(flags).args([from, to]);
        let took = time_of(&mut command)?;
        same_file(source, copied)?;
        ensure!(took > Duration::ZERO, "the copy took no time");
        Ok(took)
    }
}

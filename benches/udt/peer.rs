//! `Program`: the sender and receiver of libudt, compiled from `peer.cpp` and removed on drop.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use tempfile::TempDir;
use workspace_tests::{Peer, run};

use crate::flow::Flow;

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Program {
    file: PathBuf,
    _folder: TempDir,
}

impl Program {
    /// Compiles the program; none, with a message, where the compiler or libudt is missing.
    pub(crate) fn compile() -> Result<Option<Self>> {
        let (Some(mut compiler), Some(_)) = (
            Peer::Gxx.require("bench udt"),
            Peer::LibUdt.require("bench udt"),
        ) else {
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("peer");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/udt/peer.cpp");
        compiler.args(["-O2", source, "-o"]).arg(&file);
        compiler.args(["-ludt", "-lpthread"]);
        run(&mut compiler, Duration::from_secs(120))?.ok()?;
        Ok(Some(Self {
            file,
            _folder: folder,
        }))
    }

    /// Its flow.
    pub(crate) fn flow(&self) -> Flow {
        Flow::LibUdt(self.file.clone())
    }
}

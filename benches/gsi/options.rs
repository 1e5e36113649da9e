//! Command-line options: parts and amounts.

use std::path::Path;

use anyhow::Result;
use clap::Parser;
use workspace_benches::options::Scale;
use workspace_tests::Tree;

/// Compares Grid security and FTPS of our programs with those of others.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench gsi")]
pub(crate) struct Options {
    /// One part only; may be repeated
    ///
    /// bulk: one large file under PROT P, S and C. clear: our PROT P beside our clear copy and one
    /// core's AES-GCM. logins: logins with delegation per second. ftps: one large file over TLS,
    /// against curl and vsftpd (needs root).
    #[arg(long, value_name = "PART", value_parser = ["bulk", "clear", "logins", "ftps"])]
    pub(crate) only: Vec<String>,
    #[command(flatten)]
    pub(crate) scale: Scale,
}

impl Options {
    /// Returns the number of bytes of a large file.
    pub(crate) fn size(&self) -> u64 {
        self.scale.amount(1 << 30, 64 << 20)
    }
}

/// Makes a tree in memory, or on disk where there is no such file system.
pub(crate) fn tree() -> Result<Tree> {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => Tree::new_in(memory),
        false => Tree::new(),
    }
}

//! Command-line options: parts and amounts.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use clap::Parser;
use workspace_benches::options::{Scale, folder};

/// Compares our programs with the Globus programs.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench")]
pub(crate) struct Options {
    /// One part only; may be repeated
    ///
    /// bulk: one large file, MODE S and MODE E with 1 and 4 streams, also to /dev/null. small:
    /// 10,000 files of 1 kB, both directions. link: 500 files of 10 kB over an emulated link of
    /// 50 ms round trip (needs root). servers: 2,000 files of 1 kB in MODE S at plain FTP servers,
    /// against lftp. many: 100,000 files of 1 kB in /dev/shm, against globus-url-copy, lftp and
    /// rclone with 8 connections each, and ours against itself with --no-resume. names: a directory
    /// with 1,000,000 names in /dev/shm, both directions and between two servers, by the memory of
    /// our client. memory: server memory of 400 sessions in the middle of a slow download. logins:
    /// logins per second.
    #[arg(long, value_name = "PART", value_parser = ["bulk", "small", "link", "servers", "many", "names", "memory", "logins"])]
    pub(crate) only: Vec<String>,
    /// Folder of the files of bulk and small; may be repeated [default: the temporary folder and
    /// /dev/shm]
    #[arg(long, value_name = "FOLDER", value_parser = folder)]
    folder: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) scale: Scale,
}

impl Options {
    /// Returns the folders of the copied files, one for each file system.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let mut folders = self.folder.clone();
        if folders.is_empty() {
            folders = vec![env::temp_dir(), PathBuf::from("/dev/shm")];
        }
        folders.retain(|folder| folder.is_dir());
        folders.dedup_by_key(|folder| fs::metadata(folder).map_or(0, |meta| meta.dev()));
        folders
    }
}

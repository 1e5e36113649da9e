//! The files of a tree that changes meanwhile.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use anyhow::Result;

/// The files below a folder, by their paths in it.
pub(super) fn files(folder: &Path) -> Result<Vec<(String, Metadata)>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            let file = match fs::symlink_metadata(&path) {
                // It got its final name in between.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            if file.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                found.push((name, file));
            }
        }
    }
    Ok(found)
}

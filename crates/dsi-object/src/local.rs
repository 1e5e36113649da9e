//! The entries of a directory of this machine that are objects or directories.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, Result};

use crate::key::Keys;
use crate::parts::blocking;

/// Whether a file may be opened as an object. A FIFO would be waited for, and a device has effects.
/// A file that cannot be examined is left to the store, which says why.
pub(crate) async fn may_open(files: &LocalFileSystem, key: &Path) -> Result<bool> {
    let file = files.path_to_filesystem(key)?;
    let is_object = |facts: std::fs::Metadata| facts.is_file() || facts.is_dir();
    blocking(move || Ok(std::fs::metadata(file).map_or(true, is_object))).await
}

/// The entries directly below a directory; none if it does not exist. FIFOs, sockets,
/// devices and names that no key has are left out: with one, [`LocalFileSystem`] fails for all entries.
pub(crate) async fn list(files: &Arc<LocalFileSystem>, dir: &Path) -> Result<ListResult> {
    let (files, dir) = (Arc::clone(files), dir.clone());
    let folder = folder_of(&files, &dir)?;
    blocking(move || {
        let mut found = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
            extensions: Default::default(),
        };
        let entries = match std::fs::read_dir(folder) {
            Err(error) if is_missing(&error) => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // A link without a target, or an entry that is removed meanwhile, is none.
            let Ok(facts) = std::fs::metadata(entry.path()) else {
                continue;
            };
            let name = entry.file_name();
            let Some(location) = name.to_str().and_then(|name| key_of(&dir, name)) else {
                continue;
            };
            if facts.is_dir() {
                found.common_prefixes.push(location);
            } else if facts.is_file() && files.path_to_filesystem(&location).is_ok() {
                found.objects.push(ObjectMeta {
                    location,
                    last_modified: facts.modified()?.into(),
                    size: facts.len(),
                    e_tag: None,
                    version: None,
                });
            }
        }
        Ok(found)
    })
    .await
}

/// The key of a name in a directory, if there can be one.
fn key_of(dir: &Path, name: &str) -> Option<Path> {
    Path::parse(format!("{}{name}", Keys::below(dir))).ok()
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The directory of a key, also of the empty one, which is no file.
fn folder_of(files: &LocalFileSystem, dir: &Path) -> Result<PathBuf> {
    let mut inside = files.path_to_filesystem(&dir.clone().join("x"))?;
    inside.pop();
    Ok(inside)
}

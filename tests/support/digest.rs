//! SHA-256 of files, of parts of files and of whole trees.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};

/// Digest of every regular file below a directory, by its path relative to that directory.
pub type Digests = BTreeMap<String, String>;

/// Returns the digest of a whole file in hexadecimal.
pub fn sha256(path: &Path) -> Result<String> {
    sha256_range(path, 0, u64::MAX)
}

/// Returns the digest of at most `length` bytes from `offset`.
pub fn sha256_range(path: &Path, offset: u64, length: u64) -> Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    sha256_of(file.take(length)).with_context(|| format!("digest of {}", path.display()))
}

/// Returns the digest of bytes in hexadecimal.
pub fn sha256_of(mut bytes: impl Read) -> Result<String> {
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        let n = bytes.read(&mut block)?;
        if n == 0 {
            break;
        }
        hash.update(block.get(..n).unwrap_or_default());
    }
    Ok(hash
        .finalize()
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }))
}

/// Checks that two files have the same content.
pub fn same_file(one: &Path, other: &Path) -> Result<()> {
    let (first, second) = (one.display(), other.display());
    ensure!(
        sha256(one)? == sha256(other)?,
        "{first} and {second} differ"
    );
    Ok(())
}

/// Checks that two trees have the same files with the same content.
pub fn same_tree(one: &Path, other: &Path) -> Result<()> {
    let (first, second) = (one.display(), other.display());
    ensure!(
        tree_digests(one)? == tree_digests(other)?,
        "{first} and {second} differ"
    );
    Ok(())
}

/// Returns the digests of all files below `root`, without our server's index of partial files.
pub fn tree_digests(root: &Path) -> Result<Digests> {
    let mut digests = Digests::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let path = entry?.path();
            if path == root.join(".gridftp-index") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root)?.display().to_string();
                digests.insert(name, sha256(&path)?);
            }
        }
    }
    Ok(digests)
}

//! `Tree`: a temporary directory and files whose content follows from a seed.

use std::env;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::statvfs;

use crate::Noise;

/// A temporary directory, removed with everything in it when dropped.
#[derive(Debug)]
pub struct Tree(tempfile::TempDir);

impl Tree {
    /// Creates an empty tree that every local user may write, since peers may run as another user.
    pub fn new() -> Result<Self> {
        Self::new_in(&env::temp_dir())
    }

    /// Creates an empty tree for `bytes`, in memory if that leaves as much free again, else on
    /// disk.
    pub fn roomy(bytes: u64) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let free = statvfs(memory)
            .map_or(0, |stat| stat.f_bavail * stat.f_frsize)
            .min(available_memory());
        if free / 2 >= bytes {
            Self::new_in(memory)
        } else {
            Self::new()
        }
    }

    /// Creates an empty tree below `parent`.
    pub fn new_in(parent: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("xio-")
            .tempdir_in(parent)
            .context("make a temporary directory")?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777))?;
        Ok(Self(dir))
    }

    /// Returns the directory.
    pub fn root(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of `name` inside the tree.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Creates a directory and its parents.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(path)
    }

    /// Writes a file of `size` bytes that follow from `seed`, and creates its parents.
    pub fn file(&self, name: &str, size: u64, seed: u64) -> Result<PathBuf> {
        let path = self.parented(name)?;
        let mut out = BufWriter::with_capacity(1 << 18, File::create(&path)?);
        let mut left = size;
        let mut noise = Noise::new(seed);
        while left > 0 {
            let word = noise.draw().to_le_bytes();
            let part = word
                .get(..usize::try_from(left).unwrap_or(usize::MAX).min(8))
                .unwrap_or(&word);
            out.write_all(part)?;
            left -= part.len() as u64;
        }
        out.flush()
            .with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }

    /// Writes a sparse file of `size` bytes with 1 MiB of data at the start, at 4 GiB and at the
    /// end.
    pub fn sparse(&self, name: &str, size: u64, seed: u64) -> Result<PathBuf> {
        const ISLAND: u64 = 1 << 20;
        let path = self.parented(name)?;
        let file = File::create(&path)?;
        file.set_len(size)?;
        let mut noise = Noise::new(seed);
        let islands = [0, (1 << 32) - ISLAND / 2, size.saturating_sub(ISLAND)];
        for start in islands.into_iter().filter(|start| start + ISLAND <= size) {
            let data: Vec<u8> = (0..ISLAND / 8)
                .flat_map(|_| noise.draw().to_le_bytes())
                .collect();
            file.write_all_at(&data, start)
                .with_context(|| format!("write {}", path.display()))?;
        }
        Ok(path)
    }

    /// Returns the sorted relative paths of the files below `name`.
    pub fn names(&self, name: &str) -> Result<Vec<String>> {
        Ok(crate::tree_digests(&self.path(name))?.into_keys().collect())
    }

    fn parented(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
        }
        Ok(path)
    }
}

/// Returns the available memory in bytes; 0 where the kernel does not report it.
fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_file() -> Result<()> {
        let tree = Tree::new()?;
        let a = crate::sha256(&tree.file("a", 10_001, 7)?)?;
        assert_eq!(a, crate::sha256(&tree.file("sub dir/b", 10_001, 7)?)?);
        assert_ne!(a, crate::sha256(&tree.file("c", 10_001, 8)?)?);
        assert_eq!(fs::metadata(tree.path("a"))?.len(), 10_001);
        Ok(())
    }

    #[test]
    fn a_sparse_file_is_long_and_takes_little_space() -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let tree = Tree::new()?;
        let meta = fs::metadata(tree.sparse("s", (4 << 30) + 12_345_678, 1)?)?;
        assert_eq!(meta.len(), (4 << 30) + 12_345_678);
        assert!(meta.blocks() * 512 < 16 << 20, "{} blocks", meta.blocks());
        Ok(())
    }
}

//! The exported tree: whether it is there, who may do what in it, and its free space.

use std::path::Path;

use gsi::finding::Finding;
use rustix::fs::{Access as Mode, AtFlags, CWD, accessat, statvfs};
use xio::ByteSize;

use super::{Site, person};
use crate::config::Storages;

const TOPIC: &str = "storage";

/// Free space that uploads need at least, in bytes.
const LEAST_SPACE: u64 = 1 << 30;

/// Number of files that uploads need at least.
const LEAST_FILES: u64 = 1000;

impl Site<'_> {
    /// Examines the storages, which users may write to if `has_writers`.
    pub(super) fn storage(&mut self, has_writers: bool) {
        // A mistake is told with the configuration.
        let Ok(storages) = Storages::new(self.options) else {
            return self.add(Finding::skip(
                TOPIC,
                "not examined until its option is right",
            ));
        };
        let trees = storages.describe();
        if trees.is_empty() {
            self.add(Finding::fail(
                TOPIC,
                "there is no tree to serve",
                "say --root DIR",
            ));
        }
        for storage in trees {
            match storage.tree {
                Some((root, index)) => {
                    let has_writers = has_writers && !storage.is_read_only;
                    self.findings
                        .extend(tree(&root, index.as_deref(), has_writers));
                }
                None => {
                    let fact = format!("{}: {}", storage.kind.name, storage.kind.about);
                    self.add(Finding::ok(TOPIC, fact));
                }
            }
        }
    }
}

/// The findings about a directory tree.
fn tree(root: &Path, index: Option<&Path>, has_writers: bool) -> Vec<Finding> {
    if let Some(fault) = unreadable(root) {
        return vec![fault];
    }
    let fact = format!("{}: it is readable for {}", root.display(), person());
    let mut findings = vec![Finding::ok(TOPIC, fact)];
    if has_writers {
        let more = [Some(written(root)), index.map(written), space(root)];
        findings.extend(more.into_iter().flatten());
    }
    findings
}

/// The fault of a tree that cannot be served.
fn unreadable(root: &Path) -> Option<Finding> {
    let shown = root.display();
    match std::fs::metadata(root) {
        Err(error) => {
            let remedy = "make the directory, or name another by --root";
            Some(Finding::fail(TOPIC, format!("{shown}: {error}"), remedy))
        }
        Ok(found) if !found.is_dir() => {
            let fact = format!("{shown}: it is no directory");
            Some(Finding::fail(TOPIC, fact, "name a directory by --root"))
        }
        Ok(_) => {
            let wanted = Mode::READ_OK | Mode::EXEC_OK;
            let error = accessat(CWD, root, wanted, AtFlags::EACCESS).err()?;
            let fact = format!("{shown}: {} may not read it: {error}", person());
            let remedy = "let that user read it (chmod, chown), or start the server as another";
            Some(Finding::fail(TOPIC, fact, remedy))
        }
    }
}

/// Whether a directory can be written to: the root, or that of the index of partial uploads.
fn written(place: &Path) -> Finding {
    let shown = place.display();
    match accessat(CWD, place, Mode::WRITE_OK | Mode::EXEC_OK, AtFlags::EACCESS) {
        Ok(()) => Finding::ok(TOPIC, format!("{shown}: it is writable for {}", person())),
        Err(error) => {
            let fact = format!("{shown}: {} may not write there: {error}", person());
            let remedy = "let that user write there (chmod, chown); where only directories below \
                          take uploads, name a --partial-index that is writable";
            Finding::warn(TOPIC, fact, remedy)
        }
    }
}

/// The free space of the file system.
fn space(root: &Path) -> Option<Finding> {
    let found = statvfs(root).ok()?;
    Some(judge(
        root,
        found.f_bavail.saturating_mul(found.f_frsize),
        found.f_blocks.saturating_mul(found.f_frsize),
        // Some file systems have no bound.
        (found.f_files > 0).then_some(found.f_favail),
    ))
}

fn judge(root: &Path, free: u64, total: u64, files: Option<u64>) -> Finding {
    let shown = root.display();
    let size = |bytes| rounded(ByteSize::new(bytes));
    let fact = format!("{shown}: {} of {} are free", size(free), size(total));
    match files.filter(|files| *files < LEAST_FILES) {
        Some(files) => Finding::warn(
            TOPIC,
            format!("{fact}, and room for {files} more files"),
            "remove files, or serve another file system",
        ),
        None if free < LEAST_SPACE => {
            Finding::warn(TOPIC, fact, "remove files, or serve another file system")
        }
        None => Finding::ok(TOPIC, fact),
    }
}

/// A size in the largest unit of which there are at least ten.
fn rounded(size: ByteSize) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let bytes = size.bytes();
    let fitting = units.into_iter().find(|(shift, _)| bytes >> shift >= 10);
    fitting.map_or_else(
        || format!("{bytes} bytes"),
        |(shift, unit)| format!("{} {unit}", bytes >> shift),
    )
}

#[cfg(test)]
mod tests {
    use gsi::finding::Verdict;

    use super::*;

    #[test]
    fn little_space_is_warned_of() {
        let of = |free, files| judge("/srv".as_ref(), free, 100 << 30, files);
        let good = of(20 << 30, Some(5000));
        assert_eq!(good, Finding::ok(TOPIC, "/srv: 20 GiB of 100 GiB are free"));
        assert_eq!(of(20 << 30, None).verdict, Verdict::Ok);
        let full = of(1000 << 20, None);
        assert_eq!(full.verdict, Verdict::Warn);
        assert!(full.fact.contains("1000 MiB of 100 GiB"), "{full}");
        let crowded = of(20 << 30, Some(7));
        assert!(crowded.fact.contains("room for 7 more files"), "{crowded}");
        assert_eq!(crowded.verdict, Verdict::Warn);
    }

    #[test]
    fn a_tree_that_cannot_be_served_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(unreadable(folder.path()), None);
        let missing = unreadable(&folder.path().join("none")).unwrap();
        assert!(missing.fact.contains("No such file"), "{missing}");
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let file = unreadable(&file).unwrap();
        assert!(file.fact.contains("no directory"), "{file}");
    }
}

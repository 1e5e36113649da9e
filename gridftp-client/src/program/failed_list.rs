//! `FailedList`: the names that failed, which replace those of the last run when this one has ended.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::url::{Location, Remote};

/// Names that can be read again, each ended by a line end, or all by a NUL where one of them has a
/// line end itself.
#[derive(Debug)]
pub struct FailedList {
    /// The list, behind links that lead to it.
    path: PathBuf,
    /// The list where it is no regular file: a pipe or a device, which is not replaced.
    direct: Option<File>,
    /// The names of this run; elsewhere, since the directory of the list may be the one to copy.
    names: File,
    end: u8,
}

/// The names in a list: a NUL is in no name, so one tells that they are separated by such.
pub fn names(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = if text.contains(&0) { 0 } else { b'\n' };
    let names = text.split(move |byte| *byte == end);
    names.filter(|name| !name.is_empty())
}

/// Checks that the names of a copy of these sources can be read again: they are below the
/// destination, and `--files-from` has one source directory.
///
/// # Errors
/// When several sources have no directory in common.
pub fn check(sources: &[Location]) -> anyhow::Result<()> {
    let [first, others @ ..] = sources else {
        return Ok(());
    };
    let contents = sources.iter().any(Location::means_contents);
    let apart = others.iter().any(|other| dir(other) != dir(first));
    anyhow::ensure!(
        others.is_empty() || !(contents || apart),
        "usage: --failed-list: the source of --files-from, which reads it again, is one directory, \
         and these sources have none in common; give each a run and a list of its own"
    );
    Ok(())
}

/// The directory that a source is in, by its own name.
fn dir(source: &Location) -> Option<Location> {
    match source {
        Location::Local(path) => {
            let path = std::path::absolute(path).ok()?;
            path.parent().map(|dir| Location::Local(dir.to_owned()))
        }
        Location::Remote(Remote { site, path, .. }) => {
            let dir = crate::names::parent(path).to_vec();
            Some(Location::Remote(Remote::new(site.clone(), dir)))
        }
        _ => None,
    }
}

impl FailedList {
    /// Begins a list, and leaves the one at `path` as it is.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut direct = None;
        match fs::metadata(&path) {
            Ok(old) => {
                // A list that cannot be written is not replaced either.
                let file = OpenOptions::new().write(true).open(&path)?;
                direct = (!old.is_file()).then_some(file);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if direct.is_none() {
            // Its directory takes files.
            drop(beside(&path)?);
        }
        let (names, end) = (tempfile::tempfile()?, b'\n');
        Ok(Self {
            path,
            direct,
            names,
            end,
        })
    }

    /// Adds a name.
    pub fn add(&mut self, name: &[u8]) -> io::Result<()> {
        if name.contains(&b'\n') && self.end != 0 {
            let mut text = self.text()?;
            for byte in text.iter_mut().filter(|byte| **byte == self.end) {
                *byte = 0;
            }
            self.names.rewind()?;
            self.names.write_all(&text)?;
            self.end = 0;
        }
        self.names.write_all(&[name, &[self.end]].concat())
    }

    /// Replaces the list by the names of a run that has tried all.
    pub fn replace(mut self) -> io::Result<()> {
        self.names.rewind()?;
        if let Some(mut direct) = self.direct {
            io::copy(&mut self.names, &mut direct)?;
            return Ok(());
        }
        let mut new = beside(&self.path)?;
        io::copy(&mut self.names, new.as_file_mut())?;
        match fs::metadata(&self.path) {
            Ok(old) => new.as_file().set_permissions(old.permissions())?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        new.as_file().sync_all()?;
        new.persist(self.path)?;
        Ok(())
    }

    /// Joins the names of a run that has not tried all with those of the list, since none of these
    /// is known to be copied.
    pub fn join(mut self) -> io::Result<()> {
        let text = self.text()?;
        if text.is_empty() {
            return Ok(());
        }
        if self.direct.is_none() {
            let old = match fs::read(&self.path) {
                Ok(old) => old,
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(error),
            };
            let new: HashSet<&[u8]> = names(&text).collect();
            for name in names(&old).filter(|name| !new.contains(name)) {
                self.add(name)?;
            }
        }
        self.replace()
    }

    /// The names so far, as they are written.
    fn text(&mut self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        self.names.rewind()?;
        self.names.read_to_end(&mut text)?;
        Ok(text)
    }
}

/// A new file beside `path`, with a random name.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let dir = match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".gridftp-failed-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(path: &Path, names: &[&[u8]]) -> FailedList {
        let mut list = FailedList::begin(path).unwrap();
        for name in names {
            list.add(name).unwrap();
        }
        list
    }

    #[test]
    fn names_of_any_bytes_are_kept_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        list(&path, &[b"a \xff", b"b"]).replace().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a \xff\nb\n");
        let odd: [&[u8]; 4] = [b"a \xff", b"b", b"c\nd", b"e"];
        list(&path, &odd).replace().unwrap();
        let text = fs::read(&path).unwrap();
        assert_eq!(text, b"a \xff\0b\0c\nd\0e\0");
        assert_eq!(names(&text).collect::<Vec<_>>(), odd);
    }

    #[test]
    fn a_list_stays_until_another_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        fs::write(&path, "a\nb\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("list", &link).unwrap();
        let new = list(&link, &[b"c"]);
        assert_eq!(fs::read(&path).unwrap(), b"a\nb\n");
        // The directory may be the one to copy.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        drop(new);
        // A run that came to no file leaves all.
        list(&path, &[]).join().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a\nb\n");
        list(&path, &[b"c", b"b"]).join().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"c\nb\na\n");
        list(&path, &[b"e\nf"]).join().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"e\nf\0c\0b\0a\0");
        list(&link, &[]).replace().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
        assert!(link.is_symlink());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
        // None of them has left a temporary file.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_run_without_names_makes_no_list_unless_it_has_tried_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        list(&path, &[]).join().unwrap();
        assert!(!path.exists());
        list(&path, &[]).replace().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_device_is_not_replaced() {
        let path = Path::new("/dev/null");
        list(path, &[b"a"]).replace().unwrap();
        list(path, &[b"a"]).join().unwrap();
        assert!(!fs::metadata(path).unwrap().is_file());
        assert!(FailedList::begin(Path::new("/dev")).is_err());
    }
}

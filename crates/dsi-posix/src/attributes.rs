//! Extended attributes of files and directories, those of the namespace `user.`.

use std::path::Path;

use gridftp_dsi::types::{Attribute, MAX_ATTRIBUTES, MAX_VALUE};
use gridftp_dsi::{ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use crate::blocking::{Work, run};
use crate::error::{Fault, Outcome};

/// The namespace of users.
const NAMESPACE: &[u8] = b"user.";
/// Longest list of names, in bytes; the kernel makes no longer one.
const LIST: usize = 64 * 1024;

/// Extended attributes of the directory of this machine at `path`, those named `user.*`; none on a file
/// system that keeps none.
///
/// # Errors
/// [`ErrorKind::TooLarge`] for too many of them, or a value that is too long; errors of the kernel.
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
pub async fn dir_attributes(path: &Path) -> Result<Vec<Attribute>> {
    let path = path.to_path_buf();
    run(Work::Brief, "read attributes", move || {
        let read = open_dir(&path).and_then(all);
        read.map_err(|fault| fault.of("read attributes", path.display()))
    })
    .await
}

/// Sets an extended attribute of the directory of this machine at `path`; others stay.
///
/// # Errors
/// [`ErrorKind::Denied`] in another namespace; [`ErrorKind::Unsupported`] on a file system that keeps
/// none; errors of the kernel.
///
/// # Cancel safety
/// The attribute may be set after the future is dropped.
pub async fn set_dir_attribute(path: &Path, attribute: Attribute) -> Result<()> {
    let path = path.to_path_buf();
    run(Work::Brief, "set attributes", move || {
        let done = open_dir(&path).and_then(|dir| set(dir, &attribute));
        done.map_err(|fault| fault.of("set attributes", path.display()))
    })
    .await
}

fn open_dir(path: &Path) -> Outcome<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The attributes of a file; none on a file system that keeps none.
pub(crate) fn all(file: impl AsFd) -> Outcome<Vec<Attribute>> {
    let mut names = vec![0; LIST];
    let len = match rustix::fs::flistxattr(&file, names.as_mut_slice()) {
        Ok(len) => len,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
        Err(errno) => return Err(errno.into()),
    };
    let names = names.get(..len).unwrap_or_default();
    let own = names.split(|byte| *byte == 0);
    let mut attributes = Vec::new();
    let mut value = [0; MAX_VALUE];
    for name in own.filter(|name| name.starts_with(NAMESPACE)) {
        let len = match rustix::fs::fgetxattr(&file, name, value.as_mut_slice()) {
            Ok(len) => len,
            // It was removed meanwhile.
            Err(Errno::NODATA) => continue,
            Err(Errno::RANGE) => {
                let what = "an attribute is longer than 4 KiB";
                return Err(Fault::Rule(ErrorKind::TooLarge, what));
            }
            Err(errno) => return Err(errno.into()),
        };
        if attributes.len() == MAX_ATTRIBUTES {
            return Err(Fault::Rule(
                ErrorKind::TooLarge,
                "it has more than 64 attributes",
            ));
        }
        attributes.push((name.to_vec(), value.get(..len).unwrap_or_default().to_vec()));
    }
    Ok(attributes)
}

/// Sets an attribute of a file.
pub(crate) fn set(file: impl AsFd, (name, value): &Attribute) -> Outcome<()> {
    if !name.starts_with(NAMESPACE) {
        let what = "attributes of users alone are set: user.NAME";
        return Err(Fault::Rule(ErrorKind::Denied, what));
    }
    Ok(rustix::fs::fsetxattr(
        file,
        name.as_slice(),
        value,
        XattrFlags::empty(),
    )?)
}

//! Extended attributes of files, those of the namespace `user.`.

use gridftp_dsi::ErrorKind;
use gridftp_dsi::types::{Attribute, MAX_ATTRIBUTES, MAX_VALUE};
use rustix::fd::AsFd;
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::error::{Fault, Outcome};

/// The namespace of users.
const NAMESPACE: &[u8] = b"user.";
/// Longest list of names, in bytes; the kernel makes no longer one.
const LIST: usize = 64 * 1024;

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

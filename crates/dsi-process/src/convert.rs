//! Messages of the service, and the values of the storage interface.

use gridftp_dsi::{DsiPath, Error, ErrorKind, Kind, Stat, User};
use tonic::{Code, Status};

use crate::proto;

/// The metadata that names the kind of an error.
const ERROR: &str = "storage-error";

/// The place of a call.
pub(crate) fn place(user: &User, path: &DsiPath) -> proto::Place {
    let user = proto::User {
        name: user.name.clone(),
        follows_links: user.follows_links,
    };
    proto::Place {
        user: Some(user),
        path: path.as_bytes().to_vec(),
    }
}

pub(crate) fn time((seconds, nanos): (i64, u32)) -> proto::Time {
    proto::Time { seconds, nanos }
}

/// The facts of an object called `name`.
pub(crate) fn stat(facts: proto::Facts, name: &[u8]) -> Stat {
    let kind = match facts.kind() {
        proto::Kind::File => Kind::File,
        proto::Kind::Directory => Kind::Directory,
        proto::Kind::Link => Kind::Link,
        proto::Kind::Other => Kind::Other,
    };
    let mut stat = Stat::new(name, kind);
    stat.size = facts.size;
    let modified = facts.modified.unwrap_or_default();
    stat.modified = (modified.seconds, modified.nanos.min(999_999_999));
    stat.mode = facts.mode & 0o7777;
    stat.links = facts.links;
    (stat.uid, stat.gid) = (facts.uid, facts.gid);
    (stat.device, stat.inode) = (facts.device, facts.inode);
    stat.target = facts.target;
    stat
}

/// The error of a failed call.
pub(crate) fn failed(status: &Status, op: &'static str) -> Error {
    let name = status.metadata().get(ERROR);
    let named = name.and_then(|name| proto::ErrorKind::from_str_name(name.to_str().ok()?));
    let kind = named.map_or_else(|| by_code(status.code()), kind);
    Error::new(kind, op).because(format!("the process: {}", status.message().escape_debug()))
}

fn kind(named: proto::ErrorKind) -> ErrorKind {
    use proto::ErrorKind as Named;
    match named {
        Named::Io => ErrorKind::Io,
        Named::NotFound => ErrorKind::NotFound,
        Named::Denied => ErrorKind::Denied,
        Named::Outside => ErrorKind::Outside,
        Named::Exists => ErrorKind::Exists,
        Named::NotDirectory => ErrorKind::NotDirectory,
        Named::IsDirectory => ErrorKind::IsDirectory,
        Named::NotEmpty => ErrorKind::NotEmpty,
        Named::NotRegular => ErrorKind::NotRegular,
        Named::NoSpace => ErrorKind::NoSpace,
        Named::Quota => ErrorKind::Quota,
        Named::TooLarge => ErrorKind::TooLarge,
        Named::BadName => ErrorKind::BadName,
        Named::ReadOnly => ErrorKind::ReadOnly,
        Named::Busy => ErrorKind::Busy,
        Named::Changed => ErrorKind::Changed,
        Named::Mismatch => ErrorKind::Mismatch,
        Named::Incomplete => ErrorKind::Incomplete,
        Named::Unsupported => ErrorKind::Unsupported,
    }
}

/// The kind of an error of a process that names none.
fn by_code(code: Code) -> ErrorKind {
    match code {
        Code::NotFound => ErrorKind::NotFound,
        Code::AlreadyExists => ErrorKind::Exists,
        Code::PermissionDenied | Code::Unauthenticated => ErrorKind::Denied,
        Code::ResourceExhausted => ErrorKind::NoSpace,
        Code::Unimplemented => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    }
}

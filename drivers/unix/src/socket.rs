//! Names of sockets, and the system calls to connect, bind and listen.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, getsockname, listen as start,
    socket_with,
};
use tokio::net::{UnixListener, UnixStream};
use xio_core::{Error, ErrorKind, Operation, Result, Target};

use crate::{LAYER, UnixOptions};

const BACKLOG: i32 = 1024;

/// The name of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SocketName {
    Path(PathBuf),
    /// A name in no file system.
    Abstract(Vec<u8>),
    /// Any free name, to listen at.
    Free,
}

impl SocketName {
    pub(crate) fn of(target: &Target, op: Operation) -> Result<Self> {
        let bad = |fact: &str| {
            let fact = format!("`{target:?}` {fact}; write a path, `@name` or unix:////path");
            Error::new(ErrorKind::BadTarget, LAYER, op, fact)
        };
        if !matches!(target.scheme.as_deref(), Some("unix" | "file")) {
            return Err(bad("is not a local socket"));
        }
        if target.host.is_some() {
            return Err(bad("has a host"));
        }
        let path = target.path.as_deref().unwrap_or_default();
        match path.strip_prefix('@') {
            Some("") => Err(bad("has no name after the `@`")),
            Some(name) => Ok(Self::Abstract(name.as_bytes().to_vec())),
            None if !path.is_empty() => Ok(Self::Path(path.into())),
            None if op == Operation::Listen => Ok(Self::Free),
            None => Err(bad("has no path")),
        }
    }

    /// The contact to give to peers.
    pub(crate) fn contact(&self) -> Target {
        match self {
            Self::Path(path) => Target::file(path.to_string_lossy()),
            Self::Abstract(name) => Target::file(format!("@{}", String::from_utf8_lossy(name))),
            Self::Free => Target::file(""),
        }
    }

    fn address(&self) -> io::Result<SocketAddrUnix> {
        Ok(match self {
            Self::Path(path) => SocketAddrUnix::new(path.as_path())?,
            Self::Abstract(name) => SocketAddrUnix::new_abstract_name(name)?,
            Self::Free => SocketAddrUnix::new_unnamed(),
        })
    }
}

pub(crate) async fn connect(place: &SocketName) -> io::Result<UnixStream> {
    let connected = match place {
        SocketName::Path(path) => UnixStream::connect(path).await,
        SocketName::Abstract(name) => {
            let zero = [&[0], name.as_slice()].concat();
            UnixStream::connect(OsStr::from_bytes(&zero)).await
        }
        SocketName::Free => Err(io::ErrorKind::InvalidInput.into()),
    };
    match connected {
        // The kernel does not wait for room in the backlog.
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(io::Error::new(
            io::ErrorKind::ConnectionRefused,
            "the listener's backlog is full",
        )),
        // A missing path is reported like a socket without a listener.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(io::Error::new(
            io::ErrorKind::ConnectionRefused,
            "there is no such socket",
        )),
        other => other,
    }
}

pub(crate) fn listen(place: &SocketName, options: UnixOptions) -> io::Result<(UnixListener, Held)> {
    if let SocketName::Path(path) = place {
        make_way(path)?;
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &place.address()?)?;
    let held = Held::new(place, &socket)?;
    if let (SocketName::Path(path), Some(mode)) = (place, options.mode) {
        // Connecting is impossible before the `listen` below, so the wider mode admits no one.
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    start(&socket, BACKLOG)?;
    Ok((UnixListener::from_std(socket.into())?, held))
}

/// Removes a socket without a listener; anything else stays.
fn make_way(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let taken = |why| Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    if !found.file_type().is_socket() {
        return taken("the path exists and is not a socket");
    }
    // A socket of another type probes for a listener without becoming its peer.
    match UnixDatagram::unbound()?.connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(e) if e.raw_os_error() != Some(Errno::PROTOTYPE.raw_os_error()) => Err(e),
        _ => taken("the path has a listener"),
    }
}

/// The name of a listener; dropping it removes the path if that is still its own.
#[derive(Debug)]
pub(crate) struct Held {
    place: SocketName,
    /// Device and inode, to recognise the path.
    file: Option<(u64, u64)>,
}

impl Held {
    fn new(place: &SocketName, socket: &OwnedFd) -> io::Result<Self> {
        Ok(match place {
            SocketName::Path(path) => Self {
                place: place.clone(),
                file: Some(identity(path)?),
            },
            SocketName::Abstract(_) | SocketName::Free => {
                let bound: SocketAddrUnix = getsockname(socket)?.try_into()?;
                let name = bound.abstract_name().unwrap_or_default();
                Self {
                    place: SocketName::Abstract(name.to_vec()),
                    file: None,
                }
            }
        })
    }

    pub(crate) const fn place(&self) -> &SocketName {
        &self.place
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Drop for Held {
    fn drop(&mut self) {
        if let SocketName::Path(path) = &self.place
            && identity(path).ok() == self.file
        {
            // If this fails, the next listener replaces the path.
            let _ = fs::remove_file(path);
        }
    }
}

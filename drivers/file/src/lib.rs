//! A file as a transport.
//!
//! # What it does
//!
//! Opens `file:/path`, a bare path, `stdin://`, `stdout://` or `stderr://` as a stream. A read
//! returns 0 bytes at the end of the file, and always if it is open for writing only; `shutdown`
//! waits until the kernel has all bytes. A file is also [`Positional`](xio_core::Positional), so
//! that [`copy_file`](xio_core::copy_file) sends it without copying.
//!
//! # When not to use it
//!
//! As a listener, since a file has no peers. To publish a file whole or not at all, or for names
//! from a stranger: those are the task of a storage backend. Dropping a handle leaves the bytes
//! written so far, since a file has no end mark that could be missing.
//!
//! # String form
//!
//! `file` or `file:key=value;key=value`.
//!
//! The options are those of [`FileOptions`].
//!
//! # Cost
//!
//! Each read or write is one call on a blocking thread, and one copy into a buffer of that thread:
//! tens of microseconds. Sending a file into a socket has neither.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Target, Transport};
//! use xio_file::{File, FileOptions, Flags};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("greeting");
//! let target = Target::file(path.to_str().expect("a plain name"));
//! let mut options = FileOptions::default();
//! options.flags = Flags::Write;
//! let mut file = File::new().with_options(options).connect(&target).await?;
//! file.write_all(b"hello").await?;
//! file.shutdown().await?;
//!
//! let mut text = String::new();
//! File::default().connect(&target).await?.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod handle;
mod options;

use std::fmt;
use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use xio_core::{Driver, DynStack, Error, ErrorKind, Operation, Result, Target, Transport};

pub use handle::FileHandle;
pub use options::{FileOptions, Flags};

/// The transport: opens files with its options.
#[derive(Clone, Copy, Default)]
pub struct File {
    options: FileOptions,
}

impl File {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, "file", &self.options)
    }
}

/// The kinds of target of this driver.
enum FileTarget {
    Path(String),
    Standard(Stdio),
}

enum Stdio {
    In,
    Out,
    Err,
}

impl FileTarget {
    fn of(to: &Target) -> Result<Self> {
        let bad = |fact: String| Error::new(ErrorKind::BadTarget, "file", Operation::Connect, fact);
        match to.scheme.as_deref() {
            Some("stdin") => Ok(Self::Standard(Stdio::In)),
            Some("stdout") => Ok(Self::Standard(Stdio::Out)),
            Some("stderr") => Ok(Self::Standard(Stdio::Err)),
            Some("file") if to.host.as_deref().is_none_or(|h| h == "localhost") => {
                match to.path.as_deref() {
                    Some(path) if !path.is_empty() => Ok(Self::Path(path.to_owned())),
                    _ => Err(bad("the contact string has no path".to_owned())),
                }
            }
            Some("file") => Err(bad(format!(
                "`{to:?}` has a host; write a local file as file:/path or file:////path"
            ))),
            _ => Err(bad(format!(
                "`{to:?}` is not a file; write file:/path or a path"
            ))),
        }
    }

    /// Whether it can be read.
    const fn reads(&self, flags: Flags) -> bool {
        match self {
            Self::Path(_) => !matches!(flags, Flags::Write | Flags::Append),
            Self::Standard(which) => matches!(which, Stdio::In),
        }
    }

    fn open(&self, options: FileOptions) -> io::Result<fs::File> {
        let path = match self {
            Self::Path(path) => path,
            // Duplicate the descriptor, so that closing the handle does not close the program's.
            Self::Standard(Stdio::In) => return own(io::stdin().as_fd()),
            Self::Standard(Stdio::Out) => return own(io::stdout().as_fd()),
            Self::Standard(Stdio::Err) => return own(io::stderr().as_fd()),
        };
        let mut how = fs::OpenOptions::new();
        how.mode(options.mode);
        match options.flags {
            Flags::Read => how.read(true),
            Flags::Update => how.read(true).write(true),
            Flags::Write => how.write(true).create(true).truncate(true),
            Flags::Rewrite => how.read(true).write(true).create(true).truncate(true),
            Flags::Append => how.append(true).create(true),
            Flags::ReadAppend => how.read(true).append(true).create(true),
        };
        let mut file = how.open(path)?;
        if options.offset > 0 {
            file.seek(SeekFrom::Start(options.offset))?;
        }
        Ok(file)
    }
}

fn own(fd: std::os::fd::BorrowedFd<'_>) -> io::Result<fs::File> {
    let copy: OwnedFd = fd.try_clone_to_owned()?;
    Ok(copy.into())
}

impl Transport for File {
    type Handle = FileHandle;

    /// # Cancel safety
    /// If the future is dropped, a new file may exist, empty.
    async fn connect(&self, to: &Target) -> Result<FileHandle> {
        let place = FileTarget::of(to)?;
        let options = self.options;
        // Opening may block on a slow file system, or on a FIFO without another end.
        let opened = tokio::task::spawn_blocking(move || {
            let reads = place.reads(options.flags);
            FileHandle::new(place.open(options)?, reads)
        });
        let blame = |error: io::Error| {
            Error::from_io(error, "file", Operation::Connect).about(format!("`{to:?}`"))
        };
        match opened.await {
            Ok(done) => done.map_err(blame),
            Err(gone) => Err(blame(io::Error::other(gone))),
        }
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::base(
        "file",
        "files and the standard streams",
        |options: FileOptions, entry| {
            let file = File::new().with_options(options);
            Ok(DynStack::active(file, &entry.to_string()))
        },
    )
}

#[cfg(test)]
mod tests;

//! A file of a GridFTP server as a transport.
//!
//! # Purpose
//!
//! Opens `ftp://host:port/path` as a stream, and reads, writes and seeks it like a local file:
//!
//! | | On the wire |
//! | --- | --- |
//! | reading | `RETR`, from an offset on `REST` (MODE S) or `ERET P` (MODE E); 226 is the end |
//! | writing | `STOR` for a file that begins anew, `ESTO A` in its middle, `APPE` at its end |
//! | `shutdown` | waits for 226, and gives a refusal as the error; reading may go on |
//! | drop without `shutdown` | resets the data connections, sends `ABOR` and closes |
//! | [`AsyncSeek`](tokio::io::AsyncSeek) | the next read or write begins there, in a new transfer |
//!
//! There is one position, and one transfer at a time: a read after a write waits for the server's
//! word on the written bytes. A read that fails has lost nothing: the next one asks for the rest,
//! over a new session where the old one is gone. A write that fails stays failed. A download that
//! ends early is `UnexpectedEof`, and says how far it came. A file that is opened for writing only
//! has nothing to read, so that reading it ends at once.
//!
//! Nothing is sent for an open file before the first read or write, so that a seek costs nothing;
//! opening for reading makes sure that the file is there.
//!
//! # When not to use it
//!
//! To copy whole files, trees or between servers: the client library resumes, retries, verifies and
//! moves files with send-file. For many small reads here and there: each seek is a transfer of its
//! own. To wait for peers: a file has none. With words that a stranger chose: it connects to any
//! host, so a restricted registry, as strings from peers are read with, never holds this driver.
//!
//! # String form
//!
//! `gridftp:key=value;key=value`. A `,` or `;` in a value is written `%2C` or `%3B`. The names are
//! those of the attributes that Globus XIO's driver has, which has no string form.
//!
//! The options are those of [`GridftpOptions`].
//!
//! A password belongs into the contact (`ftp://me:secret@host/path`) or the `netrc` file: stack
//! strings are printed.
//!
//! # Security
//!
//! With `ftps://`, and with a password for another machine, control and data go over TLS (`ca`,
//! `cert`, `security`). With `gsiftp://` both have Grid security: the credential is that of `cred` or
//! of the places of the Globus programs, and the host name or the subject of the contact
//! (`gsiftp://<%2FO=Grid%2FCN=dtn1>:dtn1/x`) tells the server's identity; `dcau` and `protect` weaken
//! the data. Anything else goes in clear text.
//!
//! # Cost
//!
//! Opening takes the round trips of a login; each transfer two to four more. Bytes are copied once
//! on their way here and once on their way there. Waiting in memory are at most three pieces of 256
//! KiB, and bytes that MODE E brought out of order, at most 8 MiB.
//!
//! # Example
//!
//! ```
//! use std::io::SeekFrom;
//! use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};
//! use xio::{Target, Transport};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use gridftp_server::config::{Access, Config, Options};
//! # let folder = tempfile::tempdir()?;
//! # let mut options = Options::default();
//! # options.bind = Some([127, 0, 0, 1].into());
//! # options.port = Some(0);
//! # options.anonymous = Some(Access::Rw);
//! # let files = gridftp_dsi_posix::Posix::open(folder.path())?;
//! # let server = gridftp_server::Server::bind(Config::check(&options)?, files)?;
//! # let address = server.local_addr();
//! # tokio::spawn(server.run(std::future::pending(), std::future::pending()));
//! let mut registry = xio::registry();
//! registry.register(xio_gridftp::driver());
//! let contact: Target = format!("ftp://{address}/greeting").parse()?;
//!
//! let mut file = registry.stack("gridftp:flags=w")?.connect(&contact).await?;
//! file.write_all(b"hello, world").await?;
//! file.shutdown().await?; // the server has it
//!
//! let mut file = xio_gridftp::Gridftp::default().connect(&contact).await?;
//! file.seek(SeekFrom::End(-5)).await?;
//! let mut text = String::new();
//! file.read_to_string(&mut text).await?;
//! assert_eq!(text, "world");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod handle;
mod options;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ftp_wire::facts::EntryKind;
use gridftp_client::error::TransferError;
use gridftp_client::url::Remote;
use gridftp_client::{Location, netrc};
use xio::file::Flags;
use xio::{Driver, DynStack, Error, ErrorKind, Operation, Result, Target, Transport};

pub use handle::GridftpHandle;
use handle::RemoteFile;
pub use options::GridftpOptions;

const LAYER: &str = "gridftp";

/// The transport: opens remote files with its options.
#[derive(Clone, Default)]
pub struct Gridftp {
    options: GridftpOptions,
}

impl Gridftp {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The file that a target means, and the account that opens it.
    fn remote(&self, to: &Target) -> Result<Remote> {
        let bad = |fact: String| Error::new(ErrorKind::BadTarget, LAYER, Operation::Connect, fact);
        let mut file = to.clone();
        if file.subject.take().is_some() && file.scheme.as_deref() != Some("gsiftp") {
            return Err(bad(
                "a subject needs Grid security: write gsiftp://".to_owned()
            ));
        }
        let mut remote = match Location::parse(&file.to_string()) {
            Ok(Location::Remote(remote)) if !remote.site.scheme.is_web() => remote,
            Ok(_) => {
                return Err(bad(format!(
                    "`{to:?}` is on no server; write ftp://host:port/path"
                )));
            }
            Err(error) => return Err(bad(format!("`{to:?}`: {error}"))),
        };
        if remote.path.ends_with(b"/") {
            return Err(bad(format!("`{to:?}` names no file")));
        }
        let site = &mut remote.site;
        if site.user.is_none() {
            site.user.clone_from(&self.options.user);
        }
        if let (Some(path), None) = (&self.options.netrc, &site.password) {
            let found = netrc::lookup(Path::new(path), &site.host, site.user.as_deref());
            if let Some(account) = found.map_err(|error| bad(error.to_string()))? {
                site.user = account.user.or_else(|| site.user.take());
                site.password = account.password;
            }
        }
        Ok(remote)
    }
}

impl fmt::Debug for Gridftp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio::write_driver(f, LAYER, &self.options)
    }
}

fn failed(error: impl Into<TransferError>) -> Error {
    Error::from_io(
        std::io::Error::from(error.into()),
        LAYER,
        Operation::Connect,
    )
}

impl Transport for Gridftp {
    type Handle = GridftpHandle;

    /// # Cancel safety
    /// Dropping the future closes the session; no file has been touched.
    async fn connect(&self, to: &Target) -> Result<GridftpHandle> {
        let Remote { site, path, .. } = self.remote(to)?;
        let mut connect = self.options.connect_options()?;
        connect.grid.subject.clone_from(&to.subject);
        let remote = Arc::new(RemoteFile {
            site,
            path,
            connect: Arc::new(connect),
            options: self.options.clone(),
        });
        let client = remote.session().await.map_err(failed)?;
        if matches!(self.options.access(), Flags::Read | Flags::Update) {
            let found = client.stat(&remote.path).await;
            let (entry, _) = found.map_err(|error| failed(TransferError::from(error)))?;
            if matches!(
                entry.kind,
                EntryKind::Dir | EntryKind::Cdir | EntryKind::Pdir
            ) {
                let fact = format!("`{to:?}` is a directory");
                return Err(Error::new(
                    ErrorKind::BadTarget,
                    LAYER,
                    Operation::Connect,
                    fact,
                ));
            }
        }
        Ok(GridftpHandle::new(remote, client))
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::base(
        LAYER,
        "files of a GridFTP server",
        |options: GridftpOptions, entry| {
            let gridftp = Gridftp::new().with_options(options);
            Ok(DynStack::active(gridftp, &entry.to_string()))
        },
    )
    .private()
}

#[cfg(test)]
mod tests;

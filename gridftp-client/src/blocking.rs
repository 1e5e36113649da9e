//! The blocking form: copies and sessions for programs without an asynchronous runtime.
//!
//! ```no_run
//! use std::io::Read as _;
//! use gridftp_client::blocking::Client;
//! use gridftp_client::{ConnectOptions, Site};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let site = Site::new("data.example.org", 2811);
//! let mut client = Client::connect(&site, ConnectOptions::default())?;
//! client.run(async |client| client.make_dirs(b"/run7/old").await)?;
//! let mut text = String::new();
//! client.read(b"/run7/notes", Default::default()).read_to_string(&mut text)?;
//! # Ok(())
//! # }
//! ```

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};

use crate::copy::Summary;
use crate::error::{ConnectError, TransferError};
use crate::file::{self, ReadOptions, WriteOptions};
use crate::options::{ConnectOptions, CopyOptions};
use crate::progress::{Observer, Totals};
use crate::types::Entry;
use crate::url::{Location, Site};

/// As [`copy`](crate::copy()), and returns at its end.
///
/// # Errors
/// As [`copy`](crate::copy()), and where the system gives no thread.
///
/// # Panics
/// Within an asynchronous runtime.
pub fn copy(
    sources: &[Location],
    destination: &Location,
    options: CopyOptions,
    observer: Arc<dyn Observer>,
    totals: Arc<Totals>,
) -> Result<Summary, TransferError> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| TransferError::local("start", "", error))?;
    let copying = crate::copy(sources, destination, options, observer, totals);
    runtime.block_on(copying)
}

/// A session with blocking calls. One thread of its own keeps the session alive.
///
/// All methods panic within an asynchronous runtime.
#[derive(Debug)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Connects to a server and logs in.
    ///
    /// # Errors
    /// [`ConnectError`], and where the system gives no thread.
    pub fn connect(site: &Site, options: ConnectOptions) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build()?;
        let connecting = crate::Client::connect(site, Arc::new(options));
        let client = runtime.block_on(connecting);
        Ok(Self {
            client: client.map_err(|error: ConnectError| TransferError::from(error))?,
            runtime: Arc::new(runtime),
        })
    }

    /// The session, for its facts.
    pub const fn client(&self) -> &crate::Client {
        &self.client
    }

    /// Runs any method of the session to its end.
    pub fn run<T>(&mut self, work: impl AsyncFnOnce(&mut crate::Client) -> T) -> T {
        self.runtime.block_on(work(&mut self.client))
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// [`TransferError`].
    pub fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, TransferError> {
        let mut entries = Vec::new();
        let listing = self.client.list(path, |entry, _| entries.push(entry));
        self.runtime.block_on(listing)?;
        Ok(entries)
    }

    /// Turns the session into a reader of `path`.
    pub fn read(self, path: impl Into<Vec<u8>>, options: ReadOptions) -> Reader {
        let Self { client, runtime } = self;
        Reader {
            reader: client.into_reader(path, options),
            runtime,
        }
    }

    /// Turns the session into a writer of `path`, which is whole after [`Writer::finish`].
    pub fn write(self, path: impl Into<Vec<u8>>, options: WriteOptions) -> Writer {
        let Self { client, runtime } = self;
        Writer {
            writer: client.into_writer(path, options),
            runtime,
        }
    }

    /// Ends the session politely.
    pub fn close(self) {
        self.runtime.block_on(self.client.close());
    }
}

/// A remote file that is being read.
#[derive(Debug)]
pub struct Reader {
    reader: file::Reader,
    runtime: Arc<Runtime>,
}

impl Reader {
    /// Stops reading and gives the session back; `None` when it ended with the transfer.
    pub fn stop(self) -> Option<Client> {
        let Self { reader, runtime } = self;
        let client = runtime.block_on(reader.stop())?;
        Some(Client { client, runtime })
    }
}

impl io::Read for Reader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.runtime.block_on(self.reader.read(buf))
    }
}

/// A remote file that is being written; dropped before [`finish`](Self::finish) it is not whole, and
/// its data connections are reset.
#[derive(Debug)]
pub struct Writer {
    writer: file::Writer,
    runtime: Arc<Runtime>,
}

impl Writer {
    /// Waits for the server's word, and gives the session back.
    ///
    /// # Errors
    /// The refusal of the server, or the failure of the session, which is closed then.
    pub fn finish(self) -> io::Result<Client> {
        let Self { writer, runtime } = self;
        let client = runtime.block_on(writer.finish())?;
        Ok(Client { client, runtime })
    }
}

impl io::Write for Writer {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.runtime.block_on(self.writer.write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.runtime.block_on(self.writer.flush())
    }
}

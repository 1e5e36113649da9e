//! One remote file as bytes in order: [`Reader`] and [`Writer`], tokio's traits over one transfer.
//!
//! A session turns into a reader or a writer of one file, from one position, and comes back when
//! that is done. Nothing is spawned: bytes move while the reader or the writer is polled, and the
//! memory for waiting bytes is bounded, whatever the other end does.
//!
//! ```no_run
//! use std::sync::Arc;
//! use gridftp_client::file::{ReadOptions, WriteOptions};
//! use gridftp_client::{Client, ConnectOptions, Site};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let site = Site::new("data.example.org", 2811);
//! let client = Client::connect(&site, Arc::new(ConnectOptions::default())).await?;
//!
//! let mut reader = client.into_reader("/run7/events", ReadOptions::default().offset(4096));
//! let mut word = [0; 8];
//! reader.read_exact(&mut word).await?;
//! let client = reader.stop().await.ok_or("the session ended")?;
//!
//! let mut writer = client.into_writer("/run7/summary", WriteOptions::default());
//! writer.write_all(&word).await?;
//! let client = writer.finish().await?; // the server has said that it has all of it
//! # drop(client);
//! # Ok(())
//! # }
//! ```
//!
//! MODE E is used where [`ConnectOptions::mode`](crate::ConnectOptions::mode) asks for it, and MODE
//! S otherwise: MODE E needs the server to reach us for a read, and one stream in order gains from
//! it only over several connections.

mod reader;
mod writer;

use std::io;

use ftp_proto::client::FailureKind;
use gridftp_data::ErrorKind as DataErrorKind;

pub use reader::{ReadOptions, Reader};
pub use writer::{WriteFrom, WriteOptions, Writer};

use crate::client::Client;
use crate::error::{ConnectError, ControlError, TransferError};
use crate::transfer::{Failure, SessionState};

/// Bytes that are handed over at once; a few of them wait in memory, no more.
const PIECE: usize = 256 * 1024;

/// The end of a transfer: the session, if it is of use, and the outcome.
struct Done {
    client: Option<Client>,
    result: Result<(), TransferError>,
    /// Whether the server had accepted it.
    begun: bool,
}

impl Done {
    /// Keeps the session if its server owes no reply.
    fn of(mut client: Client, result: Result<(), Failure>, begun: bool) -> Self {
        let failed = result.as_ref().err().map(|failure| failure.session);
        if failed.is_some() {
            client.drop_channel();
        }
        // A server may close the session behind its confirmation: the transfer is done all the same.
        let lost = matches!(failed, Some(SessionState::Unanswered | SessionState::Lost))
            || (failed.is_some() && client.control.gone().is_some());
        let client = Some(client).filter(|_| !lost);
        Self {
            client,
            result: result.map_err(|failure| failure.error),
            begun,
        }
    }
}

/// A module's name and arguments as they go into a command.
fn module(text: &str) -> Result<String, TransferError> {
    if text.is_empty() || text.contains(['\0', '\r', '\n']) {
        let what = "usage: a module is name=\"arguments\", without line ends";
        return Err(TransferError::request(what, ""));
    }
    Ok(text.to_owned())
}

impl TransferError {
    /// The kind of I/O error for the caller of a reader or a writer.
    pub(crate) fn io_kind(&self) -> io::ErrorKind {
        let refused = |kind| match kind {
            FailureKind::NotFound => io::ErrorKind::NotFound,
            FailureKind::Denied | FailureKind::Login => io::ErrorKind::PermissionDenied,
            FailureKind::NoSpace => io::ErrorKind::StorageFull,
            FailureKind::Unsupported => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        match self {
            Self::Connect(ConnectError::Unreachable { .. }) => io::ErrorKind::HostUnreachable,
            Self::Connect(ConnectError::Login { .. } | ConnectError::Security { .. }) => {
                io::ErrorKind::PermissionDenied
            }
            Self::Control(error) => match error {
                ControlError::Refused { .. } => error.kind().map_or(io::ErrorKind::Other, refused),
                ControlError::Lost { .. } => io::ErrorKind::ConnectionReset,
                ControlError::Misbehaved { .. } => io::ErrorKind::InvalidData,
            },
            Self::Data { cause, .. } => match cause.kind() {
                DataErrorKind::Timeout(_) => io::ErrorKind::TimedOut,
                DataErrorKind::Open => io::ErrorKind::ConnectionRefused,
                DataErrorKind::Protocol | DataErrorKind::Corrupt | DataErrorKind::Limit => {
                    io::ErrorKind::InvalidData
                }
                _ => io::ErrorKind::ConnectionReset,
            },
            Self::Request { .. } | Self::BadName { .. } => io::ErrorKind::InvalidInput,
            Self::Cut { cause, .. } => match cause.io_kind() {
                io::ErrorKind::TimedOut => io::ErrorKind::TimedOut,
                _ => io::ErrorKind::UnexpectedEof,
            },
            _ => io::ErrorKind::Other,
        }
    }
}

impl From<TransferError> for io::Error {
    fn from(error: TransferError) -> Self {
        Self::new(error.io_kind(), error)
    }
}

/// The error of a handle after its transfer has failed.
fn failed_before() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "the transfer failed before; open the file again",
    )
}

#[cfg(test)]
mod tests;

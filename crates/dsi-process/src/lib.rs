//! Storage in a process of its own, written in any language.
//!
//! The process serves the gRPC service of `storage.proto` (of `gridftp-dsi-rpc`) on a Unix socket.
//! Only calls cross it: for each open file the process passes a descriptor on a second socket, and
//! the server reads and writes the bytes through that. So data moves as fast as with a directory of
//! the server's own, and a process that crashes fails its own transfers and nothing else; the next
//! call connects anew. A process that has no descriptor moves the bytes of a file by calls.
//!
//! The process checks paths and enforces its own rights. This end refuses all changes by read-only
//! users, a file with holes, and the removal of the root. The description of the process tells
//! whether uploads are continued after an interruption, and files changed in part.
//!
//! `examples/folder.py` is a complete storage in Python.
//!
//! ```no_run
//! use std::path::Path;
//!
//! let storage = gridftp_dsi_process::open(Path::new("/run/tape.sock"))?;
//! # Ok::<(), gridftp_dsi::Error>(())
//! ```
#![forbid(unsafe_code)]

mod connection;

use std::path::Path;
use std::time::Duration;

use gridftp_dsi::{Error, ErrorKind, Result};
use gridftp_dsi_rpc::proto::{DescribeRequest, Description};
use gridftp_dsi_rpc::{Peer, Remote, VERSION};
use tokio::time::timeout;

pub use crate::connection::Connection;

/// Longest wait for the description.
const DESCRIBING: Duration = Duration::from_secs(60);

/// Storage in another process.
pub type Process = Remote<Connection>;

/// Asks the process at a socket for its abilities.
///
/// Blocks for a moment, on a thread of its own, so that it may be called within a runtime.
///
/// # Errors
/// [`ErrorKind::Unavailable`] where no process answers, [`ErrorKind::Unsupported`] for another
/// version of the service.
pub fn open(socket: &Path) -> Result<Process> {
    let gone = |why| {
        let why = format!("the process at {}: {why}", socket.display());
        Error::new(ErrorKind::Unavailable, "open").because(why)
    };
    let asking = std::thread::scope(|scope| scope.spawn(|| ask(socket)).join());
    let asked = asking.unwrap_or_else(|_| Err("the thread ended".to_owned()));
    let described = asked.map_err(gone)?;
    if described.version != VERSION {
        let (other, at) = (described.version, socket.display());
        let why = format!("{at} speaks version {other} of the service, this server {VERSION}");
        return Err(Error::new(ErrorKind::Unsupported, "open").because(why));
    }
    Ok(Remote::new(Connection::new(socket, &described)))
}

/// Asks over a connection of its own.
fn ask(socket: &Path) -> Result<Description, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let asking = async {
        let caller = connection::call(socket).await.map_err(|e| e.to_string())?;
        let mut client = Peer::new("process", caller).client();
        let described = client.describe(DescribeRequest {}).await;
        Ok(described.map_err(|status| status.to_string())?.into_inner())
    };
    let asked = runtime
        .map_err(|error| error.to_string())?
        .block_on(async { timeout(DESCRIBING, asking).await });
    asked.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

//! `Peers`: the processes that serve one storage, and the choice of one for a call.

use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use gridftp_dsi::{Capabilities, DsiPath, User};
use tonic::codegen::http::Uri;

use crate::Client;
use crate::caller::Caller;

/// The rule by which a peer is chosen for a call.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_enums, reason = "peers choose by each rule")]
pub enum Choice<'a> {
    /// The same peer for each call of this user at this path, as long as the peers stay.
    Place(&'a User, &'a DsiPath),
    /// The least loaded one.
    Load,
}

/// One connected process. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Peer {
    name: Arc<str>,
    caller: Caller,
}

impl Peer {
    /// The process called `name` at the other end of a connection.
    pub fn new(name: &str, caller: Caller) -> Self {
        let name = name.into();
        Self { name, caller }
    }

    /// The name, unique among the peers.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A client over the connection.
    pub fn client(&self) -> Client {
        Client::with_origin(self.caller.clone(), Uri::from_static("http://storage"))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.caller.is_closed()
    }
}

/// The processes that serve one storage.
pub trait Peers: fmt::Debug + Send + Sync + 'static {
    /// The capabilities that all of them have.
    fn capabilities(&self) -> Capabilities;

    /// The identity of the storage, if they tell it.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Chooses a connected peer whose name is not in `tried`.
    ///
    /// # Errors
    /// There is none; the error says why.
    fn peer(&self, by: Choice<'_>, tried: &[Peer])
    -> impl Future<Output = io::Result<Peer>> + Send;

    /// Fetches the descriptor of an open file, whose bytes do not move by calls.
    ///
    /// # Errors
    /// The peer passes none.
    fn descriptor(&self, handle: u64) -> impl Future<Output = io::Result<OwnedFd>> + Send {
        let _ = handle;
        std::future::ready(Err(io::ErrorKind::Unsupported.into()))
    }
}

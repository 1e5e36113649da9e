//! `TlsEnd`: one end with a fixed role, over a configuration of rustls that the caller made.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use xio_core::{Info, Operation, Result, Stream, Target, Transform};

use crate::error::{LAYER, blame};
use crate::handle::{Receiving, TlsHandle};
use crate::options::DEFAULT_HANDSHAKE_TIMEOUT;
use crate::session::Session;

/// A filter between the bytes of the peer and rustls, for the handshake of one connection.
pub trait Filter: Send {
    /// Takes the next bytes of the peer, each once and in order, and may change them.
    fn admit(&mut self, incoming: &mut [u8]);

    /// Calls `process`, in which rustls reads admitted bytes.
    fn scope(&self, process: &mut dyn FnMut());
}

type MakeFilter = dyn Fn() -> Box<dyn Filter> + Send + Sync;

/// A layer that is always the client of its handshakes, or always their server, whichever end
/// connected.
///
/// The configuration decides about trust, certificates and resumption; a client resumes a session
/// that its configuration remembers for the same name.
#[derive(Clone)]
pub struct TlsEnd {
    role: Role,
    handshake_timeout: Duration,
    receiving: Receiving,
    filter: Option<Arc<MakeFilter>>,
    wipes: bool,
    off_reactor: bool,
}

#[derive(Clone)]
enum Role {
    Client(Arc<ClientConfig>, ServerName<'static>),
    Server(Arc<ServerConfig>),
}

impl TlsEnd {
    /// The client, which tells the server this name; an address is not told.
    #[must_use]
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Self {
        Self::new(Role::Client(config, name))
    }

    /// The server.
    #[must_use]
    pub fn server(config: Arc<ServerConfig>) -> Self {
        Self::new(Role::Server(config))
    }

    fn new(role: Role) -> Self {
        Self {
            role,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            receiving: Receiving::Marked,
            filter: None,
            wipes: false,
            off_reactor: false,
        }
    }

    /// Time limit of the whole handshake; 30 seconds by default.
    #[must_use]
    pub fn handshake_timeout(mut self, time: Duration) -> Self {
        self.handshake_timeout = time;
        self
    }

    /// Accepts a peer that sends neither close-notify nor a ticket, as Globus programs do.
    ///
    /// The end of the stream below then counts as close-notify, though an attacker on the path can
    /// cause it: [`Info::ended_unmarked`] tells it from an end that the peer wrote. And a client does
    /// not wait for a message of the server before it shuts down.
    #[must_use]
    pub fn close_notify_optional(mut self) -> Self {
        self.receiving = Receiving::Unmarked;
        self
    }

    /// Overwrites received bytes in memory as soon as they are read, for channels of passwords.
    #[must_use]
    pub fn wiped(mut self) -> Self {
        self.wipes = true;
        self
    }

    /// Works on handshakes off the reactor, see [`off_reactor`](crate::off_reactor), for servers
    /// that strangers connect to.
    #[must_use]
    pub fn off_reactor(mut self) -> Self {
        self.off_reactor = true;
        self
    }

    /// Passes the peer's part of each handshake through a new filter.
    #[must_use]
    pub fn filtered<F: Filter + 'static>(
        mut self,
        make: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        self.filter = Some(Arc::new(move || Box::new(make())));
        self
    }

    /// Runs the handshake on `inner`.
    ///
    /// # Errors
    /// The peer is refused, refuses this end, speaks no TLS, or takes too long.
    ///
    /// # Cancel safety
    /// Dropping the future drops `inner`, which closes it.
    pub async fn open<S: Stream>(&self, inner: S, op: Operation) -> Result<TlsHandle<S>> {
        let session = match &self.role {
            Role::Client(config, name) => Session::initiate(Arc::clone(config), name.clone()),
            Role::Server(config) => Session::respond(Arc::clone(config)),
        };
        let session = session.map_err(|e| blame(&e, op))?;
        let filter = self.filter.as_ref().map(|make| make());
        let mut handle = TlsHandle::new(inner, session, self.receiving, filter);
        if self.wipes {
            handle.incoming.wipe();
            handle.plain.wipe();
        }
        let limit = self.handshake_timeout;
        let mut handle = match self.off_reactor {
            true => handle.opened_off_reactor(limit, op).await?,
            false => handle.opened(limit, op).await?,
        };
        if self.receiving == Receiving::Unmarked {
            handle.verdict = None;
        }
        Ok(handle)
    }
}

impl<S: Stream> Transform<S> for TlsEnd {
    type Handle = TlsHandle<S>;

    async fn initiate(&self, inner: S, _: &Target) -> Result<TlsHandle<S>> {
        self.open(inner, Operation::Connect).await
    }

    async fn respond(&self, inner: S) -> Result<TlsHandle<S>> {
        self.open(inner, Operation::Open).await
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

impl fmt::Debug for TlsEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LAYER)
    }
}

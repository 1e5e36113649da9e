//! TLS 1.2 and 1.3 on any byte stream.
//!
//! # What it does
//!
//! Encrypts a stream, and authenticates the server to the client and, on demand, the client to the
//! server. It is [rustls] with the cryptography of AWS-LC: authenticated encryption with forward
//! secrecy and nothing else; no renegotiation, no compression, no early data.
//!
//! The end mark is *close-notify* (RFC 8446 §6.1): `shutdown` sends it, and a stream below that
//! ends without it is an error, since an attacker may have cut it. One direction can end before the
//! other.
//!
//! A peer without `alpn` is accepted (RFC 7301); [`TlsInfo`] has the negotiated protocol. A peer
//! that offers none of the wanted protocols is refused.
//!
//! A refused peer receives the alert and the end behind it; its bytes are discarded until it
//! closes, for a second and 1 MiB at most, before the error is returned. In TLS 1.3 the client is
//! open before the server has checked its certificate, and learns of a refusal by reading, or by a
//! failed write. Where ending one way of the stream ends both, as over UDT, its `shutdown` waits
//! for the first message of the server, so that a refusal is an error.
//!
//! Certificates are always verified. For tests and measurements, make an authority and name it in
//! `ca`.
//!
//! # When not to use it
//!
//! With peers of Globus XIO's `gsi` driver, which adds messages of its own to TLS; and on a link
//! that is protected already. TLS 1.2 allows 2^24 records under one AES-GCM key, 256 GiB one way,
//! and then fails; TLS 1.3 renews its keys (`min=1.3`).
//!
//! # String form
//!
//! `tls` or `tls:key=value;key=value`. Values with `,` `;` `:` or `%` are `%HH`-encoded.
//!
//! The options are those of [`TlsOptions`].
//!
//! A stack with `cert` can listen; one without can only connect. The files are read when the stack
//! is made, so a peer's string must not set the options of this driver.
//!
//! # Cost
//!
//! One pass of encryption each way, two copies of the payload beside it, and one system call for up
//! to 128 KiB. Buffers grow to 256 KiB with the stream's speed. The handshake takes a round trip
//! (two in TLS 1.2) and a signature; a resumed one no signature.
//!
//! # Why not tokio-rustls
//!
//! It drives rustls through the library's own buffers, which read 4 KiB at a time, and it sends a
//! responder's tickets at once, which a peer that only sends never reads (see `handle.rs` for the
//! harm). Driving the library over our buffers gives large reads, several records per write, and an
//! error that names the layer for every way in which a connection can break. It takes a quarter
//! less processor time (`cargo xtask bench tls` measures both in one run).
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Transport};
//! use xio_testkit::Mem;
//! use xio_tls::{Identity, Roots, Tls};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let own = rcgen::generate_simple_self_signed(["dtn.example.org".to_owned()])?;
//! let (cert, key) = (own.cert.pem(), own.signing_key.serialize_pem());
//! let tls = Tls::both(
//!     Roots::pem(cert.as_bytes())?,
//!     Identity::pem(cert.as_bytes(), key.as_bytes())?,
//! );
//!
//! let stack = Mem::new().push(tls.build()?);
//! let at = "dtn.example.org:2811".parse()?;
//! let mut listener = stack.listen(&at).await?;
//! let (near, far) = tokio::join!(stack.connect(&at), async {
//!     listener.accept().await?.open().await
//! });
//! let (mut near, mut far) = (near?, far?);
//!
//! near.write_all(b"hello").await?;
//! near.shutdown().await?;
//! let mut text = String::new();
//! far.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod buffer;
mod builder;
mod credentials;
mod end;
mod error;
mod handle;
mod info;
mod named;
mod options;
mod paired;
mod refusal;
mod send;
mod session;
mod sessions;
#[cfg(test)]
mod tests;
mod work;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use xio_core::{
    Driver, DynLayer, Error, ErrorKind, Info, Operation, Result, Stream, Target, Transform,
};

use crate::builder::Shared;
use crate::error::{LAYER, blame};
use crate::handle::Receiving;
use crate::session::Session;

pub use builder::{Both, Client, Initiates, Responds, Server, TlsBuilder};
pub use credentials::{Identity, Roots};
pub use end::{Filter, TlsEnd};
pub use error::CertificateFault;
pub use handle::TlsHandle;
pub use info::TlsInfo;
pub use options::{ClientCertificates, MinVersion, TlsOptions};
pub use paired::{TlsServer, TlsSession};
pub use sessions::Tickets;
pub use work::off_reactor;

/// The layer, for one role or both.
pub struct Tls {
    active: Option<Active>,
    passive: Option<Arc<ServerConfig>>,
    handshake_timeout: Duration,
    unmarked_end: bool,
}

/// Settings of the client role.
struct Active {
    roots: Roots,
    identity: Option<Identity>,
    shared: Shared,
    name: Option<ServerName<'static>>,
    /// Made on first use, where the roots are the system's.
    config: OnceLock<Arc<ClientConfig>>,
}

impl Active {
    fn config(&self) -> Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let made = builder::initiator(&self.roots, self.identity.clone(), &self.shared)?;
        Ok(Arc::clone(self.config.get_or_init(|| made)))
    }

    /// The name that the server's certificate must have.
    fn expected(&self, to: &Target) -> Result<ServerName<'static>> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let told = to.subject.as_deref().or(to.host.as_deref());
        let name = told.and_then(|name| ServerName::try_from(name.to_owned()).ok());
        name.ok_or_else(|| {
            let told = told.map_or_else(
                || "the target has no host".to_owned(),
                |name| format!("{name:?} is no host name that a certificate is for"),
            );
            Error::new(
                ErrorKind::BadTarget,
                LAYER,
                Operation::Connect,
                format!("{told}; give the expected name in the option name"),
            )
        })
    }
}

impl Tls {
    /// A layer for the client, which trusts these authorities.
    pub fn client(roots: Roots) -> TlsBuilder<Client> {
        TlsBuilder::new(Some(roots), None)
    }

    /// A layer for the server, with this certificate.
    pub fn server(identity: Identity) -> TlsBuilder<Server> {
        TlsBuilder::new(None, Some(identity))
    }

    /// A layer for both roles.
    pub fn both(roots: Roots, identity: Identity) -> TlsBuilder<Both> {
        TlsBuilder::new(Some(roots), Some(identity))
    }

    /// Runs the handshake over `inner` within the time limit, and sends the alert of a refusal.
    async fn handshake<S: Stream>(
        &self,
        inner: S,
        session: Session,
        op: Operation,
    ) -> Result<TlsHandle<S>> {
        let receiving = match self.unmarked_end {
            true => Receiving::Unmarked,
            false => Receiving::Marked,
        };
        TlsHandle::new(inner, session, receiving, None)
            .opened(self.handshake_timeout, op)
            .await
    }
}

impl<S: Stream> Transform<S> for Tls {
    type Handle = TlsHandle<S>;

    async fn initiate(&self, inner: S, to: &Target) -> Result<TlsHandle<S>> {
        let op = Operation::Connect;
        let active = self.active.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                LAYER,
                op,
                "this layer was made for servers only; it has no trusted authorities",
            )
        })?;
        let name = active.expected(to)?;
        let session = Session::initiate(active.config()?, name).map_err(|e| blame(&e, op))?;
        self.handshake(inner, session, op).await
    }

    async fn respond(&self, inner: S) -> Result<TlsHandle<S>> {
        let op = Operation::Open;
        let config = self.passive.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                LAYER,
                op,
                "a server needs a certificate; give it in the option cert",
            )
        })?;
        let session = Session::respond(Arc::clone(config)).map_err(|e| blame(&e, op))?;
        self.handshake(inner, session, op).await
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LAYER)
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer(LAYER, "TLS 1.2 and 1.3", |options: TlsOptions, _| {
        Ok(DynLayer::new(options.build()?))
    })
}

//! HTTP/1.0 and 1.1: one exchange as a stream.
//!
//! # What it does
//!
//! The end that connects is the client: GET reads the resource at the target's path, PUT writes it,
//! and any other method works as well. The other end is the server: it reads the request and
//! responds. Writes and reads carry the entities of the two messages; the layer adds heads, lengths
//! and chunks. It runs over every byte stream: `tcp`, `tls`, `udt`.
//!
//! | Operation | Client | Server |
//! | --- | --- | --- |
//! | opening | sends the head of the request | waits for it and checks it |
//! | writing | the request's entity (PUT, POST) | the response's entity |
//! | `shutdown` | ends the request's entity | ends the response, then the stream below |
//! | reading | the response's entity, or an error for another status | the request's entity |
//!
//! [`Exchange`] holds both heads, and lets the server set the response. It is part of [`Info`], so
//! that it is available from a stack made of a string. With `persistent`, [`HttpHandle::ask`] and
//! [`HttpHandle::accept`] continue with another exchange.
//!
//! A 2xx to CONNECT makes a tunnel of the client's end: from [`HttpHandle::receive_response`] on, writes
//! and reads carry bytes as they are. The server's end has none.
//!
//! A PUT has succeeded when a read to the end, after `shutdown`, returns no error: the read checks
//! the status.
//!
//! Over a stream that ends both directions together, as `udt` does, request and response take
//! turns: the server reads the request to its end before it shuts down, or truncates it.
//!
//! # Strictness
//!
//! A message that two peers could understand in two ways is refused: length and chunks together,
//! lengths that differ or are no plain number, other transfer codings, folded fields, blanks before
//! a colon, half a line end, no Host or two. Heads, chunk lines and trailers are bounded, and
//! chunks must carry payload. A body that ends early is an error,
//! [`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof). A body with neither length nor chunks ends
//! with the stream below, which must then distinguish a clean end from a broken connection.
//!
//! # When not to use it
//!
//! As a client of the web: it follows no redirects, keeps no cookies, asks for no passwords and
//! decodes no content codings.
//!
//! # String form
//!
//! `http` or `http:key=value;key=value`. Globus XIO has the same settings as driver attributes.
//!
//! The options are those of [`HttpOptions`].
//!
//! # Cost
//!
//! A body is read straight into the reader's buffer except for the first 16 KiB; a write goes below
//! together with the line of its chunk, and only the part that the layer below does not accept is
//! copied.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::{Incoming, Listener, Passive, Transport};
//! use xio_http::{Http, HttpOptions};
//! use xio_testkit::Mem;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stack = Mem::new().push(Http::new());
//! let to = "http://server:80/data/file".parse()?;
//! let mut listener = stack.listen(&to).await?;
//! let (near, far) = tokio::join!(stack.connect(&to), async {
//!     listener.accept().await?.open().await
//! });
//! let (mut near, mut far) = (near?, far?);
//!
//! let asked = far.exchange().request().expect("a head was read");
//! assert_eq!((asked.method.as_str(), asked.target.as_str()), ("GET", "/data/file"));
//! far.write_all(b"hello").await?;
//! far.shutdown().await?;
//!
//! let mut text = String::new();
//! near.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod bad;
pub mod body;
mod error;
mod exchange;
mod handle;
mod head;
mod options;
pub mod parse;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use xio_core::{Driver, DynLayer, ErrorKind, Info, Operation, Result, Stream, Target, Transform};

use crate::error::{LAYER, broken, error, truncated};
use crate::handle::Role;

pub use bad::{BadBody, BadHead};
pub use exchange::Exchange;
pub use handle::HttpHandle;
pub use head::{Headers, Request, Response, Version};
pub use options::HttpOptions;

/// Characters that a path and a query must encode (RFC 3986 §3.3, §3.4).
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The layer.
#[derive(Clone, Default)]
pub struct Http {
    options: HttpOptions,
}

impl Http {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The request for a target.
    fn request(&self, to: &Target) -> Result<Request> {
        let op = Operation::Connect;
        if to.user.is_some() || to.password.is_some() {
            let fact = "user and password of a target are not sent; \
                        give them in the option header, as Authorization";
            return Err(error(ErrorKind::BadTarget, op, fact));
        }
        let host = match (&self.options.host, &to.host) {
            (Some(host), _) => host.clone(),
            (None, Some(host)) => authority(host, to.port),
            (None, None) => {
                let fact = "the target has no host; set the option host";
                return Err(error(ErrorKind::BadTarget, op, fact));
            }
        };
        let path = to.path.as_deref().unwrap_or_default();
        let encoded = || format!("/{}", utf8_percent_encode(path, ENCODED));
        let target = self.options.target.clone().unwrap_or_else(encoded);
        let mut request =
            Request::new(&self.options.method, &target).map_err(|bad| broken(op, bad))?;
        request
            .headers
            .push("Host", host)
            .and_then(|()| self.options.add_to(&mut request.headers))
            .map_err(|bad| error(ErrorKind::BadTarget, op, bad.to_string()))?;
        Ok(request)
    }
}

/// Runs the beginning of an exchange, which waits for the peer, within `time`.
pub(crate) async fn within<T>(
    time: Duration,
    op: Operation,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| {
        let fact = format!(
            "the head of the request was not complete within {} s",
            time.as_secs_f64()
        );
        Err(error(ErrorKind::TimedOut, op, fact))
    })
}

/// A host and its port in the form of the field Host.
fn authority(host: &str, port: Option<u16>) -> String {
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    match port {
        None | Some(80) => host,
        Some(port) => format!("{host}:{port}"),
    }
}

impl<S: Stream> Transform<S> for Http {
    type Handle = HttpHandle<S>;

    async fn initiate(&self, inner: S, to: &Target) -> Result<HttpHandle<S>> {
        let op = Operation::Connect;
        let request = self.request(to)?;
        let mut handle = HttpHandle::new(inner, Arc::new(self.options.clone()), Role::Asks);
        handle.begin_request(request)?;
        if !self.options.delay_write_header {
            handle.push_head(op).await?;
        }
        Ok(handle)
    }

    async fn respond(&self, inner: S) -> Result<HttpHandle<S>> {
        let op = Operation::Open;
        let mut handle = HttpHandle::new(inner, Arc::new(self.options.clone()), Role::Answers);
        let time = self.options.head_timeout;
        match within(time, op, handle.receive_request()).await? {
            true => Ok(handle),
            false => Err(truncated(op, "the peer ended without a request")),
        }
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, LAYER, &self.options)
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer(
        LAYER,
        "HTTP/1.0 and 1.1, one exchange as a stream",
        |options: HttpOptions, _| Ok(DynLayer::new(Http::new().with_options(options))),
    )
}

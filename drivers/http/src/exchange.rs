//! `Exchange`: the heads of both messages, for the holder of the stream.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xio_core::{ErrorKind, Operation, Result};

use crate::error::error;
use crate::head::{Request, Response};
use crate::options::is_reserved;
use crate::parse;

/// The request and the response of an exchange; part of [`Info`](xio_core::Info).
///
/// Clones share the exchange. The server sets its response through it, before it writes:
///
/// ```
/// # fn answer(stream: &dyn xio_core::Stream) -> Result<(), Box<dyn std::error::Error>> {
/// use xio_http::{Exchange, Response};
///
/// let info = stream.info();
/// let exchange = info.get::<Exchange>().ok_or("no http in this stack")?;
/// if exchange.request().is_some_and(|request| request.target != "/data") {
///     exchange.reply(Response::new(404)?)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Exchange(Arc<Mutex<Facts>>);

#[derive(Default)]
struct Facts {
    request: Option<Request>,
    response: Option<Response>,
    reply: Reply,
}

#[derive(Default)]
enum Reply {
    /// This end is the client, or has responded.
    #[default]
    Closed,
    /// This end will respond, with this response or the one of the options.
    Open(Option<Response>),
}

impl Exchange {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> Option<Request> {
        self.facts().request.clone()
    }

    /// The response, once the client has read its head or the server has written it.
    #[must_use]
    pub fn response(&self) -> Option<Response> {
        self.facts().response.clone()
    }

    /// Sets the response, in place of the one of the options. A field Content-Length is enforced.
    ///
    /// # Errors
    /// At the client, after the response has begun, for fields that the layer writes by itself, and
    /// for an invalid status or length.
    pub fn reply(&self, response: Response) -> Result<()> {
        Response::new(response.status)
            .and_then(|_| parse::length(&response.headers))
            .map_err(|bad| error(ErrorKind::BadOption, Operation::Write, bad.to_string()))?;
        let own = |name: &str| is_reserved(name) && !name.eq_ignore_ascii_case("content-length");
        if let Some((name, _)) = response.headers.iter().find(|(name, _)| own(name)) {
            let fact = format!("the field {name} is written by this layer");
            return Err(error(ErrorKind::BadOption, Operation::Write, fact));
        }
        match &mut self.facts().reply {
            Reply::Open(reply) => *reply = Some(response),
            Reply::Closed => {
                let fact = "this end is the client, or the response has begun";
                return Err(error(ErrorKind::Unsupported, Operation::Write, fact));
            }
        }
        Ok(())
    }

    /// Begins a new exchange with this request.
    pub(crate) fn begin(&self, request: Request, answers: bool) {
        *self.facts() = Facts {
            request: Some(request),
            response: None,
            reply: if answers {
                Reply::Open(None)
            } else {
                Reply::Closed
            },
        };
    }

    /// Takes the response set by the application, which cannot be changed from then on.
    pub(crate) fn take_reply(&self) -> Option<Response> {
        match std::mem::take(&mut self.facts().reply) {
            Reply::Open(reply) => reply,
            Reply::Closed => None,
        }
    }

    pub(crate) fn answered(&self, response: Response) {
        self.facts().response = Some(response);
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        f.debug_struct("Exchange")
            .field("request", &facts.request)
            .field("response", &facts.response)
            .finish_non_exhaustive()
    }
}

//! `Exchange`: the heads of both messages, for whoever holds the stream.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xio_core::{ErrorKind, Operation, Result};

use crate::error::error;
use crate::head::{Request, Response};
use crate::options::is_reserved;
use crate::parse;

/// What was asked and what was answered; a layer's fact in [`Info`](xio_core::Info).
///
/// Clones see the same exchange. The end that was connected to says through it what to answer,
/// before it writes:
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
    /// This end asked, or has answered.
    #[default]
    Closed,
    /// This end will answer, with what the options say or with this.
    Open(Option<Response>),
}

impl Exchange {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was asked.
    #[must_use]
    pub fn request(&self) -> Option<Request> {
        self.facts().request.clone()
    }

    /// What was answered; at the end that asked once it read so far, at the other once it wrote.
    #[must_use]
    pub fn response(&self) -> Option<Response> {
        self.facts().response.clone()
    }

    /// Says what to answer, in place of what the options say. A field Content-Length is kept to.
    ///
    /// # Errors
    /// When this end asks and does not answer, when it began to answer before, for fields that the
    /// layer writes by itself, and for a status or a length that peers could not read.
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
                let fact = "this end asks, or has begun to answer";
                return Err(error(ErrorKind::Unsupported, Operation::Write, fact));
            }
        }
        Ok(())
    }

    /// A new exchange begins with this request.
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

    /// Takes what the application wants answered; it cannot be changed from then on.
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

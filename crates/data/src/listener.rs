//! `DataListener`: takes connections off a listener, keeps strangers out, and lets no slow handshake hold up the next peer.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tracing::debug;
use xio_core::{BoxIncoming, BoxListener, Incoming, Listener};

use crate::conn::Opened;
use crate::descriptors::Permit;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Options, Peers};

/// Most handshakes at a time.
const OPENING: usize = 32;

/// A peer's handshakes; they give nothing when they failed.
type Opening = Pin<Box<dyn Future<Output = Option<Opened>> + Send>>;

/// The listener of a channel, which the peer's connections come in by.
#[derive(Debug)]
pub(crate) enum DataListener {
    /// Peers stay in the backlog until a transfer asks for them.
    Plain(Acceptor),
    /// A task accepts them at once: the handshake of a layer needs both ends, and a peer that
    /// replies only after its handshake would otherwise wait for this end, and this end for its reply.
    Attended {
        accepted: mpsc::Receiver<Result<Opened>>,
        /// Connections that were accepted before failures that are forgotten.
        earlier: VecDeque<Opened>,
    },
}

impl DataListener {
    /// Accepts the connections of a channel from `listener`. The task that attends it is one of
    /// `tasks`, and ends soon after this is dropped; only then is the port free.
    pub(crate) fn new(
        (listener, port): (BoxListener, Permit),
        peers: Peers,
        options: &Options,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let layered = listener.info().chain.len() > 1;
        let mut acceptor = Acceptor {
            listener,
            port,
            peers,
            within: options.open_within,
            opening: Vec::new(),
        };
        if !layered {
            return Self::Plain(acceptor);
        }
        let most = usize::try_from(options.connections).unwrap_or(usize::MAX);
        let (to, accepted) = mpsc::channel(most.clamp(1, Semaphore::MAX_PERMITS));
        tasks.spawn(async move {
            tokio::select! {
                () = to.closed() => {}
                () = attend(&mut acceptor, &to) => {}
            }
        });
        Self::Attended {
            accepted,
            earlier: VecDeque::new(),
        }
    }

    /// Waits for the next connection that may be served.
    ///
    /// # Cancel safety
    /// Nothing is lost: peers stay in the backlog, handshakes go on with the next call.
    pub(crate) async fn next(&mut self) -> Result<Opened> {
        match self {
            Self::Plain(acceptor) => acceptor.next().await,
            Self::Attended { accepted, earlier } => match earlier.pop_front() {
                Some(opened) => Ok(opened),
                None => accepted.recv().await.unwrap_or_else(|| {
                    let fact = "nobody looks after the data port any more";
                    Err(Error::new(ErrorKind::Open, "accept", fact))
                }),
            },
        }
    }

    /// Forgets failures that nobody waited for: connections that an earlier transfer did without.
    pub(crate) fn forget_failures(&mut self) {
        if let Self::Attended { accepted, earlier } = self {
            while let Ok(next) = accepted.try_recv() {
                earlier.extend(next);
            }
        }
    }
}

/// Accepts peers until nobody wants them any more.
async fn attend(acceptor: &mut Acceptor, to: &mpsc::Sender<Result<Opened>>) {
    loop {
        let next = acceptor.next().await;
        let failed = next.is_err();
        if to.send(next).await.is_err() {
            return;
        }
        // A listener that fails may do so at once again, so it is tried again once this failure is known.
        if failed && to.reserve_many(to.max_capacity()).await.is_err() {
            return;
        }
    }
}

/// A listener and the handshakes in progress.
pub(crate) struct Acceptor {
    listener: BoxListener,
    /// Its descriptor; those of connections are taken where it was.
    port: Permit,
    peers: Peers,
    /// Longest time for one peer's handshakes.
    within: Duration,
    opening: Vec<Opening>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} opening", self.listener, self.opening.len())
    }
}

enum Step {
    Accepted(BoxIncoming),
    Opened(Opened),
}

impl Acceptor {
    /// As [`DataListener::next`].
    async fn next(&mut self) -> Result<Opened> {
        loop {
            let step = {
                let Self {
                    listener, opening, ..
                } = self;
                let mut accept = pin!(listener.accept());
                poll_fn(|cx| {
                    if let Some(stream) = poll_opening(opening, cx) {
                        return Poll::Ready(Ok(Step::Opened(stream)));
                    }
                    if opening.len() >= OPENING {
                        return Poll::Pending;
                    }
                    accept.as_mut().poll(cx).map_ok(Step::Accepted)
                })
                .await
                .map_err(|e| Error::open("accept", "the data port failed", e))?
            };
            match step {
                Step::Opened(stream) => return Ok(stream),
                Step::Accepted(incoming) => self.admit(incoming)?,
            }
        }
    }

    /// Begins the handshakes of a peer that may come in.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] when there is no descriptor for it; it is closed then, and has to try again.
    fn admit(&mut self, incoming: BoxIncoming) -> Result<()> {
        let info = incoming.info();
        if info.peer.is_some_and(|peer| !self.peers.admits(peer)) {
            debug!(peer = ?info.peer, local = ?info.local, "stranger on a data port turned away");
            return Ok(());
        }
        let permit = self.port.more(1)?;
        let within = self.within;
        self.opening.push(Box::pin(async move {
            match tokio::time::timeout(within, incoming.open()).await {
                Ok(Ok(stream)) => Some((stream, permit)),
                Ok(Err(error)) => {
                    debug!(peer = ?info.peer, %error, "data connection failed while it was opened");
                    None
                }
                Err(_) => {
                    debug!(peer = ?info.peer, "data connection not opened in time");
                    None
                }
            }
        }));
        Ok(())
    }
}

/// Goes on with the handshakes; one that failed is forgotten, its peer may try again.
fn poll_opening(opening: &mut Vec<Opening>, cx: &mut Context<'_>) -> Option<Opened> {
    let mut at = 0;
    while let Some(future) = opening.get_mut(at) {
        match future.as_mut().poll(cx) {
            Poll::Pending => at += 1,
            Poll::Ready(done) => {
                drop(opening.swap_remove(at));
                if done.is_some() {
                    return done;
                }
            }
        }
    }
    None
}

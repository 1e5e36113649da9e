//! `DataListener`: accepts data connections of permitted hosts, with their handshakes in parallel.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};
use tracing::debug;
use xio_core::{BoxIncoming, BoxListener, Incoming, Listener};

use crate::conn::Opened;
use crate::descriptors::Permit;
use crate::error::{Error, ErrorKind, Result, Wait};
use crate::options::{Options, Peers};
use crate::refused::Refused;

/// Most simultaneous handshakes of the session's own host, which strangers cannot take.
const OPENING: usize = 32;

/// Most simultaneous handshakes of other hosts: a server connects many streams at once.
const FOREIGN: usize = 64;

/// Time after which a handshake gives way to another connection, where their number is at its
/// bound: one that says nothing must not keep the peer out.
const STALE: Duration = Duration::from_secs(3);

/// Time for the peer to connect after a failed handshake, which may have been a stranger's.
const RETRY: Duration = Duration::from_secs(3);

/// A peer's handshakes.
struct Opening {
    work: Pin<Box<dyn Future<Output = Result<Opened>> + Send>>,
    /// Whether the peer is another host than the session's own.
    is_foreign: bool,
    /// Completes when they are stale.
    stale: Pin<Box<Sleep>>,
}

/// The listener of a channel.
#[derive(Debug)]
pub(crate) enum DataListener {
    /// Peers stay in the backlog until a transfer asks for them.
    Plain(Box<Acceptor>),
    /// A task accepts them at once: a peer may send its reply only after the handshake of a layer,
    /// which needs this end while this end waits for the reply.
    Attended {
        accepted: mpsc::Receiver<Result<Opened>>,
        /// Connections accepted before errors that were dropped.
        earlier: VecDeque<Opened>,
    },
}

impl DataListener {
    /// Accepts the connections of a channel from `listener`, and notes other hosts as refused. The
    /// task that attends it is spawned on `tasks`, and ends soon after this value is dropped; only
    /// then is the port free.
    pub(crate) fn new(
        (listener, port): (BoxListener, Permit),
        (peers, refused): (Peers, Refused),
        options: &Options,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let layered = listener.info().chain.len() > 1;
        let mut acceptor = Acceptor {
            listener,
            port,
            peers,
            refused,
            within: options.open_within,
            opening: Vec::new(),
            first: First::Awaited,
        };
        if !layered {
            return Self::Plain(Box::new(acceptor));
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

    /// Waits for the next connection of a permitted host.
    ///
    /// # Cancel safety
    /// Nothing is lost: peers stay in the backlog, handshakes continue with the next call.
    pub(crate) async fn next(&mut self) -> Result<Opened> {
        match self {
            Self::Plain(acceptor) => acceptor.next().await,
            Self::Attended { accepted, earlier } => match earlier.pop_front() {
                Some(opened) => Ok(opened),
                None => accepted.recv().await.unwrap_or_else(|| {
                    let fact = "the task of the data port has ended";
                    Err(Error::new(ErrorKind::Open, "accept", fact))
                }),
            },
        }
    }

    /// Drops errors of connections that an earlier transfer did not need.
    pub(crate) fn forget_failures(&mut self) {
        if let Self::Attended { accepted, earlier } = self {
            while let Ok(next) = accepted.try_recv() {
                earlier.extend(next);
            }
        }
    }
}

/// Accepts peers until the receiver of the connections is dropped.
async fn attend(acceptor: &mut Acceptor, to: &mpsc::Sender<Result<Opened>>) {
    loop {
        let next = acceptor.next().await;
        let failed = next.is_err();
        if to.send(next).await.is_err() {
            return;
        }
        // A listener may fail again at once, so the next attempt waits until this error is read.
        if failed && to.reserve_many(to.max_capacity()).await.is_err() {
            return;
        }
    }
}

/// A listener and the handshakes in progress.
pub(crate) struct Acceptor {
    listener: BoxListener,
    /// Permit for its descriptor, from which the permits of connections derive.
    port: Permit,
    peers: Peers,
    refused: Refused,
    /// Longest time for one peer's handshakes.
    within: Duration,
    /// The oldest first.
    opening: Vec<Opening>,
    first: First,
}

/// The first connection of a listener.
enum First {
    Awaited,
    /// A handshake failed. The transfer fails with it unless another connection follows soon.
    Failed(Error, Pin<Box<Sleep>>),
    /// Later failures are those of strangers, or of a few of many connections.
    Opened,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} opening", self.listener, self.opening.len())
    }
}

enum Step {
    Accepted(BoxIncoming),
    Opened(Result<Opened>),
    /// No other connection followed a failed handshake.
    GaveUp,
}

impl Acceptor {
    /// As [`DataListener::next`].
    async fn next(&mut self) -> Result<Opened> {
        loop {
            let step = {
                let Self {
                    listener,
                    opening,
                    first,
                    ..
                } = self;
                let mut accept = pin!(listener.accept());
                poll_fn(|cx| {
                    if let Some(stream) = poll_opening(opening, cx) {
                        return Poll::Ready(Ok(Step::Opened(stream)));
                    }
                    let own = opening.iter_mut().filter(|one| !one.is_foreign);
                    if own.count() >= OPENING
                        && let Some(oldest) = opening.iter_mut().find(|one| !one.is_foreign)
                    {
                        ready!(oldest.stale.as_mut().poll(cx));
                    }
                    if let Poll::Ready(accepted) = accept.as_mut().poll(cx) {
                        return Poll::Ready(accepted.map(Step::Accepted));
                    }
                    match first {
                        First::Failed(_, retry) if opening.is_empty() => {
                            retry.as_mut().poll(cx).map(|()| Ok(Step::GaveUp))
                        }
                        _ => Poll::Pending,
                    }
                })
                .await
                .map_err(|e| Error::open("accept", "the data port failed", e))?
            };
            match step {
                Step::GaveUp => {
                    if let First::Failed(error, _) = mem::replace(&mut self.first, First::Awaited) {
                        return Err(error);
                    }
                }
                Step::Opened(Ok(stream)) => {
                    self.first = First::Opened;
                    return Ok(stream);
                }
                Step::Opened(Err(error)) => {
                    if matches!(self.first, First::Awaited) {
                        self.first = First::Failed(error, Box::pin(sleep(RETRY)));
                    }
                }
                Step::Accepted(incoming) => self.admit(incoming)?,
            }
        }
    }

    /// Begins the handshakes of a permitted peer.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] when there is no descriptor for it; the connection is closed.
    fn admit(&mut self, incoming: BoxIncoming) -> Result<()> {
        let info = incoming.info();
        if let Some(peer) = info.peer.filter(|peer| !self.peers.admits(*peer)) {
            self.refused.note(peer.ip());
            debug!(peer = ?info.peer, local = ?info.local, "data connection from another host refused");
            return Ok(());
        }
        let is_foreign = info.peer.is_some_and(|peer| self.peers.is_foreign(peer));
        let most = if is_foreign { FOREIGN } else { OPENING };
        let alike = self
            .opening
            .iter()
            .filter(|one| one.is_foreign == is_foreign);
        if alike.count() >= most && !self.drop_stale(is_foreign) {
            debug!(peer = ?info.peer, "data connection refused: too many handshakes");
            return Ok(());
        }
        let permit = match self.port.more(1) {
            Err(error) if is_foreign => {
                debug!(peer = ?info.peer, %error, "data connection refused");
                return Ok(());
            }
            Err(_) if !is_foreign && self.drop_oldest(|one| one.is_foreign) => self.port.more(1)?,
            permit => permit?,
        };
        let within = self.within;
        let work = Box::pin(async move {
            match tokio::time::timeout(within, incoming.open()).await {
                Ok(Ok(stream)) => Ok((stream, permit)),
                Ok(Err(error)) => {
                    debug!(peer = ?info.peer, %error, "handshake of a data connection failed");
                    let fact = "the handshake of the data connection failed";
                    Err(Error::open("accept", fact, error))
                }
                Err(_) => {
                    debug!(peer = ?info.peer, "handshake of a data connection timed out");
                    Err(Error::timeout(Wait::Accept, within))
                }
            }
        });
        self.opening.push(Opening {
            work,
            is_foreign,
            stale: Box::pin(sleep(STALE)),
        });
        Ok(())
    }

    /// Ends the oldest stale handshake of other hosts, or of the own one. Says whether it did.
    fn drop_stale(&mut self, foreign: bool) -> bool {
        self.drop_oldest(|one| one.is_foreign == foreign && one.stale.deadline() <= Instant::now())
    }

    /// Ends the oldest handshake of a kind, in favour of another. Says whether it did.
    fn drop_oldest(&mut self, of: impl Fn(&Opening) -> bool) -> bool {
        let oldest = self.opening.iter().position(of);
        if let Some(oldest) = oldest {
            debug!("handshake of a data connection ended in favour of another");
            drop(self.opening.remove(oldest));
        }
        oldest.is_some()
    }
}

/// Polls the handshakes.
fn poll_opening(opening: &mut Vec<Opening>, cx: &mut Context<'_>) -> Option<Result<Opened>> {
    let mut at = 0;
    while let Some(one) = opening.get_mut(at) {
        match one.work.as_mut().poll(cx) {
            Poll::Pending => at += 1,
            Poll::Ready(done) => {
                drop(opening.remove(at));
                return Some(done);
            }
        }
    }
    None
}

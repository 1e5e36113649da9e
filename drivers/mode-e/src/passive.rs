//! `ModeEPassive`: a listener that one stream at a time takes its connections from.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use xio_core::{
    Error, ErrorKind, Incoming, Info, Listener, Operation, Passive, Result, Stream, Target,
};

use crate::{LAYER, ModeE, ModeEHandle, ModeEOptions};

/// Most connections accepted for one stream, foreign ones included.
const MAX_LANES: usize = 256;

impl<T: Passive<Handle: Stream>> Passive for ModeE<T> {
    type Listener = ModeEPassive<T::Listener>;

    async fn listen(&self, at: &Target) -> Result<Self::Listener> {
        let below = self.below.listen(at).await?;
        Ok(ModeEPassive {
            info: below.info(),
            below: Arc::new(Mutex::new(Lent {
                listener: below,
                opening: JoinSet::new(),
                back: VecDeque::new(),
            })),
            options: self.options,
        })
    }
}

/// The listener below, lent to one stream at a time.
struct Lent<L: Listener> {
    listener: L,
    /// Connections with a handshake in progress.
    opening: JoinSet<Result<L::Handle>>,
    /// Unused connections of the last stream: the beginning of the next.
    back: VecDeque<L::Handle>,
}

/// The listener of a [`ModeE`].
pub struct ModeEPassive<L: Listener> {
    below: Arc<Mutex<Lent<L>>>,
    /// Description of the listener below, kept since that may be lent.
    info: Info,
    options: ModeEOptions,
}

impl<L: Listener<Handle: Stream>> Listener for ModeEPassive<L> {
    type Handle = ModeEHandle<L::Handle>;
    type Incoming = ModeEIncoming<L>;

    async fn accept(&mut self) -> Result<Self::Incoming> {
        let mut below = Arc::clone(&self.below).lock_owned().await;
        let first = loop {
            if let Some(handle) = below.back.pop_front() {
                break First::Open(handle);
            }
            let Lent {
                listener, opening, ..
            } = &mut *below;
            tokio::select! {
                Some(opened) = opening.join_next() => below.back.extend(handshaken(opened)),
                incoming = listener.accept() => break First::Fresh(incoming?),
            }
        };
        let alone = self.options.streams == Some(1);
        Ok(ModeEIncoming {
            first,
            below: (!alone).then_some(below),
            options: self.options,
        })
    }

    fn describe(&self, info: &mut Info) {
        *info = self.info.clone();
        info.layer(LAYER);
    }
}

impl<L: Listener> fmt::Debug for ModeEPassive<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info)
    }
}

/// A handshake may fail: its connection is foreign, or is missed at the end.
fn handshaken<S>(opened: Result<Result<S>, JoinError>) -> Option<S> {
    opened.ok().and_then(Result::ok)
}

enum First<L: Listener> {
    Fresh(L::Incoming),
    Open(L::Handle),
}

/// The first connection of a stream, and the listener for the others.
pub struct ModeEIncoming<L: Listener> {
    first: First<L>,
    below: Option<OwnedMutexGuard<Lent<L>>>,
    options: ModeEOptions,
}

impl<L: Listener<Handle: Stream>> Incoming for ModeEIncoming<L> {
    type Handle = ModeEHandle<L::Handle>;

    fn describe(&self, info: &mut Info) {
        match &self.first {
            First::Fresh(incoming) => incoming.describe(info),
            First::Open(handle) => handle.describe(info),
        }
        info.layer(LAYER);
    }

    async fn open(self) -> Result<Self::Handle> {
        let first = match self.first {
            First::Fresh(incoming) => incoming.open().await?,
            First::Open(handle) => handle,
        };
        let others = self.below.map(Others::of);
        Ok(ModeEHandle::accepted(first, others, self.options))
    }
}

impl<L: Listener> fmt::Debug for ModeEIncoming<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a first connection of mode_e")
    }
}

/// The connections after the first, taken from a lent listener while the stream is incomplete.
///
/// A task accepts them, so that their handshakes do not wait for a read. Dropping this ends the
/// task, which returns the listener.
pub(crate) struct Others<S> {
    came: mpsc::Receiver<Result<Option<S>>>,
    /// Number of accepted connections.
    accepted: Arc<AtomicUsize>,
    /// Number of those that have opened or failed.
    settled: usize,
    stop: oneshot::Sender<Left<S>>,
}

/// The rest of a stream: unused connections, and the channel on which more may arrive.
type Left<S> = (Vec<S>, mpsc::Receiver<Result<Option<S>>>);

/// All of it, in order of arrival. Only the sender knows that no more will follow.
fn collect<S>((mut unused, mut came): Left<S>) -> Vec<S> {
    while let Ok(next) = came.try_recv() {
        unused.extend(next.ok().flatten());
    }
    unused
}

impl<S: Send + 'static> Others<S> {
    fn of<L: Listener<Handle = S>>(below: OwnedMutexGuard<Lent<L>>) -> Self {
        let (send, came) = mpsc::channel(MAX_LANES);
        let (stop, stopped) = oneshot::channel();
        let accepted = Arc::new(AtomicUsize::new(below.opening.len()));
        tokio::spawn(take(below, send, stopped, Arc::clone(&accepted)));
        Self {
            came,
            accepted,
            settled: 0,
            stop,
        }
    }

    /// The next connection; `None` after a failed handshake.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<S>>> {
        match ready!(self.came.poll_recv(cx)) {
            Some(next) => {
                self.settled += 1;
                Poll::Ready(next)
            }
            None => {
                let fact = "the listener takes no more connections";
                let kind = ErrorKind::Exhausted;
                Poll::Ready(Err(Error::new(kind, LAYER, Operation::Accept, fact)))
            }
        }
    }

    /// Whether a connection was accepted and has neither opened nor failed.
    pub(crate) fn is_opening(&self) -> bool {
        self.accepted.load(Ordering::Acquire) > self.settled
    }

    /// Returns the listener with the unused connections.
    pub(crate) fn give_back(mut self, unused: Vec<S>) {
        self.came.close();
        // The task ends early only when accepting fails, as the next would.
        drop(self.stop.send((unused, self.came)));
    }
}

/// Accepts and opens connections, and hands them over, up to the limit.
async fn take<L: Listener>(
    mut below: OwnedMutexGuard<Lent<L>>,
    send: mpsc::Sender<Result<Option<L::Handle>>>,
    mut stopped: oneshot::Receiver<Left<L::Handle>>,
    accepted: Arc<AtomicUsize>,
) {
    let mut taken = 0;
    loop {
        let Lent {
            listener,
            opening,
            back,
        } = &mut *below;
        let opened = if let Some(handle) = back.pop_front() {
            accepted.fetch_add(1, Ordering::Release);
            Some(handle)
        } else {
            tokio::select! {
                left = &mut stopped => {
                    let unused = left.map(collect).unwrap_or_default();
                    for handle in unused.into_iter().rev() {
                        back.push_front(handle);
                    }
                    return;
                }
                Some(opened) = opening.join_next() => handshaken(opened),
                incoming = listener.accept(), if taken < MAX_LANES => {
                    match incoming {
                        Ok(incoming) => {
                            accepted.fetch_add(1, Ordering::Release);
                            taken += 1;
                            opening.spawn(incoming.open());
                            continue;
                        }
                        Err(error) => {
                            let _ = send.send(Err(error)).await;
                            return;
                        }
                    }
                }
            }
        };
        // The receiver is gone: the signal to stop follows.
        if let Err(mpsc::error::SendError(Ok(Some(handle)))) = send.send(Ok(opened)).await {
            let unused = stopped.await.map(collect).unwrap_or_default();
            below.back.extend(unused);
            below.back.push_back(handle);
            return;
        }
    }
}

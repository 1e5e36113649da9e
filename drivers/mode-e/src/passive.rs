//! `ModeEPassive`: a listener lent to one stream at a time, which takes its connections from it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};
use tokio::task::JoinSet;
use xio_core::{
    Error, ErrorKind, Incoming, Info, Listener, Operation, Passive, Result, Stream, Target,
};

use crate::{LAYER, ModeE, ModeEHandle, ModeEOptions};

/// Most connections of one stream that are taken, strangers included.
const MAX_LANES: usize = 256;

impl<T: Passive<Handle: Stream>> Passive for ModeE<T> {
    type Listener = ModeEPassive<T::Listener>;

    async fn listen(&self, at: &Target) -> Result<Self::Listener> {
        let below = self.below.listen(at).await?;
        Ok(ModeEPassive {
            info: below.info(),
            below: Arc::new(Mutex::new(below)),
            options: self.options,
        })
    }
}

/// The listener of a [`ModeE`].
pub struct ModeEPassive<L> {
    below: Arc<Mutex<L>>,
    /// What the one below said, which cannot be asked while it is lent.
    info: Info,
    options: ModeEOptions,
}

impl<L: Listener<Handle: Stream>> Listener for ModeEPassive<L> {
    type Handle = ModeEHandle<L::Handle>;
    type Incoming = ModeEIncoming<L>;

    async fn accept(&mut self) -> Result<Self::Incoming> {
        let mut below = Arc::clone(&self.below).lock_owned().await;
        let first = below.accept().await?;
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

impl<L> fmt::Debug for ModeEPassive<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info)
    }
}

/// The first connection of a stream, and the listener to take the others from.
pub struct ModeEIncoming<L: Listener> {
    first: L::Incoming,
    below: Option<OwnedMutexGuard<L>>,
    options: ModeEOptions,
}

impl<L: Listener<Handle: Stream>> Incoming for ModeEIncoming<L> {
    type Handle = ModeEHandle<L::Handle>;

    fn describe(&self, info: &mut Info) {
        self.first.describe(info);
        info.layer(LAYER);
    }

    async fn open(self) -> Result<Self::Handle> {
        let first = self.first.open().await?;
        let others = self.below.map(Others::of);
        Ok(ModeEHandle::accepted(first, others, self.options))
    }
}

impl<L: Listener> fmt::Debug for ModeEIncoming<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first.info())
    }
}

/// The connections after the first, taken from a lent listener while the stream is not whole.
///
/// A task of its own takes them, so that their handshakes do not wait for somebody to read.
/// Dropping it ends the task and gives the listener back.
pub(crate) struct Others<S> {
    came: mpsc::Receiver<Result<Option<S>>>,
    /// How many were accepted.
    accepted: Arc<AtomicUsize>,
    /// How many of them are known to have opened or failed.
    settled: usize,
    _task: JoinSet<()>,
}

impl<S: Send + 'static> Others<S> {
    fn of<L: Listener<Handle = S>>(below: OwnedMutexGuard<L>) -> Self {
        let (send, came) = mpsc::channel(MAX_LANES);
        let accepted = Arc::new(AtomicUsize::new(0));
        let mut task = JoinSet::new();
        task.spawn(take(below, send, Arc::clone(&accepted)));
        Self {
            came,
            accepted,
            settled: 0,
            _task: task,
        }
    }

    /// The next connection; `None` for one whose handshake failed.
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
}

/// Accepts and opens connections, and hands them over, until there were too many.
async fn take<L: Listener>(
    mut below: OwnedMutexGuard<L>,
    send: mpsc::Sender<Result<Option<L::Handle>>>,
    accepted: Arc<AtomicUsize>,
) {
    let mut opening = JoinSet::new();
    for _ in 0..MAX_LANES {
        let incoming = loop {
            tokio::select! {
                incoming = below.accept() => break incoming,
                Some(opened) = opening.join_next() => {
                    // A handshake that fails is a stranger's, or its connection is missed at the end.
                    let opened: Option<L::Handle> = opened.ok().and_then(Result::ok);
                    let _ = send.send(Ok(opened)).await;
                }
            }
        };
        match incoming {
            Ok(incoming) => {
                accepted.fetch_add(1, Ordering::Release);
                opening.spawn(incoming.open());
            }
            Err(error) => {
                let _ = send.send(Err(error)).await;
                return;
            }
        }
    }
    while let Some(opened) = opening.join_next().await {
        let _ = send.send(Ok(opened.ok().and_then(Result::ok))).await;
    }
}

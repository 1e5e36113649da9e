//! `Door`: takes connections off a listener, keeps strangers out, and lets no slow handshake hold up the next peer.

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
use crate::descriptors::Taken;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Options, Peers};

/// Peers whose handshakes run at the same time.
const OPENING: usize = 32;

/// A peer's handshakes; they give nothing when they failed.
type Opening = Pin<Box<dyn Future<Output = Option<Opened>> + Send>>;

/// Where the peer's connections come in.
#[derive(Debug)]
pub(crate) enum Door {
    /// Peers stay in the queue until a transfer asks for them.
    Plain(Entrance),
    /// A task takes them in at once: the handshake of a layer needs both ends, and a peer that says
    /// it is ready only after that would wait for us, who wait for its word.
    Attended(mpsc::Receiver<Result<Opened>>),
}

impl Door {
    /// Opens the door of a channel. What looks after it is one of `tasks`, and ends soon after the
    /// door is dropped; only then is the port free.
    pub(crate) fn new(
        (listener, port): (BoxListener, Taken),
        peers: Peers,
        options: &Options,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let layered = listener.info().chain.len() > 1;
        let mut entrance = Entrance {
            listener,
            port,
            peers,
            within: options.open_within,
            opening: Vec::new(),
        };
        if !layered {
            return Self::Plain(entrance);
        }
        let most = usize::try_from(options.connections).unwrap_or(usize::MAX);
        let (to, came) = mpsc::channel(most.clamp(1, Semaphore::MAX_PERMITS));
        tasks.spawn(async move {
            tokio::select! {
                () = to.closed() => {}
                () = attend(&mut entrance, &to) => {}
            }
        });
        Self::Attended(came)
    }

    /// Waits for the next connection that may be served.
    ///
    /// # Cancel safety
    /// Nothing is lost: peers stay in the queue, handshakes go on with the next call.
    pub(crate) async fn next(&mut self) -> Result<Opened> {
        match self {
            Self::Plain(entrance) => entrance.next().await,
            Self::Attended(came) => came.recv().await.unwrap_or_else(|| {
                let fact = "nobody looks after the data port any more";
                Err(Error::new(ErrorKind::Open, "accept", fact))
            }),
        }
    }
}

/// Takes peers in until nobody wants them any more.
async fn attend(entrance: &mut Entrance, to: &mpsc::Sender<Result<Opened>>) {
    loop {
        let came = entrance.next().await;
        let failed = came.is_err();
        if to.send(came).await.is_err() {
            return;
        }
        // A listener that fails may do so at once again; the next try is for who has heard of this one.
        if failed && to.reserve_many(to.max_capacity()).await.is_err() {
            return;
        }
    }
}

/// A listener and the peers that are on their way in.
pub(crate) struct Entrance {
    listener: BoxListener,
    /// Its descriptor; those of connections are taken where it was.
    port: Taken,
    peers: Peers,
    /// Longest time for one peer's handshakes.
    within: Duration,
    opening: Vec<Opening>,
}

impl fmt::Debug for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} opening", self.listener, self.opening.len())
    }
}

enum Step {
    Came(BoxIncoming),
    Opened(Opened),
}

impl Entrance {
    /// As [`Door::next`].
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
                    accept.as_mut().poll(cx).map_ok(Step::Came)
                })
                .await
                .map_err(|e| Error::open("accept", "the data port failed", e))?
            };
            match step {
                Step::Opened(stream) => return Ok(stream),
                Step::Came(incoming) => self.admit(incoming)?,
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
        let taken = self.port.more(1)?;
        let within = self.within;
        self.opening.push(Box::pin(async move {
            match tokio::time::timeout(within, incoming.open()).await {
                Ok(Ok(stream)) => Some((stream, taken)),
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

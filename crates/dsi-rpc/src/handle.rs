//! `Shared` and `Handle`: calls at a peer that is chosen, and at the one that opened a file.

use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gridftp_dsi::{DsiPath, Error, ErrorKind, Result, User};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Response, Status};

use crate::Client;
use crate::closing::Closing;
use crate::failure::{error, is_answered, is_not_begun};
use crate::peers::{Choice, Peer, Peers};
use crate::proto;

/// Longest call that hashes, removes or retrieves much.
pub(crate) const LONG: Duration = Duration::from_secs(24 * 3600);

/// Longest call of any other kind, with all attempts.
pub(crate) const SHORT: Duration = Duration::from_secs(60);

/// Longest wait for a close at the path of a call.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Operation, user and path of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a>(
    pub(crate) &'static str,
    pub(crate) &'a User,
    pub(crate) &'a DsiPath,
);

impl At<'_> {
    pub(crate) fn error(self, kind: ErrorKind) -> Error {
        Error::new(kind, self.0).at(self.2)
    }
}

/// The way a call is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    limit: Duration,
    is_repeatable: bool,
    is_placed: bool,
}

impl Rule {
    /// A call that changes nothing, so that another peer may get it after a loss: a peer that gave
    /// no answer in time may still do it later.
    pub(crate) const SAFE: Self = Self {
        limit: SHORT,
        is_repeatable: true,
        is_placed: true,
    };

    /// A call that another peer gets only if it was not begun.
    pub(crate) const ONCE: Self = Self {
        is_repeatable: false,
        ..Self::SAFE
    };

    pub(crate) const fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// At the least loaded peer.
    pub(crate) const fn by_load(mut self) -> Self {
        self.is_placed = false;
        self
    }
}

/// A failed call.
enum Failed {
    /// The peer refused it, or did it and failed.
    Answered(Error),
    /// The peer did not get it.
    NotBegun(String),
    /// The connection failed, or there was no answer in time.
    Lost(String),
}

/// Makes one call at one peer.
async fn call_at<T>(
    peer: &Peer,
    op: &'static str,
    until: Instant,
    calling: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Failed> {
    if peer.is_closed() {
        return Err(Failed::NotBegun("the connection has ended".into()));
    }
    match timeout_at(until, calling).await {
        Ok(Ok(done)) => Ok(done.into_inner()),
        Ok(Err(status)) if is_not_begun(&status) => Err(Failed::NotBegun(status.to_string())),
        Ok(Err(status)) if is_answered(&status, || !peer.is_closed()) => {
            Err(Failed::Answered(error(&status, op)))
        }
        Ok(Err(status)) => Err(Failed::Lost(status.to_string())),
        Err(_) => Err(Failed::Lost("no answer in time".into())),
    }
}

/// The peers, and the files that are closed at them.
#[derive(Debug)]
pub(crate) struct Shared<P> {
    pub(crate) peers: P,
    closing: Closing,
}

impl<P: Peers> Shared<P> {
    pub(crate) fn new(peers: P) -> Self {
        let closing = Closing::default();
        Self { peers, closing }
    }

    /// Makes a call at a peer, or at further ones as the rule allows.
    ///
    /// # Errors
    /// Those that a peer tells, and [`ErrorKind::Unavailable`] or [`ErrorKind::Io`] where none does.
    pub(crate) async fn call<R, T, F>(
        &self,
        at: At<'_>,
        rule: Rule,
        request: R,
        call: impl Fn(Client, R) -> F,
    ) -> Result<T>
    where
        R: Clone,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.attempt(at, rule, |peer, until| {
            let calling = call(peer.client(), request.clone());
            async move { call_at(&peer, at.0, until, calling).await }
        })
        .await
    }

    /// Makes attempts at peers until one succeeds, the rule forbids another, or the time is over.
    async fn attempt<T, F>(
        &self,
        at: At<'_>,
        rule: Rule,
        attempt: impl Fn(Peer, Instant) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let until = Instant::now() + rule.limit;
        // A peer that does not answer a close may yet answer a call.
        let _ = timeout(GRACE.min(rule.limit), self.closing.wait(at.2)).await;
        let (mut tried, mut last) = (Vec::new(), None);
        loop {
            let by = match rule.is_placed {
                true => Choice::Place(at.1, at.2),
                false => Choice::Load,
            };
            let peer = match timeout_at(until, self.peers.peer(by, &tried)).await {
                Ok(Ok(peer)) if last.is_none() || Instant::now() < until => peer,
                Ok(Err(why)) if last.is_none() => {
                    return Err(at.error(ErrorKind::Unavailable).because(why));
                }
                _ => {
                    let late = || at.error(ErrorKind::Unavailable).because("no peer in time");
                    return Err(last.unwrap_or_else(late));
                }
            };
            let (why, kind) = match attempt(peer.clone(), until).await {
                Ok(done) => return Ok(done),
                Err(Failed::Answered(error)) => return Err(error.at(at.2)),
                Err(Failed::Lost(why)) if !rule.is_repeatable => {
                    return Err(lost(&peer, &why, at.error(ErrorKind::Io)));
                }
                Err(Failed::Lost(why) | Failed::NotBegun(why)) => (why, ErrorKind::Unavailable),
            };
            last = Some(lost(&peer, &why, at.error(kind)));
            tried.push(peer);
        }
    }

    /// Makes a call that changes nothing at all peers at once, and gives the answer of each.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] without a peer.
    pub(crate) async fn call_all<R, T, F>(
        &self,
        at: At<'_>,
        request: R,
        call: impl Fn(Client, R) -> F,
    ) -> Result<Vec<(Peer, Result<T>)>>
    where
        R: Clone,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let until = Instant::now() + SHORT;
        // A peer that does not answer a close may yet answer a call.
        let _ = timeout(GRACE, self.closing.wait(at.2)).await;
        let (place, gone) = (Choice::Place(at.1, at.2), at.error(ErrorKind::Unavailable));
        let mut peers: Vec<Peer> = Vec::new();
        loop {
            let next = timeout_at(until, self.peers.peer(place, &peers)).await;
            match next {
                // A process is the only one, and is given again.
                Ok(Ok(peer)) if peers.iter().all(|known| known.name() != peer.name()) => {
                    peers.push(peer);
                }
                Ok(Err(why)) if peers.is_empty() => return Err(gone.because(why)),
                Err(_) if peers.is_empty() => return Err(gone.because("no peer in time")),
                _ => break,
            }
        }
        let asking = peers.into_iter().map(|peer| {
            let calling = call(peer.client(), request.clone());
            async move {
                let called = call_at(&peer, at.0, until, calling).await;
                let answer = called.map_err(|failed| match failed {
                    Failed::Answered(told) => told.at(at.2),
                    Failed::NotBegun(why) | Failed::Lost(why) => {
                        lost(&peer, &why, at.error(ErrorKind::Unavailable))
                    }
                });
                (peer, answer)
            }
        });
        Ok(join_all(asking).await)
    }

    /// Opens a file by a call; `request` makes its message from the handle.
    ///
    /// # Cancel safety
    /// A file that is opened after the future is dropped is closed.
    pub(crate) async fn open<R, F>(
        self: &Arc<Self>,
        at: At<'_>,
        rule: Rule,
        request: impl Fn(u64) -> R,
        call: impl Fn(Client, R) -> F,
    ) -> Result<(Handle<P>, proto::Opened)>
    where
        F: Future<Output = Result<Response<proto::Opened>, Status>>,
    {
        self.attempt(at, rule, |peer, until| {
            let mut handle = Handle {
                shared: Arc::clone(self),
                peer,
                path: at.2.clone(),
                // A process may have several callers, which choose from the same numbers.
                number: RandomState::new().hash_one(0_u8),
                is_closed: false,
            };
            let calling = call(handle.peer.client(), request(handle.number));
            async move {
                let opened = call_at(&handle.peer, at.0, until, calling).await;
                // After a loss the file may be open.
                handle.is_closed = matches!(opened, Err(Failed::Answered(_) | Failed::NotBegun(_)));
                opened.map(|opened| (handle, opened))
            }
        })
        .await
    }
}
/// The error of a call whose connection failed.
fn lost(peer: &Peer, why: &str, error: Error) -> Error {
    error.because(format!("{}: {}", peer.name(), why.escape_debug()))
}

/// A file that is open at a peer, and closed with this value.
#[derive(Debug)]
pub(crate) struct Handle<P: Peers> {
    shared: Arc<Shared<P>>,
    peer: Peer,
    pub(crate) path: DsiPath,
    pub(crate) number: u64,
    is_closed: bool,
}

impl<P: Peers> Handle<P> {
    /// Makes a call at the peer that opened the file.
    ///
    /// # Errors
    /// As [`Shared::call`].
    pub(crate) async fn call<T, F>(
        &self,
        op: &'static str,
        limit: Duration,
        call: impl FnOnce(Client) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let error = |kind| Error::new(kind, op).at(&self.path);
        let until = Instant::now() + limit;
        // The upload that this one is a part of may end there.
        let _ = timeout(GRACE.min(limit), self.shared.closing.wait(&self.path)).await;
        let called = call_at(&self.peer, op, until, call(self.peer.client())).await;
        called.map_err(|failed| match failed {
            Failed::Answered(told) => told.at(&self.path),
            Failed::NotBegun(why) => lost(&self.peer, &why, error(ErrorKind::Unavailable)),
            Failed::Lost(why) => lost(&self.peer, &why, error(ErrorKind::Io)),
        })
    }

    /// Notes that the peer has answered a call that closes the file.
    pub(crate) const fn was_closed(&mut self) {
        self.is_closed = true;
    }

    /// Fetches the descriptor of the file.
    pub(crate) async fn descriptor(&self) -> Result<OwnedFd> {
        let fetched = self.shared.peers.descriptor(self.number).await;
        let error = |why| {
            Error::new(ErrorKind::Io, "open")
                .at(&self.path)
                .because(why)
        };
        fetched.map_err(error)
    }

    /// Whether the storage continues interrupted uploads.
    pub(crate) fn resumes(&self) -> bool {
        self.shared.peers.capabilities().resume
    }
}

impl<P: Peers> Drop for Handle<P> {
    /// Tells the peer, as far as it listens.
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.is_closed || self.peer.is_closed() {
            return;
        }
        let ending = self.shared.closing.begin(&self.path);
        let (peer, handle) = (self.peer.clone(), self.number);
        runtime.spawn(async move {
            let (mut client, until) = (peer.client(), Instant::now() + SHORT);
            let closing = client.close(proto::Handle { handle });
            // It forgets its handles when the connection ends.
            drop(call_at(&peer, "close", until, closing).await);
            drop(ending);
        });
    }
}

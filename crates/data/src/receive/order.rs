//! `InOrder`: puts what arrives by position back into order, for takers that know only forwards.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes, BytesMut};
use gridftp_dsi::{Error as StorageError, Sink};
use tokio::sync::Notify;

use crate::error::{Error, ErrorKind, Result};
use crate::text::Collapse;
use crate::watch::Watch;

/// Bytes that may wait for those in front of them.
const AHEAD: usize = 8 << 20;

/// A taker of bytes in order, such as a listing's parser or standard output.
pub trait Consumer: Send {
    /// Takes the next bytes.
    fn take(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), StorageError>> + Send;

    /// Learns that all bytes have come.
    fn end(&mut self) -> impl Future<Output = Result<(), StorageError>> + Send {
        async { Ok(()) }
    }
}

/// Pieces on their way from the connections to one consumer.
#[derive(Debug)]
pub(crate) struct InOrder {
    state: Mutex<State>,
    /// A piece was added, or no more will be.
    added: Notify,
    /// A piece was taken.
    taken: Notify,
}

#[derive(Debug)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Bytes>,
    held: usize,
    complete: bool,
}

enum Ready {
    Piece(Bytes),
    End,
    Gap(u64),
    NotYet,
}

impl InOrder {
    /// Starts at the wire offset `start`.
    pub(crate) fn new(start: u64) -> Self {
        let state = State {
            next: start,
            waiting: BTreeMap::new(),
            held: 0,
            complete: false,
        };
        Self {
            state: Mutex::new(state),
            added: Notify::new(),
            taken: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a piece over; waits while too much waits in front of it.
    ///
    /// The piece that comes next is always let in, and what has to wait keeps no block of the pool,
    /// so those who wait here never wait for each other.
    pub(crate) async fn write(&self, offset: u64, mut data: Bytes) -> Result<(), StorageError> {
        if offset > self.state().next {
            data = Bytes::copy_from_slice(&data);
        }
        loop {
            let taken = self.taken.notified();
            {
                let mut state = self.state();
                if offset <= state.next || state.held + data.len() <= AHEAD {
                    state.held += data.len();
                    if let Some(old) = state.waiting.insert(offset, data.clone()) {
                        // The same place twice: the longer piece says more.
                        state.held -= old.len().min(data.len());
                        if old.len() > data.len() {
                            state.waiting.insert(offset, old);
                        }
                    }
                    break;
                }
            }
            taken.await;
        }
        self.added.notify_one();
        Ok(())
    }

    /// Says that every piece has been handed over.
    pub(crate) fn complete(&self) {
        self.state().complete = true;
        self.added.notify_one();
    }

    fn pop(&self) -> Ready {
        let mut state = self.state();
        loop {
            let Some(first) = state.waiting.first_entry() else {
                return if state.complete {
                    Ready::End
                } else {
                    Ready::NotYet
                };
            };
            let (offset, len) = (*first.key(), first.get().len());
            if offset > state.next {
                return if state.complete {
                    Ready::Gap(state.next)
                } else {
                    Ready::NotYet
                };
            }
            let Some((_, mut piece)) = state.waiting.pop_first() else {
                return Ready::NotYet;
            };
            state.held -= len;
            // What was there before came twice.
            let again = usize::try_from(state.next - offset).map_or(len, |n| n.min(len));
            piece.advance(again);
            if !piece.is_empty() {
                state.next += piece.len() as u64;
                return Ready::Piece(piece);
            }
        }
    }

    /// Gives the pieces to `consumer` until all have come.
    pub(crate) async fn drain<C: Consumer>(&self, consumer: &mut C, watch: &Watch) -> Result<()> {
        loop {
            let done = match self.pop() {
                Ready::Piece(piece) => {
                    watch.patient(true);
                    let done = consumer.take(piece).await;
                    watch.patient(false);
                    self.taken.notify_waiters();
                    done
                }
                Ready::NotYet => {
                    self.added.notified().await;
                    Ok(())
                }
                Ready::End => {
                    return consumer
                        .end()
                        .await
                        .map_err(|e| Error::storage("receive", e));
                }
                Ready::Gap(at) => {
                    let fact = format!("the peer left out what belongs at byte {at}");
                    return Err(Error::new(ErrorKind::Protocol, "receive", fact));
                }
            };
            done.map_err(|e| Error::storage("receive", e))?;
        }
    }
}

/// Writes text from the wire into a sink, from an offset on; also plain bytes, for sinks that only
/// know forwards.
#[derive(Debug)]
pub(crate) struct TextInto<'a, K> {
    sink: &'a K,
    at: u64,
    /// `None` leaves the bytes as they are.
    collapse: Option<Collapse>,
}

impl<'a, K: Sink> TextInto<'a, K> {
    pub(crate) fn new(sink: &'a K, at: u64, text: bool) -> Self {
        Self {
            sink,
            at,
            collapse: text.then(Collapse::default),
        }
    }

    /// One past the last byte written.
    pub(crate) fn end_offset(&self) -> u64 {
        self.at
    }

    async fn put(&mut self, local: Bytes) -> Result<(), StorageError> {
        if local.is_empty() {
            return Ok(());
        }
        let len = local.len() as u64;
        self.sink.write_at(self.at, local).await?;
        self.at += len;
        Ok(())
    }
}

impl<K: Sink> Consumer for TextInto<'_, K> {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        let local = match &mut self.collapse {
            None => bytes,
            Some(collapse) => {
                let mut local = BytesMut::with_capacity(bytes.len() + 1);
                collapse.push(&bytes, &mut local);
                local.freeze()
            }
        };
        self.put(local).await
    }

    async fn end(&mut self) -> Result<(), StorageError> {
        let mut last = BytesMut::new();
        if let Some(collapse) = &mut self.collapse {
            collapse.finish(&mut last);
        }
        self.put(last.freeze()).await
    }
}

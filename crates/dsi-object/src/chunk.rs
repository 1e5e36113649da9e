//! `Chunk`: a part of an object, readable piece by piece while it arrives.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{Error, Result};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Least bytes of a piece but the last: shorter ones are joined, so that a reader is woken for a
/// worthwhile amount, and that no piece keeps a much longer buffer in memory.
const LEAST: usize = 64 << 10;

/// A part of an object on its way; dropped, its request is given up.
#[derive(Debug)]
pub(crate) struct Chunk {
    arrived: Arc<Arrived>,
    task: JoinHandle<()>,
}

/// The bytes of a chunk that are here.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    state: Mutex<State>,
    moved: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The pieces and their offsets in the chunk, in order.
    pieces: Vec<(u64, Bytes)>,
    /// Short pieces behind those.
    short: BytesMut,
    len: u64,
    is_over: bool,
    /// The failure of the request, for the first reader that meets it.
    error: Option<Error>,
}

impl Chunk {
    /// Begins to read by `request`, which pushes the arriving pieces.
    pub(crate) fn begin<R>(request: impl FnOnce(Arc<Arrived>) -> R) -> Self
    where
        R: Future<Output = Result<()>> + Send + 'static,
    {
        let arrived = Arc::<Arrived>::default();
        let request = request(Arc::clone(&arrived));
        let ending = Arc::clone(&arrived);
        let task = tokio::spawn(async move {
            let ended = request.await;
            ending.end(ended.err());
        });
        Self { arrived, task }
    }

    /// The bytes from `offset` in the chunk on, as many as one piece has, once they are here.
    ///
    /// # Errors
    /// That of the request, or none if another reader has got it.
    pub(crate) async fn read(&self, offset: u64) -> Result<Bytes, Option<Error>> {
        loop {
            let moved = self.arrived.moved.notified();
            {
                let mut state = self.arrived.state();
                if let Some(bytes) = state.from(offset) {
                    return Ok(bytes);
                }
                if state.is_over {
                    return Err(state.error.take());
                }
            }
            moved.await;
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Arrived {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the next bytes; returns the number of all.
    pub(crate) fn push(&self, bytes: Bytes) -> u64 {
        let mut state = self.state();
        let total = state.len + (state.short.len() + bytes.len()) as u64;
        if bytes.len() < LEAST {
            state.short.extend_from_slice(&bytes);
            if state.short.len() < LEAST {
                return total;
            }
            state.settle();
        } else {
            state.settle();
            state.add(bytes);
        }
        drop(state);
        self.moved.notify_waiters();
        total
    }

    fn end(&self, error: Option<Error>) {
        let mut state = self.state();
        state.settle();
        (state.is_over, state.error) = (true, error);
        drop(state);
        self.moved.notify_waiters();
    }
}

impl State {
    fn settle(&mut self) {
        let short = self.short.split().freeze();
        if !short.is_empty() {
            self.add(short);
        }
    }

    fn add(&mut self, piece: Bytes) {
        let at = self.len;
        self.len += piece.len() as u64;
        self.pieces.push((at, piece));
    }

    /// The rest of the piece in which `offset` is.
    fn from(&self, offset: u64) -> Option<Bytes> {
        let behind = self.pieces.partition_point(|(at, _)| *at <= offset);
        let (at, piece) = self.pieces.get(behind.checked_sub(1)?)?;
        let skip = usize::try_from(offset - at).ok()?;
        (skip < piece.len()).then(|| piece.slice(skip..))
    }
}

#[cfg(test)]
mod tests {
    use gridftp_dsi::ErrorKind;
    use tokio::sync::mpsc;

    use super::*;

    /// A chunk of the pieces that are sent, which fails at their end.
    fn chunk() -> (mpsc::UnboundedSender<Bytes>, Chunk) {
        let (pieces, mut sent) = mpsc::unbounded_channel();
        let chunk = Chunk::begin(|arrived| async move {
            while let Some(piece) = sent.recv().await {
                arrived.push(piece);
            }
            Err(Error::new(ErrorKind::Io, "read"))
        });
        (pieces, chunk)
    }

    #[tokio::test]
    async fn bytes_are_read_before_the_end_of_the_request_and_without_a_copy() {
        let (pieces, chunk) = chunk();
        let long = Bytes::from(vec![7; 2 * LEAST]);
        pieces.send(Bytes::from_static(b"short")).unwrap();
        pieces.send(long.clone()).unwrap();
        assert_eq!(chunk.read(2).await.unwrap(), "ort");
        let read = chunk.read(5 + 9).await.unwrap();
        assert_eq!(read.as_ptr(), long[9..].as_ptr());
        assert_eq!(read.len(), long.len() - 9);
    }

    #[tokio::test]
    async fn short_pieces_are_joined_and_their_rest_is_here_at_the_end() {
        let (pieces, chunk) = chunk();
        for _ in 0..LEAST {
            pieces.send(Bytes::from_static(b"ab")).unwrap();
        }
        pieces.send(Bytes::from_static(b"end")).unwrap();
        assert_eq!(chunk.read(0).await.unwrap().len(), LEAST);
        drop(pieces);
        assert_eq!(chunk.read(2 * LEAST as u64).await.unwrap(), "end");
        let behind = 2 * LEAST as u64 + 3;
        let error = chunk.read(behind).await.unwrap_err();
        assert_eq!(error.unwrap().kind(), ErrorKind::Io);
        assert!(chunk.read(behind).await.unwrap_err().is_none());
    }
}

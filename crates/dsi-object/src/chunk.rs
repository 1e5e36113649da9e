//! `Chunk`: a part of an object, readable piece by piece while it arrives.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{Error, Place, Result};
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
    /// The first byte; those before it are not read.
    pub(crate) start: u64,
    /// Its bytes in the budget of all downloads; `None` for one of the source's own chunks.
    pub(crate) place: Option<Place>,
    /// Told once all bytes are read.
    emptied: Arc<Notify>,
}

/// The bytes of a chunk that are here.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    state: Mutex<State>,
    moved: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The unread pieces and their offsets in the chunk, in order.
    pieces: Vec<(u64, Bytes)>,
    /// Short pieces behind those.
    short: BytesMut,
    len: u64,
    is_over: bool,
    /// The failure of the request, for the first reader that meets it.
    error: Option<Error>,
}

impl Chunk {
    /// Begins to read by `request`, which pushes the pieces from `start` in the chunk on. Once all
    /// are read, `emptied` is told.
    pub(crate) fn begin<R>(
        start: u64,
        place: Option<Place>,
        emptied: &Arc<Notify>,
        request: impl FnOnce(Arc<Arrived>) -> R,
    ) -> Self
    where
        R: Future<Output = Result<()>> + Send + 'static,
    {
        let arrived = Arc::<Arrived>::default();
        arrived.state().len = start;
        let request = request(Arc::clone(&arrived));
        let ending = (Arc::clone(&arrived), Arc::clone(emptied));
        let task = tokio::spawn(async move {
            let ended = request.await;
            let (arrived, emptied) = ending;
            arrived.end(ended.err());
            if arrived.state().is_read() {
                emptied.notify_waiters();
            }
        });
        Self {
            arrived,
            task,
            start,
            place,
            emptied: Arc::clone(emptied),
        }
    }

    /// The bytes from `offset` in the chunk on, as many as one piece has and at most `len`, once
    /// they are here. Read bytes are freed.
    ///
    /// # Errors
    /// That of the request; none if another reader took the error or these bytes.
    pub(crate) async fn read(&self, offset: u64, len: usize) -> Result<Bytes, Option<Error>> {
        loop {
            let moved = self.arrived.moved.notified();
            {
                let mut state = self.arrived.state();
                if offset < state.len {
                    let read = state.take(offset, len).ok_or(None);
                    if state.is_read() {
                        self.emptied.notify_waiters();
                    }
                    return read;
                }
                if state.is_over {
                    return Err(state.error.take());
                }
            }
            moved.await;
        }
    }

    /// Whether all its bytes were read.
    pub(crate) fn is_read(&self) -> bool {
        self.arrived.state().is_read()
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
    fn is_read(&self) -> bool {
        self.is_over && self.pieces.is_empty() && self.error.is_none()
    }

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

    /// The piece in which `offset` is, from there on and at most `len` bytes, unless it was read.
    /// The bytes before and behind it are of other readers.
    fn take(&mut self, offset: u64, len: usize) -> Option<Bytes> {
        let behind = self.pieces.partition_point(|(at, _)| *at <= offset);
        let index = behind.checked_sub(1)?;
        let (at, piece) = self.pieces.get_mut(index)?;
        let skip = usize::try_from(offset - *at).ok()?;
        if skip >= piece.len() {
            return None;
        }
        let mut read = piece.split_off(skip);
        let is_first = piece.is_empty();
        let rest = read.split_off(len.min(read.len()));
        if !rest.is_empty() {
            self.pieces
                .insert(behind, (offset + read.len() as u64, rest));
        }
        if is_first {
            self.pieces.remove(index);
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use gridftp_dsi::ErrorKind;
    use tokio::sync::mpsc;

    use super::*;

    const ALL: usize = usize::MAX;

    /// A chunk of the pieces that are sent, which fails at their end.
    fn chunk() -> (mpsc::UnboundedSender<Bytes>, Chunk) {
        let (pieces, mut sent) = mpsc::unbounded_channel();
        let chunk = Chunk::begin(0, None, &Arc::default(), |arrived| async move {
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
        assert_eq!(chunk.read(2, ALL).await.unwrap(), "ort");
        let read = chunk.read(5 + 9, ALL).await.unwrap();
        assert_eq!(read.as_ptr(), long[9..].as_ptr());
        assert_eq!(read.len(), long.len() - 9);
    }

    #[tokio::test]
    async fn readers_of_one_piece_read_all_of_it_once_and_in_any_order() {
        let (pieces, chunk) = chunk();
        let long = Bytes::from((0..LEAST).map(|at| at.to_le_bytes()[1]).collect::<Vec<_>>());
        pieces.send(long.clone()).unwrap();
        for (from, to) in [
            (1000, 3000),
            (0, 400),
            (9000, LEAST),
            (400, 1000),
            (3000, 9000),
        ] {
            let read = chunk.read(from as u64, to - from).await.unwrap();
            assert_eq!(read, long[from..to]);
            assert!(chunk.read(from as u64, ALL).await.unwrap_err().is_none());
        }
        assert!(chunk.arrived.state().pieces.is_empty());
    }

    #[tokio::test]
    async fn short_pieces_are_joined_and_their_rest_is_here_at_the_end() {
        let (pieces, chunk) = chunk();
        for _ in 0..LEAST {
            pieces.send(Bytes::from_static(b"ab")).unwrap();
        }
        pieces.send(Bytes::from_static(b"end")).unwrap();
        assert_eq!(chunk.read(0, ALL).await.unwrap().len(), LEAST);
        drop(pieces);
        assert_eq!(chunk.read(2 * LEAST as u64, ALL).await.unwrap(), "end");
        let behind = 2 * LEAST as u64 + 3;
        let error = chunk.read(behind, ALL).await.unwrap_err();
        assert_eq!(error.unwrap().kind(), ErrorKind::Io);
        assert!(chunk.read(behind, ALL).await.unwrap_err().is_none());
    }
}

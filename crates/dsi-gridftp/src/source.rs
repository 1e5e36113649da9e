//! `GatewaySource`: a file of the upstream, read in a few places at once within bounded memory.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex as Slot, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use ftp_wire::facts::{Entry, Fact, FactSet, TimeVal};
use gridftp_client::error::TransferError;
use gridftp_client::file::{ReadOptions, Reader};
use gridftp_dsi::{DsiPath, Error, ErrorKind, Result, Source, User};
use tokio::sync::Mutex;

use crate::error::{of_io, refused};
use crate::pool::{Place, Upstream};

/// Places of a file that are read at once, each by a transfer of its own.
const LANES: usize = 4;
/// Bytes of a lane that stay in memory, for connections that are a little behind.
const WINDOW: u64 = 4 << 20;
/// Bytes that are read and skipped rather than asked for anew.
const SKIP: u64 = 1 << 20;

/// An object open for reading.
pub struct GatewaySource {
    up: Arc<Upstream>,
    user: User,
    path: DsiPath,
    opened: Version,
    lanes: [Mutex<Lane>; LANES],
    /// The places of the lanes.
    marks: Slot<Marks>,
}

/// The facts by which one version of a file is told from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    size: u64,
    modified: Option<TimeVal>,
    unique: Option<(u64, u64)>,
}

impl Version {
    pub(crate) fn of(entry: &Entry, known: FactSet) -> Self {
        Self {
            size: entry.size,
            modified: known.contains(Fact::Modify).then_some(entry.modified),
            unique: known.contains(Fact::Unique).then_some(entry.unique),
        }
    }
}

#[derive(Debug, Default)]
struct Marks {
    lanes: [Mark; LANES],
    uses: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Mark {
    from: u64,
    to: u64,
    /// The use that it dates from; 0 for none.
    used: u64,
}

/// One transfer, and its last bytes.
#[derive(Default)]
struct Lane {
    reader: Option<(Reader, Place)>,
    pieces: VecDeque<(u64, Bytes)>,
    held: u64,
}

impl Lane {
    /// The bytes in memory from `offset` on.
    fn cached(&self, offset: u64) -> Option<&[u8]> {
        let (at, piece) = self
            .pieces
            .iter()
            .rev()
            .find(|(at, piece)| (*at..*at + piece.len() as u64).contains(&offset))?;
        piece.get(usize::try_from(offset - at).ok()?..)
    }

    fn push(&mut self, at: u64, piece: Bytes) {
        self.held += piece.len() as u64;
        self.pieces.push_back((at, piece));
        while self.held > WINDOW {
            let Some((_, oldest)) = self.pieces.pop_front() else {
                return;
            };
            self.held -= oldest.len() as u64;
        }
    }

    fn clear(&mut self) {
        (self.pieces, self.held) = (VecDeque::new(), 0);
    }
}

impl fmt::Debug for GatewaySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GatewaySource").field(&self.path).finish()
    }
}

impl GatewaySource {
    pub(crate) fn new(
        up: &Arc<Upstream>,
        user: &User,
        path: &DsiPath,
        (entry, known): (&Entry, FactSet),
    ) -> Self {
        Self {
            up: Arc::clone(up),
            user: user.clone(),
            path: path.clone(),
            opened: Version::of(entry, known),
            lanes: Default::default(),
            marks: Slot::default(),
        }
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane near `offset`, or else the one that was not used for longest.
    fn choose(&self, offset: u64) -> usize {
        let mut marks = self.marks();
        marks.uses += 1;
        let used = marks.uses;
        let is_near = |mark: &Mark| {
            mark.used > 0 && mark.from <= offset && offset <= mark.to.saturating_add(SKIP)
        };
        let lanes = marks.lanes.iter();
        let near = lanes.clone().position(is_near);
        let at = near.or_else(|| {
            let oldest = lanes.enumerate().min_by_key(|(_, mark)| mark.used);
            oldest.map(|(at, _)| at)
        });
        let at = at.unwrap_or(0);
        if let Some(mark) = marks.lanes.get_mut(at) {
            mark.used = used;
            if near.is_none() {
                (mark.from, mark.to) = (offset, offset);
            }
        }
        at
    }

    fn mark(&self, at: usize, lane: &Lane, to: u64) {
        let from = lane.pieces.front().map_or(to, |(from, _)| *from);
        if let Some(mark) = self.marks().lanes.get_mut(at) {
            (mark.from, mark.to) = (from, to);
        }
    }

    fn changed(&self, why: &'static str) -> Error {
        refused(ErrorKind::Changed, "read", &self.path, why)
    }

    /// Checks that the file is the one that was opened.
    async fn check(&self, session: &crate::pool::Session) -> Result<()> {
        match session.stat(&self.up.path(&self.path)).await {
            Ok((entry, known)) if Version::of(&entry, known) == self.opened => Ok(()),
            Ok(_) => Err(self.changed("another file has this name now")),
            Err(error) if error.is_not_found() => Err(self.changed("the file is gone")),
            Err(error) => Err(self.up.failed("read", &self.path, error)),
        }
    }

    /// Begins a transfer at `offset`.
    async fn begin(&self, lane: &mut Lane, offset: u64) -> Result<()> {
        lane.clear();
        let session = match lane.reader.take() {
            None => None,
            Some((reader, place)) => reader.stop().await.map(|client| place.session(client)),
        };
        let session = match session {
            Some(session) => session,
            None => self.up.session(&self.user, "read", &self.path).await?,
        };
        self.check(&session).await?;
        let (client, place) = session.split();
        let mut options = ReadOptions::default();
        (options.offset, options.streams) = (offset, self.up.streams);
        let reader = client.into_reader(self.up.path(&self.path), options);
        lane.reader = Some((reader, place));
        Ok(())
    }

    /// Reads the next piece of a lane; behind the last one, the session goes back.
    async fn advance(&self, lane: &mut Lane) -> Result<u64> {
        let Some((reader, _)) = &mut lane.reader else {
            return Err(self.changed("the file ended before its size"));
        };
        let at = reader.position();
        let mut piece = reader.piece().await.map_err(of_io);
        // A data connection that breaks says nothing of the file: the rest comes over another.
        if piece.as_ref().is_err_and(TransferError::is_transient) {
            Box::pin(self.begin(lane, at)).await?;
            if let Some((reader, _)) = &mut lane.reader {
                piece = reader.piece().await.map_err(of_io);
            }
        }
        let mut to = at;
        let done = match piece {
            Ok(piece) => {
                to += piece.len() as u64;
                let is_end = piece.is_empty();
                lane.push(at, piece);
                match is_end {
                    true if to < self.opened.size => {
                        Err(self.changed("the file ended before its size"))
                    }
                    _ => Ok(()),
                }
            }
            Err(error) => Err(self.up.failed("read", &self.path, error)),
        };
        let is_last = to >= self.opened.size || done.is_err();
        if is_last && let Some((mut reader, place)) = lane.reader.take() {
            // The upstream's word that it sent all.
            let ended = match &done {
                Ok(()) => reader.piece().await.map(drop),
                Err(_) => Ok(()),
            };
            if let Some(client) = reader.stop().await {
                place.put(client);
            }
            ended.map_err(|error| self.up.failed("read", &self.path, of_io(error)))?;
        }
        done.map(|()| to)
    }
}

impl Source for GatewaySource {
    fn size(&self) -> u64 {
        self.opened.size
    }

    async fn read_at(&self, offset: u64, mut into: BytesMut) -> Result<BytesMut> {
        if offset >= self.opened.size || into.capacity() == into.len() {
            return Ok(into);
        }
        let at = self.choose(offset);
        let Some(lane) = self.lanes.get(at) else {
            return Ok(into);
        };
        let mut lane = lane.lock().await;
        loop {
            if let Some(bytes) = lane.cached(offset) {
                let room = into.capacity() - into.len();
                into.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
                return Ok(into);
            }
            let position = lane.reader.as_ref().map(|(reader, _)| reader.position());
            let is_ahead = position.is_some_and(|at| at <= offset && offset - at <= SKIP);
            if !is_ahead {
                self.begin(&mut lane, offset).await?;
            }
            let to = self.advance(&mut lane).await?;
            self.mark(at, &lane, to);
        }
    }

    async fn unchanged(&self) -> Result<()> {
        let session = self.up.session(&self.user, "stat", &self.path).await?;
        let checked = self.check(&session).await;
        // A session that was lost is not put back.
        session.put();
        checked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_keeps_its_last_bytes() {
        let mut lane = Lane::default();
        let piece = Bytes::from(vec![1; 1 << 20]);
        for at in 0..6 {
            lane.push(at << 20, piece.clone());
        }
        assert_eq!(lane.held, WINDOW);
        assert_eq!(lane.cached((2 << 20) - 1), None);
        assert_eq!(lane.cached(2 << 20).unwrap().len(), 1 << 20);
        assert_eq!(lane.cached((6 << 20) - 5).unwrap().len(), 5);
        assert_eq!(lane.cached(6 << 20), None);
    }
}

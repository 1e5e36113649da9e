//! `ERET memory=` and `ESTO memory=`: bytes of this server's memory to the client, and back.

use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use byte_ranges::RangeSet;
use bytes::Bytes;
use ftp_wire::command::Type;
use ftp_wire::memory::MemoryLimits;
use gridftp_data::{Chunks, ReceivePlan};
use gridftp_dsi::{Dsi, DsiPath, ErrorKind, Finish, Sink, Stat};
use tokio::time::{Instant, timeout};

use super::{Buffers, Mover};
use crate::error::Error;

/// Bytes that are sent at once.
const PIECE: usize = 256 << 10;

/// Time for the data that is under way when the time of a measurement is over.
const GRACE: Duration = Duration::from_secs(60);

/// The piece that is sent again and again; no layer can compress it.
static NOISE: LazyLock<Bytes> = LazyLock::new(|| {
    let random = RandomState::new();
    let words = (0..PIECE / 8).flat_map(|word| random.hash_one(word).to_ne_bytes());
    words.collect()
});

impl<D: Dsi> Mover<'_, D> {
    /// Sends bytes of memory until one of the bounds is reached; returns their number.
    ///
    /// # Errors
    /// Those of looking at `path`, which refuse a user without access, and those of the transfer.
    pub(super) async fn retrieve_memory(
        &mut self,
        path: &DsiPath,
        most: MemoryLimits,
    ) -> Result<u64, Error> {
        self.look_at(path).await?;
        let mut noise = Noise::new(most);
        let plan = self.plan(Type::Image, RangeSet::new()).dealt();
        let (limit, watch) = (self.limit(most), self.context.watch);
        let sending = self.side.channel.send_chunks(&mut noise, &plan, watch);
        let sending = in_time(limit, sending);
        let recorded = |_| std::future::ready(Ok(()));
        let sent = self.context.reporter.run(watch, sending, recorded).await?;
        Ok(sent.bytes)
    }

    /// Discards the bytes of the client; returns their number.
    ///
    /// # Errors
    /// As [`retrieve_memory`](Self::retrieve_memory), and `TooLarge` for more bytes than the bound.
    pub(super) async fn store_memory(
        &mut self,
        path: &DsiPath,
        most: MemoryLimits,
    ) -> Result<u64, Error> {
        self.look_at(path).await?;
        // A marker would promise that its bytes stay here.
        self.context.reporter.keep_nothing();
        self.side.settle(Buffers::from(self.context.channel));
        let sink = Void {
            room: AtomicU64::new(most.bytes),
        };
        let plan = ReceivePlan::new(self.context.channel.mode, Type::Image);
        let (limit, watch) = (self.limit(most), self.context.watch);
        let receiving = self.side.channel.receive(&sink, &plan, watch);
        let receiving = in_time(limit, receiving);
        let recorded = |_| std::future::ready(Ok(()));
        let received = self
            .context
            .reporter
            .run(watch, receiving, recorded)
            .await?;
        Ok(received.bytes)
    }

    /// Looks at the object, which the storage refuses to a user without access.
    async fn look_at(&mut self, path: &DsiPath) -> Result<(), Error> {
        let looking = self.context.shared.dsi.stat(self.context.user, path);
        let found = self.context.reporter.run_quietly(looking).await;
        found.map(drop)
    }

    /// The time after which a measurement is ended from outside, its set-up included.
    fn limit(&mut self, most: MemoryLimits) -> Duration {
        let opening = self.side.channel.options_mut().open_within;
        Duration::from_secs(most.seconds).saturating_add(opening + GRACE)
    }
}

/// Runs a transfer, at most for this time.
async fn in_time<T, E: Into<Error>>(
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Error> {
    match timeout(limit, Box::pin(work)).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(Error::Overtime),
    }
}

/// Bytes that cost nothing to make.
struct Noise {
    /// Bytes to go.
    left: u64,
    time: Duration,
    /// The end of that time, which begins with the first piece.
    until: Option<Instant>,
}

impl Noise {
    const fn new(most: MemoryLimits) -> Self {
        Self {
            left: most.bytes,
            time: Duration::from_secs(most.seconds),
            until: None,
        }
    }
}

impl Chunks for Noise {
    async fn next(&mut self) -> gridftp_dsi::Result<Option<Bytes>> {
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + self.time);
        let len = usize::try_from(self.left).map_or(PIECE, |left| left.min(PIECE));
        if len == 0 || now >= until {
            return Ok(None);
        }
        self.left -= len as u64;
        Ok(Some(NOISE.slice(..len)))
    }

    fn is_patient(&self) -> bool {
        false
    }
}

/// A sink that discards its bytes, and takes only so many.
struct Void {
    /// Bytes that it still takes.
    room: AtomicU64,
}

impl Sink for Void {
    async fn write_at(&self, _offset: u64, data: Bytes) -> gridftp_dsi::Result<()> {
        let len = data.len() as u64;
        let taken = self
            .room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| {
                room.checked_sub(len)
            });
        match taken {
            Ok(_) => Ok(()),
            Err(_) => Err(gridftp_dsi::Error::new(ErrorKind::TooLarge, "measure")
                .because("more bytes than the command says")),
        }
    }

    async fn checkpoint(&self, _held: &RangeSet, _durable: bool) -> gridftp_dsi::Result<()> {
        Ok(())
    }

    fn held(&self) -> RangeSet {
        RangeSet::new()
    }

    async fn finish(self, _done: Finish) -> gridftp_dsi::Result<Stat> {
        Err(gridftp_dsi::Error::new(ErrorKind::Unsupported, "measure"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(noise: &mut Noise) -> u64 {
        let mut bytes = 0;
        while let Some(piece) = noise.next().await.unwrap() {
            bytes += piece.len() as u64;
        }
        bytes
    }

    #[tokio::test(start_paused = true)]
    async fn noise_ends_at_either_bound() {
        let piece = PIECE as u64;
        let mut noise = Noise::new(MemoryLimits::new(2 * piece + 5, 3));
        assert_eq!(all(&mut noise).await, 2 * piece + 5);
        let mut noise = Noise::new(MemoryLimits::new(u64::MAX, 3));
        // The time begins with the first piece.
        tokio::time::advance(Duration::from_secs(10)).await;
        for _ in 0..3 {
            assert!(noise.next().await.unwrap().is_some());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(noise.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_void_takes_so_many_bytes_at_any_offsets() {
        let void = Void {
            room: AtomicU64::new(5),
        };
        let three = Bytes::from_static(b"abc");
        void.write_at(1 << 50, three.clone()).await.unwrap();
        let error = void.write_at(0, three).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        void.write_at(0, Bytes::from_static(b"ab")).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_measurement_without_an_end_is_ended() {
        let work = std::future::pending::<Result<(), Error>>();
        let ended = in_time(Duration::from_secs(1), work).await;
        assert!(matches!(ended, Err(Error::Overtime)));
    }
}

//! `Chaos`: a storage over another one that is slow, gives short reads, sorts anew, fails or crashes.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};
use gridftp_dsi::{
    Attribute, Capabilities, ChecksumAlgorithm, Create, Dsi, DsiPath, Error, ErrorKind, Finish,
    GroupValue, Listing, Meta, Partial, Progress, Result, Sink, Source, Staging, Stat, User,
    WriteModel,
};

use crate::random::Random;

/// The kinds of injected failures.
const FAILURES: [ErrorKind; 4] = [
    ErrorKind::Io,
    ErrorKind::Busy,
    ErrorKind::NoSpace,
    ErrorKind::Changed,
];

/// Entries of a batch of a storage with short reads.
const FEW: usize = 3;

/// The faults; none by default.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ChaosOptions {
    /// Seed of the random choices.
    pub seed: u64,
    /// Longest delay of an operation: writes that are under way end in another order.
    pub delay: Duration,
    /// Percentage of operations that fail, and change nothing.
    pub fail: u8,
    /// Shortens reads and batches of listings.
    pub short: bool,
    /// Lists the entries of a batch in another order, the same in every listing.
    pub shuffle: bool,
    /// Number of operations before the crash, after which all fail until [`Chaos::restart`].
    pub crash: Option<u64>,
}

/// A storage with faults. What it does keeps the contract of [`Dsi`]: an operation that fails has
/// changed nothing, and uploads that a crash ends are not published.
///
/// Authors of storages run their suites over it to see that a caller holds out. The conformance
/// suite passes without `fail` and `crash`.
#[derive(Debug)]
pub struct Chaos<D> {
    below: D,
    faults: Arc<Faults>,
}

#[derive(Debug)]
struct Faults {
    options: ChaosOptions,
    random: Mutex<Random>,
    /// Operations so far.
    count: AtomicU64,
    crashed: AtomicBool,
}

impl Faults {
    fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins an operation.
    async fn step(&self, op: &'static str) -> Result<()> {
        let most = usize::try_from(self.options.delay.as_micros()).unwrap_or(usize::MAX);
        if most > 0 {
            let micros = self.draw(|random| random.up_to(most));
            tokio::time::sleep(Duration::from_micros(micros as u64)).await;
        }
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if self.options.crash.is_some_and(|crash| count > crash) {
            self.crashed.store(true, Ordering::Relaxed);
        }
        if self.crashed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, op).because("the storage has crashed"));
        }
        let failure = self.draw(|random| {
            let fails = random.percent(self.options.fail);
            random.pick(&FAILURES).filter(|_| fails)
        });
        match failure {
            Some(kind) => Err(Error::new(kind, op).because("an injected failure")),
            None => Ok(()),
        }
    }
}

impl<D: Dsi> Chaos<D> {
    /// Puts faults over `below`.
    pub fn new(below: D, options: ChaosOptions) -> Self {
        Self {
            below,
            faults: Arc::new(Faults {
                options,
                random: Mutex::new(Random::new(options.seed)),
                count: AtomicU64::new(0),
                crashed: AtomicBool::new(false),
            }),
        }
    }

    /// Lets every operation fail from now on.
    pub fn crash(&self) {
        self.faults.crashed.store(true, Ordering::Relaxed);
    }

    /// Ends a crash, and counts operations anew.
    pub fn restart(&self) {
        self.faults.count.store(0, Ordering::Relaxed);
        self.faults.crashed.store(false, Ordering::Relaxed);
    }

    fn over<T>(&self, object: T) -> Chaotic<T> {
        Chaotic {
            object,
            faults: Arc::clone(&self.faults),
        }
    }
}

/// An open object with faults.
#[derive(Debug)]
pub struct Chaotic<T> {
    object: T,
    faults: Arc<Faults>,
}

impl<S: Source> Source for Chaotic<S> {
    fn size(&self) -> u64 {
        self.object.size()
    }

    async fn read_at(&self, offset: u64, into: BytesMut) -> Result<BytesMut> {
        self.faults.step("read").await?;
        let begun = into.len();
        let mut read = self.object.read_at(offset, into).await?;
        if self.faults.options.short && read.len() > begun {
            let kept = self.faults.draw(|random| random.up_to(read.len() - begun));
            read.truncate(begun + kept);
        }
        Ok(read)
    }

    fn lends(&self) -> bool {
        self.object.lends()
    }

    async fn lend(&self, offset: u64, len: u64) -> Result<Bytes> {
        self.faults.step("read").await?;
        let mut lent = self.object.lend(offset, len).await?;
        if self.faults.options.short && !lent.is_empty() {
            lent.truncate(self.faults.draw(|random| random.up_to(lent.len())));
        }
        Ok(lent)
    }

    async fn data(&self) -> Result<Option<RangeSet>> {
        self.faults.step("read").await?;
        self.object.data().await
    }

    async fn unchanged(&self) -> Result<()> {
        self.faults.step("read").await?;
        self.object.unchanged().await
    }
}

impl<S: Sink> Sink for Chaotic<S> {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        self.faults.step("write").await?;
        self.object.write_at(offset, data).await
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        self.faults.step("checkpoint").await?;
        self.object.checkpoint(held, durable).await
    }

    fn held(&self) -> RangeSet {
        self.object.held()
    }

    async fn groups(&self, held: &RangeSet) -> Result<Option<Vec<GroupValue>>> {
        self.faults.step("read").await?;
        self.object.groups(held).await
    }

    fn note_groups(&self, values: Vec<GroupValue>) {
        self.object.note_groups(values);
    }

    fn order(&self) -> WriteModel {
        self.object.order()
    }

    async fn read_back(&self, offset: u64, len: usize) -> Result<Bytes> {
        self.faults.step("read back").await?;
        self.object.read_back(offset, len).await
    }

    async fn hash_back(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        self.faults.step("hash").await?;
        self.object.hash_back(offset, len).await
    }

    async fn data(&self) -> Result<Option<RangeSet>> {
        self.faults.step("read").await?;
        self.object.data().await
    }

    async fn share(&self, kept: Option<&RangeSet>) -> Result<Vec<u8>> {
        self.faults.step("share").await?;
        self.object.share(kept).await
    }

    fn will_check(&self, algorithm: ChecksumAlgorithm) {
        self.object.will_check(algorithm);
    }

    async fn finish(self, done: Finish) -> Result<Stat> {
        self.faults.step("finish").await?;
        self.object.finish(done).await
    }

    /// None: bytes in a pipe would pass the faults by.
    fn takes_pipes(&self) -> bool {
        false
    }

    async fn take_pipe(&self, _: Arc<OwnedFd>, _: u64, _: usize) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "write"))
    }
}

/// A listing with faults.
#[derive(Debug)]
pub struct ChaoticListing<L> {
    listing: L,
    faults: Arc<Faults>,
    /// Entries of the last batch that wait.
    rest: Vec<Stat>,
}

impl<L: Listing> Listing for ChaoticListing<L> {
    async fn next(&mut self) -> Result<Vec<Stat>> {
        self.faults.step("list").await?;
        let options = self.faults.options;
        if self.rest.is_empty() {
            self.rest = self.listing.next().await?;
            if options.shuffle {
                self.rest.sort_by_cached_key(|stat| {
                    let bytes = stat.name.iter().map(|byte| u64::from(*byte));
                    let mixed =
                        bytes.fold(options.seed, |sum, byte| Random::new(sum ^ byte).number());
                    (mixed, stat.name.clone())
                });
            }
        }
        let most = if options.short { FEW } else { usize::MAX };
        let rest = self.rest.split_off(most.min(self.rest.len()));
        Ok(std::mem::replace(&mut self.rest, rest))
    }
}

impl<D: Dsi> Dsi for Chaos<D> {
    type Source = Chaotic<D::Source>;
    type Sink = Chaotic<D::Sink>;
    type Listing = ChaoticListing<D::Listing>;

    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }

    async fn stat(&self, user: &User, path: &DsiPath) -> Result<Stat> {
        self.faults.step("stat").await?;
        self.below.stat(user, path).await
    }

    async fn list(&self, user: &User, path: &DsiPath) -> Result<Self::Listing> {
        self.faults.step("list").await?;
        Ok(ChaoticListing {
            listing: self.below.list(user, path).await?,
            faults: Arc::clone(&self.faults),
            rest: Vec::new(),
        })
    }

    async fn read(&self, user: &User, path: &DsiPath) -> Result<Self::Source> {
        self.faults.step("open").await?;
        Ok(self.over(self.below.read(user, path).await?))
    }

    async fn write(&self, user: &User, path: &DsiPath, how: Create) -> Result<Self::Sink> {
        self.faults.step("open").await?;
        Ok(self.over(self.below.write(user, path, how).await?))
    }

    async fn join(&self, user: &User, path: &DsiPath, token: &[u8]) -> Result<Self::Sink> {
        self.faults.step("join").await?;
        Ok(self.over(self.below.join(user, path, token).await?))
    }

    async fn stage(
        &self,
        user: &User,
        path: &DsiPath,
        task: &str,
        within: Duration,
    ) -> Result<Staging> {
        self.faults.step("stage").await?;
        self.below.stage(user, path, task, within).await
    }

    async fn free_space(&self, user: &User, path: &DsiPath) -> Result<u64> {
        self.faults.step("ask for free space").await?;
        self.below.free_space(user, path).await
    }

    async fn attributes(&self, user: &User, path: &DsiPath) -> Result<Vec<Attribute>> {
        self.faults.step("read attributes").await?;
        self.below.attributes(user, path).await
    }

    async fn set_attribute(&self, user: &User, path: &DsiPath, attribute: Attribute) -> Result<()> {
        self.faults.step("set attribute").await?;
        self.below.set_attribute(user, path, attribute).await
    }

    async fn held(&self, user: &User, path: &DsiPath) -> Result<RangeSet> {
        self.faults.step("open").await?;
        self.below.held(user, path).await
    }

    async fn partials(&self, user: &User, path: &DsiPath) -> Result<(Vec<Partial>, bool)> {
        self.faults.step("list partial files").await?;
        self.below.partials(user, path).await
    }

    async fn drop_held(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.faults.step("remove partial file").await?;
        self.below.drop_held(user, path).await
    }

    async fn expire(&self, age: Duration) -> Result<u64> {
        self.faults.step("expire").await?;
        self.below.expire(age).await
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.faults.step("make directory").await?;
        self.below.make_dir(user, path).await
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.faults.step("remove directory").await?;
        self.below.remove_dir(user, path).await
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.faults.step("remove").await?;
        self.below.remove(user, path).await
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        self.faults.step("remove tree").await?;
        self.below.remove_tree(user, path).await
    }

    async fn rename(&self, user: &User, from: &DsiPath, to: &DsiPath) -> Result<()> {
        self.faults.step("rename").await?;
        self.below.rename(user, from, to).await
    }

    async fn symlink(&self, user: &User, target: &[u8], link: &DsiPath) -> Result<()> {
        self.faults.step("link").await?;
        self.below.symlink(user, target, link).await
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, meta: Meta) -> Result<()> {
        self.faults.step("set metadata").await?;
        self.below.set_meta(user, path, meta).await
    }

    async fn truncate(&self, user: &User, path: &DsiPath, length: u64) -> Result<()> {
        self.faults.step("truncate").await?;
        self.below.truncate(user, path, length).await
    }

    async fn checksum(
        &self,
        user: &User,
        path: &DsiPath,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
        progress: &Progress,
    ) -> Result<String> {
        self.faults.step("checksum").await?;
        let below = &self.below;
        below
            .checksum(user, path, algorithm, offset, length, progress)
            .await
    }
}

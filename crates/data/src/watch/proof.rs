//! The part of a `Watch` that proves the bytes: the digest of this end and that of the sender, with
//! the values of groups, and the hints of a digest.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use byte_ranges::RangeSet;
use digest_tree::{Hash, Piece};
use ftp_wire::command::Tag;
use ftp_wire::receipt::Receipt;
use gridftp_dsi::GroupValue;
use mode_e::{Hint, MAX_HINTS};

use super::Watch;
use crate::digest::Digest;
use crate::earlier::Earlier;
use crate::error::{Error, Result};

/// The digest of the whole file, and the hints of it, as its sender computed them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Told {
    /// The digest.
    pub digest: [u8; 32],
    /// The values of its sections, in order, and the sums over its groups; none of a file of a single
    /// section.
    pub hints: Vec<Hint>,
}

impl Watch {
    /// The receipt of a finished tagged transfer; `None` for any other.
    pub fn receipt(&self) -> Option<Receipt> {
        let (digest, bytes) = (self.digest(), self.bytes());
        digest
            .is_wanted()
            .then(|| Receipt::new(bytes, digest.value(bytes)))
    }

    /// Has the tagged transfer that begins now go on with the bytes of an earlier attempt: with their
    /// values its digest is that of the whole file, and without them none is told.
    pub fn go_on(&self, earlier: Option<Earlier>) {
        self.digest().go_on(earlier);
    }

    /// The values of groups of the file that were completed since the last call, in a transfer that
    /// [goes on](Self::go_on). Those of bytes that are [received](Self::received) are among them.
    pub fn take_groups(&self) -> Vec<GroupValue> {
        self.digest().take_groups()
    }

    /// Runs the transfer `work`, and hands the values of the groups that it completes to `take`, `every`
    /// so often and at its end.
    ///
    /// # Cancel safety
    /// As `work`; values that were not handed out are still to be [taken](Self::take_groups).
    pub async fn with_groups<T, F>(
        &self,
        every: Duration,
        work: impl Future<Output = T>,
        take: impl Fn(Vec<GroupValue>) -> F,
    ) -> T
    where
        F: Future<Output = ()>,
    {
        let taking = async {
            loop {
                tokio::time::sleep(every).await;
                take(self.take_groups()).await;
            }
        };
        let done = tokio::select! {
            biased;
            done = work => done,
            never = taking => match never {},
        };
        take(self.take_groups()).await;
        done
    }

    /// The BLAKE3 digest of the whole file after a transfer that proves all bytes
    /// ([`Extent::Whole`](ftp_wire::receipt::Extent::Whole)), where it is known; in lower-case
    /// hexadecimal.
    pub fn file_digest(&self) -> Option<String> {
        let digest = self.whole(self.bytes());
        digest.map(|digest| Hash::from(digest).to_string())
    }

    /// Begins the receipt of a tagged transfer from offset `start` on, in a file that begins at
    /// `base`.
    pub(crate) fn prove(&self, tag: Option<Tag>, start: u64, base: u64) {
        if let Some(tag) = tag {
            self.digest().begin(tag.extent, start, base);
        }
    }

    /// Number of bytes from `offset` on that the receipt needs in memory.
    pub(crate) fn to_digest(&self, offset: u64) -> u64 {
        self.digest().left(offset).map_or(0, |(_, left)| left)
    }

    /// Adds `data` at `offset` to the receipt.
    pub(crate) fn show(&self, offset: u64, data: &[u8]) {
        let left = self.digest().left(offset);
        if let Some((at, left)) = left.filter(|_| !data.is_empty()) {
            let left = usize::try_from(left).unwrap_or(usize::MAX);
            let data = data.get(..left).unwrap_or(data);
            self.hashing(|| {
                let piece = Piece::of(at, data);
                self.digest().add(piece);
            });
        }
    }

    /// The digest of the whole file after `bytes` bytes, where all of them are to be proven and it
    /// is known.
    pub(crate) fn whole(&self, bytes: u64) -> Option<[u8; 32]> {
        self.digest().whole(bytes)
    }

    /// The digest of the whole file after `bytes` bytes and the hints of it, where it is known.
    pub(crate) fn told_of(&self, bytes: u64) -> Option<Told> {
        let here = self.digest();
        let digest = here.whole(bytes)?;
        Some(Told::new(digest, here.hints(bytes)))
    }

    /// Notes the digest that the sender told.
    pub(crate) fn told(&self, digest: [u8; 32]) {
        let hints = Vec::new();
        *self.lock_told() = Some(Told { digest, hints });
    }

    /// Notes the next hint that the sender told, of at most as many as there may be.
    pub(crate) fn told_hint(&self, hint: Hint) {
        if let Some(told) = &mut *self.lock_told()
            && told.hints.len() < MAX_HINTS
        {
            told.hints.push(hint);
        }
    }

    pub(super) fn lock_told(&self) -> MutexGuard<'_, Option<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the data that arrived with the digest that its sender told.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) where they differ.
    pub fn compare(&self) -> Result<()> {
        let told = self.lock_told().as_ref().map(|told| told.digest);
        match (told, self.whole(self.bytes())) {
            (Some(sent), Some(here)) if sent != here => Err(Error::corrupt(sent, here)),
            _ => Ok(()),
        }
    }

    /// The digest of the whole file, in lower-case hexadecimal, that the sender of the transfer told.
    pub fn told_digest(&self) -> Option<String> {
        let digest = self.lock_told().as_ref()?.digest;
        Some(Hash::from(digest).to_string())
    }

    /// The ranges of the file, in wire offsets, in which a copy that failed as
    /// [corrupt](crate::ErrorKind::Corrupt) differs from its source; both ends agree on all others.
    /// They are groups of 1 MiB, or sections of a long file of which about 700 groups or more differ.
    /// `None` where the sender told too little.
    pub fn differing(&self) -> Option<RangeSet> {
        let told = self.lock_told();
        let hints = &told.as_ref()?.hints;
        self.digest().differing(self.bytes(), hints)
    }

    /// The digest of the receipt. The lock is never held across a wait; only chunks at the ends of
    /// blocks are hashed under it.
    pub(super) fn digest(&self) -> MutexGuard<'_, Digest> {
        self.digest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

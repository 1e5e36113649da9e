//! The digest of a transfer over several hosts: each host hands on the values of its part, and the
//! watch of the whole transfer joins them.

use digest_tree::Known;
use ftp_wire::command::Tag;
use mode_e::{Hint, MAX_HINTS};

use super::{Told, Watch};

impl Told {
    /// The digest of a file, and at most [`MAX_HINTS`] hints of it.
    pub fn new(digest: [u8; 32], mut hints: Vec<Hint>) -> Self {
        hints.truncate(MAX_HINTS);
        Self { digest, hints }
    }
}

impl Watch {
    /// Begins to collect the values of this end's part of a tagged transfer, for the front end. The
    /// digest of the whole transfer begins at the offset `from` of [`prove_parts`](Self::prove_parts);
    /// the receipt of this end has none.
    pub fn hand_on(&self, from: u64) {
        self.digest().hand_on(from);
    }

    /// Whether this end [hands on](Self::hand_on) the values of its part.
    pub fn hands_on(&self) -> bool {
        self.digest().hands_on()
    }

    /// The values of its part that were not taken before, as far as they fit a message; empty where
    /// there are none. They are to be taken several times a second: a digest is lost where more than
    /// [`MAX_WAITING_PARTS`](digest_tree::MAX_WAITING_PARTS) wait, which needs blocks of a few KiB.
    pub fn take_known(&self) -> Known {
        self.digest().take_known()
    }

    /// The digest that the sender told this end, to be handed on.
    pub fn take_told(&self) -> Option<Told> {
        self.lock_told().take()
    }

    /// Begins the receipt of a tagged transfer from offset `start` on, in a file that begins at `base`,
    /// of which other hosts have the bytes. Gives the offset of the first byte that its digest counts.
    pub fn prove_parts(&self, tag: Tag, start: u64, base: u64) -> u64 {
        let mut digest = self.digest();
        digest.begin(tag.extent, start, base);
        digest.join_parts();
        digest.from().unwrap_or(start)
    }

    /// Has the receipt be that of stripes, of which one may be far ahead of another.
    pub(crate) fn join_parts(&self) {
        self.digest().join_parts();
    }

    /// The digest of the whole file, of which other hosts have sent all bytes, with its hints; `None` where
    /// it is not known.
    pub fn joined(&self) -> Option<Told> {
        self.told_of(self.bytes())
    }

    /// Adds values that another host handed on.
    pub fn add_known(&self, known: Known) {
        self.digest().add_known(known);
    }

    /// Notes the digest that the sender told another host.
    pub fn note_told(&self, told: Told) {
        *self.lock_told() = Some(told);
    }

    /// Notes that the stored file was read, and has the digest that its sender told: the receipt has it.
    pub fn confirm_told(&self) {
        let told = self.lock_told().as_ref().map(|told| told.digest);
        self.digest().note(told);
    }

    /// Begins the receipt of a tagged transfer of which one other host has all bytes, and the digest:
    /// it has to be [noted](Self::note_digest).
    pub fn prove_elsewhere(&self, tag: Tag) {
        self.digest().begin_elsewhere(tag.extent);
    }

    /// Notes the digest of the host that has all bytes; `None` where it does not know it.
    pub fn note_digest(&self, digest: Option<[u8; 32]>) {
        self.digest().note(digest);
    }
}

#[cfg(test)]
mod tests {
    use digest_tree::Hash;
    use ftp_wire::receipt::{Extent, HEAD};

    use super::*;
    use crate::ErrorKind;
    use crate::tests::bytes;

    /// The blocks of a file on two hosts, handed on to a third watch.
    fn joined(content: &[u8], extent: Extent, start: u64) -> Watch {
        let (whole, tag) = (Watch::new(), Tag::new(1, extent));
        let from = whole.prove_parts(tag, start, 0);
        let parts = [Watch::new(), Watch::new()];
        for part in &parts {
            part.hand_on(from);
            part.prove(Some(tag), 777, 99);
            assert!(part.hands_on());
        }
        for (number, block) in content.chunks(5000).enumerate() {
            parts[number % 2].show(start + number as u64 * 5000, block);
            whole.moved(block.len() as u64);
        }
        for part in &parts {
            assert_eq!(part.receipt().and_then(|receipt| receipt.blake3), None);
            assert_eq!(part.whole(content.len() as u64), None);
            whole.add_known(part.take_known());
            assert!(part.take_known().is_empty());
        }
        whole
    }

    #[test]
    fn parts_on_two_hosts_have_the_receipt_of_the_whole() {
        let content = bytes(300_000);
        let head = &content[..usize::try_from(HEAD).unwrap()];
        for (extent, start, proven) in [
            (Extent::Whole, 0, &content[..]),
            (Extent::Head, 0, head),
            (Extent::Head, 12_345, head),
        ] {
            let receipt = joined(&content, extent, start).receipt().unwrap();
            let digest = blake3::hash(proven).into();
            assert_eq!((receipt.bytes, receipt.blake3), (300_000, Some(digest)));
        }
        // The bytes before it are not known.
        let receipt = joined(&content, Extent::Whole, 5000).receipt().unwrap();
        assert_eq!((receipt.bytes, receipt.blake3), (300_000, None));
    }

    #[test]
    fn the_told_digest_is_compared_with_that_of_all_parts() {
        let content = bytes(20_000);
        let part = Watch::new();
        for (digest, is_corrupt) in [(blake3::hash(&content), false), (Hash::from([7; 32]), true)] {
            let whole = joined(&content, Extent::Whole, 0);
            part.told(digest.into());
            part.told_hint([1; 16]);
            let told = part.take_told().unwrap();
            assert_eq!(told, Told::new(digest.into(), vec![[1; 16]]));
            assert_eq!(part.take_told(), None);
            whole.note_told(told);
            let unread = whole.receipt();
            let kind = whole.compare().err().map(|error| error.kind());
            assert_eq!(kind, is_corrupt.then_some(ErrorKind::Corrupt));
            whole.confirm_told();
            let told = whole.receipt().and_then(|receipt| receipt.blake3);
            assert_eq!(told, Some(digest.into()));
            assert_eq!(whole.receipt() != unread, is_corrupt);
        }
    }

    #[test]
    fn the_digest_of_a_host_with_all_bytes_is_noted() {
        // Without bytes it is that of a transfer that goes on with all of them.
        for (bytes, digest) in [(9, Some([7; 32])), (9, None), (0, Some([7; 32])), (0, None)] {
            let watch = Watch::new();
            watch.prove_elsewhere(Tag::new(1, Extent::Whole));
            watch.moved(bytes);
            watch.note_digest(digest);
            let receipt = watch.receipt().unwrap();
            assert_eq!((receipt.bytes, receipt.blake3), (bytes, digest));
        }
    }
}

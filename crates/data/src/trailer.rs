//! `Trailer`: the digest behind the data of a MODE S transfer, with its hints, and the end of a stream
//! held back until it is known to be one.

use digest_tree::GROUP;
use ftp_wire::command::{Mode, Tag, Type};
use ftp_wire::receipt::Extent;
use mode_e::{Hint, MAX_HINTS};

use crate::watch::Told;

/// Length of a trailer without hints in bytes.
const LEN: usize = 56;

/// Smallest block, in bytes, into which a stream with a trailer is read: about half of it is data even
/// where the longest trailer may follow.
pub(crate) const LEAST_BLOCK: usize = 64 << 10;

const KNOWN: [u8; 8] = *b"GFTP-dig";
const UNKNOWN: [u8; 8] = *b"GFTP-nil";
const END: [u8; 8] = *b"GFTP-end";

/// Unit of the offsets at which the data of full blocks ends: pages of the storage and blocks of its
/// holes.
const ALIGN: u64 = 4096;

/// The end of the data of a transfer in MODE S.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// The digest of the file and its hints; `None` where the sender does not know them.
    pub(crate) told: Option<Told>,
}

impl Trailer {
    /// Says whether a trailer follows the data of a transfer; one with [`Extent::Head`] has none.
    pub(crate) fn follows(mode: Mode, ty: Type, tag: Option<Tag>) -> bool {
        let is_whole = tag.is_some_and(|tag| tag.extent == Extent::Whole);
        mode == Mode::Stream && ty == Type::Image && is_whole
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (begin, digest, hints) = match &self.told {
            Some(told) => (KNOWN, told.digest, told.hints.as_slice()),
            None => (UNKNOWN, [0; 32], &[][..]),
        };
        let count = (hints.len() as u64).to_be_bytes();
        [hints.as_flattened(), &begin, &digest, &count, &END].concat()
    }

    /// Reads the trailer at the end of `bytes`, with the number of bytes before it.
    fn parse(bytes: &[u8]) -> Option<(usize, Self)> {
        let (bytes, end) = bytes.split_last_chunk()?;
        let (bytes, count) = bytes.split_last_chunk()?;
        let (bytes, digest) = bytes.split_last_chunk()?;
        let (bytes, begin) = bytes.split_last_chunk()?;
        let count = usize::try_from(u64::from_be_bytes(*count)).ok()?;
        let data = bytes.len().checked_sub(count.checked_mul(HINT)?)?;
        let told = match *begin {
            KNOWN if count <= MAX_HINTS => {
                let (hints, _) = bytes.get(data..)?.as_chunks();
                Some(Told::new(*digest, hints.to_vec()))
            }
            UNKNOWN if count == 0 => None,
            _ => return None,
        };
        (*end == END).then_some((data, Self { told }))
    }
}

/// Length of a hint in bytes.
const HINT: usize = size_of::<Hint>();

/// Length of the longest trailer of a file of at most `size` bytes: there are at most two hints for each
/// group of 1 MiB, and none of a file of a single one.
fn longest(size: u64) -> usize {
    let groups = usize::try_from(size / GROUP).unwrap_or(usize::MAX);
    LEN + groups.saturating_mul(2).min(MAX_HINTS) * HINT
}

/// The last bytes of a stream, which may be its trailer.
///
/// A block of the stream begins with the [held](Self::held) bytes, and [`hold`](Self::hold) tells how
/// many of its bytes are data.
#[derive(Debug, Default)]
pub(crate) struct Holder(Vec<u8>);

impl Holder {
    /// The held bytes.
    pub(crate) fn held(&self) -> &[u8] {
        &self.0
    }

    /// Forgets the held bytes, which begin a block now.
    pub(crate) fn release(&mut self) {
        self.0.clear();
    }

    /// Number of bytes, in a block of `len` bytes from the offset `at` of the file on, that are data
    /// whatever follows the block.
    pub(crate) fn data(at: u64, len: usize) -> usize {
        len.saturating_sub(longest(at.saturating_add(len as u64)))
    }

    /// Number of bytes to read into a block of `size` bytes that begins at the offset `at`. Its data then
    /// ends at a multiple of [`ALIGN`], though the trailer may follow; a small block is filled up.
    pub(crate) fn fill(at: u64, size: usize) -> usize {
        let data = Self::data(at, size);
        let end = at.saturating_add(data as u64);
        let over = usize::try_from(end % ALIGN).unwrap_or(0);
        // At most a quarter of the data waits for the next block.
        if over > data / 4 {
            return size;
        }
        let end = end - end % ALIGN;
        data - over + longest(end.saturating_add(longest(end) as u64))
    }

    /// Holds the end of a block from the offset `at` on; returns the number of bytes before it, which are
    /// data.
    pub(crate) fn hold(&mut self, at: u64, block: &[u8]) -> usize {
        let data = Self::data(at, block.len());
        self.0.clear();
        self.0
            .extend_from_slice(block.get(data..).unwrap_or_default());
        data
    }

    /// The trailer of a stream that has ended, with the bytes before it that were held; `None` of one
    /// that was cut off, of which any held byte may be part of a trailer.
    pub(crate) fn end(&mut self) -> Option<(Trailer, Vec<u8>)> {
        let mut bytes = std::mem::take(&mut self.0);
        let (data, trailer) = Trailer::parse(&bytes)?;
        bytes.truncate(data);
        Some((trailer, bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Passes a stream from the offset `at` on through a holder, in pieces of these lengths; returns the data and the trailer.
    fn pass(at: u64, stream: &[u8], pieces: &[usize]) -> (Vec<u8>, Option<Trailer>) {
        let (mut holder, mut data) = (Holder::default(), Vec::new());
        let (mut rest, mut pieces) = (stream, pieces.iter().cycle());
        while !rest.is_empty() {
            let len = pieces
                .next()
                .map_or(rest.len(), |len| (*len).min(rest.len()));
            let (piece, behind) = rest.split_at(len);
            rest = behind;
            let block = [holder.held(), piece].concat();
            holder.release();
            let ready = holder.hold(at + data.len() as u64, &block);
            data.extend(&block[..ready]);
        }
        let trailer = holder.end().map(|(trailer, last)| {
            data.extend(last);
            trailer
        });
        (data, trailer)
    }

    /// Offsets around the ends of groups.
    fn offset() -> impl Strategy<Value = u64> {
        (0..1100_u64, 0..200_u64).prop_map(|(group, off)| (group * GROUP + off).saturating_sub(100))
    }

    /// A trailer with as many hints as the sender of a file of `size` bytes may tell, at most `hints`.
    fn told(size: u64, digest: Option<[u8; 32]>, hints: usize) -> Trailer {
        let most = (longest(size) - LEN) / HINT;
        let hints = (0..hints.min(most) as u64)
            .map(|n| {
                *blake3::hash(&n.to_be_bytes())
                    .as_bytes()
                    .first_chunk()
                    .unwrap()
            })
            .collect();
        Trailer {
            told: digest.map(|digest| Told::new(digest, hints)),
        }
    }

    proptest! {
        #[test]
        fn any_split_of_a_stream_gives_its_data_and_its_trailer(
            at in offset(),
            data in vec(any::<u8>(), 0..300),
            pieces in vec(1..12_000_usize, 0..20),
            digest in any::<Option<[u8; 32]>>(),
            hints in 0..=MAX_HINTS,
        ) {
            let trailer = told(at + data.len() as u64, digest, hints);
            let stream = [&data[..], &trailer.to_bytes()].concat();
            prop_assert_eq!(pass(at, &stream, &pieces), (data, Some(trailer)));
        }

        #[test]
        fn of_a_stream_that_is_cut_off_only_data_passes(
            at in offset(),
            data in vec(any::<u8>(), 0..300),
            pieces in vec(1..120_usize, 0..20),
            missing in 1..348_usize,
        ) {
            let trailer = told(at + data.len() as u64, Some([7; 32]), 10);
            let stream = [&data[..], &trailer.to_bytes()].concat();
            let cut = stream.len().saturating_sub(missing);
            let (passed, found) = pass(at, &stream[..cut], &pieces);
            prop_assert!(data.starts_with(&passed));
            prop_assert_eq!(found, None);
        }
    }

    #[test]
    fn the_data_of_full_blocks_ends_where_pages_do() {
        for size in [64 << 10, 100_000, 256 << 10, 1 << 20] {
            for mut at in [1234, 1500 * GROUP + 77] {
                for _ in 0..100 {
                    let full = Holder::fill(at, size);
                    let data = Holder::data(at, full);
                    assert!(data >= size / 4 * 3 - longest(at), "{at}");
                    at += data as u64;
                    assert_eq!(at % ALIGN, 0, "{size}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_block_has_room_behind_the_held_bytes(
            at in any::<u64>(),
            size in LEAST_BLOCK..=300_000,
        ) {
            let fill = Holder::fill(at, size);
            let held = longest(at);
            prop_assert!((held + 1..=size).contains(&fill));
            prop_assert!(Holder::data(at, fill) >= LEAST_BLOCK / 3);
        }
    }

    #[test]
    fn other_ends_are_no_trailers() {
        let good = told(8 * GROUP, Some([7; 32]), 3).to_bytes();
        assert_eq!(good.len(), LEN + 3 * HINT);
        assert_eq!(Trailer::parse(&good).map(|(data, _)| data), Some(0));
        let longer = [&[0], &good[..]].concat();
        assert_eq!(Trailer::parse(&longer).map(|(data, _)| data), Some(1));
        let begin = 3 * HINT;
        // The begin, the number of hints, the end.
        for at in [
            begin,
            begin + 7,
            begin + 40,
            begin + 46,
            begin + 48,
            begin + 55,
        ] {
            let mut bad = good.clone();
            bad[at] ^= 0x81;
            assert_eq!(Trailer::parse(&bad), None, "{at}");
        }
        assert_eq!(Trailer::parse(&good[..good.len() - 1]), None);
        assert_eq!(Trailer::parse(&good[1..]), None);
        assert_eq!(Trailer::parse(&[&good[..], &[0]].concat()), None);
        let mut nil = good;
        nil[begin..begin + 8].copy_from_slice(&UNKNOWN);
        assert_eq!(Trailer::parse(&nil), None);
    }

    #[test]
    fn a_trailer_follows_a_digest_in_mode_s_alone() {
        let tag = |extent| Some(Tag::new(1, extent));
        let (whole, head) = (tag(Extent::Whole), tag(Extent::Head));
        assert!(Trailer::follows(Mode::Stream, Type::Image, whole));
        for (mode, ty, tag) in [
            (Mode::Extended, Type::Image, whole),
            (Mode::Stream, Type::Ascii, whole),
            (Mode::Stream, Type::Image, head),
            (Mode::Stream, Type::Image, None),
        ] {
            assert!(!Trailer::follows(mode, ty, tag), "{mode:?} {ty:?} {tag:?}");
        }
    }
}

//! `Trailer`: the digest behind the data of a MODE S transfer, and the end of a stream held back
//! until it is known to be one.

use ftp_wire::command::{Mode, Tag, Type};
use ftp_wire::receipt::Extent;

/// Length of a trailer in bytes.
pub(crate) const LEN: usize = 48;

/// Length of a digest in bytes.
const DIGEST: usize = 32;

const KNOWN: [u8; 8] = *b"GFTP-dig";
const UNKNOWN: [u8; 8] = *b"GFTP-nil";
const END: [u8; 8] = *b"GFTP-end";

/// Unit of the offsets at which the data of full blocks ends: pages of the storage and blocks of its
/// holes.
const ALIGN: u64 = 4096;

/// The end of the data of a transfer in MODE S, with the digest of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// `None` where the sender does not know it.
    pub(crate) digest: Option<[u8; DIGEST]>,
}

impl Trailer {
    /// Says whether a trailer follows the data of a transfer; one with [`Extent::Head`] has none.
    pub(crate) fn follows(mode: Mode, ty: Type, tag: Option<Tag>) -> bool {
        let is_whole = tag.is_some_and(|tag| tag.extent == Extent::Whole);
        mode == Mode::Stream && ty == Type::Image && is_whole
    }

    pub(crate) fn to_bytes(self) -> [u8; LEN] {
        let begin = self.digest.map_or(UNKNOWN, |_| KNOWN);
        let digest = self.digest.unwrap_or_default();
        let mut bytes = [0; LEN];
        let all = begin.iter().chain(&digest).chain(&END);
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        bytes
    }

    /// Reads a whole trailer.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (begin, rest) = bytes.split_first_chunk()?;
        let (digest, end) = rest.split_first_chunk()?;
        let digest = match *begin {
            KNOWN => Some(*digest),
            UNKNOWN => None,
            _ => return None,
        };
        (end == END).then_some(Self { digest })
    }
}

/// The last bytes of a stream, which may be its trailer.
///
/// A block of the stream begins with the [held](Self::held) bytes, and [`hold`](Self::hold) tells how
/// many of its bytes are data.
#[derive(Debug)]
pub(crate) struct Holder {
    bytes: [u8; LEN],
    len: usize,
}

impl Holder {
    /// The holder of a stream that has not begun.
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; LEN],
            len: 0,
        }
    }

    /// The held bytes.
    pub(crate) fn held(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Forgets the held bytes, which begin a block now.
    pub(crate) fn release(&mut self) {
        self.len = 0;
    }

    /// Number of bytes in a block of `len` bytes that are data, whatever follows it.
    pub(crate) const fn data(len: usize) -> usize {
        len.saturating_sub(LEN)
    }

    /// Number of bytes to read into a block of `size` bytes that begins at `offset`. Its data then
    /// ends at a multiple of [`ALIGN`], though the trailer may follow; a small block is filled up.
    pub(crate) fn fill(offset: u64, size: usize) -> usize {
        let data = Self::data(size);
        let over = offset.saturating_add(data as u64) % ALIGN;
        let over = usize::try_from(over).unwrap_or(0);
        // At most a quarter of a block stays empty.
        if over <= data / 4 { size - over } else { size }
    }

    /// Holds the end of a block; returns the number of bytes before it, which are data.
    pub(crate) fn hold(&mut self, block: &[u8]) -> usize {
        let data = Self::data(block.len());
        let end = block.get(data..).unwrap_or_default();
        self.len = end.len();
        let to = self.bytes.iter_mut();
        to.zip(end).for_each(|(to, from)| *to = *from);
        data
    }

    /// The trailer of a stream that has ended; `None` of one that was cut off.
    pub(crate) fn trailer(&self) -> Option<Trailer> {
        Trailer::parse(self.held())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Passes a stream through a holder, in pieces of these lengths; returns the data and the trailer.
    fn pass(stream: &[u8], pieces: &[usize]) -> (Vec<u8>, Option<Trailer>) {
        let (mut holder, mut data) = (Holder::new(), Vec::new());
        let (mut rest, mut pieces) = (stream, pieces.iter().cycle());
        while !rest.is_empty() {
            let len = pieces
                .next()
                .map_or(rest.len(), |len| (*len).min(rest.len()));
            let (piece, behind) = rest.split_at(len);
            rest = behind;
            let block = [holder.held(), piece].concat();
            holder.release();
            let ready = holder.hold(&block);
            data.extend(&block[..ready]);
        }
        (data, holder.trailer())
    }

    proptest! {
        #[test]
        fn any_split_of_a_stream_gives_its_data_and_its_trailer(
            data in vec(any::<u8>(), 0..300),
            pieces in vec(1..120_usize, 0..20),
            digest in any::<Option<[u8; DIGEST]>>(),
        ) {
            let trailer = Trailer { digest };
            let stream = [&data[..], &trailer.to_bytes()].concat();
            prop_assert_eq!(pass(&stream, &pieces), (data, Some(trailer)));
        }

        #[test]
        fn of_a_stream_that_is_cut_off_only_data_passes(
            data in vec(any::<u8>(), 0..300),
            pieces in vec(1..120_usize, 0..20),
            missing in 1..348_usize,
        ) {
            let trailer = Trailer { digest: Some([7; DIGEST]) };
            let stream = [&data[..], &trailer.to_bytes()].concat();
            let cut = stream.len().saturating_sub(missing);
            let (passed, found) = pass(&stream[..cut], &pieces);
            prop_assert!(data.starts_with(&passed));
            prop_assert_eq!(found, None);
        }
    }

    #[test]
    fn the_data_of_full_blocks_ends_where_pages_do() {
        for size in [64 << 10, 100_000, 256 << 10, 1 << 20] {
            let mut at = 1234;
            for _ in 0..100 {
                let data = Holder::data(Holder::fill(at, size));
                assert!(data >= size / 4 * 3 - LEN, "{at}");
                at += data as u64;
                assert_eq!(at % ALIGN, 0, "{size}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_block_of_any_size_has_room_behind_the_held_bytes(
            at in any::<u64>(),
            size in LEN + 1..=20_000,
        ) {
            let fill = Holder::fill(at, size);
            prop_assert!((LEN + 1..=size).contains(&fill));
        }
    }

    #[test]
    fn other_ends_are_no_trailers() {
        let good = Trailer {
            digest: Some([7; DIGEST]),
        };
        let good = good.to_bytes();
        for at in [0, 7, 40, 47] {
            let mut bad = good;
            bad[at] ^= 1;
            assert_eq!(Trailer::parse(&bad), None, "{at}");
        }
        assert_eq!(Trailer::parse(&good[..LEN - 1]), None);
        assert_eq!(Trailer::parse(&[&good[..], &[0]].concat()), None);
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

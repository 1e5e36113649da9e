//! `Record` and `Unpacker`: small files, one behind the other, in the data of one transfer.
//!
//! `ERET files=` and `ESTO files=`, ours, move many small files with one command. Their data is one
//! record a file, in the order of the command: `flags` (1 byte), the length of the name (2), the
//! number of bytes of the file (4), its modification time (seconds 8, nanoseconds 4), its permission bits
//! (4), and the name.
//! Unless a flag says that the file is left out, a check (32) and its bytes follow: the check is the
//! BLAKE3 digest of all that stands before it in the record, and of the BLAKE3 digest of the bytes
//! behind that. Numbers have their most significant byte first.

use bytes::{Buf as _, Bytes, BytesMut};
use digest_tree::Hash;
use ftp_wire::stored::LONGEST_NAME;
pub use ftp_wire::stored::MOST_FILES;
use gridftp_dsi::{Error, ErrorKind, Source};

/// Most bytes of a file that goes into a record.
pub const MOST_BYTES: usize = 64 << 10;

/// The modification time is that of the file.
const HAS_TIME: u8 = 1;
/// The file replaces nothing.
const IS_NEW: u8 = 2;
/// The file has to be moved by a command of its own.
const IS_LEFT_OUT: u8 = 4;
/// The permission bits are those of the file.
const HAS_MODE: u8 = 8;

/// Bytes of a record before its name.
const HEAD: usize = 23;

/// Bytes of a check.
const CHECK: usize = blake3::OUT_LEN;

/// One small file of a transfer of many.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "a record has these parts and no others"
)]
pub struct Record {
    /// Its name, without its directory.
    pub name: Bytes,
    /// Its modification time, if the receiver is to set one: seconds since 1970 and nanoseconds.
    pub modified: Option<(i64, u32)>,
    /// Its permission bits, the lowest nine, if the receiver is to set them.
    pub mode: Option<u32>,
    /// Whether it must replace nothing.
    pub is_new: bool,
    /// Its bytes, at most [`MOST_BYTES`]; `None` if it is left out, to be moved by a command of its own.
    pub content: Option<Bytes>,
}

/// A record that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// The record.
    pub record: Record,
    check: Hash,
}

/// The reason why data is no sequence of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadRecord(&'static str);

impl std::fmt::Display for BadRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a record of a small file {}", self.0)
    }
}

impl std::error::Error for BadRecord {}

/// Reads all bytes of an open file; `None` of one with more than [`MOST_BYTES`].
///
/// # Errors
/// Those of reading, and [`ErrorKind::Changed`] for a file that changes meanwhile.
pub async fn read<S: Source>(source: &S) -> Result<Option<Bytes>, Error> {
    let size = usize::try_from(source.size()).ok();
    let Some(size) = size.filter(|size| *size <= MOST_BYTES) else {
        return Ok(None);
    };
    let mut bytes = BytesMut::with_capacity(size);
    while bytes.len() < size {
        let at = bytes.len();
        bytes = source.read_at(at as u64, bytes).await?;
        if bytes.len() == at {
            return Err(Error::new(ErrorKind::Changed, "read"));
        }
    }
    source.unchanged().await?;
    bytes.truncate(size);
    Ok(Some(bytes.freeze()))
}

impl Record {
    /// A record of the file `name` of a retrieval, which is left out without `content`.
    pub fn new(name: impl Into<Bytes>, content: Option<Bytes>) -> Self {
        Self {
            name: name.into(),
            modified: None,
            mode: None,
            is_new: false,
            content,
        }
    }

    /// Appends the record to the data of a transfer, and gives the BLAKE3 digest of the file's bytes. A
    /// name of more than 1,024 bytes and more bytes than [`MOST_BYTES`] are the caller's fault: no
    /// receiver takes them.
    pub fn write(&self, into: &mut BytesMut) -> Hash {
        let bytes = self.content.as_deref().unwrap_or_default();
        debug_assert!(self.name.len() <= LONGEST_NAME && bytes.len() <= MOST_BYTES);
        let digest = blake3::hash(bytes);
        into.extend_from_slice(&self.head());
        into.extend_from_slice(&self.name);
        if self.content.is_some() {
            into.extend_from_slice(self.check(&digest).as_bytes());
            into.extend_from_slice(bytes);
        }
        digest
    }

    fn head(&self) -> [u8; HEAD] {
        let flags = u8::from(self.modified.is_some()) * HAS_TIME
            + u8::from(self.is_new) * IS_NEW
            + u8::from(self.content.is_none()) * IS_LEFT_OUT
            + u8::from(self.mode.is_some()) * HAS_MODE;
        let name = u16::try_from(self.name.len()).unwrap_or(u16::MAX);
        let bytes = self.content.as_ref().map_or(0, Bytes::len);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let (seconds, nanos) = self.modified.unwrap_or_default();
        let mut head = [0; HEAD];
        let parts = [
            &[flags][..],
            &name.to_be_bytes(),
            &bytes.to_be_bytes(),
            &seconds.to_be_bytes(),
            &nanos.to_be_bytes(),
            &self.mode.unwrap_or_default().to_be_bytes(),
        ];
        let all = parts.into_iter().flatten();
        head.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        head
    }

    fn check(&self, digest: &Hash) -> Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.head());
        hasher.update(&self.name);
        hasher.update(digest.as_bytes());
        hasher.finalize()
    }
}

impl Arrived {
    /// The BLAKE3 digest of the file's bytes.
    ///
    /// # Errors
    /// The check of the sender and that of the record, where they differ: a byte of the record is
    /// another than was sent.
    pub fn prove(&self) -> Result<Hash, [Hash; 2]> {
        let digest = blake3::hash(self.record.content.as_deref().unwrap_or_default());
        match self.record.check(&digest) {
            here if here == self.check => Ok(digest),
            here => Err([self.check, here]),
        }
    }
}

/// Reads the records of a transfer, from pieces of any size.
#[derive(Debug, Default)]
pub struct Unpacker {
    /// Data without its record: at most one more than a piece of data brought.
    rest: BytesMut,
}

impl Unpacker {
    /// Takes the next bytes of the data.
    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next record; `None` until more data is there.
    ///
    /// # Errors
    /// Data that is no record, or of a file that is too large for one.
    pub fn take(&mut self) -> Result<Option<Arrived>, BadRecord> {
        let Some(mut head) = self.rest.get(..HEAD) else {
            return Ok(None);
        };
        let flags = head.get_u8();
        let name = usize::from(head.get_u16());
        let bytes = usize::try_from(head.get_u32()).unwrap_or(usize::MAX);
        let time = (head.get_i64(), head.get_u32());
        let mode = head.get_u32();
        if flags & !(HAS_TIME | IS_NEW | IS_LEFT_OUT | HAS_MODE) != 0 {
            return Err(BadRecord("has flags that are not known"));
        }
        if name == 0 || name > LONGEST_NAME {
            return Err(BadRecord("has no name, or one of more than 1,024 bytes"));
        }
        if bytes > MOST_BYTES {
            return Err(BadRecord("is of more than 64 KiB"));
        }
        let has_time = flags & HAS_TIME != 0;
        if time.1 >= 1_000_000_000 || (!has_time && time != (0, 0)) {
            return Err(BadRecord("has a time that is none"));
        }
        let has_mode = flags & HAS_MODE != 0;
        if mode > 0o777 || (!has_mode && mode != 0) {
            return Err(BadRecord("has permission bits that are none"));
        }
        let is_left_out = flags & IS_LEFT_OUT != 0;
        let behind = match (is_left_out, bytes) {
            (false, bytes) => CHECK + bytes,
            (true, 0) => 0,
            (true, _) => return Err(BadRecord("has bytes, and is left out")),
        };
        if self.rest.len() < HEAD + name + behind {
            return Ok(None);
        }
        self.rest.advance(HEAD);
        let name = self.rest.split_to(name).freeze();
        let mut check = [0; CHECK];
        let content = (!is_left_out).then(|| {
            self.rest.copy_to_slice(&mut check);
            self.rest.split_to(bytes).freeze()
        });
        let record = Record {
            name,
            modified: has_time.then_some(time),
            mode: has_mode.then_some(mode),
            is_new: flags & IS_NEW != 0,
            content,
        };
        Ok(Some(Arrived {
            record,
            check: check.into(),
        }))
    }

    /// Whether all data belongs to records that were taken.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record() -> impl Strategy<Value = Record> {
        let bytes = prop::collection::vec(any::<u8>(), 0..3000);
        let content = prop::option::of(bytes.prop_map(Bytes::from));
        let name = prop::collection::vec(any::<u8>(), 1..40);
        let time = prop::option::of((any::<i64>(), 0..1_000_000_000_u32));
        let mode = prop::option::of(0..0o1000_u32);
        let all = (name, time, mode, any::<bool>(), content);
        all.prop_map(|(name, modified, mode, is_new, content)| Record {
            modified,
            mode,
            is_new,
            ..Record::new(name, content)
        })
    }

    /// All records of the data; `None` of data that is no sequence of them.
    fn unpack(wire: &[u8], piece: usize) -> Option<Vec<Arrived>> {
        let (mut unpacker, mut taken) = (Unpacker::default(), Vec::new());
        for piece in wire.chunks(piece) {
            unpacker.push(piece);
            while let Some(record) = unpacker.take().ok()? {
                taken.push(record);
            }
        }
        unpacker.is_empty().then_some(taken)
    }

    proptest! {
        #[test]
        fn records_arrive_as_they_were_sent_in_pieces_of_any_size(
            records in prop::collection::vec(record(), 0..20),
            piece in 1..5000_usize,
        ) {
            let mut wire = BytesMut::new();
            let digests: Vec<_> = records.iter().map(|record| record.write(&mut wire)).collect();
            let taken = unpack(&wire, piece).unwrap();
            for (arrived, digest) in taken.iter().zip(digests) {
                prop_assert!(arrived.record.content.is_none() || arrived.prove() == Ok(digest));
            }
            let taken: Vec<_> = taken.into_iter().map(|arrived| arrived.record).collect();
            prop_assert_eq!(taken, records);
        }

        #[test]
        fn any_bytes_are_records_or_refused(wire in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut unpacker = Unpacker::default();
            unpacker.push(&wire);
            while let Ok(Some(Arrived { record, .. })) = unpacker.take() {
                prop_assert!(!record.name.is_empty() && record.name.len() <= LONGEST_NAME);
            }
        }

        #[test]
        fn no_changed_bit_is_taken_for_a_record_that_was_sent(
            record in record(),
            at in any::<prop::sample::Index>(),
            bit in 0..8_u8,
        ) {
            prop_assume!(record.content.is_some());
            let mut wire = BytesMut::new();
            record.write(&mut wire);
            let at = at.index(wire.len());
            wire[at] ^= 1 << bit;
            let taken = unpack(&wire, usize::MAX).unwrap_or_default();
            for arrived in taken {
                prop_assert!(arrived.record.content.is_none() || arrived.prove().is_err());
            }
        }
    }

    #[test]
    fn a_record_that_would_take_more_memory_is_refused_at_its_head() {
        let head = |flags: u8, name: u16, bytes: u32, nanos: u32, mode: u32| {
            let mut unpacker = Unpacker::default();
            unpacker.push(&[flags]);
            unpacker.push(&name.to_be_bytes());
            unpacker.push(&bytes.to_be_bytes());
            unpacker.push(&0_i64.to_be_bytes());
            unpacker.push(&nanos.to_be_bytes());
            unpacker.push(&mode.to_be_bytes());
            unpacker.take()
        };
        let all = HAS_TIME | HAS_MODE;
        assert_eq!(head(all, 1024, 65_536, 999_999_999, 0o777), Ok(None));
        for (flags, name, bytes, nanos, mode) in [
            (16, 1, 0, 0, 0),
            (0, 0, 0, 0, 0),
            (0, 1025, 0, 0, 0),
            (0, 1, 65_537, 0, 0),
            (IS_LEFT_OUT, 1, 1, 0, 0),
            (HAS_TIME, 1, 0, 1_000_000_000, 0),
            (0, 1, 0, 1, 0),
            (HAS_MODE, 1, 0, 0, 0o1000),
            (0, 1, 0, 0, 1),
        ] {
            assert!(head(flags, name, bytes, nanos, mode).is_err());
        }
    }
}

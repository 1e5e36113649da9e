//! The hidden names beside a file during its upload, derived from its name.

use sha2::{Digest, Sha256};

/// Suffix of the partial file.
const PART: &str = ".gridftp-part";
/// Suffix of the record of its ranges.
const HELD: &str = ".gridftp-held";
/// Suffix of the next record before it replaces the last one.
const NEXT: &str = ".gridftp-next";

/// Suffix of the values of its groups.
const SUMS: &str = ".gridftp-sums";

/// Suffix of the record of its ranges on the medium.
const SYNC: &str = ".gridftp-sync";
/// Suffix of the next such record before it replaces the last one.
const SYNC_NEXT: &str = ".gridftp-snew";

/// Suffixes of the records of a partial file, that of its ranges first.
const RECORDS: [&str; 5] = [HELD, NEXT, SUMS, SYNC, SYNC_NEXT];

/// The directory with the index of partial files, at the top of a served tree.
pub(crate) const INDEX: &[u8] = b".gridftp-index";

/// Longest name of a directory entry, in bytes.
const LONGEST: usize = 255;

/// The hidden names that belong to one final name.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) partial: Vec<u8>,
    pub(crate) held: Vec<u8>,
    pub(crate) next: Vec<u8>,
    pub(crate) sums: Vec<u8>,
    pub(crate) sync: Vec<u8>,
    pub(crate) sync_next: Vec<u8>,
}

impl Names {
    /// Derives the names for `name`, the same in every process.
    pub(crate) fn of(name: &[u8]) -> Self {
        let stem = stem(name, 0);
        Self {
            partial: hidden(&stem, PART),
            held: hidden(&stem, HELD),
            next: hidden(&stem, NEXT),
            sums: hidden(&stem, SUMS),
            sync: hidden(&stem, SYNC),
            sync_next: hidden(&stem, SYNC_NEXT),
        }
    }

    /// The names of the records of the partial file, that of its ranges first.
    pub(crate) fn records(&self) -> [Vec<u8>; RECORDS.len()] {
        records_of(&self.partial)
    }

    /// A name for a partial file that is never continued.
    pub(crate) fn once(name: &[u8], number: u64) -> Vec<u8> {
        let mark = format!(".{number:016x}");
        let mut stem = stem(name, mark.len());
        stem.extend_from_slice(mark.as_bytes());
        hidden(&stem, PART)
    }
}

/// `name`, or if it is too long, its beginning and a digest of the whole.
fn stem(name: &[u8], reserve: usize) -> Vec<u8> {
    let room = LONGEST - 1 - PART.len() - reserve;
    if name.len() <= room {
        return name.to_vec();
    }
    let digest = Sha256::digest(name);
    let mut stem = name.iter().copied().take(room - 33).collect::<Vec<u8>>();
    stem.push(b'~');
    for byte in digest.iter().take(16) {
        stem.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
    stem
}

fn hidden(stem: &[u8], suffix: &str) -> Vec<u8> {
    [b".", stem, suffix.as_bytes()].concat()
}

/// Whether `name` has the form reserved for uploads in progress: never listed, never served.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name == INDEX
        || name.first() == Some(&b'.')
            && RECORDS
                .iter()
                .chain([&PART])
                .any(|suffix| name.ends_with(suffix.as_bytes()))
}

/// Whether `name` is that of a partial file.
pub(crate) fn is_partial(name: &[u8]) -> bool {
    name.first() == Some(&b'.') && name.ends_with(PART.as_bytes())
}

/// The final name of the partial file `partial`; of a long name its beginning and a digest.
pub(crate) fn target_of(partial: &[u8]) -> &[u8] {
    let stem = partial.strip_suffix(PART.as_bytes()).unwrap_or(partial);
    stem.strip_prefix(b".").unwrap_or(stem)
}

/// The names of the records of the partial file `partial`.
pub(crate) fn records_of(partial: &[u8]) -> [Vec<u8>; RECORDS.len()] {
    let stem = partial.strip_suffix(PART.as_bytes()).unwrap_or(partial);
    RECORDS.map(|end| [stem, end.as_bytes()].concat())
}

/// The name of the partial file of the record `name`.
pub(crate) fn partial_of(name: &[u8]) -> Vec<u8> {
    let stem = RECORDS
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix.as_bytes()))
        .unwrap_or(name);
    [stem, PART.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hidden_bounded_and_reproducible() {
        for name in [
            b"a".to_vec(),
            vec![b'x'; 200],
            vec![b'x'; 241],
            vec![b'x'; 242],
            vec![b'x'; 255],
        ] {
            let names = Names::of(&name);
            for hidden in [
                &names.partial,
                &names.held,
                &names.next,
                &names.sums,
                &names.sync,
                &names.sync_next,
                &Names::once(&name, u64::MAX),
            ] {
                assert!(hidden.len() <= LONGEST, "{}", hidden.len());
                assert!(is_reserved(hidden));
            }
            assert_eq!(names.partial, Names::of(&name).partial);
            assert_eq!(
                records_of(&names.partial),
                [
                    names.held,
                    names.next,
                    names.sums,
                    names.sync,
                    names.sync_next
                ]
            );
        }
        assert_eq!(Names::of(b"file").partial, b".file.gridftp-part");
        assert!(is_partial(b".file.gridftp-part") && !is_partial(b".file.gridftp-held"));
        assert!(!is_reserved(b"file.gridftp-part"));
    }

    #[test]
    fn long_names_that_begin_alike_differ() {
        let (mut a, mut b) = (vec![b'x'; 255], vec![b'x'; 255]);
        a[254] = b'a';
        b[254] = b'b';
        assert_ne!(Names::of(&a).partial, Names::of(&b).partial);
    }
}

//! `Rest`: the lines of a listing that wait in a file without a name until there is room for them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{
    BufRead as _, BufReader, BufWriter, Error, ErrorKind, Read as _, Seek as _, Write as _,
};
use std::sync::Arc;

use super::job::Above;

/// Bytes read or written at once.
const PIECE: usize = 64 * 1024;

/// Names that are compared at once.
const COMPARED: u64 = 1 << 16;
/// Names that may come again in one listing.
const MOST_AGAIN: usize = 1 << 16;

/// The lines of a listing that still comes.
#[derive(Debug)]
pub(super) struct Keeping {
    lines: BufWriter<File>,
    /// The hashes of the name and of the object of each line.
    hashes: BufWriter<File>,
    count: u64,
}

impl Keeping {
    pub(super) fn new() -> std::io::Result<Self> {
        let file = || Ok::<_, Error>(BufWriter::with_capacity(PIECE, tempfile::tempfile()?));
        Ok(Self {
            lines: file()?,
            hashes: file()?,
            count: 0,
        })
    }

    /// Adds a line, given without its end, with the hashes of its name and, where that is known, of the
    /// object that it names.
    pub(super) fn add(
        &mut self,
        line: &[u8],
        name: u64,
        object: Option<u64>,
    ) -> std::io::Result<()> {
        // Objects of which nothing is known are each another one.
        let object = object.unwrap_or(self.count);
        self.count += 1;
        self.hashes.write_all(&name.to_le_bytes())?;
        self.hashes.write_all(&object.to_le_bytes())?;
        self.lines.write_all(line)?;
        self.lines.write_all(b"\n")
    }

    /// Ends the listing of a directory; `above` is the chain for what is in it.
    pub(super) fn end(self, above: Option<Arc<Above>>) -> std::io::Result<Rest> {
        let again = again(&mut read(self.hashes)?, self.count.div_ceil(COMPARED))?;
        Ok(Rest {
            lines: read(self.lines)?,
            again,
            at: 0,
            above,
        })
    }
}

/// Reads a file that was written, from its start.
fn read(written: BufWriter<File>) -> std::io::Result<BufReader<File>> {
    let mut file = written.into_inner().map_err(|error| error.into_error())?;
    file.rewind()?;
    Ok(BufReader::with_capacity(PIECE, file))
}

/// Finds the lines whose names came before, in their order: the number of each, and whether it names the
/// same object. So that memory does not grow with the listing, only a share of the names is compared in
/// each of the `passes`.
fn again(hashes: &mut BufReader<File>, passes: u64) -> std::io::Result<VecDeque<(u64, bool)>> {
    let mut found = Vec::new();
    for pass in 0..passes {
        hashes.rewind()?;
        let mut objects = HashMap::new();
        let (mut name, mut object) = ([0; 8], [0; 8]);
        for at in 0.. {
            match hashes.read_exact(&mut name) {
                Ok(()) => hashes.read_exact(&mut object)?,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            if u64::from_le_bytes(name) % passes != pass {
                continue;
            }
            match objects.entry(name) {
                Entry::Vacant(first) => drop(first.insert(object)),
                Entry::Occupied(first) => found.push((at, *first.get() == object)),
            }
            if found.len() > MOST_AGAIN {
                return Err(Error::other("the listing names too many of them again"));
            }
        }
    }
    found.sort_unstable();
    Ok(found.into())
}

/// The lines of a listing that are not taken yet.
#[derive(Debug)]
pub(crate) struct Rest {
    lines: BufReader<File>,
    /// Lines whose names came before, and whether for the same object.
    again: VecDeque<(u64, bool)>,
    /// Lines read so far.
    at: u64,
    pub(super) above: Option<Arc<Above>>,
}

/// A line of a listing.
#[derive(Debug)]
pub(super) enum Line {
    /// One whose name did not come before.
    First(Vec<u8>),
    /// One whose name another object had before.
    Twin(Vec<u8>),
}

impl Rest {
    /// Takes at most `most` lines, without those that name an object again; none is the end.
    pub(super) fn next(&mut self, most: usize) -> std::io::Result<Vec<Line>> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let mut line = Vec::new();
            if self.lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            line.pop();
            let next = self.again.front().copied();
            let again = next.filter(|(at, _)| *at == self.at);
            self.again.drain(..usize::from(again.is_some()));
            self.at += 1;
            match again {
                None => taken.push(Line::First(line)),
                Some((_, false)) => taken.push(Line::Twin(line)),
                Some((_, true)) => {}
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_come_again_are_found_in_any_number_of_passes() {
        for passes in [1, 2, 7] {
            let mut keeping = Keeping::new().unwrap();
            for (name, object) in [
                (3, Some(1)),
                (4, None),
                (3, Some(1)),
                (4, None),
                (3, Some(2)),
            ] {
                keeping.add(b"line", name, object).unwrap();
            }
            let found = again(&mut read(keeping.hashes).unwrap(), passes).unwrap();
            assert_eq!(found, [(2, true), (3, false), (4, false)], "{passes}");
        }
    }
}

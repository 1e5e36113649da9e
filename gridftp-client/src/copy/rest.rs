//! `Rest`: the lines of a listing that wait in a file without a name until there is room for them.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::sync::Arc;

use super::job::Above;

/// Bytes read or written at once.
const PIECE: usize = 64 * 1024;

/// The lines of a listing that still comes.
#[derive(Debug)]
pub(super) struct Keeping(BufWriter<File>);

impl Keeping {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self(BufWriter::with_capacity(PIECE, tempfile::tempfile()?)))
    }

    /// Adds a line, given without its end.
    pub(super) fn add(&mut self, line: &[u8]) -> std::io::Result<()> {
        self.0.write_all(line)?;
        self.0.write_all(b"\n")
    }

    /// Ends the listing of a directory; `above` is the chain for what is in it.
    pub(super) fn end(self, above: Option<Arc<Above>>) -> std::io::Result<Rest> {
        let mut file = self.0.into_inner().map_err(|error| error.into_error())?;
        file.rewind()?;
        Ok(Rest {
            lines: BufReader::with_capacity(PIECE, file),
            above,
        })
    }
}

/// The lines of a listing that are not taken yet.
#[derive(Debug)]
pub(crate) struct Rest {
    lines: BufReader<File>,
    pub(super) above: Option<Arc<Above>>,
}

impl Rest {
    /// Takes at most `most` lines; none is the end.
    pub(super) fn next(&mut self, most: usize) -> std::io::Result<Vec<Vec<u8>>> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let mut line = Vec::new();
            if self.lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            line.pop();
            taken.push(line);
        }
        Ok(taken)
    }
}

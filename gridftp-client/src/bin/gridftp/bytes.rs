//! `gridftp cat` and `head`: bytes of files on standard output.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use clap::ValueHint;
use gridftp_client::error::TransferError;
use gridftp_client::file::ReadOptions;
use gridftp_client::program::values::size;

use crate::end::{End, data_error, local_error};
use crate::work::{Common, Place, Work};

/// Bytes of a local file that are read at once.
const PIECE: usize = 256 * 1024;

/// The options of `gridftp cat`.
#[derive(Debug, clap::Args)]
pub(crate) struct CatArgs {
    /// Files
    #[arg(value_name = "PLACE", required = true, value_hint = ValueHint::AnyPath)]
    places: Vec<OsString>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// The options of `gridftp head`.
#[derive(Debug, clap::Args)]
pub(crate) struct HeadArgs {
    /// Files
    #[arg(value_name = "PLACE", required = true, value_hint = ValueHint::AnyPath)]
    places: Vec<OsString>,

    /// Lines to write [default: 10]
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "bytes")]
    lines: Option<u64>,

    /// Bytes to write instead; K, M and G are accepted
    #[arg(short = 'c', long, value_name = "N", value_parser = size)]
    bytes: Option<u64>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// The part of a file that is written.
#[derive(Debug, Clone, Copy)]
enum Part {
    All,
    Bytes(u64),
    Lines(u64),
}

/// Writes files.
pub(crate) async fn cat(args: &CatArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    write(&args.places, Part::All, work).await
}

/// Writes the beginnings of files.
pub(crate) async fn head(args: &HeadArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let part = match args.bytes {
        Some(bytes) => Part::Bytes(bytes),
        None => Part::Lines(args.lines.unwrap_or(10)),
    };
    write(&args.places, part, work).await
}

async fn write(texts: &[OsString], part: Part, work: &mut Work<'_>) -> anyhow::Result<()> {
    anyhow::ensure!(
        !work.report.is_json(),
        "usage: --json: cat and head write the bytes of files, and no objects; leave it out, in the \
         settings too"
    );
    let mut places = Vec::new();
    for text in texts {
        places.push(work.place(text)?);
    }
    let mut closed = false;
    work.each(places, async |work, place| {
        if closed {
            return Ok(());
        }
        closed = !copy(work.at(place).await, place, part).await?;
        Ok(())
    })
    .await;
    Ok(())
}

/// Writes a part of a file; says whether standard output takes more.
async fn copy(end: &mut End, place: &Place, part: Part) -> Result<bool, TransferError> {
    let mut wanted = Wanted { part };
    if let Part::Bytes(0) | Part::Lines(0) = part {
        return Ok(true);
    }
    if let End::Local = end {
        let failed = |error| local_error("read", &place.path, error);
        let mut file = File::open(OsStr::from_bytes(&place.path)).map_err(failed)?;
        let mut piece = vec![0; PIECE];
        loop {
            let n = file.read(&mut piece).map_err(failed)?;
            match wanted.write(piece.get(..n).unwrap_or_default())? {
                More::Yes => {}
                More::No => return Ok(true),
                More::Never => return Ok(false),
            }
        }
    }
    let mut options = ReadOptions::default();
    // Of a server without it, the rest of the file is not read.
    if let (Part::Bytes(bytes), true) = (part, end.client().await?.abilities().eret) {
        options.length = Some(bytes);
    }
    let mut reader = end.reader(&place.path, options).await?;
    let more = loop {
        let piece = match reader.piece().await {
            Ok(piece) => piece,
            Err(error) => {
                end.keep(reader.stop().await);
                return Err(data_error(&place.path, error));
            }
        };
        match wanted.write(&piece) {
            Ok(More::Yes) => {}
            done => break done,
        }
    };
    end.keep(reader.stop().await);
    more.map(|more| !matches!(more, More::Never))
}

/// The rest of the part.
struct Wanted {
    part: Part,
}

/// Whether more bytes are wanted: of this file, or of any.
enum More {
    Yes,
    No,
    Never,
}

impl Wanted {
    /// Writes as much of a piece as is wanted; an empty one is the end of the file.
    fn write(&mut self, piece: &[u8]) -> Result<More, TransferError> {
        let (piece, mut more) = self.cut(piece);
        let mut out = io::stdout().lock();
        match out.write_all(piece).and_then(|()| out.flush()) {
            Ok(()) => {}
            // A reader that has gone away wants no more.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => more = More::Never,
            Err(error) => return Err(local_error("write", b"standard output", error)),
        }
        Ok(more)
    }

    fn cut<'a>(&mut self, piece: &'a [u8]) -> (&'a [u8], More) {
        if piece.is_empty() {
            return (piece, More::No);
        }
        let end = match &mut self.part {
            Part::All => None,
            Part::Bytes(left) => {
                let most = usize::try_from(*left).unwrap_or(usize::MAX);
                *left = left.saturating_sub(piece.len() as u64);
                (most <= piece.len()).then_some(most)
            }
            Part::Lines(left) => {
                let mut ends = piece.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
                let mut end = None;
                while *left > 0 {
                    let Some((at, _)) = ends.next() else { break };
                    *left -= 1;
                    end = Some(at + 1);
                }
                end.filter(|_| *left == 0)
            }
        };
        match end {
            Some(end) => (piece.get(..end).unwrap_or(piece), More::No),
            None => (piece, More::Yes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_in_the_middle_of_a_piece() {
        let cut = |part, pieces: &[&str]| {
            let mut wanted = Wanted { part };
            let mut all = Vec::new();
            for piece in pieces {
                let (taken, more) = wanted.cut(piece.as_bytes());
                all.extend_from_slice(taken);
                if !matches!(more, More::Yes) {
                    break;
                }
            }
            String::from_utf8(all).unwrap()
        };
        assert_eq!(cut(Part::All, &["ab", "cd"]), "abcd");
        assert_eq!(cut(Part::Bytes(3), &["ab", "cd"]), "abc");
        assert_eq!(cut(Part::Bytes(2), &["ab", "cd"]), "ab");
        assert_eq!(cut(Part::Lines(2), &["a\n", "b", "c\nd\n"]), "a\nbc\n");
        assert_eq!(cut(Part::Lines(9), &["a\n", "b"]), "a\nb");
    }
}

//! Lines: segmentation changes no line, error or Telnet answer, and lines stay within the limit.

use ftp_wire::error::BadLine;
use ftp_wire::line::LineSplitter;

type Seen = (Vec<Result<Vec<u8>, BadLine>>, Vec<u8>);

fn split(limit: usize, pieces: &[&[u8]]) -> Seen {
    let mut splitter = LineSplitter::with_limit(limit);
    let (mut lines, mut answers) = (Vec::new(), Vec::new());
    for piece in pieces {
        splitter.push(piece);
        while let Some(line) = splitter.next_line() {
            lines.push(line.map(<[u8]>::to_vec));
        }
        answers.extend(splitter.take_answers());
    }
    (lines, answers)
}

/// The first byte is the limit, the second the position of the cut.
pub(crate) fn check(data: &[u8]) {
    let [limit, cut, wire @ ..] = data else {
        return;
    };
    let limit = usize::from(*limit);
    // Telnet refusals are bounded between two reads, so only short input gets all of them.
    let wire = &wire[..wire.len().min(380)];
    let whole = split(limit, &[wire]);
    let (head, tail) = wire.split_at(usize::from(*cut).min(wire.len()));
    assert_eq!(split(limit, &[head, tail]), whole);
    assert_eq!(split(limit, &wire.chunks(1).collect::<Vec<_>>()), whole);
    for line in whole.0.iter().flatten() {
        assert!(line.len() <= limit);
        assert!(!line.iter().any(|b| matches!(b, 0 | b'\r' | b'\n')));
    }
}

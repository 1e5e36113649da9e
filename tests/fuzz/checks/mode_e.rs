//! MODE E: segmentation of the headers does not change the steps, and their counts are correct.

use mode_e::{BadBlock, Deframer, Gather, HEADER_LEN, Limits, Step};

const LIMITS: Limits = Limits::DEFAULT
    .with_max_connections(16)
    .with_max_empty(4)
    .with_max_ranges(8);

/// Feeds headers without payload, which is reported as moved `bite` bytes at a time.
fn steps(pieces: &[&[u8]], bite: u64) -> (Vec<Step>, Option<BadBlock>) {
    let mut deframer = Deframer::new(LIMITS);
    let mut seen = Vec::new();
    for mut piece in pieces.iter().copied() {
        loop {
            match deframer.poll() {
                Err(bad) => {
                    assert_eq!(deframer.at_end(), Err(bad));
                    return (seen, Some(bad));
                }
                Ok(Step::Header { need }) => {
                    assert!((1..=HEADER_LEN).contains(&need));
                    if piece.is_empty() {
                        break;
                    }
                    piece = &piece[deframer.feed(piece)..];
                }
                Ok(Step::Payload { offset, len }) => {
                    assert!(offset.checked_add(len).is_some());
                    if len <= 8 * bite {
                        deframer.moved(len.min(bite));
                    } else {
                        deframer.moved(len);
                    }
                    if !matches!(seen.last(), Some(Step::Payload { offset: at, len: l }) if at + l == offset + len)
                    {
                        seen.push(Step::Payload { offset, len });
                    }
                }
                Ok(step @ (Step::Eod { .. } | Step::Retired)) => {
                    seen.push(step);
                    assert!(deframer.at_end().is_ok());
                    deframer.next_transfer();
                }
                Ok(step) => seen.push(step),
            }
        }
    }
    (seen, None)
}

/// The first byte is the position of the cut.
pub(crate) fn check(data: &[u8]) {
    let [cut, wire @ ..] = data else { return };
    let (head, tail) = wire.split_at(usize::from(*cut).min(wire.len()));
    let (seen, bad) = steps(&[wire], u64::MAX / 8);
    assert_eq!(steps(&[head, tail], u64::MAX / 8), (seen.clone(), bad));
    assert_eq!(
        steps(&wire.chunks(1).collect::<Vec<_>>(), u64::MAX / 8),
        (seen.clone(), bad)
    );
    let tiny = steps(&[wire], 2);
    assert_eq!(tiny.1, bad);
    gather(&seen);
}

fn gather(steps: &[Step]) {
    let mut gather = Gather::new(LIMITS);
    let mut marks = 0;
    for step in steps {
        let result = match *step {
            Step::Payload { offset, len } => gather.record(offset, len),
            Step::Eof { connections } => gather.opened().and_then(|()| gather.eof(connections)),
            Step::Eod { .. } => {
                marks += 1;
                gather.begun().and_then(|()| gather.eod())
            }
            _ => gather.closed(),
        };
        if result.is_err() {
            return;
        }
        assert_eq!(gather.eods(), marks);
        assert_eq!(
            gather.is_complete(),
            gather.expected() == Some(u64::from(marks))
        );
        assert!(gather.received().len() <= 8 && gather.open() <= 16);
    }
    assert_eq!(gather.take_new(), *gather.received());
}

//! HTTP bodies: segmentation changes neither payload nor end, and decoding terminates.

use xio_http::BadBody;
use xio_http::body::{Decoder, Next};
use xio_http::parse::Framing;

/// The payload, and the end of the body or the error; nothing if the body continues.
type Seen = (Vec<u8>, Option<Result<usize, BadBody>>);

fn decode(framing: Framing, wire: &[u8], step: usize) -> Seen {
    let mut decoder = Decoder::new(framing);
    let (mut payload, mut at, mut known) = (Vec::new(), 0, 0);
    // Every iteration consumes bytes or requests more.
    for _ in 0..=2 * wire.len() + 4 {
        match decoder.next(&wire[at..known]) {
            Err(bad) => return (payload, Some(Err(bad))),
            Ok(Next::End) => return (payload, Some(Ok(at))),
            Ok(Next::Skip(n)) => {
                assert!(n > 0 && at + n <= known, "skipped past the known bytes");
                at += n;
            }
            Ok(Next::Payload(most)) if known > at => {
                let n = (known - at).min(usize::try_from(most).unwrap_or(usize::MAX));
                assert!(n > 0);
                payload.extend_from_slice(&wire[at..at + n]);
                decoder.took(n as u64);
                at += n;
            }
            Ok(_) if known == wire.len() => {
                assert!(framing == Framing::UntilClose || !decoder.ends_with_stream());
                return (payload, None);
            }
            Ok(_) => known = wire.len().min(known + step),
        }
    }
    panic!("decoding does not terminate");
}

/// The first byte selects the framing, the second the size of the pieces.
pub(crate) fn check(data: &[u8]) {
    let [kind, step, wire @ ..] = data else {
        return;
    };
    let framing = match kind % 8 {
        0 => Framing::Length(u64::from(*kind)),
        1 => Framing::UntilClose,
        2 => Framing::Empty,
        _ => Framing::Chunked,
    };
    let whole = decode(framing, wire, wire.len().max(1));
    let cut = decode(framing, wire, usize::from(*step).max(1));
    assert_eq!(whole, cut);
    assert!(whole.0.len() <= wire.len());
}

//! Telnet: segmentation changes neither data nor answers, answers are bounded, data round-trips.

use xio_telnet::{Decoder, Encoder, TooLong};

fn decode(pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>, Option<TooLong>) {
    let (mut decoder, mut data, mut answers) = (Decoder::new(), Vec::new(), Vec::new());
    for piece in pieces {
        let mut bytes = piece.to_vec();
        match decoder.decode(&mut bytes, &mut answers) {
            Ok(kept) => data.extend_from_slice(&bytes[..kept]),
            // The amount of data before the error depends on the segmentation.
            Err(bad) => return (Vec::new(), Vec::new(), Some(bad)),
        }
    }
    (data, answers, None)
}

/// The first byte is the position of the cut.
pub(crate) fn check(data: &[u8]) {
    let [cut, wire @ ..] = data else { return };
    let (head, tail) = wire.split_at(usize::from(*cut).min(wire.len()));
    let whole = decode(&[wire]);
    assert_eq!(decode(&[head, tail]), whole);
    assert_eq!(decode(&wire.chunks(1).collect::<Vec<_>>()), whole);
    assert!(whole.0.len() + whole.1.len() <= wire.len());

    // The same bytes as data.
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    encoder.encode(head, &mut out);
    encoder.encode(tail, &mut out);
    encoder.finish(&mut out);
    assert_eq!(decode(&[&out]), (wire.to_vec(), Vec::new(), None));
}

//! Telnet: however cut, the same data and answers; answers stay bounded; data round-trips.

use xio_telnet::{Decoder, Encoder, TooLong};

fn decode(pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>, Option<TooLong>) {
    let (mut decoder, mut data, mut answers) = (Decoder::new(), Vec::new(), Vec::new());
    for piece in pieces {
        let mut bytes = piece.to_vec();
        match decoder.decode(&mut bytes, &mut answers) {
            Ok(kept) => data.extend_from_slice(&bytes[..kept]),
            // How much of the last piece was decoded does not matter then.
            Err(bad) => return (Vec::new(), Vec::new(), Some(bad)),
        }
    }
    (data, answers, None)
}

/// The first byte is where the rest is cut.
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

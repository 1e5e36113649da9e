//! Compression: headers are refused or round-trip, codecs stay within their block and lose no
//! bytes.

use xio_compress::codec::{self, Algorithm};
use xio_compress::frame::{Frame, MAX_BLOCK, MAX_HEADER, Preamble};

/// The first byte selects the kind of the others: a preamble, a header, packed bytes, or bytes to
/// pack.
pub(crate) fn check(data: &[u8]) {
    let [kind, rest @ ..] = data else { return };
    let algorithm = Algorithm::ALL[usize::from(kind >> 2) % Algorithm::ALL.len()];
    match kind & 3 {
        0 => header(rest),
        1 if algorithm.is_built() => unpack(algorithm, rest),
        2 if algorithm.is_built() => pack(algorithm, rest),
        _ => preamble(rest),
    }
}

fn preamble(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk() else {
        return;
    };
    if let Ok(preamble) = Preamble::parse(*bytes) {
        assert!((1..=MAX_BLOCK).contains(&preamble.block));
        assert_eq!(preamble.write(), *bytes);
    }
}

/// Two bytes are the announced block size, one is the block number.
fn header(bytes: &[u8]) {
    let [low, high, number, bytes @ ..] = bytes else {
        return;
    };
    let announced = usize::from(u16::from_le_bytes([*low, *high])) << 4;
    let number = u64::from(*number);
    let found = Frame::parse(bytes, number, announced);
    match found {
        Ok(Some((Frame::Block(header), len))) => {
            assert!((1..=announced).contains(&header.original));
            assert!((1..=header.original).contains(&header.packed));
            assert!(len <= MAX_HEADER && len <= bytes.len());
            // A header with the same values differs in the checksum only.
            let same = xio_compress::frame::Head::new(
                number,
                header.algorithm,
                &vec![0; header.original],
                header.packed,
            );
            assert_eq!(same.bytes()[..len - 4], bytes[..len - 4]);
        }
        Ok(Some((Frame::End, len))) => assert_eq!(len, 5),
        Ok(Some(_)) => unreachable!("there is no other kind"),
        // The bytes are the beginning of a header.
        Ok(None) => assert!(bytes.len() < MAX_HEADER),
        Err(_) => return,
    }
    // Bytes after the header have no effect.
    if let Ok(Some(_)) = found {
        let longer = [bytes, &[0xFF; 20]].concat();
        assert_eq!(Frame::parse(&longer, number, announced), found);
    }
}

/// Two bytes are the length of the block.
fn unpack(algorithm: Algorithm, bytes: &[u8]) {
    let [low, high, packed @ ..] = bytes else {
        return;
    };
    let len = usize::from(u16::from_le_bytes([*low, *high])) + 1;
    let mut codec = codec::make(algorithm, algorithm.default_level());
    let mut block = vec![0; len];
    let first = codec.decompress(packed, &mut block);
    let mut again = vec![1; len];
    assert_eq!(
        codec.decompress(packed, &mut again),
        first,
        "an earlier block has an effect"
    );
    if first.is_ok() {
        assert_eq!(block, again);
        if algorithm == Algorithm::Fill {
            return;
        }
        // The block has exactly this length.
        for other in [len - 1, len + 1] {
            assert!(codec.decompress(packed, &mut vec![0; other]).is_err());
        }
    }
}

/// One byte selects the level.
fn pack(algorithm: Algorithm, bytes: &[u8]) {
    let [level, block @ ..] = bytes else { return };
    if block.is_empty() {
        return;
    }
    let mut codec = codec::make(algorithm, i32::from(*level % 16) - 3);
    let mut room = vec![0; codec::room_for(block.len())];
    for _ in 0..2 {
        if let Some(n) = codec.compress(block, &mut room) {
            let mut back = vec![0; block.len()];
            codec
                .decompress(&room[..n], &mut back)
                .expect("a packed block unpacks");
            assert_eq!(back, block);
        }
    }
}

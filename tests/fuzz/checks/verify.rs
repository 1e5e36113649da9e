//! Verified blocks: segmentation changes neither bytes nor error, and sealed blocks round-trip.

use xio_verify::{BadBlock, Opener, Sealer};

/// Opens blocks, fed at most `bite` bytes at a time; returns their bytes and the end.
fn open(mut wire: &[u8], bite: usize) -> (Vec<u8>, Result<(), BadBlock>) {
    let (mut opener, mut out) = (Opener::new(), Vec::new());
    loop {
        let good = opener.good().len();
        out.extend_from_slice(opener.good());
        opener.taken(good);
        let n = match opener.room() {
            Ok(None) => return (out, Ok(())),
            Ok(Some(room)) => {
                assert!(room.len() <= 1 << 20);
                let n = room.len().min(wire.len()).min(bite);
                room[..n].copy_from_slice(&wire[..n]);
                n
            }
            Err(bad) => return (out, Err(bad)),
        };
        wire = &wire[n..];
        if let Err(bad) = opener.came(n) {
            assert_eq!(opener.room().map(|_| ()), Err(bad));
            assert!(opener.good().is_empty());
            return (out, Err(bad));
        }
    }
}

/// The first byte is the block length of the sealer.
pub(crate) fn check(data: &[u8]) {
    let [length, rest @ ..] = data else { return };
    let whole = open(rest, usize::MAX);
    assert_eq!(open(rest, 1), whole);
    assert_eq!(open(rest, 7), whole);

    let (mut sealer, mut wire) = (Sealer::new(), Vec::new());
    for block in rest.chunks(usize::from(*length) + 1) {
        sealer.block(block, &mut wire);
    }
    sealer.end(&mut wire);
    assert_eq!(open(&wire, 5), (rest.to_vec(), Ok(())));
    wire.pop();
    assert!(matches!(
        open(&wire, usize::MAX).1,
        Err(BadBlock::Cut { .. })
    ));
}

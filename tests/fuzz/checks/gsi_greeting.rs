//! The filter of names in greetings changes the same bytes in any segmentation, and no others.

use gsi::sni::NameFilter;

/// The first byte of `data` is the size of pieces, and the rest the stream.
pub(crate) fn check(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else {
        return;
    };
    let mut at_once = stream.to_vec();
    NameFilter::new().admit(&mut at_once);
    let mut in_pieces = stream.to_vec();
    let mut filter = NameFilter::new();
    for bytes in in_pieces.chunks_mut(usize::from(piece) + 1) {
        filter.admit(bytes);
    }
    assert_eq!(in_pieces, at_once);
    let changed = stream
        .iter()
        .zip(&at_once)
        .filter(|(before, after)| before != after);
    for (before, after) in changed {
        assert_eq!((*before, *after), (0, 0xff));
    }
}

//! Runs a check over the committed corpus of its fuzz target, and over every prefix of each seed.

use std::path::Path;

/// Reads `tests/fuzz/corpus/TARGET`, relative to a crate two folders below the root.
pub(crate) fn run(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fuzz/corpus")
        .join(target);
    let mut seeds = 0;
    for seed in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let bytes = std::fs::read(seed.unwrap().path()).unwrap();
        for end in 0..=bytes.len() {
            check(&bytes[..end]);
        }
        seeds += 1;
    }
    assert!(seeds > 0, "{target} has no seeds");
}

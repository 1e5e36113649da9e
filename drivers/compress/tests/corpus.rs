//! The corpus of the fuzz target `compress`, as an ordinary test.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "checks may fail, that is what they are for"
)]

#[path = "../../../tests/fuzz/checks/compress.rs"]
mod compress;
#[path = "../../../tests/fuzz/checks/corpus.rs"]
mod corpus;

#[test]
fn the_corpus_holds() {
    corpus::run("compress", compress::check);
}

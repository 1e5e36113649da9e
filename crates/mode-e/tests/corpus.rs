//! The corpus of the fuzz target `mode_e`, as an ordinary test.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "checks may fail, that is what they are for"
)]

#[path = "../../../tests/fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../tests/fuzz/checks/mode_e.rs"]
mod mode_e;

#[test]
fn the_corpus_holds() {
    corpus::run("mode_e", mode_e::check);
}

//! The corpus of the fuzz target of this crate, as an ordinary test.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "checks may fail, that is what they are for"
)]

#[path = "../../../tests/fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../tests/fuzz/checks/gsi_lines.rs"]
mod lines;

#[test]
fn the_corpus_of_lines_holds() {
    corpus::run("gsi_lines", lines::check);
}

//! The corpus of the fuzz target `multicast`, as an ordinary test.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "checks may fail, that is what they are for"
)]

#[path = "../../../tests/fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../tests/fuzz/checks/multicast.rs"]
mod multicast;

#[test]
fn the_corpus_holds() {
    corpus::run("multicast", multicast::check);
}

//! The corpora of the fuzz targets for HTTP, as ordinary tests.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "checks may fail, that is what they are for"
)]

#[path = "../../../tests/fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../tests/fuzz/checks/http_body.rs"]
mod http_body;
#[path = "../../../tests/fuzz/checks/http_head.rs"]
mod http_head;

#[test]
fn heads() {
    corpus::run("http_head", http_head::check);
}

#[test]
fn bodies() {
    corpus::run("http_body", http_body::check);
}

//! The corpora of the fuzz targets for the control channel, as ordinary tests.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "checks may fail, that is what they are for"
)]

#[path = "../../../tests/fuzz/checks/addr.rs"]
mod addr;
#[path = "../../../tests/fuzz/checks/command.rs"]
mod command;
#[path = "../../../tests/fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../tests/fuzz/checks/facts.rs"]
mod facts;
#[path = "../../../tests/fuzz/checks/line.rs"]
mod line;
#[path = "../../../tests/fuzz/checks/marker.rs"]
mod marker;
#[path = "../../../tests/fuzz/checks/reply.rs"]
mod reply;

#[test]
fn lines() {
    corpus::run("line", line::check);
}

#[test]
fn commands() {
    corpus::run("command", command::check);
}

#[test]
fn addresses() {
    corpus::run("addr", addr::check);
}

#[test]
fn listing_lines() {
    corpus::run("facts", facts::check);
}

#[test]
fn markers() {
    corpus::run("marker", marker::check);
}

#[test]
fn replies() {
    corpus::run("reply", reply::check);
}

//! The corpora of the fuzz targets of this crate, as ordinary tests.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "checks may fail, that is what they are for"
)]

#[path = "../../../tests/fuzz/checks/gsi_certificate.rs"]
mod certificate;
#[path = "../../../tests/fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../tests/fuzz/checks/gsi_credential.rs"]
mod credential;
#[path = "../../../tests/fuzz/checks/gsi_greeting.rs"]
mod greeting;
#[path = "../../../tests/fuzz/checks/gsi_gridmap.rs"]
mod gridmap;
#[path = "../../../tests/fuzz/checks/gsi_name.rs"]
mod name;
#[path = "../../../tests/fuzz/checks/gsi_policy.rs"]
mod policy;
#[path = "../../../tests/fuzz/checks/gsi_request.rs"]
mod request;
#[path = "../../../tests/fuzz/checks/gsi_revocations.rs"]
mod revocations;
#[path = "../../../tests/fuzz/checks/gsi_token.rs"]
mod token;

#[test]
fn the_corpus_of_certificates_holds() {
    corpus::run("gsi_certificate", certificate::check);
}

#[test]
fn the_corpus_of_grid_mapfiles_holds() {
    corpus::run("gsi_gridmap", gridmap::check);
}

#[test]
fn the_corpus_of_names_holds() {
    corpus::run("gsi_name", name::check);
}

#[test]
fn the_corpus_of_signing_policies_holds() {
    corpus::run("gsi_policy", policy::check);
}

#[test]
fn the_corpus_of_revocation_lists_holds() {
    corpus::run("gsi_revocations", revocations::check);
}

#[test]
fn the_corpus_of_credentials_holds() {
    corpus::run("gsi_credential", credential::check);
}

#[test]
fn the_corpus_of_requests_holds() {
    corpus::run("gsi_request", request::check);
}

#[test]
fn the_corpus_of_tokens_holds() {
    corpus::run("gsi_token", token::check);
}

#[test]
fn the_corpus_of_greetings_holds() {
    corpus::run("gsi_greeting", greeting::check);
}

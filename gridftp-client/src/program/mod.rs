//! Parts that the programs gridftp-cp and gridftp share: flags, accounts, output, exit statuses.
#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    clippy::missing_errors_doc,
    missing_docs,
    reason = "it is of the programs of this crate, and hidden from others"
)]

pub mod accounts;
mod bar;
pub mod complete;
pub mod connection;
pub mod doctor;
mod ends;
pub mod events;
pub mod examples;
pub mod exit;
pub mod failed_list;
pub mod grid;
mod json;
mod lines;
pub mod proxy;
pub mod receipts;
pub mod records;
pub mod report;
pub mod run;
pub mod schedule;
pub mod settings;
pub mod values;

//! Verdicts on a corpus of generated chains: valid ones, and one defect each.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "a failed test names its line, and a table is as long as its rows"
)]

mod authorities;
mod build;
mod extended;
mod faults;
mod flips;
mod hosts;
mod mapping;
mod proxies;
mod revoked;
mod signers;
mod table;

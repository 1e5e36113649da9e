//! The pure crates and the layers, measured without a network: `cargo bench --bench micro`.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "criterion's macros define the functions")]

mod layers;
mod protocols;
mod udt;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    protocols::commands,
    protocols::replies,
    protocols::framing,
    protocols::ranges,
    udt::machine,
    layers::codecs,
    layers::stack
);
criterion_main!(benches);

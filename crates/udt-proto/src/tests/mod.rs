//! Pairs of machines on simulated links.

mod doubles;
mod ends;
mod hostile;
mod lies;
mod link;
mod messages;
mod operations;
mod rows;
mod sharing;
mod tcp;
mod throughput;
mod transfer;
mod wire;
pub(crate) mod world;

//! Pairs of machines on simulated links.

mod link;
mod throughput;
mod transfer;
mod world;

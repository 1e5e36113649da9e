//! Pairs of machines on simulated links.

mod link;
mod messages;
mod throughput;
mod transfer;
mod world;

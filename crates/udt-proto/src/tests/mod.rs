//! Pairs of machines on simulated links.

mod link;
mod transfer;
mod world;

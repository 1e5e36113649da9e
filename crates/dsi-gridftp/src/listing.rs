//! `GatewayListing`: a listing of the upstream, in batches.

use gridftp_dsi::{Listing, Result, Stat};

/// Most entries of a batch.
const BATCH: usize = 500;

/// A directory being listed.
#[derive(Debug)]
pub struct GatewayListing {
    /// In reverse order.
    left: Vec<Stat>,
}

impl GatewayListing {
    pub(crate) fn new(mut entries: Vec<Stat>) -> Self {
        entries.reverse();
        Self { left: entries }
    }
}

impl Listing for GatewayListing {
    async fn next(&mut self) -> Result<Vec<Stat>> {
        let rest = self.left.len().saturating_sub(BATCH);
        let mut batch = self.left.split_off(rest);
        batch.reverse();
        Ok(batch)
    }
}

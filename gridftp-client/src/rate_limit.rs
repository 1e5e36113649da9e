//! `RateLimit`: one bound on the bytes a second of all data connections that have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xio::rate::Rate;
use xio_core::{ByteSize, DynLayer, DynStack, Plan};

/// A bound on the bytes that all data connections of this end with it, or with a clone of it, send
/// in a second, and as many that they receive: those that pass the stack, under TLS or Grid security.
/// It may be changed at any time. Bytes between two servers count where they pass this machine.
#[derive(Debug, Clone)]
pub struct RateLimit {
    layer: Rate,
    /// Bytes a second; the greatest number for no bound.
    bound: Arc<AtomicU64>,
}

impl RateLimit {
    /// At most so many bytes a second; `None` for any number, until it is [set](Self::set).
    pub fn new(rate: Option<u64>) -> Self {
        let limit = Self {
            layer: Rate::new().shared(),
            bound: Arc::default(),
        };
        limit.set(rate);
        limit
    }

    /// Changes the bound, in bytes a second, for open connections too.
    pub fn set(&self, rate: Option<u64>) {
        self.layer.set(rate.map(ByteSize::new));
        self.bound
            .store(rate.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Whether so many bytes in this time are nine tenths of the present bound.
    pub(crate) fn is_reached(&self, bytes: u64, took: Duration) -> bool {
        let bound = u128::from(self.bound.load(Ordering::Relaxed));
        u128::from(bytes) * 10_000 >= bound * took.as_millis() * 9
    }

    /// The stack with the bound above it.
    pub(crate) fn over(&self, stack: DynStack) -> DynStack {
        let plan: Plan = "rate".parse().expect("it is the name of a driver");
        let entry = plan.entries().first().expect("it has one entry");
        stack.layer(DynLayer::new(self.layer.clone()), entry)
    }
}

//! `RateLimit`: one bound on the bytes a second of all data connections that have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xio::rate::Rate;
use xio_core::{ByteSize, DynLayer, DynStack, Plan};

/// Time between two grants, in microseconds: the bytes of longer ones are a burst that fills the queue
/// of a slower link.
const PERIOD: &str = "period=5000";

/// A bound on the bytes that all data connections of this end with it, or with a clone of it, send
/// in a second, and as many that they receive: those that pass the stack, under TLS or Grid security.
/// It may be changed at any time. Bytes between two servers count where they pass this machine.
#[derive(Debug, Clone)]
pub struct RateLimit {
    layer: Rate,
    /// Bytes a second; the greatest number for no bound.
    bound: Arc<AtomicU64>,
    /// As `bound`, of a copy that leaves the path to others.
    yielded: Arc<AtomicU64>,
}

impl RateLimit {
    /// At most so many bytes a second; `None` for any number, until it is [set](Self::set).
    pub fn new(rate: Option<u64>) -> Self {
        let options = PERIOD.parse().unwrap_or_default();
        let limit = Self {
            layer: Rate::new().with_options(options).shared(),
            bound: Arc::default(),
            yielded: Arc::new(AtomicU64::new(u64::MAX)),
        };
        limit.set(rate);
        limit
    }

    /// Changes the bound, in bytes a second, for open connections too.
    pub fn set(&self, rate: Option<u64>) {
        self.bound
            .store(rate.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.apply();
    }

    /// Leaves the rest of the path to others, within the bound; all of it again for `None`.
    pub(crate) fn yield_to(&self, rate: Option<u64>) {
        self.yielded
            .store(rate.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.apply();
    }

    /// The lower of both bounds.
    pub(crate) fn least(&self) -> Option<u64> {
        let [bound, yielded] = [&self.bound, &self.yielded].map(|it| it.load(Ordering::Relaxed));
        Some(bound.min(yielded)).filter(|least| *least < u64::MAX)
    }

    /// Has connections keep to the lower bound.
    fn apply(&self) {
        self.layer.set(self.least().map(ByteSize::new));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_yields_within_the_bound() {
        let limit = RateLimit::new(Some(10));
        limit.yield_to(Some(5));
        assert_eq!(limit.least(), Some(5));
        limit.set(Some(3));
        assert_eq!(limit.least(), Some(3));
        limit.set(None);
        assert_eq!(limit.least(), Some(5));
        limit.yield_to(None);
        assert_eq!(limit.least(), None);
    }
}

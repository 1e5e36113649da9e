//! `RateLimit`: one bound on the bytes a second of all data connections that have it.

use xio::rate::Rate;
use xio_core::{ByteSize, DynLayer, DynStack, Plan};

/// A bound on the bytes that all data connections of this end with it, or with a clone of it, send
/// in a second, and as many that they receive: those that pass the stack, under TLS or Grid security.
/// It may be changed at any time. Bytes between two servers do not pass here.
#[derive(Debug, Clone)]
pub struct RateLimit(Rate);

impl RateLimit {
    /// At most so many bytes a second; `None` for any number, until it is [set](Self::set).
    pub fn new(rate: Option<u64>) -> Self {
        let limit = Self(Rate::new().shared());
        limit.set(rate);
        limit
    }

    /// Changes the bound, in bytes a second, for open connections too.
    pub fn set(&self, rate: Option<u64>) {
        self.0.set(rate.map(ByteSize::new));
    }

    /// The stack with the bound above it.
    pub(crate) fn over(&self, stack: DynStack) -> DynStack {
        let plan: Plan = "rate".parse().expect("it is the name of a driver");
        let entry = plan.entries().first().expect("it has one entry");
        stack.layer(DynLayer::new(self.0.clone()), entry)
    }
}

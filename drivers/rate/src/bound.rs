//! `Bound`: one rate for all handles that have it, which may change at any time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xio_core::{ByteSize, DynLayer, DynStack, Entry};

use crate::{Limit, Rate};

/// Least and longest time between two grants.
const PERIOD: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Bytes of one grant at least, if the longest period has so many.
const GRANT: u64 = 16 << 10;
/// Part of a second whose bytes may be made up for after a pause, as of the scheduler. More of them
/// would be a burst that fills the queue of a slower link.
const CREDIT: u64 = 20;

/// A bound on the bytes that all handles with it, or with a clone of it, write in a second, and on
/// as many that they read. It may be changed at any time.
///
/// # Example
///
/// ```
/// use xio_rate::Bound;
///
/// let bound = Bound::new(None);
/// let other = bound.clone();
/// bound.set(Some(1_000_000));
/// assert_eq!(other.get(), Some(1_000_000));
/// ```
#[derive(Debug, Clone)]
pub struct Bound(Arc<State>);

#[derive(Debug)]
struct State {
    layer: Rate,
    /// Bytes a second; the greatest number for no bound.
    rate: Mutex<u64>,
}

impl Bound {
    /// Makes a bound in bytes a second; `None` for any number, until it is [set](Self::set).
    #[must_use]
    pub fn new(rate: Option<u64>) -> Self {
        let (layer, rate) = (Rate::new().shared(), rate.unwrap_or(u64::MAX));
        layer.set_limit(limit(rate));
        let rate = Mutex::new(rate);
        Self(Arc::new(State { layer, rate }))
    }

    /// Changes the bound, for open handles too.
    pub fn set(&self, rate: Option<u64>) {
        let rate = rate.unwrap_or(u64::MAX);
        // Held over both, so that of several callers the same one is the last in both.
        let mut now = self.lock();
        // The credit of a rate that stays is kept.
        if std::mem::replace(&mut *now, rate) != rate {
            self.0.layer.set_limit(limit(rate));
        }
    }

    /// The bound that is in force.
    #[must_use]
    pub fn get(&self) -> Option<u64> {
        let rate = *self.lock();
        (rate < u64::MAX).then_some(rate)
    }

    /// Waits until `bytes` that pass no handle may pass.
    ///
    /// # Cancel safety
    /// Bytes that have passed count, also when the future is dropped.
    pub async fn pass(&self, bytes: usize) {
        self.0.layer.pass(bytes).await;
    }

    /// The stack with the bound above it.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "a constant name is valid")]
    pub fn over(&self, stack: DynStack) -> DynStack {
        let entry = Entry::new("rate").expect("it is the name of a driver");
        stack.layer(DynLayer::new(self.0.layer.clone()), &entry)
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.0.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The grants of a rate in bytes a second.
fn limit(rate: u64) -> Limit {
    let micros = (GRANT * 1_000_000).div_ceil(rate.max(1));
    let (least, longest) = PERIOD;
    let mut limit = Limit::new(ByteSize::new(rate));
    limit.period = Duration::from_micros(micros).clamp(least, longest);
    limit.burst = Some(ByteSize::new((rate / CREDIT).max(2 * GRANT)));
    limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_bound() {
        let bound = Bound::new(Some(10));
        let other = bound.clone();
        other.set(None);
        assert_eq!(bound.get(), None);
        bound.set(Some(5));
        assert_eq!(other.get(), Some(5));
    }

    #[test]
    fn grants_are_worth_a_call_and_a_pause_loses_none() {
        let ms = Duration::from_millis;
        for (rate, period, burst) in [
            (100, ms(1000), 32 << 10),
            (10_000, ms(1000), 32 << 10),
            (1 << 20, Duration::from_micros(15_625), (1 << 20) / 20),
            (1 << 30, ms(5), (1 << 30) / 20),
            (u64::MAX, ms(5), u64::MAX / 20),
        ] {
            let limit = limit(rate);
            assert_eq!(
                (limit.period, limit.burst),
                (period, Some(ByteSize::new(burst)))
            );
        }
    }
}

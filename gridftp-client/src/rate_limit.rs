//! `RateLimit`: one bound on the bytes a second of all data connections that have it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xio::rate::{Limit, Rate};
use xio_core::{ByteSize, DynLayer, DynStack, Plan};

/// Least and longest time between two grants.
const PERIOD: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Bytes of one grant at least, if the longest period has so many.
const GRANT: u64 = 16 << 10;
/// Part of a second whose bytes may be made up for after a pause, as of the scheduler. More of them
/// would be a burst that fills the queue of a slower link.
const CREDIT: u64 = 20;

/// A bound on the bytes that all data connections of this end with it, or with a clone of it, send
/// in a second, and as many that they receive: those that pass the stack, under TLS or Grid security.
/// It may be changed at any time. Bytes between two servers count where they pass this machine.
#[derive(Debug, Clone)]
pub struct RateLimit {
    bound: Bound,
    /// That of one copy, which leaves the path to others.
    yielded: Option<Bound>,
}

/// A bound of all handles with a layer.
#[derive(Debug, Clone)]
struct Bound {
    layer: Rate,
    /// Bytes a second; the greatest number for no bound.
    rate: Arc<Mutex<u64>>,
}

impl Bound {
    fn new(rate: Option<u64>) -> Self {
        let (layer, rate) = (Rate::new().shared(), rate.unwrap_or(u64::MAX));
        layer.set_limit(limit(rate));
        Self {
            layer,
            rate: Arc::new(Mutex::new(rate)),
        }
    }

    fn set(&self, rate: Option<u64>) {
        let rate = rate.unwrap_or(u64::MAX);
        // Held over both, so that of several callers the same one is the last in both.
        let mut now = self.lock();
        // The credit of a rate that stays is kept.
        if std::mem::replace(&mut *now, rate) != rate {
            self.layer.set_limit(limit(rate));
        }
    }

    fn get(&self) -> u64 {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
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

impl RateLimit {
    /// At most so many bytes a second; `None` for any number, until it is [set](Self::set).
    pub fn new(rate: Option<u64>) -> Self {
        Self {
            bound: Bound::new(rate),
            yielded: None,
        }
    }

    /// Changes the bound, in bytes a second, for open connections too.
    pub fn set(&self, rate: Option<u64>) {
        self.bound.set(rate);
    }

    /// The same bound for one copy alone, which can yield within it.
    pub(crate) fn of_polite_copy(mut self) -> Self {
        self.yielded = Some(Bound::new(None));
        self
    }

    /// Leaves the rest of the path to others, within the bound; all of it again for `None`.
    pub(crate) fn yield_to(&self, rate: Option<u64>) {
        if let Some(yielded) = &self.yielded {
            yielded.set(rate);
        }
    }

    /// The lower of both bounds.
    pub(crate) fn least(&self) -> Option<u64> {
        let least = self.bound.get().min(self.yielding());
        Some(least).filter(|least| *least < u64::MAX)
    }

    /// Waits until `bytes` that pass no data connection may pass.
    pub(crate) async fn pass(&self, bytes: usize) {
        for bound in self.yielded.iter().chain([&self.bound]) {
            bound.layer.pass(bytes).await;
        }
    }

    /// Says whether the bound of a copy that yields is the lower one.
    pub(crate) fn yields(&self) -> bool {
        self.yielding() < self.bound.get()
    }

    fn yielding(&self) -> u64 {
        self.yielded.as_ref().map_or(u64::MAX, Bound::get)
    }

    /// The stack with the bounds above it.
    pub(crate) fn over(&self, stack: DynStack) -> DynStack {
        let plan: Plan = "rate".parse().expect("it is the name of a driver");
        let entry = plan.entries().first().expect("it has one entry");
        let bounds = self.yielded.iter().chain([&self.bound]);
        bounds.fold(stack, |stack, bound| {
            stack.layer(DynLayer::new(bound.layer.clone()), entry)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_yields_within_the_bound_and_alone() {
        let limit = RateLimit::new(Some(10));
        let [copy, other] = [(); 2].map(|()| limit.clone().of_polite_copy());
        copy.yield_to(Some(5));
        assert_eq!(
            [&limit, &copy, &other].map(RateLimit::least),
            [10, 5, 10].map(Some)
        );
        limit.set(Some(3));
        assert_eq!(copy.least(), Some(3));
        limit.set(None);
        assert_eq!(copy.least(), Some(5));
        copy.yield_to(None);
        assert_eq!([limit, copy, other].map(|it| it.least()), [None; 3]);
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

//! `RateLimit`: one bound on the bytes a second of all data connections that have it.

use xio::rate::Bound;
use xio_core::DynStack;

/// A bound on the bytes that all data connections of this end with it, or with a clone of it, send
/// in a second, and as many that they receive: those that pass the stack, under TLS or Grid security.
/// It may be changed at any time. Of a copy between two servers the one that sends, or else the one
/// that receives, keeps to it (`RATE` in `FEAT`), unless the bytes pass this machine. Each session
/// that moves files has an equal share there, and each stripe of a session over data nodes an equal
/// part of that. A stripe or session leaves the rest of its share unused.
#[derive(Debug, Clone)]
pub struct RateLimit {
    bound: Bound,
    /// Whether the caller asked for a bound, or only for a copy that yields.
    is_asked: bool,
    /// That of one copy, which leaves the path to others.
    yielded: Option<Bound>,
}

impl RateLimit {
    /// At most so many bytes a second; `None` for any number, until it is [set](Self::set).
    pub fn new(rate: Option<u64>) -> Self {
        Self {
            bound: Bound::new(rate),
            is_asked: true,
            yielded: None,
        }
    }

    /// Changes the bound, in bytes a second, for open connections too.
    pub fn set(&self, rate: Option<u64>) {
        self.bound.set(rate);
    }

    /// No bound but that of a copy which yields.
    pub(crate) fn of_polite_copy_alone() -> Self {
        let is_asked = false;
        let unbounded = Self::new(None).of_polite_copy();
        Self {
            is_asked,
            ..unbounded
        }
    }

    /// The same bound for one copy alone, which can yield within it.
    pub(crate) fn of_polite_copy(mut self) -> Self {
        self.yielded = Some(Bound::new(None));
        self
    }

    /// Whether the caller asked for a bound, so that a copy must not go on without.
    pub(crate) const fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Leaves the rest of the path to others, within the bound; all of it again for `None`.
    pub(crate) fn yield_to(&self, rate: Option<u64>) {
        if let Some(yielded) = &self.yielded {
            yielded.set(rate);
        }
    }

    /// The lower of both bounds.
    pub(crate) fn least(&self) -> Option<u64> {
        self.bounds().filter_map(Bound::get).min()
    }

    /// Waits until `bytes` that pass no data connection may pass.
    pub(crate) async fn pass(&self, bytes: usize) {
        for bound in self.bounds() {
            bound.pass(bytes).await;
        }
    }

    /// Says whether the bound of a copy that yields is the lower one.
    pub(crate) fn yields(&self) -> bool {
        let yielded = self.yielded.as_ref().and_then(Bound::get);
        yielded.is_some_and(|rate| self.bound.get().is_none_or(|bound| rate < bound))
    }

    fn bounds(&self) -> impl Iterator<Item = &Bound> {
        self.yielded.iter().chain([&self.bound])
    }

    /// The stack with the bounds above it.
    pub(crate) fn over(&self, stack: DynStack) -> DynStack {
        self.bounds().fold(stack, |stack, bound| bound.over(stack))
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
        assert!(copy.yields() && !limit.yields() && !other.yields());
        limit.set(Some(3));
        assert_eq!(copy.least(), Some(3));
        assert!(!copy.yields());
        limit.set(None);
        assert_eq!(copy.least(), Some(5));
        copy.yield_to(None);
        assert_eq!([limit, copy, other].map(|it| it.least()), [None; 3]);
    }
}

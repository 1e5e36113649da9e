//! `Descriptors`: bounds the open descriptors of all data channels, and those of each session.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::{Error, ErrorKind, Result};

/// A number of descriptors that data channels share; clones share the same count.
///
/// Control connections and storage are not counted, so that transfers cannot prevent a login.
#[derive(Debug, Clone)]
pub struct Descriptors {
    all: Arc<Count>,
    /// Descriptors of this session.
    own: Arc<AtomicUsize>,
    /// Limit of a session.
    share: Option<Share>,
}

#[derive(Debug)]
struct Count {
    limit: AtomicUsize,
    taken: AtomicUsize,
    lingering: Mutex<Vec<Lingering>>,
}

/// The share of one session: one `part`th of all descriptors, but at least `least`.
#[derive(Debug, Clone, Copy)]
struct Share {
    part: usize,
    least: usize,
}

/// Descriptors of a dropped permit, of which other work still keeps one open.
#[derive(Debug)]
struct Lingering {
    file: Weak<OwnedFd>,
    own: Arc<AtomicUsize>,
    many: usize,
}

/// The right to a number of descriptors, returned on drop.
#[derive(Debug)]
pub struct Permit {
    of: Descriptors,
    many: usize,
}

impl Descriptors {
    /// At most `limit` descriptors for all channels together.
    pub fn new(limit: usize) -> Self {
        Self {
            all: Arc::new(Count {
                limit: limit.into(),
                taken: 0.into(),
                lingering: Mutex::default(),
            }),
            own: Arc::default(),
            share: None,
        }
    }

    /// A view for one session, limited to one `part`th of all descriptors and at least `least`, as
    /// far as other sessions leave them free.
    #[must_use]
    pub fn share(&self, part: usize, least: usize) -> Self {
        Self {
            all: Arc::clone(&self.all),
            own: Arc::default(),
            share: Some(Share {
                part: part.max(1),
                least,
            }),
        }
    }

    /// Sets the number of descriptors; existing permits stay valid.
    pub fn set_limit(&self, limit: usize) {
        self.all.limit.store(limit, Ordering::Relaxed);
    }

    /// Takes `many` descriptors.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] when fewer are free in total or in the session's share.
    pub fn take(&self, many: usize) -> Result<Permit> {
        self.take_within(many, self.own_limit())
    }

    /// Limit of this session.
    fn own_limit(&self) -> usize {
        let limit = self.all.limit.load(Ordering::Relaxed);
        self.share
            .map_or(limit, |Share { part, least }| (limit / part).max(least))
    }

    fn take_within(&self, many: usize, own_limit: usize) -> Result<Permit> {
        self.all.sweep();
        let full = |fact| Err(Error::new(ErrorKind::Full, "open", fact));
        let limit = self.all.limit.load(Ordering::Relaxed);
        if !add(&self.all.taken, many, limit) {
            return full("too few free descriptors for data connections, try again later");
        }
        if !add(&self.own, many, own_limit) {
            self.all.taken.fetch_sub(many, Ordering::Relaxed);
            return full("the session uses its share of descriptors, use fewer data connections");
        }
        Ok(Permit {
            of: self.clone(),
            many,
        })
    }
}

/// Adds `many` to the count `taken`, unless the sum exceeds the limit.
fn add(taken: &AtomicUsize, many: usize, limit: usize) -> bool {
    let more = |taken: usize| taken.checked_add(many).filter(|taken| *taken <= limit);
    let order = Ordering::Relaxed;
    taken.fetch_update(order, order, more).is_ok()
}

impl Default for Descriptors {
    /// No limit but that of the system.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Count {
    fn give_back(&self, own: &AtomicUsize, many: usize) {
        own.fetch_sub(many, Ordering::Relaxed);
        self.taken.fetch_sub(many, Ordering::Relaxed);
    }

    /// Returns the lingering descriptors that have been closed.
    fn sweep(&self) {
        let mut lingering = self
            .lingering
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        lingering.retain(|Lingering { file, own, many }| {
            let open = file.strong_count() > 0;
            if !open {
                self.give_back(own, *many);
            }
            open
        });
    }
}

impl Permit {
    /// Takes `many` more for the same session.
    ///
    /// # Errors
    /// As [`Descriptors::take`].
    pub(crate) fn more(&self, many: usize) -> Result<Self> {
        self.of.take(many)
    }

    /// Takes `many` more for an optional use: half of the session's share stays free for
    /// connections and files.
    ///
    /// # Errors
    /// As [`Descriptors::take`].
    pub(crate) fn more_to_spare(&self, many: usize) -> Result<Self> {
        self.of.take_within(many, self.of.own_limit() / 2)
    }

    /// Keeps the permit until all references to `file` are dropped.
    pub(crate) fn linger(&mut self, file: &Arc<OwnedFd>) {
        let lingering = Lingering {
            file: Arc::downgrade(file),
            own: Arc::clone(&self.of.own),
            many: std::mem::take(&mut self.many),
        };
        let all = &self.of.all.lingering;
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(lingering);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.all.give_back(&self.of.own, self.many);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_stay_within_the_limit_and_are_returned() {
        let all = Descriptors::new(5);
        let three = all.take(3).unwrap();
        assert_eq!(three.more(3).unwrap_err().kind(), ErrorKind::Full);
        let two = three.more(2).unwrap();
        assert!(all.take(1).is_err());
        drop(three);
        let _three = two.more(3).unwrap();
        all.set_limit(6);
        assert!(all.take(1).is_ok() && all.take(2).is_err());
        assert!(Descriptors::default().take(usize::MAX).is_ok());
    }

    #[test]
    fn a_session_takes_no_more_than_its_share() {
        let all = Descriptors::new(80);
        let [one, other] = [all.share(8, 4), all.share(8, 4)];
        let ten = one.take(10).unwrap();
        let told = one.take(1).unwrap_err().to_string();
        assert!(told.contains("fewer data connections"), "{told}");
        let _others = other.take(10).unwrap();
        // A share is a part of the present limit, but at least the needs of one transfer.
        all.set_limit(24);
        drop(ten);
        assert!(one.take(5).is_err());
        let four = one.take(4).unwrap();
        assert!(all.take(11).is_err(), "fewer are left");
        drop(all.take(10).unwrap());
        drop(four);
        assert_eq!(one.own.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_refusal_for_lack_of_descriptors_takes_nothing_of_the_share() {
        let all = Descriptors::new(8);
        let one = all.share(2, 4);
        let _others = all.take(6).unwrap();
        one.take(4).unwrap_err();
        one.take(2).unwrap();
    }

    #[test]
    fn pipes_leave_half_of_a_share_to_connections() {
        let one = Descriptors::new(80).share(8, 4);
        let port = one.take(1).unwrap();
        let _pipes = [
            port.more_to_spare(2).unwrap(),
            port.more_to_spare(2).unwrap(),
        ];
        port.more_to_spare(2).unwrap_err();
        port.more(5).unwrap();
    }
}

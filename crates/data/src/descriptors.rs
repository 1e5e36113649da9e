//! `Descriptors`: bounds the open descriptors of all data channels of a process together, and of each session.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::error::{Error, ErrorKind, Result};

/// A number of descriptors that data channels share; every clone counts towards the same one.
///
/// Control connections and storage have theirs beside it, so that no transfer takes those of a login.
#[derive(Debug, Clone)]
pub struct Descriptors {
    all: Arc<Count>,
    /// Those of this session among them.
    own: Arc<AtomicUsize>,
    /// Bounds them where there is a session.
    share: Option<Share>,
}

#[derive(Debug)]
struct Count {
    limit: AtomicUsize,
    taken: AtomicUsize,
    lingering: Mutex<Vec<Lingering>>,
}

/// The share of one session: this part of all, but at least so many.
#[derive(Debug, Clone, Copy)]
struct Share {
    part: usize,
    least: usize,
}

/// Descriptors of a holder that is gone, while other work still keeps one of them open.
#[derive(Debug)]
struct Lingering {
    file: Weak<OwnedFd>,
    own: Arc<AtomicUsize>,
    many: usize,
}

/// The right to so many descriptors; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    of: Descriptors,
    many: usize,
}

impl Descriptors {
    /// So many, all channels together.
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

    /// The same ones for one session, which gets one `part`th of them and at least `least`, as far as
    /// others leave as many.
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

    /// Sets the number of descriptors; permits that are out keep theirs.
    pub fn set_limit(&self, limit: usize) {
        self.all.limit.store(limit, Ordering::Relaxed);
    }

    /// Takes so many.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] when fewer are left, of all or of the session's share.
    pub fn take(&self, many: usize) -> Result<Permit> {
        self.take_within(many, self.own_limit())
    }

    /// The most that this session may have.
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
            return full("too few descriptors are left for data, try again later");
        }
        if !add(&self.own, many, own_limit) {
            self.all.taken.fetch_sub(many, Ordering::Relaxed);
            return full("this session has its share of descriptors, use fewer data connections");
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
    /// As many as the system gives.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Count {
    fn give_back(&self, own: &AtomicUsize, many: usize) {
        own.fetch_sub(many, Ordering::Relaxed);
        self.taken.fetch_sub(many, Ordering::Relaxed);
    }

    /// Gives back the lingering descriptors that have been closed.
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
    /// Takes so many more of the same ones.
    ///
    /// # Errors
    /// As [`Descriptors::take`].
    pub(crate) fn more(&self, many: usize) -> Result<Self> {
        self.of.take(many)
    }

    /// Takes so many more that are no necessity: half of the session's share stays for connections
    /// and files.
    ///
    /// # Errors
    /// As [`Descriptors::take`].
    pub(crate) fn more_to_spare(&self, many: usize) -> Result<Self> {
        self.of.take_within(many, self.of.own_limit() / 2)
    }

    /// Ends the permit once nobody holds `file` any more.
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
    fn no_more_are_taken_than_there_are_and_all_come_back() {
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
        // A share is of all there are now, but never less than one transfer needs.
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
    fn a_share_that_the_others_leave_too_little_for_stays_whole() {
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

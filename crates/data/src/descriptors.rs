//! `Descriptors`: bounds the open descriptors of all data channels of a process together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// A number of descriptors that data channels share; every clone counts towards the same one.
///
/// Control connections and storage have theirs beside it, so that no transfer takes those of a login.
#[derive(Debug, Clone)]
pub struct Descriptors(Arc<Count>);

#[derive(Debug)]
struct Count {
    limit: AtomicUsize,
    taken: AtomicUsize,
}

/// Descriptors of one holder; given back when dropped.
#[derive(Debug)]
pub struct Taken {
    of: Descriptors,
    many: usize,
}

impl Descriptors {
    /// So many, all channels together.
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Count {
            limit: limit.into(),
            taken: 0.into(),
        }))
    }

    /// Changes how many there are, for those who take some from here on.
    pub fn set_limit(&self, limit: usize) {
        self.0.limit.store(limit, Ordering::Relaxed);
    }

    /// Takes so many.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] when fewer are left.
    pub fn take(&self, many: usize) -> Result<Taken> {
        let limit = self.0.limit.load(Ordering::Relaxed);
        let more = |taken: usize| taken.checked_add(many).filter(|taken| *taken <= limit);
        let order = Ordering::Relaxed;
        match self.0.taken.fetch_update(order, order, more) {
            Ok(_) => Ok(Taken {
                of: self.clone(),
                many,
            }),
            Err(_) => {
                let fact = "too few descriptors are left for data, try again later";
                Err(Error::new(ErrorKind::Full, "open", fact))
            }
        }
    }
}

impl Default for Descriptors {
    /// As many as the system gives.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Taken {
    /// Takes so many more of the same ones.
    ///
    /// # Errors
    /// As [`Descriptors::take`].
    pub(crate) fn more(&self, many: usize) -> Result<Self> {
        self.of.take(many)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.of.0.taken.fetch_sub(self.many, Ordering::Relaxed);
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
}

//! `Shares` and `Budget`: bytes of memory that all users share, with room left for the next one.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes that each user has of one total.
///
/// One user has at most half of the bytes that the others leave, or its first request, so that slow
/// transfers of one user leave room for the next user.
#[derive(Debug)]
pub struct Shares {
    total: u64,
    taken: u64,
    /// Bytes by user; no entry has zero.
    users: HashMap<Arc<str>, u64>,
}

impl Shares {
    /// At most `total` bytes, of which none is taken.
    pub fn new(total: u64) -> Self {
        Self {
            total,
            taken: 0,
            users: HashMap::new(),
        }
    }

    /// All bytes.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The bytes in use.
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// The bytes in no use.
    pub const fn free(&self) -> u64 {
        self.total.saturating_sub(self.taken)
    }

    /// Whether the share of a user admits so many bytes more, if they are free.
    pub fn admits(&self, user: &str, more: u64) -> bool {
        let own = self.users.get(user).copied().unwrap_or(0);
        let others = self.taken - own;
        own == 0 || own.saturating_add(more) <= self.total.saturating_sub(others) / 2
    }

    /// Gives bytes to a user.
    pub fn take(&mut self, user: &Arc<str>, bytes: u64) {
        self.taken += bytes;
        *self.users.entry(Arc::clone(user)).or_default() += bytes;
    }

    /// Takes bytes back from a user.
    pub fn give_back(&mut self, user: &str, bytes: u64) {
        self.taken -= bytes;
        if let Some(own) = self.users.get_mut(user) {
            *own -= bytes;
            if *own == 0 {
                self.users.remove(user);
            }
        }
    }
}

/// Memory of all open files, divided by [`Shares`]; clones share the same bytes.
#[derive(Clone)]
pub struct Budget {
    shares: Arc<Mutex<Shares>>,
}

/// Bytes of a [`Budget`], returned on drop.
#[derive(Debug)]
pub struct Place {
    budget: Budget,
    user: Arc<str>,
    bytes: u64,
}

impl Budget {
    /// At most `total` bytes.
    pub fn new(total: u64) -> Self {
        let shares = Arc::new(Mutex::new(Shares::new(total)));
        Self { shares }
    }

    /// All bytes.
    pub fn total(&self) -> u64 {
        self.shares().total()
    }

    /// The bytes in use.
    pub fn taken(&self) -> u64 {
        self.shares().taken()
    }

    /// Bytes for this user; `None` while they are not free, or beyond the user's share.
    pub fn take(&self, user: &Arc<str>, bytes: u64) -> Option<Place> {
        let mut shares = self.shares();
        if bytes > shares.free() || !shares.admits(user, bytes) {
            return None;
        }
        shares.take(user, bytes);
        Some(Place {
            budget: self.clone(),
            user: Arc::clone(user),
            bytes,
        })
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.budget.shares().give_back(&self.user, self.bytes);
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.shares();
        f.debug_struct("Budget")
            .field("total", &shares.total())
            .field("taken", &shares.taken())
            .finish()
    }
}

/// Budgets are equal by their totals: the bytes in use are no part of a configuration.
impl PartialEq for Budget {
    fn eq(&self, other: &Self) -> bool {
        self.total() == other.total()
    }
}

impl Eq for Budget {}

impl Default for Budget {
    /// 128 MiB.
    fn default() -> Self {
        Self::new(128 << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_half_of_what_others_leave_and_drops_return_it() {
        let budget = Budget::new(100);
        let (ann, bob) = (Arc::from("ann"), Arc::from("bob"));
        let mut places: Vec<_> = (0..5).map(|_| budget.take(&ann, 10).unwrap()).collect();
        assert!(budget.take(&ann, 10).is_none(), "half of 100 bytes");
        places.extend((0..2).map(|_| budget.take(&bob, 10).unwrap()));
        assert!(budget.take(&bob, 10).is_none(), "half of 50 bytes");
        let cat = Arc::from("cat");
        assert!(budget.take(&cat, 31).is_none(), "30 bytes are free");
        let all = budget.take(&cat, 30).unwrap();
        assert!(budget.take(&Arc::from("dan"), 1).is_none(), "none is free");
        assert_eq!(budget.taken(), 100);
        drop((places, all));
        assert_eq!(budget.taken(), 0);
        assert!(budget.shares().users.is_empty());
    }
}

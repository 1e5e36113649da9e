//! `Admission`: how many sessions there are, and who gives way when strangers crowd the door.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

/// Counts sessions; shared by all of them.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    sessions: AtomicUsize,
    /// Those that have not logged in, each with the bell that ends it.
    strangers: Mutex<Strangers>,
}

#[derive(Debug, Default)]
struct Strangers {
    next: u64,
    /// In no order; an index is drawn from here.
    order: Vec<u64>,
    /// Where each stands in `order`, and its bell.
    places: HashMap<u64, (usize, oneshot::Sender<()>)>,
    random: RandomState,
}

/// A session's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    admission: Arc<Admission>,
    /// `None` once logged in.
    stranger: Option<u64>,
    /// Rings when the session has to give way; `None` once it no longer can.
    bell: Option<oneshot::Receiver<()>>,
}

impl Admission {
    /// Takes a place for a new connection; `None` when all `most` are taken.
    ///
    /// When more than `strangers` connections have not logged in, one of the older ones, picked at random, gives
    /// way: who logs in at once is hardly ever hit, however many idle connections somebody opens.
    pub(crate) fn enter(self: &Arc<Self>, most: usize, strangers: usize) -> Option<Place> {
        if self.sessions.fetch_add(1, Ordering::Relaxed) >= most {
            self.sessions.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let (ring, bell) = oneshot::channel();
        let mut crowd = self.strangers();
        while crowd.order.len() >= strangers {
            crowd.evict_one();
        }
        let id = crowd.add(ring);
        Some(Place {
            admission: Arc::clone(self),
            stranger: Some(id),
            bell: Some(bell),
        })
    }

    /// How many sessions there are.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Strangers {
    fn add(&mut self, bell: oneshot::Sender<()>) -> u64 {
        let id = self.next;
        self.next += 1;
        self.places.insert(id, (self.order.len(), bell));
        self.order.push(id);
        id
    }

    fn remove(&mut self, id: u64) -> Option<oneshot::Sender<()>> {
        let (place, bell) = self.places.remove(&id)?;
        self.order.swap_remove(place);
        if let Some(moved) = self.order.get(place)
            && let Some(entry) = self.places.get_mut(moved)
        {
            entry.0 = place;
        }
        Some(bell)
    }

    fn evict_one(&mut self) {
        let draw = self.random.hash_one(self.next) % (self.order.len().max(1) as u64);
        let victim = usize::try_from(draw)
            .ok()
            .and_then(|draw| self.order.get(draw).copied());
        if let Some(bell) = victim.and_then(|id| self.remove(id)) {
            // Nobody listens any more where the session is ending by itself.
            let _ = bell.send(());
        }
    }
}

impl Place {
    /// Waits until the session has to give way.
    pub(crate) fn poll_give_way(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(bell) = &mut self.bell else {
            return Poll::Pending;
        };
        match ready!(Pin::new(bell).poll(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(_) => {
                self.bell = None;
                Poll::Pending
            }
        }
    }

    /// The session has logged in: it no longer gives way.
    pub(crate) fn settle(&mut self) {
        self.bell = None;
        if let Some(id) = self.stranger.take() {
            self.admission.strangers().remove(id);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.settle();
        self.admission.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rang(place: &mut Place) -> bool {
        place
            .poll_give_way(&mut Context::from_waker(std::task::Waker::noop()))
            .is_ready()
    }

    #[test]
    fn places_run_out_and_come_back() {
        let admission = Arc::new(Admission::default());
        let first = admission.enter(2, 10).unwrap();
        let second = admission.enter(2, 10).unwrap();
        assert!(admission.enter(2, 10).is_none());
        drop(first);
        assert_eq!(admission.sessions(), 1);
        assert!(admission.enter(2, 10).is_some());
        drop(second);
        assert_eq!(admission.sessions(), 0);
    }

    #[test]
    fn in_a_crowd_a_stranger_gives_way_and_nobody_who_logged_in() {
        let admission = Arc::new(Admission::default());
        let mut known = admission.enter(1000, 4).unwrap();
        known.settle();
        let mut crowd: Vec<Place> = (0..100)
            .map(|_| admission.enter(1000, 4).unwrap())
            .collect();
        assert!(!rang(&mut known));
        let mut staying = 0;
        for place in &mut crowd {
            staying += usize::from(!rang(place));
        }
        assert_eq!(staying, 4);
        assert!(
            !rang(crowd.last_mut().unwrap()),
            "the newest always has its chance"
        );
        drop(crowd);
        assert_eq!(admission.strangers().order.len(), 0);
    }
}

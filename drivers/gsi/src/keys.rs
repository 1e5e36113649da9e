//! `KeyPool`: RSA keys for delegation, generated ahead of need on threads of its own.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::{Arc, PoisonError, Weak};
use std::thread::{self, available_parallelism};

use gsi::key::{KeyError, KeyPair, KeySize};
use tokio::sync::{Mutex, OwnedMutexGuard, Semaphore, mpsc};

/// Number of keys of an unusual size that are generated at once.
const AT_ONCE: usize = 2;
/// Most threads: nearly all of the time of a login is that of its key, and logins come in bursts.
const THREADS: usize = 4;

/// Fresh RSA keys; each is given out once.
///
/// Threads, one for each processor and at most four, keep up to a number of keys of 2048 bits
/// ready, and end with the pool. Keys of other sizes are generated on demand, a few at once. Each
/// host has one request in the queue at a time, so that the flood of one delays no other.
pub struct KeyPool {
    ready: Mutex<mpsc::Receiver<KeyPair>>,
    others: Arc<Semaphore>,
    /// The turn of each host with a request.
    turns: std::sync::Mutex<HashMap<IpAddr, Weak<Mutex<()>>>>,
}

impl KeyPool {
    /// Starts the threads, which keep `capacity` keys ready.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn new(capacity: usize) -> std::io::Result<Self> {
        let (sender, ready) = mpsc::channel(capacity.max(1));
        let processors = available_parallelism().map_or(1, NonZero::get);
        for _ in 0..processors.min(THREADS) {
            let sender = sender.clone();
            let thread = thread::Builder::new().name("gsi-keys".to_owned());
            let _detached = thread.spawn(move || generate(&sender))?;
        }
        Ok(Self::fed_by(ready))
    }

    fn fed_by(ready: mpsc::Receiver<KeyPair>) -> Self {
        Self {
            ready: Mutex::new(ready),
            others: Arc::new(Semaphore::new(AT_ONCE)),
            turns: std::sync::Mutex::default(),
        }
    }

    /// Takes a key of at least this size for a peer of `host`, and waits for one where none is
    /// ready.
    ///
    /// # Errors
    /// The system has no randomness.
    ///
    /// # Cancel safety
    /// No key is lost.
    pub async fn take(&self, host: IpAddr, size: KeySize) -> Result<KeyPair, KeyError> {
        let turn = self.turn(host).await;
        if size == KeySize::Bits2048 {
            let key = self.ready.lock().await.recv().await;
            return key.ok_or(KeyError::Generate);
        }
        let permit = Arc::clone(&self.others).acquire_owned().await;
        let generated = tokio::task::spawn_blocking(move || {
            // Until then, also when nobody waits for the key any more.
            let _held = (turn, permit);
            KeyPair::generate(size)
        });
        generated.await.map_err(|_| KeyError::Generate)?
    }

    /// Waits until no other request of the host is in the queue.
    async fn turn(&self, host: IpAddr) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            let held = turns.entry(host).or_default();
            held.upgrade().unwrap_or_else(|| {
                let turn = Arc::default();
                *held = Arc::downgrade(&turn);
                turn
            })
        };
        turn.lock_owned().await
    }
}

/// Generates keys until the pool ends.
fn generate(ready: &mpsc::Sender<KeyPair>) {
    while let Ok(key) = KeyPair::generate(KeySize::Bits2048) {
        // Waits for room.
        if ready.blocking_send(key).is_err() {
            return;
        }
    }
}

impl fmt::Debug for KeyPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPool")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test]
    async fn each_key_is_given_out_once() {
        let pool = KeyPool::new(1).unwrap();
        let first = pool.take(HOST, KeySize::Bits2048).await.unwrap();
        let second = pool.take(HOST, KeySize::Bits2048).await.unwrap();
        assert_ne!(first.public_key(), second.public_key());
    }

    #[tokio::test]
    async fn unusual_sizes_are_generated_on_demand() {
        let pool = KeyPool::new(1).unwrap();
        let key = pool.take(HOST, KeySize::Bits3072).await.unwrap();
        // The modulus alone has 384 bytes.
        assert!(key.public_key().len() > 384);
    }

    /// Row 24 of the hostile input: the requests of one host do not keep those of others waiting.
    #[tokio::test]
    async fn hosts_get_keys_in_turn() {
        let (feed, ready) = mpsc::channel(1);
        let pool = Arc::new(KeyPool::fed_by(ready));
        let (told, mut served) = mpsc::unbounded_channel();
        let hosts = [1, 1, 1, 2, 3].map(|last| IpAddr::from([192, 0, 2, last]));
        for host in hosts {
            let (pool, told) = (Arc::clone(&pool), told.clone());
            tokio::spawn(async move {
                let key = pool.take(host, KeySize::Bits2048).await;
                told.send((host, key.is_ok())).unwrap();
            });
            tokio::task::yield_now().await;
        }
        let key = KeyPair::generate(KeySize::Bits2048).unwrap();
        for last in [1, 2, 3, 1, 1] {
            feed.send(key.clone()).await.unwrap();
            let host = IpAddr::from([192, 0, 2, last]);
            assert_eq!(served.recv().await, Some((host, true)));
        }
        assert!(pool.turns.lock().unwrap().len() <= 3);
    }
}

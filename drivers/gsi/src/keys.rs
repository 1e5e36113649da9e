//! `KeyPool`: RSA keys for delegation, generated ahead of need on threads of its own.

use std::fmt;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::{self, available_parallelism};

use gsi::key::{KeyError, KeyPair, KeySize};
use tokio::sync::{Mutex, Semaphore, mpsc};

/// Number of keys of an unusual size that are generated at once.
const AT_ONCE: usize = 2;
/// Most threads: nearly all of the time of a login is that of its key, and logins come in bursts.
const THREADS: usize = 4;

/// Fresh RSA keys; each is given out once.
///
/// Threads, one for each processor and at most four, keep up to a number of keys of 2048 bits
/// ready, and end with the pool. Keys of other sizes are generated on demand, a few at once.
pub struct KeyPool {
    ready: Mutex<mpsc::Receiver<KeyPair>>,
    others: Arc<Semaphore>,
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
        Ok(Self {
            ready: Mutex::new(ready),
            others: Arc::new(Semaphore::new(AT_ONCE)),
        })
    }

    /// Takes a key of at least this size, and waits for one where none is ready.
    ///
    /// # Errors
    /// The system has no randomness.
    ///
    /// # Cancel safety
    /// No key is lost.
    pub async fn take(&self, size: KeySize) -> Result<KeyPair, KeyError> {
        if size == KeySize::Bits2048 {
            let key = self.ready.lock().await.recv().await;
            return key.ok_or(KeyError::Generate);
        }
        let permit = Arc::clone(&self.others).acquire_owned().await;
        let generated = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            KeyPair::generate(size)
        });
        generated.await.map_err(|_| KeyError::Generate)?
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

    #[tokio::test]
    async fn each_key_is_given_out_once() {
        let pool = KeyPool::new(1).unwrap();
        let first = pool.take(KeySize::Bits2048).await.unwrap();
        let second = pool.take(KeySize::Bits2048).await.unwrap();
        assert_ne!(first.public_key(), second.public_key());
    }

    #[tokio::test]
    async fn unusual_sizes_are_generated_on_demand() {
        let pool = KeyPool::new(1).unwrap();
        let key = pool.take(KeySize::Bits3072).await.unwrap();
        // The modulus alone has 384 bytes.
        assert!(key.public_key().len() > 384);
    }
}

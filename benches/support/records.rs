//! Speed of AES-GCM on one core, in records of TLS, by the library of our drivers.

use std::time::Duration;

use anyhow::{Result, anyhow};
use aws_lc_rs::aead::{Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};

use crate::usage::cpu_of_thread;

/// Payload of a full record (RFC 8446 §5.1).
const RECORD: usize = 16 * 1024;
/// Records that are sealed and then opened: as many as stay in the cache of a core.
const BATCH: usize = 32;
/// Time of a measurement.
const TIME: Duration = Duration::from_millis(500);

/// Bytes of payload per second of processor time.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Speed {
    /// Encrypted and authenticated.
    pub sealing: f64,
    /// Verified and decrypted.
    pub opening: f64,
}

impl Speed {
    /// Measures for half a second.
    pub fn of(algorithm: &'static Algorithm) -> Result<Self> {
        let failed = |_| anyhow!("AWS-LC refuses to encrypt");
        let key = UnboundKey::new(algorithm, &vec![7; algorithm.key_len()]).map_err(failed)?;
        let key = LessSafeKey::new(key);
        let sealed_len = RECORD + algorithm.tag_len();
        let mut records = vec![vec![7; sealed_len]; BATCH];
        let (mut sealing, mut opening) = (Duration::ZERO, Duration::ZERO);
        let mut batches = 0_u32;
        while sealing + opening < TIME {
            let began = cpu_of_thread();
            for (record, number) in records.iter_mut().zip(0..) {
                let (payload, tag) = record.split_at_mut(RECORD);
                let made = key.seal_in_place_separate_tag(nonce(batches, number), aad(), payload);
                tag.copy_from_slice(made.map_err(failed)?.as_ref());
            }
            let between = cpu_of_thread();
            sealing += between - began;
            for (record, number) in records.iter_mut().zip(0..) {
                let opened = key.open_in_place(nonce(batches, number), aad(), record);
                opened.map_err(failed)?;
            }
            opening += cpu_of_thread() - between;
            batches += 1;
        }
        let bytes = f64::from(batches) * f64::from(u32::try_from(BATCH * RECORD)?);
        Ok(Self {
            sealing: bytes / sealing.as_secs_f64(),
            opening: bytes / opening.as_secs_f64(),
        })
    }
}

fn nonce(batch: u32, number: u32) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&batch.to_le_bytes());
    nonce[4..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// The header of a record.
fn aad() -> Aad<[u8; 5]> {
    Aad::from([0; 5])
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM};

    use super::*;

    #[test]
    fn every_key_length_is_measured() -> Result<()> {
        for algorithm in [&AES_128_GCM, &AES_256_GCM] {
            let speed = Speed::of(algorithm)?;
            assert!(speed.sealing > 0.0 && speed.opening > 0.0, "{speed:?}");
        }
        Ok(())
    }
}

//! Digests of objects, computed from their bytes.
//!
//! The entity tag of an object is no digest that one can rely on: it depends on the parts and on
//! the encryption, and the store does not say which.

use std::sync::Arc;

use bytes::Bytes;
use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::{
    ChecksumAlgorithm, DsiPath, Error, ErrorKind, Finish, Progress, Result, Source as _,
};
use md5::{Digest as _, Md5};
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::error::{of, refused};
use crate::source::ObjectSource;
use crate::store::Store;

/// The digest of `length` bytes of an object from `offset` on.
pub(crate) async fn of_source(
    source: &ObjectSource,
    algorithm: ChecksumAlgorithm,
    (offset, length): (u64, Option<u64>),
    path: &DsiPath,
    progress: &Progress,
) -> Result<String> {
    let mut hasher = Hasher::new(algorithm)
        .ok_or_else(|| Error::new(ErrorKind::Unsupported, "checksum").at(path))?;
    let mut at = offset;
    let end = length.map_or(u64::MAX, |length| offset.saturating_add(length));
    while at < end {
        let bytes = source.lend(at, end - at).await?;
        if bytes.is_empty() {
            break;
        }
        at += bytes.len() as u64;
        progress.add(bytes.len() as u64);
        let hashing = tokio::task::spawn_blocking(move || {
            hasher.update(&bytes);
            hasher
        });
        let failed = |error| refused(ErrorKind::Io, "checksum", path, error);
        hasher = hashing.await.map_err(failed)?;
    }
    source.unchanged().await?;
    Ok(hasher.finish())
}

/// Compares a digest with the expected one.
pub(crate) fn compare(path: &DsiPath, digest: &str, expected: &str) -> Result<()> {
    if digest.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    let why = format!("the digest is {digest}, not {expected}");
    Err(refused(ErrorKind::Mismatch, "publish", path, why))
}

/// Checks the expected digest of an object in memory, before it is published.
pub(crate) async fn check(path: &DsiPath, data: Bytes, done: &Finish) -> Result<()> {
    let Some((algorithm, expected)) = &done.checksum else {
        return Ok(());
    };
    let mut hasher = Hasher::new(*algorithm)
        .ok_or_else(|| Error::new(ErrorKind::Unsupported, "publish").at(path))?;
    let hashing = tokio::task::spawn_blocking(move || {
        hasher.update(&data);
        hasher.finish()
    });
    let digest = hashing.await;
    let digest = digest.map_err(|error| refused(ErrorKind::Io, "publish", path, error))?;
    compare(path, &digest, expected)
}

/// Checks the expected digest of an object of parts, which are readable only together and
/// published under `tag`: it is removed if it has another digest. An object that another client has
/// put there since is neither checked nor removed.
pub(crate) async fn check_published(
    store: &Arc<Store>,
    path: &DsiPath,
    key: &Path,
    tag: Option<&str>,
    done: &Finish,
) -> Result<()> {
    let Some((algorithm, expected)) = &done.checksum else {
        return Ok(());
    };
    let failed = |error| of("publish", path, error);
    let now = store.head(key).await.map_err(failed)?;
    let Some(meta) = now.filter(|now| tag.is_none_or(|tag| has_tag(now, tag))) else {
        let why = "another client replaced or removed the object before its digest was known";
        return Err(refused(ErrorKind::Changed, "publish", path, why));
    };
    let source = ObjectSource::new(store, "", path, meta.clone());
    let digest = of_source(&source, *algorithm, (0, None), path, &Progress::new()).await?;
    let compared = compare(path, &digest, expected);
    if compared.is_err() {
        store.remove_same(vec![meta]).await.map_err(failed)?;
    }
    compared
}

/// Whether an object has this entity tag, which some services write without quotes in some replies.
fn has_tag(object: &ObjectMeta, tag: &str) -> bool {
    let bare = |tag: &str| tag.trim_start_matches("W/").trim_matches('"').to_owned();
    let own = object.e_tag.as_deref();
    own.is_some_and(|own| bare(own) == bare(tag))
}

/// The entity tag that S3 gives an object of these parts, if their tags are digests.
pub(crate) fn tag_of(parts: &[String]) -> Option<String> {
    let mut digests = Md5::new();
    for part in parts {
        let hex = part.trim_matches('"').as_bytes();
        if hex.len() != 32 {
            return None;
        }
        for pair in hex.chunks(2) {
            let pair = std::str::from_utf8(pair).ok()?;
            digests.update([u8::from_str_radix(pair, 16).ok()?]);
        }
    }
    let hex: String = digests
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Some(format!("\"{hex}-{}\"", parts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_parts_is_that_of_s3() {
        // MD5 of the two binary digests of "a" and "b".
        let parts = [
            "\"0cc175b9c0f1b6a831c399e269772661\"",
            "\"92eb5ffee6ae2fec3ad71c777531578f\"",
        ];
        let tag = tag_of(&parts.map(str::to_owned)).unwrap();
        assert!(tag.starts_with('"') && tag.ends_with("-2\""), "{tag}");
        assert_eq!(tag.len(), 36);
        assert_eq!(tag_of(&["<PartMetadata>".to_owned()]), None);
    }
}

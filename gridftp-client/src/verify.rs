//! Digests of local files, streaming, and the error for copies that differ.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::checksum::Hasher;

use crate::error::TransferError;

/// Bytes hashed between two reads.
const PIECE: usize = 256 * 1024;

/// Hashes a part of a local file, to its end when `length` is `None`; lower-case hexadecimal.
///
/// # Errors
/// When it cannot be read, or the algorithm is not known here.
///
/// # Cancel safety
/// Dropping the future leaves the hashing to end by itself.
pub async fn local(
    path: &Path,
    algorithm: ChecksumAlgorithm,
    offset: u64,
    length: Option<u64>,
) -> Result<String, TransferError> {
    let open = path.to_owned();
    let work = tokio::task::spawn_blocking(move || hash(&open, algorithm, offset, length));
    let done = work
        .await
        .map_err(std::io::Error::other)
        .and_then(|done| done);
    done.map_err(|error| TransferError::local("hash", path.as_os_str().as_bytes(), error))
}

fn hash(
    path: &Path,
    algorithm: ChecksumAlgorithm,
    offset: u64,
    length: Option<u64>,
) -> std::io::Result<String> {
    let mut hasher = Hasher::new(algorithm)
        .ok_or_else(|| std::io::Error::other(format!("{} is not known here", algorithm.name())))?;
    let mut file = File::open(path)?;
    if offset > 0 {
        file.seek(SeekFrom::Start(offset))?;
    }
    let mut from = file.take(length.unwrap_or(u64::MAX));
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(hasher.finish()),
            Ok(n) => hasher.update(piece.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The error for a copy whose digest is another than its source's.
pub(crate) fn mismatch(
    path: String,
    algorithm: ChecksumAlgorithm,
    source: &str,
    copy: &str,
) -> TransferError {
    TransferError::Mismatch {
        path,
        algorithm: algorithm.name().to_owned(),
        source: source.to_owned(),
        copy: copy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hashes_the_asked_part() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"..abc..").unwrap();
        let md5 = |offset, length| local(&path, ChecksumAlgorithm::Md5, offset, length);
        assert_eq!(
            md5(2, Some(3)).await.unwrap(),
            "900150983cd24fb0d6963f7d28e17f72"
        );
        assert_eq!(
            md5(7, None).await.unwrap(),
            "d41d8cd98f00b204e9800998ecf8427e"
        );
        assert!(
            local(Path::new("/nowhere"), ChecksumAlgorithm::Md5, 0, None)
                .await
                .is_err()
        );
    }
}

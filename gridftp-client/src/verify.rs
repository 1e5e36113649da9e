//! Digests of local files, streaming, and of servers' files, and the error for copies that differ.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use ftp_proto::client::FailureKind;
use ftp_wire::command::Command;
use ftp_wire::opts::Opts;
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Receipt;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::checksum::Hasher;

use crate::control::{Control, Replies};
use crate::copy::Digest;
use crate::error::{ControlError, TransferError};

/// Bytes hashed between two reads.
const PIECE: usize = 256 * 1024;

/// Seconds between a server's markers while it hashes.
const SIGN_OF_LIFE: u32 = 10;

/// Asks a server to hash a part of a file, to its end when `length` is `None`; it is to give a sign
/// of life meanwhile, if it knows how.
pub(crate) fn ask(
    control: &Control,
    algorithm: ChecksumAlgorithm,
    offset: u64,
    length: Option<u64>,
    path: FtpPath,
) -> Replies {
    if !control.hashed.swap(true, Ordering::Relaxed) {
        let markers = SIGN_OF_LIFE;
        drop(control.send(Command::Opts(Opts::Cksm { markers })));
    }
    control.send(Command::Cksm {
        algorithm: algorithm.name().to_owned(),
        offset,
        length,
        path,
    })
}

/// Reads the size of a stored file and checks that it is in `expected`: in MODE S a connection that
/// was cut off looks to the server like the end of the file.
///
/// A server that does not tell is believed. One that is gone may have been cut off with the data.
///
/// # Errors
/// When the file has another size, or the session is gone.
pub(crate) async fn stored(
    size: &mut Replies,
    expected: RangeInclusive<u64>,
    path: impl FnOnce() -> String,
) -> Result<(), TransferError> {
    match size.size().await? {
        Some(got) if !expected.contains(&got) => Err(TransferError::Size {
            path: path(),
            expected: *expected.start(),
            got,
        }),
        _ => Ok(()),
    }
}

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

/// Algorithms that prove two files to be the same, the strongest first.
pub(crate) const PROOFS: [ChecksumAlgorithm; 5] = [
    ChecksumAlgorithm::Blake3,
    ChecksumAlgorithm::Sha256,
    ChecksumAlgorithm::Sha512,
    ChecksumAlgorithm::Sha1,
    ChecksumAlgorithm::Md5,
];

/// Algorithms that only find accidents, the strongest first.
pub(crate) const CHECKS: [ChecksumAlgorithm; 2] =
    [ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Adler32];

/// The digest of a file that a server was asked for.
pub(crate) struct DigestQuery {
    algorithm: ChecksumAlgorithm,
    replies: Replies,
    /// Whether success depends on it; else a refusal proves nothing and is no failure.
    is_needed: bool,
}

impl DigestQuery {
    /// Asks for the digest of a part of a file: with the `needed` algorithm, or else with that of
    /// the `optional` one, or not at all.
    pub(crate) fn send(
        control: &Control,
        needed: Option<ChecksumAlgorithm>,
        optional: Option<ChecksumAlgorithm>,
        (offset, length): (u64, Option<u64>),
        path: FtpPath,
    ) -> Option<Self> {
        let algorithm = needed.or(optional)?;
        Some(Self {
            algorithm,
            replies: ask(control, algorithm, offset, length, path),
            is_needed: needed.is_some(),
        })
    }

    /// The algorithm of the digest.
    pub(crate) fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    /// Whether success depends on it.
    pub(crate) fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// The server's digest; `None` where it refused one that success does not depend on.
    ///
    /// # Errors
    /// When the server refuses it, or is gone.
    pub(crate) async fn digest(mut self) -> Result<Option<Digest>, TransferError> {
        match self.replies.digest().await {
            Ok(digest) => Ok(Some((self.algorithm, digest))),
            Err(error) if !self.is_needed && is_refusal(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Says whether a server gives no digests of a file, to this user or at all.
fn is_refusal(error: &ControlError) -> bool {
    let kind = error.reply().map(FailureKind::of);
    matches!(kind, Some(FailureKind::Unsupported | FailureKind::Denied))
}

/// Compares the receipts of both ends of a tagged transfer; returns the digest that they agree on,
/// which no end has where the bytes came in too many pieces.
///
/// # Errors
/// When they differ.
pub(crate) fn receipt(
    sent: &Receipt,
    taken: &Receipt,
    path: impl FnOnce() -> String,
) -> Result<Option<Digest>, TransferError> {
    match (sent.blake3, taken.blake3) {
        _ if sent.bytes != taken.bytes => Err(TransferError::Size {
            path: path(),
            expected: sent.bytes,
            got: taken.bytes,
        }),
        (Some(here), Some(there)) if here != there => {
            let [here, there] = [here, there].map(|digest| hex(&digest));
            Err(mismatch(path(), ChecksumAlgorithm::Blake3, &here, &there))
        }
        (Some(here), Some(_)) => Ok(Some((ChecksumAlgorithm::Blake3, hex(&here)))),
        (None, _) | (_, None) => Ok(None),
    }
}

/// A digest in hexadecimal, in lower case.
fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The error for a copy with another digest than its source.
pub(crate) fn mismatch(
    path: String,
    algorithm: ChecksumAlgorithm,
    source: &str,
    copy: &str,
) -> TransferError {
    TransferError::Mismatch {
        path,
        algorithm: algorithm.name().to_owned(),
        original: source.to_owned(),
        copy: copy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ftp_proto::client::Settings;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::played;

    #[tokio::test]
    async fn a_server_is_asked_for_signs_of_life_while_it_hashes() {
        let (control, mut banner, mut far) = played::connect(Settings::default());
        far.write_all(b"220 ready\r\n").await.unwrap();
        banner.finish().await.unwrap();
        let path = FtpPath::new(b"/file".to_vec()).unwrap();
        let mut replies = ask(&control, ChecksumAlgorithm::Md5, 0, None, path);
        let server = async {
            let mut lines = [0; 44];
            far.read_exact(&mut lines).await.unwrap();
            assert_eq!(&lines, b"OPTS CKSM markers=10;\r\nCKSM MD5 0 -1 /file\r\n");
            far.write_all(b"200 so be it\r\n").await.unwrap();
            let marker = b"113-Status Marker\r\n Bytes Processed: 9\r\n113 End.\r\n";
            far.write_all(marker).await.unwrap();
            far.write_all(b"213 900150983cd24fb0d6963f7d28e17f72\r\n")
                .await
                .unwrap();
        };
        let (digest, ()) = tokio::join!(replies.digest(), server);
        assert_eq!(digest.unwrap(), "900150983cd24fb0d6963f7d28e17f72");
    }

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

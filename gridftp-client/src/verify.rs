//! Digests of local files, streaming, and of servers' files, and the error for copies that differ.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use ftp_wire::command::Command;
use ftp_wire::opts::Opts;
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Receipt;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::checksum::Hasher;

use crate::abilities::Abilities;
use crate::control::{Control, Replies};
use crate::copy::Digest;
use crate::error::TransferError;

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
/// A server that does not tell is believed; says whether it told. One that is gone may have been
/// cut off with the data.
///
/// # Errors
/// When the file has another size, or the session is gone.
pub(crate) async fn stored(
    size: &mut Replies,
    expected: RangeInclusive<u64>,
    path: impl FnOnce() -> String,
) -> Result<bool, TransferError> {
    match size.size().await? {
        Some(got) if !expected.contains(&got) => Err(TransferError::Size {
            path: path(),
            expected: *expected.start(),
            got,
        }),
        told => Ok(told.is_some()),
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

/// Algorithms in the order in which they are taken where they cost about the same: the strong ones
/// that processors help with, then one that misses no accident, and the weakest last.
const PREFERRED: [ChecksumAlgorithm; 7] = [
    ChecksumAlgorithm::Blake3,
    ChecksumAlgorithm::Sha256,
    ChecksumAlgorithm::Crc32c,
    ChecksumAlgorithm::Sha512,
    ChecksumAlgorithm::Sha1,
    ChecksumAlgorithm::Md5,
    ChecksumAlgorithm::Adler32,
];

/// Cost by which an algorithm may exceed the cheapest one of a server and still be preferred: the
/// width of a class of costs, so that a digest which is stored there wins over one that is computed.
const LITTLE: u32 = 4;

/// The algorithm to compare stored files with where none is named: the first of those that the
/// servers know and that cost little more than the cheapest.
pub(crate) fn cheap(servers: &[&Abilities]) -> Option<ChecksumAlgorithm> {
    best(&PREFERRED, servers)
}

/// As [`cheap`], of the algorithms that prove two files to be the same.
pub(crate) fn cheap_proof(servers: &[&Abilities]) -> Option<ChecksumAlgorithm> {
    best(&PROOFS, servers)
}

fn best(algorithms: &[ChecksumAlgorithm], servers: &[&Abilities]) -> Option<ChecksumAlgorithm> {
    let cost = |algorithm: &ChecksumAlgorithm| {
        let mut costs = servers.iter().map(|server| server.cost(*algorithm));
        costs.try_fold(0_u32, |all, cost| Some(all.saturating_add(cost?)))
    };
    let Some(lowest) = algorithms.iter().filter_map(cost).min() else {
        let all = servers
            .iter()
            .all(|server| server.knows(ChecksumAlgorithm::Md5));
        return all.then_some(ChecksumAlgorithm::Md5);
    };
    let slack = LITTLE * u32::try_from(servers.len()).unwrap_or(1);
    let most = lowest.saturating_add(slack);
    let fits = |algorithm: &ChecksumAlgorithm| cost(algorithm).is_some_and(|cost| cost <= most);
    algorithms.iter().copied().find(fits)
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

/// Says whether `digest` is the one that was computed, with BLAKE3.
pub(crate) fn is(digest: &Digest, computed: Option<&str>) -> bool {
    let (algorithm, told) = digest;
    let is_equal = |computed: &str| computed.eq_ignore_ascii_case(told);
    *algorithm == ChecksumAlgorithm::Blake3 && computed.is_some_and(is_equal)
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
            let marker =
                b"113-Status Marker\r\n Timestamp: 1.5\r\n Bytes Processed: 9\r\n113 End.\r\n";
            far.write_all(marker).await.unwrap();
            far.write_all(b"213 900150983cd24fb0d6963f7d28e17f72\r\n")
                .await
                .unwrap();
        };
        let mut told = Vec::new();
        let (digest, ()) = tokio::join!(replies.digest(|bytes| told.push(bytes)), server);
        assert_eq!(digest.unwrap(), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(told, [9]);
    }

    #[test]
    fn a_weak_digest_is_taken_only_where_others_cost_much_more() {
        use ChecksumAlgorithm::{Adler32, Blake3, Crc32c, Md5, Sha1, Sha256, Sha512};
        let server = |checksums: &[(ChecksumAlgorithm, u32)]| Abilities {
            checksums: checksums.to_vec(),
            ..Abilities::default()
        };
        let globus = [
            (Md5, 10),
            (Adler32, 10),
            (Sha1, 10),
            (Sha256, 11),
            (Sha512, 12),
        ];
        for (servers, taken) in [
            (vec![server(&globus)], Some(Sha256)),
            (vec![server(&[(Adler32, 10), (Crc32c, 12)])], Some(Crc32c)),
            (vec![server(&[(Adler32, 10), (Md5, 14)])], Some(Md5)),
            (vec![server(&[(Adler32, 1), (Md5, 10)])], Some(Adler32)),
            (
                vec![server(&globus), server(&[(Adler32, 10), (Blake3, 5)])],
                Some(Adler32),
            ),
            (vec![server(&globus), server(&[])], Some(Md5)),
            (vec![server(&[(Sha256, 1)]), server(&[(Blake3, 1)])], None),
            (vec![server(&[(Sha256, u32::MAX)]); 2], Some(Sha256)),
        ] {
            let ends: Vec<_> = servers.iter().collect();
            assert_eq!(cheap(&ends), taken, "{servers:?}");
        }
        let weak = server(&[(Adler32, 1), (Md5, 10), (Sha256, 12)]);
        assert_eq!(cheap_proof(&[&weak]), Some(Sha256));
        assert_eq!(cheap_proof(&[&server(&[(Adler32, 1)])]), None);
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

//! Requests for digests of stored files (`CKSM`), and the list of servers without them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ftp_proto::client::FailureKind;
use ftp_wire::command::Command;
use ftp_wire::path::FtpPath;
use gridftp_dsi::types::ChecksumAlgorithm::{self, Adler32, Crc32c};

use super::admission::Server;
use super::job::FileJob;
use super::kept::Digest;
use super::lock;
use super::state::CopyState;
use crate::control::{Control, Replies};
use crate::error::{ControlError, Text, TransferError};
use crate::options::Verify;
use crate::progress::{Hashing, Verification};
use crate::verify;

/// A pending request for the digest of a stored file.
pub(crate) struct DigestQuery {
    algorithm: ChecksumAlgorithm,
    replies: Replies,
    /// Whether the copy fails without the digest; else a refusal is no failure.
    is_needed: bool,
}

/// Servers of a copy without digests, each with the reason: at most two.
#[derive(Debug, Default)]
pub(crate) struct Undigested {
    sites: Mutex<Vec<(Arc<str>, String)>>,
    /// Whether a session was lost over a `CKSM`.
    lost: AtomicBool,
    /// Whether the warning was printed.
    told: AtomicBool,
}

impl Undigested {
    /// Returns whether a server is listed.
    fn has(&self, site: &str) -> bool {
        lock(&self.sites).iter().any(|(known, _)| **known == *site)
    }

    /// Adds a server with the reason, once.
    pub(super) fn note(&self, site: &str, why: impl FnOnce() -> String) {
        let mut sites = lock(&self.sites);
        if !sites.iter().any(|(known, _)| **known == *site) {
            sites.push((site.into(), why()));
        }
    }
}

impl CopyState {
    /// The algorithm for digests of the stored files behind a transfer without receipts, when the
    /// user asks for none and all `servers` offer digests. Both ends read the file again for it.
    pub(crate) fn without_receipt(&self, servers: &[Server<'_>]) -> Option<ChecksumAlgorithm> {
        if self.options.verify != Verify::Auto || self.through_layers() {
            return None;
        }
        let mut all = true;
        for (control, abilities) in servers {
            if !abilities.cksm {
                let why = || "it offers no digests of files (CKSM)".to_owned();
                self.undigested.note(control.site(), why);
            }
            all &= !self.is_undigested(control);
        }
        let abilities: Vec<_> = servers.iter().map(|(_, abilities)| *abilities).collect();
        let algorithm = all.then(|| verify::cheap(&abilities)).flatten();
        if let (true, None, Some((control, _))) = (all, algorithm, servers.first()) {
            let why = || "there is no digest that both ends can compute".to_owned();
            self.undigested.note(control.site(), why);
        }
        algorithm
    }

    /// Returns whether a server is known to have no digests.
    pub(crate) fn is_undigested(&self, control: &Control) -> bool {
        self.undigested.has(control.site())
    }

    /// Judges the failure of an optional digest; returns whether the copy may be published as at a
    /// server without digests.
    ///
    /// A server that does not reply, or that ends a second session over `CKSM`, is not asked again.
    pub(crate) fn does_without(&self, error: &ControlError) -> bool {
        let (site, why) = match error {
            ControlError::Refused { site, reply, .. } => {
                let kind = FailureKind::of(reply);
                // A Globus server answers 500 to all that fails, in several lines.
                if kind == FailureKind::Unsupported && reply.lines().len() == 1 {
                    (site, format!("CKSM: {}", Text(reply)))
                } else {
                    return kind != FailureKind::NotFound;
                }
            }
            ControlError::Misbehaved { site, .. } => {
                (site, "its reply to CKSM has no digest".to_owned())
            }
            ControlError::Lost { site, why, .. } => {
                let again = self.undigested.lost.swap(true, Ordering::Relaxed);
                if !again && !why.contains("no reply in time") {
                    return false;
                }
                (site, format!("CKSM: {why}"))
            }
        };
        self.undigested.note(site, || why);
        true
    }

    /// Warns once that copies are published without a digest.
    pub(crate) fn tell_undigested(&self, verification: Verification) {
        if self.options.verify != Verify::Auto
            || verification == Verification::Digest
            || self.undigested.told.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let by = match verification {
            Verification::Size => "copies are compared by size only",
            _ => "copies are not compared with their sources",
        };
        if self.through_layers() {
            return self.warn(&format!("--disk-stack: {by}"));
        }
        let sites = lock(&self.undigested.sites).clone();
        match sites.is_empty() {
            true => self.warn(&format!("no digest is to be had of some files: {by}")),
            false => {
                for (site, why) in sites {
                    self.warn(&format!("{site}: {why}: {by}"));
                }
            }
        }
    }
}

impl CopyState {
    /// Removes a whole copy under its final name after a digest mismatch. What has the name at the
    /// next attempt is then another client's.
    pub(crate) async fn remove_bad(
        &self,
        control: &Control,
        job: &mut FileJob,
        error: &TransferError,
    ) {
        let is_bad = matches!(error, TransferError::Mismatch { .. });
        if !is_bad || job.hidden.is_some() || self.is_partial() {
            return;
        }
        let Some(path) = control.path(&job.to) else {
            return;
        };
        let copy = self.name_destination(job);
        match control.send(Command::Dele(path)).finish().await {
            Ok(_) => {
                job.placed = false;
                self.warn(&format!("{copy}: removed, it differs from its source"));
            }
            Err(error) => self.warn(&format!("{copy}: differs from its source: {error}")),
        }
    }
}

impl DigestQuery {
    /// Requests the digest of a part of a file, with the `needed` algorithm or else the `optional`
    /// one; `None` without either.
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
            replies: verify::ask(control, algorithm, offset, length, path),
            is_needed: needed.is_some(),
        })
    }

    /// The algorithm of the digest.
    pub(crate) fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    /// Whether the copy fails without the digest.
    pub(crate) fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// Receives the digest of a file of `size` bytes; `None` when an optional one is refused.
    ///
    /// # Errors
    /// When the server refuses it, or is gone.
    pub(crate) async fn digest(
        mut self,
        shared: &CopyState,
        size: Option<u64>,
    ) -> Result<Option<Digest>, TransferError> {
        let mut hashing = Hashing::new(&shared.totals, size);
        match self.replies.digest(|bytes| hashing.note(bytes)).await {
            Ok(digest) => Ok(Some((self.algorithm, padded(self.algorithm, digest)))),
            Err(error) if !self.is_needed && shared.does_without(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Restores the leading zeros of a checksum of 32 bits, which some servers leave out.
pub(super) fn padded(algorithm: ChecksumAlgorithm, digest: String) -> String {
    match algorithm {
        Adler32 | Crc32c => format!("{digest:0>8}"),
        _ => digest,
    }
}

#[cfg(test)]
mod tests {
    use ftp_proto::client::Settings;
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::played;

    #[test]
    fn short_checksums_are_padded() {
        assert_eq!(padded(Adler32, "2a".to_owned()), "0000002a");
        assert_eq!(padded(Crc32c, "123456789".to_owned()), "123456789");
        assert_eq!(padded(ChecksumAlgorithm::Md5, "2a".to_owned()), "2a");
    }

    #[test]
    fn a_session_may_end_over_a_digest_once() {
        let shared = CopyState::plain();
        let lost = |why: &str| ControlError::Lost {
            site: "host:21".to_owned(),
            command: "CKSM".to_owned(),
            why: why.to_owned(),
        };
        assert!(!shared.does_without(&lost("reset")));
        assert!(!shared.undigested.has("host:21"));
        assert!(shared.does_without(&lost("reset")));
        assert!(shared.undigested.has("host:21"));
        let silent = CopyState::plain();
        let why = "control channel: CKSM: no reply in time";
        assert!(silent.does_without(&lost(why)) && silent.undigested.has("host:21"));
    }

    /// A server that told of a part, and is silent then.
    #[tokio::test(start_paused = true)]
    async fn a_copy_stands_without_a_digest_that_never_comes() {
        const MARKER: &[u8] =
            b"113-Status Marker\r\n Timestamp: 1.5\r\n Bytes Processed: 43\r\n113 End.\r\n";
        let shared = CopyState::plain();
        let hashed = || {
            let counts = shared.totals.counts();
            (counts.bytes_hashed, counts.bytes_hashing)
        };
        let (control, mut lines, mut far) = played::greeted(Settings::default()).await;
        let path = FtpPath::new(b"/file".to_vec()).unwrap();
        let asked = DigestQuery::send(&control, None, Some(Adler32), (0, None), path).unwrap();
        let server = async {
            for reply in [&b"200 so be it\r\n"[..], MARKER] {
                lines.next_line().await.unwrap();
                far.write_all(reply).await.unwrap();
            }
            while hashed() == (0, 0) {
                tokio::task::yield_now().await;
            }
            assert_eq!(hashed(), (43, 100));
            std::future::pending().await
        };
        let told = tokio::select! {
            told = asked.digest(&shared, Some(100)) => told,
            () = server => panic!("the server says no more"),
        };
        assert!(matches!(told, Ok(None)), "{told:?}");
        assert!(shared.is_undigested(&control));
        assert_eq!(hashed(), (0, 0));
    }
}

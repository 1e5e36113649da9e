//! The modules of ERET and ESTO: archives, and regions with a digest.

use std::future::Future;
use std::sync::Arc;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use ftp_proto::modules::{RetrieveModule, StoreModule};
use ftp_proto::types::Placement;
use ftp_wire::command::Type;
use gridftp_dsi::{ChecksumAlgorithm, Dsi, DsiPath, ErrorKind, Sink, Source};
use gridftp_dsi_posix::checksum::Hasher;
use tokio::task::JoinSet;

use super::mover::Moved;
use super::{Context, Mover, Store};
use crate::archive::Archive;
use crate::error::Error;

/// Bytes that are hashed at a time.
const BLOCK: usize = 256 << 10;

/// A digest in words of the wire: the name of its algorithm, and hexadecimal digits.
#[derive(Debug)]
pub(crate) struct Digest {
    pub(crate) algorithm: String,
    pub(crate) hex: String,
}

impl<D: Dsi> Mover<'_, D> {
    /// Sends the output of a module.
    ///
    /// # Errors
    /// As [`retrieve`](Self::retrieve).
    pub(super) async fn retrieve_by(
        &mut self,
        path: &DsiPath,
        module: RetrieveModule,
    ) -> Result<Moved, Error> {
        if self.side.disk.is_some() {
            return Err(Error::NotThroughLayers);
        }
        match module {
            RetrieveModule::Tar => {
                let opening = Archive::open(&self.context.shared.dsi, self.context.user, path);
                let archive = self.context.reporter.run_quietly(opening).await?;
                // Within the time of one piece of the archive.
                let stall = self.side.channel.options_mut().stall;
                let mut archive = archive.waiting(stall / 2);
                self.send_all(&mut archive).await.map(Moved::from)
            }
            RetrieveModule::Checksum {
                algorithm,
                offset,
                length,
            } => {
                let (bytes, hex) = self
                    .retrieve_hashed(path, &algorithm, offset, length)
                    .await?;
                let digest = Some(Digest { algorithm, hex });
                Ok(Moved {
                    digest,
                    ..Moved::from(bytes)
                })
            }
        }
    }

    /// Sends a region of a file and hashes it meanwhile.
    async fn retrieve_hashed(
        &mut self,
        path: &DsiPath,
        algorithm: &str,
        offset: u64,
        length: Option<u64>,
    ) -> Result<(u64, String), Error> {
        let hasher = hasher(algorithm)?;
        let reading = self.context.shared.dsi.read(self.context.user, path);
        let source = Arc::new(self.context.reporter.run_patiently(reading).await?);
        let end = length.map_or(u64::MAX, |length| offset.saturating_add(length));
        let region = Range64::new(offset, end.min(source.size()));
        let ranges: RangeSet = region.into_iter().collect();
        let plan = self.plan(Type::Image, ranges).base(offset);
        let mut hashing = JoinSet::new();
        // A task of its own, which the end of the transfer ends: hashing delays no block.
        hashing.spawn({
            let source = Arc::clone(&source);
            async move {
                let digest = hash(hasher, region, &Sent(&*source)).await?;
                // The bytes that were sent are those that were hashed.
                source.unchanged().await.map(|()| digest)
            }
        });
        let sending = self.side.channel.send(&*source, &plan, self.context.watch);
        let both = async {
            let sent = sending.await?;
            match hashing.join_next().await {
                Some(Ok(digest)) => Ok::<_, Error>((sent.bytes, digest?)),
                _ => Err(gridftp_dsi::Error::new(ErrorKind::Io, "hash").into()),
            }
        };
        let recorded = |_| std::future::ready(Ok(()));
        self.context
            .reporter
            .run(self.context.watch, both, recorded)
            .await
    }

    /// Stores the input of a module.
    ///
    /// # Errors
    /// As [`store`](Self::store), and `Mismatch` for another digest than the told one.
    pub(super) async fn store_by(
        &mut self,
        path: &DsiPath,
        module: StoreModule,
        size: Option<u64>,
    ) -> Result<Moved, Error> {
        let store = self.context.module_store(path.clone(), module, size);
        let stored = self.store(&store).await?;
        Ok(Moved::from(stored.bytes))
    }
}

impl<D: Dsi> Context<'_, D> {
    /// The store of a module.
    pub(crate) fn module_store(
        &self,
        path: DsiPath,
        module: StoreModule,
        size: Option<u64>,
    ) -> Store {
        let StoreModule::Checksum {
            algorithm,
            digest,
            offset,
        } = module;
        Store {
            size,
            proof: Some((algorithm, digest)),
            ..self.plain_store(path, Placement::At(offset))
        }
    }
}

/// Checks the digest of a region that is written, and not yet published.
pub(super) async fn prove<S: Sink>(
    sink: &S,
    region: Option<Range64>,
    (algorithm, digest): &(String, String),
) -> Result<(), Error> {
    let found = hash(hasher(algorithm)?, region, &Stored(sink)).await?;
    match found.eq_ignore_ascii_case(digest) {
        true => Ok(()),
        false => {
            let why = format!("the bytes sent have {algorithm} {found}, not {digest}");
            Err(gridftp_dsi::Error::new(ErrorKind::Mismatch, "store")
                .because(why)
                .into())
        }
    }
}

/// Begins a digest.
pub(super) fn hasher(algorithm: &str) -> Result<Hasher, Error> {
    let known = ChecksumAlgorithm::from_name(algorithm.as_bytes());
    known.and_then(Hasher::new).ok_or(Error::NoSuchChecksum)
}

/// An object that is hashed.
trait Hashed: Sync {
    /// At most `room` bytes from `at` on.
    fn piece(
        &self,
        at: u64,
        room: usize,
    ) -> impl Future<Output = gridftp_dsi::Result<Bytes>> + Send;
}

struct Sent<'s, S>(&'s S);

impl<S: Source> Hashed for Sent<'_, S> {
    async fn piece(&self, at: u64, room: usize) -> gridftp_dsi::Result<Bytes> {
        let read = self.0.read_at(at, BytesMut::with_capacity(room)).await?;
        Ok(read.freeze())
    }
}

struct Stored<'s, S>(&'s S);

impl<S: Sink> Hashed for Stored<'_, S> {
    async fn piece(&self, at: u64, room: usize) -> gridftp_dsi::Result<Bytes> {
        self.0.read_back(at, room).await
    }
}

/// Hashes a region of an object, piece by piece.
async fn hash(
    mut hasher: Hasher,
    region: Option<Range64>,
    object: &impl Hashed,
) -> gridftp_dsi::Result<String> {
    let (mut at, end) = region.map_or((0, 0), |region| (region.start(), region.end()));
    while at < end {
        let room = usize::try_from(end - at).map_or(BLOCK, |left| left.min(BLOCK));
        let piece = object.piece(at, room).await?;
        let piece = piece.get(..room).unwrap_or(&piece);
        if piece.is_empty() {
            return Err(gridftp_dsi::Error::new(ErrorKind::Changed, "hash"));
        }
        hasher.update(piece);
        at += piece.len() as u64;
    }
    Ok(hasher.finish())
}

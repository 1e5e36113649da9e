//! Stores bytes that come in order and once at a server.

use std::sync::{Arc, Weak};

use bytes::BytesMut;
use ftp_wire::path::FtpPath;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::checksum::Hasher;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use crate::client::Client;
use crate::copy::digests::DigestQuery;
use crate::copy::ending::Success;
use crate::copy::hidden::{Hidden, may_be_for_name};
use crate::copy::job::FileJob;
use crate::copy::kept::Digest;
use crate::copy::known::Known;
use crate::copy::making::make_parents;
use crate::copy::state::CopyState;
use crate::error::TransferError;
use crate::file::{WriteFrom, WriteOptions, Writer};
use crate::names;
use crate::transfer::ACCOUNT;
use crate::url::{Remote, show};
use crate::verify;

/// The digest of bytes on their way.
pub(in crate::copy) struct Hash {
    /// The algorithm of the digest without which the copy fails.
    needed: Option<ChecksumAlgorithm>,
    /// The algorithm of the optional digest.
    optional: Option<ChecksumAlgorithm>,
    hasher: Option<Hasher>,
    bytes: u64,
}

impl Hash {
    pub(in crate::copy) fn new(
        needed: Option<ChecksumAlgorithm>,
        optional: Option<ChecksumAlgorithm>,
    ) -> Self {
        Self {
            needed,
            optional,
            hasher: needed.or(optional).and_then(Hasher::new),
            bytes: 0,
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
    }

    /// Compares with the server's digest from `offset` on.
    pub(super) async fn compare(
        self,
        (client, shared): (&Client, &CopyState),
        remote: &Remote,
        at: &FtpPath,
        (offset, length): (Option<u64>, Option<u64>),
    ) -> Result<Option<Digest>, TransferError> {
        let (optional, part) = (
            self.optional.filter(|_| self.bytes > 0),
            (offset.unwrap_or(0), length),
        );
        let asked = DigestQuery::send(&client.control, self.needed, optional, part, at.clone());
        let (Some(hasher), Some(asked)) = (self.hasher, asked) else {
            return Ok(None);
        };
        let Some((algorithm, there)) = asked.digest(shared, Some(self.bytes)).await? else {
            return Ok(None);
        };
        let here = hasher.finish();
        if there != here {
            let path = remote.to_string();
            return Err(verify::mismatch(path, algorithm, &there, &here));
        }
        Ok(Some((algorithm, here)))
    }
}

/// Bytes that come in order and once.
pub(in crate::copy) trait Input: Send {
    /// The next bytes, at most `most`; none is the end.
    fn piece(&mut self, most: u64) -> impl Future<Output = Result<BytesMut, TransferError>> + Send;
}

/// The failure of a reader or a writer of `remote`.
pub(super) fn failure(error: std::io::Error, remote: &Remote) -> TransferError {
    let path = remote.to_string();
    let error = match error.downcast() {
        Ok(TransferError::Cut { cause, .. }) => *cause,
        Ok(error) => error,
        Err(error) => return TransferError::local("copy", path, error),
    };
    match error {
        TransferError::Size { expected, got, .. } => TransferError::Size {
            path,
            expected,
            got,
        },
        error => error,
    }
}

/// Stores all of `input` as a file of a server, which has its name once it is whole and its digest
/// agrees.
pub(in crate::copy) async fn put(
    client: Client,
    shared: &CopyState,
    job: &mut FileJob,
    input: &mut impl Input,
    remote: &Remote,
    mut hash: Hash,
) -> Result<(Client, Success), TransferError> {
    let to = client.path(&remote.path)?;
    let (control, parent) = (&client.control, names::parent(to.as_bytes()));
    drop(make_parents(control, shared, parent, &mut Known::default()));
    let (mut writer, hidden) = begin(client, shared, job, remote, &to).await?;
    job.hidden.clone_from(&hidden);
    shared.show(job, 0, Weak::new());
    let stored = store(&mut writer, (shared, &*job), input, remote, &mut hash).await;
    let client = writer.into_client();
    let at = hidden.as_ref().unwrap_or(&to);
    let proven = match (stored, &client) {
        (Ok(bytes), Some(client)) => {
            job.leaves_no_part();
            let offset = shared.options.offset;
            let part = (offset, offset.map(|_| bytes));
            let verified = hash.compare((client, shared), remote, at, part).await;
            verified.map(|verified| Success {
                bytes,
                verified,
                sized: offset.is_none() && !shared.through_layers(),
                there: None,
            })
        }
        (stored, _) => Err(stored.err().unwrap_or_else(gone)),
    };
    match (client, proven) {
        (Some(client), Ok(success)) => {
            if let Some(at) = hidden {
                name(&client, shared, remote, (at, to)).await?;
            }
            Ok((client, success))
        }
        (client, proven) => {
            let error = proven.err().unwrap_or_else(gone);
            match (hidden, client) {
                (Some(at), client) => remove(client, shared, remote, at).await,
                (None, Some(client)) => shared.remove_bad(&client.control, job, &error).await,
                (None, None) => {}
            }
            Err(error)
        }
    }
}

/// Gives a file that is whole its own name.
async fn name(
    client: &Client,
    shared: &CopyState,
    remote: &Remote,
    (at, to): (FtpPath, FtpPath),
) -> Result<(), TransferError> {
    let (control, shown) = (&client.control, show(at.as_bytes()));
    let hidden = Hidden::ask(control, client.abilities.mlst, at, to);
    let named = match hidden
        .rename(control, shared.options.keeps_existing())
        .await
    {
        Ok(renaming) => renaming.done(control, &shared.hiding).await,
        Err(error) => Err(error),
    };
    let why = match named {
        Ok(true) => return Ok(()),
        Ok(false) => "the server does not give the file its name",
        Err(TransferError::Source { .. }) => "another file appeared there, and is left alone",
        Err(error) => return Err(error),
    };
    let what = format!("destination: {remote}: {why}; all of the copy is there as {shown}");
    Err(TransferError::request(what, ""))
}

/// Stores the input; gives the number of bytes.
async fn store(
    writer: &mut Writer,
    (shared, job): (&CopyState, &FileJob),
    input: &mut impl Input,
    remote: &Remote,
    hash: &mut Hash,
) -> Result<u64, TransferError> {
    let refused = |error| failure(error, remote);
    let length = shared.options.length.unwrap_or(u64::MAX);
    loop {
        let piece = input.piece(length - writer.written()).await?;
        if piece.is_empty() {
            writer.shutdown().await.map_err(refused)?;
            return Ok(writer.written());
        }
        hash.update(&piece);
        shared.count(job, piece.len() as u64);
        writer.put(piece).await.map_err(refused)?;
    }
}

/// Asks the server to take the file, under a hidden name where it can have one; gives that. Nothing
/// is read before: the data comes only once.
pub(super) async fn begin(
    mut client: Client,
    shared: &CopyState,
    job: &mut FileJob,
    remote: &Remote,
    path: &FtpPath,
) -> Result<(Writer, Option<FtpPath>), TransferError> {
    let (control, abilities) = (&client.control, &client.abilities);
    job.to.clone_from(&remote.path);
    let mut hidden = shared.hide(control, abilities, job).await;
    if let Some(at) = hidden.take() {
        let there = Hidden::ask(control, abilities.mlst, at.clone(), path.clone());
        if there.bars_rename().await? {
            shared.hiding.over(&at);
        } else {
            hidden = Some(at);
        }
    }
    let mut options = WriteOptions::default();
    options.from = shared.options.offset.map_or(WriteFrom::Anew, WriteFrom::At);
    loop {
        options.exclusive =
            shared.options.keeps_existing() && options.from == WriteFrom::Anew && hidden.is_none();
        let at = hidden.as_ref().unwrap_or(path);
        let mut writer = client.into_writer(at.as_bytes(), options.clone());
        let Err(error) = writer.begin().await else {
            return Ok((writer, hidden));
        };
        let error = failure(error, remote);
        let for_name = error.control().is_some_and(may_be_for_name);
        match writer.into_client() {
            Some(again) if for_name && hidden.take().is_some() => client = again,
            client => {
                // The server may have made the file before the data connection failed.
                if let Some(at) = hidden {
                    remove(client, shared, remote, at).await;
                }
                return Err(error);
            }
        }
    }
}

/// Removes a hidden file that is given up, over another session where its own has ended.
async fn remove(client: Option<Client>, shared: &CopyState, remote: &Remote, at: FtpPath) {
    shared.hiding.leave(at);
    if let Some(client) = client {
        let _told = timeout(ACCOUNT, shared.hiding.clean(&client.control)).await;
    }
    let options = Arc::new(shared.options.connect.clone());
    if shared.hiding.has_left()
        && let Ok(again) = Client::connect(&remote.site, options).await
    {
        shared.hiding.clean(&again.control).await;
        again.close().await;
    }
}

/// The failure of a copy that lost its session behind the data.
pub(super) fn gone() -> TransferError {
    TransferError::request("transfer: the session ended before the copy was proven", "")
}

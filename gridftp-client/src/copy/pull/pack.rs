//! Small files that `ERET files=` brings one behind the other, each landed as its bytes are here.

use std::sync::Arc;
use std::vec;

use byte_ranges::RangeSet;
use bytes::Bytes;
use ftp_wire::command::{Command, Eret, Mode, Tag, Type};
use gridftp_data::pack::{Arrived, Record, Unpacker};
use gridftp_data::{Consumer, ReceivePlan};
use gridftp_dsi::types::ChecksumAlgorithm::Blake3;
use gridftp_dsi::{Error as StorageError, ErrorKind, Sink as _};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::copy::Stop;
use crate::copy::queue::Taken;
use crate::copy::small::{self, put_back_alone};
use crate::copy::state::CopyState;
use crate::copy::window::UnderWay;
use crate::error::TransferError;
use crate::explain::Way;
use crate::names;
use crate::transfer::{Failure, SessionState, Transfer};
use crate::verify;

use super::ask::{Asker, admit};
use super::land::{Digests, land, open_sink};
use super::receive::Receiver;

/// Small files that were asked for by one command.
pub(super) struct Pack {
    files: Vec<Taken>,
    transfer: Transfer,
    tag: Option<Tag>,
    _under_way: UnderWay,
}

impl Asker<'_> {
    /// Asks by one command for a small file and for those that wait behind it, unless their jobs end
    /// first; gives back a file that gets one of its own.
    pub(super) async fn ask_pack(&self, first: Taken) -> Result<Option<Pack>, Taken> {
        let shared = self.shared;
        let packs = shared.packs() && self.algorithm.is_none() && self.abilities.retrieves_files;
        if !packs {
            return Err(first);
        }
        let mut files = Vec::new();
        for (n, taken) in shared.gather(first)?.into_iter().enumerate() {
            let server = Some((self.control, self.abilities));
            // The first is admitted already.
            let admitted = match n {
                0 => Some(taken),
                _ => admit(shared, taken, server).await,
            };
            files.extend(admitted);
        }
        let Some(path) = self.control.path(&small::sources(&files)) else {
            files.into_iter().for_each(put_back_alone);
            return Ok(None);
        };
        for taken in &mut files {
            shared.start(taken.file_mut());
        }
        let tag = small::tag(self.mode, self.numbers);
        let facts = if shared.preserves() { " facts" } else { "" };
        let module = Eret::Module(small::module(tag, files.len(), facts));
        let dir = files.first().map(|first| names::parent(&first.file().from));
        let replies = self.control.send(Command::Eret(module, path));
        Ok(Some(Pack {
            transfer: Transfer::download(replies, dir.unwrap_or_default()),
            tag,
            _under_way: self.window.enter_small(files.len()),
            files,
        }))
    }
}

impl Receiver<'_> {
    /// Takes the files of one command, and lands each.
    pub(super) async fn take_pack(&mut self, pack: Pack, mode: Mode) -> Result<(), Stop> {
        let (shared, control) = (self.shared, self.control);
        let mut transfer = pack.transfer;
        let mut landing = Landing {
            shared,
            waiting: pack.files.into_iter(),
            unpacker: Unpacker::default(),
            over: CancellationToken::new().drop_guard(),
        };
        let begun = match mode {
            Mode::Extended => tokio::select! {
                biased;
                begun = self.has_begun(&mut transfer) => begun?,
                // The jobs go back.
                () = control.left.cancelled() => return Err(Stop::Replace),
            },
            Mode::Stream => Ok(()),
        };
        let ended = match begun {
            Err(error) => Err(Failure::to_begin(error)),
            Ok(()) => {
                let plan = ReceivePlan::new(mode, Type::Image).tag(pack.tag);
                let watch = shared.watch(Way::Download);
                let data = Box::pin(self.channel.receive_chunks(&mut landing, &plan, &watch));
                let work = transfer.run(&watch, data);
                // Each file counts its own bytes.
                Box::pin(shared.watched_by(control, &watch, |_| (), work)).await
            }
        };
        let Err(failure) = ended else {
            return Ok(());
        };
        let failure = shared.of_stack(control, failure);
        if failure.session != SessionState::Left {
            shared.note_unpacked(&failure);
            landing.waiting.for_each(put_back_alone);
        }
        Stop::of(failure).map_or(Ok(()), Err)
    }
}

/// Small files on their way.
struct Landing<'a> {
    shared: &'a Arc<CopyState>,
    /// Those that have not come yet, in the order of the command.
    waiting: vec::IntoIter<Taken>,
    unpacker: Unpacker,
    /// Ends the landing of files, behind the present one.
    over: DropGuard,
}

impl Landing<'_> {
    /// The next file, if a record is its own.
    fn next(&mut self, record: &Record) -> Result<Taken, StorageError> {
        let Some(taken) = self.waiting.next() else {
            return Err(malformed("more files came than were asked for"));
        };
        if names::last(&taken.file().from) != record.name {
            put_back_alone(taken);
            return Err(malformed("another file came than the one that is next"));
        }
        Ok(taken)
    }
}

impl Consumer for Landing<'_> {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.unpacker.push(&bytes);
        let (mut files, mut ended) = (Vec::new(), Ok(()));
        while ended.is_ok() {
            let arrived = match self.unpacker.take() {
                Ok(Some(arrived)) => arrived,
                Ok(None) => break,
                Err(bad) => {
                    ended = Err(malformed(bad));
                    break;
                }
            };
            match self.next(&arrived.record) {
                Ok(taken) => files.push((taken, arrived)),
                Err(error) => ended = Err(error),
            }
        }
        if files.is_empty() {
            return ended;
        }
        let (shared, over) = (Arc::clone(self.shared), self.over.token().clone());
        // A file that is being published ends its job, also where the transfer fails.
        let landing = tokio::spawn(async move {
            for (taken, arrived) in files {
                if !over.is_cancelled() && !shared.stopped.is_cancelled() {
                    land_small(&shared, taken, arrived).await;
                }
            }
        });
        match landing.await {
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => ended,
        }
    }

    async fn end(&mut self) -> Result<(), StorageError> {
        match self.waiting.len() == 0 && self.unpacker.is_empty() {
            true => Ok(()),
            false => Err(malformed("fewer files came than were asked for")),
        }
    }
}

fn malformed(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StorageError {
    StorageError::new(ErrorKind::Malformed, "receive").because(why)
}

/// Writes a small file, proves it by its digest, and gives it its name.
async fn land_small(shared: &CopyState, mut taken: Taken, arrived: Arrived) {
    let proven = arrived.prove();
    let Some(content) = arrived.record.content else {
        return put_back_alone(taken);
    };
    let (job, size) = (taken.file_mut(), content.len() as u64);
    if job.facts.size != Some(size) {
        // It has changed since it was listed, and its facts are asked for again.
        job.facts.size = None;
        return put_back_alone(taken);
    }
    if shared.preserves() {
        let (Some(modified), Some(mode)) = (arrived.record.modified, arrived.record.mode) else {
            return put_back_alone(taken);
        };
        job.facts.modified = Some(modified);
        job.facts.mode = Some(mode);
    }
    let written = async {
        let digest = proven.map_err(|checks| {
            let [told, here] = checks.map(|check| check.to_string());
            verify::mismatch(shared.name_source(job), Blake3, &told, &here)
        })?;
        let sink = open_sink(shared, job, true).await?;
        let writing = sink.write_at(0, content).await;
        writing.map_err(|error| TransferError::local("write", &job.to, error))?;
        Ok::<_, TransferError>((sink, digest.to_string()))
    };
    let (sink, digest) = match written.await {
        Ok(written) => written,
        Err(error) => return shared.fail(taken, &error),
    };
    job.held = RangeSet::up_to(size);
    job.counted = job.counted.saturating_add(size);
    shared.count(job, size);
    let digests = Digests {
        source: None,
        is_read: false,
        proven: shared.small_digest(digest),
    };
    land(shared, (taken, sink), size, digests, Ok(Vec::new())).await;
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::copy::job::{Facts, FileJob, Item};

    fn record(name: &str, content: &[u8]) -> Record {
        let content = Bytes::copy_from_slice(content);
        Record::new(name.as_bytes().to_vec(), Some(content))
    }

    /// Lands `wire` as the files `a` and `b` of 4 bytes; gives the error, the names that are written,
    /// and those that get commands of their own.
    async fn landed(wire: &[u8]) -> (Option<ErrorKind>, Vec<String>, Vec<Vec<u8>>) {
        let shared = Arc::new(CopyState::plain());
        let here = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            let to = here.path().join(name).into_os_string().into_encoded_bytes();
            let size = Facts {
                size: Some(4),
                ..Facts::default()
            };
            let job = FileJob::new(format!("/d/{name}").into_bytes(), to);
            shared
                .queue
                .push(Item::File(Box::new(job.with_facts(size))));
        }
        let mut files = Vec::new();
        while let Some(taken) = shared.queue.next_file(0, 1, |_| true) {
            files.push(taken);
        }
        let mut landing = Landing {
            shared: &shared,
            waiting: files.into_iter(),
            unpacker: Unpacker::default(),
            over: CancellationToken::new().drop_guard(),
        };
        let mut ended = landing.take(Bytes::copy_from_slice(wire)).await;
        if ended.is_ok() {
            ended = landing.end().await;
        }
        landing.waiting.for_each(put_back_alone);
        let mut alone = Vec::new();
        while let Some(taken) = shared.queue.next_file(0, 1, |job| job.alone) {
            taken.done(|item| match item {
                Item::File(job) => alone.push(names::last(&job.from).to_vec()),
                Item::Dir(_) => {}
            });
        }
        let names = std::fs::read_dir(here.path()).unwrap();
        let mut names: Vec<_> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        alone.sort();
        (ended.err().map(|error| error.kind()), names, alone)
    }

    #[tokio::test]
    async fn each_file_lands_by_its_name_or_gets_a_command_of_its_own() {
        let malformed = Some(ErrorKind::Malformed);
        let left_out = |name: &str| Record::new(name.as_bytes().to_vec(), None);
        for (records, error, written, alone) in [
            (
                vec![record("a", b"1234"), record("b", b"5678")],
                None,
                "ab",
                "",
            ),
            (vec![left_out("a"), record("b", b"5678")], None, "b", "a"),
            // It has another size than in the listing.
            (
                vec![record("a", b"12345"), record("b", b"5678")],
                None,
                "b",
                "a",
            ),
            (
                vec![record("a", b"1234"), record("c", b"5678")],
                malformed,
                "a",
                "b",
            ),
            (
                vec![record("b", b"5678"), record("a", b"1234")],
                malformed,
                "",
                "ab",
            ),
            (vec![record("a", b"1234")], malformed, "a", "b"),
            (vec![], malformed, "", "ab"),
        ] {
            let mut wire = BytesMut::new();
            for record in &records {
                record.write(&mut wire);
            }
            let names = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
            let (ended, here, left) = landed(&wire).await;
            let left: Vec<_> = left
                .into_iter()
                .map(|name| String::from_utf8(name).unwrap())
                .collect();
            assert_eq!(
                (ended, here, left),
                (error, names(written), names(alone)),
                "{records:?}"
            );
        }
    }
}

//! Small files that `ESTO files=` sends one behind the other, and the server's word on each.

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};
use ftp_wire::command::{Command, Esto, Mode, Tag};
use ftp_wire::facts::TimeVal;
use ftp_wire::reply::Reply;
use ftp_wire::stored::Stored;
use gridftp_data::pack::{self, Record};
use gridftp_data::{Chunks, DataChannel};
use gridftp_dsi::{Error as StorageError, ErrorKind};
use tokio_util::sync::CancellationToken;

use crate::copy::ending::Success;
use crate::copy::job::{Facts, FileJob};
use crate::copy::making::{Dirs, make_parents};
use crate::copy::queue::Taken;
use crate::copy::small::{self, put_back_alone};
use crate::copy::window::UnderWay;
use crate::copy::{Stop, lock};
use crate::error::TransferError;
use crate::explain::Way;
use crate::names;
use crate::transfer::{Failure, SessionState, Transfer};

use super::Push;
use super::ask::Asker;
use super::confirm::of_word;

/// Bytes of data that are handed to the connection at a time.
const PIECE: usize = 64 << 10;

/// Bytes of data behind which no other file is added.
const MOST: usize = 512 << 10;

/// A small file on its way.
struct Packed {
    taken: Taken,
    /// The BLAKE3 digest of its bytes.
    digest: String,
    /// End of its record in the data.
    end: u64,
}

/// Small files of one command.
pub(super) struct Pack {
    files: Vec<Packed>,
    /// Their records.
    data: Bytes,
    pub(super) transfer: Transfer,
    tag: Option<Tag>,
    /// Cancelled once one of the connections of its data breaks.
    pub(super) reset: CancellationToken,
    _under_way: UnderWay,
}

impl Asker<'_> {
    /// Asks by one command to store a small file and those that wait behind it, unless their jobs end
    /// first; gives back a file that gets one of its own.
    pub(super) async fn ask_pack(
        &self,
        first: Taken,
        dirs: &mut Dirs,
    ) -> Result<Option<Pack>, Taken> {
        let (control, shared) = (self.control, self.shared);
        let packs = shared.packs() && self.algorithm.is_none() && self.abilities.stores_files;
        // A server that does not keep uploads apart gets them under hidden names, and of one that sets
        // no times the copy warns.
        let sets_times = !shared.keeps_times() || self.abilities.mfmt;
        let packs = packs && self.abilities.held && sets_times;
        if !packs {
            return Err(first);
        }
        let (mut files, mut data) = (Vec::new(), BytesMut::new());
        let gathered = shared.gather(first)?;
        let to = gathered
            .first()
            .map(|first| names::parent(&first.file().to).to_vec());
        let to = to.unwrap_or_default();
        for taken in gathered {
            let server = (control, self.abilities);
            let Some((mut taken, _)) = shared.allow(taken, None, server).await else {
                continue;
            };
            if data.len() > MOST {
                // Sources have grown since they were found.
                continue;
            }
            let content = match self.read(taken.file_mut()).await {
                Ok(Some(content)) => content,
                Ok(None) => {
                    put_back_alone(taken);
                    continue;
                }
                Err(error) => {
                    shared.fail(taken, &error);
                    continue;
                }
            };
            let job = taken.file_mut();
            // In milliseconds, as by MFMT.
            let modified = job.facts.time_val().map(TimeVal::to_millis);
            let modified = modified.map(|time| (time.seconds, time.nanos));
            let record = Record {
                modified: modified.filter(|_| shared.keeps_times()),
                mode: job.facts.mode.filter(|_| shared.preserves()),
                is_new: shared.must_replace_nothing(self.abilities, job, false),
                ..Record::new(names::last(&job.to).to_vec(), Some(content))
            };
            let digest = record.write(&mut data).to_string();
            let end = data.len() as u64;
            files.push(Packed { taken, digest, end });
        }
        if files.is_empty() {
            return Ok(None);
        }
        if shared.options.notes.is_some() {
            shared.sweep_notes_later(&to);
        }
        drop(make_parents(control, shared, &to, &mut dirs.told));
        let dir = if to.is_empty() { b"." } else { to.as_slice() };
        let Some(path) = control.path(dir) else {
            files
                .into_iter()
                .for_each(|file| put_back_alone(file.taken));
            return Ok(None);
        };
        for file in &mut files {
            let job = file.taken.file_mut();
            (job.begun, job.kept_apart) = (true, true);
        }
        let tag = small::tag(self.mode, self.numbers);
        let module = Esto::Module(small::module(tag, files.len(), ""));
        let replies = control.send(Command::Esto(module, path));
        Ok(Some(Pack {
            transfer: Transfer::upload(replies, &to),
            tag,
            reset: CancellationToken::new(),
            _under_way: self.window.enter_small(files.len()),
            data: data.freeze(),
            files,
        }))
    }

    /// The bytes of a source; `None` of one that has become large, or changes.
    async fn read(&self, job: &mut FileJob) -> Result<Option<Bytes>, TransferError> {
        let source = self.shared.open_source(job).await?.file;
        match pack::read(&source).await {
            Err(error) if error.kind() == ErrorKind::Changed => Ok(None),
            read => read.map_err(|error| TransferError::local("read", &job.from, error)),
        }
    }
}

impl Push<'_> {
    /// Sends the data of small files; `None` where the server refuses it.
    pub(super) async fn send_pack(
        &self,
        channel: &mut DataChannel,
        mut pack: Pack,
    ) -> Result<Option<Pack>, Stop> {
        let Asker {
            control,
            shared,
            mode,
            ..
        } = self.asker;
        let begun = match mode {
            Mode::Extended => Ok(()),
            Mode::Stream => {
                let open = channel.open(mode, self.width.parallelism());
                tokio::select! {
                    biased;
                    begun = pack.transfer.begin_with(self.reply_within, open) => begun,
                    // The jobs go back.
                    () = control.left.cancelled() => {
                        self.broke();
                        return Err(Stop::Replace);
                    }
                }
            }
        };
        let passed = match begun {
            Err(failure) => Err(shared.of_stack(control, failure)),
            Ok(()) => {
                let plan = self.plan(RangeSet::new(), pack.tag);
                self.renew_reset(channel).await;
                let watch = shared.watch(Way::Upload);
                let mut pieces = Pieces(std::mem::take(&mut pack.data));
                let total = pieces.0.len() as u64;
                // Where this future is dropped, all may have been sent.
                for file in &mut pack.files {
                    file.taken.file_mut().placed = true;
                }
                let data = Box::pin(channel.send_chunks(&mut pieces, &plan, &watch));
                let work = pack.transfer.pass(&watch, data, |_| ());
                // Each file counts its own bytes.
                let passed = shared.watched_by(control, &watch, |_| (), work);
                let passed = Box::pin(passed).await;
                // A piece that was sent in part may have brought all of a file.
                let sent = total - pieces.0.len() as u64;
                for file in &mut pack.files {
                    file.taken.file_mut().placed = file.end <= sent;
                }
                passed
            }
        };
        match passed {
            Ok(_) => {
                pack.reset = lock(&self.reset).clone();
                Ok(Some(pack))
            }
            Err(failure) => {
                if failure.session != SessionState::Reusable {
                    self.broke();
                }
                self.asker.give_up(pack, failure).map(|()| None)
            }
        }
    }
}

impl Asker<'_> {
    /// Ends the jobs of the files that the server has stored, and gives back the others.
    pub(super) fn confirm_pack(
        &self,
        pack: Pack,
        word: Result<Reply, Failure>,
    ) -> Result<(), Stop> {
        let told = word.and_then(|reply| {
            let stored = Stored::parse(&reply.text());
            let stored = stored.filter(|stored| stored.0.len() == pack.files.len());
            stored.ok_or_else(|| {
                let why = "the reply does not tell which of the small files are stored";
                let error = pack.transfer.replies().misbehaved(why);
                Failure::midway(error, SessionState::ChannelBroken)
            })
        });
        let stored = match told {
            Ok(stored) => stored,
            Err(failure) => {
                let failure = of_word(self, &pack.reset, failure);
                return self.give_up(pack, failure);
            }
        };
        let is_stored = stored.0.iter().any(Option::is_some);
        self.shared.note_stored(is_stored);
        for (file, modified) in pack.files.into_iter().zip(stored.0) {
            let Packed {
                mut taken, digest, ..
            } = file;
            let job = taken.file_mut();
            let Some(time) = modified else {
                // A store that may replace a file may have published it without its facts.
                (job.placed, job.begun) = (false, !job.exclusive);
                put_back_alone(taken);
                continue;
            };
            let size = job.facts.size.unwrap_or(0);
            job.counted = job.counted.saturating_add(size);
            self.shared.count(job, size);
            let success = Success {
                bytes: size,
                verified: self.shared.small_digest(digest),
                sized: true,
                there: Some(Facts {
                    size: Some(size),
                    modified: Some((time.seconds, time.nanos)),
                    mode: None,
                }),
            };
            self.shared.succeed(taken, &success);
        }
        Ok(())
    }

    /// Gives all files back after a failure, to get commands of their own.
    fn give_up(&self, pack: Pack, failure: Failure) -> Result<(), Stop> {
        let shared = self.shared;
        let failure = Failure {
            midway: pack.transfer.has_begun(),
            ..failure
        };
        // Only a refusal without a begin says for sure that none is stored.
        let is_refused = failure.error.reply().is_some() && !failure.midway;
        let is_left = failure.session == SessionState::Left;
        if !is_left {
            shared.note_unpacked(&failure);
        }
        for file in pack.files {
            let mut taken = file.taken;
            let job = taken.file_mut();
            job.placed &= !is_refused;
            // A file whose record was not sent whole is as before the store.
            job.begun = job.placed;
            if !is_left {
                put_back_alone(taken);
            }
        }
        Stop::of(failure).map_or(Ok(()), Err)
    }
}

/// The data of small files.
struct Pieces(Bytes);

impl Chunks for Pieces {
    async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        let piece = self.0.split_to(self.0.len().min(PIECE));
        Ok((!piece.is_empty()).then_some(piece))
    }
}

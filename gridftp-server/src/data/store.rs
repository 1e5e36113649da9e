//! STOR, ESTO and APPE: from the client to the storage, published whole or kept for a restart.

use std::future::Future;

use byte_ranges::{Range64, RangeSet};
use ftp_proto::types::{Channel, Placement};
use ftp_wire::command::{Mode, Tag, Type};
use ftp_wire::facts::TimeVal;
use gridftp_cluster::StoreRules;
use gridftp_data::{ReceivePlan, Received};
use gridftp_dsi::{
    ChecksumAlgorithm, Create, Dsi, DsiPath, ErrorKind, Finish, Sink, User, WriteModel,
};
use tokio::time::{Instant, timeout_at};

use super::modules::{hasher, prove};
use super::{Buffers, Context, Mover};
use crate::error::{Error, Forbidden, KEEPING};

/// An upload, and the server's way of storing.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) path: DsiPath,
    pub(crate) into: Placement,
    /// Ranges held here according to the client, in wire offsets.
    pub(crate) held: RangeSet,
    /// Announced end of the file, in wire offsets.
    pub(crate) size: Option<u64>,
    pub(crate) modified: Option<TimeVal>,
    pub(crate) checksum: Option<(String, String)>,
    /// Algorithm and digest of the bytes sent, which are published with that digest only: the file
    /// is changed whole, and nothing is kept of a failed store.
    pub(crate) proof: Option<(String, String)>,
    pub(crate) rules: StoreRules,
}

impl<D: Dsi> Mover<'_, D> {
    /// Stores a file from the client.
    ///
    /// # Errors
    /// Before the data connection is used, those of opening. After it, the cause of the end; the
    /// received data is kept for a restart.
    pub(crate) async fn store(&mut self, store: &Store) -> Result<Stored, Error> {
        let Context {
            shared,
            user,
            channel,
            ..
        } = self.context;
        let opening = store.open(&shared.dsi, user, channel, self.context.tag);
        let Some(disk) = self.side.disk.clone() else {
            let (sink, base, finish) = self.context.reporter.run_quietly(opening).await?;
            return self.receive(store, sink, base, finish).await;
        };
        let opening = async {
            if !store.into.is_whole() || !store.held.is_empty() || store.checksum.is_some() {
                return Err(Error::NotThroughLayers);
            }
            opening.await
        };
        let (sink, base, finish) = self.context.reporter.run_quietly(opening).await?;
        // The layers collect parts by themselves.
        let room = self.side.channel.part_room(sink.order());
        let _room = self.context.reporter.run_quietly(room).await?;
        let layering = disk.write(sink);
        let sink = self.context.reporter.run_quietly(layering).await?;
        self.receive(store, sink, base, finish).await
    }

    /// Receives the data, then publishes it or keeps it for a restart.
    async fn receive<S: Sink>(
        &mut self,
        store: &Store,
        sink: S,
        base: u64,
        mut finish: Finish,
    ) -> Result<Stored, Error> {
        let context = &mut self.context;
        let proves = store.go_on_digest(context, &sink).await?;
        self.side.settle(Buffers::from(context.channel));
        let plan = ReceivePlan::new(context.channel.mode, context.channel.ty)
            .base(base)
            .held(store.held.clone())
            .tag(context.tag);
        let receiving = self.side.channel.receive(&sink, &plan, context.watch);
        let trusted = |_| std::future::ready(Ok(Verdict::Sound));
        let arrived = store
            .receive(context, &sink, base, receiving, trusted)
            .await?;
        if proves {
            let watch = context.watch;
            store
                .prove_or_keep((&sink, base), watch, &mut finish)
                .await?;
        }
        store.publish(context, sink, finish, arrived).await
    }
}

/// The result of comparing received ranges with the sink.
pub(crate) enum Verdict {
    /// Their bytes are there.
    Sound,
    /// Some are not, by this error: nothing is kept, since ranges recorded before may be as wrong.
    False(Error),
}

/// A stored file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    /// Bytes received.
    pub(crate) bytes: u64,
    /// One past the last byte of the upload in the file.
    pub(crate) end: u64,
}

/// The data of an upload that has arrived whole.
pub(crate) struct Arrived {
    bytes: u64,
    /// One past the last byte in the sink.
    end: u64,
    /// All ranges of the file here, in wire offsets.
    here: RangeSet,
}

impl Store {
    /// Runs `receiving`, which writes to the sink, and records its progress. Before each record, and
    /// at its end, `examine` compares the ranges, in wire offsets, with the sink.
    ///
    /// # Errors
    /// The cause of the end, or of incomplete data; the received data is kept for a restart if it
    /// was compared.
    pub(crate) async fn receive<D: Dsi, S: Sink, E: Into<Error>, X>(
        &self,
        context: &mut Context<'_, D>,
        sink: &S,
        base: u64,
        receiving: impl Future<Output = Result<Received, E>>,
        examine: impl Fn(RangeSet) -> X,
    ) -> Result<Arrived, Error>
    where
        X: Future<Output = Result<Verdict, Error>>,
    {
        let mut total = self.held.clone();
        let (examine, watch) = (&examine, context.watch);
        let recorded = |new: RangeSet| {
            total.extend(&new);
            let here = total.shift_up(base).unwrap_or_default();
            async move {
                match examine(new).await {
                    Ok(Verdict::Sound) => {
                        sink.note_groups(watch.take_groups());
                        sink.checkpoint(&here, self.rules.durable).await
                    }
                    // A record outlives this process, which may be killed before the end.
                    Ok(Verdict::False(error)) | Err(error) => {
                        let kind = ErrorKind::Incomplete;
                        Err(gridftp_dsi::Error::new(kind, "record").because(error))
                    }
                }
            }
        };
        if self.proof.is_some() {
            context.reporter.keep_nothing();
        } else if self.has_journal(sink) {
            context.reporter.record_between_markers();
        }
        let result = context.reporter.run(watch, receiving, recorded).await;
        let result = match result {
            Err(error) if error.is_corrupt() => {
                let examining = examine(watch.received());
                return Err(self.keep_agreed((sink, watch), error, examining).await);
            }
            result => result,
        };
        // A storage that does not answer must not hold the reply to a failure.
        let until = result.as_ref().err().map(Error::record_until);
        let examining = examine(watch.received());
        let examined = match until {
            None => examining.await,
            Some(until) => timeout_at(until, examining).await.unwrap_or_else(|_| {
                let error = gridftp_dsi::Error::new(ErrorKind::Io, "find data");
                Err(error.because("no answer in time").into())
            }),
        };
        let until = until.unwrap_or_else(|| Instant::now() + KEEPING);
        if let Ok(Verdict::False(error)) = examined {
            self.record(sink, &RangeSet::new(), until).await;
            return Err(error);
        }
        let is_examined = examined.is_ok();
        let checked = match (result, examined) {
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(received), Ok(_)) => self.check(context, sink, base, &received).await,
        };
        if checked.is_err() && is_examined && self.keep(sink, base, watch, until).await {
            context.reporter.last_marks(watch).await;
        }
        checked
    }

    /// Checks that the data has arrived whole, and its digest.
    async fn check<D: Dsi, S: Sink>(
        &self,
        context: &mut Context<'_, D>,
        sink: &S,
        base: u64,
        received: &Received,
    ) -> Result<Arrived, Error> {
        let here = self.complete(context, received).await?;
        if let Some(proof) = &self.proof {
            let region = Range64::new(base, base.saturating_add(here.end()));
            let proving = prove(sink, region, proof);
            context.reporter.complete(context.watch, proving).await?;
        }
        Ok(Arrived {
            bytes: received.bytes,
            end: received.end,
            here,
        })
    }

    /// Publishes a file that has arrived whole.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) async fn publish<D: Dsi, S: Sink>(
        &self,
        context: &mut Context<'_, D>,
        sink: S,
        mut finish: Finish,
        arrived: Arrived,
    ) -> Result<Stored, Error> {
        let Arrived {
            bytes,
            mut end,
            here,
        } = arrived;
        if self.into.is_whole() {
            end = end.max(here.end());
        }
        if self.is_cut_at_end() {
            finish.size = Some(end);
            // In TYPE A lengths on the wire and in the file differ; there are no ranges then.
            finish.held = (!here.is_empty()).then_some(here);
        }
        let told = context.watch.told_digest();
        let told = told.filter(|_| self.is_told(context.tag));
        let told = told.map(|told| (ChecksumAlgorithm::Blake3, told));
        let reads = told.is_some() && finish.checksum == told;
        let finishing = sink.finish(finish);
        context.reporter.complete(context.watch, finishing).await?;
        if reads {
            context.watch.confirm_told();
        }
        context.reporter.last_marks(context.watch).await;
        Ok(Stored { bytes, end })
    }

    /// Says whether the file ends where the upload does; one changed in place keeps its bytes behind
    /// it.
    pub(crate) fn is_cut_at_end(&self) -> bool {
        self.into.is_whole() && (!self.rules.in_place || self.held.is_empty())
    }

    /// Says whether a record of the received ranges is of use, and costs the transfer no wait: where
    /// bytes are stored in order, as at another server, it may end the transfer there.
    fn has_journal<S: Sink>(&self, sink: &S) -> bool {
        self.into.is_whole() && !self.rules.in_place && sink.order() == WriteModel::Random
    }

    /// Returns the ranges of the file here, in wire offsets, or the reason why it is incomplete.
    async fn complete<D: Dsi>(
        &self,
        context: &mut Context<'_, D>,
        received: &Received,
    ) -> Result<RangeSet, Error> {
        let mut here = self.held.clone();
        here.extend(&received.ranges);
        // Lengths of text on the wire and in the file differ, so an announced length has no meaning
        // then.
        let announced = self.size.filter(|_| context.channel.ty != Type::Ascii);
        if let Some(announced) = announced
            && here.end() < announced
        {
            return Err(Error::Short {
                held: here.total(),
                announced,
            });
        }
        // In MODE S the data of a tagged transfer had its trailer.
        let proven = announced == Some(here.end()) || context.tag.is_some();
        let is_empty = self.rules.empty_unannounced && received.bytes == 0;
        if received.ended_unmarked && !proven && !is_empty {
            return Err(Error::Unmarked { held: here.total() });
        }
        if context.channel.mode == Mode::Stream
            && !proven
            && let Some(by) = context.reporter.cancelled().await
        {
            return Err(Error::Aborted(by));
        }
        if here.first_hole() < here.end() {
            return Err(Error::Holes {
                first: here.first_hole(),
            });
        }
        Ok(here)
    }

    /// Opens the sink; returns the position of wire offset 0 in it and its completion. With the `tag`
    /// of a transfer, [its digest](Self::go_on_digest) is compared before the completion.
    pub(crate) async fn open<D: Dsi>(
        &self,
        dsi: &D,
        user: &User,
        how: &Channel,
        tag: Option<Tag>,
    ) -> Result<(D::Sink, u64, Finish), Error> {
        if !user.may_write {
            return Err(Forbidden::Write.into());
        }
        // RFC 3659 §5: such an offset counts the bytes on the wire, which the file does not have.
        if how.ty == Type::Ascii && !self.held.is_empty() {
            return Err(Error::RestartOfText);
        }
        let checksum = self.announced()?;
        if let Some((algorithm, _)) = &self.proof {
            hasher(algorithm)?;
        }
        if self.into == Placement::New {
            self.must_be_new(dsi, user).await?;
        }
        let write = |how| dsi.write(user, &self.path, how);
        let sink = match self.into {
            Placement::Whole if self.rules.in_place => {
                let truncate = self.held.is_empty();
                write(Create::InPlace { truncate }).await?
            }
            Placement::Whole | Placement::New if self.held.is_empty() => {
                write(Create::Whole { size: self.size }).await?
            }
            Placement::Whole | Placement::New => self.go_on(dsi, user, how.mode).await?,
            Placement::At(_) if self.proof.is_some() => {
                write(Create::Update { size: None }).await?
            }
            Placement::At(_) => write(Create::InPlace { truncate: false }).await?,
            Placement::End => write(Create::Append).await?,
        };
        let base = match self.into {
            Placement::At(offset) => offset,
            Placement::End => sink.held().end(),
            Placement::Whole | Placement::New => 0,
        };
        let mut finish = Finish::as_is();
        finish.exclusive = self.into == Placement::New;
        if let Some(time) = self.modified {
            finish = finish.with_modified(time.seconds, time.nanos);
        }
        let may_spare_check = self.may_spare_check(tag);
        if let Some((algorithm, digest)) = checksum {
            if !may_spare_check {
                sink.will_check(algorithm);
            }
            finish = finish.with_checksum(algorithm, digest);
        }
        // With a digest some storages hold less, and others more.
        if let Some(claimed) = self.held.shift_up(base) {
            let is_here = || must_be_here(&claimed, &sink.held(), base);
            if may_spare_check && is_here().is_err() {
                sink.will_check(ChecksumAlgorithm::Blake3);
            }
            is_here()?;
        }
        Ok((sink, base, finish))
    }

    /// The announced digest.
    fn announced(&self) -> Result<Option<(ChecksumAlgorithm, String)>, Error> {
        let Some((name, digest)) = &self.checksum else {
            return Ok(None);
        };
        let algorithm = ChecksumAlgorithm::from_name(name.as_bytes());
        Ok(Some((
            algorithm.ok_or(Error::NoSuchChecksum)?,
            digest.clone(),
        )))
    }

    /// Refuses an upload that would replace something, before its data.
    async fn must_be_new<D: Dsi>(&self, dsi: &D, user: &User) -> Result<(), Error> {
        let kind = match dsi.stat(user, &self.path).await {
            _ if self.rules.in_place || !dsi.capabilities().exclusive => ErrorKind::Unsupported,
            Ok(_) => ErrorKind::Exists,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        Err(gridftp_dsi::Error::new(kind, "create")
            .at(&self.path)
            .into())
    }

    /// Opens the target of a restarted upload: the partial file of a broken one, or the file
    /// itself, which it then changes in part.
    ///
    /// In MODE E, and where they are no beginning of the file, the ranges are those that this server told: if
    /// their bytes are gone, the file was replaced, and the restart is refused.
    async fn go_on<D: Dsi>(&self, dsi: &D, user: &User, mode: Mode) -> Result<D::Sink, Error> {
        let (path, size) = (&self.path, self.size);
        let left = dsi.held(user, path).await?;
        let Err(lacking) = must_be_here(&self.held, &left, 0) else {
            return Ok(dsi.write(user, path, Create::Resume { size }).await?);
        };
        let is_prefix = self.held.first_hole() == self.held.end();
        if mode == Mode::Extended || !is_prefix {
            return Err(lacking);
        }
        let there = match dsi.stat(user, path).await {
            Ok(stat) => stat.size,
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(error.into()),
        };
        // Checked before a large file is copied in vain.
        must_be_here(&self.held, &RangeSet::up_to(there), 0)?;
        match dsi.write(user, path, Create::Update { size }).await {
            // The partial file is newer, and lacks ranges that the client names.
            Err(error) if error.kind() == ErrorKind::Incomplete => Err(lacking),
            done => Ok(done?),
        }
    }
}

/// Checks that `here` covers the ranges that the client names.
pub(super) fn must_be_here(claimed: &RangeSet, here: &RangeSet, base: u64) -> Result<(), Error> {
    let missing = claimed.iter().find_map(|range| here.gaps(range).first());
    match missing {
        None => Ok(()),
        Some(first) => Err(Error::NothingToResume {
            missing: first.start() - base,
        }),
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
pub(crate) mod tests;

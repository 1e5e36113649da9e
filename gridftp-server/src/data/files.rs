//! Many small files in one transfer: `ERET files=` and `ESTO files=`.

use std::time::{Duration, Instant};
use std::vec;

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};
use ftp_proto::types::{Channel, Placement};
use ftp_wire::command::Type;
use ftp_wire::facts::TimeVal;
use ftp_wire::path::FtpPath;
use ftp_wire::stored::Stored;
use gridftp_data::pack::{self, Arrived, BadRecord, Record, Unpacker};
use gridftp_data::{Chunks, Consumer, ReceivePlan, Watch};
use gridftp_dsi::{Dsi, DsiPath, ErrorKind, Meta, Sink, Stat, User};

use super::mover::Moved;
use super::{Buffers, Mover, Store};
use crate::error::{Error, Forbidden, chain};
use crate::transfer_log::Requester;

/// Bytes of records that make a piece of data; the last record may exceed them.
const PIECE: usize = 16 << 10;

/// Time after which a piece ends behind its present file, so that a client hears of a slow storage.
const WAIT: Duration = Duration::from_millis(200);

impl<D: Dsi> Mover<'_, D> {
    /// Sends small files of a directory, with their modification times and permission bits where
    /// `facts` are asked for; those that cannot be read, and those that are not small, are left out.
    ///
    /// # Errors
    /// Those of the transfer.
    pub(super) async fn retrieve_files(
        &mut self,
        dir: &DsiPath,
        names: Vec<Vec<u8>>,
        facts: bool,
    ) -> Result<u64, Error> {
        if self.side.disk.is_some() {
            return Err(Error::NotThroughLayers);
        }
        let mut files = Packed {
            dsi: &self.context.shared.dsi,
            user: self.context.user,
            dir,
            names: names.into_iter(),
            facts,
            made: 0,
            log: Log {
                requester: self.context.requester,
                dir,
                watch: self.context.watch,
                files: Vec::new(),
            },
        };
        self.send_all(&mut files).await
    }

    /// Stores small files in a directory, each as by a `STOR` of its own.
    ///
    /// # Errors
    /// Those of the transfer, and `Malformed` for data without a record of each file.
    pub(super) async fn store_files(
        &mut self,
        dir: &DsiPath,
        count: usize,
        may: May,
    ) -> Result<Moved, Error> {
        if self.side.disk.is_some() {
            return Err(Error::NotThroughLayers);
        }
        if !self.context.user.may_write {
            return Err(Forbidden::Write.into());
        }
        let context = &mut self.context;
        // A file is stored or not.
        context.reporter.keep_nothing();
        self.side.settle(Buffers::from(context.channel));
        let plan = ReceivePlan::new(context.channel.mode, Type::Image).tag(context.tag);
        let mut files = Unpacked {
            dsi: &context.shared.dsi,
            user: context.user,
            requester: context.requester,
            channel: context.channel,
            plain: context.plain_store(dir.clone(), Placement::Whole),
            may,
            count,
            unpacker: Unpacker::default(),
            stored: Stored::default(),
        };
        let receiving = self
            .side
            .channel
            .receive_chunks(&mut files, &plan, context.watch);
        let recorded = |_| std::future::ready(Ok(()));
        let received = context.reporter.run(context.watch, receiving, recorded);
        let bytes = received.await?.bytes;
        let stored = Some(files.stored);
        Ok(Moved {
            stored,
            ..Moved::from(bytes)
        })
    }
}

/// A modification time without the parts of a millisecond, which listings do not tell.
fn millis((seconds, nanos): (i64, u32)) -> (i64, u32) {
    let time = TimeVal::new(seconds, nanos).to_millis();
    (time.seconds, time.nanos)
}

/// The chosen time and mode that a stored file does not have.
fn lacking(stat: &Stat, (modified, mode): (Option<(i64, u32)>, Option<u32>)) -> Option<Meta> {
    let modified = modified.filter(|chosen| millis(*chosen) != millis(stat.modified));
    let mode = mode.filter(|chosen| *chosen != stat.mode & 0o777);
    let mut meta = Meta::new();
    if let Some((seconds, nanos)) = modified {
        meta = meta.with_modified(seconds, nanos);
    }
    if let Some(mode) = mode {
        meta = meta.with_mode(mode);
    }
    (modified.is_some() || mode.is_some()).then_some(meta)
}

/// The facts of stored files that a client may choose.
#[derive(Debug, Clone, Copy)]
pub(super) struct May {
    /// Modification times.
    pub(super) times: bool,
    /// Permission bits.
    pub(super) modes: bool,
}

/// Small files that are sent.
struct Packed<'a, D> {
    dsi: &'a D,
    user: &'a User,
    dir: &'a DsiPath,
    /// The names of the files that are not read yet.
    names: vec::IntoIter<Vec<u8>>,
    /// Whether their modification times and permission bits are told.
    facts: bool,
    /// Bytes of data made so far.
    made: u64,
    log: Log<'a>,
}

/// The lines of the log for files that were read, written at the end for those that were sent.
struct Log<'a> {
    requester: Requester<'a>,
    dir: &'a DsiPath,
    watch: &'a Watch,
    files: Vec<Read>,
}

/// A file that was read.
struct Read {
    name: Vec<u8>,
    took: Duration,
    bytes: u64,
    /// End of its record in the data.
    end: u64,
}

impl Drop for Log<'_> {
    fn drop(&mut self) {
        let sent = self.watch.bytes();
        for file in self.files.iter().filter(|file| file.end <= sent) {
            let path = self.dir.child(&file.name);
            let path = path.as_ref().map_or(&b""[..], DsiPath::as_bytes);
            self.requester.file(("RETR", path), file.took, file.bytes);
        }
    }
}

impl<D: Dsi> Packed<'_, D> {
    /// Adds the record of a file to the data.
    async fn add(&mut self, name: Vec<u8>, piece: &mut BytesMut) {
        let (begun, before) = (Instant::now(), piece.len());
        let path = self.dir.child(&name);
        let read = match &path {
            Some(path) => self.read(path).await,
            None => None,
        };
        let (content, stat) = read.unzip();
        let bytes = content.as_ref().map(|bytes| bytes.len() as u64);
        let stat = stat.flatten();
        let record = Record {
            modified: stat.as_ref().map(|stat| millis(stat.modified)),
            mode: stat.map(|stat| stat.mode & 0o777),
            ..Record::new(name.clone(), content)
        };
        record.write(piece);
        self.made += (piece.len() - before) as u64;
        let read = bytes.map(|bytes| Read {
            name,
            took: begun.elapsed(),
            bytes,
            end: self.made,
        });
        self.log.files.extend(read);
    }

    /// The bytes of a file, and its facts where they are asked for; `None` of one that is left out.
    async fn read(&self, path: &DsiPath) -> Option<(Bytes, Option<Stat>)> {
        match self.try_read(path).await {
            Ok(read) => read,
            // The client asks for the file again, and that reply tells the reason.
            Err(error) => {
                tracing::debug!(%path, %error, "a small file is left out");
                None
            }
        }
    }

    async fn try_read(&self, path: &DsiPath) -> gridftp_dsi::Result<Option<(Bytes, Option<Stat>)>> {
        // The facts come first: a file that changes meanwhile has an older time with newer bytes, by
        // which the next copy finds it.
        let stat = match self.facts {
            true => Some(self.dsi.stat(self.user, path).await?),
            false => None,
        };
        let source = self.dsi.read(self.user, path).await?;
        let Some(content) = pack::read(&source).await? else {
            return Ok(None);
        };
        let size = content.len() as u64;
        let is_same = stat
            .as_ref()
            .is_none_or(|stat| stat.is_file() && stat.size == size);
        Ok(is_same.then_some((content, stat)))
    }
}

impl<D: Dsi> Chunks for Packed<'_, D> {
    async fn next(&mut self) -> gridftp_dsi::Result<Option<Bytes>> {
        let (mut piece, begun) = (BytesMut::with_capacity(PIECE), Instant::now());
        while piece.len() < PIECE
            && begun.elapsed() < WAIT
            && let Some(name) = self.names.next()
        {
            self.add(name, &mut piece).await;
        }
        Ok((!piece.is_empty()).then(|| piece.freeze()))
    }

    fn is_patient(&self) -> bool {
        false
    }
}

/// Small files that arrive.
struct Unpacked<'a, D> {
    dsi: &'a D,
    user: &'a User,
    requester: Requester<'a>,
    channel: &'a Channel,
    /// A store into the directory.
    plain: Store,
    may: May,
    /// Number of all files.
    count: usize,
    unpacker: Unpacker,
    /// The outcome of each file that has arrived.
    stored: Stored,
}

impl<D: Dsi> Unpacked<'_, D> {
    /// Stores a file, and writes its line to the log; gives its modification time.
    async fn store(&self, arrived: Arrived) -> Result<(i64, u32), Error> {
        let refused = |kind| gridftp_dsi::Error::new(kind, "store");
        let is_proven = arrived.prove().is_ok();
        let record = arrived.record;
        // FTP commands carry no other names.
        let path = FtpPath::new(record.name.to_vec());
        let path = path.and_then(|name| self.plain.path.child(name.as_bytes()));
        let Some((path, content)) = path.zip(record.content) else {
            return Err(refused(ErrorKind::BadName).into());
        };
        if !is_proven {
            return Err(refused(ErrorKind::Mismatch).into());
        }
        let can = self.dsi.capabilities();
        let lacks_times = record.modified.is_some() && !self.may.times;
        let lacks_modes = record.mode.is_some() && !(self.may.modes && can.modes);
        if lacks_times || lacks_modes {
            return Err(refused(ErrorKind::Denied).into());
        }
        let size = content.len() as u64;
        let line = self.requester.begin("STOR", path.as_bytes());
        let store = Store {
            path,
            into: match record.is_new {
                true => Placement::New,
                false => Placement::Whole,
            },
            size: Some(size),
            modified: (record.modified).map(|(seconds, nanos)| TimeVal { seconds, nanos }),
            ..self.plain.clone()
        };
        let storing = async {
            let opening = store.open(self.dsi, self.user, self.channel, None);
            let (sink, _, mut finish) = opening.await?;
            sink.write_at(0, content).await?;
            finish.mode = record.mode;
            finish.size = Some(size);
            finish.held = Some(RangeSet::up_to(size));
            let stat = sink.finish(finish).await?;
            // A gateway publishes a file whose time or mode its server refuses.
            let lacking = lacking(&stat, (record.modified, record.mode));
            if let Some(meta) = lacking {
                self.dsi.set_meta(self.user, &store.path, meta).await?;
            }
            Ok(stat)
        };
        let stored = storing.await;
        // The client sends a file that is not stored again, and that store has its own line.
        line.end(stored.is_ok().then_some(size));
        stored.map(|stat| record.modified.unwrap_or(stat.modified))
    }
}

impl<D: Dsi> Consumer for Unpacked<'_, D> {
    async fn take(&mut self, bytes: Bytes) -> gridftp_dsi::Result<()> {
        let malformed =
            |why: BadRecord| gridftp_dsi::Error::new(ErrorKind::Malformed, "store").because(why);
        self.unpacker.push(&bytes);
        while let Some(arrived) = self.unpacker.take().map_err(malformed)? {
            if self.stored.0.len() == self.count {
                let why = format!("more than {} small files came", self.count);
                return Err(gridftp_dsi::Error::new(ErrorKind::Malformed, "store").because(why));
            }
            let modified = match self.store(arrived).await {
                Ok((seconds, nanos)) => Some(TimeVal { seconds, nanos }),
                // The client sends the file again, and that reply tells the reason.
                Err(error) => {
                    tracing::debug!(dir = %self.plain.path, error = %chain(&error), "a small file is not stored");
                    None
                }
            };
            self.stored.0.push(modified);
        }
        Ok(())
    }

    async fn end(&mut self) -> gridftp_dsi::Result<()> {
        let (taken, count) = (self.stored.0.len(), self.count);
        match taken == count && self.unpacker.is_empty() {
            true => Ok(()),
            false => Err(gridftp_dsi::Error::new(ErrorKind::Malformed, "store")
                .because(format!("{taken} of {count} small files came"))),
        }
    }
}

//! `Lister`: the lines of LIST, NLST, MLSD, MLSR and MLSC, made in batches whatever the directory's
//! size.

use std::collections::HashSet;
use std::time::SystemTime;
use std::vec;

use bytes::Bytes;
use ftp_proto::types::ListForm;
use ftp_wire::facts::{Entry, EntryKind, Fact, TimeVal, wire_name};
use gridftp_data::Chunks;
use gridftp_dsi::{Dsi, DsiPath, ErrorKind, Kind, Listing, Result, Stat, User};

use crate::owners::Owners;

/// Bytes of lines in one batch, one line more included: they wait for a slow client.
const PIECE: usize = 8 << 10;

/// Memory in bytes for directories that a recursive listing has yet to enter; beyond it, outer
/// directories are read again.
const WAITING: usize = 16 << 10;

/// Followed links to directories that a recursive listing remembers. A link to a directory above
/// itself needs no memory.
const FOLLOWED: usize = 1024;

/// A listing being produced.
pub(crate) struct Lister<'a, D: Dsi> {
    dsi: &'a D,
    user: &'a User,
    owners: &'a Owners,
    form: ListForm,
    now: TimeVal,
    /// Lines made before any directory is read: `.` and `..`, or the one file.
    head: Vec<u8>,
    /// Entries read, without lines yet.
    batch: vec::IntoIter<Stat>,
    /// The directory being read and those above it, up to the requested one.
    levels: Vec<Level>,
    /// Path of the innermost.
    path: DsiPath,
    /// Prefix of the names of its entries.
    prefix: Vec<u8>,
    /// The innermost directory itself, unless others were read meanwhile.
    open: Option<D::Listing>,
    /// Memory in bytes of the directories yet to enter, in all levels.
    waiting: usize,
    followed: HashSet<Identity>,
    /// Pattern of the names, where the last component of the path is one.
    pattern: Option<Vec<u8>>,
}

/// Device and inode.
type Identity = (u64, u64);

/// A directory that is listed in part.
struct Level {
    identity: Identity,
    /// The start of the current batch: the listing's own mark, or the number of entries before it.
    from: u64,
    /// Directories of that batch that were entered.
    entered: usize,
    /// The rest of the directory; `None` when it has to be read again.
    ahead: Option<Box<Ahead>>,
}

/// The part of a directory behind the finished lines.
struct Ahead {
    /// Directories of the current batch yet to enter, the next one last.
    inner: Vec<Inner>,
    /// The start of the next batch; `None` when there is none.
    next: Option<u64>,
}

/// A directory to enter.
struct Inner {
    name: Vec<u8>,
    identity: Identity,
    is_link: bool,
}

impl<'a, D: Dsi> Lister<'a, D> {
    /// Looks at `path` and opens it when it is a directory.
    ///
    /// # Errors
    /// Those of the storage: the object is missing, or cannot be listed.
    pub(crate) async fn open(
        dsi: &'a D,
        user: &'a User,
        owners: &'a Owners,
        path: &DsiPath,
        form: ListForm,
    ) -> Result<Self> {
        let mut lister = Self {
            dsi,
            user,
            owners,
            form,
            now: now(),
            head: Vec::new(),
            batch: Vec::new().into_iter(),
            levels: Vec::new(),
            path: path.clone(),
            prefix: Vec::new(),
            open: None,
            waiting: 0,
            followed: HashSet::new(),
            pattern: None,
        };
        let stat = match dsi.stat(user, path).await {
            Err(error) if error.kind() == ErrorKind::NotFound && lister.is_matching(path) => {
                let parent = path.parent().unwrap_or_else(DsiPath::root);
                let listing = dsi.list(user, &parent).await?;
                lister.pattern = Some(path.name().to_vec());
                lister.path = parent;
                lister.enter(listing, (0, 0));
                return Ok(lister);
            }
            stat => stat?,
        };
        if stat.kind == Kind::Directory {
            lister.begin(path, &stat).await?;
        } else {
            let mut head = Vec::new();
            lister.line(&lister.entry(&stat, stat.name.clone()), &mut head);
            lister.head = head;
        }
        Ok(lister)
    }

    /// Says whether a missing path may be a pattern; machine listings know no patterns.
    fn is_matching(&self, path: &DsiPath) -> bool {
        matches!(self.form, ListForm::Long | ListForm::Names { .. })
            && ftp_wire::glob::is_pattern(path.name())
    }

    /// Opens the requested directory, and prints its own line and its parent's where the form has
    /// them.
    async fn begin(&mut self, path: &DsiPath, stat: &Stat) -> Result<()> {
        let listing = self.dsi.list(self.user, path).await?;
        let mut head = Vec::new();
        match self.form {
            ListForm::Long | ListForm::Names { .. } => {}
            ListForm::Facts { facts, .. } | ListForm::Tree { facts, .. } => {
                let mut own = self.entry(stat, b".".to_vec());
                own.kind = EntryKind::Cdir;
                if facts.contains(Fact::Count) {
                    own.count = Some(Self::count(self.dsi, self.user, path).await?);
                }
                self.line(&own, &mut head);
                if let ListForm::Facts { root, .. } = self.form {
                    let parent = match path.parent() {
                        Some(parent) if !root => self.dsi.stat(self.user, &parent).await.ok(),
                        _ => None,
                    };
                    let mut up = self.entry(parent.as_ref().unwrap_or(stat), b"..".to_vec());
                    up.kind = EntryKind::Pdir;
                    self.line(&up, &mut head);
                }
            }
        }
        self.head = head;
        self.enter(listing, (stat.device, stat.inode));
        Ok(())
    }

    /// Counts the entries of a directory, `.` and `..` included.
    async fn count(dsi: &D, user: &User, path: &DsiPath) -> Result<u64> {
        let mut listing = dsi.list(user, path).await?;
        let mut count = 2;
        loop {
            match listing.next().await?.len() {
                0 => return Ok(count),
                more => count += more as u64,
            }
        }
    }

    /// Makes an open directory the innermost, at its beginning.
    fn enter(&mut self, listing: D::Listing, identity: Identity) {
        self.levels.push(Level {
            identity,
            from: 0,
            entered: 0,
            ahead: Some(Box::new(Ahead {
                inner: Vec::new(),
                next: Some(0),
            })),
        });
        self.open = Some(listing);
    }

    /// The next lines, each ended by CRLF; `None` at the end.
    ///
    /// # Errors
    /// Those of the storage, once the listing has begun.
    pub(crate) async fn next_lines(&mut self) -> Result<Option<Vec<u8>>> {
        let mut lines = std::mem::take(&mut self.head);
        while lines.is_empty() {
            if let Some(stat) = self.batch.next() {
                self.one(&stat, &mut lines);
                while lines.len() < PIECE
                    && let Some(stat) = self.batch.next()
                {
                    self.one(&stat, &mut lines);
                }
                continue;
            }
            let Some(level) = self.levels.last_mut() else {
                return Ok(None);
            };
            let stepped = match &mut level.ahead {
                None => self.look_again().await,
                Some(ahead) => {
                    if let Some(inner) = ahead.inner.pop() {
                        level.entered += 1;
                        self.waiting -= inner.cost();
                        self.descend(inner, &mut lines).await
                    } else if let Some(next) = ahead.next {
                        self.read_on(next).await
                    } else {
                        self.ascend();
                        Ok(())
                    }
                }
            };
            match stepped {
                Ok(()) => {}
                // Losing an inner directory, or failing to read it, ends that directory alone.
                Err(_) if self.goes_on() && self.levels.len() > 1 => {
                    self.failed(self.prefix.clone(), &mut lines);
                    self.ascend();
                }
                Err(error) => return Err(error),
            }
        }
        lines.shrink_to_fit();
        Ok(Some(lines))
    }

    /// Says whether a directory that cannot be listed gets a line of its own.
    fn goes_on(&self) -> bool {
        matches!(self.form, ListForm::Tree { fail: false, .. })
    }

    /// Prints that a directory could not be listed, or not to its end.
    fn failed(&self, name: Vec<u8>, lines: &mut Vec<u8>) {
        let mut entry = Entry::new(EntryKind::Dir, name);
        entry.error = Some("OpenFailed".to_owned());
        self.line(&entry, lines);
    }

    /// Reads the batch that begins at `from`, and notes its directories to enter.
    async fn read_on(&mut self, from: u64) -> Result<()> {
        let (batch, next) = self.read_batch(from).await?;
        let inner = self.inner(&batch, 0);
        self.batch = batch.into_iter();
        if let Some(level) = self.levels.last_mut() {
            (level.from, level.entered) = (from, 0);
        }
        self.remember(inner, next);
        Ok(())
    }

    /// Reads a batch again whose directories were forgotten.
    async fn look_again(&mut self) -> Result<()> {
        let Some(&Level { from, entered, .. }) = self.levels.last() else {
            return Ok(());
        };
        let (batch, next) = self.read_batch(from).await?;
        let inner = self.inner(&batch, entered);
        self.remember(inner, next);
        Ok(())
    }

    /// Returns the entries of the innermost directory from `from` on, and the start of the next
    /// batch.
    async fn read_batch(&mut self, from: u64) -> Result<(Vec<Stat>, Option<u64>)> {
        let mut listing = match self.open.take() {
            Some(listing) => listing,
            None => {
                let mut listing = self.dsi.list(self.user, &self.path).await?;
                if listing.position().is_some() {
                    listing.seek(from).await?;
                } else {
                    // A backend gives the same batches each time, unless the directory changed.
                    let mut before = 0;
                    while before < from {
                        match listing.next().await?.len() {
                            0 => break,
                            more => before += more as u64,
                        }
                    }
                }
                listing
            }
        };
        let batch = listing.next().await?;
        let next = listing.position().unwrap_or(from + batch.len() as u64);
        self.open = Some(listing);
        let more = !batch.is_empty();
        Ok((batch, more.then_some(next)))
    }

    /// The directories of a batch to enter, less the first ones, the next one last.
    fn inner(&self, batch: &[Stat], entered: usize) -> Vec<Inner> {
        let ListForm::Tree { follow, .. } = self.form else {
            return Vec::new();
        };
        let is_inner =
            |stat: &&Stat| stat.kind == Kind::Directory && (follow || stat.target.is_none());
        let inner = batch.iter().filter(is_inner).skip(entered);
        let mut inner: Vec<Inner> = inner
            .map(|stat| Inner {
                name: stat.name.clone(),
                identity: (stat.device, stat.inode),
                is_link: stat.target.is_some(),
            })
            .collect();
        inner.reverse();
        inner
    }

    /// Notes the rest of the innermost directory; outer ones are forgotten at the bound on memory.
    fn remember(&mut self, inner: Vec<Inner>, next: Option<u64>) {
        self.waiting += inner.iter().map(Inner::cost).sum::<usize>();
        let Some((level, outer)) = self.levels.split_last_mut() else {
            return;
        };
        level.ahead = Some(Box::new(Ahead { inner, next }));
        for level in outer {
            if self.waiting <= WAITING {
                break;
            }
            if let Some(ahead) = level.ahead.take() {
                self.waiting -= ahead.inner.iter().map(Inner::cost).sum::<usize>();
            }
        }
    }

    /// Opens a directory, unless a link led there before.
    async fn descend(&mut self, inner: Inner, lines: &mut Vec<u8>) -> Result<()> {
        let Some(path) = self.path.child(&inner.name) else {
            return Ok(());
        };
        let is_loop = || {
            self.levels
                .iter()
                .any(|level| level.identity == inner.identity)
        };
        if inner.is_link {
            let room = self.followed.len() < FOLLOWED;
            if is_loop() || (room && !self.followed.insert(inner.identity)) {
                return Ok(());
            }
        }
        let prefix = self.below(&inner.name);
        match self.dsi.list(self.user, &path).await {
            Ok(listing) => {
                (self.path, self.prefix) = (path, prefix);
                self.enter(listing, inner.identity);
            }
            Err(_) if self.goes_on() => self.failed(prefix, lines),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns to the directory above.
    fn ascend(&mut self) {
        self.levels.pop();
        self.open = None;
        self.path = self.path.parent().unwrap_or_else(DsiPath::root);
        let cut = self.prefix.iter().rposition(|b| *b == b'/').unwrap_or(0);
        self.prefix.truncate(cut);
    }

    /// The listed name of an entry of the innermost directory.
    fn below(&self, name: &[u8]) -> Vec<u8> {
        if self.prefix.is_empty() {
            return name.to_vec();
        }
        [&self.prefix, &b"/"[..], name].concat()
    }

    /// Prints one entry.
    fn one(&self, stat: &Stat, lines: &mut Vec<u8>) {
        if self
            .pattern
            .as_ref()
            .is_some_and(|pattern| !ftp_wire::glob::matches(pattern, &stat.name))
        {
            return;
        }
        let mut entry = self.entry(stat, self.below(&stat.name));
        if matches!(self.form, ListForm::Tree { .. }) && stat.kind == Kind::Link {
            entry.error = Some("InvalidLink".to_owned());
        }
        self.line(&entry, lines);
    }

    fn entry(&self, stat: &Stat, name: Vec<u8>) -> Entry {
        entry(self.owners, self.user, stat, name)
    }

    fn line(&self, entry: &Entry, lines: &mut Vec<u8>) {
        match &self.form {
            ListForm::Facts { facts, .. } | ListForm::Tree { facts, .. } => {
                entry.write_facts(*facts, lines)
            }
            ListForm::Names { before } => {
                if self.pattern.is_some() {
                    lines.extend_from_slice(before);
                }
                lines.extend_from_slice(&wire_name(&entry.name));
            }
            ListForm::Long => entry.write_long(self.now, lines),
        }
        lines.extend_from_slice(b"\r\n");
    }
}

impl Inner {
    /// Its memory in bytes, roughly.
    fn cost(&self) -> usize {
        size_of::<Self>() + self.name.len() + 16
    }
}

impl<D: Dsi> Chunks for Lister<'_, D> {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        Ok(self.next_lines().await?.map(Bytes::from))
    }

    fn is_patient(&self) -> bool {
        false
    }
}

/// Turns the storage's facts of an object into those of the protocol.
pub(crate) fn entry(owners: &Owners, user: &User, stat: &Stat, name: Vec<u8>) -> Entry {
    let kind = match stat.kind {
        Kind::File => EntryKind::File,
        Kind::Directory => EntryKind::Dir,
        Kind::Link => EntryKind::Slink,
        Kind::CharDevice => EntryKind::Char,
        Kind::BlockDevice => EntryKind::Block,
        Kind::Fifo => EntryKind::Pipe,
        _ => EntryKind::Other,
    };
    let mut entry = Entry::new(kind, name);
    entry.size = stat.size;
    entry.modified = TimeVal {
        seconds: stat.modified.0,
        nanos: stat.modified.1,
    };
    entry.mode = stat.mode;
    entry.perm = owners.perm(user, stat);
    entry.links = stat.links;
    entry.owner = (stat.uid, owners.user(stat.uid));
    entry.group = (stat.gid, owners.group(stat.gid));
    entry.unique = (stat.device, stat.inode);
    entry.staged = stat.staged;
    entry.target.clone_from(&stat.target);
    entry
}

fn now() -> TimeVal {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    TimeVal {
        seconds: since.as_secs().try_into().unwrap_or(i64::MAX),
        nanos: since.subsec_nanos(),
    }
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;

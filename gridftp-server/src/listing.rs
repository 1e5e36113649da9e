//! `Lister`: the lines of LIST, NLST, MLSD, MLSR and MLSC, produced in batches whatever the directory's size.

use std::collections::HashSet;
use std::time::SystemTime;

use bytes::Bytes;
use ftp_proto::types::ListForm;
use ftp_wire::facts::{Entry, EntryKind, Fact, TimeVal, safe_name};
use gridftp_data::Chunks;
use gridftp_dsi::{Dsi, DsiPath, Error, ErrorKind, Kind, Listing, Result, Stat, User};

use crate::glob;
use crate::owners::Owners;

/// Bytes that a recursive listing may remember of directories; beyond it the listing fails.
const BACKLOG: usize = 16 << 20;

/// What a directory seen takes of that, roughly.
const SEEN: usize = 32;

/// A listing being produced.
pub(crate) struct Lister<'a, D: Dsi> {
    dsi: &'a D,
    user: &'a User,
    owners: &'a Owners,
    form: ListForm,
    now: TimeVal,
    /// Lines made before any directory is read: `.` and `..`, or the one file.
    head: Vec<u8>,
    open: Option<Open<D::Listing>>,
    /// Directories that a recursive listing has yet to read, the next one last.
    backlog: Vec<Pending>,
    backlog_bytes: usize,
    /// Directories seen, when links are followed: a loop of links ends at one of them.
    seen: HashSet<(u64, u64)>,
    /// What names must match, where the last component of the path is a pattern and no name.
    pattern: Option<Vec<u8>>,
}

/// The directory being read, and what its entries' names begin with.
struct Open<L> {
    listing: L,
    path: DsiPath,
    prefix: Vec<u8>,
}

/// A directory to read later.
struct Pending {
    path: DsiPath,
    prefix: Vec<u8>,
}

impl<'a, D: Dsi> Lister<'a, D> {
    /// Looks at `path` and opens it when it is a directory.
    ///
    /// # Errors
    /// Those of the storage: the object is not there, or cannot be listed.
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
            open: None,
            backlog: Vec::new(),
            backlog_bytes: 0,
            seen: HashSet::new(),
            pattern: None,
        };
        let stat = match dsi.stat(user, path).await {
            Err(error) if error.kind() == ErrorKind::NotFound && lister.is_matching(path) => {
                let parent = path.parent().unwrap_or_else(DsiPath::root);
                let listing = dsi.list(user, &parent).await?;
                lister.pattern = Some(path.name().to_vec());
                lister.open = Some(Open {
                    listing,
                    path: parent,
                    prefix: Vec::new(),
                });
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

    /// Whether a path that does not exist is taken for a pattern; machine listings take none.
    fn is_matching(&self, path: &DsiPath) -> bool {
        matches!(self.form, ListForm::Long | ListForm::Names { .. })
            && glob::is_pattern(path.name())
    }

    /// Opens the directory asked for, and prints its own line and its parent's where the form has them.
    async fn begin(&mut self, path: &DsiPath, stat: &Stat) -> Result<()> {
        let listing = self.dsi.list(self.user, path).await?;
        let mut head = Vec::new();
        match self.form {
            ListForm::Facts(facts) | ListForm::Tree { facts, .. } => {
                let mut own = self.entry(stat, b".".to_vec());
                own.kind = EntryKind::Cdir;
                if facts.contains(Fact::Count) {
                    own.count = Some(Self::count(self.dsi, self.user, path).await?);
                }
                self.line(&own, &mut head);
                if matches!(self.form, ListForm::Facts(_)) {
                    let parent = match path.parent() {
                        Some(parent) => self.dsi.stat(self.user, &parent).await.ok(),
                        None => None,
                    };
                    let mut up = self.entry(parent.as_ref().unwrap_or(stat), b"..".to_vec());
                    up.kind = EntryKind::Pdir;
                    self.line(&up, &mut head);
                }
            }
            _ => {}
        }
        self.seen.insert((stat.device, stat.inode));
        self.head = head;
        self.open = Some(Open {
            listing,
            path: path.clone(),
            prefix: Vec::new(),
        });
        Ok(())
    }

    /// How many entries a directory has, `.` and `..` included.
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

    /// The next lines, each ended by CRLF; `None` at the end.
    ///
    /// # Errors
    /// Those of the storage, once the listing has begun.
    pub(crate) async fn next_lines(&mut self) -> Result<Option<Vec<u8>>> {
        let mut lines = std::mem::take(&mut self.head);
        while lines.is_empty() {
            let Some(mut open) = self.open.take() else {
                match self.descend(&mut lines).await? {
                    true => continue,
                    false => break,
                }
            };
            let batch = open.listing.next().await?;
            if batch.is_empty() {
                continue;
            }
            for stat in &batch {
                self.one(stat, &open, &mut lines)?;
            }
            self.open = Some(open);
        }
        Ok((!lines.is_empty()).then_some(lines))
    }

    /// Opens the next directory of a recursive listing; `false` when there is none.
    async fn descend(&mut self, lines: &mut Vec<u8>) -> Result<bool> {
        let Some(next) = self.backlog.pop() else {
            return Ok(false);
        };
        self.backlog_bytes = self.backlog_bytes.saturating_sub(next.cost());
        match self.dsi.list(self.user, &next.path).await {
            Ok(listing) => {
                self.open = Some(Open {
                    listing,
                    path: next.path,
                    prefix: next.prefix,
                })
            }
            Err(error) if matches!(self.form, ListForm::Tree { fail: true, .. }) => {
                return Err(error);
            }
            Err(_) => {
                let mut entry = Entry::new(EntryKind::Dir, next.prefix);
                entry.error = Some("OpenFailed".to_owned());
                self.line(&entry, lines);
            }
        }
        Ok(true)
    }

    /// Prints one entry, and keeps it for later when it is a directory to go into.
    fn one(&mut self, stat: &Stat, open: &Open<D::Listing>, lines: &mut Vec<u8>) -> Result<()> {
        if self
            .pattern
            .as_ref()
            .is_some_and(|pattern| !glob::matches(pattern, &stat.name))
        {
            return Ok(());
        }
        let mut name = open.prefix.clone();
        if !name.is_empty() {
            name.push(b'/');
        }
        name.extend_from_slice(&stat.name);
        let mut entry = self.entry(stat, name);
        if let ListForm::Tree { follow, .. } = self.form {
            if stat.kind == Kind::Link {
                entry.error = Some("InvalidLink".to_owned());
            }
            let enter = stat.kind == Kind::Directory && (follow || stat.target.is_none());
            if enter
                && (!follow || self.seen.insert((stat.device, stat.inode)))
                && let Some(path) = open.path.child(&stat.name)
            {
                let pending = Pending {
                    path,
                    prefix: entry.name.clone(),
                };
                self.backlog_bytes += pending.cost();
                if self.backlog_bytes + self.seen.len() * SEEN > BACKLOG {
                    return Err(Error::new(ErrorKind::TooLarge, "list")
                        .at(&open.path)
                        .because(
                            "too many directories for one recursive listing, list them one by one",
                        ));
                }
                self.backlog.push(pending);
            }
        }
        self.line(&entry, lines);
        Ok(())
    }

    fn entry(&self, stat: &Stat, name: Vec<u8>) -> Entry {
        entry(self.owners, self.user, stat, name)
    }

    fn line(&self, entry: &Entry, lines: &mut Vec<u8>) {
        match &self.form {
            ListForm::Facts(facts) | ListForm::Tree { facts, .. } => {
                entry.write_facts(*facts, lines)
            }
            ListForm::Names { before } => {
                if self.pattern.is_some() {
                    lines.extend_from_slice(before);
                }
                lines.extend_from_slice(&safe_name(&entry.name));
            }
            _ => entry.write_long(self.now, lines),
        }
        lines.extend_from_slice(b"\r\n");
    }
}

impl Pending {
    /// Bytes of memory it takes, roughly.
    fn cost(&self) -> usize {
        self.path.as_bytes().len() + self.prefix.len() + 64
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

/// Tells in the protocol's words what the storage said of an object.
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

//! Copies symbolic links, once the files are in place, so that none is written through one of them.

mod server;

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ftp_wire::facts::Entry;

use super::admission::Server;
use super::known::Known;
use super::lock;
use super::pull::{local, make_dir};
use super::resolve::Destination;
use super::same::normal;
use super::state::CopyState;
use super::surplus::is_below;
use crate::client::Client;
use crate::error::TransferError;
use crate::links::inner_target;
use crate::manner::{DIFFERS, Target};
use crate::names;
use crate::options::Links;
use crate::progress::{Event, UNTRIED};
use crate::url::{Site, show};

/// Bytes of the names and targets that wait for the end of the files, at most.
const MOST: usize = 256 << 20;

const LEFT_OUT: &str = "it is a symbolic link";
const UNTOLD: &str = "the server does not tell where the link leads";

/// State of the links of a copy.
#[derive(Debug, Default)]
pub(super) struct LinkState {
    found: Mutex<Found>,
    /// Directories at the destination that are no links, and in none.
    plain: Mutex<Known>,
    /// Whether it was told that a target is not known, and that no link can be made.
    told: [AtomicBool; 3],
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Found {
    links: VecDeque<LinkJob>,
    /// Hashes of the names of all that were found.
    names: HashSet<u64>,
    bytes: usize,
}

/// A symbolic link to make.
#[derive(Debug, Clone)]
struct LinkJob {
    from: Vec<u8>,
    to: Vec<u8>,
    target: Vec<u8>,
}

/// The object at the destination of a link.
enum There {
    Nothing,
    Link(Vec<u8>),
    Dir,
    Other,
}

/// The outcome of a link.
enum Fate {
    Made,
    Replaced,
    Planned,
    Same,
    Skipped(&'static str),
}

impl CopyState {
    /// Says whether an entry is a link that is not followed.
    pub(super) fn is_link(&self, entry: &Entry) -> bool {
        entry.is_link() && self.options.links != Links::Follow
    }

    /// Says whether a link at `to` of the destination counts itself, in place of its target. A link
    /// that is itself the destination is followed.
    pub(super) fn keeps_links(&self, to: &[u8]) -> bool {
        self.options.links == Links::Copy && to != self.root
    }

    /// Warns of a source server that may not tell links, which are followed then.
    pub(super) fn warn_of_links(&self, source: &Client) {
        let abilities = &source.abilities;
        if self.options.links != Links::Follow && abilities.mlst && !abilities.slink {
            let site = source.site();
            self.warn(&format!(
                "{site}: its listings may not tell symbolic links (UNIX.slink in MLST); those that \
                 they do not tell are followed; leave them out by name (--exclude)"
            ));
        }
    }

    /// Warns of a destination server that does not tell links.
    pub(super) fn warn_of_links_to(&self, destination: &Client) {
        if self.options.links == Links::Copy && !destination.abilities.slink {
            let what = "its listings tell no symbolic links (UNIX.slink in MLST), so a directory \
                        there that is one is written through; --links follow or skip copy no links";
            self.warn_once(&self.links.told[2], self.destination.as_ref(), what);
        }
    }

    pub(in crate::copy) fn warn_once(&self, told: &AtomicBool, site: Option<&Site>, what: &str) {
        if !told.swap(true, Ordering::Relaxed) {
            let site = site.map(ToString::to_string).unwrap_or_default();
            self.warn(&format!("{site}: {what}"));
        }
    }

    /// Takes a link that a list names, by its path in the source directory.
    pub(super) fn named_link(
        &self,
        (from, relative): (&[u8], &[u8]),
        target: Option<Vec<u8>>,
        to: &Destination,
    ) {
        let to = names::join(names::trim_slashes(&to.path), relative);
        match self.options.choice.takes_file(relative) {
            true => self.link((from.to_vec(), to), relative, target),
            false => self.leave_out(&self.describe_source(from), "a filter leaves it out"),
        }
    }

    /// Takes a link between these paths, which is `relative` in its tree; a name that is left out is
    /// still one that the source has.
    pub(super) fn link(
        &self,
        (from, to): (Vec<u8>, Vec<u8>),
        relative: &[u8],
        target: Option<Vec<u8>>,
    ) {
        let skips = self.options.links == Links::Skip;
        // Only --delete asks for names that nothing is copied to.
        let claims = !skips || self.options.manner.delete;
        if claims && !self.claim(&from, &to) {
            return;
        }
        let source = self.describe_source(&from);
        if skips {
            return self.leave_out(&source, LEFT_OUT);
        }
        let Some(told) = target.filter(|target| !target.is_empty()) else {
            let what = "it does not tell where symbolic links lead, so they are left out; \
                        --links follow copies what they lead to";
            self.warn_once(&self.links.told[0], self.source.as_ref(), what);
            return self.leave_out(&source, UNTOLD);
        };
        let target = match self.source {
            Some(_) => inner_target(&told, &from, relative),
            None => Some(told.clone()),
        };
        let refused = match target {
            Some(target) => {
                let link = LinkJob { from, to, target };
                let name = self.links.hasher.hash_one(&link.to);
                match lock(&self.links.found).add(link, name) {
                    Ok(()) => return,
                    Err(link) => (link.to, "is one link too many for one run".to_owned(), ""),
                }
            }
            None => {
                let what = format!("is a link to {}, out of its tree", show(&told));
                // A Globus server resolves the whole path.
                let remedy = match told.starts_with(b"/") {
                    true => "name the source by its path without links, or use --links follow",
                    false => "--links follow copies what it leads to",
                };
                (to, what, remedy)
            }
        };
        let (to, what, remedy) = refused;
        let error = TransferError::source(source.clone(), what, remedy);
        self.give_up_found(&source, self.below_root(&to), &error);
    }

    /// Refuses a directory of the destination that is a link, or in one: a file written there may have
    /// another name too, in the tree or out of it.
    pub(super) async fn check_parents(
        &self,
        dir: &[u8],
        server: Option<Server<'_>>,
    ) -> Result<(), TransferError> {
        self.check_parents_below(&self.root, dir, server).await
    }

    /// As [`check_parents`](Self::check_parents), of the directories below `root`.
    pub(super) async fn check_parents_below(
        &self,
        root: &[u8],
        dir: &[u8],
        server: Option<Server<'_>>,
    ) -> Result<(), TransferError> {
        if self.options.links != Links::Copy {
            return Ok(());
        }
        let (mut unknown, mut at) = (Vec::new(), names::trim_slashes(dir));
        let is_inside = |at: &[u8]| root.is_empty() || is_below(at, root);
        let inside = |at: &[u8]| !at.is_empty() && at != root && is_inside(at);
        while inside(at) && !lock(&self.links.plain).contains(at) {
            unknown.push(at);
            at = names::parent(at);
        }
        for dir in unknown.into_iter().rev() {
            // One that is still to be made is a link as well.
            let name = self.links.hasher.hash_one(dir);
            let found = lock(&self.links.found).names.contains(&name);
            let target = self.target(dir, server).await?;
            if found || target == Target::Link {
                let what = "is a link at the destination, and nothing is written through it";
                let remedy = "remove it, or use --links follow";
                let dir = self.describe_destination(dir);
                return Err(TransferError::source(dir, what, remedy));
            }
            if matches!(target, Target::Dir | Target::Other) {
                lock(&self.links.plain).insert(dir);
            }
        }
        Ok(())
    }

    /// Decides on a link by the object at its destination.
    fn fate_of_link(&self, link: &LinkJob, there: &There) -> Result<Fate, TransferError> {
        let destination = || self.describe_destination(&link.to);
        self.spare_backups(&link.from, &link.to)?;
        Ok(match there {
            There::Link(target) if link.leads_to(target) => Fate::Same,
            There::Nothing if self.options.dry_run => Fate::Planned,
            There::Nothing => Fate::Made,
            _ if self.options.no_clobber => Fate::Skipped("it exists"),
            _ if self.options.manner.immutable => {
                let remedy = "leave out --immutable to replace it";
                return Err(TransferError::source(destination(), DIFFERS, remedy));
            }
            There::Dir => {
                let what = "is a directory, and its source is a link";
                return Err(TransferError::source(destination(), what, "remove it"));
            }
            _ if self.options.dry_run => Fate::Planned,
            _ => Fate::Replaced,
        })
    }

    /// Tells the directories that would be made for a link, and the move of the object `there` that it
    /// would replace.
    async fn plan_link(
        &self,
        link: &LinkJob,
        there: &There,
        server: Option<Server<'_>>,
    ) -> Result<(), TransferError> {
        self.plan_dirs(names::parent(&link.to), server).await?;
        match there {
            There::Nothing => Ok(()),
            There::Link(_) | There::Dir | There::Other => self.plan_aside(&link.to, server).await,
        }
    }

    /// Accounts for a link.
    fn end_link(&self, link: &LinkJob, fate: Result<Fate, TransferError>) {
        let source = &self.describe_source(&link.from);
        let destination = &self.describe_destination(&link.to);
        let target = &show(&link.target);
        match fate {
            Ok(Fate::Made | Fate::Replaced) => {
                self.totals.linked();
                self.observer.event(&Event::Linked {
                    source,
                    destination,
                    target,
                });
            }
            Ok(Fate::Planned) => {
                self.totals.found(None);
                self.totals.planned();
                self.observer.event(&Event::PlannedLink {
                    source,
                    destination,
                    target,
                });
            }
            Ok(Fate::Same) => {
                self.totals.found(None);
                self.totals.same();
                self.tell_left((source, Some(destination)), "its copy is the same");
            }
            Ok(Fate::Skipped(why)) => {
                self.totals.found(None);
                self.totals.skipped();
                self.tell_left((source, Some(destination)), why);
            }
            Err(error) => self.fail_link(link, &error),
        }
    }

    fn fail_link(&self, link: &LinkJob, error: &TransferError) {
        let source = self.describe_source(&link.from);
        let destination = self.describe_destination(&link.to);
        let below = self.below(&link.from, &link.to);
        self.totals.found(None);
        self.end_failed((&source, Some(&destination)), below, error);
    }

    /// A name beside `path` that no other run takes.
    fn beside(&self, path: &[u8]) -> Vec<u8> {
        let hash = self.links.hasher.hash_one(path);
        let name = format!(".{hash:016x}.gridftp-link");
        names::join(names::parent(path), name.as_bytes())
    }
}

impl Found {
    /// Adds a link, or gives it back where there are too many.
    fn add(&mut self, link: LinkJob, name: u64) -> Result<(), LinkJob> {
        let bytes = size_of::<LinkJob>()
            + 2 * size_of::<u64>()
            + link.from.len()
            + link.to.len()
            + link.target.len();
        if self.bytes + bytes > MOST {
            return Err(link);
        }
        self.bytes += bytes;
        self.names.insert(name);
        self.links.push_back(link);
        Ok(())
    }
}

impl LinkJob {
    /// Says whether a link of this text leads where this one is to lead; our server writes an
    /// absolute target as a relative one.
    fn leads_to(&self, text: &[u8]) -> bool {
        let whole = || normal(&names::join(names::parent(&self.to), text));
        let absolute = self.target.starts_with(b"/") && self.to.starts_with(b"/");
        self.target == text || (absolute && whole() == normal(&self.target))
    }
}

/// Makes the links that were found.
pub(super) async fn settle(shared: &Arc<CopyState>) {
    let links = std::mem::take(&mut lock(&shared.links.found).links);
    if shared.stopped.is_cancelled() {
        for link in &links {
            shared.end_link(link, Ok(Fate::Skipped(UNTRIED)));
        }
        return;
    }
    if links.is_empty() {
        return;
    }
    if shared.destination.is_none() {
        for link in links {
            // A signal ends the copy between two links.
            tokio::task::yield_now().await;
            let fate = match shared.stopped.is_cancelled() {
                true => Ok(Fate::Skipped(UNTRIED)),
                false => here(shared, &link).await,
            };
            shared.end_link(&link, fate);
        }
        return;
    }
    let mut left = links;
    let work = async |left: &mut VecDeque<LinkJob>| server::make(shared, left).await;
    if let Err(error) = shared.insist(&mut left, work).await {
        left.iter().for_each(|link| shared.fail_link(link, &error));
    }
}

/// Makes a link on this machine.
async fn here(shared: &CopyState, link: &LinkJob) -> Result<Fate, TransferError> {
    let failed = |error| TransferError::local("make link", &link.to, error);
    let parent = names::parent(&link.to);
    shared.check_parents(parent, None).await?;
    let at = local(&link.to);
    let there = match std::fs::symlink_metadata(at) {
        Ok(meta) if meta.is_symlink() => {
            let target = std::fs::read_link(at).map_err(failed)?;
            There::Link(target.into_os_string().into_encoded_bytes())
        }
        Ok(meta) if meta.is_dir() => There::Dir,
        Ok(_) => There::Other,
        Err(error) if error.kind() == io::ErrorKind::NotFound => There::Nothing,
        Err(error) => return Err(failed(error)),
    };
    let fate = shared.fate_of_link(link, &there)?;
    let replaced = match fate {
        Fate::Made => false,
        Fate::Replaced => true,
        Fate::Planned => return shared.plan_link(link, &there, None).await.map(|()| fate),
        _ => return Ok(fate),
    };
    shared.spare_sources(&link.to, false).await?;
    make_dir(shared, parent).await?;
    let beside = shared.beside(&link.to);
    let first = if replaced { local(&beside) } else { at };
    symlink(local(&link.target), first).map_err(failed)?;
    if replaced {
        let moved = async {
            shared.set_aside(&link.to, None).await?;
            std::fs::rename(first, at).map_err(failed)
        };
        if let Err(error) = moved.await {
            let _left = std::fs::remove_file(first);
            return Err(error);
        }
    }
    if shared.options.syncs() {
        let dir = if parent.is_empty() {
            Path::new(".")
        } else {
            local(parent)
        };
        let synced = std::fs::File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(failed)?;
    }
    Ok(fate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_made_below_a_name_that_is_to_be_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let mut shared = CopyState::plain();
        shared.options.links = Links::Copy;
        shared.root = dir.path().as_os_str().as_encoded_bytes().to_vec();
        let at = |name: &str| names::join(&shared.root, name.as_bytes());
        shared.link((b"src/x".to_vec(), at("x")), b"x", Some(b"..".to_vec()));
        assert!(shared.check_parents(&at("y/z"), None).await.is_ok());
        assert!(shared.check_parents(&at("x/z"), None).await.is_err());
        // A name that was not there may have become a link.
        symlink(".", dir.path().join("y")).unwrap();
        assert!(shared.check_parents(&at("y/z"), None).await.is_err());
    }

    #[test]
    fn a_target_is_known_in_the_form_of_our_server() {
        for (target, text, same) in [
            ("../a", "../a", true),
            ("../a", "../b", false),
            ("/d/a", "../d/a", true),
            ("/d/a", "../../d/a", true),
            ("/d/a", "a", false),
        ] {
            let link = LinkJob {
                from: Vec::new(),
                to: b"/to/l".to_vec(),
                target: target.as_bytes().to_vec(),
            };
            assert_eq!(link.leads_to(text.as_bytes()), same, "{target} {text}");
        }
    }

    #[test]
    fn links_without_number_are_refused() {
        let mut found = Found::default();
        let link = || LinkJob {
            from: Vec::new(),
            to: Vec::new(),
            target: vec![b'x'; MOST / 4],
        };
        let taken = (0..10).take_while(|n| found.add(link(), *n).is_ok());
        assert_eq!(taken.count(), 3);
    }
}

//! `Root`: a source with its place in the copy, and the work that it brings.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::job::{DirJob, Facts, FileJob, Item};
use super::queue::Kind;
use super::resolve::Destination;
use super::same::Object;
use super::state::CopyState;
use crate::error::TransferError;
use crate::filter::Verdict;
use crate::local::{self, Found};
use crate::names;
use crate::options::Links;
use crate::url::show;

/// A source, and its place in the copy.
pub(super) struct Root<'a> {
    pub(super) from: &'a [u8],
    /// Path relative to the root of the copy.
    pub(super) relative: &'a [u8],
    pub(super) target: Vec<u8>,
    pub(super) object: &'a Object,
}

/// Adds a file, if the choice takes it.
pub(super) async fn add_chosen(
    shared: &CopyState,
    root: Root<'_>,
    facts: Facts,
    to: &Destination,
) -> Result<(), TransferError> {
    let (from, target) = (root.from, root.target);
    if !shared.options.choice.takes_file(root.relative) {
        shared.leave_out(&shared.describe_source(from), "a filter leaves it out");
        return Ok(());
    }
    to.refuse(shared, root.object, &target, from, false).await?;
    shared.found(FileJob::new(from.to_vec(), target).with_facts(facts));
    Ok(())
}

/// Has a tree of a server listed.
pub(super) async fn list_tree(
    shared: &CopyState,
    root: Root<'_>,
    to: &Destination,
) -> Result<(), TransferError> {
    let (from, target) = (root.from, root.target);
    let job = DirJob {
        avoid: to.refuse(shared, root.object, &target, from, true).await?,
        relative: root.relative.to_vec(),
        ..DirJob::new(from.to_vec(), target)
    };
    shared.note_root(&job.from, &job.to);
    shared.queue.push(Item::Dir(Box::new(job)));
    Ok(())
}

/// Walks a local tree into the queue, as fast as the queue is emptied.
pub(super) async fn walk_tree(
    shared: &Arc<CopyState>,
    root: Root<'_>,
    to: &Destination,
) -> Result<(), TransferError> {
    let (from, target) = (root.from, root.target);
    let avoid = to.refuse(shared, root.object, &target, from, true).await?;
    shared.note_root(from, &target);
    let shared = Arc::clone(shared);
    let producer = shared.queue.producer();
    let base = root.relative.to_vec();
    let (state, above) = (Arc::clone(&shared), base.clone());
    let takes = move |relative: &[u8], is_dir: bool| {
        let relative = names::join(&above, relative);
        match is_dir {
            true => state.options.choice.dir(&relative) != Verdict::Leave,
            false => state.options.choice.takes_file(&relative),
        }
    };
    let path = Path::new(OsStr::from_bytes(from)).to_owned();
    let follows = shared.options.links == Links::Follow;
    let mut walk = local::walk_chosen(path.clone(), avoid, follows, takes);
    let walked = Walked { path, base, target };
    tokio::spawn(async move {
        while let Some(found) = walk.recv().await {
            shared.queue.room(Kind::Any).await;
            if shared.stopped.is_cancelled() {
                break;
            }
            walked.take(&shared, found);
        }
        drop(producer);
    });
    Ok(())
}

/// A local tree that is walked through.
struct Walked {
    path: PathBuf,
    /// Path relative to the root of the copy.
    base: Vec<u8>,
    target: Vec<u8>,
}

impl Walked {
    /// Makes work of a finding.
    fn take(&self, shared: &CopyState, found: Found) {
        match found {
            Found::Dir(item) => {
                let (relative, to) = self.place(&item);
                let from = item.path.as_os_str().as_bytes().to_vec();
                if !item.relative.is_empty() {
                    shared.note_dir_entry(&from, &to);
                }
                if shared.options.choice.dir(&relative) == Verdict::Enter {
                    // It is made with the files in it.
                    return;
                }
                let facts = Facts::of_local(&item);
                let job = DirJob::new(from, to);
                let job = DirJob { facts, ..job };
                shared.queue.push(Item::Dir(Box::new(job)));
            }
            Found::File(item) => {
                let from = item.path.as_os_str().as_bytes().to_vec();
                let job = FileJob::new(from, self.place(&item).1);
                shared.found(job.with_facts(Facts::of_local(&item)));
            }
            Found::Link(item, target) => {
                let (relative, to) = self.place(&item);
                let from = item.path.as_os_str().as_bytes().to_vec();
                shared.link((from, to), &relative, Some(target));
            }
            Found::Special(path) => {
                let what = "neither a file nor a directory";
                let error = TransferError::local("read", path.as_os_str().as_bytes(), what);
                self.refuse(shared, &path, &error);
            }
            Found::Error(path, error) => self.refuse(shared, &path, &error),
        }
    }

    /// The path of an object relative to the root of the copy, and its destination.
    fn place(&self, item: &local::Item) -> (Vec<u8>, Vec<u8>) {
        let join = |dir: &[u8]| names::join(dir, &item.relative);
        (join(&self.base), join(&self.target))
    }

    fn refuse(&self, shared: &CopyState, path: &Path, error: &TransferError) {
        let below = path.strip_prefix(&self.path);
        let below = below.unwrap_or_else(|_| Path::new(""));
        let to = names::join(&self.target, below.as_os_str().as_bytes());
        let name = show(path.as_os_str().as_bytes());
        shared.give_up_found(&name, shared.below_root(&to), error);
    }
}

//! Small files that share a command, on their way from the queue and back.

use std::sync::atomic::Ordering;

use ftp_wire::command::{Mode, Tag};
use ftp_wire::receipt::Extent;
use gridftp_data::pack::{MOST_BYTES, MOST_FILES};
use gridftp_dsi::types::ChecksumAlgorithm::Blake3;

use super::job::{FileJob, Item};
use super::kept::Digest;
use super::queue::Taken;
use super::state::CopyState;
use crate::abilities::Tags;
use crate::names;
use crate::options::Verify;
use crate::transfer::Failure;

/// Bytes of all files of a command, beyond which no other is added.
const ENOUGH: u64 = 256 << 10;

/// Consecutive commands for many files that store none, until each file gets a command of its own.
const REFUSED: u32 = 3;

/// Longest path and names of a command, in bytes: our server ends the session at a line of more than
/// 8 KiB.
const LONGEST: usize = 7000;

impl CopyState {
    /// Says whether small files of this copy may share commands: each is moved whole, proven by the
    /// digest of its bytes, and nothing else is asked for it.
    pub(crate) fn packs(&self) -> bool {
        let whole = !self.is_partial() && !self.through_layers();
        let is_plain = !self.carries_attributes();
        let is_proven = matches!(self.options.verify, Verify::Auto | Verify::No);
        let is_of_use = self.packs_refused.load(Ordering::Relaxed) < REFUSED;
        whole && is_plain && is_proven && is_of_use
    }

    /// The digest of a small file on which both ends agree, where the copy is to have one.
    pub(crate) fn small_digest(&self, digest: String) -> Option<Digest> {
        (self.extent() == Extent::Whole).then_some((Blake3, digest))
    }

    /// Notes that small files which shared a command were not all moved by it: those that are left get
    /// commands of their own, and so do all others where a server refuses such commands.
    pub(crate) fn note_unpacked(&self, failure: &Failure) {
        let error = &failure.error;
        if !failure.midway && error.reply().is_some() && !error.is_transient() {
            self.packs_refused.fetch_add(REFUSED, Ordering::Relaxed);
        }
        self.note(&format!("small files get commands of their own: {error}"));
    }

    /// Notes whether a server has stored any of the files of a command.
    pub(crate) fn note_stored(&self, any: bool) {
        match any {
            true => self.packs_refused.store(0, Ordering::Relaxed),
            false => _ = self.packs_refused.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Takes the small files that wait behind a small one, in the same directories, to share a command
    /// with it; gives one back that is not small, or behind which there is none.
    pub(crate) fn gather(&self, first: Taken) -> Result<Vec<Taken>, Taken> {
        let Item::File(job) = first.item() else {
            return Err(first);
        };
        let Some(mut bytes) = self.small(job) else {
            return Err(first);
        };
        let dirs = [&job.from, &job.to].map(|path| names::parent(path).to_vec());
        let mut length = sent(&job.from).max(sent(&job.to));
        let mut all = vec![first];
        while all.len() < MOST_FILES {
            let fits = |job: &FileJob| {
                let is_near = [&job.from, &job.to].map(|path| names::parent(path)) == dirs;
                let size = self.small(job).filter(|size| bytes + size <= ENOUGH);
                is_near && size.is_some() && length + text(job) <= LONGEST
            };
            let next = (self.queue).next_file(all.len(), self.connections(), fits);
            let Some(next) = next else { break };
            let job = next.file();
            bytes += job.facts.size.unwrap_or(0);
            length += text(job);
            all.push(next);
        }
        match all.pop() {
            Some(first) if all.is_empty() => Err(first),
            last => {
                all.extend(last);
                Ok(all)
            }
        }
    }

    /// The bytes of a file that may share a command with others: it is sent from the start, and nothing
    /// is kept of an attempt that fails.
    fn small(&self, job: &FileJob) -> Option<u64> {
        let size = job.facts.size.filter(|size| *size <= MOST_BYTES as u64)?;
        let is_tried = job.alone || job.begun || job.is_again() || !job.held.is_empty();
        (!is_tried && !self.options.resume.takes(size)).then_some(size)
    }
}

/// Bytes of one more name in a command.
fn text(job: &FileJob) -> usize {
    let [from, to] = [&job.from, &job.to].map(|path| sent(names::last(path)));
    from.max(to) + 1
}

/// Bytes of a path on the control connection, where 0xff is sent twice (RFC 854).
fn sent(path: &[u8]) -> usize {
    path.len() + path.iter().filter(|byte| **byte == 0xff).count()
}

/// The path of the first source, and the names of the others behind it.
pub(crate) fn sources(files: &[Taken]) -> Vec<u8> {
    let mut sources = files.iter().map(|taken| &taken.file().from);
    let mut path = sources.next().cloned().unwrap_or_default();
    for source in sources {
        path.push(b'/');
        path.extend_from_slice(names::last(source));
    }
    path
}

/// The tag of the data of many small files: in MODE S, where each transfer has a connection of its own,
/// there is none.
pub(crate) fn tag(mode: Mode, tags: &Tags) -> Option<Tag> {
    (mode == Mode::Extended).then(|| tags.next(Extent::Head))
}

/// The text of the module of `ERET` and `ESTO` for so many files, with `more` words.
pub(crate) fn module(tag: Option<Tag>, count: usize, more: &str) -> String {
    let number = tag.map_or(0, |tag| tag.number);
    format!("files=\"{number} {count}{more}\"")
}

/// Gives a file back that a command for many has left out: it gets one of its own.
pub(crate) fn put_back_alone(mut taken: Taken) {
    taken.file_mut().alone = true;
}

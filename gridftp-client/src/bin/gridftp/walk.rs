//! `Walk`: all objects below a directory, each directory before its entries and again behind them.

use gridftp_client::error::TransferError;
use gridftp_client::names;

use crate::end::{End, Object};

/// The longest path that is entered, in bytes: a server may list a directory within itself.
const LONGEST: usize = 4096;

/// A walk through one tree.
pub(crate) struct Walk {
    levels: Vec<Level>,
    /// The directory whose entries come next.
    enters: Option<Vec<u8>>,
    /// Whether names that begin with a dot are told.
    pub(crate) all: bool,
}

struct Level {
    path: Vec<u8>,
    entries: std::iter::Peekable<std::vec::IntoIter<Object>>,
}

/// A finding of a walk.
pub(crate) enum Step {
    /// An object. `last` says for each directory above it, and for itself, whether nothing follows.
    Found {
        path: Vec<u8>,
        object: Object,
        last: Vec<bool>,
    },
    /// The end of a directory.
    Left(Vec<u8>),
    /// A directory that cannot be listed.
    Failed(Vec<u8>, TransferError),
}

impl Walk {
    /// Begins below the directory `root`.
    pub(crate) fn new(root: Vec<u8>) -> Self {
        Self {
            levels: Vec::new(),
            enters: Some(root),
            all: true,
        }
    }

    /// Leaves out the entries of the directory that was found last.
    pub(crate) fn skip(&mut self) {
        self.enters = None;
    }

    /// The next finding; none at the end.
    pub(crate) async fn next(&mut self, end: &mut End) -> Option<Step> {
        if let Some(path) = self.enters.take() {
            let entries = match path.len() > LONGEST {
                true => Err(TransferError::BadName {
                    name: String::from_utf8_lossy(&path).into_owned(),
                    why: "its path is too long to be entered",
                }),
                false => end.list(&path).await,
            };
            let entries = entries.map(|mut entries| {
                entries.retain(|object| self.all || !object.name().starts_with(b"."));
                entries
            });
            match entries {
                Ok(entries) => self.levels.push(Level {
                    path,
                    entries: entries.into_iter().peekable(),
                }),
                Err(error) => return Some(Step::Failed(path, error)),
            }
        }
        let level = self.levels.last_mut()?;
        let Some(object) = level.entries.next() else {
            return self.levels.pop().map(|level| Step::Left(level.path));
        };
        let path = names::join(&level.path, object.name());
        let last = self.levels.iter_mut();
        let last = last.map(|level| level.entries.peek().is_none()).collect();
        if object.is_tree() {
            self.enters = Some(path.clone());
        }
        Some(Step::Found { path, object, last })
    }
}

//! Tells a destination that is the source itself, or lies in it, before anything is written.

use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ftp_wire::command::Command;
use ftp_wire::facts::{Entry, Fact, FactSet};
use ftp_wire::path::FtpPath;

use super::blocking;
use super::job::Facts;
use crate::client::{Client, parse_mlst};
use crate::error::{ControlError, TransferError};
use crate::local;
use crate::names;
use crate::url::{Site, show};

/// Directories above a destination that are asked for.
const LEVELS: usize = 64;

/// Device and inode, or a server's fact `Unique`.
pub(crate) type Unique = (u64, u64);

/// The relation between the servers, or the machines, of both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kin {
    /// Unknown: a server's `Unique` means nothing at another.
    Apart,
    /// They are on one machine, as far as addresses tell: a tunnel may end elsewhere, so objects
    /// have to agree in their times as well.
    Machine,
    /// They are one server, or both are this machine.
    Server {
        /// Whether its paths mean the same to both.
        account: bool,
    },
}

impl Kin {
    /// Compares the ends of a copy; an end without a server is on this machine.
    pub(super) fn of(
        source: Option<(&Client, &Site)>,
        destination: Option<(&Client, &Site)>,
    ) -> Self {
        match (source, destination) {
            (Some((from, a)), Some((to, b))) => {
                let host = a.host.eq_ignore_ascii_case(&b.host)
                    || from.control.peer() == to.control.peer()
                    || (is_here(from) && is_here(to));
                match (host, a.port == b.port) {
                    (false, _) => Self::Apart,
                    (true, false) => Self::Machine,
                    (true, true) => Self::Server {
                        account: user(a) == user(b),
                    },
                }
            }
            (Some((client, _)), None) | (None, Some((client, _))) if is_here(client) => {
                Self::Machine
            }
            (None, None) => Self::Server { account: true },
            _ => Self::Apart,
        }
    }
}

fn user(site: &Site) -> &str {
    site.user.as_deref().unwrap_or("anonymous")
}

fn is_here(client: &Client) -> bool {
    let peer = client.control.peer();
    peer.is_loopback() || peer == client.control.local().to_canonical()
}

/// An object, with the facts that distinguish it from others.
#[derive(Debug, Clone)]
pub(super) struct Object {
    path: Vec<u8>,
    unique: Option<Unique>,
    facts: Facts,
}

impl Object {
    /// The object at `path` of a server, of which only the name is known.
    pub(super) fn named(path: &[u8]) -> Self {
        Self {
            path: normal(path),
            unique: None,
            facts: Facts::default(),
        }
    }

    /// The object at `path`, as a server tells.
    pub(super) fn of_entry(path: &[u8], entry: &Entry, known: FactSet) -> Self {
        Self {
            // Without inodes there is nothing to compare.
            unique: Some(entry.unique)
                .filter(|unique| known.contains(Fact::Unique) && unique.1 > 0),
            facts: Facts::of_entry(entry, known),
            ..Self::named(path)
        }
    }

    /// The object at `path` of this machine.
    pub(super) fn of_local(path: &Path, meta: &Metadata) -> Self {
        Self {
            path: path.as_os_str().as_bytes().to_vec(),
            unique: Some((meta.dev(), meta.ino())),
            facts: Facts::of_local(&local::Item::new(path.to_owned(), Vec::new(), meta)),
        }
    }

    /// Device and inode, or the fact of a server.
    pub(super) fn unique(&self) -> Option<Unique> {
        self.unique
    }

    fn is(&self, other: &Self, kin: Kin) -> bool {
        let named = !self.path.is_empty() && self.path == other.path;
        let one = self.unique.is_some() && self.unique == other.unique;
        let both = self.unique.is_some() && other.unique.is_some();
        let time = |object: &Self| object.facts.modified.map(|(seconds, _)| seconds);
        match kin {
            Kin::Apart => false,
            Kin::Machine => one && time(self).is_some() && time(self) == time(other),
            Kin::Server { account } => one || (!both && account && named),
        }
    }
}

/// Refuses a file of this machine that is its own destination, by whatever names.
pub(super) async fn must_differ(from: &[u8], to: &[u8]) -> Result<(), TransferError> {
    let paths = [from, to].map(|path| super::pull::local(path).to_owned());
    let look = move || {
        Ok(paths.map(|path| {
            let meta = path.metadata().ok()?;
            Some((meta.dev(), meta.ino()))
        }))
    };
    let looked = blocking(look).await;
    match looked.map_err(|error| TransferError::local("look at", to, error))? {
        [Some(one), Some(other)] if one == other => {
            let what = "is the destination itself";
            Err(TransferError::source(
                show(from),
                what,
                "name another destination",
            ))
        }
        _ => Ok(()),
    }
}

/// The path without `.`, `..` and empty components; one that begins at a home directory is
/// nobody's.
pub(super) fn normal(path: &[u8]) -> Vec<u8> {
    match FtpPath::new(path) {
        Some(path) if path.is_absolute() => path.normalized().as_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// The target of a copy: the object at its path if there is one, and the directories above it.
pub(super) struct Ancestry {
    here: Option<Object>,
    above: Vec<Object>,
}

impl Ancestry {
    /// Looks at `path` of a server, or of this machine; directories only where the copy is a
    /// `tree`.
    pub(super) async fn at(
        path: &[u8],
        tree: bool,
        client: Option<&Client>,
    ) -> Result<Self, ControlError> {
        match client {
            Some(client) => Self::there(path, tree, client).await,
            None => Ok(Self::local(path)),
        }
    }

    async fn there(path: &[u8], tree: bool, client: &Client) -> Result<Self, ControlError> {
        let mut asked = Vec::new();
        let mut at = names::trim_slashes(path);
        while let Some(wire) = client.control.path(at) {
            let facts = client.control.send(Command::Mlst(Some(wire)));
            asked.push((at.to_vec(), facts));
            at = names::parent(at);
            if !tree || asked.len() == LEVELS || asked.last().is_some_and(|(last, _)| last == at) {
                break;
            }
        }
        let mut found = Vec::new();
        for (path, mut facts) in asked {
            found.push(match facts.finish().await {
                Ok(reply) => match parse_mlst(&reply) {
                    Some((entry, known)) => Object::of_entry(&path, &entry, known),
                    None => Object::named(&path),
                },
                Err(ControlError::Refused { .. }) => Object::named(&path),
                Err(lost) => return Err(lost),
            });
        }
        let mut found = found.into_iter();
        Ok(Self {
            here: found.next(),
            above: found.collect(),
        })
    }

    fn local(path: &[u8]) -> Self {
        let path = super::pull::local(path);
        let look = |path: &Path| Some(Object::of_local(path, &std::fs::metadata(path).ok()?));
        let real = path.ancestors().find_map(|at| {
            let at = if at.as_os_str().is_empty() {
                Path::new(".")
            } else {
                at
            };
            std::fs::canonicalize(at).ok()
        });
        let here = look(path);
        let skip = usize::from(here.is_some());
        let above = real.iter().flat_map(|real| real.ancestors().skip(skip));
        Self {
            above: above.filter_map(look).collect(),
            here,
        }
    }

    /// Refuses a source that is this very object or, being a `tree`, holds it; gives the directory
    /// that is written to, which a walk through the source must not enter.
    pub(super) fn refuse(
        &self,
        source: &Object,
        tree: bool,
        kin: Kin,
        from: &str,
    ) -> Result<Option<Unique>, TransferError> {
        let is = |object: &&Object| source.is(object, kin);
        if self.here.as_ref().filter(is).is_some() {
            let what = format!("source: {from}: is the destination itself");
            return Err(TransferError::request(what, "name another destination"));
        }
        if tree && self.above.iter().any(|object| is(&object)) {
            let what = format!(
                "source: {from}: the destination lies in it, and would be copied into itself"
            );
            return Err(TransferError::request(what, "name one outside"));
        }
        let mut nearest = self.here.iter().chain(&self.above);
        Ok(nearest
            .find_map(|object| object.unique)
            .filter(|_| kin != Kin::Apart))
    }
}

/// The failure of a directory that the copy is written to.
pub(crate) fn within(path: &[u8]) -> TransferError {
    let what = "is the directory that is copied to; it is not copied into itself";
    TransferError::source(show(path), what, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(path: &str, unique: Option<Unique>, seconds: i64) -> Object {
        Object {
            unique,
            facts: Facts {
                modified: Some((seconds, 0)),
                ..Facts::default()
            },
            ..Object::named(path.as_bytes())
        }
    }

    #[test]
    fn objects_are_compared_by_the_relation_of_their_servers() {
        let server = Kin::Server { account: true };
        let other = Kin::Server { account: false };
        let (a, b) = (Some((1, 1)), Some((1, 2)));
        for (kin, one, two, same) in [
            (server, object("/a", a, 1), object("/b", a, 2), true),
            (server, object("/a", a, 1), object("/a", b, 1), false),
            (
                server,
                object("/x/../a", None, 1),
                object("//a/.", a, 1),
                true,
            ),
            (other, object("/a", None, 1), object("/a", None, 1), false),
            (
                server,
                object("~/a", None, 1),
                object("~/b", None, 1),
                false,
            ),
            (other, object("/a", a, 1), object("/b", a, 1), true),
            (Kin::Machine, object("/a", a, 1), object("/b", a, 1), true),
            (Kin::Machine, object("/a", a, 1), object("/a", a, 2), false),
            (
                Kin::Machine,
                object("/a", None, 1),
                object("/a", None, 1),
                false,
            ),
            (Kin::Apart, object("/a", a, 1), object("/a", a, 1), false),
        ] {
            assert_eq!(one.is(&two, kin), same, "{one:?} {two:?} {kin:?}");
        }
    }
}

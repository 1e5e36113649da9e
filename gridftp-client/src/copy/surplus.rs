//! Removes at a destination the names that no source has, once all else was copied.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use ftp_wire::command::Command;
use ftp_wire::facts::Entry;

use super::engine::connect_to;
use super::job::Facts;
use super::pull::local;
use super::state::CopyState;
use super::window::COMMANDS;
use crate::client::Client;
use crate::error::TransferError;
use crate::filter::Verdict;
use crate::names;
use crate::options::Links;
use crate::progress::Event;
use crate::text::counted;

/// Names that are removed in one run at most, and directories that wait to be listed.
const MOST: usize = 1 << 20;
/// Deepest nesting of directories that is entered.
const DEEPEST: usize = 512;

/// An object at the destination.
struct Found {
    name: Vec<u8>,
    /// Whether it is a directory itself, and no link to one.
    is_tree: bool,
    is_link: bool,
    facts: Facts,
}

/// A name that is removed.
struct Doomed {
    path: Vec<u8>,
    is_tree: bool,
}

/// A directory that is walked through.
struct Level {
    path: Vec<u8>,
    /// Path relative to the root of the copy.
    relative: Vec<u8>,
    /// Whether it goes itself, unless something in it stays.
    doomed: bool,
    /// Names of the directories in it that are still to be walked through.
    dirs: Vec<Vec<u8>>,
}

/// Removes what is below `roots` of the destination and not in the sources.
///
/// # Errors
/// When the names cannot be collected, or are more than may be removed: none is removed then.
///
/// # Cancel safety
/// Dropping the future leaves the names that are not removed yet.
pub(super) async fn remove(
    shared: &Arc<CopyState>,
    mut roots: Vec<Vec<u8>>,
) -> Result<(), TransferError> {
    roots.sort();
    roots.dedup_by(|below, above| is_below(below, above));
    let client = match &shared.destination {
        Some(site) => Some(connect_to(site, &shared.options, &shared.observer).await?),
        None => None,
    };
    if client.as_ref().is_some_and(|client| !client.abilities.mlst) {
        let path = shared.describe_destination(&shared.root);
        let what = "its server has no MLSD, and LIST does not tell links and hidden names";
        return Err(TransferError::source(path, what, "copy without --delete"));
    }
    let skips = shared.options.links == Links::Skip;
    if skips && client.as_ref().is_some_and(|c| !c.abilities.slink) {
        let path = shared.describe_destination(&shared.root);
        let what = "its server does not tell the links that --links skip keeps";
        return Err(TransferError::source(path, what, "copy without --delete"));
    }
    let mut search = Search {
        shared,
        client,
        doomed: Vec::new(),
    };
    for root in &roots {
        search.walk(root).await?;
    }
    let Search { client, doomed, .. } = search;
    let dry_run = shared.options.dry_run;
    if dry_run {
        plan(shared, client.as_deref(), &doomed).await?;
    }
    let count = doomed.len() as u64;
    if let Some(most) = shared
        .options
        .manner
        .max_delete
        .filter(|most| count > *most)
    {
        let path = shared.describe_destination(&shared.root);
        let names = counted(count, "name", "names");
        let what = format!("{names} would go, and --max-delete allows {most}");
        let remedy = match dry_run {
            true => "none would be removed",
            false => "nothing is removed; --dry-run names them",
        };
        return Err(TransferError::source(path, what, remedy));
    }
    if !dry_run {
        execute(shared, client.as_deref(), doomed).await?;
    }
    if let Some(client) = client {
        client.close().await;
    }
    Ok(())
}

/// The walk through the destination.
struct Search<'a> {
    shared: &'a Arc<CopyState>,
    client: Option<Box<Client>>,
    /// The names that go, those in a directory before itself.
    doomed: Vec<Doomed>,
}

impl Search<'_> {
    async fn walk(&mut self, root: &[u8]) -> Result<(), TransferError> {
        // Each level with the word whether something in it stays.
        let mut levels = Vec::new();
        levels.push(self.enter(root.to_vec(), Vec::new(), false).await?);
        while let Some((level, stays)) = levels.last_mut() {
            let Some(name) = level.dirs.pop() else {
                let (doomed, stays) = (level.doomed && !*stays, *stays || !level.doomed);
                let path = std::mem::take(&mut level.path);
                levels.pop();
                if doomed {
                    let is_tree = true;
                    self.doomed.push(Doomed { path, is_tree });
                }
                if let Some((_, above)) = levels.last_mut() {
                    *above |= stays;
                }
                continue;
            };
            let path = names::join(&level.path, &name);
            let relative = names::join(&level.relative, &name);
            let taken = self.shared.options.choice.dir(&relative) == Verdict::Take;
            let doomed = taken && !self.shared.is_sourced(&path);
            let waiting: usize = levels.iter().map(|(level, _)| level.dirs.len()).sum();
            if levels.len() > DEEPEST || waiting + self.doomed.len() > MOST {
                return Err(self.too_many(&path));
            }
            let next = self.enter(path, relative, doomed).await?;
            levels.push(next);
        }
        Ok(())
    }

    fn too_many(&self, path: &[u8]) -> TransferError {
        let path = self.shared.describe_destination(path);
        let what = format!("--delete: more than {MOST} names or {DEEPEST} levels");
        TransferError::source(path, what, "nothing is removed; copy it in parts")
    }

    /// Lists a directory; says also whether something in it stays.
    async fn enter(
        &mut self,
        path: Vec<u8>,
        relative: Vec<u8>,
        doomed: bool,
    ) -> Result<(Level, bool), TransferError> {
        let mut level = Level {
            path,
            relative,
            doomed,
            dirs: Vec::new(),
        };
        let (mut stays, mut bad) = (false, None);
        let (shared, gone) = (self.shared, &mut self.doomed);
        let (path, dirs) = (&level.path, &mut level.dirs);
        let each = |found: Found| {
            if let Err(error) = names::check(&found.name) {
                bad.get_or_insert(error);
                return;
            }
            let at = names::join(path, &found.name);
            match shared.fate(&found, &at, &names::join(&level.relative, &found.name)) {
                Fate::Stays => stays = true,
                Fate::Entered | Fate::Goes if gone.len() + dirs.len() > MOST => {}
                Fate::Entered => dirs.push(found.name),
                Fate::Goes => gone.push(Doomed {
                    path: at,
                    is_tree: false,
                }),
            }
        };
        match &mut self.client {
            Some(client) => there(client, path, each).await?,
            None => {
                shared.spare_sources(path, true).await?;
                here(path, each).await?;
            }
        }
        if self.doomed.len() + level.dirs.len() > MOST {
            return Err(self.too_many(&level.path));
        }
        bad.map_or(Ok((level, stays)), Err)
    }
}

/// What becomes of an object.
enum Fate {
    Stays,
    /// It is a directory, of whose entries some may go.
    Entered,
    Goes,
}

impl CopyState {
    fn fate(&self, found: &Found, path: &[u8], relative: &[u8]) -> Fate {
        let choice = &self.options.choice;
        let backup = self.backup_dir(&self.root);
        let kept = found.is_link && self.options.links == Links::Skip;
        if kept || is_ours(&found.name) || backup.is_some_and(|dir| is_below(&dir, path)) {
            return Fate::Stays;
        }
        if found.is_tree {
            return match choice.dir(relative) {
                Verdict::Leave => Fate::Stays,
                Verdict::Take | Verdict::Enter => Fate::Entered,
            };
        }
        let Facts { size, modified, .. } = found.facts;
        let chosen = choice.takes_file(relative) && choice.refusal(size, modified).is_none();
        match chosen && !self.is_sourced(path) {
            true => Fate::Goes,
            false => Fate::Stays,
        }
    }

    fn note_removed(&self, path: &[u8]) {
        self.totals.deleted();
        let path = &self.describe_destination(path);
        self.observer.event(&Event::Removed { path });
    }
}

/// Says whether a name is one of those that our programs keep unfinished files under.
fn is_ours(name: &[u8]) -> bool {
    name == b".gridftp-index" || ftp_wire::glob::matches(b".*.gridftp-*", name)
}

/// Says whether `path` is `dir`, or in it.
pub(crate) fn is_below(path: &[u8], dir: &[u8]) -> bool {
    let rest = path.strip_prefix(names::trim_slashes(dir));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || dir == b"/")
}

/// Lists a directory of a server; one that is not there has no entries.
async fn there(
    client: &mut Client,
    path: &[u8],
    mut each: impl FnMut(Found) + Send,
) -> Result<(), TransferError> {
    let each = |entry: Entry, known| {
        each(Found {
            is_tree: entry.kind.is_dir() && !entry.is_link(),
            is_link: entry.is_link(),
            facts: Facts::of_entry(&entry, known),
            name: entry.name.to_vec(),
        });
    };
    match Box::pin(client.list(path, each)).await {
        Err(error) if error.control().is_some_and(|error| error.is_not_found()) => Ok(()),
        listed => listed,
    }
}

/// Lists a directory of this machine.
async fn here(path: &[u8], mut each: impl FnMut(Found)) -> Result<(), TransferError> {
    let dir = local(path).to_owned();
    let list = move || -> std::io::Result<Vec<Found>> {
        let entries = match std::fs::read_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries
            .map(|entry| {
                let entry = entry?;
                let (name, meta) = (entry.file_name(), entry.metadata()?);
                let item = crate::local::Item::new(PathBuf::new(), Vec::new(), &meta);
                Ok(Found {
                    name: name.as_bytes().to_vec(),
                    is_tree: meta.is_dir(),
                    is_link: meta.is_symlink(),
                    facts: Facts::of_local(&item),
                })
            })
            .collect()
    };
    let listed = tokio::task::spawn_blocking(list).await;
    let listed = listed.map_err(std::io::Error::other).and_then(|done| done);
    let found = listed.map_err(|error| TransferError::local("list", path, error))?;
    found.into_iter().for_each(&mut each);
    Ok(())
}

/// Tells the names that would be removed, or moved to the directory for such.
async fn plan(
    shared: &CopyState,
    client: Option<&Client>,
    doomed: &[Doomed],
) -> Result<(), TransferError> {
    let server = client.map(|client| (&client.control, &client.abilities));
    let aside = shared.options.manner.backup_dir.is_some();
    for Doomed { path, is_tree } in doomed {
        if aside && !is_tree {
            shared.plan_aside(path, server).await?;
            continue;
        }
        let path = &shared.describe_destination(path);
        shared.observer.event(&Event::PlannedRemoval { path });
    }
    Ok(())
}

/// Removes the names, each failure of which is told.
async fn execute(
    shared: &Arc<CopyState>,
    client: Option<&Client>,
    mut doomed: Vec<Doomed>,
) -> Result<(), TransferError> {
    if let Some(client) = client.filter(|client| !client.abilities.held) {
        unlink(shared, client, &mut doomed).await?;
    }
    let aside = shared.options.manner.backup_dir.is_some();
    // A directory is empty only when the last of its files has moved.
    let ahead = if aside { 1 } else { COMMANDS };
    for some in doomed.chunks(ahead) {
        let mut sent = Vec::with_capacity(some.len());
        for name in some {
            let moves = aside && !name.is_tree;
            sent.push(match client {
                _ if moves => None,
                Some(client) => command(client, name).map(|command| client.control.send(command)),
                None => None,
            });
        }
        for (name, sent) in some.iter().zip(sent) {
            let removed = match (sent, client) {
                (Some(mut replies), _) => replies.finish().await.map(drop).map_err(Into::into),
                (None, Some(client)) if aside && !name.is_tree => {
                    let server = Some((&client.control, &client.abilities));
                    shared.set_aside(&name.path, server).await
                }
                (None, Some(_)) => Err(TransferError::unsendable(&name.path)),
                (None, None) if aside && !name.is_tree => shared.set_aside(&name.path, None).await,
                (None, None) => remove_here(name).await,
            };
            match removed {
                Ok(()) => shared.note_removed(&name.path),
                Err(error) if error.is_gone() => return Err(error),
                Err(error) => {
                    let path = shared.describe_destination(&name.path);
                    shared.give_up_found(&path, b"", &error);
                }
            }
        }
    }
    Ok(())
}

fn command(client: &Client, name: &Doomed) -> Option<Command> {
    let path = client.control.path(&name.path)?;
    Some(match name.is_tree {
        true => Command::Rmd(path),
        false => Command::Dele(path),
    })
}

async fn remove_here(name: &Doomed) -> Result<(), TransferError> {
    let path = PathBuf::from(OsStr::from_bytes(&name.path));
    let is_tree = name.is_tree;
    let work = move || match is_tree {
        true => std::fs::remove_dir(path),
        false => std::fs::remove_file(path),
    };
    let removed = tokio::task::spawn_blocking(work).await;
    let removed = removed.map_err(std::io::Error::other).and_then(|done| done);
    removed.map_err(|error| TransferError::local("remove", &name.path, error))
}

/// Removes the directories that are links: some servers list them as directories, and one is a link
/// if it can be removed like a file. What it leads to stays.
async fn unlink(
    shared: &Arc<CopyState>,
    client: &Client,
    doomed: &mut Vec<Doomed>,
) -> Result<(), TransferError> {
    let mut links: Vec<Vec<u8>> = Vec::new();
    // Directories stand behind their entries.
    for name in doomed.iter().rev().filter(|name| name.is_tree) {
        if links.iter().any(|link| is_below(&name.path, link)) {
            continue;
        }
        match client.remove(&name.path).await {
            Ok(()) => {
                shared.note_removed(&name.path);
                links.push(name.path.clone());
            }
            Err(error) if error.reply().is_some() => {}
            Err(error) => return Err(error.into()),
        }
    }
    doomed.retain(|name| !links.iter().any(|link| is_below(&name.path, link)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_of_ours_are_known_by_their_names() {
        for ours in [".gridftp-index", ".a.gridftp-0a1b", "..gridftp-1"] {
            assert!(is_ours(ours.as_bytes()), "{ours}");
        }
        for other in ["a.gridftp-0a1b", ".a", ".gridftp", "gridftp-index"] {
            assert!(!is_ours(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_path_is_below_its_directory_only() {
        for (path, dir, wanted) in [
            ("/a/b", "/a", true),
            ("/a", "/a/", true),
            ("/ab", "/a", false),
            ("/a", "/a/b", false),
            ("/a", "/", true),
        ] {
            assert_eq!(
                is_below(path.as_bytes(), dir.as_bytes()),
                wanted,
                "{path} {dir}"
            );
        }
    }
}

//! Lists and removes the partial files of broken copies, at both ends.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::partial::Partial as Told;
use ftp_wire::path::FtpPath;
use gridftp_dsi_posix::kept::{self, Kept};
use walkdir::WalkDir;

use crate::client::Client;
use crate::copy::notes::{self, Note};
use crate::error::{ControlError, TransferError};
use crate::names;
use crate::options::CopyOptions;
use crate::progress::{Event, Observer};
use crate::url::{Location, Remote, show};

mod sessions;

use sessions::Sessions;

/// Age of kept bytes that nobody continues any more: the next run in their directory removes them.
pub(crate) const OLD: Duration = Duration::from_secs(7 * 24 * 3600);

/// The partial file of one broken copy.
#[derive(Debug)]
#[non_exhaustive]
pub struct Partial {
    /// The source, with bytes that do not print as escapes. `None` where no record here tells it: no
    /// later run goes on with the bytes of such a download, and a run elsewhere with those of such
    /// an upload.
    pub source: Option<String>,
    /// The destination: a path of this machine for a download, a URL for an upload or a copy between
    /// servers.
    pub destination: String,
    /// Bytes that need not be sent again; `None` where the server has told of none, and is asked by
    /// the next run.
    pub held: Option<u64>,
    /// Bytes of the whole file.
    pub size: Option<u64>,
    /// Time of the last change.
    pub modified: SystemTime,
    /// Whether a process writes to it now.
    pub in_use: bool,
    place: Place,
}

/// The place of kept bytes.
#[derive(Debug)]
enum Place {
    Here(Kept),
    /// At a server, and where the hidden name is that the file has there until it is whole.
    There(Box<Remote>, Option<FtpPath>),
}

impl Partial {
    /// Says whether the bytes are on this machine, those of a download.
    pub fn is_here(&self) -> bool {
        matches!(self.place, Place::Here(_))
    }

    /// Says whether it is an upload that another account or machine began, by the list of the server.
    pub fn is_of_others(&self) -> bool {
        !self.is_here() && self.source.is_none()
    }

    fn here(kept: Kept) -> Self {
        let origin = kept.origin.as_ref();
        Self {
            source: origin.map(|origin| origin.name().to_owned()),
            destination: show(kept.target.as_os_str().as_bytes()),
            held: Some(kept.held),
            size: origin.map(|origin| origin.size()),
            modified: kept.modified,
            in_use: kept.in_use,
            place: Place::Here(kept),
        }
    }

    /// That of a note, if it is for a destination at `place`, whose account it then has.
    fn noted(found: notes::Found, place: Option<&Remote>) -> Option<Self> {
        let upload = found.upload;
        let Ok(Location::Remote(mut at)) = Location::parse(&upload.to) else {
            return None;
        };
        if let Some(place) = place {
            if !is_below(&upload.to, &place.site.url(&place.path)) {
                return None;
            }
            at.site.clone_from(&place.site);
        }
        let mut words = upload.source.splitn(4, ' ');
        let size = words.next().and_then(|size| size.parse().ok());
        Some(Self {
            source: words.nth(2).map(str::to_owned),
            destination: upload.to,
            held: Some(upload.held.total()).filter(|held| *held > 0),
            size,
            modified: found.modified,
            in_use: found.in_use,
            place: Place::There(Box::new(at), upload.hidden),
        })
    }

    /// That which a server tells of in its directory `dir`.
    fn told(told: Told, dir: &Remote) -> Self {
        let mut at = dir.clone();
        at.pattern = None;
        if !at.path.ends_with(b"/") {
            at.path.push(b'/');
        }
        at.path.extend_from_slice(told.name.as_bytes());
        let since = u64::try_from(told.modified.seconds).unwrap_or(0);
        Self {
            source: None,
            destination: at.site.url(&at.path),
            held: Some(told.held),
            size: told.size,
            modified: SystemTime::UNIX_EPOCH + Duration::new(since, told.modified.nanos),
            in_use: told.in_use,
            place: Place::There(Box::new(at), None),
        }
    }
}

/// The partial files that were found, and the servers that did not tell of theirs.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Partials {
    /// The partial files, in order of their destinations.
    pub found: Vec<Partial>,
    /// The places at a server that could not be asked, of which the notes of this machine alone are
    /// found.
    pub failed: Vec<(String, TransferError)>,
    /// The sessions of the list, in which partial files are removed.
    sessions: Sessions,
}

impl Partials {
    /// Removes the partial file of a copy, here or at the server, and its note, over the session of the
    /// list. At a server it acts with the account of the place in the list.
    ///
    /// # Errors
    /// [`TransferError`]: a process writes to it, or the server is not reached or refuses; the note
    /// stays then.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn discard(
        &mut self,
        partial: &Partial,
        options: &CopyOptions,
        observer: Arc<dyn Observer>,
    ) -> Result<(), TransferError> {
        let (at, hidden) = match &partial.place {
            Place::Here(kept) => {
                let path = kept.path.as_os_str().as_bytes();
                let removed = kept::discard(kept).await;
                return removed.map_err(|error| TransferError::local("remove", path, error));
            }
            Place::There(at, hidden) => (at, hidden),
        };
        // The lock keeps a run from going on with it meanwhile.
        let note = match &options.notes {
            Some(dir) => match Note::open(dir, &partial.destination).await {
                None => {
                    let what = format!(
                        "{}: another run writes to it, or its note cannot be opened",
                        partial.destination
                    );
                    return Err(TransferError::request(what, "wait for the end of that run"));
                }
                opened => opened,
            },
            None => None,
        };
        let (note, now) = note.unzip();
        let now = now.flatten();
        let is_noted = now.is_some();
        let hidden = now.map_or_else(|| hidden.clone(), |upload| upload.hidden);
        let removing = self.sessions.remove(at, hidden, options, &observer);
        let removed = Box::pin(removing).await;
        // One that the lock alone has made tells nothing.
        if let Some(note) = note.filter(|_| removed.is_ok() || !is_noted) {
            note.remove();
        }
        removed
    }

    /// Ends the sessions of the list politely.
    pub async fn close(self) {
        self.sessions.close().await;
    }

    /// Adds what a server tells to what the notes of this machine tell.
    fn add(&mut self, told: Vec<Partial>) {
        for told in told {
            let is_same = |noted: &&mut Partial| noted.destination == told.destination;
            match self.found.iter_mut().find(is_same) {
                Some(noted) => {
                    (noted.held, noted.modified) = (told.held, told.modified);
                    noted.in_use |= told.in_use;
                }
                None => self.found.push(told),
            }
        }
    }
}

/// Asks the server for what it keeps at and below the place `at`.
async fn uploads(
    at: &Remote,
    options: &CopyOptions,
    observer: &Arc<dyn Observer>,
    sessions: &mut Sessions,
) -> Result<Vec<Partial>, TransferError> {
    let client = sessions.take(&at.site, options, observer).await?;
    let listed = match client.abilities().held {
        true => kept_at(&client, at, observer).await,
        false => Ok(Vec::new()),
    };
    sessions.give_back(&at.site, client);
    Ok(listed?)
}

/// A file is found in the list of its directory.
async fn kept_at(
    client: &Client,
    at: &Remote,
    observer: &Arc<dyn Observer>,
) -> Result<Vec<Partial>, ControlError> {
    let mut dir = at.clone();
    let mut listed = ask(client, &dir.path).await?;
    if listed.is_none() {
        dir.path = match names::parent(&at.path) {
            b"" => b"/".to_vec(),
            parent => parent.to_vec(),
        };
        listed = ask(client, &dir.path).await?;
    }
    let (listed, is_cut) = listed.unwrap_or_default();
    if is_cut {
        let more = "more partial files may be kept than the server lists: name a directory below; \
                    those with a line end in their names are never listed, nor are those of its \
                    data nodes that are away";
        let text = format!("{}: {more}", dir.site.url(&dir.path));
        observer.event(&Event::Warning(&text));
    }
    let top = at.site.url(&at.path);
    let all = listed.into_iter().map(|told| Partial::told(told, &dir));
    Ok(all
        .filter(|partial| is_below(&partial.destination, &top))
        .collect())
}

/// The partial files that the server keeps below `path`, and whether it keeps others; `None` where
/// that is no directory.
async fn ask(client: &Client, path: &[u8]) -> Result<Option<(Vec<Told>, bool)>, ControlError> {
    let command = Command::Site(SiteCommand::Held(client.path(path)?));
    match client.ask(command).await {
        Ok(reply) => Ok(Told::all_of(&reply)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Says whether `url` is `top` or below it.
fn is_below(url: &str, top: &str) -> bool {
    let top = top.trim_end_matches('/');
    let rest = url.strip_prefix(top);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Lists the partial files at `places`: downloads in a local directory, and below it where the
/// options are [`recursive`](CopyOptions::recursive), or to a local file; uploads and copies between
/// servers to a URL and below it, those of which this machine has notes and, of a server of ours,
/// those that were begun elsewhere. Without places, downloads in the working directory and all
/// uploads of which this machine has notes.
///
/// # Errors
/// [`TransferError`]: a local directory cannot be read.
///
/// # Cancel safety
/// Dropping the future closes the connections; a search below a directory may go on to its end.
pub async fn partials(
    places: &[Location],
    options: &CopyOptions,
    observer: Arc<dyn Observer>,
) -> Result<Partials, TransferError> {
    let noted = match &options.notes {
        Some(dir) => notes::all(dir).await,
        None => Vec::new(),
    };
    let noted = |place: Option<&Remote>| -> Vec<_> {
        let noted = noted.iter().cloned();
        noted
            .filter_map(|note| Partial::noted(note, place))
            .collect()
    };
    let mut all = Partials::default();
    for place in places {
        match place {
            Location::Local(path) => all.found.extend(downloads(path, options.recursive).await?),
            Location::Remote(remote) => {
                all.found.extend(noted(Some(remote)));
                let asked = uploads(remote, options, &observer, &mut all.sessions);
                match Box::pin(asked).await {
                    Ok(told) => all.add(told),
                    Err(error) => all.failed.push((remote.to_string(), error)),
                }
            }
            Location::Stdio => {
                let what = "usage: -: standard output keeps nothing";
                return Err(TransferError::request(
                    what,
                    "name a directory, a file or a URL",
                ));
            }
        }
    }
    if places.is_empty() {
        let here = downloads(Path::new("."), options.recursive).await?;
        all.found.extend(here);
        all.found.extend(noted(None));
    }
    let found = &mut all.found;
    found.sort_by(|one, other| one.destination.cmp(&other.destination));
    found.dedup_by(|one, other| one.destination == other.destination);
    Ok(all)
}

async fn downloads(path: &Path, recursive: bool) -> Result<Vec<Partial>, TransferError> {
    let is_dir = path.is_dir();
    let dirs = match (is_dir, recursive) {
        (true, true) => below(path.to_owned()).await?,
        (true, false) => vec![path.to_owned()],
        (false, _) => vec![path.parent().unwrap_or(path).to_owned()],
    };
    let mut found = Vec::new();
    for dir in dirs {
        let kept = kept::kept(&dir).await;
        let kept =
            kept.map_err(|error| TransferError::local("list", dir.as_os_str().as_bytes(), error))?;
        let partial = kept::partial_of(path);
        let of_it = |kept: &Kept| is_dir || kept.path.file_name() == partial.file_name();
        found.extend(kept.into_iter().filter(of_it).map(Partial::here));
    }
    Ok(found)
}

/// The directory `top` and those below it; links are not followed.
async fn below(top: PathBuf) -> Result<Vec<PathBuf>, TransferError> {
    let name = top.clone();
    let walked = tokio::task::spawn_blocking(move || {
        let is_dir = |entry: &walkdir::DirEntry| entry.file_type().is_dir();
        let entries = WalkDir::new(top).into_iter();
        let dirs = entries.filter(|entry| entry.as_ref().map_or(true, is_dir));
        let dirs = dirs.map(|entry| Ok(entry?.into_path()));
        dirs.collect::<std::io::Result<_>>()
    });
    let walked = walked.await.map_err(std::io::Error::other);
    let walked = walked.and_then(|walked| walked);
    walked.map_err(|error| TransferError::local("list below", name.as_os_str().as_bytes(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(url: &str) -> Remote {
        match Location::parse(url).unwrap() {
            Location::Remote(remote) => remote,
            other => panic!("{other:?}"),
        }
    }

    fn told(name: &str) -> Told {
        Told {
            name: FtpPath::new(name).unwrap(),
            held: 7,
            size: Some(9),
            modified: ftp_wire::facts::TimeVal::new(5, 0),
            in_use: false,
        }
    }

    #[test]
    fn what_a_server_tells_is_below_the_place() {
        for (place, expected) in [
            ("ftp://h/d", "ftp://h:21/d/a%20b/c"),
            ("ftp://h/d/", "ftp://h:21/d/a%20b/c"),
            ("ftp://h/", "ftp://h:21/a%20b/c"),
            ("ftp://ann@h/~", "ftp://ann@h:21/~/a%20b/c"),
        ] {
            let place = dir(place);
            let partial = Partial::told(told("a b/c"), &place);
            assert_eq!(partial.destination, expected);
            assert_eq!(dir(expected).path, {
                let Place::There(at, None) = &partial.place else {
                    panic!("{partial:?}")
                };
                at.path.clone()
            });
            assert!(is_below(&partial.destination, &place.site.url(&place.path)));
        }
    }

    #[test]
    fn a_note_and_its_server_tell_one_partial_file() {
        let place = dir("ftp://h/d");
        let mut noted = Partial::told(told("f"), &place);
        noted.source = Some("/source".to_owned());
        noted.held = None;
        let mut all = Partials {
            found: vec![noted],
            ..Partials::default()
        };
        all.add(
            ["f", "g"]
                .map(|name| Partial::told(told(name), &place))
                .into(),
        );
        let facts: Vec<_> = all
            .found
            .iter()
            .map(|partial| (partial.source.as_deref(), partial.held))
            .collect();
        assert_eq!(facts, [(Some("/source"), Some(7)), (None, Some(7))]);
    }

    #[test]
    fn a_place_has_its_own_names_alone() {
        for (url, top, expected) in [
            ("ftp://h/d/f", "ftp://h/d", true),
            ("ftp://h/d/f", "ftp://h/d/", true),
            ("ftp://h/d/f", "ftp://h/d/f", true),
            ("ftp://h/d/f", "ftp://h/", true),
            ("ftp://h/data", "ftp://h/d", false),
            ("ftp://other/d/f", "ftp://h/d", false),
        ] {
            assert_eq!(is_below(url, top), expected, "{url} {top}");
        }
    }
}

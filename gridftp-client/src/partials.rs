//! Lists and removes the partial files of broken copies, at both ends.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::path::FtpPath;
use gridftp_dsi_posix::kept::{self, Kept};
use walkdir::WalkDir;

use crate::copy::connect_to;
use crate::copy::notes::{self, Note};
use crate::error::TransferError;
use crate::options::CopyOptions;
use crate::progress::Observer;
use crate::url::{Location, Remote, show};

/// Age of kept bytes that nobody continues any more: the next run in their directory removes them.
pub(crate) const OLD: Duration = Duration::from_secs(7 * 24 * 3600);

/// The partial file of one broken copy.
#[derive(Debug)]
#[non_exhaustive]
pub struct Partial {
    /// The source, with bytes that do not print as escapes; `None` where no record tells it, so that
    /// no later run goes on with the bytes.
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
}

/// Says whether `url` is `top` or below it.
fn is_below(url: &str, top: &str) -> bool {
    let top = top.trim_end_matches('/');
    let rest = url.strip_prefix(top);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Lists the partial files at `places`, in order of the destinations: downloads in a local directory, and
/// below it where the options are [`recursive`](CopyOptions::recursive), or to a local file; uploads
/// and copies between servers, of which this machine has notes, to a URL and below it. Without
/// places, downloads in the working directory and all uploads.
///
/// # Errors
/// [`TransferError`]: a directory cannot be read.
///
/// # Cancel safety
/// Dropping the future gives nothing; a search below a directory may go on to its end.
pub async fn partials(
    places: &[Location],
    options: &CopyOptions,
) -> Result<Vec<Partial>, TransferError> {
    let noted = match &options.notes {
        Some(dir) => notes::all(dir).await,
        None => Vec::new(),
    };
    let mut found = Vec::new();
    for place in places {
        match place {
            Location::Local(path) => found.extend(downloads(path, options.recursive).await?),
            Location::Remote(remote) => found.extend(
                noted
                    .iter()
                    .filter_map(|note| Partial::noted(note.clone(), Some(remote))),
            ),
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
        found.extend(downloads(Path::new("."), options.recursive).await?);
        found.extend(
            noted
                .into_iter()
                .filter_map(|note| Partial::noted(note, None)),
        );
    }
    found.sort_by(|one, other| one.destination.cmp(&other.destination));
    found.dedup_by(|one, other| one.destination == other.destination);
    Ok(found)
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
    let name = show(top.as_os_str().as_bytes());
    let walked = tokio::task::spawn_blocking(move || {
        let is_dir = |entry: &walkdir::DirEntry| entry.file_type().is_dir();
        let entries = WalkDir::new(top).into_iter();
        let dirs = entries.filter(|entry| entry.as_ref().map_or(true, is_dir));
        let dirs = dirs.map(|entry| Ok(entry?.into_path()));
        dirs.collect::<std::io::Result<_>>()
    });
    let walked = walked.await.map_err(std::io::Error::other);
    let walked = walked.and_then(|walked| walked);
    walked.map_err(|error| TransferError::local("list below", name, error))
}

/// Removes the partial file of a copy, here or at the server, and its note. At a server it acts with
/// the account of the place in the list.
///
/// # Errors
/// [`TransferError`]: a process writes to it, or the server is not reached or refuses; the note
/// stays then.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub async fn discard(
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
        Some(dir) => Note::open(dir, &partial.destination).await,
        None => None,
    };
    let Some((note, now)) = note else {
        let what = format!(
            "{}: another run writes to it, or its note cannot be opened",
            partial.destination
        );
        return Err(TransferError::request(what, "wait for the end of that run"));
    };
    let hidden = now.map_or_else(|| hidden.clone(), |upload| upload.hidden);
    let client = connect_to(&at.site, options, &observer).await?;
    let command = match hidden {
        Some(hidden) => Command::Dele(hidden),
        None => Command::Site(SiteCommand::DropHeld(client.path(&at.path)?)),
    };
    match client.ask(command).await {
        Err(error) if error.kind() == Some(FailureKind::NotFound) => {}
        done => drop(done?),
    }
    note.remove();
    client.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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

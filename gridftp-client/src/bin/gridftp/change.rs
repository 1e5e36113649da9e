//! `gridftp mkdir`, `rm`, `mv`, `ln`, `chmod` and `touch`: changes of names and facts.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueHint;
use ftp_wire::facts::TimeVal;
use gridftp_client::error::TransferError;
use gridftp_client::file::WriteOptions;
use gridftp_client::program::events::named;
use gridftp_client::url::show;
use gridftp_client::{Client, Location, names, remote};
use serde_json::json;

use crate::end::data_error;
use crate::work::{Common, Place, Work};

/// The options of `gridftp mkdir`.
#[derive(Debug, clap::Args)]
#[command(after_help = named(&["directory"]))]
pub(crate) struct MkdirArgs {
    /// Directories to make
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    places: Vec<OsString>,

    /// Make missing directories above too; a directory that is there is no error
    #[arg(short, long)]
    parents: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Makes directories.
pub(crate) async fn mkdir(args: &MkdirArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let places = remotes(&args.places, work)?;
    work.each(places, async |work, place| {
        let at = work.at(place).await;
        if args.parents {
            at.ask(async |client| client.make_dirs(&place.path).await)
                .await?;
        } else {
            let is_there = at.ask(async |client| client.exists(&place.path).await);
            if is_there.await? {
                return Err(source(place, "it is there already", "-p takes it as it is"));
            }
            at.ask(async |client| client.make_dir(&place.path).await)
                .await?;
        }
        work.tell(&json!({ "event": "directory", "url": place.url() }));
        Ok(())
    })
    .await;
    Ok(())
}

/// The options of `gridftp rm`.
#[derive(Debug, clap::Args)]
#[command(after_help = named(&["removed", "skip"]))]
pub(crate) struct RmArgs {
    /// Files, links or directories to remove
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    places: Vec<OsString>,

    /// Remove directories with all that they hold; links are not followed
    #[arg(short, long)]
    recursive: bool,

    /// Say nothing of names that are not there
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Removes files and trees.
pub(crate) async fn rm(args: &RmArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let places = remotes(&args.places, work)?;
    for place in &places {
        let is_pattern = matches!(&place.location, Location::Remote(at) if at.pattern.is_some());
        if !is_pattern {
            remote::check_removable(&place.path)?;
        }
    }
    work.each(places, async |work, place| {
        let at = work.at(place).await;
        let removed = if args.recursive {
            at.ask(async |client| client.remove_all(&place.path).await)
                .await
        } else {
            remove(place, at).await
        };
        let Err(error) = removed else {
            work.tell(&json!({ "event": "removed", "url": place.url() }));
            return Ok(());
        };
        let refused = matches!(&error, TransferError::Control(error) if error.reply().is_some());
        if args.force && refused {
            let path = &place.path;
            if !at.ask(async |client| client.exists(path).await).await? {
                skip(work, place);
                return Ok(());
            }
        }
        Err(error)
    })
    .await;
    Ok(())
}

async fn remove(place: &Place, at: &mut crate::end::End) -> Result<(), TransferError> {
    let removed = at.ask(async |client| client.remove(&place.path).await);
    let Err(error) = removed.await else {
        return Ok(());
    };
    match at.stat(&place.path).await {
        Ok(object) if object.is_tree() => Err(source(
            place,
            "is a directory",
            "-r removes it and all that it holds",
        )),
        _ => Err(error),
    }
}

/// The options of `gridftp mv`.
#[derive(Debug, clap::Args)]
#[command(after_help = named(&["renamed"]))]
pub(crate) struct MvArgs {
    /// The file or directory
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    from: OsString,

    /// The new name, or the directory to move it to
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    to: OsString,

    /// Leave an object of that name as it is
    #[arg(short = 'n', long)]
    no_clobber: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Renames.
pub(crate) async fn mv(args: &MvArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let (from, to) = (work.remote(&args.from)?, work.remote(&args.to)?);
    let same = match (&from.location, &to.location) {
        (Location::Remote(from), Location::Remote(to)) => {
            from.site == to.site && to.pattern.is_none()
        }
        _ => false,
    };
    anyhow::ensure!(
        same,
        "usage: mv renames in one session: name one server, user and place, or copy with gridftp-cp"
    );
    work.each(vec![from], async |work, from| {
        let at = work.at(&to).await;
        let there = match at.stat(&to.path).await {
            Ok(object) => Some(object),
            Err(TransferError::Control(error)) if error.reply().is_some() => None,
            Err(error) => return Err(error),
        };
        let mut to = to.clone();
        let mut occupied = there.is_some();
        if there.is_some_and(|object| object.entry.kind.is_dir()) {
            to = to.with_path(names::join(&to.path, names::last(&from.path)));
            occupied = at.ask(async |client| client.exists(&to.path).await).await?;
        }
        if occupied && args.no_clobber {
            return Err(source(
                &to,
                "it is there already",
                "leave out -n to replace it",
            ));
        }
        at.ask(async |client| client.rename(&from.path, &to.path).await)
            .await?;
        work.tell(&json!({ "event": "renamed", "source": from.url(), "destination": to.url() }));
        Ok(())
    })
    .await;
    Ok(())
}

/// The options of `gridftp ln`.
#[derive(Debug, clap::Args)]
#[command(after_help = named(&["symlink"]))]
pub(crate) struct LnArgs {
    /// Make a symbolic link, the only kind that servers make
    #[arg(short, long, required = true)]
    symbolic: bool,

    /// Replace a file or link of that name
    #[arg(short, long)]
    force: bool,

    /// The path that the link leads to, as it is written into it
    #[arg(value_name = "TARGET")]
    target: OsString,

    /// The link
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    link: OsString,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Makes a link.
pub(crate) async fn ln(args: &LnArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let link = work.remote(&args.link)?;
    work.each(vec![link], async |work, link| {
        let at = work.at(link).await;
        if args.force {
            match at.ask(async |client| client.remove(&link.path).await).await {
                Err(TransferError::Control(error)) if error.is_not_found() => {}
                done => done?,
            }
        }
        let target = args.target.as_bytes();
        at.ask(async |client| client.symlink(target, &link.path).await)
            .await?;
        work.tell(&json!({ "event": "symlink", "url": link.url(), "target": show(target) }));
        Ok(())
    })
    .await;
    Ok(())
}

/// The options of `gridftp chmod`.
#[derive(Debug, clap::Args)]
#[command(after_help = named(&["mode"]))]
pub(crate) struct ChmodArgs {
    /// Permission bits as an octal number, such as 0640
    #[arg(value_name = "MODE", value_parser = mode)]
    mode: u32,

    /// Files or directories
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    places: Vec<OsString>,

    #[command(flatten)]
    pub(crate) common: Common,
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o7777 && !text.starts_with('+'));
    mode.ok_or_else(|| "write an octal number up to 7777, such as 0640".to_owned())
}

/// Sets permission bits.
pub(crate) async fn chmod(args: &ChmodArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let places = remotes(&args.places, work)?;
    work.each(places, async |work, place| {
        let at = work.at(place).await;
        at.ask(async |client| client.set_mode(&place.path, args.mode).await)
            .await?;
        let mode = format!("{:04o}", args.mode);
        work.tell(&json!({ "event": "mode", "url": place.url(), "mode": mode }));
        Ok(())
    })
    .await;
    Ok(())
}

/// The options of `gridftp touch`.
#[derive(Debug, clap::Args)]
#[command(after_help = named(&["touched", "skip"]))]
pub(crate) struct TouchArgs {
    /// Files or directories
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    places: Vec<OsString>,

    /// Make no file that is missing
    #[arg(short = 'c', long)]
    no_create: bool,

    /// Set this time, in UTC [default: now]
    #[arg(short, long, value_name = "YYYYMMDDhhmmss", value_parser = time)]
    time: Option<TimeVal>,

    #[command(flatten)]
    pub(crate) common: Common,
}

fn time(text: &str) -> Result<TimeVal, String> {
    let time = TimeVal::parse(text.as_bytes());
    time.ok_or_else(|| "write a time in UTC such as 20261123104500".to_owned())
}

/// Sets times.
pub(crate) async fn touch(args: &TouchArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let now = TimeVal::new(
        i64::try_from(now.as_secs()).unwrap_or(0),
        now.subsec_nanos(),
    );
    let time = args.time.unwrap_or_else(|| now.to_millis());
    let places = remotes(&args.places, work)?;
    work.each(places, async |work, place| {
        let at = work.at(place).await;
        let is_there = at
            .ask(async |client| client.exists(&place.path).await)
            .await?;
        if !is_there && args.no_create {
            skip(work, place);
            return Ok(());
        }
        if !is_there {
            let client = at.take().await?;
            at.keep(Some(make(client, &place.path).await?));
        }
        // The server has given a new file its own time.
        let sets_time = is_there || args.time.is_some();
        if sets_time {
            let path = &place.path;
            at.ask(async |client| client.set_modified(path, time).await)
                .await?;
        }
        let modified = sets_time.then(|| time.to_string());
        work.tell(&json!({
            "event": "touched", "url": place.url(), "made": !is_there, "modified": modified,
        }));
        Ok(())
    })
    .await;
    Ok(())
}

/// Tells of a place that is left out since nothing is there.
fn skip(work: &Work<'_>, place: &Place) {
    let why = "it is not there";
    work.tell(&json!({ "event": "skip", "source": place.url(), "why": why }));
}

/// Makes an empty file.
async fn make(client: Client, path: &[u8]) -> Result<Client, TransferError> {
    let writer = client.into_writer(path, WriteOptions::default());
    let finished = writer.finish().await;
    finished.map_err(|error| data_error(path, error))
}

fn remotes(texts: &[OsString], work: &mut Work<'_>) -> anyhow::Result<Vec<Place>> {
    texts.iter().map(|text| work.remote(text)).collect()
}

/// The failure of a place that is not as it is needed.
pub(crate) fn source(place: &Place, what: &str, remedy: &'static str) -> TransferError {
    TransferError::Source {
        path: place.url(),
        what: what.to_owned(),
        remedy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        assert_eq!(mode("0640"), Ok(0o640));
        assert_eq!(mode("7777"), Ok(0o7777));
        for bad in ["", "8", "10000", "u+x", "+7", "-1"] {
            assert!(mode(bad).is_err(), "{bad}");
        }
    }
}

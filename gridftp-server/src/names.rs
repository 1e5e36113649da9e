//! Carries out one `Names` action: metadata and names, without a data channel.

use std::pin::pin;
use std::time::Duration;

use ftp_proto::types::{Event, ListForm, Names, Outcome};
use ftp_wire::attribute::{self, Attribute};
use ftp_wire::facts::TimeVal;
use ftp_wire::partial::{self, Partial};
use ftp_wire::path::FtpPath;
use gridftp_dsi::{
    ChecksumAlgorithm, Dsi, DsiPath, ErrorKind, Meta, Progress, Staging, User, types,
};
use tokio::sync::mpsc;

use crate::data::{every, tenths, tick};
use crate::error::{Error, Forbidden};
use crate::listing::{Lister, entry};
use crate::owners::Owners;

// A storage tells only attributes that a reply can carry; neither crate may name the other.
const _: () = assert!(types::MAX_ATTRIBUTES == attribute::MAX_ATTRIBUTES);
const _: () = assert!(types::MAX_VALUE == attribute::MAX_VALUE);
const _: () = assert!(types::MAX_PARTIALS == partial::MAX_PARTIALS);

/// Turns a path into the storage's form.
///
/// # Errors
/// [`ErrorKind::BadName`] for a path that no storage can hold.
pub(crate) fn dsi_path(path: &FtpPath) -> Result<DsiPath, Error> {
    DsiPath::new(path.as_bytes()).ok_or_else(|| {
        let name = crate::log::Shown(path.as_bytes()).to_string();
        gridftp_dsi::Error::new(ErrorKind::BadName, "resolve")
            .at(name)
            .into()
    })
}

/// Runs the action.
///
/// # Errors
/// The storage's, and [`Forbidden::Write`] for a change by a read-only user.
pub(crate) async fn run<D: Dsi>(
    dsi: &D,
    user: &User,
    owners: &Owners,
    task: &str,
    action: Names,
    events: &mpsc::Sender<Event>,
) -> Result<Outcome, Error> {
    if !action.is_read() && !user.may_write {
        return Err(Forbidden::Write.into());
    }
    let set_meta = async |path: &FtpPath, meta| -> Result<(), Error> {
        Ok(dsi.set_meta(user, &dsi_path(path)?, meta).await?)
    };
    match action {
        Names::Stat(path) => {
            let stat = dsi.stat(user, &dsi_path(&path)?).await?;
            let name = stat.name.clone();
            return Ok(Outcome::Stat(Box::new(entry(owners, user, &stat, name))));
        }
        Names::Lines(path, form) => {
            return lines(dsi, user, owners, &dsi_path(&path)?, form, events).await;
        }
        Names::Checksum {
            path,
            algorithm,
            offset,
            length,
            markers,
        } => {
            let path = dsi_path(&path)?;
            let algorithm =
                ChecksumAlgorithm::from_name(algorithm.as_bytes()).ok_or(Error::NoSuchChecksum)?;
            let region = (offset, length);
            return checksum(dsi, user, &path, algorithm, region, markers, events).await;
        }
        Names::Attributes(path) => {
            let all = dsi.attributes(user, &dsi_path(&path)?).await?;
            // Those that the wire has no form for were never set by it.
            let all = all
                .into_iter()
                .filter_map(|(name, value)| Attribute::new(name, value));
            return Ok(Outcome::Attributes(all.collect()));
        }
        Names::SetAttribute(path, attribute) => {
            let attribute = attribute.into_parts();
            dsi.set_attribute(user, &dsi_path(&path)?, attribute)
                .await?;
        }
        Names::Free(path) => {
            return Ok(Outcome::Free(
                dsi.free_space(user, &dsi_path(&path)?).await?,
            ));
        }
        Names::MakeDir(path) => dsi.make_dir(user, &dsi_path(&path)?).await?,
        Names::RemoveDir(path) => dsi.remove_dir(user, &dsi_path(&path)?).await?,
        Names::Delete(path) => dsi.remove(user, &dsi_path(&path)?).await?,
        Names::RemoveTree(path) => dsi.remove_tree(user, &dsi_path(&path)?).await?,
        Names::Rename(from, to) => dsi.rename(user, &dsi_path(&from)?, &dsi_path(&to)?).await?,
        Names::SetMode(path, mode) => set_meta(&path, Meta::new().with_mode(mode)).await?,
        Names::SetGroup(path, group) => set_meta(&path, Meta::new().with_group(group)).await?,
        Names::SetModified(path, time) => {
            set_meta(&path, Meta::new().with_modified(time.seconds, time.nanos)).await?;
        }
        Names::Symlink(target, link) => {
            dsi.symlink(user, target.as_bytes(), &dsi_path(&link)?)
                .await?
        }
        Names::Stage(path, within) => {
            let staged = dsi.stage(user, &dsi_path(&path)?, task, within).await?;
            return Ok(Outcome::Staged(staged == Staging::Here));
        }
        Names::Held(path) => {
            return held(dsi, user, &dsi_path(&path)?).await;
        }
        Names::DropHeld(path) => dsi.drop_held(user, &dsi_path(&path)?).await?,
        Names::Truncate(path, length) => dsi.truncate(user, &dsi_path(&path)?, length).await?,
    }
    Ok(Outcome::Done)
}

/// Tells what is kept of a broken upload to `path`, or of all uploads to a directory and below it.
async fn held<D: Dsi>(dsi: &D, user: &User, path: &DsiPath) -> Result<Outcome, Error> {
    match dsi.held(user, path).await {
        Err(error) if error.kind() == ErrorKind::IsDirectory => {}
        held => return Ok(Outcome::Held(held?)),
    }
    let (found, is_cut) = dsi.partials(user, path).await?;
    Ok(partials(found, is_cut))
}

/// The list of partial files, which is cut too where a name of one has a line end: no command names
/// it.
fn partials(found: Vec<gridftp_dsi::Partial>, is_cut: bool) -> Outcome {
    let count = found.len();
    let all = found.into_iter().filter_map(|kept| {
        Some(Partial {
            name: FtpPath::new(kept.name)?,
            held: kept.held,
            size: kept.size,
            modified: TimeVal::new(kept.modified.0, kept.modified.1),
            in_use: kept.in_use,
        })
    });
    let all: Vec<_> = all.collect();
    let is_cut = is_cut || all.len() < count;
    Outcome::Partials(all, is_cut)
}

/// Lists for the control channel, a batch at a time: a directory of any size costs one batch.
async fn lines<D: Dsi>(
    dsi: &D,
    user: &User,
    owners: &Owners,
    path: &DsiPath,
    form: ListForm,
    events: &mpsc::Sender<Event>,
) -> Result<Outcome, Error> {
    let mut lister = Lister::open(dsi, user, owners, path, form).await?;
    let mut last = Vec::new();
    while let Some(batch) = lister.next_lines().await? {
        if !last.is_empty() {
            // The receiver lives as long as the session that polls this future.
            drop(events.send(Event::Lines(last)).await);
            last = Vec::new();
        }
        // Names in listings hold no line ends, so every CRLF ends a line.
        let mut rest = batch.as_slice();
        while let Some(at) = rest.windows(2).position(|pair| pair == b"\r\n") {
            let (line, after) = rest.split_at_checked(at).unwrap_or((rest, &[]));
            last.push(line.to_vec());
            rest = after.get(2..).unwrap_or(&[]);
        }
    }
    Ok(Outcome::Lines(last))
}

async fn checksum<D: Dsi>(
    dsi: &D,
    user: &User,
    path: &DsiPath,
    algorithm: ChecksumAlgorithm,
    (offset, length): (u64, Option<u64>),
    markers: Option<Duration>,
    events: &mpsc::Sender<Event>,
) -> Result<Outcome, Error> {
    let progress = Progress::new();
    let mut hashing = pin!(dsi.checksum(user, path, algorithm, offset, length, &progress));
    let mut ticker = markers.map(every);
    loop {
        tokio::select! {
            biased;
            digest = &mut hashing => return Ok(Outcome::Checksum(digest?)),
            () = tick(&mut ticker) => {
                // The receiver lives as long as the session that polls this future.
                drop(events.send(Event::Hashed { at: tenths(), bytes: progress.get() }).await);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_a_name_that_has_a_line_end_is_cut() {
        for (names, told, cut) in [
            (&["a", "b c"][..], 2, false),
            (&["a", "b\nc"][..], 1, true),
            (&["a\r"][..], 0, true),
        ] {
            let found = names.iter().map(|name| gridftp_dsi::Partial::new(*name));
            let Outcome::Partials(all, is_cut) = partials(found.collect(), false) else {
                panic!("another outcome");
            };
            assert_eq!((all.len(), is_cut), (told, cut), "{names:?}");
        }
        let all = Outcome::Partials(Vec::new(), true);
        assert_eq!(partials(Vec::new(), true), all);
    }
}

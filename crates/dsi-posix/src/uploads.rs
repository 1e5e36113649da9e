//! Lists the partial files of uploads in a directory of a served tree, and below it, by the index.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use gridftp_dsi::types::MAX_PARTIALS;
use gridftp_dsi::{DsiPath, Partial};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};

use crate::error::Outcome;
use crate::kept::{is_locked, recorded};
use crate::names;
use crate::remove::OPEN_DIR;
use crate::root::Root;
use crate::stat::modified;

/// The partial files of the directory `path` and below it that can be continued, until `stop` is
/// set, at most [`MAX_PARTIALS`], and whether there are others.
pub(crate) fn list(
    root: &Root,
    path: &DsiPath,
    stop: &AtomicBool,
) -> Outcome<(Vec<Partial>, bool)> {
    let dir = root.get(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    // Where links were followed, the index has the path behind them.
    let Some(top) = root.index().path_of(dir.as_fd(), b"")? else {
        return Ok((Vec::new(), false));
    };
    // While a directory is renamed, an upload in it may have two entries.
    let mut found = BTreeMap::new();
    root.index().each(|_, _, path| {
        let name = path.strip_prefix(top.as_slice());
        let partial = name.and_then(|name| look(root, path, name));
        found.extend(partial.map(|partial| (partial.name.clone(), partial)));
        found.len() <= MAX_PARTIALS && !stop.load(Ordering::Relaxed)
    })?;
    let is_cut = found.len() > MAX_PARTIALS;
    Ok((found.into_values().take(MAX_PARTIALS).collect(), is_cut))
}

/// The partial file at `path` beneath the root, which is `name` beneath the listed directory.
fn look(root: &Root, path: &[u8], name: &[u8]) -> Option<Partial> {
    let cut = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    let (up, file) = path.split_at_checked(cut)?;
    // Another writer of the index must not get other files told.
    if !names::is_partial(file) {
        return None;
    }
    let dir = root.resolve(up, OPEN_DIR, Mode::empty()).ok()?;
    let (stat, record) = recorded(&dir, file)?;
    // Without a record it has no value, and is soon removed.
    let record = record?;
    let mut partial = Partial::new([name.strip_suffix(file)?, names::target_of(file)].concat());
    partial.held = record.held.total();
    partial.size = record.size;
    partial.modified = modified(&stat);
    partial.in_use = is_locked(&dir, file);
    Some(partial)
}

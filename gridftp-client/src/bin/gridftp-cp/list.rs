//! `--list`: a directory or a file, a line each.

use std::sync::Arc;

use ftp_wire::facts::{Entry, EntryKind, Fact, FactSet};
use gridftp_client::error::TransferError;
use gridftp_client::options::CopyOptions;
use gridftp_client::url::{Location, show};
use serde_json::json;

use gridftp_client::program::report::Report;

/// Lists the directory or the file at `location`.
pub(crate) async fn run(
    location: &Location,
    options: CopyOptions,
    report: &Arc<Report>,
) -> Result<(), TransferError> {
    let Location::Remote(remote) = location else {
        let what = "usage: --list needs an ftp://, ftps://, gsiftp:// or sshftp:// URL";
        return Err(TransferError::request(what, ""));
    };
    let observer = Arc::clone(report) as Arc<_>;
    let each = |entry: Entry, known| line(&entry, known, report);
    gridftp_client::list::list(remote, &options, observer, each).await
}

fn line(entry: &Entry, known: FactSet, report: &Report) {
    let kind = match entry.kind {
        EntryKind::File => "file",
        EntryKind::Dir | EntryKind::Cdir | EntryKind::Pdir => "dir",
        EntryKind::Slink => "link",
        _ => "other",
    };
    let size = known.contains(Fact::Size).then_some(entry.size);
    let modified = known
        .contains(Fact::Modify)
        .then(|| entry.modified.to_string());
    let mode = known
        .contains(Fact::UnixMode)
        .then(|| format!("{:04o}", entry.mode));
    if report.is_json() {
        return report.emit(&json!({
            "event": "entry", "name": show(&entry.name), "type": kind,
            "size": size, "modified": modified, "mode": mode,
        }));
    }
    let slash = if kind == "dir" { "/" } else { "" };
    let size = size.map(|n| n.to_string()).unwrap_or_default();
    report.out(&format!(
        "{:<5} {:<4} {size:>15} {:<14} {}{slash}",
        kind,
        mode.unwrap_or_default(),
        modified.unwrap_or_default(),
        show(&entry.name)
    ));
}

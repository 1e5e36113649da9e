//! `--partials` and `--discard`: lists and removes the partial files of broken copies.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use gridftp_client::error::TransferError;
use gridftp_client::options::CopyOptions;
use gridftp_client::partials::{Partial, partials};
use gridftp_client::url::Location;
use indicatif::{HumanBytes, HumanDuration};
use serde_json::json;

use gridftp_client::program::exit::Status;
use gridftp_client::program::report::Report;

/// The flags about bytes that a later run would go on with.
#[derive(Debug, Args)]
pub(crate) struct PartialFlags {
    /// List the remains of copies that broke off: partial files in the local directories that are
    /// named, with -r below them too, and uploads to the URLs that are named, by the notes of this
    /// machine and, at gridftp-server, those begun elsewhere too [default: in the working directory,
    /// and all uploads that were noted]
    #[arg(long, conflicts_with = "list")]
    pub(crate) partials: bool,

    /// Remove these remains in the directories and at the URLs that are named, with -r uploads of
    /// other accounts and machines below the URLs too; those that are older than a week are removed
    /// by the next copy to their directory that succeeds
    #[arg(long, conflicts_with_all = ["list", "partials"], requires = "locations")]
    pub(crate) discard: bool,
}

impl PartialFlags {
    /// Says whether partial files are to be listed or removed, and nothing copied.
    pub(crate) const fn is_set(&self) -> bool {
        self.partials || self.discard
    }
}

/// Lists the partial files at `places`, or removes them.
pub(crate) async fn run(
    flags: &PartialFlags,
    places: &[Location],
    options: &CopyOptions,
    report: &Arc<Report>,
) -> Result<Status, TransferError> {
    let mut status = Status::Done;
    let mut all = partials(places, options, Arc::clone(report) as Arc<_>).await?;
    for (place, error) in &all.failed {
        report.failed(place, error);
        status = Status::of(error.class());
    }
    let mut left = 0;
    for partial in std::mem::take(&mut all.found) {
        if flags.discard && partial.is_of_others() && !options.recursive && !names(places, &partial)
        {
            left += 1;
            continue;
        }
        if flags.discard
            && let Err(error) = all
                .discard(&partial, options, Arc::clone(report) as Arc<_>)
                .await
        {
            report.failed(&partial.destination, &error);
            status = Status::of(error.class());
            continue;
        }
        tell(&partial, flags.discard, report);
    }
    all.close().await;
    if left > 0 {
        let text = match left {
            1 => "1 partial upload of another account or machine stays: name it, or add -r"
                .to_owned(),
            _ => format!(
                "{left} partial uploads of other accounts or machines stay: name each of them, or add -r"
            ),
        };
        report.warn(&text);
    }
    Ok(status)
}

/// Says whether one of the places is that of this very file.
fn names(places: &[Location], partial: &Partial) -> bool {
    let mut urls = places.iter().map(Location::to_string);
    urls.any(|url| url == partial.destination)
}

fn tell(partial: &Partial, is_gone: bool, report: &Report) {
    let kind = match partial.is_here() {
        true => "download",
        false => "upload",
    };
    if report.is_json() {
        let since = partial.modified.duration_since(UNIX_EPOCH);
        return report.emit(&json!({
            "event": if is_gone { "discarded" } else { "partial" },
            "kind": kind, "source": partial.source, "destination": partial.destination,
            "held": partial.held, "size": partial.size,
            "modified": since.unwrap_or_default().as_secs(), "in_use": partial.in_use,
        }));
    }
    let held = match partial.held.map(HumanBytes) {
        Some(held) => held.to_string(),
        None => "a part".to_owned(),
    };
    let size = partial.size.map(HumanBytes);
    let size = size.map(|size| format!(" of {size}")).unwrap_or_default();
    let from = match &partial.source {
        Some(source) => format!("from {source}"),
        None if partial.is_here() => {
            "no record of its source, so that nothing continues it".to_owned()
        }
        None => "begun by another account or machine".to_owned(),
    };
    let age = SystemTime::now().duration_since(partial.modified);
    let end = match (is_gone, partial.in_use) {
        (true, _) => "removed".to_owned(),
        (false, true) => "in use".to_owned(),
        (false, false) => format!("{} old", HumanDuration(age.unwrap_or_default())),
    };
    report.out(&format!(
        "{kind} {}: {held}{size}, {from}, {end}",
        partial.destination
    ));
}

//! `-list`: a URL, and the names there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use ftp_wire::facts::Entry;
use gridftp_client::error::TransferError;
use gridftp_client::options::CopyOptions;
use gridftp_client::program::accounts::Accounts;
use gridftp_client::program::exit::Status;
use gridftp_client::program::report::Report;
use gridftp_client::program::run::stopped_by_signal;
use gridftp_client::url::{Remote, show};
use gridftp_client::{Client, Location, names};

use super::environment::Environment;
use super::options::Options;
use super::{choose, flags_of, locate, pairs, relative};

/// Lists the directory at `url`, or the names that its wildcards match; any other object under its
/// own name, as one without a slash at the end of its URL.
pub(super) async fn run(
    (wanted, environment): (&Options, &Environment),
    url: &OsStr,
    report: &Arc<Report>,
) -> anyhow::Result<Status> {
    let flags = flags_of((wanted, environment), &[])?;
    let mut options = flags.copy_options()?;
    choose(wanted, environment, &mut options).await?;
    let mut accounts = Accounts::new(&flags.connection);
    let location = match wanted.relative {
        true => locate(&relative(url), &mut accounts)?,
        false => locate(url, &mut accounts)?,
    };
    let location = flags.connection.grid.of_source(location);
    report.out(&url.display().to_string());
    match location {
        Location::Remote(remote) => {
            let listing = Box::pin(there(&remote, &options, report));
            match stopped_by_signal(listing).await {
                Some(done) => done?,
                None => return Ok(Status::Interrupted),
            }
        }
        Location::Local(path) => here(url, &path, report)?,
        _ => anyhow::bail!("{}: has no names", url.display()),
    }
    report.out("");
    Ok(Status::Done)
}

/// Tells a name.
fn line(name: &[u8], is_dir: bool, report: &Report) {
    let end = if is_dir { "/" } else { " " };
    report.out(&format!("    {}{end}", show(name)));
}

/// Lists a place at a server.
async fn there(
    remote: &Remote,
    options: &CopyOptions,
    report: &Arc<Report>,
) -> Result<(), TransferError> {
    let observer = Arc::clone(report) as Arc<_>;
    if remote.pattern.is_some() || remote.path.ends_with(b"/") {
        let each = |entry: Entry, _| line(&entry.name, entry.kind.is_dir(), report);
        return Box::pin(gridftp_client::list::list(remote, options, observer, each)).await;
    }
    let connect = Arc::new(options.connect.clone());
    let client = Box::pin(Client::connect_with(&remote.site, connect, observer)).await?;
    client.stat(&remote.path).await?;
    line(names::last(&remote.path), false, report);
    client.close().await;
    Ok(())
}

/// Lists a place of this machine; links to nothing are left out.
fn here(url: &OsStr, path: &Path, report: &Report) -> anyhow::Result<()> {
    if let Some(found) = pairs::matches(url) {
        if found.is_empty() {
            return Err(TransferError::no_match(url.display().to_string()).into());
        }
        for found in found {
            let dir = found.strip_suffix(b"/");
            let name = dir.unwrap_or(&found);
            if path.with_file_name(OsStr::from_bytes(name)).exists() {
                line(name, dir.is_some(), report);
            }
        }
        return Ok(());
    }
    let shown = || path.display().to_string();
    let bytes = path.as_os_str().as_bytes();
    if !bytes.ends_with(b"/") {
        path.symlink_metadata().with_context(shown)?;
        line(names::last(bytes), false, report);
        return Ok(());
    }
    for entry in path.read_dir().with_context(shown)? {
        let entry = entry.with_context(shown)?;
        if let Ok(found) = entry.path().metadata() {
            line(entry.file_name().as_bytes(), found.is_dir(), report);
        }
    }
    Ok(())
}

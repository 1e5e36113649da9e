//! `proxy destroy`: overwrites proxies and removes them.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::ValueHint;
use gsi::certificate::Kind;
use gsi::credential::Credential;
use rustix::fs::{Mode, OFlags};
use serde_json::json;
use xio_gsi::Environment;
use zeroize::Zeroizing;

use crate::program::exit::Status;
use crate::program::report::Report;

/// Largest file that is taken for a proxy, in bytes.
const MAX_PROXY: u64 = 1024 * 1024;

/// The options of `proxy destroy`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::doc_markdown,
    reason = "the text of --help, which has no markup"
)]
pub(super) struct Args {
    /// Name the files that would be destroyed, and destroy nothing
    #[arg(long)]
    dry_run: bool,

    /// Files with proxies [default: $X509_USER_PROXY, or else /tmp/x509up_uUID]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

/// Destroys all files, also those after one that cannot be destroyed.
pub(super) fn run(args: &Args, report: &Report) -> anyhow::Result<Status> {
    let usual = [Environment::of_process().proxy_file()];
    let files = match args.files.as_slice() {
        [] => &usual[..],
        files => files,
    };
    let mut status = Status::Done;
    for path in files {
        let place = path.display();
        let (event, text) = match args.dry_run {
            true => ("plan", "would be destroyed"),
            false => ("destroyed", "destroyed"),
        };
        match destroy(path, args.dry_run) {
            Err(error) => {
                report.fatal(&format!("proxy: {place}: {error:#}"), None);
                status = Status::Failed;
            }
            Ok(()) if report.is_json() => {
                report.emit(&json!({ "event": event, "path": path.to_string_lossy() }));
            }
            Ok(()) if report.is_quiet() && !args.dry_run => {}
            Ok(()) => report.out(&format!("{place}: {text}")),
        }
    }
    Ok(status)
}

/// Overwrites and removes a file with a proxy, and no other file.
fn destroy(path: &Path, is_rehearsal: bool) -> anyhow::Result<()> {
    // A pipe without a writer does not block.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    let length = metadata.len();
    ensure!(
        metadata.is_file() && length <= MAX_PROXY,
        "it holds no proxy"
    );
    let room = usize::try_from(length)?;
    let mut pem = Zeroizing::new(Vec::with_capacity(room + 1));
    (&file).take(length).read_to_end(&mut pem)?;
    let credential = Credential::from_pem(&pem).ok();
    ensure!(
        credential.is_some_and(|credential| matches!(credential.kind(), Kind::Proxy(_))),
        "it holds no proxy: remove it with `rm` if it is of no use"
    );
    if is_rehearsal {
        return Ok(());
    }
    file.rewind()?;
    file.write_all(&vec![0; room])
        .and_then(|()| file.sync_data())
        .context("overwrite")?;
    fs::remove_file(path).context("remove")
}

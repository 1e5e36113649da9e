//! `gridftp du` and `df`: bytes of trees, and free space.

use std::ffi::OsString;

use clap::ValueHint;
use gridftp_client::error::TransferError;
use gridftp_client::names;
use gridftp_client::program::events::named;
use indicatif::HumanBytes;
use serde_json::json;

use crate::change::source;
use crate::walk::{Step, Walk};
use crate::work::{Common, Place, Work};

/// The options of `gridftp du`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
The sizes are those that listings tell; links are not followed, and a file with two names counts \
twice.

{}", named(&["size"])))]
pub(crate) struct DuArgs {
    /// Directories or files
    #[arg(value_name = "PLACE", required = true, value_hint = ValueHint::AnyPath)]
    places: Vec<OsString>,

    /// Tell the sums alone, and no directory below
    #[arg(short, long)]
    summarize: bool,

    /// Write sizes for people, such as 1.50 GiB
    #[arg(short = 'H', long)]
    human: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// The sum of a tree.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    bytes: u64,
    files: u64,
    dirs: u64,
}

/// Tells sizes of trees.
pub(crate) async fn du(args: &DuArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let mut places = Vec::new();
    for text in &args.places {
        places.push(work.place(text)?);
    }
    work.each(places, async |work, place| measure(args, work, place).await)
        .await;
    Ok(())
}

async fn measure(args: &DuArgs, work: &mut Work<'_>, place: &Place) -> Result<(), TransferError> {
    let root = work.at(place).await.stat(&place.path).await?;
    if !root.entry.kind.is_dir() {
        let bytes = root.size().unwrap_or(0);
        let sum = Sum {
            bytes,
            files: 1,
            dirs: 0,
        };
        tell(args, work, place, sum);
        return Ok(());
    }
    let mut walk = Walk::new(place.path.clone());
    let mut sums = vec![Sum::default()];
    while let Some(step) = walk.next(work.at(place).await).await {
        match step {
            Step::Found { object, .. } if object.is_tree() => sums.push(Sum::default()),
            Step::Found { object, .. } => {
                if let Some(sum) = sums.last_mut() {
                    sum.files += 1;
                    // A link has the size of its target, which is elsewhere.
                    if object.entry.target.is_none() {
                        sum.bytes = sum.bytes.saturating_add(object.size().unwrap_or(0));
                    }
                }
            }
            Step::Left(path) => {
                let sum = leave(&mut sums);
                if !args.summarize || path == place.path {
                    tell(args, work, &place.with_path(path), sum);
                }
            }
            Step::Failed(path, error) if path == place.path => return Err(error),
            Step::Failed(path, error) => {
                leave(&mut sums);
                work.fail(&place.with_path(path), &error);
            }
        }
    }
    Ok(())
}

/// Adds the sum of a directory to that of the one above it.
fn leave(sums: &mut Vec<Sum>) -> Sum {
    let sum = sums.pop().unwrap_or_default();
    if let Some(above) = sums.last_mut() {
        above.bytes = above.bytes.saturating_add(sum.bytes);
        above.files += sum.files;
        above.dirs += sum.dirs + 1;
    }
    sum
}

fn tell(args: &DuArgs, work: &Work<'_>, at: &Place, sum: Sum) {
    if args.common.json {
        return work.report.emit(&json!({
            "event": "size", "url": at.url(), "bytes": sum.bytes, "files": sum.files,
            "directories": sum.dirs,
        }));
    }
    let bytes = shown(sum.bytes, args.human);
    work.report.out(&format!("{bytes}\t{}", at.url()));
}

fn shown(bytes: u64, human: bool) -> String {
    match human {
        true => HumanBytes(bytes).to_string(),
        false => bytes.to_string(),
    }
}

/// The options of `gridftp df`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
The server is asked by AVBL, which gridftp-server knows and few others do; of one that does not, this is \
told, and the exit status is 1.

{}", named(&["free"])))]
pub(crate) struct DfArgs {
    /// Directories
    #[arg(value_name = "URL", required = true, value_hint = ValueHint::Url)]
    places: Vec<OsString>,

    /// Write sizes for people, such as 1.50 GiB
    #[arg(short = 'H', long)]
    human: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Tells the free space.
pub(crate) async fn df(args: &DfArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let mut places = Vec::new();
    for text in &args.places {
        places.push(work.remote(text)?);
    }
    work.each(places, async |work, place| {
        let path = match names::trim_slashes(&place.path) {
            b"" => b"/",
            path => path,
        };
        let at = work.at(place).await;
        let free = at.ask(async |client| client.free_space(path).await).await?;
        let Some(bytes) = free else {
            let what = "the server does not tell its free space";
            return Err(source(place, what, "it would have to know AVBL"));
        };
        if args.common.json {
            let free = json!({ "event": "free", "url": place.url(), "bytes": bytes });
            work.report.emit(&free);
        } else {
            let bytes = shown(bytes, args.human);
            work.report.out(&format!("{bytes}\t{}", place.url()));
        }
        Ok(())
    })
    .await;
    Ok(())
}

//! Copies a file or a tree, and tells the progress and each file, `copy_with_progress SOURCE DEST`.
//!
//! ```text
//! copy_with_progress run7/ ftp://dtn.example.org:2811/data/run7/
//! ```
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use gridftp_client::results::Outcome;
use gridftp_client::{CopyOptions, FileResult, Location, Results, Totals, copy};

/// Most results between two looks at them.
const MOST: usize = 100_000;

/// Tells the end of one file.
fn tell(out: &mut impl Write, file: &FileResult) -> std::io::Result<()> {
    let source = &file.source;
    match (&file.outcome, &file.digest) {
        (Outcome::Copied(_), Some((algorithm, digest))) => {
            let bytes = file.bytes.unwrap_or_default();
            writeln!(out, "{source}: {bytes} bytes, {algorithm} {digest}")
        }
        (Outcome::Failed { message, .. }, _) => writeln!(out, "{source}: {message}"),
        (outcome, _) => writeln!(out, "{source}: {outcome:?}"),
    }
}

pub(crate) async fn run(
    source: &str,
    destination: &str,
    mut out: impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    let options = CopyOptions::default().recursive(true);
    let sources = [Location::parse(source)?];
    let destination = Location::parse(destination)?;
    let (results, totals) = (Arc::new(Results::new(MOST)), Arc::new(Totals::default()));
    let copying = copy(
        &sources,
        &destination,
        options,
        results.clone(),
        Arc::clone(&totals),
    );
    tokio::pin!(copying);
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    let summary = loop {
        tokio::select! {
            done = &mut copying => break done?,
            _ = ticks.tick() => {
                let now = totals.counts();
                let (moved, found) = (now.bytes_moved, now.bytes_found);
                writeln!(out, "{moved} of {found} bytes in {} files", now.files_found)?;
                results.take().iter().try_for_each(|file| tell(&mut out, file))?;
            }
        }
    };
    results
        .take()
        .iter()
        .try_for_each(|file| tell(&mut out, file))?;
    let counts = summary.counts;
    writeln!(
        out,
        "{} files, {} bytes, {} failed, {:.1} s",
        counts.files_done,
        counts.bytes_moved,
        counts.files_failed,
        summary.took.as_secs_f64()
    )?;
    match summary.failed {
        None => Ok(()),
        Some(_) => Err("some files were not copied".into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [source, destination] = words.as_slice() else {
        return Err("usage: copy_with_progress SOURCE DEST".into());
    };
    run(source, destination, std::io::stdout()).await
}

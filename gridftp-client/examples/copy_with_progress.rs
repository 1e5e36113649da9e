//! Copies a file or a tree and tells the progress, `copy_with_progress SOURCE DEST`.
//!
//! ```text
//! copy_with_progress run7/ ftp://dtn.example.org:2811/data/run7/
//! ```
use std::io::{Write, stderr};
use std::sync::Arc;
use std::time::Duration;

use gridftp_client::{CopyOptions, Event, Location, Observer, Totals, copy};

/// Tells failures; all other events are in the counts.
struct Failures;

impl Observer for Failures {
    fn event(&self, event: &Event<'_>) {
        if let Event::Failed { source, error, .. } = event {
            // Whoever has closed it wants no more of it.
            let _gone = writeln!(stderr(), "{source}: {error}");
        }
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
    let totals = Arc::new(Totals::default());
    let copying = copy(
        &sources,
        &destination,
        options,
        Arc::new(Failures),
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
            }
        }
    };
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

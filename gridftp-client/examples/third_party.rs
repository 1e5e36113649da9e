//! Copies a file between two servers, and goes on where a connection breaks, `third_party FROM TO`.
//!
//! ```text
//! third_party ftp://one.example.org:2811/file ftp://other.example.org:2811/file
//! ```
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gridftp_client::{CopyOptions, Event, Location, Observer, Totals, copy};

/// Tells each attempt.
struct Attempts<W>(Mutex<W>);

impl<W: Write + Send + 'static> Observer for Attempts<W> {
    fn event(&self, event: &Event<'_>) {
        let line = match event {
            Event::Retrying { error, attempt, .. } => format!("attempt {attempt} failed: {error}"),
            Event::Gone { error, within } => format!("{error}; trying again for {within:?}"),
            Event::Finished {
                bytes, verified, ..
            } => format!("{bytes} bytes, {verified:?}"),
            Event::Failed { error, .. } => format!("failed: {error}"),
            _ => return,
        };
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever has closed the output wants no more of it.
        let _gone = writeln!(out, "{line}");
    }
}

pub(crate) async fn run(
    from: &str,
    to: &str,
    out: impl Write + Send + 'static,
) -> Result<(), Box<dyn std::error::Error>> {
    let options = CopyOptions::default()
        .retries(10)
        .retry_for(Duration::from_secs(3600));
    let sources = [Location::parse(from)?];
    let observer = Arc::new(Attempts(Mutex::new(out)));
    let totals = Arc::new(Totals::default());
    let summary = copy(&sources, &Location::parse(to)?, options, observer, totals).await?;
    match summary.failed {
        None => Ok(()),
        Some(_) => Err("the file was not copied".into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let [from, to] = words.as_slice() else {
        return Err("usage: third_party FROM TO".into());
    };
    run(from, to, std::io::stdout()).await
}

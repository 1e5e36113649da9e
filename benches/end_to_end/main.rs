//! Our programs against the Globus programs in the same run, as one table of ratios.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its results"
)]

mod bulk;
mod many;
mod names;
mod options;
mod servers;
mod sessions;
mod small;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use workspace_benches::frame;
use workspace_benches::pair::Pair;
use workspace_benches::ratio::Line;

use crate::options::Options;

fn main() -> ExitCode {
    frame::finish(measure())
}

/// Runs every selected measurement.
fn measure() -> Result<Vec<Line>> {
    let options = Options::parse();
    let Some(pair) = Pair::find()? else {
        return Ok(Vec::new());
    };
    let in_folders = |part: fn(&Pair, &Options, &Path) -> Result<Vec<Line>>| {
        let folders = options.folders();
        let lines = folders.iter().map(|folder| part(&pair, &options, folder));
        Ok(lines
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect())
    };
    let parts: [frame::Part<'_>; 8] = [
        ("bulk", &|| in_folders(bulk::measure)),
        ("small", &|| in_folders(small::loopback)),
        ("link", &|| small::over_link(&pair, &options)),
        ("servers", &|| servers::measure(&pair, &options)),
        ("many", &|| many::measure(&pair, &options)),
        ("names", &|| names::measure(&pair, &options)),
        ("memory", &|| sessions::memory(&pair, &options)),
        ("logins", &|| sessions::logins(&pair, &options)),
    ];
    frame::measure(&options.scale, &options.only, &parts)
}

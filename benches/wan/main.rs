//! Copies over long paths: our client with its default flags beside fixed settings and the Globus
//! programs.
//!
//! Client and server are in network namespaces with CUBIC, as on most machines, and an emulated path
//! between them. Files are in memory where that has room.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its results"
)]

mod options;
mod path;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use workspace_benches::frame;
use workspace_benches::ratio::Line;

use crate::options::Options;
use crate::path::{FAST, SLOW, TARGETS};

fn main() -> ExitCode {
    frame::finish(measure())
}

/// Runs every selected measurement.
fn measure() -> Result<Vec<Line>> {
    let options = Options::parse();
    let parts: [frame::Part<'_>; 3] = [
        ("targets", &|| path::measure(&TARGETS, &options)),
        ("fast", &|| path::measure(&FAST, &options)),
        ("slow", &|| path::measure(&SLOW, &options)),
    ];
    frame::measure(&options.scale, &options.only, &parts)
}

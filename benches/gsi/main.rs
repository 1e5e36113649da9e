//! Grid security against the Globus programs, and FTPS against `curl` and `vsftpd`, in one run.
//!
//! Both sides copy the same file or log in as the same user, alternately. `clear` compares our own
//! private data connections (`PROT P`) with our clear ones: in the time of the clear copy, and the
//! time that one core takes to encrypt and to decrypt as many bytes in records of 16 KiB with
//! AES-256-GCM of AWS-LC, the private copy has to move three quarters of them. On two processors
//! the two ends share these three pieces of work.
//!
//! With a worker's arguments the program only logs in with our client library.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench prints its results"
)]

mod bed;
mod bulk;
mod ftps;
mod logins;
mod options;
mod worker;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser as _;
use workspace_benches::frame;
use workspace_benches::options::wants;
use workspace_benches::pair::Pair;
use workspace_benches::ratio::Line;

use crate::bed::Bed;
use crate::options::Options;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let worked = worker::run(&words).map(|done| done.map(|()| Vec::new()));
    frame::finish(worked.unwrap_or_else(measure))
}

/// Runs every selected measurement.
fn measure() -> Result<Vec<Line>> {
    let options = Options::parse();
    let pair = Pair::find()?;
    let grid = ["bulk", "clear", "logins"];
    let pair = pair.filter(|_| grid.iter().any(|part| wants(&options.only, part)));
    let bed = pair.map(|pair| Bed::new(pair, &options)).transpose()?;
    let of_grid = |part: fn(&Bed, &Options) -> Result<Vec<Line>>| match &bed {
        Some(bed) => part(bed, &options),
        None => Ok(Vec::new()),
    };
    let parts: [frame::Part<'_>; 4] = [
        ("bulk", &|| of_grid(bulk::against_globus)),
        ("clear", &|| of_grid(bulk::against_clear)),
        ("logins", &|| of_grid(logins::measure)),
        ("ftps", &|| ftps::measure(&options)),
    ];
    frame::measure(&options.scale, &options.only, &parts)
}

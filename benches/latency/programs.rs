//! Throughput of `globus-xioperf` and `xio-perf` over the same link.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use workspace_benches::link::Link;
use workspace_tests::{Daemon, binary, globus_xioperf, globus_xioperf_addr, run};

const SUITE: &str = "bench: latency, Globus XIO";
const LIMIT: Duration = Duration::from_secs(120);

/// Returns the Mbit/s counted by the receivers of theirs and ours for `bytes` in calls of `size`,
/// or nothing where theirs is missing.
pub(crate) fn megabits(link: &Link, size: usize, bytes: usize) -> Result<Option<(f64, f64)>> {
    let Some(theirs) = globus_xioperf(SUITE, "tcp") else {
        return Ok(None);
    };
    let seconds = globus(link, &theirs, size, bytes)?;
    let megabits = bytes as f64 * 8.0 / 1e6;
    Ok(Some((megabits / seconds, ours(link, size, bytes)?)))
}

fn globus(link: &Link, plain: &Command, size: usize, bytes: usize) -> Result<f64> {
    let inside = |end: fn(&Link, &Path) -> Command| {
        let mut command = end(link, Path::new(plain.get_program()));
        command.args(plain.get_args());
        command.args(["-bs", &size.to_string()]);
        command
    };
    let mut server = Daemon::start(inside(Link::far).args(["-s", "-R"]), globus_xioperf_addr)?;
    let to = format!("{}:{}", link.far_addr(), server.addr().port());
    let mut client = inside(Link::near);
    client.args(["-c", &to, "-S", "-n", &bytes.to_string()]);
    run(&mut client, LIMIT)?.ok()?;
    server.wait(LIMIT)?;
    let output = server.all_output()?;
    let time = output
        .lines()
        .find_map(|line| line.trim().strip_prefix("Time:"));
    let time = time.with_context(|| format!("no time in:\n{output}"))?;
    // Minutes, and seconds with four decimals.
    let (minutes, seconds) = time.trim().split_once(':').context("minutes and seconds")?;
    Ok(minutes.parse::<f64>()? * 60.0 + seconds.parse::<f64>()?)
}

fn ours(link: &Link, size: usize, bytes: usize) -> Result<f64> {
    let program = binary("xio-perf")?;
    let block = ["--block-size", &size.to_string()];
    let mut server = link.far(&program);
    let at = format!("{}:0", link.far_addr());
    server
        .args(["serve", "--json", "--listen", &at])
        .args(block);
    let ready = |line: &str| line.strip_prefix("listening on ")?.parse().ok();
    let mut server = Daemon::start(&mut server, ready)?;
    let mut client = link.near(&program);
    client
        .args(["run", "--connect", &server.addr().to_string()])
        .args(block);
    client.args(["--bytes", &bytes.to_string()]);
    run(&mut client, LIMIT)?.ok()?;
    server.wait(LIMIT)?;
    let output = server.all_output()?;
    let rate = output
        .split_once("\"bytes_per_second\":")
        .and_then(|(_, rest)| {
            let end = rest.find([',', '}'])?;
            rest.get(..end)?.parse::<f64>().ok()
        });
    Ok(rate.with_context(|| format!("no rate in:\n{output}"))? * 8.0 / 1e6)
}

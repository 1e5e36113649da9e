//! Logins with delegation per second: by programs that each get one byte, and by our client library.

use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use workspace_benches::pair::{Side, measured, time_of, told};
use workspace_benches::ratio::{Cost, Line, alternate};
use workspace_tests::{file_url, run};

use crate::bed::Bed;
use crate::options::Options;
use crate::worker::WORKER;

const LIMIT: Duration = Duration::from_secs(300);

/// Measures all logins.
pub(crate) fn measure(bed: &Bed, options: &Options) -> Result<Vec<Line>> {
    let (ours, globus) = (Side::Ours, Side::Globus);
    let count = options.scale.amount(60, 5);
    let programs = |client, server| move || by_programs(bed, client, server, count);
    let (many, few) = (options.scale.amount(240, 20), options.scale.amount(60, 8));
    let library = |server, clients, count| move || by_library(bed, server, clients, count);
    Ok(vec![
        line(
            options,
            "each a program: ours at our server, Globus at Globus",
            Some(3.0),
            programs(ours, ours),
            programs(globus, globus),
        )?,
        line(
            options,
            "each a program: ours and Globus at our server",
            None,
            programs(ours, ours),
            programs(globus, ours),
        )?,
        line(
            options,
            "each a program: ours and Globus at the Globus server",
            None,
            programs(ours, globus),
            programs(globus, globus),
        )?,
        line(
            options,
            "our client library at each server, one at a time",
            Some(3.0),
            library(ours, 1, many),
            library(globus, 1, few),
        )?,
        line(
            options,
            "our client library at each server, four at a time",
            Some(3.0),
            library(ours, 4, many),
            library(globus, 4, few),
        )?,
    ])
}

fn line(
    options: &Options,
    how: &str,
    target: Option<f64>,
    us: impl FnMut() -> Result<Cost>,
    them: impl FnMut() -> Result<Cost>,
) -> Result<Line> {
    let (us, them) = alternate(options.scale.runs(), us, them)?;
    eprintln!("logins, {how}: {us:.4?}, {them:.4?}");
    let ratio = them.wall / us.wall;
    Ok(Line {
        what: format!("logins with delegation per second, {how}"),
        ratio,
        cpu: Some(them.cpu / us.cpu),
        target: if target.is_some() { "3" } else { "–" },
        reached: target.is_none_or(|least| ratio >= least),
        note: format!(
            "{:.1} / {:.1} a second, CPU {:.0} / {:.0} ms",
            us.wall.recip(),
            them.wall.recip(),
            us.cpu * 1e3,
            them.cpu * 1e3
        ),
    })
}

/// Runs clients, one after the other, of which each gets a file of one byte; returns the cost of
/// one.
fn by_programs(bed: &Bed, client: Side, server: Side, count: u64) -> Result<Cost> {
    let host = bed.server(server);
    let cost = measured(Some(host), || {
        let began = Instant::now();
        for _ in 0..count {
            let mut command = bed.client(client);
            command.args([bed.url(server, "small"), file_url(Path::new("/dev/null"))]);
            time_of(&mut command)?;
        }
        Ok(began.elapsed())
    });
    Ok(of_one(cost.with_context(|| told(host))?, count))
}

/// Logs in with our client library; returns the cost of one login.
fn by_library(bed: &Bed, server: Side, clients: u64, count: u64) -> Result<Cost> {
    let host = bed.server(server);
    let each = Cell::new(0.0);
    let cost = measured(Some(host), || {
        let mut worker = Command::new(std::env::current_exe()?);
        bed.lab.login(&mut worker).arg(WORKER);
        worker.arg(bed.url(server, ""));
        worker.args([clients.to_string(), count.to_string()]);
        let done = run(&mut worker, LIMIT)?.ok()?;
        each.set(done.stdout.trim().parse().context("seconds of a login")?);
        Ok(done.took)
    });
    let mut one = of_one(cost.with_context(|| told(host))?, count);
    one.wall = each.get();
    Ok(one)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a bench are small")]
fn of_one(cost: Cost, count: u64) -> Cost {
    Cost {
        wall: cost.wall / count as f64,
        cpu: cost.cpu / count as f64,
    }
}

//! A directory with a million names: the memory of our client, and its listing beside its copying.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use workspace_benches::copying::Way;
use workspace_benches::pair::{Pair, Side, quiet, time_of};
use workspace_benches::ratio::Line;

use crate::many::Bed;
use crate::options::Options;

/// Most memory of our client, in KiB.
const MEMORY: u64 = 64 << 10;

/// Longest copy.
const LIMIT: Duration = Duration::from_secs(1800);

/// Copies a directory with a million names from our server, to it, and from it to another one.
pub(crate) fn measure(pair: &Pair, options: &Options) -> Result<Vec<Line>> {
    let count = options.scale.amount(1_000_000, 10_000);
    let bed = Bed::new(pair, "/dev/shm", count, count)?;
    let other = pair.serve(Side::Ours, bed.tree.root())?;
    let between = [bed.ours.url("files/"), other.url("copy/")];
    let ways = Way::ALL.map(|way| (way.name(), bed.ends(way, &bed.ours, "copy")));
    let mut lines = Vec::new();
    for (way, ends) in ways.into_iter().chain([("between two servers", between)]) {
        let what = format!("{count} names in a directory, {way}");
        let copied = copy(&bed, &what, &ends).with_context(|| {
            let (ours, other) = (bed.ours.output(), other.output());
            format!("{what}: output of the servers:\n{ours}{other}")
        });
        lines.extend(copied?);
    }
    Ok(lines)
}

/// Copies the names, and removes the copies: the peak memory of our client, and the time of the
/// first file beside that of the whole listing.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn copy(bed: &Bed<'_>, name: &str, ends: &[String; 2]) -> Result<[Line; 2]> {
    let listed = time_of(
        bed.ours_with(&[quiet(Side::Ours), &["--dry-run"]])
            .args(ends),
    )?;
    let begun = Instant::now();
    let mut copy = bed.ours_with(&[quiet(Side::Ours)]).args(ends).spawn()?;
    let watched = watch(&mut copy, &bed.tree.path("copy/dir0"), begun);
    if watched.is_err() {
        copy.kill()?;
        copy.wait()?;
    }
    let (first, memory) = watched?;
    let took = begun.elapsed();
    bed.compare("copy")?;
    fs::remove_dir_all(bed.tree.path("copy"))?;
    let (memory_ratio, first_ratio) = (
        MEMORY as f64 / memory as f64,
        listed.as_secs_f64() / first.as_secs_f64(),
    );
    let lines = [
        Line {
            what: format!("{name}: 64 MiB by the peak memory of our client"),
            ratio: memory_ratio,
            cpu: None,
            target: "1",
            reached: memory_ratio >= 1.0,
            note: format!("{} MiB, {:.0} s", memory >> 10, took.as_secs_f64()),
        },
        Line {
            what: format!("{name}: time of the listing by that until the first file"),
            ratio: first_ratio,
            cpu: None,
            target: "2",
            reached: first_ratio >= 2.0,
            note: format!("{:.2} / {:.2} s", listed.as_secs_f64(), first.as_secs_f64()),
        },
    ];
    for Line { what, note, .. } in &lines {
        eprintln!("{what}: {note}");
    }
    Ok(lines)
}

/// Waits for the end of a copy; returns the time until there was a file in `dir`, and the peak
/// memory in KiB.
fn watch(copy: &mut Child, dir: &Path, begun: Instant) -> Result<(Duration, u64)> {
    let (mut first, mut memory) = (None, 0);
    loop {
        if first.is_none() && fs::read_dir(dir).is_ok_and(|mut names| names.next().is_some()) {
            first = Some(begun.elapsed());
        }
        let status = fs::read_to_string(format!("/proc/{}/status", copy.id()))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        // A process that has ended has none.
        if let Some(peak) = peak.and_then(|line| line.split_whitespace().next()) {
            memory = peak.parse()?;
        }
        if let Some(status) = copy.try_wait()? {
            ensure!(status.success(), "{status}");
            return Ok((first.context("no file was copied")?, memory));
        }
        ensure!(begun.elapsed() < LIMIT, "the copy takes too long");
        thread::sleep(Duration::from_millis(20));
    }
}

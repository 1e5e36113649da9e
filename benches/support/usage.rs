//! Processor time and memory of processes, read from `/proc`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// Returns the processor time of a process and all its descendants, including reaped ones.
pub fn cpu_of_tree(pid: u32) -> Result<Duration> {
    let mut ticks = 0;
    for pid in tree(pid)? {
        // A child may exit between listing and reading; its time is then its parent's.
        if let Ok(stat) = Stat::read(pid) {
            ticks += stat.own + stat.waited;
        }
    }
    Ok(of_ticks(ticks))
}

/// Returns the processor time of all reaped children of this process.
pub fn cpu_of_children() -> Result<Duration> {
    Ok(of_ticks(Stat::read(std::process::id())?.waited))
}

/// Returns the processor time of all children of this process and their descendants, including
/// reaped ones.
pub fn cpu_of_descendants() -> Result<Duration> {
    let own = Stat::read(std::process::id())?.own;
    Ok(cpu_of_tree(std::process::id())?.saturating_sub(of_ticks(own)))
}

/// Returns the processor time of this thread.
#[must_use]
pub fn cpu_of_thread() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Waits at most five seconds until a server is idle: it has no children, as a forking one, and none
/// of its threads ran in the last milliseconds, as one does that makes keys ahead of need.
pub fn settle(pid: u32) -> Result<()> {
    /// Checks in a row.
    const QUIET: u32 = 4;
    let end = Instant::now() + Duration::from_secs(5);
    let mut quiet = 0;
    while quiet < QUIET && Instant::now() < end {
        let busy = tree(pid)?.len() > 1 || is_running(pid)?;
        quiet = if busy { 0 } else { quiet + 1 };
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Returns whether a thread of the process runs or waits for a processor.
fn is_running(pid: u32) -> Result<bool> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("the server has ended")?;
    let mut stats = tasks.filter_map(|task| Stat::read_file(&task.ok()?.path().join("stat")).ok());
    Ok(stats.any(|stat| stat.state == 'R'))
}

/// Returns the proportional set size of a process and all its descendants, in bytes.
pub fn pss_of_tree(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for pid in tree(pid)? {
        let text =
            fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).context("read smaps_rollup")?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Pss:"))
            .context("no Pss in smaps_rollup")?;
        sum += line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024;
    }
    Ok(sum)
}

/// Returns a process and all its descendants.
fn tree(root: u32) -> Result<Vec<u32>> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, Stat::read(pid).ok()?.parent)))
        .collect();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&pid) = tree.get(next) {
        tree.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == pid)
                .map(|(child, _)| *child),
        );
        next += 1;
    }
    Ok(tree)
}

/// Fields of `/proc/PID/stat`; times are in clock ticks.
struct Stat {
    state: char,
    parent: u32,
    own: u64,
    waited: u64,
}

impl Stat {
    fn read(pid: u32) -> Result<Self> {
        Self::read_file(Path::new(&format!("/proc/{pid}/stat")))
    }

    fn read_file(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)?;
        // The name in parentheses may contain any character.
        let (_, rest) = text.rsplit_once(") ").context("no name in stat")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |index: usize| -> Result<u64> {
            Ok(fields.get(index).context("a short stat")?.parse()?)
        };
        Ok(Self {
            state: fields
                .first()
                .and_then(|state| state.chars().next())
                .context("no state in stat")?,
            parent: u32::try_from(number(1)?)?,
            own: number(11)? + number(12)?,
            waited: number(13)? + number(14)?,
        })
    }
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

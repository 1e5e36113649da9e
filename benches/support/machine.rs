//! What a measurement asks of the machine, and says of it: priority, one processor, a caption.

use std::fs;
use std::hint::spin_loop;
use std::process::{Command, Stdio, id};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Puts this thread, and all that it starts from here on, before all ordinary work of the machine, and
/// says whether that was allowed; it needs root, and `chrt` (package util-linux).
///
/// In the real-time class a program goes on the moment it can; by niceness alone it waits until a
/// running one has used up its slice, and pays for each time it sleeps. What hardly sleeps is
/// steadier with [`weigh_more`], since the kernel keeps a part of each second from this class.
pub fn go_first() -> bool {
    let mut chrt = Command::new("chrt");
    chrt.args(["--rr", "--pid", "1"]).arg(id().to_string());
    chrt.stderr(Stdio::null());
    chrt.status().is_ok_and(|status| status.success())
}

/// Gives this thread, and all that it starts from here on, by far the largest share of their
/// processors, and says whether that was allowed; it needs root.
pub fn weigh_more() -> bool {
    setpriority_process(None, -15).is_ok()
}

/// Keeps this thread, and all that it starts from here on, on the last processor, and says whether
/// that was allowed.
pub fn stay_on_one() -> bool {
    stay_on(processors() - 1)
}

fn stay_on(processor: usize) -> bool {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).is_ok()
}

/// Processors that threads of ours keep busy with next to nothing, until the value is dropped.
#[derive(Debug)]
pub struct Occupied(Arc<AtomicBool>);

impl Occupied {
    /// Occupies all processors but the last.
    pub fn others() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for processor in 0..processors() - 1 {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                stay_on(processor);
                while !over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        Self(over)
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns what ran this, for the caption of a table.
pub fn caption() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or("\t: unknown processor");
    format!(
        "{}, {} CPUs, Linux {}",
        cpu.trim_start_matches(['\t', ' ', ':']),
        processors(),
        read("/proc/sys/kernel/osrelease").trim()
    )
}

fn processors() -> usize {
    available_parallelism().map_or(1, std::num::NonZero::get)
}

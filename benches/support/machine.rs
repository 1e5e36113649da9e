//! The machine of a measurement: scheduling priority, pinning to processors, and a caption.

use std::fs;
use std::hint::spin_loop;
use std::process::{Command, Stdio, id};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};

use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};

/// Moves this thread, and threads and processes it starts later, to the real-time scheduling class.
///
/// Returns whether that succeeded; it needs root and `chrt` (package util-linux). In this class a
/// program runs as soon as it can. With a lower niceness alone it waits until a running program has
/// used its time slice. A program that hardly sleeps is steadier with [`raise_priority`], since the
/// kernel withholds a part of each second from this class.
pub fn use_real_time_class() -> bool {
    let mut chrt = Command::new("chrt");
    chrt.args(["--rr", "--pid", "1"]).arg(id().to_string());
    chrt.stderr(Stdio::null());
    chrt.status().is_ok_and(|status| status.success())
}

/// Gives this thread, and threads and processes it starts later, a niceness of -15. Returns whether
/// that succeeded; it needs root.
pub fn raise_priority() -> bool {
    setpriority_process(None, -15).is_ok()
}

/// Pins this thread, and threads and processes it starts later, to the last processor. Returns
/// whether that succeeded.
pub fn pin_to_last_processor() -> bool {
    pin_to(processors() - 1)
}

fn pin_to(processor: usize) -> bool {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).is_ok()
}

/// Processors kept busy by idle loops until the value is dropped.
#[derive(Debug)]
pub struct Occupied(Arc<AtomicBool>);

impl Occupied {
    /// Occupies all processors but the last.
    pub fn others() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for processor in 0..processors() - 1 {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                pin_to(processor);
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

/// Returns processor, number of CPUs and kernel, for the caption of a table.
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

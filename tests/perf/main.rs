//! `xio-perf` against itself, `globus-xioperf`, plain sockets and failing peers.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed test names its line"
)]

mod failures;
mod globus;
mod sockets;
mod stacks;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use workspace_tests::{Daemon, binary, run};

/// Longest duration of one session.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts `xio-perf serve` on a free port.
fn serve(stack: &str, flags: &[&str]) -> Daemon {
    let mut command = Command::new(binary("xio-perf").unwrap());
    command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
    command.args(["--stack", stack]).args(flags);
    let ready = |line: &str| line.strip_prefix("listening on ")?.parse().ok();
    Daemon::start(&mut command, ready).unwrap()
}

/// Waits for a server that must succeed, and returns its result.
fn served(mut server: Daemon) -> Value {
    let success = server.wait(LIMIT).unwrap();
    let output = server.all_output().unwrap();
    assert!(success, "{output}");
    last_object(&output)
}

/// Returns the command of an `xio-perf run`.
fn connect(stack: &str, to: impl ToString, flags: &[&str]) -> Command {
    let mut command = Command::new(binary("xio-perf").unwrap());
    command.args(["run", "--json", "--stack", stack, "--connect"]);
    command.arg(to.to_string()).args(flags);
    command
}

/// Runs a command that must succeed, and returns its result.
fn ran(command: &mut Command) -> Value {
    let ended = run(command, LIMIT).unwrap().ok().unwrap();
    last_object(&ended.stdout)
}

fn last_object(text: &str) -> Value {
    let line = text.lines().rfind(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no result in: {text}"))).unwrap()
}

/// Checks the members of every result.
fn check(result: &Value, stack: &str, bytes: usize) {
    assert_eq!(result["stack"], stack, "{result}");
    assert_eq!(result["bytes"], bytes, "{result}");
    let of = |key: &str| result[key].as_f64().unwrap();
    let rate = of("bytes_per_second");
    assert!(of("seconds") > 0.0 && rate > 0.0, "{result}");
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let off = rate * of("seconds") / bytes as f64 - 1.0;
    assert!(off.abs() < 1e-6, "{result}");
    assert!(of("cpu_seconds") > 0.0, "{result}");
    assert!(of("round_trip_seconds") > 0.0, "{result}");
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

//! `xio-perf` against `globus-xioperf`, against plain sockets, and against peers that are not there.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails says where by itself"
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

/// How long one session may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Our end that waits, on a port of its own.
fn serve(stack: &str, flags: &[&str]) -> Daemon {
    let mut command = Command::new(binary("xio-perf").unwrap());
    command.args(["serve", "--listen", "127.0.0.1:0", "--json"]);
    command.args(["--stack", stack]).args(flags);
    let ready = |line: &str| line.strip_prefix("listening on ")?.parse().ok();
    Daemon::start(&mut command, ready).unwrap()
}

/// What a server that ended well said of its session.
fn served(mut server: Daemon) -> Value {
    let well = server.wait(LIMIT).unwrap();
    let said = server.last_words().unwrap();
    assert!(well, "{said}");
    last_object(&said)
}

/// Our end that connects.
fn connect(stack: &str, to: impl ToString, flags: &[&str]) -> Command {
    let mut command = Command::new(binary("xio-perf").unwrap());
    command.args(["run", "--json", "--stack", stack, "--connect"]);
    command.arg(to.to_string()).args(flags);
    command
}

/// What our end that connects said of a session that went well.
fn ran(command: &mut Command) -> Value {
    let ended = run(command, LIMIT).unwrap().ok().unwrap();
    last_object(&ended.stdout)
}

fn last_object(text: &str) -> Value {
    let line = text.lines().rfind(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no result in: {text}"))).unwrap()
}

/// Checks what every result holds.
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

//! `in_own_network` and `CutOff`: tests in a network namespace, and hosts there that are cut off.

use std::env;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::peers::skip;
use crate::{Finished, is_root, run};

/// Set in the environment of tests in a network of their own.
const MARK: &str = "OWN_NETWORK";

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(600);

/// Longest time of a command about the network.
const SOON: Duration = Duration::from_secs(20);

/// Brings the loopback device up, and has its addresses looked up behind the rules of [`CutOff`].
const INSIDE: &str = "ip link set lo up && ip rule add pref 10 table local && ip rule del pref 0 \
    && exec \"$0\" \"$@\"";

/// Runs an ignored test of this program, by its path, in a network namespace of its own, which has a
/// loopback device and nothing else.
///
/// Where none can be made it says so, and fails if `REQUIRE_PEERS` is set.
pub fn in_own_network(test: &str) -> Result<()> {
    if let Err(error) = run(inside().arg("true"), SOON).and_then(Finished::ok) {
        skip(
            test,
            &format!("no network namespace can be made: {error:#}"),
        );
        return Ok(());
    }
    let mut command = inside();
    command.arg(env::current_exe()?).env(MARK, "1");
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    let done = run(&mut command, LIMIT)?.ok()?;
    ensure!(done.stdout.contains("1 passed"), "{}", done.report());
    Ok(())
}

/// Begins a command in a network namespace of its own.
fn inside() -> Command {
    let mut command = Command::new("unshare");
    if !is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--net", "sh", "-c", INSIDE]);
    command
}

/// A host of the own network that no packet reaches or leaves; its connections stay open. Dropping
/// the value ends this.
#[derive(Debug)]
pub struct CutOff(Ipv4Addr);

impl CutOff {
    /// Cuts off an address of the loopback device. Only within [`in_own_network`].
    pub fn new(host: Ipv4Addr) -> Result<Self> {
        ensure!(env::var_os(MARK).is_some(), "not in a network of its own");
        let host = Self(host);
        host.rules("add")?;
        Ok(host)
    }

    fn rules(&self, change: &str) -> Result<()> {
        let host = self.0.to_string();
        for way in ["from", "to"] {
            let mut command = Command::new("ip");
            command.args(["rule", change, "pref", "1", way, &host, "blackhole"]);
            run(&mut command, SOON)?.ok()?;
        }
        Ok(())
    }
}

impl Drop for CutOff {
    fn drop(&mut self) {
        // The network ends with the test.
        let _ = self.rules("del");
    }
}

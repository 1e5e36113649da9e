//! `globus-xioperf`: how it is called, and where it says that it listens.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use crate::Peer;

/// Returns a command for `globus-xioperf` over one of its drivers, or nothing after saying loudly
/// that `suite` is skipped.
pub fn globus_xioperf(suite: &str, driver: &str) -> Option<Command> {
    if driver == "udt" {
        Peer::GlobusUdt.require(suite)?;
    }
    let program = Peer::GlobusXioPerf.require(suite)?;
    // What it says of its port must not wait in a buffer until it ends.
    let mut command = Command::new("stdbuf");
    command.arg("-oL").arg(program.get_program());
    command.args(["-D", driver]);
    Some(command)
}

/// Returns where the line says that it listens; it gives a name, but listens on every address.
pub fn globus_xioperf_place(line: &str) -> Option<SocketAddr> {
    let (_, port) = line
        .strip_prefix("server listening on:")?
        .trim()
        .rsplit_once(':')?;
    Some((Ipv4Addr::LOCALHOST, port.parse().ok()?).into())
}

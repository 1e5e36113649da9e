//! `globus-xioperf`: its command line, and the address in its output.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use crate::Peer;

/// Returns a command for `globus-xioperf` over one of its drivers, or nothing after reporting that
/// `suite` is skipped.
pub fn globus_xioperf(suite: &str, driver: &str) -> Option<Command> {
    if driver == "udt" {
        Peer::GlobusUdt.require(suite)?;
    }
    let program = Peer::GlobusXioPerf.require(suite)?;
    // By default its output, with the port, stays in a buffer until it exits.
    let mut command = Command::new("stdbuf");
    command.arg("-oL").arg(program.get_program());
    command.args(["-D", driver]);
    Some(command)
}

/// Returns the listening address from a line of output. The line names a host, but the program
/// listens on every address.
pub fn globus_xioperf_addr(line: &str) -> Option<SocketAddr> {
    let (_, port) = line
        .strip_prefix("server listening on:")?
        .trim()
        .rsplit_once(':')?;
    Some((Ipv4Addr::LOCALHOST, port.parse().ok()?).into())
}

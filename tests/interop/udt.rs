//! Data channels over UDT: the Globus server with our client, and our server with peers of libudt
//! alone.
//!
//! The Globus server takes `SITE SETNETSTACK udt` from sessions without security too, where
//! `-dc-whitelist` allows it; only `globus-url-copy` refuses to ask for it there.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use workspace_tests::{Host, Peer, Tree, binary, host_port, run, sha256};

use crate::bed::LIMIT;
use crate::peer;

const SIZE: u64 = 3_000_017;

/// Copies there and back with `gridftp-cp` over UDT, with additional flags of client and server.
fn there_and_back(flags: &[&str], server: &[&str]) -> Result<()> {
    let suite = "interop: UDT with the Globus server";
    let (Some(mut command), Some(_)) = (
        Peer::GlobusServer.require(suite),
        Peer::GlobusUdt.require(suite),
    ) else {
        return Ok(());
    };
    let (here, there) = (Tree::new()?, Tree::new()?);
    let options = [&["-dc-whitelist", "udt,tcp,gsi"], server].concat();
    let host = Host::globus_from(&mut command, there.root(), &options)?;
    for (name, size) in [("large", SIZE), ("byte", 1), ("empty", 0)] {
        let file = here.file(name, size, size + 1)?;
        let cp = |from: &str, to: &str| -> Result<()> {
            let mut command = Command::new(binary("gridftp-cp")?);
            command.args(["-v", "--stack", "udt"]).args(flags);
            let done = run(command.args([from, to]), LIMIT)?.ok();
            done.with_context(|| format!("output of the server: {}", host.output()))?;
            Ok(())
        };
        let path = |path: &std::path::Path| path.display().to_string();
        cp(&path(&file), &host.url(name))?;
        ensure!(sha256(&there.path(name))? == sha256(&file)?, "{name}: up");
        let back = here.path("back");
        cp(&host.url(name), &path(&back))?;
        ensure!(sha256(&back)? == sha256(&file)?, "{name}: down");
        fs::remove_file(back)?;
    }
    Ok(())
}

#[test]
fn our_client_and_the_globus_server_in_mode_s() -> Result<()> {
    there_and_back(&["--mode", "stream"], &[])
}

#[test]
fn our_client_and_the_globus_server_in_mode_s_with_threads() -> Result<()> {
    there_and_back(&["--mode", "stream"], &["-threads", "2"])
}

#[test]
fn our_client_and_the_globus_server_in_mode_e() -> Result<()> {
    there_and_back(&["-p", "1"], &["-threads", "2"])
}

#[test]
fn our_client_and_the_globus_server_in_mode_e_with_four_streams() -> Result<()> {
    there_and_back(&["-p", "4"], &["-threads", "2"])
}

/// A control connection driven by the test.
struct Control(BufReader<TcpStream>);

impl Control {
    /// Logs in to our server and asks for UDT.
    fn open(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut control = Self(BufReader::new(stream));
        control.reply(220)?;
        control.say("USER anonymous", 331)?;
        control.say("PASS me@", 230)?;
        control.say("TYPE I", 200)?;
        control.say("SITE SETNETSTACK udt", 250)?;
        Ok(control)
    }

    /// Sends a line, checks the code of its reply, and returns the reply.
    fn say(&mut self, line: &str, code: u16) -> Result<String> {
        self.0
            .get_mut()
            .write_all(format!("{line}\r\n").as_bytes())?;
        self.reply(code).with_context(|| line.to_owned())
    }

    /// Reads a reply, checks its code, and returns its last line.
    fn reply(&mut self, code: u16) -> Result<String> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                bail!("the control connection ended");
            }
            if line.as_bytes().get(3) == Some(&b' ') {
                ensure!(line.starts_with(&code.to_string()), "{line}");
                return Ok(line);
            }
        }
    }

    /// Sends `PASV` and returns the address of its reply.
    fn passive(&mut self) -> Result<String> {
        let reply = self.say("PASV", 227)?;
        let addr = reply.split(['(', ')']).nth(1).and_then(host_port);
        Ok(addr.context(reply)?.to_string())
    }

    /// Sends `PORT` with this address.
    fn active(&mut self, to: SocketAddr) -> Result<()> {
        let ip = to.ip().to_string().replace('.', ",");
        let line = format!("PORT {ip},{},{}", to.port() >> 8, to.port() & 255);
        self.say(&line, 200).map(drop)
    }
}

/// Transfers a file between our server and a libudt program at the data connection's other end.
fn with_libudt(passive: bool, up: bool) -> Result<()> {
    let Some(program) = peer::program("interop: UDT data channels with libudt") else {
        return Ok(());
    };
    let (here, there) = (Tree::new()?, Tree::new()?);
    let host = Host::ours_with(there.root(), &["--net-stacks", "tcp,udt"])?;
    let mut control = Control::open(host.addr())?;
    let (from, to) = match up {
        true => (here.file("file", SIZE, 3)?, there.path("file")),
        false => (there.file("file", SIZE, 3)?, here.path("file")),
    };
    let local = here.path("file");
    let local = local.to_str().context("a plain name")?;
    let action = if up { "send" } else { "receive" };
    let command = if up { "STOR file" } else { "RETR file" };
    let far = if passive {
        let at = control.passive()?;
        peer::start(program, &["connect", &at, action, local, "1500"])
    } else {
        let far = peer::start(program, &["listen", action, local, "1500"]);
        control.active(far.addr())?;
        far
    };
    control.say(command, 150)?;
    control.reply(226)?;
    let output = peer::finish(far);
    ensure!(sha256(&to)? == sha256(&from)?, "{output}");
    control.say("QUIT", 221)?;
    Ok(())
}

#[test]
fn libudt_connects_to_our_server_and_sends() -> Result<()> {
    with_libudt(true, true)
}

#[test]
fn libudt_connects_to_our_server_and_receives() -> Result<()> {
    with_libudt(true, false)
}

#[test]
fn our_server_connects_to_libudt_and_receives() -> Result<()> {
    with_libudt(false, true)
}

#[test]
fn our_server_connects_to_libudt_and_sends() -> Result<()> {
    with_libudt(false, false)
}

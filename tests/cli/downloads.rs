//! Downloads from servers that break off, refuse to restart, or change the file.

use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Reaction, ScriptedServer, Tree};

use crate::cp_in;

const SIZE: usize = 3_000_001;
/// Bytes sent before a retrieval breaks off.
const SENT: usize = 1_000_003;

/// The server's reaction to one `RETR`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    /// Sends the file from the restart offset.
    Send,
    /// Sends `SENT` bytes and replies 426.
    Break,
    /// Replies 450.
    Busy,
    /// Closes its data port and the session.
    Away,
    /// Sends half of the file, and the rest from the next version.
    Rewrite,
}

/// The commands by which the server describes its file.
#[derive(Clone, Copy, PartialEq)]
enum Describes {
    Mlst,
    SizeAndTime,
    Size,
}

/// Starts a server of one file in MODE S; after a retrieval broke off, the next of `versions`
/// replaces the file.
fn serve(describes: Describes, turns: &[Turn], versions: Vec<Vec<u8>>) -> Result<ScriptedServer> {
    let (turns, mut versions) = (turns.to_vec(), versions.into_iter());
    let first = versions.next().unwrap_or_default();
    let versions = Mutex::new(versions);
    let server = ScriptedServer::with(move |server, line| {
        // The number of `RETR` commands includes the present one.
        let turn = |nth: usize| turns.get(nth).copied().unwrap_or(Turn::Send);
        let present = || turn(server.count("RETR") - 1);
        match line.split(' ').next() {
            Some("FEAT") if describes == Describes::Mlst => {
                Reaction::say("211-features\r\n MLST Size*;Modify*;\r\n211 end")
            }
            Some("FEAT") => Reaction::say("211-features\r\n SIZE\r\n211 end"),
            Some("MDTM") if describes == Describes::Size => Reaction::say("500 no"),
            Some("MLST") if describes == Describes::Mlst => Reaction::Execute,
            Some("PASV") if turn(server.count("RETR")) == Turn::Away => Reaction::Shut,
            Some("RETR") => match present() {
                Turn::Send => Reaction::Usual,
                Turn::Break | Turn::Rewrite => Reaction::Until(SENT),
                Turn::Busy => Reaction::say("450 busy"),
                Turn::Away => Reaction::HangUp(String::new()),
            },
            Some("MIDWAY") if matches!(present(), Turn::Break | Turn::Rewrite) => {
                let next = versions.lock().ok().and_then(|mut left| left.next());
                next.into_iter().for_each(|next| server.file("/file", next));
                match present() {
                    Turn::Break => Reaction::say("426 broken"),
                    _ => Reaction::Usual,
                }
            }
            _ => Reaction::Usual,
        }
    })?;
    server.file("/file", first);
    Ok(server)
}

/// Returns bytes that depend on their offset and on `version`.
fn bytes(version: u8) -> Vec<u8> {
    let place = |at: usize| u8::try_from((at / 251 + at) % 251).unwrap_or(0);
    (0..SIZE).map(|at| place(at) ^ version).collect()
}

/// Downloads from such a server, checks that the copy is the last version, and returns the number
/// of `RETR` commands.
fn download(describes: Describes, turns: &[Turn], versions: u8) -> Result<usize> {
    let here = Tree::new()?;
    let versions: Vec<_> = (0..versions).map(bytes).collect();
    let last = versions.last().cloned().unwrap_or_default();
    let server = serve(describes, turns, versions)?;
    let url = server.url("file");
    let said = cp_in(&here, &["--mode", "stream", "--debug", &url, "file"])?.ok()?;
    ensure!(
        std::fs::read(here.path("file"))? == last,
        "the copy differs from the file: {}",
        said.report()
    );
    ensure!(here.names("")? == ["file"], "{:?}", here.names("")?);
    Ok(server.count("RETR"))
}

#[test]
fn received_data_survives_a_refused_restart() -> Result<()> {
    for refused in [Turn::Busy, Turn::Away] {
        let turns = [Turn::Break, refused];
        download(Describes::Mlst, &turns, 1).with_context(|| format!("{refused:?}"))?;
    }
    Ok(())
}

#[test]
fn a_download_restarts_only_if_the_file_is_unchanged() -> Result<()> {
    for describes in [Describes::Mlst, Describes::SizeAndTime, Describes::Size] {
        download(describes, &[Turn::Break], 2)?;
    }
    Ok(())
}

#[test]
fn a_file_rewritten_during_a_download_is_read_again() -> Result<()> {
    for describes in [Describes::Mlst, Describes::SizeAndTime] {
        let retrieved = download(describes, &[Turn::Rewrite], 2)?;
        ensure!(retrieved == 2, "read {retrieved} times");
    }
    Ok(())
}

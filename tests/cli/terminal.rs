//! Lines of a copy on a terminal.

use std::fs::File;
use std::io::Read as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use workspace_tests::{Reaction, ScriptedServer, Tree};

use crate::uploads::digest;
use crate::{LIMIT, command};

/// A server that waits before the second half of a file, or before its digest.
fn waiting(at: &'static str) -> Result<(ScriptedServer, Sender<()>)> {
    let (go_on, waits): (_, Receiver<()>) = mpsc::channel();
    let waits = Mutex::new(waits);
    let server = ScriptedServer::with(move |server, line| {
        if line.starts_with(at)
            && let Ok(waits) = waits.lock()
        {
            // A test that has failed is gone.
            let _gone = waits.recv();
        }
        match *line.split(' ').collect::<Vec<_>>() {
            ["FEAT"] => Reaction::say("211-\r\n SIZE\r\n CKSM SHA256:10;\r\n211 end"),
            ["CKSM", ..] => Reaction::Begin(
                b"113-Status Marker\r\n Timestamp: 1.5\r\n Bytes Processed: 430000\r\n113 End.\r\n"
                    .to_vec(),
            ),
            ["AGAIN", "CKSM", _, offset, length, path] => digest(server, path, offset, length),
            _ => Reaction::Usual,
        }
    })?;
    server.file(&format!("/{NAME}"), vec![7; 1_000_000]);
    Ok((server, go_on))
}

const NAME: &str = "a-file-whose-name-is-rather-long-0001.root";

/// Runs a copy at a terminal of so many columns until its lines have each of `needles`, and then goes
/// on; gives all that came to the terminal.
fn draw(columns: u16, at: &'static str, needles: &[&str]) -> Result<String> {
    let (server, go_on) = waiting(at)?;
    let tree = Tree::new()?;
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(
        name,
        OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&slave, size)?;
    let mut copy = command(&tree, &[&server.url(NAME), "."])?
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(slave)
        .spawn()?;
    let (pieces, read) = mpsc::channel();
    thread::spawn(move || {
        let mut master = File::from(master);
        let mut piece = [0; 4096];
        // Behind the last writer it is an error.
        while let Ok(count @ 1..) = master.read(&mut piece) {
            if pieces
                .send(piece.get(..count).unwrap_or_default().to_vec())
                .is_err()
            {
                break;
            }
        }
    });
    let mut drawn = Vec::new();
    let mut text = String::new();
    while !needles.iter().all(|needle| text.contains(needle)) {
        let Ok(piece) = read.recv_timeout(LIMIT) else {
            copy.kill()?;
            copy.wait()?;
            anyhow::bail!("none of {needles:?} in {text:?}");
        };
        drawn.extend(piece);
        text = String::from_utf8_lossy(&drawn).into_owned();
    }
    go_on.send(())?;
    drop(go_on);
    let status: ExitStatus = copy.wait()?;
    drawn.extend(read.iter().flatten());
    let text = String::from_utf8(drawn).context("a character is cut")?;
    ensure!(status.success(), "{text:?}");
    Ok(text)
}

/// The lines that were drawn, without the codes that move the cursor.
fn lines(text: &str) -> Vec<String> {
    let plain = text.split("\x1b[").map(|part| {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        match part {
            _ if text.starts_with(part) => part,
            _ => part.get(end.map_or(0, |at| at + 1)..).unwrap_or_default(),
        }
    });
    let plain: String = plain.collect();
    let lines = plain.split(['\r', '\n']).map(str::to_owned);
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn lines_of_a_copy_fit_on_the_terminal() -> Result<()> {
    for (columns, has_room) in [(100, true), (30, false)] {
        let half = "488.28 KiB/976.56 KiB";
        let text = draw(columns, "MIDWAY", &[half, "50 %"])?;
        let lines = lines(&text);
        let wide = lines
            .iter()
            .find(|line| line.chars().count() >= usize::from(columns));
        ensure!(wide.is_none(), "{columns}: {wide:?}");
        let has = |needle: &str| lines.iter().any(|line| line.contains(needle));
        ensure!(has(half), "{columns}: {lines:?}");
        ensure!(
            has("█") == has_room && has(NAME) == has_room,
            "{columns}: {lines:?}"
        );
        ensure!(has("…") != has_room, "{columns}: {lines:?}");
    }
    Ok(())
}

#[test]
fn the_progress_of_a_digest_is_shown() -> Result<()> {
    draw(100, "AGAIN CKSM", &["0/1 files, verifying 43 %"]).map(drop)
}

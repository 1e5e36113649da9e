//! Many small files in MODE S: commands are pipelined, and replies stay in order.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use workspace_tests::{Reaction, ScriptedServer, Tree};

use crate::cp_in;

/// Uploads three files over one connection, and returns the commands of the server's sessions.
fn upload(server: &ScriptedServer) -> Result<Vec<String>> {
    let tree = Tree::new()?;
    for n in 0..3 {
        tree.file(&format!("up/{n}"), 1000 + n, n)?;
    }
    let url = server.url("to/");
    let flags = [
        "-r",
        "--concurrency",
        "1",
        "--timeout",
        "5",
        "--retries",
        "0",
    ];
    cp_in(&tree, &[&flags[..], &["up/", &url]].concat())?.ok()?;
    let mut wanted = Vec::new();
    for n in 0..3 {
        let name = format!("/to/{n}");
        ensure!(server.bytes(&name) == Some(std::fs::read(tree.path(&format!("up/{n}")))?));
        wanted.push(name);
    }
    ensure!(server.files() == wanted, "{:?}", server.files());
    Ok(server.commands())
}

/// The server delays each reply that the client must not wait for: the size of a stored file until
/// the next file is set up, and its rename until the next file is stored.
#[test]
fn sizes_and_renames_are_pipelined_with_the_next_file() -> Result<()> {
    let (sizes, names) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let server = ScriptedServer::start(move |line| {
        let seen = match line {
            _ if line.starts_with("SIZE /to/.") => &sizes,
            _ if line.starts_with("RNTO /to/") && !line.contains("/.") => &names,
            _ => return Reaction::Usual,
        };
        match seen.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Reaction::Later,
            _ => Reaction::Usual,
        }
    })?;
    upload(&server)?;
    ensure!(server.early() == 0, "{} were early", server.early());
    Ok(())
}

/// The client must not send `RNFR` before the transfer of the next file has ended.
#[test]
fn a_refused_rename_is_retried_after_the_next_transfer() -> Result<()> {
    let refused = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let server = ScriptedServer::start(move |line| {
        if line.starts_with("END STOR") {
            ended.fetch_add(1, Ordering::SeqCst);
        }
        let name = line.starts_with("RNTO /to/") && !line.contains("/.");
        let replaces = line.starts_with("RNFR /to/") && !line.contains("/.");
        let early = replaces && ended.load(Ordering::SeqCst) < 2;
        match name && refused.fetch_add(1, Ordering::SeqCst) == 0 {
            true => Reaction::say("553 File already exists"),
            false if early => Reaction::HangUp("421 not now".to_owned()),
            false => Reaction::Usual,
        }
    })?;
    server.dir("/to");
    for n in 0..3 {
        server.file(&format!("/to/{n}"), "old");
    }
    let commands = upload(&server)?;
    ensure!(server.count("STOR") == 3, "{commands:?}");
    ensure!(server.count("DELE") == 1, "{commands:?}");
    Ok(())
}

/// A directory that the copy created itself is empty.
#[test]
fn names_in_a_created_directory_are_not_queried() -> Result<()> {
    let asked = |commands: &[String]| {
        let about =
            |line: &&String| line.starts_with("STAT /to/") || line.starts_with("MLST /to/0");
        commands.iter().filter(about).count()
    };
    let new = ScriptedServer::usual()?;
    let commands = upload(&new)?;
    ensure!(asked(&commands) == 0, "{commands:?}");
    let old = ScriptedServer::usual()?;
    old.dir("/to");
    let commands = upload(&old)?;
    ensure!(asked(&commands) == 3, "{commands:?}");
    Ok(())
}

/// The client opens more connections than the server accepts.
#[test]
fn a_session_limit_of_the_server_fails_no_file() -> Result<()> {
    let sessions = AtomicUsize::new(0);
    let server = ScriptedServer::start(move |line| {
        let more = line == "CONNECT" && sessions.fetch_add(1, Ordering::SeqCst) > 1;
        match more {
            true => Reaction::HangUp("421 too many of you".to_owned()),
            false => Reaction::Usual,
        }
    })?;
    for n in 0..40 {
        server.file(&format!("/from/{n}"), vec![n; 1000]);
    }
    let tree = Tree::new()?;
    cp_in(&tree, &["-r", &server.url("from/"), "to/"])?.ok()?;
    for n in 0..40 {
        ensure!(std::fs::read(tree.path(&format!("to/{n}")))? == vec![n; 1000]);
    }
    Ok(())
}

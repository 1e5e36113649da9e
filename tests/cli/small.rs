//! Many small files in MODE S: no round trip is waited for that need not be, and replies stay in order.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use workspace_tests::{Act, Played, Tree};

use crate::cp_in;

/// Uploads three files over one connection; gives what the server heard after the login.
fn upload(server: &Played) -> Result<Vec<String>> {
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
    Ok(server.heard())
}

/// The server keeps its reply to every command that another is to follow unasked: the size of a stored
/// file until the next is set up, its name until the next is stored.
#[test]
fn a_stored_file_is_proven_and_named_while_the_next_is_set_up() -> Result<()> {
    let (sizes, names) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let server = Played::start(move |line| {
        let seen = match line {
            _ if line.starts_with("SIZE /to/.") => &sizes,
            _ if line.starts_with("RNTO /to/") && !line.contains("/.") => &names,
            _ => return Act::Usual,
        };
        match seen.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Act::Later,
            _ => Act::Usual,
        }
    })?;
    upload(&server)?;
    ensure!(server.early() == 0, "{} were early", server.early());
    Ok(())
}

/// What the server refuses is asked for in another way only when no data moves any more.
#[test]
fn a_refused_name_waits_for_the_next_file_to_end() -> Result<()> {
    let refused = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let server = Played::start(move |line| {
        if line.starts_with("END STOR") {
            ended.fetch_add(1, Ordering::SeqCst);
        }
        let name = line.starts_with("RNTO /to/") && !line.contains("/.");
        let replaces = line.starts_with("RNFR /to/") && !line.contains("/.");
        let early = replaces && ended.load(Ordering::SeqCst) < 2;
        match name && refused.fetch_add(1, Ordering::SeqCst) == 0 {
            true => Act::say("553 File already exists"),
            false if early => Act::Leave("421 not now".to_owned()),
            false => Act::Usual,
        }
    })?;
    server.dir("/to");
    for n in 0..3 {
        server.file(&format!("/to/{n}"), "old");
    }
    let heard = upload(&server)?;
    ensure!(server.count("STOR") == 3, "{heard:?}");
    ensure!(server.count("DELE") == 1, "{heard:?}");
    Ok(())
}

/// Nothing is to be asked about a name in a directory that this copy has made.
#[test]
fn names_in_a_new_directory_are_not_asked_about() -> Result<()> {
    let asked = |heard: &[String]| {
        let about =
            |line: &&String| line.starts_with("STAT /to/") || line.starts_with("MLST /to/0");
        heard.iter().filter(about).count()
    };
    let new = Played::usual()?;
    let heard = upload(&new)?;
    ensure!(asked(&heard) == 0, "{heard:?}");
    let old = Played::usual()?;
    old.dir("/to");
    let heard = upload(&old)?;
    ensure!(asked(&heard) == 3, "{heard:?}");
    Ok(())
}

/// More connections are tried than the server takes.
#[test]
fn a_server_that_takes_few_sessions_gives_all_files_over_those() -> Result<()> {
    let sessions = AtomicUsize::new(0);
    let server = Played::start(move |line| {
        let more = line == "CONNECT" && sessions.fetch_add(1, Ordering::SeqCst) > 1;
        match more {
            true => Act::Leave("421 too many of you".to_owned()),
            false => Act::Usual,
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

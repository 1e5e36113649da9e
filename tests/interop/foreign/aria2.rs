//! `aria2` against our server.

use std::time::Duration;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Peer, Tree, run, same_file, sha256};

use crate::bed::{End, LIMIT};

/// Downloads `urls` into `local`, or returns nothing where aria2 is missing.
fn aria2(local: &Tree, flags: &[&str], urls: &[String]) -> Result<Option<Finished>> {
    let Some(mut command) = Peer::Aria2.require("interop: aria2") else {
        return Ok(None);
    };
    command
        .args([
            "--no-conf",
            "--max-tries=1",
            "--file-allocation=none",
            "--dir",
        ])
        .arg(local.root())
        .args(flags)
        .args(urls)
        .env("HOME", local.root());
    run(&mut command, LIMIT).map(Some)
}

/// aria2 waits for `150` before it reads, and a minute for a reply that comes together with `226`.
#[test]
fn downloads_of_small_files_do_not_stall() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    let mut urls = Vec::new();
    for n in 0..15 {
        server.tree.file(&format!("file{n}"), 10 + n, n)?;
        urls.push(server.url(&format!("file{n}")));
    }
    if let Some(finished) = aria2(&local, &["--force-sequential=true"], &urls)? {
        let finished = finished.ok()?;
        ensure!(
            finished.took < Duration::from_secs(20),
            "it stalled: {}",
            finished.report()
        );
        for n in 0..15 {
            let name = format!("file{n}");
            ensure!(
                sha256(&local.path(&name))? == sha256(&server.path(&name))?,
                "{name} differs"
            );
        }
    }
    Ok(())
}

#[test]
fn get_in_segments() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    server.tree.file("file", 8_000_003, 41)?;
    let flags = [
        "--split=4",
        "--min-split-size=1M",
        "--max-connection-per-server=4",
    ];
    if let Some(finished) = aria2(&local, &flags, &[server.url("file")])? {
        finished.ok()?;
        same_file(&local.path("file"), &server.path("file"))?;
    }
    Ok(())
}

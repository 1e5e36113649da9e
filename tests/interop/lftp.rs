//! `lftp` against our server.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Peer, Tree, run, same_file, same_tree};

use crate::bed::{End, LIMIT};

/// Runs an lftp script in `local` against a server, or returns nothing where lftp is missing.
fn lftp(server: &End, local: &Tree, script: &str) -> Result<Option<Finished>> {
    let Some(mut command) = Peer::Lftp.require("interop: lftp") else {
        return Ok(None);
    };
    let settings = "set net:max-retries 1; set net:timeout 20; set ftp:ssl-allow false; set cmd:fail-exit true";
    let script = format!("{settings}; open {}; {script}", server.url(""));
    // Without the settings of the user who runs the test.
    command
        .env("HOME", local.root())
        .env("LFTP_HOME", local.root())
        .current_dir(local.root());
    run(command.args(["--norc", "-c", &script]), LIMIT).map(Some)
}

#[test]
fn get_and_put() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    server.tree.file("a dir/there", 1_000_003, 31)?;
    local.file("here", 1_000_003, 32)?;
    let script = "get 'a dir/there' -o got; put here -o 'a dir/put'";
    if let Some(finished) = lftp(&server, &local, script)? {
        finished.ok()?;
        same_file(&local.path("got"), &server.path("a dir/there"))?;
        same_file(&local.path("here"), &server.path("a dir/put"))?;
    }
    Ok(())
}

#[test]
fn get_in_segments() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    server.tree.file("file", 5_000_003, 33)?;
    if let Some(finished) = lftp(&server, &local, "pget -n 4 file -o got")? {
        finished.ok()?;
        same_file(&local.path("got"), &server.path("file"))?;
    }
    Ok(())
}

#[test]
fn get_and_put_are_resumed() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    let there = server.tree.file("there", 1_000_003, 34)?;
    let here = local.file("here", 1_000_003, 35)?;
    fs::write(
        local.path("got"),
        fs::read(&there)?.get(..300_000).unwrap_or_default(),
    )?;
    fs::write(
        server.path("put"),
        fs::read(&here)?.get(..300_000).unwrap_or_default(),
    )?;
    if let Some(finished) = lftp(&server, &local, "get -c there -o got; put -c here -o put")? {
        finished.ok()?;
        same_file(&local.path("got"), &there)?;
        same_file(&here, &server.path("put"))?;
    }
    Ok(())
}

fn create(tree: &Tree) -> Result<()> {
    for n in 0..20 {
        tree.file(&format!("tree/dir {}/file {n}", n % 3), n * 501, n)?;
    }
    tree.file("tree/a/b/c/deep", 100_001, 36)?;
    Ok(())
}

#[test]
fn mirror_down() -> Result<()> {
    for passive in ["true", "false"] {
        let (server, local) = (End::ours()?, Tree::new()?);
        create(&server.tree)?;
        let script = format!("set ftp:passive-mode {passive}; mirror --parallel=3 tree copy");
        if let Some(finished) = lftp(&server, &local, &script)? {
            finished.ok()?;
            same_tree(&server.path("tree"), &local.path("copy"))?;
        }
    }
    Ok(())
}

#[test]
fn mirror_up_and_again() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    create(&local)?;
    if let Some(finished) = lftp(
        &server,
        &local,
        "mirror --reverse tree copy; mirror --reverse --verbose tree copy",
    )? {
        let finished = finished.ok()?;
        same_tree(&local.path("tree"), &server.path("copy"))?;
        ensure!(
            !finished.stdout.contains("Transferring"),
            "the second mirror copied files: {}",
            finished.report()
        );
    }
    Ok(())
}

#[test]
fn listings_by_each_verb() -> Result<()> {
    for (mlsd, list) in [
        ("true", "ls"),
        ("false", "ls"),
        ("true", "cls -l"),
        ("false", "cls -l"),
        ("true", "nlist"),
    ] {
        let (server, local) = (End::ours()?, Tree::new()?);
        server.tree.file("one", 1, 1)?;
        server.tree.file("two words", 2, 2)?;
        if let Some(finished) = lftp(&server, &local, &format!("set ftp:use-mlsd {mlsd}; {list}"))?
        {
            let finished = finished.ok()?;
            let all = finished.stdout.contains("one") && finished.stdout.contains("two words");
            ensure!(all, "{list}, MLSD {mlsd}: {}", finished.report());
        }
    }
    Ok(())
}

#[test]
fn directories_modes_and_names_are_changed() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    server.tree.file("old", 1, 1)?;
    server.tree.file("gone/inside", 1, 1)?;
    let script =
        "mkdir -p 'x/y z'; mv old 'x/y z/new'; chmod 640 'x/y z/new'; rm -r gone; cd 'x/y z'; pwd";
    if let Some(finished) = lftp(&server, &local, script)? {
        let finished = finished.ok()?;
        let mode = fs::metadata(server.path("x/y z/new"))?.permissions().mode() & 0o777;
        ensure!(
            mode == 0o640 && !server.path("gone").exists(),
            "{mode:o}: {}",
            finished.report()
        );
    }
    Ok(())
}

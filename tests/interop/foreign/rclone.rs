//! `rclone` against our server.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Peer, Tree, run, tree_digests};

use crate::bed::{End, LIMIT};

/// Returns rclone with the server as its remote `gridftp:`, or nothing where rclone is missing.
fn command(server: &End, local: &Tree) -> Result<Option<Command>> {
    let Some(mut command) = Peer::Rclone.require("interop: rclone") else {
        return Ok(None);
    };
    let host = server.host.as_ref().map(|host| host.addr());
    let Some(addr) = host else { return Ok(None) };
    command
        .args(["--retries", "1", "--low-level-retries", "1", "--config", "/dev/null"])
        .env("HOME", local.root())
        .env("RCLONE_CONFIG_GRIDFTP_TYPE", "ftp")
        .env("RCLONE_CONFIG_GRIDFTP_HOST", addr.ip().to_string())
        .env("RCLONE_CONFIG_GRIDFTP_PORT", addr.port().to_string())
        .env("RCLONE_CONFIG_GRIDFTP_USER", "anonymous")
        // rclone requires a password: this is `x`, obscured.
        .env("RCLONE_CONFIG_GRIDFTP_PASS", "JYXJCGRc-M_NBL9GOPqAsQY")
        .current_dir(local.root());
    Ok(Some(command))
}

/// Runs rclone with these arguments.
fn rclone(server: &End, local: &Tree, words: &[&str]) -> Result<Option<Finished>> {
    let command = command(server, local)?;
    command
        .map(|mut command| run(command.args(words), LIMIT))
        .transpose()
}

#[test]
fn a_tree_is_synced_up_and_down() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    for n in 0..60 {
        local.file(&format!("tree/d{}/file {n}", n % 4), n * 501, n)?;
    }
    for words in [
        ["sync", "tree", "gridftp:copy"],
        ["check", "tree", "gridftp:copy"],
        ["sync", "gridftp:copy", "back"],
    ] {
        let Some(finished) = rclone(&server, &local, &words)? else {
            return Ok(());
        };
        finished.ok()?;
    }
    let want = tree_digests(&local.path("tree"))?;
    ensure!(
        want == tree_digests(&server.path("copy"))?,
        "the upload differs"
    );
    ensure!(
        want == tree_digests(&local.path("back"))?,
        "the download differs"
    );
    let mut again = rclone(&server, &local, &["sync", "-v", "tree", "gridftp:copy"])?
        .map(Finished::ok)
        .transpose()?;
    if let Some(again) = again.take() {
        ensure!(
            !again.stderr.contains("Copied"),
            "modification times were lost, so files were copied again: {}",
            again.report()
        );
    }
    Ok(())
}

#[test]
fn touch_sets_the_time_of_a_file() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    server.tree.file("file", 10, 1)?;
    let words = ["touch", "-t", "2021-03-04T05:06:07", "gridftp:file"];
    let Some(touched) = rclone(&server, &local, &words)? else {
        return Ok(());
    };
    touched.ok()?;
    let time = fs::metadata(server.path("file"))?.modified()?;
    let seconds = time.duration_since(std::time::UNIX_EPOCH)?.as_secs();
    ensure!(seconds == 1_614_834_367, "the time is {seconds}");
    Ok(())
}

#[test]
fn rcat_stores_its_standard_input() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    let Some(rcat) = command(&server, &local)? else {
        return Ok(());
    };
    let mut piped = Command::new("sh");
    piped
        .args(["-c", "printf 'what is piped' | \"$@\"", "sh"])
        .arg(rcat.get_program())
        .args(rcat.get_args())
        .args(["rcat", "gridftp:file"]);
    for (name, value) in rcat.get_envs() {
        piped.env(name, value.unwrap_or_default());
    }
    run(&mut piped, LIMIT)?.ok()?;
    ensure!(
        fs::read(server.path("file"))? == b"what is piped",
        "the content differs"
    );
    Ok(())
}

#[test]
fn names_are_moved_and_removed() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    server.tree.file("dir/old", 10, 1)?;
    server.tree.file("gone/inside", 10, 1)?;
    for words in [
        &["moveto", "gridftp:dir/old", "gridftp:dir/new name"][..],
        &["purge", "gridftp:gone"],
        &["mkdir", "gridftp:made/below"],
    ] {
        let Some(finished) = rclone(&server, &local, words)? else {
            return Ok(());
        };
        finished.ok()?;
    }
    ensure!(server.path("dir/new name").exists() && !server.path("dir/old").exists());
    ensure!(!server.path("gone").exists() && server.path("made/below").is_dir());
    Ok(())
}

//! Demonstration of data nodes: copies over a front end and three nodes, one of which is killed.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use workspace_tests::{Break, Cluster, Relay, Tree, file_url, run, same_file};

use crate::demo::LIMIT;

/// Bytes a second of each data connection while a node is killed, so that it happens in the middle.
const RATE: u64 = 60 << 20;

/// Runs the demonstration with the programs in `folder` on a file of `size` bytes.
pub(crate) fn show(folder: &Path, size: u64) -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let source = other.file("file", size, 1)?;
    let mut cluster = Cluster::from_binary(&folder.join("gridftp-server"), tree.root(), 3)?;
    let client = folder.join("gridftp-cp");
    println!(
        "a front end on {} and three data nodes",
        cluster.front().addr()
    );
    let url = cluster.front().url("file");
    let back = other.path("back");
    copy(&client, "upload over three nodes", &file_url(&source), &url)?;
    same_file(&tree.path("file"), &source)?;
    copy(&client, "download over three nodes", &url, &file_url(&back))?;
    same_file(&back, &source)?;

    let relay = Relay::paced(cluster.front().addr(), Break::Never, RATE)?;
    let to = cluster.front().url_at(relay.addr(), "again");
    let from = file_url(&source);
    let copying =
        thread::spawn(move || copy(&client, "upload, one of three nodes killed", &from, &to));
    relay.wait_until_passed(size / 4)?;
    let killed = cluster.nodes().pop().context("no node")?;
    killed.signal(Signal::KILL)?;
    ensure!(!copying.is_finished(), "the copy ended before the kill");
    let copied = copying.join();
    let told = copied.map_err(|_| anyhow::anyhow!("the copy panicked"))??;
    let log = cluster.front().output();
    ensure!(
        told.contains("retry 1: ") && log.contains("data node node3: lost"),
        "the kill did not reach the copy:\n{told}{log}"
    );
    println!("{}", told.trim_end());
    same_file(&tree.path("again"), &source)?;
    let left = cluster.list(&[])?.ok()?;
    ensure!(left.stdout.lines().count() == 2, "{}", left.report());
    println!(
        "all copies are whole; left are:\n{}",
        left.stdout.trim_end()
    );
    Ok(())
}

/// Runs a copy and prints a row; returns the client's words about failures.
fn copy(client: &Path, name: &str, from: &str, to: &str) -> Result<String> {
    let started = Instant::now();
    let mut command = Command::new(client);
    let done = run(command.args([from, to]), LIMIT)?.ok()?;
    println!("{name:<44} {:>8.2} s", started.elapsed().as_secs_f64());
    Ok(done.stderr)
}

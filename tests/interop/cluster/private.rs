//! Failures of nodes in the middle of private data: the control channel is encrypted, and no relay
//! sees data addresses.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Cluster, GridLab, Host, ObjectServer, ObjectServerKind, Tree, binary, file_url, in_own_network,
    run, same_file,
};

use super::disturbed::{ONCE, PARTLY, TOLD};
use super::failures::{Copying, FROZEN, Failing, Failure, KILLED, SLOW, storage};
use super::parts::same_part;
use super::{LIMIT, SIZE, secure_url, secured};

/// Bytes of the files of a folder and of those in it.
fn stored(folder: &Path) -> Result<u64> {
    let (mut stored, mut folders) = (0, vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let entry = entry?;
            // A file may get another name in between.
            match entry.metadata() {
                Ok(it) if it.is_dir() => folders.push(entry.path()),
                it => stored += it.map_or(0, |it| it.blocks() * 512),
            }
        }
    }
    Ok(stored)
}

/// Waits until a folder holds so many bytes.
fn wait_until_stored(folder: &Path, bytes: u64) -> Result<()> {
    let begun = Instant::now();
    loop {
        let stored = stored(folder)?;
        if stored >= bytes {
            return Ok(());
        }
        ensure!(begun.elapsed() < LIMIT, "only {stored} bytes are stored");
        thread::yield_now();
    }
}

/// Runs our client as a user of the Grid; no relay sees the addresses of data, so it is slow by
/// itself.
fn private(
    lab: &GridLab,
    stack: &str,
    flags: &[&str],
    (from, to): (&str, &str),
) -> Result<Copying> {
    let mut command = Command::new(binary("gridftp-cp")?);
    lab.login(&mut command);
    command.args(["--protect", "private", "--debug"]);
    command.args(["-p", "1", "--stack", stack]);
    command.args(flags).args([from, to]);
    Ok(Copying::run(move || run(&mut command, LIMIT)))
}

/// A node fails in the middle of private data: one of four, the only one, and over a store one that
/// is replaced, since one alone serves an object.
fn failing_in_private(failure: Failure, store: Option<&ObjectServer>) -> Result<()> {
    let lab = GridLab::new()?;
    let storage = storage(store)?;
    let mut flags = secured(&lab);
    flags.extend(["--net-stacks", "tcp,rate"].map(str::to_owned));
    flags.extend(storage);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let many = if store.is_some() { 1 } else { 4 };
    for (is_last, put) in [(false, true), (false, false), (true, true), (true, false)] {
        let (tree, other, here) = (Tree::new()?, Tree::new()?, Tree::new()?);
        let source = other.file("file", SIZE, 64)?;
        let nodes = if is_last { 1 } else { many };
        let cluster = Cluster::start_with(tree.root(), nodes - 1, &flags, &flags)?;
        let mut failing = Failing::of(cluster, &flags, SLOW)?;
        let name = format!("{failure:?}-{is_last}-{put}").replace(['"', '(', ')'], "");
        let url = secure_url(failing.front(), &name);
        let there = store.map_or_else(|| tree.path(&name), |store| store.object(&name));
        let back = here.path("back");
        let (ends, folder, copied) = match put {
            true => {
                let folder = there.parent().context("a folder")?;
                ((file_url(&source), url), folder, &there)
            }
            false => {
                let up = file_url(&source);
                private(&lab, "tcp", &[], (&up, &url))?.end()?.ok()?;
                ((url, file_url(&back)), here.root(), &back)
            }
        };
        let ends = (ends.0.as_str(), ends.1.as_str());
        let (stack, once) = match is_last {
            true => ("tcp,rate:rate=24M", ONCE.get(3..).unwrap_or_default()),
            false => ("tcp,rate:rate=8M", &[][..]),
        };
        let before = stored(folder)?;
        let copying = private(&lab, stack, once, ends)?;
        wait_until_stored(folder, before + SIZE / 4)?;
        if nodes == 1 && !is_last {
            failing.cluster.add_node(&flags)?;
        }
        let _cut = failing.fail_in_private(failure)?;
        let failed = Instant::now();
        ensure!(!copying.is_finished(), "the failure came too late");
        if is_last {
            let refused = copying.end()?.failed()?;
            ensure!(failed.elapsed() < TOLD, "late: {}", refused.report());
            ensure!(
                refused.stderr.contains(&failing.name()),
                "{}",
                refused.report()
            );
            ensure!(!copied.exists(), "a part has the final name");
            failing.cluster.add_node(&flags)?;
            private(&lab, "tcp", &["--resume"], ends)?.end()?.ok()?;
        } else {
            let copied = copying.end()?.ok()?;
            let told = copied.stderr.contains(&failing.name());
            ensure!(told, "{}", copied.report());
        }
        same_file(copied, &source).with_context(|| failing.front().output())?;
    }
    Ok(())
}

#[test]
fn private_data_survives_a_node_that_is_killed() -> Result<()> {
    failing_in_private(KILLED, None)
}

#[test]
fn private_data_survives_a_node_that_is_frozen() -> Result<()> {
    failing_in_private(FROZEN, None)
}

/// No relay knows the addresses of private data, which a network of its own cuts off.
#[test]
fn private_data_survives_a_node_that_is_cut_off() -> Result<()> {
    in_own_network("cluster::private::inside_a_network_private_data_survives_a_node")
}

#[test]
#[ignore = "run by the test above"]
fn inside_a_network_private_data_survives_a_node() -> Result<()> {
    failing_in_private(Failure::CutOff, None)?;
    failing_in_private_between(Failure::CutOff)?;
    failing_in_a_private_part(Failure::CutOff)?;
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    failing_in_private(Failure::CutOff, Some(&store))
}

/// A part of a file goes on over the nodes that are left, of four.
fn failing_in_a_private_part(failure: Failure) -> Result<()> {
    let lab = GridLab::new()?;
    let mut flags = secured(&lab);
    flags.extend(["--net-stacks", "tcp,rate"].map(str::to_owned));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let partly = PARTLY.get(3..).unwrap_or_default();
    for put in [true, false] {
        let (tree, other, here) = (Tree::new()?, Tree::new()?, Tree::new()?);
        let source = other.file("file", SIZE, 69)?;
        let cluster = Cluster::start_with(tree.root(), 3, &flags, &flags)?;
        let mut failing = Failing::of(cluster, &flags, SLOW)?;
        let url = secure_url(failing.front(), "file");
        let (there, back) = (tree.path("file"), here.path("back"));
        let (up, down) = (file_url(&source), file_url(&back));
        let (ends, folder, copied) = match put {
            true => ((up.as_str(), url.as_str()), tree.root(), &there),
            false => {
                private(&lab, "tcp", &[], (&up, &url))?.end()?.ok()?;
                ((url.as_str(), down.as_str()), here.root(), &back)
            }
        };
        let before = stored(folder)?;
        let copying = private(&lab, "tcp,rate:rate=8M", partly, ends)?;
        wait_until_stored(folder, before + SIZE / 4)?;
        let _cut = failing.fail_in_private(failure)?;
        ensure!(!copying.is_finished(), "the failure came too late");
        let done = copying.end()?.ok()?;
        ensure!(done.stderr.contains(&failing.name()), "{}", done.report());
        same_part(&source, copied).with_context(|| failing.front().output())?;
    }
    Ok(())
}

#[test]
fn a_part_of_a_private_file_survives_a_node_that_is_killed() -> Result<()> {
    failing_in_a_private_part(KILLED)
}

#[test]
fn a_part_of_a_private_file_survives_a_node_that_is_frozen() -> Result<()> {
    failing_in_a_private_part(FROZEN)
}

#[test]
fn private_data_of_objects_survives_a_node_that_fails() -> Result<()> {
    for failure in [KILLED, FROZEN] {
        let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
            return Ok(());
        };
        failing_in_private(failure, Some(&store))?;
    }
    Ok(())
}

/// Between servers no client slows private data down, so that the file is larger.
fn failing_in_private_between(failure: Failure) -> Result<()> {
    let lab = GridLab::new()?;
    let flags = secured(&lab);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    for to_nodes in [true, false] {
        let (here, there) = (Tree::new()?, Tree::new()?);
        let cluster = Cluster::start_with(here.root(), 0, &flags, &flags)?;
        let mut failing = Failing::of(cluster, &flags, SLOW)?;
        let whole = Host::ours_with(there.root(), &flags)?;
        let (from, to) = match to_nodes {
            true => (&whole, failing.front()),
            false => (failing.front(), &whole),
        };
        let (source, copied) = (from.path("file"), to.path("copy"));
        let folder = to.root().to_path_buf();
        let tree = if to_nodes { &there } else { &here };
        tree.file("file", 5 * SIZE, 68)?;
        let ends = (secure_url(from, "file"), secure_url(to, "copy"));
        let copying = private(&lab, "tcp", &[], (&ends.0, &ends.1))?;
        wait_until_stored(&folder, SIZE / 4)?;
        let _cut = failing.fail_in_private(failure)?;
        ensure!(!copying.is_finished(), "the failure came too late");
        failing.cluster.add_node(&flags)?;
        let done = copying.end()?.ok();
        let row = || format!("{failure:?} {to_nodes}: {}", failing.front().output());
        let done = done.with_context(row)?;
        let told = done.stderr.contains(&failing.name());
        ensure!(told, "{}\n{}", done.report(), row());
        same_file(&copied, &source).with_context(row)?;
    }
    Ok(())
}

#[test]
fn private_data_between_servers_survives_a_node_that_fails() -> Result<()> {
    failing_in_private_between(KILLED)?;
    failing_in_private_between(FROZEN)
}

//! Nodes that fail in the middle of a part of a file, of private data, of a copy by the Globus
//! client, and as the last one; and nodes of Globus that fail.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use workspace_tests::{
    Break, Cluster, Daemon, GridLab, Host, ObjectServer, ObjectServerKind, Peer, Relay, Tree,
    binary, file_url, run, same_file,
};

use super::failures::{Copying, FROZEN, Failing, Failure, KILLED, NOTICED, SLOW, storage};
use super::parts::{PART, same_part};
use super::{LIMIT, SIZE, cp, secure_url, secured};
use crate::striped::Front;

/// Longest time from the failure of a node until the client has been told, on a busy machine.
pub(super) const TOLD: Duration = Duration::from_secs(15);

/// Flags of a copy that is not tried again.
pub(super) const ONCE: &[&str] = &["--debug", "-p", "1", "--retries", "0", "--retry-for", "0"];

/// Those of a part of a file, slow enough for a failure in the middle.
pub(super) const PARTLY: &[&str] = &["--debug", "-p", "1", "--offset", "1000", "--length", "66M"];

/// A part of a file goes on over the nodes that are left, of four; one of an object over a node that
/// was added, since one alone sends it.
fn failing_with_a_part(failure: Failure, store: Option<&ObjectServer>) -> Result<()> {
    // An object is replaced as a whole.
    let ways = if store.is_some() { 1 } else { 2 };
    for put in [false, true].into_iter().take(ways) {
        let (tree, other) = (Tree::new()?, Tree::new()?);
        let source = other.file("file", SIZE, 61)?;
        let (there, back) = (tree.path("file"), other.path("back"));
        let others = if store.is_some() { 0 } else { 3 };
        let mut failing = Failing::over(tree.root(), store, others, &[])?;
        let (ends, copied) = match put {
            true => {
                tree.file("file", SIZE, 62)?;
                ((file_url(&source), failing.url("file")), &there)
            }
            false => {
                cp(&[], &file_url(&source), &failing.front().url("file"))?.ok()?;
                ((failing.url("file"), file_url(&back)), &back)
            }
        };
        let copying = Copying::begin(PARTLY, ends);
        if others == 0 {
            failing.add_another(store)?;
        }
        failing.fail(failure, &copying)?;
        let copied_part = copying
            .end_without_a_node()
            .and_then(|()| same_part(&source, copied));
        copied_part.with_context(|| format!("put {put}:\n{}", failing.front().output()))?;
        let end = fs::metadata(copied)?.len();
        ensure!(
            end == if put { SIZE } else { PART.0 + PART.1 },
            "it ends at {end}"
        );
    }
    Ok(())
}

#[test]
fn a_part_of_a_file_survives_a_node_that_is_killed() -> Result<()> {
    failing_with_a_part(KILLED, None)
}

#[test]
fn a_part_of_a_file_survives_a_node_that_is_frozen() -> Result<()> {
    failing_with_a_part(FROZEN, None)
}

#[test]
fn a_part_of_a_file_survives_a_node_that_is_cut_off() -> Result<()> {
    failing_with_a_part(Failure::CutOff, None)
}

#[test]
fn a_part_of_an_object_survives_a_node_that_fails() -> Result<()> {
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    let failures = [KILLED, FROZEN, Failure::CutOff];
    failures
        .into_iter()
        .try_for_each(|failure| failing_with_a_part(failure, Some(&store)))
}

/// Without any node a copy fails soon; it goes on when there is one again.
fn failing_with_the_last_node(failure: Failure, store: Option<&ObjectServer>) -> Result<()> {
    for put in [true, false] {
        let (tree, other) = (Tree::new()?, Tree::new()?);
        let source = other.file("file", SIZE, 63)?;
        let name = format!("file-{put}");
        let there = store.map_or_else(|| tree.path(&name), |store| store.object(&name));
        let back = other.path("back");
        let mut failing = Failing::over(tree.root(), store, 0, &[])?;
        let (local, copied) = if put {
            (&source, &there)
        } else {
            (&back, &back)
        };
        if !put {
            cp(&[], &file_url(&source), &failing.front().url(&name))?.ok()?;
        }
        let ends = |url: String| match put {
            true => (file_url(local), url),
            false => (url, file_url(local)),
        };
        let copying = Copying::begin(ONCE, ends(failing.url(&name)));
        failing.fail(failure, &copying)?;
        let failed = Instant::now();
        let refused = copying.end()?.failed()?;
        let row = || format!("{failure:?}, put {put}: {}", refused.report());
        ensure!(failed.elapsed() < TOLD, "late, {}", row());
        ensure!(refused.stderr.contains("data node node1"), "{}", row());
        ensure!(!copied.exists(), "a part has the final name, {}", row());
        // A frozen process holds its upload of an object, for which the client waits.
        let is_held = failure == FROZEN && put && store.is_some();
        match failure {
            FROZEN if !is_held => failing.signal(Signal::CONT)?,
            _ => failing.add_another(store)?,
        }
        let before = failing.passed();
        let resuming = Copying::begin(&["--resume"], ends(failing.url(&name)));
        if is_held {
            failing.front().daemon().wait_for("in use by another")?;
            failing.signal(Signal::CONT)?;
        }
        let resumed = resuming.end()?.ok().with_context(row)?;
        same_file(copied, &source)?;
        let again = failing.passed() - before;
        ensure!(
            again < SIZE - (1 << 20),
            "{again} bytes anew after {failure:?}, put {put}: {}",
            resumed.report()
        );
        if store.is_some() {
            fs::remove_file(&there)?;
        }
    }
    Ok(())
}

#[test]
fn a_copy_fails_with_the_last_node_and_is_resumed() -> Result<()> {
    let failures = [KILLED, FROZEN, Failure::CutOff];
    failures
        .into_iter()
        .try_for_each(|failure| failing_with_the_last_node(failure, None))
}

#[test]
fn a_copy_of_an_object_fails_with_the_last_node_and_is_resumed() -> Result<()> {
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    let failures = [KILLED, FROZEN, Failure::CutOff];
    failures
        .into_iter()
        .try_for_each(|failure| failing_with_the_last_node(failure, Some(&store)))
}

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
    let Failure::Signal(signal) = failure else {
        anyhow::bail!("no relay cuts off private data");
    };
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
        let mut cluster = Cluster::start_with(tree.root(), nodes, &flags, &flags)?;
        let name = format!("{failure:?}-{is_last}-{put}").replace(['"', '(', ')'], "");
        let url = secure_url(cluster.front(), &name);
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
            cluster.add_node(&flags)?;
        }
        cluster.nodes().first().context("a node")?.signal(signal)?;
        let failed = Instant::now();
        ensure!(!copying.is_finished(), "the failure came too late");
        if is_last {
            let refused = copying.end()?.failed()?;
            ensure!(failed.elapsed() < TOLD, "late: {}", refused.report());
            ensure!(
                refused.stderr.contains("data node node1"),
                "{}",
                refused.report()
            );
            ensure!(!copied.exists(), "a part has the final name");
            cluster.add_node(&flags)?;
            private(&lab, "tcp", &["--resume"], ends)?.end()?.ok()?;
        } else {
            let copied = copying.end()?.ok()?;
            let told = copied.stderr.contains("data node node1: ");
            ensure!(told, "{}", copied.report());
        }
        same_file(copied, &source).with_context(|| cluster.front().output())?;
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

/// With an index that a frozen node shares, its upload begins anew.
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
    let Failure::Signal(signal) = failure else {
        anyhow::bail!("no relay cuts off private data");
    };
    let lab = GridLab::new()?;
    let flags = secured(&lab);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    for to_nodes in [true, false] {
        let (here, there) = (Tree::new()?, Tree::new()?);
        let mut cluster = Cluster::start_with(here.root(), 1, &flags, &flags)?;
        let whole = Host::ours_with(there.root(), &flags)?;
        let (from, to) = match to_nodes {
            true => (&whole, cluster.front()),
            false => (cluster.front(), &whole),
        };
        let (source, copied) = (from.path("file"), to.path("copy"));
        let folder = to.root().to_path_buf();
        let tree = if to_nodes { &there } else { &here };
        tree.file("file", 5 * SIZE, 68)?;
        let ends = (secure_url(from, "file"), secure_url(to, "copy"));
        let copying = private(&lab, "tcp", &[], (&ends.0, &ends.1))?;
        wait_until_stored(&folder, SIZE / 4)?;
        cluster.nodes().first().context("a node")?.signal(signal)?;
        ensure!(!copying.is_finished(), "the failure came too late");
        cluster.add_node(&flags)?;
        let done = copying.end()?.ok();
        let row = || format!("{failure:?} {to_nodes}: {}", cluster.front().output());
        let done = done.with_context(row)?;
        let told = done.stderr.contains("data node node1: ");
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

/// The Globus client is told soon, nothing is published, and others are served meanwhile. It ends
/// once its data connections do: those from a node that stands still stay open, and then it waits
/// for ever, after a download from frozen nodes of Globus as well.
#[test]
fn the_globus_client_is_told_of_a_node_that_fails() -> Result<()> {
    let Some(program) = Peer::GlobusUrlCopy.find() else {
        Peer::GlobusUrlCopy.require("interop");
        return Ok(());
    };
    for failure in [KILLED, FROZEN, Failure::CutOff] {
        for put in [true, false] {
            let (tree, other) = (Tree::new()?, Tree::new()?);
            let source = other.file("file", SIZE, 65)?;
            let small = other.file("small", 1000, 1)?;
            // To one address a source sends from one node.
            let others = if put { 2 } else { 0 };
            let mut failing = Failing::start(tree.root(), others, &[])?;
            let there = tree.path("file");
            let (from, to) = match put {
                true => (file_url(&source), failing.url("file")),
                false => {
                    fs::copy(&source, &there)?;
                    (failing.url("file"), file_url(&other.path("back")))
                }
            };
            // It reports replies on the standard error stream.
            let mut command = Command::new("sh");
            command.args(["-c", "exec \"$0\" -dbg -stripe -p 2 \"$@\" 2>&1"]);
            let mut client = Daemon::start(command.arg(&program).args([from, to]), |line| {
                let begun = line.starts_with("150 ");
                begun.then(|| SocketAddr::from(([0; 4], 0)))
            })?;
            if !put {
                failing.add_another(None)?;
            }
            failing.disturb(failure)?;
            let failed = Instant::now();
            cp(&[], &file_url(&small), &failing.front().url("small"))?.ok()?;
            ensure!(failed.elapsed() < NOTICED, "others waited for the node");
            client.wait_for("\n426-data node node")?;
            let row = || format!("{failure:?}, put {put}: {}", failing.front().output());
            ensure!(failed.elapsed() < TOLD, "late, {}", row());
            failing.check_noticed()?;
            ensure!(!put || !there.exists(), "published, {}", row());
            if put || failure == KILLED {
                ensure!(!client.wait(TOLD)?, "success, {}", row());
            }
        }
    }
    Ok(())
}

/// Our client fails with an error and does not wait for ever, and no part has the final name.
#[test]
fn nodes_of_globus_that_fail_end_a_copy_by_our_client() -> Result<()> {
    const FLAGS: &[&str] = &[
        "--debug",
        "--retries",
        "1",
        "--retry-for",
        "0",
        "--timeout",
        "5",
    ];
    for failure in [KILLED, FROZEN] {
        let Failure::Signal(signal) = failure else {
            continue;
        };
        for put in [true, false] {
            let Some(theirs) = Front::start()? else {
                return Ok(());
            };
            let other = Tree::new()?;
            let source = other.file("file", SIZE, 66)?;
            let (there, back) = (theirs.tree.path("file"), other.path("back"));
            let relay = Relay::paced(theirs.host.addr(), Break::Never, SLOW)?;
            let url = theirs.host.url_at(relay.addr(), "file");
            let (ends, copy) = match put {
                true => ((file_url(&source), url), &there),
                false => {
                    fs::copy(&source, &there)?;
                    ((url, file_url(&back)), &back)
                }
            };
            let copying = Copying::begin(FLAGS, ends);
            relay.wait_until_passed(SIZE / 4)?;
            // To one address one of them sends.
            for node in &theirs.nodes {
                node.daemon().signal_all(signal)?;
            }
            ensure!(!copying.is_finished(), "the failure came too late");
            let done = copying.end()?.failed()?;
            let names_it = done.stderr.contains(&relay.addr().to_string());
            ensure!(names_it, "{}", done.report());
            ensure!(!copy.exists(), "a part has the final name");
        }
    }
    Ok(())
}

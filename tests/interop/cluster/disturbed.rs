//! Nodes that fail in the middle of a part of a file, of a copy by the Globus client, and as the last
//! one; and nodes of Globus that fail.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use workspace_tests::{
    Break, Daemon, ObjectServer, ObjectServerKind, Peer, Relay, Tree, file_url, same_file,
};

use super::failures::{Copying, FROZEN, Failing, Failure, KILLED, NOTICED, SLOW};
use super::parts::{PART, same_part};
use super::{SIZE, cp};
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
        match failure {
            // Another node takes the upload of an object over.
            FROZEN if store.is_none() || !put => failing.signal(Signal::CONT)?,
            _ => failing.add_another(store)?,
        }
        let before = failing.passed();
        let resuming = Copying::begin(&["--resume"], ends(failing.url(&name)));
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

//! Nodes that are killed, frozen, cut off and added in the middle of a copy, and a front end that is
//! killed.

use std::net::Ipv4Addr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use workspace_tests::{
    Break, Cluster, ClusterPlan, Finished, Place, Relay, Tree, file_url, same_file,
};

use super::{SIZE, cp, stripes};

/// Bytes a second through the relay of a copy that is disturbed.
const RATE: u64 = 40 << 20;

/// Longest time from the failure of a node to the end of its transfer.
const NOTICED: Duration = Duration::from_secs(5);

/// Address of the node that fails.
const FAILING: u8 = 12;

/// The failure of a node.
#[derive(Clone, Copy)]
enum Failure {
    Signal(Signal),
    /// Nothing passes its network any more, and no connection is closed.
    CutOff,
}

/// A copy that another thread waits for.
struct Copying(JoinHandle<Result<Finished>>);

impl Copying {
    fn begin(flags: &'static [&'static str], (from, to): (String, String)) -> Self {
        Self(thread::spawn(move || cp(flags, &from, &to)))
    }

    fn end(self) -> Result<Finished> {
        let copied = self.0.join();
        copied.map_err(|_| anyhow::anyhow!("the copy panicked"))?
    }
}

/// A node fails in the middle of an upload and of a download by our client, which then goes on over
/// the others.
fn failing(failure: Failure) -> Result<()> {
    for put in [true, false] {
        let (tree, other) = (Tree::new()?, Tree::new()?);
        let (here, there) = match put {
            true => (&other, &tree),
            false => (&tree, &other),
        };
        let source = here.file("file", SIZE, 7)?;
        let mut cluster = Cluster::start(tree.root(), 2)?;
        let relay = Relay::paced(cluster.front().addr(), Break::Never, RATE)?;
        // The connection of the node to the front end.
        let link = Relay::start(cluster.front().addr(), Break::Never)?;
        let through = link.forward(cluster.address())?;
        cluster.add_node_through(&[through], &Place::here(FAILING), &[])?;
        let url = cluster.front().url_at(relay.addr(), "file");
        let ends = match put {
            true => (file_url(&source), url),
            false => (url, file_url(&there.path("file"))),
        };
        let copying = Copying::begin(&["--debug"], ends);
        relay.wait_until_passed(SIZE / 4)?;
        let node = cluster.nodes().pop().context("no node")?;
        match failure {
            Failure::Signal(signal) => node.signal(signal)?,
            Failure::CutOff => {
                relay.cut(Ipv4Addr::new(127, 0, 0, FAILING).into());
                link.cut(Ipv4Addr::LOCALHOST.into());
            }
        }
        // Others are served meanwhile.
        let begun = Instant::now();
        let small = other.file("small", 1000, 1)?;
        cp(&[], &file_url(&small), &cluster.front().url("small"))?.ok()?;
        ensure!(begun.elapsed() < NOTICED, "others waited for the node");
        let copied = copying.end()?.ok()?;
        same_file(&there.path("file"), &source)?;
        ensure!(
            copied.stderr.contains("data node"),
            "the failure came too late: {}",
            copied.report()
        );
        node.signal(Signal::KILL)?;
    }
    Ok(())
}

#[test]
fn a_copy_survives_a_node_that_is_killed() -> Result<()> {
    failing(Failure::Signal(Signal::KILL))
}

#[test]
fn a_copy_survives_a_node_that_is_frozen() -> Result<()> {
    failing(Failure::Signal(Signal::STOP))
}

#[test]
fn a_copy_survives_a_node_that_is_cut_off() -> Result<()> {
    failing(Failure::CutOff)
}

/// Row 66 of the hostile input: a node of the destination dies in the middle of a third-party copy.
#[test]
fn a_copy_between_servers_survives_a_node_that_is_killed() -> Result<()> {
    let (here, there) = (Tree::new()?, Tree::new()?);
    let source = here.file("file", SIZE, 7)?;
    let third = ["--third-party", "all"];
    let from = Cluster::start_with(here.root(), 2, &third, &[])?;
    let mut to = Cluster::start_with(there.root(), 3, &third, &[])?;
    let relay = Relay::paced(to.front().addr(), Break::Never, RATE)?;
    let ends = (
        from.front().url("file"),
        to.front().url_at(relay.addr(), "file"),
    );
    let copying = Copying::begin(&["--debug"], ends);
    relay.wait_until_passed(SIZE / 4)?;
    to.nodes().pop().context("no node")?.signal(Signal::KILL)?;
    let copied = copying.end()?.ok()?;
    same_file(&there.path("file"), &source)?;
    // The words of each server are told as its own.
    ensure!(
        copied.stderr.contains("data node node3"),
        "the failure came too late: {}",
        copied.report()
    );
    Ok(())
}

#[test]
fn a_node_that_is_added_in_the_middle_serves_the_next_copy() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let source = other.file("file", SIZE, 7)?;
    let mut cluster = Cluster::start(tree.root(), 1)?;
    let relay = Relay::paced(cluster.front().addr(), Break::Never, RATE)?;
    let url = cluster.front().url_at(relay.addr(), "file");
    let copying = Copying::begin(&[], (file_url(&source), url));
    relay.wait_until_passed(SIZE / 4)?;
    cluster.add_node(&[])?;
    copying.end()?.ok()?;
    same_file(&tree.path("file"), &source)?;
    let next = cp(
        &["--json"],
        &file_url(&source),
        &cluster.front().url("next"),
    )?
    .ok()?;
    ensure!(
        stripes(&next).len() == 2,
        "the new node is not used: {}",
        next.report()
    );
    Ok(())
}

/// Both front ends use both nodes at once; one is killed, and the other goes on.
#[test]
fn two_front_ends_share_nodes_and_one_survives_the_other() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let source = other.file("file", SIZE, 7)?;
    let plan = ClusterPlan {
        fronts: 2,
        ..ClusterPlan::new(2)?
    };
    let cluster = Cluster::of(tree.root(), &plan)?;
    let second = cluster.other_fronts().next().context("a second one")?;
    let relays = [
        Relay::paced(cluster.front().addr(), Break::Never, RATE)?,
        Relay::paced(second.addr(), Break::Never, RATE)?,
    ];
    let [one, two] = &relays;
    let ends = |host: &workspace_tests::Host, relay: &Relay, name: &str| {
        (file_url(&source), host.url_at(relay.addr(), name))
    };
    let killed = Copying::begin(
        &["--retries", "0", "--retry-for", "0"],
        ends(cluster.front(), one, "one"),
    );
    let copied = Copying::begin(&["--json"], ends(second, two, "two"));
    one.wait_until_passed(SIZE / 8)?;
    two.wait_until_passed(SIZE / 8)?;
    cluster.front().signal(Signal::KILL)?;
    killed.end()?.failed()?;
    ensure!(!tree.path("one").exists(), "a part has the final name");
    let copied = copied.end()?.ok()?;
    same_file(&tree.path("two"), &source)?;
    ensure!(stripes(&copied).len() == 2, "{}", copied.report());
    // The nodes are free for the upload again.
    cp(&[], &file_url(&source), &second.url("one"))?.ok()?;
    same_file(&tree.path("one"), &source)
}

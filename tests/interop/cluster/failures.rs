//! Nodes that are killed, frozen, cut off and added in the middle of a copy.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use workspace_tests::{
    Break, Cluster, CutOff, Finished, Host, ObjectServer, Peer, Place, Relay, Tree, file_url,
    same_file,
};

use super::matrix::Client;
use super::{SIZE, cp, globus, stripes};

/// Bytes a second through the relay of a copy that is disturbed.
pub(super) const RATE: u64 = 40 << 20;

/// Of one that a failure has to reach in the middle, over many connections.
pub(super) const SLOW: u64 = 8 << 20;

/// Longest time for others to be served after the failure of a node, on a busy machine.
pub(super) const NOTICED: Duration = Duration::from_secs(10);

/// Address of the node that fails.
const FAILING: u8 = 12;

/// The failure of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Failure {
    Signal(Signal),
    /// Nothing passes its network any more, and no connection is closed.
    CutOff,
}

pub(super) const KILLED: Failure = Failure::Signal(Signal::KILL);
pub(super) const FROZEN: Failure = Failure::Signal(Signal::STOP);

/// A cluster one of whose nodes is to fail.
pub(super) struct Failing {
    pub(super) cluster: Cluster,
    /// In front of the front end.
    relay: Relay,
    /// The connection of the node to the front end.
    link: Relay,
    /// Index of the node.
    node: usize,
}

impl Failing {
    /// Starts this node and `others` over `root`, with these flags of the front end.
    pub(super) fn start(root: &Path, others: usize, flags: &[&str]) -> Result<Self> {
        Self::over(root, None, others, flags)
    }

    /// As [`start`](Self::start), over a store in place of `root`, if there is one.
    pub(super) fn over(
        root: &Path,
        store: Option<&ObjectServer>,
        others: usize,
        flags: &[&str],
    ) -> Result<Self> {
        let storage = storage(store)?;
        let node: Vec<&str> = storage.iter().map(String::as_str).collect();
        let front = [flags, &node].concat();
        let cluster = Cluster::start_with(root, others, &front, &node)?;
        Self::of(cluster, &node, SLOW)
    }

    /// Adds the node to a cluster, with these flags, and a relay of this rate.
    pub(super) fn of(mut cluster: Cluster, flags: &[&str], rate: u64) -> Result<Self> {
        let others = cluster.nodes().len();
        let relay = Relay::paced(cluster.front().addr(), Break::Never, rate)?;
        let link = Relay::start(cluster.front().addr(), Break::Never)?;
        let through = link.forward(cluster.address())?;
        cluster.add_node_through(&[through], &Place::here(FAILING), flags)?;
        Ok(Self {
            cluster,
            relay,
            link,
            node: others,
        })
    }

    pub(super) fn front(&self) -> &Host {
        self.cluster.front()
    }

    pub(super) fn url(&self, name: &str) -> String {
        self.front().url_at(self.relay.addr(), name)
    }

    /// Bytes that passed the relay in front of the front end.
    pub(super) fn passed(&self) -> u64 {
        self.relay.passed()
    }

    /// Adds another node in the middle of a copy, which is sure to use the node that fails if it
    /// began with this one alone.
    pub(super) fn add_another(&mut self, store: Option<&ObjectServer>) -> Result<()> {
        let storage = storage(store)?;
        let flags: Vec<&str> = storage.iter().map(String::as_str).collect();
        self.add_another_with(&flags)
    }

    /// As [`add_another`](Self::add_another), with these flags.
    pub(super) fn add_another_with(&mut self, flags: &[&str]) -> Result<()> {
        self.relay.wait_until_passed(1)?;
        self.cluster.add_node(flags)
    }

    /// Checks that a transfer has failed with the node, and so has used it. The log may follow the
    /// reply.
    pub(super) fn check_noticed(&self) -> Result<()> {
        let noticed = ["lost", "no answer"].map(|end| format!("{}{end}", self.name()));
        let found = self
            .front()
            .daemon()
            .wait_for_any(&noticed.each_ref().map(String::as_str));
        found.context("the failure came too late")
    }

    /// Sends a signal to the node.
    pub(super) fn signal(&mut self, signal: Signal) -> Result<()> {
        let node = self.cluster.nodes().get(self.node).context("no node")?;
        node.signal(signal)
    }

    /// The name of the node, as clients are told it.
    pub(super) fn name(&self) -> String {
        format!("data node node{}: ", self.node + 1)
    }

    /// Has the node fail with private data, which no relay can cut off; a cut lasts as long as the
    /// value that is returned.
    pub(super) fn fail_in_private(&mut self, failure: Failure) -> Result<Option<CutOff>> {
        match failure {
            Failure::Signal(signal) => self.signal(signal).map(|()| None),
            Failure::CutOff => {
                self.link.cut(Ipv4Addr::LOCALHOST.into());
                CutOff::new(Ipv4Addr::new(127, 0, 0, FAILING)).map(Some)
            }
        }
    }

    /// Has the node fail in the middle of a copy.
    pub(super) fn fail(&mut self, failure: Failure, copying: &Copying) -> Result<()> {
        self.disturb(failure)?;
        ensure!(!copying.is_finished(), "the failure came too late");
        Ok(())
    }

    /// As [`fail`](Self::fail), of a copy that [`check_noticed`](Self::check_noticed) is about.
    pub(super) fn disturb(&mut self, failure: Failure) -> Result<()> {
        self.relay.wait_until_passed(SIZE / 4)?;
        match failure {
            Failure::Signal(signal) => self.signal(signal)?,
            Failure::CutOff => {
                self.relay.cut(Ipv4Addr::new(127, 0, 0, FAILING).into());
                self.link.cut(Ipv4Addr::LOCALHOST.into());
            }
        }
        Ok(())
    }
}

/// The flags of a node over this store.
pub(super) fn storage(store: Option<&ObjectServer>) -> Result<Vec<String>> {
    let Some(store) = store else {
        return Ok(Vec::new());
    };
    Ok(vec!["--storage".to_owned(), store.storage()?])
}

/// A copy that another thread waits for.
pub(super) struct Copying(JoinHandle<Result<Finished>>);

impl Copying {
    pub(super) fn begin(flags: &'static [&'static str], ends: (String, String)) -> Self {
        Self::run(move || cp(flags, &ends.0, &ends.1))
    }

    pub(super) fn run(copy: impl FnOnce() -> Result<Finished> + Send + 'static) -> Self {
        Self(thread::spawn(copy))
    }

    pub(super) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    pub(super) fn end(self) -> Result<Finished> {
        let copied = self.0.join();
        copied.map_err(|_| anyhow::anyhow!("the copy panicked"))?
    }

    /// The end of a copy by our client, which has told of the failure of a node.
    pub(super) fn end_without_a_node(self) -> Result<()> {
        let copied = self.end()?.ok()?;
        // The words of each server are told as its own.
        let told = copied.stderr.contains("data node node");
        ensure!(told, "the failure came too late: {}", copied.report());
        Ok(())
    }
}

/// A node fails in the middle of an upload and of a download by our client, which then goes on over
/// the others.
fn failing(failure: Failure) -> Result<()> {
    for put in [true, false] {
        let (tree, other) = (Tree::new()?, Tree::new()?);
        let source = other.file("file", SIZE, 7)?;
        let mut failing = Failing::start(tree.root(), 2, &[])?;
        let back = other.path("back");
        let ends = match put {
            true => (file_url(&source), failing.url("file")),
            false => {
                cp(&[], &file_url(&source), &failing.front().url("file"))?.ok()?;
                (failing.url("file"), file_url(&back))
            }
        };
        let copying = Copying::begin(&["--debug"], ends);
        failing.fail(failure, &copying)?;
        // Others are served meanwhile.
        let begun = Instant::now();
        let small = other.file("small", 1000, 1)?;
        cp(&[], &file_url(&small), &failing.front().url("small"))?.ok()?;
        ensure!(begun.elapsed() < NOTICED, "others waited for the node");
        copying.end_without_a_node()?;
        if put {
            cp(&[], &failing.front().url("file"), &file_url(&back))?.ok()?;
        }
        same_file(&back, &source)?;
    }
    Ok(())
}

#[test]
fn a_copy_survives_a_node_that_is_killed() -> Result<()> {
    failing(KILLED)
}

#[test]
fn a_copy_survives_a_node_that_is_frozen() -> Result<()> {
    failing(FROZEN)
}

#[test]
fn a_copy_survives_a_node_that_is_cut_off() -> Result<()> {
    failing(Failure::CutOff)
}

/// The other server of a copy between servers.
#[derive(Clone, Copy, Debug)]
enum Other {
    Striped,
    Whole,
    Globus,
}

/// The server whose node fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum At {
    Source,
    Destination,
}

/// A copy from server to server goes on over the nodes that are left.
fn failing_between(
    failure: Failure,
    other: Other,
    at: At,
    copy: impl FnOnce((String, String)) -> Copying,
    end: impl FnOnce(Copying) -> Result<()>,
) -> Result<()> {
    let (here, there) = (Tree::new()?, Tree::new()?);
    let third = ["--third-party", "all"];
    // To one address a source sends from one node.
    let is_alone = matches!((at, other), (At::Source, Other::Whole | Other::Globus));
    let others = if is_alone { 0 } else { 2 };
    let mut failing = Failing::start(here.root(), others, &third)?;
    let (striped, whole);
    let host = match other {
        Other::Striped => {
            striped = Cluster::start_with(there.root(), 3, &third, &[])?;
            striped.front()
        }
        Other::Whole => {
            whole = Host::ours_with(there.root(), &third)?;
            &whole
        }
        Other::Globus => {
            let Some(server) = Host::globus(there.root(), "interop: nodes that fail")? else {
                return Ok(());
            };
            whole = server;
            &whole
        }
    };
    let (ends, source, copied) = match at {
        At::Source => {
            let ends = (failing.url("file"), host.url("copy"));
            (ends, here.file("file", SIZE, 7)?, there.path("copy"))
        }
        At::Destination => {
            let ends = (host.url("file"), failing.url("copy"));
            (ends, there.file("file", SIZE, 7)?, here.path("copy"))
        }
    };
    let copying = copy(ends);
    if is_alone {
        failing.add_another(None)?;
    }
    failing.fail(failure, &copying)?;
    end(copying)
        .and_then(|()| failing.check_noticed())
        .and_then(|()| same_file(&copied, &source))
        .with_context(|| {
            let (cluster, other_end) = (failing.front().output(), host.output());
            format!("{failure:?} at {at:?}, {other:?}:\n{cluster}other:\n{other_end}")
        })
}

/// Row 66 of the hostile input: a node of either end fails.
fn failing_in_every_pairing(failure: Failure) -> Result<()> {
    for other in [Other::Striped, Other::Whole, Other::Globus] {
        for at in [At::Destination, At::Source] {
            let copy = |ends| Copying::begin(&["--debug"], ends);
            failing_between(failure, other, at, copy, Copying::end_without_a_node)?;
        }
    }
    Ok(())
}

#[test]
fn a_copy_between_servers_survives_a_node_that_is_killed() -> Result<()> {
    failing_in_every_pairing(KILLED)
}

#[test]
fn a_copy_between_servers_survives_a_node_that_is_frozen() -> Result<()> {
    failing_in_every_pairing(FROZEN)
}

#[test]
fn a_copy_between_servers_survives_a_node_that_is_cut_off() -> Result<()> {
    failing_in_every_pairing(Failure::CutOff)
}

#[test]
fn a_copy_by_the_globus_client_survives_a_node_that_fails() -> Result<()> {
    if Peer::GlobusUrlCopy.require("interop").is_none() {
        return Ok(());
    }
    let flags = ["-rst", "-rst-interval", "1", "-stripe", "-p", "2"];
    for failure in [KILLED, FROZEN, Failure::CutOff] {
        for at in [At::Destination, At::Source] {
            let copy = |(from, to): (String, String)| {
                Copying::run(move || globus(&flags, &from, &to)?.context("no client"))
            };
            let end = |copying: Copying| copying.end()?.ok().map(drop);
            failing_between(failure, Other::Whole, at, copy, end)?;
        }
    }
    Ok(())
}

/// A copy goes on while a node is added, which the next one uses.
fn adding(client: Client, put: bool) -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let source = other.file("file", SIZE, 7)?;
    let (there, back) = (tree.path("file"), other.path("back"));
    let mut cluster = Cluster::start(tree.root(), 1)?;
    let relay = Relay::paced(cluster.front().addr(), Break::Never, RATE)?;
    let url = cluster.front().url_at(relay.addr(), "file");
    let ((from, to), copied) = match put {
        true => ((file_url(&source), url), &there),
        false => {
            fs::copy(&source, &there)?;
            ((url, file_url(&back)), &back)
        }
    };
    let copying = Copying::run(move || client.copy(false, (&from, &to)));
    relay.wait_until_passed(SIZE / 4)?;
    cluster.add_node(&[])?;
    copying.end()?;
    same_file(copied, &source)?;
    let front = cluster.front();
    let (from, to) = match put {
        true => (file_url(&source), front.url("next")),
        false => (front.url("file"), file_url(&other.path("next"))),
    };
    let next = cp(&["--json"], &from, &to)?.ok()?;
    ensure!(
        stripes(&next).len() == 2,
        "the new node is not used: {}",
        next.report()
    );
    Ok(())
}

#[test]
fn a_node_that_is_added_in_the_middle_serves_the_next_upload() -> Result<()> {
    Client::all()
        .into_iter()
        .try_for_each(|client| adding(client, true))
}

#[test]
fn a_node_that_is_added_in_the_middle_serves_the_next_download() -> Result<()> {
    Client::all()
        .into_iter()
        .try_for_each(|client| adding(client, false))
}

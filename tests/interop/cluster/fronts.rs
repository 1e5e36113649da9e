//! Two front ends over the same nodes, with both clients and both storages.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use workspace_tests::{
    Break, Cluster, ClusterPlan, Host, ObjectServer, ObjectServerKind, Relay, Tree, file_url,
    same_file,
};

use super::failures::{Copying, RATE};
use super::matrix::Client;
use super::{SIZE, cp, stripes};

/// Less than the time of a file of `SIZE` at 30 MiB a second.
const LEAST_AT_30M: Duration = Duration::from_secs(2);

/// Two front ends over two nodes.
struct Fronts {
    cluster: Cluster,
    tree: Tree,
    store: Option<ObjectServer>,
}

impl Fronts {
    fn start(store: Option<ObjectServer>) -> Result<Self> {
        let tree = Tree::new()?;
        let storage = store.as_ref().map(ObjectServer::storage).transpose()?;
        let node: Vec<&str> = storage.iter().flat_map(|it| ["--storage", it]).collect();
        let front = [&["--third-party", "all"], &node[..]].concat();
        let plan = ClusterPlan {
            fronts: 2,
            front: &front,
            node: &node,
            ..ClusterPlan::new(2)?
        };
        let cluster = Cluster::of(tree.root(), &plan)?;
        Ok(Self {
            cluster,
            tree,
            store,
        })
    }

    fn both(&self) -> Result<[&Host; 2]> {
        let second = self.cluster.other_fronts().next();
        Ok([self.cluster.front(), second.context("a second one")?])
    }

    /// The place of a stored file.
    fn path(&self, name: &str) -> PathBuf {
        match &self.store {
            Some(store) => store.object(name),
            None => self.tree.path(name),
        }
    }
}

/// Both storages, or the files alone where there is no store.
fn storages() -> Result<Vec<Option<ObjectServer>>> {
    let store = ObjectServer::start(ObjectServerKind::Versitygw)?;
    Ok([None].into_iter().chain(store.map(Some)).collect())
}

/// A file that came by one is got from the other, and copied from one to the other.
#[test]
fn two_front_ends_serve_each_others_files() -> Result<()> {
    for store in storages()? {
        let fronts = Fronts::start(store)?;
        let other = Tree::new()?;
        let (source, back) = (other.file("file", SIZE, 71)?, other.path("back"));
        let [one, two] = fronts.both()?;
        for client in Client::all() {
            let (put, third) = (format!("{client:?}-put"), format!("{client:?}-third"));
            for (from, to) in [
                (file_url(&source), one.url(&put)),
                (two.url(&put), file_url(&back)),
                (one.url(&put), two.url(&third)),
            ] {
                let done = client.copy(false, (&from, &to));
                done.with_context(|| format!("{from} {to}\n{}\n{}", one.output(), two.output()))?;
            }
            for copied in [&back, &fronts.path(&put), &fronts.path(&third)] {
                same_file(copied, &source)?;
            }
            fs::remove_file(&back)?;
        }
    }
    Ok(())
}

/// The stripes of the sender have a share each.
#[test]
fn a_copy_between_front_ends_keeps_to_a_rate() -> Result<()> {
    let fronts = Fronts::start(None)?;
    let source = fronts.tree.file("file", SIZE, 74)?;
    let [one, two] = fronts.both()?;
    let begun = Instant::now();
    let limited = ["--bwlimit", "30M", "--debug"];
    let told = cp(&limited, &one.url("file"), &two.url("copy"))?.ok()?;
    ensure!(begun.elapsed() > LEAST_AT_30M, "{:?}", begun.elapsed());
    ensure!(told.stderr.contains("SITE RATE "), "{}", told.report());
    same_file(&fronts.path("copy"), &source)
}

/// Row 57 of the hostile input: one of two uploads of a name wins, and is whole. A front end that
/// finds the file of the other one answers an error.
#[test]
fn one_of_two_uploads_by_two_front_ends_wins() -> Result<()> {
    for store in storages()? {
        let fronts = Fronts::start(store)?;
        let other = Tree::new()?;
        let sources = [
            other.file("a", SIZE, 72)?,
            other.file("b", SIZE + 4096, 73)?,
        ];
        let both = fronts.both()?;
        let relays = both.map(|front| Relay::paced(front.addr(), Break::Never, RATE));
        let [one, two] = relays;
        let relays = [one?, two?];
        let begin = |n: usize| -> Result<Copying> {
            let (source, relay) = (sources.get(n), relays.get(n));
            let (source, relay) = (source.context("two")?, relay.context("two")?);
            let url = both.get(n).context("two")?.url_at(relay.addr(), "same");
            Ok(Copying::begin(
                &["--retry-for", "0"],
                (file_url(source), url),
            ))
        };
        let copies = [begin(0)?, begin(1)?];
        for relay in &relays {
            relay.wait_until_passed(1)?;
        }
        let mut reports = Vec::new();
        let mut won = Vec::new();
        for (copy, source) in copies.into_iter().zip(&sources) {
            let done = copy.end()?;
            if done.status.success() {
                won.push(source);
            }
            reports.push(done.report());
        }
        let copied = fronts.path("same");
        let is_whole = |source: &&PathBuf| same_file(&copied, source).is_ok();
        // Each may be replaced by a further try of the other before it is looked at.
        if won.is_empty() {
            won.extend(&sources);
        }
        ensure!(won.iter().any(is_whole), "{reports:?}");
    }
    Ok(())
}

/// Both front ends use both nodes at once; one is killed, and the other goes on.
#[test]
fn two_front_ends_share_nodes_and_one_survives_the_other() -> Result<()> {
    for store in storages()? {
        let fronts = Fronts::start(store)?;
        let other = Tree::new()?;
        let source = other.file("file", SIZE, 7)?;
        let [first, second] = fronts.both()?;
        let (one, two) = (
            Relay::paced(first.addr(), Break::Never, RATE)?,
            Relay::paced(second.addr(), Break::Never, RATE)?,
        );
        let ends = |host: &Host, relay: &Relay, name: &str| {
            (file_url(&source), host.url_at(relay.addr(), name))
        };
        let killed = Copying::begin(
            &["--retries", "0", "--retry-for", "0"],
            ends(first, &one, "one"),
        );
        let copied = Copying::begin(&["--json"], ends(second, &two, "two"));
        one.wait_until_passed(SIZE / 8)?;
        two.wait_until_passed(SIZE / 8)?;
        first.signal(Signal::KILL)?;
        killed.end()?.failed()?;
        let is_there = |name: &str| Path::exists(&fronts.path(name));
        ensure!(!is_there("one"), "a part has the final name");
        let copied = copied.end()?.ok()?;
        same_file(&fronts.path("two"), &source)?;
        // One node alone puts an object together.
        let expected = if fronts.store.is_some() { 0 } else { 2 };
        ensure!(stripes(&copied).len() == expected, "{}", copied.report());
        // The nodes are free for the upload again.
        cp(&[], &file_url(&source), &second.url("one"))?.ok()?;
        same_file(&fronts.path("one"), &source)?;
    }
    Ok(())
}

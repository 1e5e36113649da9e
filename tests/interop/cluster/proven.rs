//! Copies over nodes that both ends verify while the bytes pass, without a second reading.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Break, Cluster, Daemon, Finished, Host, Relay, Tree, bytes_read, file_url, same_file,
};

use super::parts::AFTER;
use super::{SIZE, cp, stripes};

/// The option with which a server takes part in copies between two.
const THIRD: [&str; 2] = ["--third-party", "all"];

/// Bytes before a break, of which most are kept.
const LATE: u64 = 60_000_000;

/// Most bytes that processes read by themselves, and of the ends of ranges.
const FEW: u64 = 12 << 20;

/// Says that a copy was verified by the digests of its bytes, and that nobody was asked to read them
/// again.
fn must_be_proven(done: &Finished) -> Result<()> {
    let events = done.stdout.lines();
    let mut events = events.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let last = events.rfind(|event| event.get("event").is_some_and(|word| word == "done"));
    let last = last.context("no file was copied")?;
    let told = ["/verified", "/checksum/algorithm"].map(|at| last.pointer(at)?.as_str());
    ensure!(told == ["digest", "BLAKE3"].map(Some), "{last}");
    ensure!(!done.stderr.contains("> CKSM"), "{}", done.report());
    Ok(())
}

#[test]
fn striped_copies_are_proven_without_a_second_reading() -> Result<()> {
    for nodes in [1, 2, 4] {
        let (tree, other) = (Tree::new()?, Tree::new()?);
        let (local, back) = (other.file("file", SIZE, 3)?, other.path("back"));
        let cluster = Cluster::start(tree.root(), nodes)?;
        let url = cluster.front().url("file");
        for flags in [
            &[][..],
            &["--stripe-block", "64K", "-p", "3"],
            &["--stripe-layout", "partitioned"],
        ] {
            let flags = [&["--json", "--debug"], flags].concat();
            let put = cp(&flags, &file_url(&local), &url)?.ok()?;
            same_file(&tree.path("file"), &local)?;
            let get = cp(&flags, &url, &file_url(&back))?.ok()?;
            same_file(&back, &local)?;
            for done in [&put, &get] {
                must_be_proven(done).with_context(|| format!("{nodes} nodes, {flags:?}"))?;
                let used = stripes(done);
                ensure!(nodes == 1 || used.len() == nodes, "{used:?}");
            }
            fs::remove_file(&back)?;
            fs::remove_file(tree.path("file"))?;
        }
    }
    Ok(())
}

/// A front end that asks the nodes for all that is stored.
#[test]
fn a_front_end_without_the_storage_joins_the_digests_of_its_nodes() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let (local, back) = (other.file("file", SIZE, 5)?, other.path("back"));
    let cluster = Cluster::start_with(tree.root(), 2, &["--storage", "nodes"], &[])?;
    let url = cluster.front().url("file");
    for (from, to) in [(file_url(&local), url.clone()), (url, file_url(&back))] {
        must_be_proven(&cp(&["--json", "--debug"], &from, &to)?.ok()?)?;
    }
    same_file(&tree.path("file"), &local)?;
    same_file(&back, &local)
}

/// Bytes that the front end and the nodes have read from files.
fn read_by_all(cluster: &mut Cluster) -> Result<u64> {
    let front = cluster.front().pid();
    let nodes = cluster.nodes().iter().map(Daemon::pid);
    std::iter::once(front).chain(nodes).map(bytes_read).sum()
}

/// The front end has the values of the nodes recorded, and the nodes hash the ends of the ranges.
#[test]
fn no_node_reads_an_upload_again_that_goes_on_for_a_front_end_without_the_storage() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", SIZE, 5)?;
    for nodes in [1, 2] {
        let mut cluster = Cluster::start_with(tree.root(), nodes, &["--storage", "nodes"], &[])?;
        for (name, flags) in [
            ("plain", &[][..]),
            ("small", &["--stripe-block", "64K", "-p", "3"]),
        ] {
            let relay = Relay::start(cluster.front().addr(), Break::Everything { after: LATE })?;
            let url = cluster.front().url_at(relay.addr(), name);
            let before = read_by_all(&mut cluster)?;
            let flags = [&["--json", "--debug", "--retries", "1"], flags].concat();
            let done = cp(&flags, &file_url(&local), &url)?.ok()?;
            let read = read_by_all(&mut cluster)? - before;
            let case = || format!("{nodes} nodes, {name}: {}", done.report());
            ensure!(relay.broke(), "{}", case());
            must_be_proven(&done).with_context(case)?;
            let kept = (SIZE + LATE).saturating_sub(relay.passed());
            ensure!(kept > 2 * FEW, "{kept} bytes are kept: {}", case());
            ensure!(read < FEW, "{read} bytes are read: {}", case());
            same_file(&tree.path(name), &local)?;
            fs::remove_file(tree.path(name))?;
            let names = tree.names(".")?;
            ensure!(names.is_empty(), "{names:?}");
        }
    }
    Ok(())
}

#[test]
fn striped_copies_between_servers_are_proven_without_a_second_reading() -> Result<()> {
    let trees = [Tree::new()?, Tree::new()?, Tree::new()?];
    let [two, four, whole] = &trees;
    let clusters = [
        Cluster::start_with(two.root(), 2, &THIRD, &[])?,
        Cluster::start_with(four.root(), 4, &THIRD, &[])?,
    ];
    let hosts = [
        clusters[0].front(),
        clusters[1].front(),
        &Host::ours_with(whole.root(), &THIRD)?,
    ];
    let names = ["two", "four", "whole"];
    for (tree, number) in trees.iter().zip(6..) {
        tree.file("file", SIZE, number)?;
        tree.file("small", 5, number)?;
    }
    for (from, to, used) in [(0, 1, 2), (1, 0, 2), (2, 1, 4), (0, 2, 0)] {
        for name in ["file", "small"] {
            let pair = format!("{} to {}, {name}", names[from], names[to]);
            let copy = format!("{name}-of-{}", names[from]);
            let urls = [hosts[from].url(name), hosts[to].url(&copy)];
            let done = cp(&["--json", "--debug"], &urls[0], &urls[1])?.ok()?;
            must_be_proven(&done).context(pair.clone())?;
            same_file(&trees[from].path(name), &trees[to].path(&copy))?;
            let moved = stripes(&done);
            let is_spread = moved.iter().filter(|bytes| **bytes > 0).count() >= used;
            ensure!(name == "small" || is_spread, "{pair}: {moved:?}");
        }
    }
    Ok(())
}

/// A bit is flipped on the way to a node, from a node, and between two.
#[test]
fn of_a_striped_copy_that_differs_only_the_bad_part_is_sent_again() -> Result<()> {
    let (near, far, other) = (Tree::new()?, Tree::new()?, Tree::new()?);
    let clusters = [
        Cluster::start_with(near.root(), 2, &THIRD, &[])?,
        Cluster::start_with(far.root(), 2, &THIRD, &[])?,
    ];
    let [one, two] = clusters.each_ref().map(Cluster::front);
    let local = other.file("file", SIZE, 7)?;
    let file = near.file("file", SIZE, 8)?;
    for way in ["put", "get", "third"] {
        let behind = if way == "third" { two } else { one };
        for (retries, name) in [("0", "bad"), ("1", "good")] {
            let relay = Relay::start(behind.addr(), Break::Flip { after: AFTER })?;
            let url = |name| behind.url_at(relay.addr(), name);
            let (from, to, original, copy) = match way {
                "put" => (file_url(&local), url(name), &local, near.path(name)),
                "get" => {
                    let copy = other.path(name);
                    (url("file"), file_url(&copy), &file, copy)
                }
                _ => (one.url("file"), url(name), &file, far.path(name)),
            };
            let done = cp(&["--retries", retries, "--debug"], &from, &to)?;
            ensure!(relay.broke(), "{way}: {}", done.report());
            if retries == "0" {
                done.failed()?;
                ensure!(!copy.exists(), "{way}: a wrong file is published");
                continue;
            }
            let done = done.ok()?;
            same_file(original, &copy)?;
            let passed = relay.passed();
            ensure!(
                passed < SIZE + (4 << 20),
                "{way}: {passed} bytes passed: {}",
                done.report()
            );
            fs::remove_file(copy)?;
        }
    }
    Ok(())
}

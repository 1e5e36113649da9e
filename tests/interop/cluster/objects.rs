//! Nodes over an object store that fail in the middle of a copy, or serve two front ends.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Cluster, ClusterPlan, GridLab, Host, ObjectServer, ObjectServerKind, Tree, file_url, same_file,
};

use super::failures::{Copying, FROZEN, Failing, Failure, KILLED, SLOW};
use super::matrix::Client;
use super::{SIZE, both_ways, cp, globus, secure_url, secured};

/// The only node fails in the middle of a copy, after another one was added, which goes on: with one
/// node alone a copy of an object is sure to use it.
fn failing(failure: Failure) -> Result<()> {
    for put in [true, false] {
        let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
            return Ok(());
        };
        let (tree, other) = (Tree::new()?, Tree::new()?);
        let source = other.file("file", SIZE, 31)?;
        let storage = store.storage()?;
        let flags = ["--storage", &storage];
        let cluster = Cluster::start_with(tree.root(), 0, &flags, &[])?;
        let mut failing = Failing::of(cluster, &flags, SLOW)?;
        let back = other.path("back");
        let ends = match put {
            true => (file_url(&source), failing.url("file")),
            false => {
                cp(&[], &file_url(&source), &failing.front().url("file"))?.ok()?;
                (failing.url("file"), file_url(&back))
            }
        };
        let copying = Copying::begin(&["--debug", "-p", "1"], ends);
        failing.add_another_with(&["--storage", &storage])?;
        failing.fail(failure, &copying)?;
        let copied = copying.end_without_a_node();
        copied.with_context(|| format!("put {put}: {}", failing.front().output()))?;
        if put {
            cp(&[], &failing.front().url("file"), &file_url(&back))?.ok()?;
        }
        same_file(&back, &source)?;
        if failure == KILLED {
            store.wait_for_no_orphans()?;
        }
    }
    Ok(())
}

#[test]
fn a_copy_of_an_object_survives_a_node_that_is_killed() -> Result<()> {
    failing(KILLED)
}

#[test]
fn a_copy_of_an_object_survives_a_node_that_is_frozen() -> Result<()> {
    failing(FROZEN)
}

#[test]
fn a_copy_of_an_object_survives_a_node_that_is_cut_off() -> Result<()> {
    failing(Failure::CutOff)
}

/// A copy of an object to or from another server goes on over the node that is left.
fn failing_between(failure: Failure) -> Result<()> {
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let source = other.file("file", SIZE, 35)?;
    let storage = store.storage()?;
    let front = ["--third-party", "all", "--storage", &storage];
    let node = ["--storage", &storage];
    let whole = Host::ours_with(other.root(), &["--third-party", "all"])?;
    for client in Client::all() {
        for to_objects in [true, false] {
            let name = format!("{client:?}-{to_objects}");
            let cluster = Cluster::start_with(tree.root(), 0, &front, &[])?;
            let mut failing = Failing::of(cluster, &node, SLOW)?;
            let (from, to, copied) = match to_objects {
                true => (whole.url("file"), failing.url(&name), store.object(&name)),
                false => {
                    let object = format!("{client:?}-true");
                    (failing.url(&object), whole.url(&name), other.path(&name))
                }
            };
            let copying = match client {
                Client::Ours => Copying::begin(&["--debug", "-p", "1"], (from, to)),
                Client::Globus => Copying::run(move || {
                    let flags = ["-rst", "-rst-interval", "1", "-stripe"];
                    globus(&flags, &from, &to)?.context("no client")
                }),
            };
            failing.add_another_with(&["--storage", &storage])?;
            failing.fail(failure, &copying)?;
            let row = || format!("{client:?} {to_objects}: {}", failing.front().output());
            let done = copying.end()?;
            failing.check_noticed()?;
            done.ok().with_context(row)?;
            same_file(&copied, &source).with_context(row)?;
        }
    }
    Ok(())
}

#[test]
fn a_copy_of_an_object_between_servers_survives_a_node_that_is_killed() -> Result<()> {
    failing_between(KILLED)
}

#[test]
fn a_copy_of_an_object_between_servers_survives_a_node_that_is_frozen() -> Result<()> {
    failing_between(FROZEN)
}

#[test]
fn a_copy_of_an_object_between_servers_survives_a_node_that_is_cut_off() -> Result<()> {
    failing_between(Failure::CutOff)
}

#[test]
fn data_of_objects_is_private() -> Result<()> {
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    let lab = GridLab::new()?;
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", SIZE, 33)?;
    let mut flags = secured(&lab);
    flags.extend(["--storage".to_owned(), store.storage()?]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let cluster = Cluster::start_with(tree.root(), 2, &flags, &flags)?;
    let url = secure_url(cluster.front(), "file");
    for (program, words) in [
        ("gridftp-cp", &["--protect", "private"][..]),
        ("globus-url-copy", &["-dcpriv", "-stripe", "-p", "2"]),
    ] {
        both_ways(&lab, program, words, &local, &url, &other.path("back"))?;
    }
    Ok(())
}

#[test]
fn two_front_ends_share_nodes_over_an_object_store() -> Result<()> {
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let source = other.file("file", SIZE, 32)?;
    let storage = store.storage()?;
    let flags = ["--storage", &storage];
    let plan = ClusterPlan {
        fronts: 2,
        front: &flags,
        node: &flags,
        ..ClusterPlan::new(2)?
    };
    let cluster = Cluster::of(tree.root(), &plan)?;
    let second = cluster.other_fronts().next().context("a second one")?;
    let copies = [cluster.front(), second].map(|front| {
        let ends = (file_url(&source), front.url(&front.pid().to_string()));
        Copying::begin(&[], ends)
    });
    for copy in copies {
        copy.end()?.ok()?;
    }
    // Each finds the object of the other.
    let back = other.path("back");
    for (front, of) in [(cluster.front(), second), (second, cluster.front())] {
        cp(&[], &front.url(&of.pid().to_string()), &file_url(&back))?.ok()?;
        same_file(&back, &source)?;
        fs::remove_file(&back)?;
    }
    ensure!(store.orphans() == 0, "parts are left");
    Ok(())
}

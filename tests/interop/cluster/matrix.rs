//! Every number of nodes over both storages, with both clients; and nodes of both makes.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Cluster, Finished, GridLab, Host, ObjectServer, ObjectServerKind, Peer, Tree, binary, file_url,
    run, same_file,
};

use super::parts::{PART, same_part};
use super::{LIMIT, SIZE, cp, globus, secure_url, secured, stripes};
use crate::striped::Front;

/// A client of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    Ours,
    Globus,
}

impl Client {
    /// The clients that are installed.
    pub(super) fn all() -> Vec<Self> {
        let mut clients = vec![Self::Ours];
        if Peer::GlobusUrlCopy.require("interop").is_some() {
            clients.push(Self::Globus);
        }
        clients
    }

    /// Copies a file, or the part of it.
    pub(super) fn copy(self, is_part: bool, (from, to): (&str, &str)) -> Result<Finished> {
        let (offset, length) = (PART.0.to_string(), PART.1.to_string());
        let (mut flags, part) = match self {
            Self::Ours => (vec!["--json"], ["--offset", &offset, "--length", &length]),
            Self::Globus => (
                vec!["-stripe", "-p", "2"],
                ["-off", &offset, "-len", &length],
            ),
        };
        match (self, is_part) {
            (_, true) => flags.extend(part),
            // Of a part it sends too few bytes with this, at servers of its own too.
            (Self::Globus, false) => flags.extend(["-sbs", "262144"]),
            (Self::Ours, false) => {}
        }
        let finished = match self {
            Self::Ours => cp(&flags, from, to)?,
            Self::Globus => globus(&flags, from, to)?.context("no client")?,
        };
        finished.ok()
    }
}

/// Up, down, from server to server, and parts, over `nodes` nodes.
fn every_copy(nodes: usize, store: Option<&ObjectServer>) -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let storage = store.map(ObjectServer::storage).transpose()?;
    let storage: Vec<&str> = storage.iter().flat_map(|it| ["--storage", it]).collect();
    let front = [&["--third-party", "all"], &storage[..]].concat();
    let cluster = Cluster::start_with(tree.root(), nodes, &front, &storage)?;
    let whole = Host::ours_with(other.root(), &["--third-party", "all"])?;
    let (file, new) = (other.file("file", SIZE, 21)?, other.file("new", SIZE, 22)?);
    let (back, part) = (other.path("back"), other.path("part"));
    for client in Client::all() {
        let row = |what: &str, is_part, from: &str, to: &str| {
            let done = client.copy(is_part, (from, to));
            done.with_context(|| {
                let front = cluster.front().output();
                format!("{client:?}, {nodes} nodes, {storage:?}: {what}\n{front}")
            })
        };
        let url = |name: &str| cluster.front().url(&format!("{client:?}-{name}"));
        let fetch = |name: &str, as_whole: &Path| -> Result<()> {
            row("get", false, &url(name), &file_url(&back))?;
            same_file(&back, as_whole)?;
            Ok(fs::remove_file(&back)?)
        };
        row("put", false, &file_url(&file), &url("file"))?;
        fetch("file", &file)?;
        row("part get", true, &url("file"), &file_url(&part))?;
        same_part(&file, &part)?;
        fs::remove_file(&part)?;
        row("to the nodes", false, &whole.url("file"), &url("third"))?;
        fetch("third", &file)?;
        row("from the nodes", false, &url("file"), &whole.url("back"))?;
        same_file(&back, &file)?;
        fs::remove_file(&back)?;
        row(
            "part from the nodes",
            true,
            &url("file"),
            &whole.url("part"),
        )?;
        same_part(&file, &part)?;
        fs::remove_file(&part)?;
        // An object is replaced as a whole.
        if store.is_none() {
            for (what, from, name) in [
                ("part put", file_url(&new), "file"),
                ("part to the nodes", whole.url("new"), "third"),
            ] {
                row(what, true, &from, &url(name))?;
                row("get", false, &url(name), &file_url(&back))?;
                same_part(&new, &back)?;
                fs::remove_file(&back)?;
            }
        }
    }
    Ok(())
}

/// The other tests of this folder have two nodes.
#[test]
fn one_node_and_four_serve_every_copy() -> Result<()> {
    every_copy(1, None)?;
    every_copy(4, None)
}

#[test]
fn one_node_and_four_serve_every_copy_of_objects() -> Result<()> {
    for nodes in [1, 4] {
        let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
            return Ok(());
        };
        every_copy(nodes, Some(&store))?;
        store.wait_for_no_orphans()?;
    }
    Ok(())
}

/// Data goes from every node of one server to those of the other.
#[test]
fn nodes_of_ours_and_of_globus_copy_to_each_other() -> Result<()> {
    let Some(theirs) = Front::start()? else {
        return Ok(());
    };
    let tree = Tree::new()?;
    let cluster = Cluster::start_with(tree.root(), 2, &["--third-party", "all"], &[])?;
    let file = tree.file("file", SIZE, 23)?;
    fs::copy(&file, theirs.tree.path("file"))?;
    for client in Client::all() {
        let name = format!("{client:?}");
        for (from, to, copied) in [
            (cluster.front(), &theirs.host, theirs.tree.path(&name)),
            (&theirs.host, cluster.front(), tree.path(&name)),
        ] {
            let ends = (from.url("file"), to.url(&name));
            let done = client.copy(false, (&ends.0, &ends.1));
            let done = done.with_context(|| format!("{ends:?}\n{}", cluster.front().output()))?;
            same_file(&copied, &file)?;
            let used = stripes(&done);
            ensure!(
                client == Client::Globus || used.iter().filter(|bytes| **bytes > 0).count() == 2,
                "{ends:?} moved {used:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn data_between_nodes_of_ours_and_of_globus_is_private() -> Result<()> {
    let lab = GridLab::new()?;
    let Some(theirs) = Front::of(Some(&lab))? else {
        return Ok(());
    };
    let tree = Tree::new()?;
    let flags = secured(&lab);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let cluster = Cluster::start_with(tree.root(), 2, &flags, &flags)?;
    let file = tree.file("file", SIZE, 24)?;
    fs::copy(&file, theirs.tree.path("file"))?;
    for (from, to, copied) in [
        (cluster.front(), &theirs.host, theirs.tree.path("copy")),
        (&theirs.host, cluster.front(), tree.path("copy")),
    ] {
        let mut command = std::process::Command::new(binary("gridftp-cp")?);
        lab.login(&mut command);
        let (from, to) = (secure_url(from, "file"), secure_url(to, "copy"));
        command.args(["--protect", "private", &from, &to]);
        let done = run(&mut command, LIMIT)?.ok();
        done.with_context(|| format!("{from} to {to}\n{}", cluster.front().output()))?;
        same_file(&copied, &file)?;
    }
    Ok(())
}

//! Parts of files, and copies that break and go on, with both clients and both storages.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Break, Cluster, Host, ObjectServer, ObjectServerKind, Relay, Tree, file_url, same_file,
    sha256_range,
};

use super::{SIZE, cp, globus};

/// Offset and length of the part.
pub(super) const PART: (u64, u64) = (1000, 66 << 20);

/// Bytes before a break, in the middle of a file.
pub(super) const AFTER: u64 = 30_000_000;

/// The same bytes at the same place.
pub(super) fn same_part(one: &Path, other: &Path) -> Result<()> {
    let expected = sha256_range(one, PART.0, PART.1)?;
    let found = sha256_range(other, PART.0, PART.1)?;
    ensure!(found == expected, "{} differs", other.display());
    Ok(())
}

#[test]
fn parts_of_a_file_are_copied_both_ways_by_both_clients() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", SIZE, 9)?;
    let cluster = Cluster::start(tree.root(), 2)?;
    let (offset, length) = (PART.0.to_string(), PART.1.to_string());
    for client in ["ours", "globus"] {
        let copy = |from: &str, to: &str| match client {
            "ours" => cp(&["--offset", &offset, "--length", &length], from, to).map(Some),
            _ => globus(
                &["-stripe", "-p", "2", "-off", &offset, "-len", &length],
                from,
                to,
            ),
        };
        let url = cluster.front().url(client);
        // The rest of a file stays.
        tree.file(client, SIZE, 10)?;
        let Some(put) = copy(&file_url(&local), &url)? else {
            return Ok(());
        };
        put.ok().with_context(|| cluster.front().output())?;
        same_part(&local, &tree.path(client))?;
        ensure!(fs::metadata(tree.path(client))?.len() == SIZE, "{client}");
        let back = other.path("back");
        let Some(get) = copy(&url, &file_url(&back))? else {
            return Ok(());
        };
        get.ok().with_context(|| cluster.front().output())?;
        same_part(&local, &back)?;
        fs::remove_file(back)?;
    }
    Ok(())
}

/// Row 40 of the hostile input: a node stores other bytes than the client sent.
#[test]
fn bytes_that_a_node_changes_are_found() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", SIZE, 9)?;
    let cluster = Cluster::start(tree.root(), 2)?;
    let relay = Relay::start(cluster.front().addr(), Break::Flip { after: AFTER })?;
    let url = cluster.front().url_at(relay.addr(), "file");
    let flags = ["--verify", "--retries", "0"];
    let refused = cp(&flags, &file_url(&local), &url)?.failed()?;
    ensure!(relay.broke(), "{}", refused.report());
    ensure!(!tree.path("file").exists(), "a wrong file is published");
    cp(&flags, &file_url(&local), &url)?.ok()?;
    same_file(&tree.path("file"), &local)
}

/// Copies by our client, up and down, whose connections break in the middle.
fn broken(cluster: &Cluster, file: &Path, back: &Path) -> Result<()> {
    for plan in [
        Break::Data { after: AFTER },
        Break::Everything { after: AFTER },
    ] {
        let url = |name: &str, relay: &Relay| cluster.front().url_at(relay.addr(), name);
        for way in ["put", "get"] {
            let relay = Relay::start(cluster.front().addr(), plan)?;
            let (from, to) = match way {
                "put" => (file_url(file), url("broken", &relay)),
                _ => (url("broken", &relay), file_url(back)),
            };
            let finished = cp(&["--retries", "3", "--debug"], &from, &to)?.ok();
            let finished = finished.with_context(|| {
                format!("{way} {plan:?}, front end:\n{}", cluster.front().output())
            })?;
            ensure!(relay.broke(), "{way} {plan:?}: {}", finished.report());
        }
        same_file(file, back)?;
        fs::remove_file(back)?;
    }
    Ok(())
}

/// The Globus client goes on between two servers only.
#[test]
fn copies_that_break_are_completed_by_both_clients() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let third = ["--third-party", "all"];
    let local = other.file("file", SIZE, 9)?;
    let cluster = Cluster::start_with(tree.root(), 2, &third, &[])?;
    broken(&cluster, &local, &other.path("back"))?;
    same_file(&tree.path("broken"), &local)?;
    for nodes in [1, 4] {
        let tree = Tree::new()?;
        let cluster = Cluster::start(tree.root(), nodes)?;
        broken(&cluster, &local, &other.path("back"))?;
        same_file(&tree.path("broken"), &local)?;
    }
    let whole = Host::ours_with(other.root(), &third)?;
    let flags = ["-rst", "-rst-interval", "1", "-stripe", "-p", "2"];
    for (from, to, behind, name) in [
        (&whole, cluster.front(), cluster.front(), "up"),
        (cluster.front(), &whole, cluster.front(), "down"),
    ] {
        let relay = Relay::start(behind.addr(), Break::Everything { after: AFTER })?;
        let url = |host: &Host, name: &str| match std::ptr::eq(host, behind) {
            true => host.url_at(relay.addr(), name),
            false => host.url(name),
        };
        let source = if name == "up" { "file" } else { "broken" };
        let Some(finished) = globus(&flags, &url(from, source), &url(to, name))? else {
            return Ok(());
        };
        let finished = finished
            .ok()
            .with_context(|| format!("{}{}", from.output(), to.output()))?;
        ensure!(relay.broke(), "{name}: {}", finished.report());
        same_file(&local, &to.path(name))?;
    }
    Ok(())
}

/// Files of an object store behind the nodes: up and down, parts, and copies that break.
#[test]
fn an_object_store_is_served_by_nodes() -> Result<()> {
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", SIZE, 11)?;
    let storage = store.storage()?;
    let flags = ["--storage", &storage];
    let cluster = Cluster::start_with(tree.root(), 2, &flags, &flags)?;
    let back = other.path("back");
    broken(&cluster, &local, &back)?;
    for nodes in [1, 4] {
        let cluster = Cluster::start_with(tree.root(), nodes, &flags, &flags)?;
        broken(&cluster, &local, &back)?;
        // A killed cluster leaves the parts of a broken upload to the sweep of the journals.
        store.wait_for_no_orphans()?;
    }
    let url = cluster.front().url("file");
    for client in ["ours", "globus"] {
        let copy = |flags: &[&str], from: &str, to: &str| match client {
            "ours" => cp(flags, from, to).map(Some),
            _ => globus(flags, from, to),
        };
        let (all, part): (&[&str], &[&str]) = match client {
            "ours" => (&[], &["--offset", "1000", "--length", "66M"]),
            _ => (
                &["-stripe", "-p", "2"],
                &["-stripe", "-p", "2", "-off", "1000", "-len", "69206016"],
            ),
        };
        for (flags, from, to) in [
            (all, file_url(&local), url.clone()),
            (all, url.clone(), file_url(&back)),
            (part, url.clone(), file_url(&other.path("part"))),
        ] {
            let Some(copied) = copy(flags, &from, &to)? else {
                return Ok(());
            };
            copied
                .ok()
                .with_context(|| format!("{client}, {}", cluster.front().output()))?;
        }
        same_file(&local, &back)?;
        same_part(&local, &other.path("part"))?;
        // An object is replaced as a whole.
        let Some(refused) = copy(part, &file_url(&local), &url)? else {
            return Ok(());
        };
        refused.failed()?;
        fs::remove_file(&back)?;
        fs::remove_file(other.path("part"))?;
    }
    store.wait_for_no_orphans()
}

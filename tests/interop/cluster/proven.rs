//! Copies over nodes that both ends verify while the bytes pass, without a second reading.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Cluster, Finished, Tree, file_url, same_file};

use super::{SIZE, cp, stripes};

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

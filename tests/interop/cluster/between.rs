//! Parts of files and last nodes that fail under copies from server to server, over both storages.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use workspace_tests::{Host, ObjectServer, ObjectServerKind, Tree, file_url, same_file};

use super::disturbed::{ONCE, PARTLY, TOLD};
use super::failures::{At, Copying, FROZEN, Failing, Failure, KILLED};
use super::parts::same_part;
use super::{SIZE, cp};

const FAILURES: [Failure; 3] = [KILLED, FROZEN, Failure::CutOff];

/// A cluster with the node that is to fail, and a server without nodes.
struct Pair<'a> {
    failing: Failing,
    whole: Host,
    store: Option<&'a ObjectServer>,
    trees: [Tree; 2],
    at: At,
}

impl<'a> Pair<'a> {
    /// Starts the node alone, with a file at the source.
    fn start(at: At, store: Option<&'a ObjectServer>) -> Result<Self> {
        let trees = [Tree::new()?, Tree::new()?];
        let [here, there] = &trees;
        let third = ["--third-party", "all"];
        let failing = Failing::over(here.root(), store, 0, &third)?;
        let whole = Host::ours_with(there.root(), &third)?;
        let source = there.file("file", SIZE, 67)?;
        if at == At::Source {
            cp(&[], &file_url(&source), &failing.front().url("file"))?.ok()?;
        }
        Ok(Self {
            failing,
            whole,
            store,
            trees,
            at,
        })
    }

    fn ends(&self) -> (String, String) {
        match self.at {
            At::Source => (self.failing.url("file"), self.whole.url("copy")),
            At::Destination => (self.whole.url("file"), self.failing.url("copy")),
        }
    }

    fn source(&self) -> PathBuf {
        self.whole.path("file")
    }

    /// The place of a file at the destination.
    fn copied(&self, name: &str) -> PathBuf {
        let [here, _] = &self.trees;
        match (self.at, self.store) {
            (At::Source, _) => self.whole.path(name),
            (At::Destination, Some(store)) => store.object(name),
            (At::Destination, None) => here.path(name),
        }
    }
}

/// A part goes on over a node that was added.
fn failing_with_a_part(failure: Failure, at: At, store: Option<&ObjectServer>) -> Result<()> {
    let mut pair = Pair::start(at, store)?;
    let copying = Copying::begin(PARTLY, pair.ends());
    pair.failing.add_another(store)?;
    pair.failing.fail(failure, &copying)?;
    copying
        .end_without_a_node()
        .and_then(|()| pair.failing.check_noticed())
        .and_then(|()| same_part(&pair.source(), &pair.copied("copy")))
        .with_context(|| {
            let log = pair.failing.front().output();
            format!(
                "{failure:?} at {at:?}:\n{log}other:\n{}",
                pair.whole.output()
            )
        })
}

/// Without any node a copy fails soon; it goes on when there is one again.
fn failing_with_the_last_node(
    failure: Failure,
    at: At,
    store: Option<&ObjectServer>,
) -> Result<()> {
    let mut pair = Pair::start(at, store)?;
    let copying = Copying::begin(ONCE, pair.ends());
    pair.failing.fail(failure, &copying)?;
    let failed = Instant::now();
    let refused = copying.end()?.failed()?;
    let row = || {
        let (report, log) = (refused.report(), pair.whole.output());
        format!("{failure:?} at {at:?}: {report}\nother:\n{log}")
    };
    ensure!(failed.elapsed() < TOLD, "late, {}", row());
    pair.failing.check_noticed().with_context(row)?;
    let copied = pair.copied("copy");
    ensure!(
        !Path::exists(&copied),
        "a part has the final name, {}",
        row()
    );
    match failure {
        FROZEN => pair.failing.signal(Signal::CONT)?,
        _ => pair.failing.add_another(store)?,
    }
    let (from, to) = pair.ends();
    cp(&["--resume"], &from, &to)?.ok().with_context(row)?;
    same_file(&copied, &pair.source())
}

#[test]
fn a_part_of_a_file_between_servers_survives_a_node_that_fails() -> Result<()> {
    for failure in FAILURES {
        for at in [At::Destination, At::Source] {
            failing_with_a_part(failure, at, None)?;
        }
    }
    Ok(())
}

#[test]
fn a_copy_between_servers_fails_with_the_last_node_and_is_resumed() -> Result<()> {
    for failure in FAILURES {
        for at in [At::Destination, At::Source] {
            failing_with_the_last_node(failure, at, None)?;
        }
    }
    Ok(())
}

/// An object is replaced as a whole, so that its parts are copied from it alone.
#[test]
fn copies_of_objects_between_servers_survive_a_part_and_the_last_node() -> Result<()> {
    for failure in FAILURES {
        for (at, is_part) in [
            (At::Source, true),
            (At::Source, false),
            (At::Destination, false),
        ] {
            let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
                return Ok(());
            };
            match is_part {
                true => failing_with_a_part(failure, at, Some(&store))?,
                false => failing_with_the_last_node(failure, at, Some(&store))?,
            }
        }
    }
    Ok(())
}

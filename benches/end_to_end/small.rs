//! Many small files: over loopback and over an emulated link with a long round trip.

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_benches::link::Link;
use workspace_benches::pair::{Pair, Side, cost, quiet};
use workspace_benches::ratio::{Cost, Line, alternate};
use workspace_benches::shape::Shape;
use workspace_tests::{Digests, Host, Tree, file_url, tree_digests};

use crate::options::Options;

/// The best flags of the Globus client for small files on loopback.
const GLOBUS_BEST: &[&str] = &["-r", "-cd", "-fast", "-cc", "4"];
const OURS: &[&str] = &["-r"];

/// Measures 10,000 files of 1 kB in `folder`, in both directions.
pub(crate) fn loopback(pair: &Pair, options: &Options, folder: &Path) -> Result<Vec<Line>> {
    let count = options.scale.amount(10_000, 500);
    let (tree, digests) = create(folder, count, 1000, 500)?;
    let ours = pair.serve(Side::Ours, tree.root())?;
    let globus = pair.serve(Side::Globus, tree.root())?;
    let mut lines = Vec::new();
    for get in [true, false] {
        let copy = |side: Side, server: &Host, flags: &[&str]| {
            let mut command = Command::new(pair.client(side));
            copy_tree(
                command.args(quiet(side)).args(flags),
                server,
                server.addr(),
                &tree,
                get,
                &digests,
            )
        };
        let (us, them) = alternate(
            options.scale.runs(),
            || copy(Side::Ours, &ours, OURS),
            || copy(Side::Globus, &globus, GLOBUS_BEST),
        )?;
        let direction = if get { "get" } else { "put" };
        let at = folder.display();
        eprintln!("small, {at}, {direction}: ours {us:.2?}, Globus {them:.2?}");
        lines.push(Line {
            what: format!("{count} files of 1 kB, {direction}, in {at}"),
            ratio: them.wall / us.wall,
            cpu: Some(them.cpu / us.cpu),
            target: "3 against `-fast -cc 4`",
            reached: them.wall / us.wall >= 3.0,
            note: String::new(),
        });
    }
    Ok(lines)
}

/// Measures 500 files of 10 kB over a round trip of 50 ms, ours with default flags and in MODE S.
pub(crate) fn over_link(pair: &Pair, options: &Options) -> Result<Vec<Line>> {
    let shape = Shape::new(125_000_000, Duration::from_millis(25));
    let link = match Link::new(shape) {
        Ok(link) => link,
        Err(error) => {
            eprintln!("SKIPPED bench link: {error:#}");
            return Ok(Vec::new());
        }
    };
    let count = options.scale.amount(500, 50);
    let (tree, digests) = create(&env::temp_dir(), count, 10_000, count)?;
    let addr = link.far_addr().to_string();
    let mut ours = link.far(pair.server(Side::Ours));
    ours.args([
        "--bind",
        &addr,
        "--port",
        "0",
        "--anonymous",
        "rw",
        "--root",
    ])
    .arg(tree.root());
    let ours = Host::ours_from(&mut ours, tree.root())?;
    let interface = ["-control-interface", &addr, "-data-interface", &addr];
    let globus = Host::globus_from(
        &mut link.far(pair.server(Side::Globus)),
        tree.root(),
        &interface,
    )?;
    let mut lines = Vec::new();
    for get in [true, false] {
        let direction = if get { "get" } else { "put" };
        let copy = |side: Side, server: &Host, flags: &[&str]| {
            let at = SocketAddr::from((link.far_addr(), server.addr().port()));
            let mut command = link.near(pair.client(side));
            copy_tree(
                command.args(quiet(side)).args(flags),
                server,
                at,
                &tree,
                get,
                &digests,
            )
        };
        let stream: &[&str] = &["-r", "--mode", "stream"];
        for (ours_flags, name, flags, limit) in [
            (OURS, "-fast", ["-fast"].as_slice(), 1.0),
            (OURS, "-cc 20", &["-cc", "20"], 1.0),
            (stream, "-cc 20", &["-cc", "20"], 6.0),
        ] {
            let mode = if limit > 1.0 { ", MODE S" } else { "" };
            let globus_flags = [&["-r", "-cd"], flags].concat();
            let (us, them) = alternate(
                options.scale.runs(),
                || copy(Side::Ours, &ours, ours_flags),
                || copy(Side::Globus, &globus, &globus_flags),
            )?;
            eprintln!("link, {direction}{mode}, {name}: ours {us:.2?}, Globus {them:.2?}");
            lines.push(Line {
                what: format!(
                    "{count} files of 10 kB, {direction}, 50 ms round trip{mode}, against `{name}`"
                ),
                ratio: them.wall / us.wall,
                cpu: None,
                target: if limit > 1.0 {
                    "under 6 s"
                } else {
                    "under 1 s"
                },
                reached: us.wall < limit,
                note: format!("{:.2} s", us.wall),
            });
        }
    }
    Ok(lines)
}

/// Creates `count` files of `size` bytes in `parent`, `in_each` per directory, and returns their
/// digests.
fn create(parent: &Path, count: u64, size: u64, in_each: u64) -> Result<(Tree, Digests)> {
    let tree = Tree::new_in(parent)?;
    for n in 0..count {
        let folder = if in_each < count {
            format!("dir{}/", n / in_each)
        } else {
            String::new()
        };
        tree.file(&format!("files/{folder}file{n}"), size, n)?;
    }
    let digests = tree_digests(&tree.path("files"))?;
    Ok((tree, digests))
}

/// Copies the tree in one direction by a command without source and destination, and compares it.
///
/// Each copy has a new name and stays until the end: ext4 does not reuse the inodes of files
/// removed in the last minutes, and skipping them at each creation would dominate the time of both
/// sides.
fn copy_tree(
    command: &mut Command,
    server: &Host,
    at: SocketAddr,
    tree: &Tree,
    get: bool,
    digests: &Digests,
) -> Result<Cost> {
    let mut names = (0..).map(|n| format!("copy{n}/"));
    let copy = names.find(|name| !tree.path(name).exists());
    let copy = copy.context("every name is taken")?;
    let local = |name: &str| file_url(&tree.path(name));
    if get {
        command.args([server.url_at(at, "files/"), local(&copy)]);
    } else {
        command.args([local("files/"), server.url_at(at, &copy)]);
    }
    let cost = cost(command, server)?;
    ensure!(
        tree_digests(&tree.path(&copy))? == *digests,
        "the copies differ"
    );
    Ok(cost)
}

//! A front end of ours with data nodes: our client and the Globus one, Globus servers as the other
//! end, and nodes that are killed, frozen and added in the middle.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;
use workspace_tests::{
    Break, Cluster, Finished, GridLab, Host, Peer, Relay, Tree, binary, file_url, run, same_file,
};

const LIMIT: Duration = Duration::from_secs(120);

/// Large enough for stripes, and no multiple of a block.
const SIZE: u64 = (70 << 20) + 4099;

/// Bytes a second through the relay of a copy that is disturbed.
const RATE: u64 = 40 << 20;

/// Longest time from the failure of a node to the end of its transfer.
const NOTICED: Duration = Duration::from_secs(5);

fn cp(flags: &[&str], from: &str, to: &str) -> Result<Finished> {
    let mut command = Command::new(binary("gridftp-cp")?);
    run(command.args(flags).args([from, to]), LIMIT)
}

/// Runs the Globus client; nothing where it is not installed.
fn globus(flags: &[&str], from: &str, to: &str) -> Result<Option<Finished>> {
    let Some(mut command) = Peer::GlobusUrlCopy.require("interop") else {
        return Ok(None);
    };
    run(command.args(flags).args([from, to]), LIMIT).map(Some)
}

/// The last count of bytes of each stripe in the transfer lines of the JSON output.
fn stripes(finished: &Finished) -> Vec<u64> {
    let found = finished.stdout.lines().rev().find_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let stripes = line.get("stripes")?.as_array()?.clone();
        Some(
            stripes
                .iter()
                .filter_map(serde_json::Value::as_u64)
                .collect(),
        )
    });
    found.unwrap_or_default()
}

#[test]
fn our_client_uses_all_nodes_both_ways() -> Result<()> {
    for nodes in [1, 2, 4] {
        let (tree, other) = (Tree::new()?, Tree::new()?);
        let local = other.file("file", SIZE, 3)?;
        let cluster = Cluster::start(tree.root(), nodes)?;
        let url = cluster.front().url("file");
        let put = cp(&["--json"], &file_url(&local), &url)?.ok()?;
        same_file(&tree.path("file"), &local)?;
        let get = cp(&["--json"], &url, &file_url(&other.path("back")))?.ok()?;
        same_file(&other.path("back"), &local)?;
        for (way, finished) in [("put", put), ("get", get)] {
            let moved = stripes(&finished);
            let used = moved.iter().filter(|bytes| **bytes > 0).count();
            ensure!(
                nodes == 1 || used == nodes,
                "{way} with {nodes} nodes moved {moved:?}: {}",
                finished.report()
            );
        }
        ensure!(
            tree.names(".")?
                .iter()
                .all(|name| !name.contains("gridftp-part"))
        );
    }
    Ok(())
}

#[test]
fn the_globus_client_uses_all_nodes_both_ways() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", SIZE, 4)?;
    let cluster = Cluster::start(tree.root(), 2)?;
    for (name, flags) in [
        ("plain", &["-p", "1"][..]),
        ("stripes", &["-stripe", "-p", "2"]),
        ("blocks", &["-stripe", "-p", "2", "-sbs", "262144"]),
        ("parts", &["-stripe", "-p", "2", "-sbs", "0"]),
    ] {
        let url = cluster.front().url(name);
        // It refuses to send parts (-sbs 0) itself.
        let sending = if name == "parts" {
            &["-stripe"][..]
        } else {
            flags
        };
        let Some(put) = globus(sending, &file_url(&local), &url)? else {
            return Ok(());
        };
        put.ok()?;
        same_file(&tree.path(name), &local).context(name)?;
        let back = other.path("back");
        if let Some(get) = globus(flags, &url, &file_url(&back))? {
            get.ok()?;
        }
        same_file(&back, &local).context(name)?;
        std::fs::remove_file(back)?;
    }
    Ok(())
}

#[test]
fn servers_copy_in_every_pairing() -> Result<()> {
    let trees = [Tree::new()?, Tree::new()?, Tree::new()?, Tree::new()?];
    let [one, two, plain, foreign] = &trees;
    for tree in &trees {
        tree.file("file", SIZE, 5)?;
    }
    // Data goes between servers in clear.
    let third = ["--third-party", "all"];
    let striped = [
        Cluster::start_with(one.root(), 2, &third, &[])?,
        Cluster::start_with(two.root(), 3, &third, &[])?,
    ];
    let whole = Host::ours_with(plain.root(), &third)?;
    let globus_server = Host::globus(foreign.root(), "interop: striped third party")?;
    let mut pairs = vec![
        (striped[0].front(), striped[1].front()),
        (striped[0].front(), &whole),
        (&whole, striped[1].front()),
    ];
    if let Some(server) = &globus_server {
        pairs.push((striped[0].front(), server));
        pairs.push((server, striped[1].front()));
    }
    for (n, (from, to)) in pairs.into_iter().enumerate() {
        for (client, name) in [("ours", format!("a{n}")), ("globus", format!("b{n}"))] {
            let (source, target) = (from.url("file"), to.url(&name));
            let done = match client {
                "ours" => Some(cp(&[], &source, &target)?),
                _ => globus(&["-stripe", "-p", "2"], &source, &target)?,
            };
            let Some(done) = done else { continue };
            done.ok().with_context(|| format!("pair {n} by {client}"))?;
            same_file(&to.path(&name), &from.path("file"))?;
        }
    }
    Ok(())
}

#[test]
fn data_of_all_nodes_is_private() -> Result<()> {
    let lab = GridLab::new()?;
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", SIZE, 6)?;
    let flags: Vec<String> = [
        ("--host-cert", "hostcert.pem"),
        ("--host-key", "hostkey.pem"),
        ("--ca-dir", "certificates"),
        ("--gridmap", "grid-mapfile"),
    ]
    .iter()
    .flat_map(|(flag, file)| [(*flag).to_owned(), lab.path(file).display().to_string()])
    .collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let cluster = Cluster::start_with(tree.root(), 2, &flags, &flags)?;
    let url = cluster
        .front()
        .url("file")
        .replace("127.0.0.1", "localhost");
    let url = url.replacen("ftp://", "gsiftp://", 1);
    for level in ["clear", "safe", "private"] {
        let copies = [
            (file_url(&local), url.clone()),
            (url.clone(), file_url(&other.path("back"))),
        ];
        for (from, to) in copies {
            let mut command = Command::new(binary("gridftp-cp")?);
            lab.login(&mut command);
            command.args(["--protect", level]).args([&from, &to]);
            run(&mut command, LIMIT)?
                .ok()
                .with_context(|| level.to_owned())?;
        }
        same_file(&tree.path("file"), &local)?;
        same_file(&other.path("back"), &local)?;
    }
    Ok(())
}

/// Ends or freezes a node in the middle of an upload and of a download by our client, which then
/// goes on over the others.
fn failing(signal: Signal) -> Result<()> {
    for put in [true, false] {
        let (tree, other) = (Tree::new()?, Tree::new()?);
        let (here, there) = match put {
            true => (&other, &tree),
            false => (&tree, &other),
        };
        let source = here.file("file", SIZE, 7)?;
        let mut cluster = Cluster::start(tree.root(), 3)?;
        let node = cluster.nodes().swap_remove(1);
        let relay = Relay::paced(cluster.front().addr(), Break::Never, RATE)?;
        let url = cluster.front().url_at(relay.addr(), "file");
        let (from, to) = match put {
            true => (file_url(&source), url),
            false => (url, file_url(&there.path("file"))),
        };
        let copying = thread::spawn(move || cp(&["--debug"], &from, &to));
        relay.wait_until_passed(SIZE / 4)?;
        node.signal(signal)?;
        // Others are served meanwhile.
        let begun = Instant::now();
        let small = other.file("small", 1000, 1)?;
        cp(&[], &file_url(&small), &cluster.front().url("small"))?.ok()?;
        ensure!(begun.elapsed() < NOTICED, "others waited for the node");
        let copied = copying.join();
        let copied = copied.map_err(|_| anyhow::anyhow!("the copy panicked"))??;
        let copied = copied.ok()?;
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
    failing(Signal::KILL)
}

#[test]
fn a_copy_survives_a_node_that_is_frozen() -> Result<()> {
    failing(Signal::STOP)
}

#[test]
fn nodes_are_listed_added_and_drained() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", SIZE, 8)?;
    let mut cluster = Cluster::start(tree.root(), 1)?;
    cluster.add_node(&["--capacity", "7"])?;
    let listed = cluster.list(&["--json"])?.ok()?;
    ensure!(
        listed.stdout.lines().count() == 2 && listed.stdout.contains("\"capacity\":7"),
        "{}",
        listed.report()
    );
    cluster.list(&["--drain", "node1"])?.ok()?;
    // A report from before the drain may still be on its way.
    let mut listed = cluster.list(&[])?.ok()?;
    for _ in 0..200 {
        if listed.stdout.contains("node1 draining") {
            break;
        }
        listed = cluster.list(&[])?.ok()?;
    }
    ensure!(
        listed.stdout.contains("node1 draining"),
        "{}",
        listed.report()
    );
    let put = cp(&["--json"], &file_url(&local), &cluster.front().url("file"))?.ok()?;
    ensure!(
        stripes(&put).len() <= 1,
        "a draining node was used: {}",
        put.report()
    );
    same_file(&tree.path("file"), &local)?;
    let unknown = cluster.list(&["--drain", "nobody"])?.failed()?;
    ensure!(unknown.stderr.contains("nobody"), "{}", unknown.report());
    Ok(())
}

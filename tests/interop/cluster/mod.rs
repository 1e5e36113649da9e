//! A front end of ours with data nodes: our client and the Globus one, and Globus servers as the
//! other end.

mod between;
mod disturbed;
mod failures;
mod fronts;
mod matrix;
mod objects;
mod pairings;
mod parts;
mod private;
mod proven;

use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Cluster, ClusterPlan, Finished, GridLab, Host, ObjectServer, ObjectServerKind, Peer, Place,
    Tree, binary, file_url, run, same_file,
};

const LIMIT: Duration = Duration::from_secs(120);

/// Large enough for stripes, and no multiple of a block.
const SIZE: u64 = (70 << 20) + 4099;

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
fn our_client_gets_an_object_from_all_nodes() -> Result<()> {
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let (local, back) = (other.file("file", SIZE, 3)?, other.path("back"));
    let storage = store.storage()?;
    let flags = ["--storage", &storage];
    let cluster = Cluster::start_with(tree.root(), 4, &flags, &flags)?;
    let url = cluster.front().url("file");
    cp(&["--json"], &file_url(&local), &url)?.ok()?;
    let get = cp(&["--json"], &url, &file_url(&back))?.ok()?;
    same_file(&back, &local)?;
    let moved = stripes(&get);
    ensure!(
        moved.len() == 4 && moved.iter().all(|bytes| *bytes > 0),
        "{moved:?}: {}",
        get.report()
    );
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
        fs::remove_file(back)?;
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

/// Nodes have addresses of their own, as they do on hosts of their own.
#[test]
fn small_files_and_listings_use_nodes_on_other_hosts() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", 100_003, 3)?;
    let plan = ClusterPlan {
        nodes: vec![Place::here(12)],
        ..ClusterPlan::new(0)?
    };
    let mut cluster = Cluster::of(tree.root(), &plan)?;
    // Afterwards a session has another node than the one that it knew.
    for name in ["one", "two"] {
        let url = cluster.front().url(name);
        for mode in ["extended", "stream"] {
            let flags = ["--mode", mode, "--retries", "0"];
            cp(&flags, &file_url(&local), &url)?.ok()?;
            same_file(&tree.path(name), &local)?;
            cp(&flags, &url, &file_url(&other.path("back")))?.ok()?;
            same_file(&other.path("back"), &local)?;
        }
        let mut list = Command::new(binary("gridftp-cp")?);
        let listed = run(list.args(["--list", &cluster.front().url("")]), LIMIT)?.ok()?;
        ensure!(listed.stdout.contains(name), "{}", listed.report());
        cluster.add_node_at(&Place::here(13), &[])?;
    }
    Ok(())
}

/// Single addresses are those of `EPSV` or of `SPAS 2` then.
#[test]
fn both_clients_use_nodes_over_ipv6() -> Result<()> {
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", SIZE, 12)?;
    let place = Place {
        prefix: Vec::new(),
        ip: Ipv6Addr::LOCALHOST.into(),
    };
    let plan = ClusterPlan {
        at: place.clone(),
        nodes: vec![place; 2],
        ..ClusterPlan::new(0)?
    };
    let cluster = Cluster::of(tree.root(), &plan)?;
    let (url, back) = (cluster.front().url("file"), other.path("back"));
    let ours: [&[&str]; 3] = [&["--mode", "stream"], &["--stripes", "off"], &[]];
    let theirs: [&[&str]; 3] = [
        &["-ipv6"],
        &["-ipv6", "-p", "2"],
        &["-ipv6", "-stripe", "-p", "2"],
    ];
    let ours = ours.map(|flags| (true, flags));
    for (is_ours, flags) in ours.into_iter().chain(theirs.map(|flags| (false, flags))) {
        for (from, to) in [(file_url(&local), &url), (url.clone(), &file_url(&back))] {
            let done = match is_ours {
                true => Some(cp(&[flags, &["--retries", "0"]].concat(), &from, to)?),
                false => globus(flags, &from, to)?,
            };
            let Some(done) = done else { return Ok(()) };
            done.ok()
                .with_context(|| format!("{flags:?}: {}", cluster.front().output()))?;
        }
        same_file(&back, &local)?;
        fs::remove_file(&back)?;
    }
    let mut list = Command::new(binary("gridftp-cp")?);
    let listed = run(list.args(["--list", &cluster.front().url("")]), LIMIT)?.ok()?;
    ensure!(listed.stdout.contains("file"), "{}", listed.report());
    let mut doctor = Command::new(binary("gridftp-cp")?);
    let told = run(doctor.args(["doctor", &cluster.front().url("")]), LIMIT)?;
    ensure!(told.stdout.contains("(SPAS)"), "{}", told.report());
    Ok(())
}

/// Flags of a front end and of its nodes for users of a Grid.
fn secured(lab: &GridLab) -> Vec<String> {
    let files = [
        ("--host-cert", "hostcert.pem"),
        ("--host-key", "hostkey.pem"),
        ("--ca-dir", "certificates"),
        ("--gridmap", "grid-mapfile"),
    ];
    files
        .iter()
        .flat_map(|(flag, file)| [(*flag).to_owned(), lab.path(file).display().to_string()])
        .collect()
}

/// The URL of a file for users of a Grid.
fn secure_url(host: &Host, name: &str) -> String {
    let url = host.url(name).replace("127.0.0.1", "localhost");
    url.replacen("ftp://", "gsiftp://", 1)
}

/// Copies up and down as a user of a Grid.
fn both_ways(
    lab: &GridLab,
    program: &str,
    words: &[&str],
    local: &Path,
    url: &str,
    back: &Path,
) -> Result<()> {
    let local_url = file_url(local);
    let back_url = file_url(back);
    for (from, to) in [(local_url.as_str(), url), (url, back_url.as_str())] {
        let mut command = match program {
            "gridftp-cp" => Command::new(binary(program)?),
            _ => match Peer::GlobusUrlCopy.require("interop") {
                Some(command) => command,
                None => return Ok(()),
            },
        };
        lab.login(&mut command);
        let done = run(command.args(words).args([from, to]), LIMIT)?.ok();
        done.with_context(|| format!("{words:?}"))?;
    }
    same_file(back, local)?;
    Ok(fs::remove_file(back)?)
}

#[test]
fn data_of_all_nodes_is_private() -> Result<()> {
    let lab = GridLab::new()?;
    let (tree, other) = (Tree::new()?, Tree::new()?);
    let local = other.file("file", SIZE, 6)?;
    let flags = secured(&lab);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let cluster = Cluster::start_with(tree.root(), 2, &flags, &flags)?;
    let url = secure_url(cluster.front(), "file");
    let ours = |level: &'static str| ("gridftp-cp", vec!["--protect", level]);
    let globus = ("globus-url-copy", vec!["-dcpriv", "-stripe", "-p", "2"]);
    for (program, words) in [ours("clear"), ours("safe"), ours("private"), globus] {
        both_ways(&lab, program, &words, &local, &url, &other.path("back"))?;
        same_file(&tree.path("file"), &local)?;
    }
    for nodes in [1, 4] {
        let tree = Tree::new()?;
        let cluster = Cluster::start_with(tree.root(), nodes, &flags, &flags)?;
        let url = secure_url(cluster.front(), "file");
        let (program, words) = ours("private");
        both_ways(&lab, program, &words, &local, &url, &other.path("back"))?;
    }
    // Between the nodes of two front ends.
    let second = Tree::new()?;
    let destination = Cluster::start_with(second.root(), 2, &flags, &flags)?;
    for (name, program) in [
        ("ours", Some(Command::new(binary("gridftp-cp")?))),
        ("globus", Peer::GlobusUrlCopy.require("interop")),
    ] {
        let Some(mut command) = program else { continue };
        lab.login(&mut command);
        command.args(match name {
            "ours" => &["--protect", "private"][..],
            _ => &["-dcpriv", "-stripe", "-p", "2"],
        });
        command.args([&url, &secure_url(destination.front(), name)]);
        run(&mut command, LIMIT)?.ok().with_context(|| {
            let (from, to) = (cluster.front().output(), destination.front().output());
            format!("{name}: source:\n{from}destination:\n{to}")
        })?;
        same_file(&second.path(name), &local)?;
    }
    Ok(())
}

/// A certificate of a node logs in nowhere and commands no cluster.
#[test]
fn the_certificate_of_a_node_is_of_no_use_to_a_client() -> Result<()> {
    let lab = GridLab::new()?;
    let tree = Tree::new()?;
    let flags = secured(&lab);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let cluster = Cluster::start_with(tree.root(), 1, &flags, &flags)?;
    for words in [&[][..], &["--drain", "node1"]] {
        let refused = cluster.list_as("node1", words)?.failed()?;
        ensure!(refused.stderr.contains("front"), "{}", refused.report());
    }
    let own = cluster.folder("node1");
    let credential = tree.path("credential");
    let read = |name: &str| fs::read_to_string(own.join(name));
    fs::write(&credential, read("cert.pem")? + &read("key.pem")?)?;
    rustix::fs::chmod(&credential, rustix::fs::Mode::RUSR)?;
    let mut command = Command::new(binary("gridftp-cp")?);
    command
        .env("X509_CERT_DIR", lab.path("certificates"))
        .env("X509_USER_CERT", &credential)
        .env("X509_USER_KEY", &credential)
        .env("X509_USER_PROXY", &credential)
        .args(["--retries", "0", &secure_url(cluster.front(), "file"), "-"]);
    let refused = run(&mut command, LIMIT)?.failed()?;
    ensure!(
        refused.stderr.contains("certificate"),
        "{}",
        refused.report()
    );
    let listed = cluster.list(&[])?.ok()?;
    ensure!(listed.stdout.contains("node1 ready"), "{}", listed.report());
    Ok(())
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

//! A Globus front end with two data nodes, and our client: one file over both.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_tests::{
    Break, Finished, GridLab, Host, Peer, Relay, Tree, binary, run, same_file, sha256, sha256_range,
};

const LIMIT: Duration = Duration::from_secs(120);

/// Large enough for stripes, and no multiple of a block.
const SIZE: u64 = (80 << 20) + 4099;

/// A front end and its data nodes over one tree.
pub(crate) struct Front {
    pub(crate) tree: Tree,
    pub(crate) host: Host,
    pub(crate) nodes: [Host; 2],
}

impl Front {
    pub(crate) fn start() -> Result<Option<Self>> {
        Self::of(None)
    }

    /// A front end for anonymous users, or for those of a Grid.
    pub(crate) fn of(lab: Option<&GridLab>) -> Result<Option<Self>> {
        let tree = Tree::new()?;
        let start = |flags: &[&str]| {
            let Some(mut command) = Peer::GlobusServer.require("interop") else {
                return Ok(None);
            };
            let flags = [flags, &["-no-si"]].concat();
            match lab {
                None => Host::globus_from(&mut command, tree.root(), &flags),
                Some(lab) => {
                    Host::globus_secured(lab.serve(&mut command).args(&flags), tree.root())
                }
            }
            .map(Some)
        };
        let node = || start(&["-dn", "-ipc-interface", "127.0.0.1"]);
        let (Some(one), Some(two)) = (node()?, node()?) else {
            return Ok(None);
        };
        let nodes = format!("{},{}", one.addr(), two.addr());
        let Some(host) = start(&["-r", &nodes])? else {
            return Ok(None);
        };
        Ok(Some(Self {
            tree,
            host,
            nodes: [one, two],
        }))
    }

    fn file(&self) -> Result<String> {
        self.tree.file("file", SIZE, 5)?;
        Ok(self.host.url("file"))
    }
}

/// Runs our client; returns the bytes of each stripe.
fn copy(flags: &[&str], from: &str, to: &str) -> Result<(Finished, Vec<u64>)> {
    copy_by(&mut Command::new(binary("gridftp-cp")?), flags, from, to)
}

fn copy_by(
    command: &mut Command,
    flags: &[&str],
    from: &str,
    to: &str,
) -> Result<(Finished, Vec<u64>)> {
    let finished = run(command.arg("--json").args(flags).args([from, to]), LIMIT)?.ok()?;
    let list = finished.stdout.split("\"stripes\":[").nth(1);
    let list = list.and_then(|rest| rest.split(']').next()).unwrap_or("");
    let bytes = list.split(',').filter(|number| !number.is_empty());
    let bytes = bytes.map(str::parse).collect::<Result<_, _>>()?;
    Ok((finished, bytes))
}

#[test]
fn an_upload_uses_both_nodes() -> Result<()> {
    let Some(front) = Front::start()? else {
        return Ok(());
    };
    let here = Tree::new()?;
    here.file("file", SIZE, 5)?;
    let from = here.path("file");
    let from = from.to_str().context("a path of text")?;
    for (flags, nodes) in [
        (&[][..], [true, true]),
        (&["-p", "3"], [true, true]),
        (&["--stripes", "1"], [false, false]),
    ] {
        let (finished, bytes) = copy(flags, from, &front.host.url("copy"))?;
        same_file(&here.path("file"), &front.tree.path("copy"))?;
        std::fs::remove_file(front.tree.path("copy"))?;
        if nodes == [false, false] {
            ensure!(bytes.is_empty(), "{flags:?}: {bytes:?}");
            continue;
        }
        ensure!(bytes.iter().sum::<u64>() == SIZE, "{flags:?}: {bytes:?}");
        let used: Vec<_> = bytes.iter().map(|bytes| *bytes > 0).collect();
        ensure!(used == nodes, "{flags:?}: {bytes:?}, {}", finished.report());
    }
    Ok(())
}

#[test]
fn a_download_comes_from_both_nodes() -> Result<()> {
    let Some(front) = Front::start()? else {
        return Ok(());
    };
    let (from, here) = (front.file()?, Tree::new()?);
    for flags in [
        &[][..],
        &["-p", "3"],
        &["--stripe-block", "64K"],
        &["--stripe-layout", "partitioned"],
        &["--stripes", "off"],
    ] {
        let to = here.path("copy");
        let flags = [flags, &["--debug"]].concat();
        let (finished, _) = copy(&flags, &from, to.to_str().context("a path of text")?)?;
        same_file(&front.tree.path("file"), &to)?;
        std::fs::remove_file(to)?;
        let is_striped = finished.stderr.contains("> SPOR ");
        ensure!(
            is_striped != flags.contains(&"off"),
            "{}",
            finished.report()
        );
    }
    Ok(())
}

#[test]
fn a_part_of_a_file_is_copied_both_ways() -> Result<()> {
    const PART: (u64, u64) = (1000, 70 << 20);
    let Some(front) = Front::start()? else {
        return Ok(());
    };
    let (from, here) = (front.file()?, Tree::new()?);
    let part = ["--offset", "1000", "--length", "70M"];
    let here: [PathBuf; 2] = ["copy", "file"].map(|name| here.path(name));
    let [copied, whole] = here
        .each_ref()
        .map(|path| path.to_str().unwrap_or_default());
    copy(&part, &from, copied)?;
    copy(&[], &from, whole)?;
    copy(&part, whole, &front.host.url("part"))?;
    let expected = sha256_range(&front.tree.path("file"), PART.0, PART.1)?;
    for path in [&here[0], &front.tree.path("part")] {
        let found = sha256_range(path, PART.0, PART.1)?;
        ensure!(found == expected, "{} differs", path.display());
    }
    Ok(())
}

/// The data goes from every stripe of one front end to those of the other, from one server to two
/// nodes, and from two nodes to one server, which gets one connection.
#[test]
fn servers_copy_in_every_pairing() -> Result<()> {
    let (Some(one), Some(two)) = (Front::start()?, Front::start()?) else {
        return Ok(());
    };
    let (globus, ours) = (Tree::new()?, Tree::new()?);
    let Some(plain) = Host::globus(globus.root(), "interop")? else {
        return Ok(());
    };
    let own = Host::ours_with(ours.root(), &["--third-party", "all"])?;
    let expected = {
        one.file()?;
        sha256(&one.tree.path("file"))?
    };
    for tree in [&globus, &ours] {
        tree.file("file", SIZE, 5)?;
    }
    for (name, from, to, at, stripes) in [
        (
            "front to front",
            &one.host,
            &two.host,
            two.tree.path("one"),
            2,
        ),
        ("plain to front", &plain, &two.host, two.tree.path("two"), 2),
        ("ours to front", &own, &two.host, two.tree.path("three"), 2),
        ("front to plain", &one.host, &plain, globus.path("one"), 0),
        ("front to ours", &one.host, &own, ours.path("two"), 0),
    ] {
        let file = at.file_name().and_then(|name| name.to_str());
        let to = to.url(file.context("a name of text")?);
        let (finished, bytes) = copy(&["-p", "2"], &from.url("file"), &to)?;
        ensure!(sha256(&at)? == expected, "{name}: the copy differs");
        ensure!(
            bytes.len() == stripes,
            "{name}: {bytes:?} {}",
            finished.report()
        );
    }
    Ok(())
}

/// Connections of both stripes, or all, break in the middle.
#[test]
fn copies_that_break_are_completed() -> Result<()> {
    const AFTER: u64 = 30_000_000;
    let (Some(front), Some(other)) = (Front::start()?, Front::start()?) else {
        return Ok(());
    };
    let here = Tree::new()?;
    here.file("file", SIZE, 5)?;
    front.file()?;
    let path = |name: &str| here.path(name).to_string_lossy().into_owned();
    for (name, plan) in [
        ("data", Break::Data { after: AFTER }),
        ("all", Break::Everything { after: AFTER }),
    ] {
        for way in ["put", "get", "third"] {
            let end = if way == "third" { &other } else { &front };
            let relay = Relay::start(end.host.addr(), plan)?;
            let relayed = |file: &str| end.host.url_at(relay.addr(), file);
            let file = format!("{way}-{name}");
            let (from, to, copied) = match way {
                "put" => (path("file"), relayed(&file), front.tree.path(&file)),
                "get" => (relayed("file"), path(&file), here.path(&file)),
                _ => (
                    front.host.url("file"),
                    relayed(&file),
                    other.tree.path(&file),
                ),
            };
            let (finished, _) = copy(&["--retries", "3", "--debug"], &from, &to)
                .with_context(|| format!("{way} {name}"))?;
            ensure!(relay.broke(), "{way} {name}: {}", finished.report());
            let is_striped = finished.stderr.contains("> SPAS");
            ensure!(is_striped, "{way} {name}: {}", finished.report());
            same_file(&here.path("file"), &copied).with_context(|| format!("{way} {name}"))?;
        }
    }
    Ok(())
}

/// The nodes get the delegated credential of the session.
#[test]
fn data_of_both_nodes_is_private() -> Result<()> {
    let lab = GridLab::new()?;
    let Some(front) = Front::of(Some(&lab))? else {
        return Ok(());
    };
    let here = Tree::new()?;
    here.file("file", SIZE, 5)?;
    let url = |name| {
        let url = front.host.url(name).replace("127.0.0.1", "localhost");
        url.replacen("ftp://", "gsiftp://", 1)
    };
    let path = |name| here.path(name).to_string_lossy().into_owned();
    let client = || -> Result<Command> {
        let mut command = Command::new(binary("gridftp-cp")?);
        lab.login(&mut command);
        Ok(command)
    };
    let (_, bytes) = copy_by(&mut client()?, &[], &path("file"), &url("copy"))?;
    same_file(&here.path("file"), &front.tree.path("copy"))?;
    ensure!(bytes.len() == 2, "{bytes:?}");
    let (finished, _) = copy_by(&mut client()?, &["--debug"], &url("copy"), &path("back"))?;
    same_file(&here.path("file"), &here.path("back"))?;
    let both = finished.stderr.contains("> SPOR ") && finished.stderr.contains("> PROT P");
    ensure!(both, "{}", finished.report());
    Ok(())
}

//! Copies from server to server of every number of nodes, over both storages, with both clients:
//! whole files and parts, private data, and copies that break.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Break, Cluster, Finished, GridLab, Host, ObjectServer, ObjectServerKind, Peer, Relay, Tree,
    binary, file_url, run, same_file,
};

use super::matrix::Client;
use super::parts::{AFTER, same_part};
use super::{LIMIT, SIZE, cp, globus, secure_url, secured, stripes};
use crate::striped::Front;

/// A server, and the place where its files are found.
struct End<'a> {
    host: &'a Host,
    name: &'static str,
    /// The store of its files.
    store: Option<&'a ObjectServer>,
}

impl<'a> End<'a> {
    fn files(name: &'static str, host: &'a Host) -> Self {
        let store = None;
        Self { host, name, store }
    }

    fn of(name: &'static str, host: &'a Host, store: Option<&'a ObjectServer>) -> Self {
        Self { host, name, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        match self.store {
            Some(store) => store.object(name),
            None => self.host.path(name),
        }
    }
}

/// Two clusters, of one node and of four, over a tree each or over one store.
struct Both {
    trees: [Tree; 2],
    clusters: [Cluster; 2],
    store: Option<ObjectServer>,
}

impl Both {
    /// Starts them, each with a file.
    fn start(store: Option<ObjectServer>, flags: &[&str], counts: [usize; 2]) -> Result<Self> {
        let trees = [Tree::new()?, Tree::new()?];
        let storage = store.as_ref().map(ObjectServer::storage).transpose()?;
        let storage: Vec<&str> = storage.iter().flat_map(|it| ["--storage", it]).collect();
        let front = [&["--third-party", "all"], flags, &storage].concat();
        let node = [flags, &storage].concat();
        let start = |tree: &Tree, count| -> Result<Cluster> {
            let file = tree.file("file", SIZE, 51)?;
            let cluster = Cluster::start_with(tree.root(), count, &front, &node)?;
            if let Some(store) = &store {
                // The file of an object has more than its bytes, so it is made by a copy.
                let bucket = store.object("file");
                ensure!(bucket.exists() || fill(store, &file)?, "no object");
            }
            Ok(cluster)
        };
        let clusters = [start(&trees[0], counts[0])?, start(&trees[1], counts[1])?];
        Ok(Self {
            trees,
            clusters,
            store,
        })
    }

    fn ends(&self) -> [End<'_>; 2] {
        let [one, two] = &self.clusters;
        let store = self.store.as_ref();
        [
            End::of("one", one.front(), store),
            End::of("two", two.front(), store),
        ]
    }

    fn file(&self) -> PathBuf {
        self.trees[0].path("file")
    }
}

/// Stores `file` as an object of the same name.
fn fill(store: &ObjectServer, file: &Path) -> Result<bool> {
    let tree = Tree::new()?;
    let host = Host::ours_with(tree.root(), &["--storage", &store.storage()?])?;
    cp(&[], &file_url(file), &host.url("file"))?.ok()?;
    Ok(store.object("file").exists())
}

/// Both of our servers with each other and with each of the others, both ways.
fn pairs<'a>(ours: &'a [End<'a>; 2], others: &'a [End<'a>]) -> Vec<(&'a End<'a>, &'a End<'a>)> {
    let [one, two] = ours;
    let mut pairs = vec![(one, two), (two, one)];
    for end in ours {
        pairs.extend(others.iter().flat_map(|other| [(end, other), (other, end)]));
    }
    pairs
}

/// Between front ends of one node and of four, a Globus server and a Globus front end.
fn every_pairing(store: Option<ObjectServer>) -> Result<()> {
    let both = Both::start(store, &[], [1, 4])?;
    let ours = both.ends();
    let foreign = Tree::new()?;
    foreign.file("file", SIZE, 51)?;
    let (Some(plain), Some(front)) = (Host::globus(foreign.root(), "interop")?, Front::start()?)
    else {
        return Ok(());
    };
    front.tree.file("file", SIZE, 51)?;
    let others = [
        End::files("globus", &plain),
        End::files("globus front", &front.host),
    ];
    let file = both.file();
    for (from, to) in pairs(&ours, &others) {
        for client in Client::all() {
            for is_part in [false, true] {
                // An object is replaced as a whole.
                if is_part && to.store.is_some() {
                    continue;
                }
                let row = format!(
                    "{client:?} from {} to {}, part: {is_part}",
                    from.name, to.name
                );
                let name = format!("{client:?}-{is_part}-{}", from.name.replace(' ', "-"));
                let (source, target) = (from.host.url("file"), to.host.url(&name));
                client.copy(is_part, (&source, &target)).with_context(|| {
                    let (from, to) = (from.host.output(), to.host.output());
                    format!("{row}\nsource:\n{from}\ndestination:\n{to}")
                })?;
                let copied = to.path(&name);
                match is_part {
                    false => same_file(&copied, &file),
                    true => same_part(&copied, &file),
                }
                .context(row)?;
                fs::remove_file(copied)?;
            }
        }
    }
    Ok(())
}

#[test]
fn servers_of_one_node_and_of_four_copy_in_every_pairing() -> Result<()> {
    every_pairing(None)
}

#[test]
fn servers_of_one_node_and_of_four_copy_objects_in_every_pairing() -> Result<()> {
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    every_pairing(Some(store))
}

/// Runs a client as a user of the Grid, with private data.
fn private(lab: &GridLab, client: Client, from: &str, to: &str) -> Result<Finished> {
    let (mut command, flags) = match client {
        Client::Ours => (
            Command::new(binary("gridftp-cp")?),
            &["--protect", "private"][..],
        ),
        Client::Globus => (
            Peer::GlobusUrlCopy
                .require("interop")
                .context("no client")?,
            &["-dcpriv", "-stripe", "-p", "2"][..],
        ),
    };
    lab.login(&mut command);
    run(command.args(flags).args([from, to]), LIMIT)?.ok()
}

/// Between front ends of one node and of four and a server without nodes, over both storages.
#[test]
fn private_data_goes_between_servers_of_every_number_of_nodes() -> Result<()> {
    let lab = GridLab::new()?;
    let flags = secured(&lab);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    let tree = Tree::new()?;
    tree.file("file", SIZE, 51)?;
    let whole = Host::ours_with(tree.root(), &flags)?;
    let others = [End::files("whole", &whole)];
    for store in [None, Some(store)] {
        let both = Both::start(store, &flags, [1, 4])?;
        let ours = both.ends();
        for (from, to) in pairs(&ours, &others) {
            for client in Client::all() {
                let name = format!("{client:?}-{}", from.name);
                let ends = (secure_url(from.host, "file"), secure_url(to.host, &name));
                let done = private(&lab, client, &ends.0, &ends.1);
                let row = || {
                    let (from_log, to_log) = (from.host.output(), to.host.output());
                    let row = format!("{client:?} from {} to {}", from.name, to.name);
                    format!("{row}\nsource:\n{from_log}\ndestination:\n{to_log}")
                };
                done.with_context(row)?;
                same_file(&to.path(&name), &both.file()).with_context(row)?;
                fs::remove_file(to.path(&name))?;
            }
        }
    }
    Ok(())
}

/// A copy all of whose connections to one of the two servers break, and which goes on.
fn broken(client: Client, from: &End<'_>, to: &End<'_>, at_source: bool) -> Result<()> {
    let behind = if at_source { from } else { to };
    let relay = Relay::start(behind.host.addr(), Break::Everything { after: AFTER })?;
    let url = |end: &End<'_>, is_behind, name: &str| match is_behind {
        true => end.host.url_at(relay.addr(), name),
        false => end.host.url(name),
    };
    let (source, target) = (url(from, at_source, "file"), url(to, !at_source, "copy"));
    let done = match client {
        Client::Ours => cp(&["--retries", "3", "--debug"], &source, &target)?,
        Client::Globus => {
            let flags = ["-rst", "-rst-interval", "1", "-stripe", "-p", "2"];
            globus(&flags, &source, &target)?.context("no client")?
        }
    };
    let done = done.ok()?;
    ensure!(relay.broke(), "{}", done.report());
    same_file(&to.path("copy"), &from.path("file"))?;
    Ok(fs::remove_file(to.path("copy"))?)
}

/// Between our front ends, a Globus one and a server without nodes.
fn broken_in_every_pairing(store: Option<ObjectServer>, counts: [usize; 2]) -> Result<()> {
    let both = Both::start(store, &[], counts)?;
    let ours = both.ends();
    let tree = Tree::new()?;
    tree.file("file", SIZE, 51)?;
    let whole = Host::ours_with(tree.root(), &["--third-party", "all"])?;
    let Some(front) = Front::start()? else {
        return Ok(());
    };
    front.tree.file("file", SIZE, 51)?;
    let (whole, front) = (
        End::files("whole", &whole),
        End::files("globus front", &front.host),
    );
    let [one, two] = &ours;
    for client in Client::all() {
        for (from, to) in [
            (one, two),
            (two, one),
            (one, &front),
            (&front, two),
            (one, &whole),
            (&whole, two),
        ] {
            for at_source in [false, true] {
                if at_source && client == Client::Globus {
                    continue;
                }
                broken(client, from, to, at_source).with_context(|| {
                    let row = format!("{client:?} from {} to {}", from.name, to.name);
                    let (from, to) = (from.host.output(), to.host.output());
                    format!("{row}, at the source: {at_source}\n{from}\ndestination:\n{to}")
                })?;
            }
        }
    }
    if let Some(store) = &both.store {
        store.wait_for_no_orphans()?;
    }
    Ok(())
}

#[test]
fn copies_between_servers_that_break_are_completed() -> Result<()> {
    broken_in_every_pairing(None, [2, 2])
}

#[test]
fn copies_of_objects_between_servers_that_break_are_completed() -> Result<()> {
    let Some(store) = ObjectServer::start(ObjectServerKind::Versitygw)? else {
        return Ok(());
    };
    broken_in_every_pairing(Some(store), [1, 4])
}

#[test]
fn as_many_nodes_as_the_client_wishes_take_part() -> Result<()> {
    let both = Both::start(None, &[], [4, 4])?;
    let [one, two] = both.ends();
    let (local, here) = (both.file(), Tree::new()?);
    let back = here.path("back");
    for wish in [2, 3] {
        let flags = ["--json", "--stripes", &wish.to_string()];
        for (way, from, to) in [
            ("put", file_url(&local), one.host.url("put")),
            ("get", one.host.url("file"), file_url(&back)),
            ("third party", one.host.url("file"), two.host.url("third")),
        ] {
            let done = cp(&flags, &from, &to)?.ok()?;
            let moved = stripes(&done);
            let used = moved.iter().filter(|bytes| **bytes > 0).count();
            ensure!(
                used == wish && moved.iter().sum::<u64>() == SIZE,
                "{way} of {wish} moved {moved:?}: {}",
                done.report()
            );
        }
        for copied in [&back, &one.path("put"), &two.path("third")] {
            same_file(copied, &local)?;
            fs::remove_file(copied)?;
        }
    }
    Ok(())
}

/// The layout that the client wishes of the nodes of a source, to itself and to another server.
#[test]
fn nodes_send_the_parts_that_the_client_wishes() -> Result<()> {
    let both = Both::start(None, &[], [4, 2])?;
    let [one, two] = both.ends();
    let (local, here) = (both.file(), Tree::new()?);
    let back = here.path("back");
    let quarter = SIZE.div_ceil(4);
    let block = 16_u64 << 20;
    // Four whole blocks in turn, and the rest to the first.
    let blocks = [block + SIZE - 4 * block, block, block, block];
    let parts = [quarter, quarter, quarter, SIZE - 3 * quarter];
    for (flags, expected) in [
        (["--stripe-layout", "partitioned"], parts),
        (["--stripe-block", "16M"], blocks),
    ] {
        for (to, copied) in [
            (file_url(&back), back.clone()),
            (two.host.url("x"), two.path("x")),
        ] {
            let flags = [&["--json"], &flags[..]].concat();
            let done = cp(&flags, &one.host.url("file"), &to)?.ok()?;
            let moved = stripes(&done);
            // Stripes of a copy between servers are those of the destination.
            let is_get = copied == back;
            ensure!(
                moved.iter().sum::<u64>() == SIZE && (!is_get || moved == expected),
                "{flags:?} moved {moved:?}, not {expected:?}: {}",
                done.report()
            );
            same_file(&copied, &local)?;
            fs::remove_file(&copied)?;
        }
    }
    Ok(())
}

//! One large file over nodes on loopback: beside one server of ours, and beside the Globus nodes.

use std::process::Command;

use anyhow::Result;
use workspace_benches::pair::{Side, measured};
use workspace_benches::ratio::{Cost, Line, alternate};
use workspace_tests::{Cluster, Host, Peer, Place, Tree};

use crate::options::Options;
use workspace_benches::copying::{Client, FILE, Way};

/// Connections of a copy beside one server, which has as many over several nodes.
const STREAMS: [(&str, usize); 3] = [("1", 1), ("4", 1), ("4", 2)];

/// Has the nodes sync no more than the servers beside them.
const UNSYNCED: [&str; 1] = ["--sync-writes=false"];

/// Measures a front end with nodes beside one server, with as many connections.
pub(crate) fn beside_one_server(options: &Options) -> Result<Vec<Line>> {
    let Some(client) = Client::find(Side::Ours, Place::here(1))? else {
        return Ok(Vec::new());
    };
    let (tree, size) = large(options)?;
    let whole = Host::ours(tree.root())?;
    let mut lines = Vec::new();
    for (streams, nodes) in STREAMS {
        let cluster = Cluster::start_with(tree.root(), nodes, &UNSYNCED, &[])?;
        // Each node gets its part of them.
        let each = (streams.parse::<usize>()? / nodes).to_string();
        for way in Way::ALL {
            let copy = |server: &Host, streams: &str| -> Result<Cost> {
                let flags = ["--mode", "extended", "-p", streams];
                measured(Some(server), || client.copy(&flags, server, &tree, way))
            };
            let (ours, bare) = alternate(
                options.scale.runs(),
                || copy(cluster.front(), &each),
                || copy(&whole, streams),
            )?;
            let plural = if nodes == 1 { "" } else { "s" };
            let what = format!(
                "{} MiB {}, {streams} streams, front end and {nodes} node{plural} beside one server",
                size >> 20,
                way.name()
            );
            lines.push(Line::of_costs(what, ours, bare, ("0.95", 0.95)));
        }
    }
    Ok(lines)
}

/// Measures a front end of ours with two nodes beside one of the Globus project, each with its
/// client.
pub(crate) fn beside_globus(options: &Options) -> Result<Vec<Line>> {
    let here = || Place::here(1);
    let (Some(ours), Some(globus)) = (
        Client::find(Side::Ours, here())?,
        Client::find(Side::Globus, here())?,
    ) else {
        return Ok(Vec::new());
    };
    let (tree, size) = large(options)?;
    let Some(theirs) = Globus::start(&tree)? else {
        return Ok(Vec::new());
    };
    let cluster = Cluster::start_with(tree.root(), 2, &UNSYNCED, &[])?;
    let mut lines = Vec::new();
    for streams in ["1", "2"] {
        for way in Way::ALL {
            let (us, them) = alternate(
                options.scale.runs(),
                || {
                    let flags = ["--mode", "extended", "-p", streams];
                    let server = cluster.front();
                    measured(Some(server), || ours.copy(&flags, server, &tree, way))
                },
                || {
                    // Without a block size it sends all to one node.
                    let flags = ["-stripe", "-p", streams, "-sbs", "1048576"];
                    let server = &theirs.front;
                    measured(Some(server), || globus.copy(&flags, server, &tree, way))
                },
            )?;
            let what = format!(
                "{} MiB {}, 2 nodes, {streams} streams each, against the Globus nodes",
                size >> 20,
                way.name()
            );
            lines.push(Line::of_costs(what, us, them, ("1.5", 1.5)));
        }
    }
    Ok(lines)
}

/// The large file, in memory where there is room.
fn large(options: &Options) -> Result<(Tree, u64)> {
    let size = options.scale.amount(1 << 30, 128 << 20);
    let tree = Tree::roomy(2 * size)?;
    tree.file(FILE, size, 1)?;
    Ok((tree, size))
}

/// A Globus front end with two nodes.
struct Globus {
    front: Host,
    _nodes: [Host; 2],
}

impl Globus {
    /// Starts them over a tree, or returns nothing where the server is missing.
    fn start(tree: &Tree) -> Result<Option<Self>> {
        let Some(server) = Peer::GlobusServer.require("bench striping") else {
            return Ok(None);
        };
        let start = |flags: &[&str]| {
            let flags = [flags, &["-no-si"]].concat();
            Host::globus_from(&mut Command::new(server.get_program()), tree.root(), &flags)
        };
        let node = || start(&["-dn", "-ipc-interface", "127.0.0.1"]);
        let nodes = [node()?, node()?];
        let named = nodes.each_ref().map(|node| node.addr().to_string());
        Ok(Some(Self {
            front: start(&["-r", &named.join(",")])?,
            _nodes: nodes,
        }))
    }
}

//! `Cluster`: a front end and its data nodes, over one tree.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::{Daemon, Finished, Host, Tree, binary, run};

/// Longest time of a command about the cluster.
const LIMIT: Duration = Duration::from_secs(30);

/// A front end and its data nodes on this machine.
#[derive(Debug)]
pub struct Cluster {
    front: Host,
    nodes: Vec<Daemon>,
    /// The address of the front end for nodes.
    address: SocketAddr,
    folder: Tree,
    program: PathBuf,
}

impl Cluster {
    /// Starts a front end, open to anonymous users, and `nodes` data nodes over `root`.
    pub fn start(root: &Path, nodes: usize) -> Result<Self> {
        Self::start_with(root, nodes, &[], &[])
    }

    /// As [`start`](Self::start), with these flags of the front end and of the nodes.
    pub fn start_with(root: &Path, nodes: usize, front: &[&str], node: &[&str]) -> Result<Self> {
        Self::of(binary("gridftp-server")?, root, nodes, (front, node))
    }

    /// As [`start`](Self::start), with the given build of the server.
    pub fn from_binary(program: &Path, root: &Path, nodes: usize) -> Result<Self> {
        Self::of(program.to_path_buf(), root, nodes, (&[], &[]))
    }

    fn of(
        program: PathBuf,
        root: &Path,
        nodes: usize,
        (front, node): (&[&str], &[&str]),
    ) -> Result<Self> {
        let folder = Tree::new()?;
        let mut init = cluster_command(&program, "init", &folder.path("front"));
        run(init.args(["--name", "front"]), LIMIT)?.ok()?;
        let mut command = Command::new(&program);
        command
            .args([
                "front",
                "--bind",
                "127.0.0.1",
                "--port",
                "0",
                "--anonymous",
                "rw",
            ])
            .args(["--cluster-listen", "127.0.0.1:0", "--cluster"])
            .arg(folder.path("front"))
            .args(front);
        let front = Host::ours_from(command.arg("--root").arg(root), root)?;
        let output = front.output();
        let address = output
            .lines()
            .find_map(|line| line.strip_prefix("listening for data nodes on "))
            .context("the front end names no address for nodes")?
            .parse()?;
        let mut cluster = Self {
            front,
            nodes: Vec::new(),
            address,
            folder,
            program,
        };
        for _ in 0..nodes {
            cluster.add_node(node)?;
        }
        Ok(cluster)
    }

    /// Starts one more data node, and waits until the front end has registered it.
    pub fn add_node(&mut self, flags: &[&str]) -> Result<()> {
        let name = format!("node{}", self.nodes.len() + 1);
        let own = self.folder.path(&name);
        let address = self.address.to_string();
        let mut token = cluster_command(&self.program, "token", &self.folder.path("front"));
        let token = run(token.args(["--address", &address]), LIMIT)?.ok()?;
        let mut join = cluster_command(&self.program, "join", &own);
        run(join.args(["--name", &name, token.stdout.trim()]), LIMIT)?.ok()?;
        let mut command = Command::new(&self.program);
        command
            .args([
                "node",
                "--bind",
                "127.0.0.1",
                "--front",
                &address,
                "--cluster",
            ])
            .arg(own)
            .args(flags);
        command.arg("--root").arg(self.front.root());
        let node = Daemon::start(&mut command, |line| {
            // A node has no address of its own.
            (line == "serving as a data node").then(|| SocketAddr::from(([0; 4], 0)))
        })?;
        self.nodes.push(node);
        let front = self.front.daemon();
        front.wait_for(&format!("node registered node=\"{name}\""))
    }

    /// Returns the front end.
    pub fn front(&self) -> &Host {
        &self.front
    }

    /// `gridftp-server nodes` with these flags, at the front end.
    pub fn list(&self, flags: &[&str]) -> Result<Finished> {
        let mut command = Command::new(&self.program);
        command
            .args(["nodes", "--front", &self.address.to_string(), "--cluster"])
            .arg(self.folder.path("front"))
            .args(flags);
        run(&mut command, LIMIT)
    }

    /// Returns the data nodes.
    pub fn nodes(&mut self) -> &mut Vec<Daemon> {
        &mut self.nodes
    }

    /// The address of the front end for nodes.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// `gridftp-server cluster COMMAND --cluster FOLDER`.
fn cluster_command(program: &Path, name: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["cluster", name, "--cluster"]).arg(folder);
    command
}

//! `Cluster`: front ends and their data nodes, over one tree.

use std::iter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::{Daemon, Finished, Host, Tree, binary, run};

/// Longest time of a command about the cluster.
const LIMIT: Duration = Duration::from_secs(30);

/// A host of programs: this one with one of its addresses, or a network namespace.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by tests, field by field")]
pub struct Place {
    /// Words before the program.
    pub prefix: Vec<String>,
    /// Address of the host.
    pub ip: IpAddr,
}

impl Place {
    /// This host, with the address 127.0.0.`last`.
    pub fn here(last: u8) -> Self {
        Self {
            prefix: Vec::new(),
            ip: Ipv4Addr::new(127, 0, 0, last).into(),
        }
    }

    /// Returns a command that runs `program` on this host.
    pub fn command(&self, program: &Path) -> Command {
        let Some((first, rest)) = self.prefix.split_first() else {
            return Command::new(program);
        };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command
    }
}

/// The members of a cluster to start.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by tests, field by field")]
pub struct ClusterPlan<'a> {
    /// Build of the server.
    pub program: PathBuf,
    /// Flags of the front ends.
    pub front: &'a [&'a str],
    /// Flags of the nodes.
    pub node: &'a [&'a str],
    /// Host of the front ends.
    pub at: Place,
    /// Number of front ends.
    pub fronts: usize,
    /// Hosts of the nodes.
    pub nodes: Vec<Place>,
}

impl ClusterPlan<'_> {
    /// One front end and `nodes` data nodes on this host, with the address 127.0.0.1.
    pub fn new(nodes: usize) -> Result<Self> {
        Ok(Self::of_program(binary("gridftp-server")?, nodes))
    }

    /// As [`new`](Self::new), with this build of the server.
    pub fn of_program(program: PathBuf, nodes: usize) -> Self {
        Self {
            program,
            front: &[],
            node: &[],
            at: Place::here(1),
            fronts: 1,
            nodes: vec![Place::here(1); nodes],
        }
    }
}

/// Front ends and their data nodes on this machine.
#[derive(Debug)]
pub struct Cluster {
    front: Front,
    others: Vec<Front>,
    nodes: Vec<Daemon>,
    members: Members,
}

/// The front end with the authority of the cluster.
const FIRST: &str = "front";

#[derive(Debug)]
struct Front {
    host: Host,
    /// Its address for nodes.
    address: SocketAddr,
}

/// The folders of the members.
#[derive(Debug)]
struct Members {
    folder: Tree,
    program: PathBuf,
    at: Place,
}

impl Cluster {
    /// Starts a front end, open to anonymous users, and `nodes` data nodes over `root`.
    pub fn start(root: &Path, nodes: usize) -> Result<Self> {
        Self::of(root, &ClusterPlan::new(nodes)?)
    }

    /// As [`start`](Self::start), with these flags of the front end and of the nodes.
    pub fn start_with(root: &Path, nodes: usize, front: &[&str], node: &[&str]) -> Result<Self> {
        let plan = ClusterPlan::new(nodes)?;
        Self::of(
            root,
            &ClusterPlan {
                front,
                node,
                ..plan
            },
        )
    }

    /// As [`start`](Self::start), with the given build of the server.
    pub fn from_binary(program: &Path, root: &Path, nodes: usize) -> Result<Self> {
        Self::of(root, &ClusterPlan::of_program(program.to_path_buf(), nodes))
    }

    /// Starts the members of a plan over `root`, open to anonymous users.
    pub fn of(root: &Path, plan: &ClusterPlan<'_>) -> Result<Self> {
        let members = Members {
            folder: Tree::new()?,
            program: plan.program.clone(),
            at: plan.at.clone(),
        };
        let mut init = members.command("init", FIRST);
        run(init.args(["--name", FIRST]), LIMIT)?.ok()?;
        let mut cluster = Self {
            front: members.begin_front(root, plan, FIRST, &[])?,
            others: Vec::new(),
            nodes: Vec::new(),
            members,
        };
        for number in 2..=plan.fronts {
            let (name, members) = (format!("{FIRST}{number}"), &cluster.members);
            members.join(&plan.at, &name, &["--front"], cluster.address())?;
            let authority = cluster.address().to_string();
            let flags = ["--authority", &authority];
            let front = members.begin_front(root, plan, &name, &flags)?;
            cluster.others.push(front);
        }
        for place in &plan.nodes {
            cluster.add_node_at(place, plan.node)?;
        }
        Ok(cluster)
    }

    /// Starts one more data node, and waits until every front end has registered it.
    pub fn add_node(&mut self, flags: &[&str]) -> Result<()> {
        self.add_node_at(&Place::here(1), flags)
    }

    /// As [`add_node`](Self::add_node), on another host.
    pub fn add_node_at(&mut self, place: &Place, flags: &[&str]) -> Result<()> {
        let others = self.others.iter().map(|front| front.address);
        let fronts: Vec<_> = iter::once(self.front.address).chain(others).collect();
        self.add_node_through(&fronts, place, flags)
    }

    /// As [`add_node_at`](Self::add_node_at), with a node that reaches the front ends at these
    /// addresses.
    pub fn add_node_through(
        &mut self,
        fronts: &[SocketAddr],
        place: &Place,
        flags: &[&str],
    ) -> Result<()> {
        let name = format!("node{}", self.nodes.len() + 1);
        self.members.join(place, &name, &[], self.address())?;
        let mut command = place.command(&self.members.program);
        command.args(["node", "--bind", &place.ip.to_string()]);
        for front in fronts {
            command.args(["--front", &front.to_string()]);
        }
        command.arg("--cluster").arg(self.folder(&name)).args(flags);
        command.arg("--root").arg(self.front().root());
        let node = Daemon::start(&mut command, |line| {
            // A node has no address of its own.
            (line == "serving as a data node").then(|| SocketAddr::from(([0; 4], 0)))
        })?;
        self.nodes.push(node);
        for front in iter::once(&self.front).chain(&self.others) {
            let registered = format!("node registered node=\"{name}\"");
            front.host.daemon().wait_for(&registered)?;
        }
        Ok(())
    }

    /// Returns the first front end.
    pub fn front(&self) -> &Host {
        &self.front.host
    }

    /// Returns the other front ends.
    pub fn other_fronts(&self) -> impl Iterator<Item = &Host> {
        self.others.iter().map(|front| &front.host)
    }

    /// Runs `gridftp-server nodes` with these flags, at the first front end.
    pub fn list(&self, flags: &[&str]) -> Result<Finished> {
        self.list_as(FIRST, flags)
    }

    /// As [`list`](Self::list), with the certificate of this member.
    pub fn list_as(&self, member: &str, flags: &[&str]) -> Result<Finished> {
        let mut command = self.members.at.command(&self.members.program);
        command
            .args(["nodes", "--front", &self.address().to_string(), "--cluster"])
            .arg(self.folder(member))
            .args(flags);
        run(&mut command, LIMIT)
    }

    /// Returns the folder with the certificate of a member: `front`, `front2`, `node1` and so on.
    pub fn folder(&self, member: &str) -> PathBuf {
        self.members.folder.path(member)
    }

    /// Returns the data nodes.
    pub fn nodes(&mut self) -> &mut Vec<Daemon> {
        &mut self.nodes
    }

    /// Returns the address of the first front end for nodes.
    pub fn address(&self) -> SocketAddr {
        self.front.address
    }
}

impl Members {
    /// Starts a front end, whose folder exists.
    fn begin_front(
        &self,
        root: &Path,
        plan: &ClusterPlan<'_>,
        name: &str,
        flags: &[&str],
    ) -> Result<Front> {
        let (ip, nodes) = (plan.at.ip.to_string(), SocketAddr::new(plan.at.ip, 0));
        let mut command = plan.at.command(&self.program);
        command
            .args(["front", "--bind", &ip, "--port", "0", "--anonymous", "rw"])
            .args(["--cluster-listen", &nodes.to_string(), "--cluster"])
            .arg(self.folder.path(name))
            .args(plan.front)
            .args(flags);
        let host = Host::ours_from(command.arg("--root").arg(root), root)?;
        let output = host.output();
        let address = output
            .lines()
            .find_map(|line| line.strip_prefix("listening for data nodes on "))
            .context("the front end names no address for nodes")?
            .parse()?;
        Ok(Front { host, address })
    }

    /// Makes the folder of one more member, to which the front end at `address` issues a certificate.
    fn join(&self, place: &Place, name: &str, flags: &[&str], address: SocketAddr) -> Result<()> {
        let mut token = self.command("token", FIRST);
        token.args(["--address", &address.to_string()]).args(flags);
        let token = run(&mut token, LIMIT)?.ok()?;
        let mut join = place.command(&self.program);
        join.args(["cluster", "join", "--cluster"])
            .arg(self.folder.path(name));
        join.args(["--name", name, token.stdout.trim()]);
        run(&mut join, LIMIT)?.ok()?;
        Ok(())
    }

    /// `gridftp-server cluster COMMAND` for a member.
    fn command(&self, name: &str, member: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["cluster", name, "--cluster"]);
        command.arg(self.folder.path(member));
        command
    }
}

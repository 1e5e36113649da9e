//! Runs the shell lines of the README and of the manual in order.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Daemon, GridLab, Peer, Tree, binary, listens_at, run};

const LIMIT: Duration = Duration::from_secs(60);
/// The port in the pages, which the tests replace by a free one.
const PORT: &str = "2811";
/// The port of a front end for its nodes, likewise.
const CLUSTER_PORT: &str = "2812";
/// The port of a server behind another one, likewise.
const UPSTREAM_PORT: &str = "2813";
/// The address of an object store, likewise.
const STORE: &str = "127.0.0.1:7070";
/// The host in the pages, for which the tests put `localhost`.
const HOST: &str = "dtn.example.org";

/// A node has no address of its own.
const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// Returns a file of the repository.
fn page(path: &str) -> Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(path)).with_context(|| path.to_owned())
}

/// Returns the lines of the fenced blocks of a language, in a page or in comments of one.
fn lines(page: &str, kind: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for after in page.split(&format!("```{kind}\n")).skip(1) {
        let (block, _) = after.split_once("```").context("a block does not end")?;
        let lines = block.lines().map(|line| line.trim_start_matches("//! "));
        let lines = lines.filter(|line| *line != "//!" && !line.is_empty());
        found.extend(lines.map(ToOwned::to_owned));
    }
    ensure!(!found.is_empty(), "no block of {kind}");
    Ok(found)
}

/// A shell in a folder, with our programs first in its `PATH`.
struct Shell<'a> {
    tree: &'a Tree,
    path: OsString,
    variables: Vec<(&'static str, String)>,
    server: Option<Daemon>,
    nodes: Vec<Daemon>,
    /// An object store, and its address.
    store: Option<(Daemon, SocketAddr)>,
    /// A second server of ours.
    upstream: Option<Daemon>,
}

impl<'a> Shell<'a> {
    fn new(tree: &'a Tree) -> Result<Self> {
        let programs = binary("gridftp-server")?;
        let programs = programs.parent().context("a folder")?.to_path_buf();
        let path = env::var_os("PATH").unwrap_or_default();
        Ok(Self {
            tree,
            path: env::join_paths([programs].into_iter().chain(env::split_paths(&path)))?,
            variables: Vec::new(),
            server: None,
            nodes: Vec::new(),
            store: None,
            upstream: None,
        })
    }

    fn command(&self, line: &str) -> Command {
        let mut shell = Command::new("sh");
        shell
            .args(["-ec", line])
            .current_dir(self.tree.root())
            .env("PATH", &self.path)
            .env("HOME", self.tree.root())
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        shell
    }

    /// Starts an object store, which does not print the port that it got.
    fn start_store(&mut self, line: &str) -> Result<()> {
        let line = line.replace(STORE, "127.0.0.1:0");
        let ready = |line: &str| line.contains("service listening on").then_some(NOWHERE);
        let (assigned, program) = line.split_at(line.find("versitygw ").context("no program")?);
        let line = format!("export {assigned}; exec {program}");
        let store = Daemon::start(&mut self.command(&line), ready)?;
        let addr = listens_at(store.pid())?;
        self.store = Some((store, addr));
        Ok(())
    }

    /// A line with other words in place of some, and the addresses of the store and of the second
    /// server; a word that was put in is not replaced again.
    fn placed(&self, line: &str, words: &[(&str, &str)]) -> String {
        let store = self.store.as_ref().map(|(_, addr)| addr.to_string());
        let upstream = self.upstream.as_ref();
        let upstream = upstream.map(|upstream| upstream.addr().port().to_string());
        let places = [(STORE, store), (UPSTREAM_PORT, upstream)];
        let places = places
            .iter()
            .filter_map(|(word, to)| Some((*word, to.as_deref()?)));
        let words: Vec<_> = places.chain(words.iter().copied()).collect();
        let (mut left, mut out) = (line, String::new());
        while let Some(next) = left.chars().next() {
            match words
                .iter()
                .find_map(|(word, to)| Some((left.strip_prefix(word)?, to)))
            {
                Some((rest, to)) => {
                    out.push_str(to);
                    left = rest;
                }
                None => {
                    out.push(next);
                    left = left.strip_prefix(next).unwrap_or_default();
                }
            }
        }
        out
    }

    /// Runs a line; one that ends in `&` starts the server, and its port is that of later lines.
    fn run(&mut self, line: &str) -> Result<()> {
        let cluster = self.server.as_ref().and_then(|server| {
            let output = server.output();
            let mut lines = output.lines();
            let address =
                lines.find_map(|line| line.strip_prefix("listening for data nodes on "))?;
            address.rsplit(':').next().map(ToOwned::to_owned)
        });
        let line = match cluster {
            Some(port) => line.replace(CLUSTER_PORT, &port),
            None => line.replace(CLUSTER_PORT, "0"),
        };
        if let Some(store) = line.strip_suffix(" &").filter(|l| l.contains("versitygw ")) {
            return self.start_store(store);
        }
        if let Some(server) = line
            .strip_suffix(" &")
            .filter(|l| l.contains(UPSTREAM_PORT))
        {
            let line = format!("exec {}", server.replace(UPSTREAM_PORT, "0"));
            if !line.contains("--storage") {
                let ready = |line: &str| line.strip_prefix("listening on ")?.parse().ok();
                self.upstream = Some(Daemon::start(&mut self.command(&line), ready)?);
                return Ok(());
            }
        }
        let line = line.as_str();
        if let Some(node) = line
            .strip_suffix(" &")
            .filter(|line| line.contains(" node "))
        {
            let line = format!("exec {}", node.replace(HOST, "localhost"));
            let ready = |line: &str| (line == "serving as a data node").then_some(NOWHERE);
            let node = Daemon::start(&mut self.command(&line), ready)?;
            let front = self.server.as_ref().context("a node without a front end")?;
            self.nodes.push(node);
            return front.wait_for(&format!(
                "node registered node=\"node{}\"",
                self.nodes.len()
            ));
        }
        if let Some(background) = line.strip_suffix(" &") {
            let line = format!("exec {}", self.placed(background, &[(PORT, "0")]));
            let ready = |line: &str| line.strip_prefix("listening on ")?.parse().ok();
            // A front end in place of another one has its port for nodes.
            self.server = None;
            let server = Daemon::start(&mut self.command(&line), ready)?;
            for number in 1..=self.nodes.len() {
                server.wait_for(&format!("node registered node=\"node{number}\""))?;
            }
            self.server = Some(server);
            return Ok(());
        }
        let port = self
            .server
            .as_ref()
            .map_or(0, |server| server.addr().port());
        let output = || self.server.as_ref().map(Daemon::output).unwrap_or_default();
        let line = self.placed(line, &[(PORT, &port.to_string()), (HOST, "localhost")]);
        run(&mut self.command(&line), LIMIT)?
            .ok()
            .with_context(output)?;
        Ok(())
    }
}

#[test]
fn the_shell_lines_of_the_readme_succeed() -> Result<()> {
    let tree = Tree::new()?;
    let mut shell = Shell::new(&tree)?;
    let lines = lines(&page("README.md")?, "sh")?;
    // Three lines begin, and ten are those that people type.
    ensure!(lines.len() <= 13, "{} lines are too many", lines.len());
    // The first line builds the programs, which is done already.
    lines.iter().skip(1).try_for_each(|line| shell.run(line))?;
    let arrived = tree.path("shared/skel").is_dir();
    ensure!(arrived, "the directory did not arrive");
    Ok(())
}

#[test]
fn the_shell_lines_about_tls_succeed() -> Result<()> {
    for peer in [Peer::Openssl, Peer::Curl] {
        if peer
            .require("readme: the manual's page about TLS")
            .is_none()
        {
            return Ok(());
        }
    }
    let tree = Tree::new()?;
    let mut shell = Shell::new(&tree)?;
    let lines = lines(&page("gridftp-server/src/manual/tls.rs")?, "sh")?;
    lines.iter().try_for_each(|line| shell.run(line))
}

#[test]
fn the_shell_lines_about_data_nodes_succeed() -> Result<()> {
    let tree = Tree::new()?;
    let mut shell = Shell::new(&tree)?;
    let lines = lines(&page("gridftp-server/src/manual/cluster.rs")?, "sh")?;
    // The first line builds the programs, which is done already.
    let first = lines.first().context("no line")?;
    ensure!(first.starts_with("cargo build "), "{first}");
    lines.iter().skip(1).try_for_each(|line| shell.run(line))
}

#[test]
fn the_shell_lines_about_grid_security_succeed() -> Result<()> {
    let (tree, lab) = (Tree::new()?, GridLab::new()?);
    let mut shell = Shell::new(&tree)?;
    // The person's own credential, in the place where programs look for it.
    let pem = lab.user().to_pem();
    let (certificate, key) = pem.split_at(pem.find("-----BEGIN PRIVATE").context("no key")?);
    fs::create_dir_all(tree.path(".globus"))?;
    fs::create_dir_all(tree.path("data"))?;
    for (file, text) in [("usercert.pem", certificate), ("userkey.pem", key)] {
        let path = tree.path(".globus").join(file);
        fs::write(&path, text)?;
        fs::set_permissions(&path, Permissions::from_mode(0o400))?;
    }
    let proxy = tree.path("proxy").display().to_string();
    let authorities = lab.grid().certificates().display().to_string();
    shell.variables = vec![("X509_USER_PROXY", proxy), ("X509_CERT_DIR", authorities)];
    let files = lab.grid().folder().display().to_string();
    for line in lines(&page("gridftp-server/src/manual/grid.rs")?, "sh")? {
        let line = line.replace("/etc/grid-security", &files);
        let line = line.replace("/srv/data", &tree.path("data").display().to_string());
        shell.run(&line)?;
    }
    Ok(())
}

#[test]
fn the_shell_lines_about_object_stores_succeed() -> Result<()> {
    let Some(program) = Peer::Versitygw.require("readme: the manual's page about object stores")
    else {
        return Ok(());
    };
    let tree = Tree::new()?;
    let mut shell = Shell::new(&tree)?;
    let folder = Path::new(program.get_program()).parent();
    let programs = folder.map(Path::to_path_buf).into_iter();
    shell.path = env::join_paths(programs.chain(env::split_paths(&shell.path)))?;
    let lines = lines(&page("gridftp-server/src/manual/objects.rs")?, "sh")?;
    // The first line installs the store, which is done already.
    let first = lines.first().context("no line")?;
    ensure!(first.starts_with("go install "), "{first}");
    lines.iter().skip(1).try_for_each(|line| shell.run(line))
}

#[test]
fn the_shell_lines_about_a_gateway_succeed() -> Result<()> {
    let tree = Tree::new()?;
    let mut shell = Shell::new(&tree)?;
    let lines = lines(&page("gridftp-server/src/manual/gateway.rs")?, "sh")?;
    lines.iter().try_for_each(|line| shell.run(line))
}

/// The files of `--config`; other facts, such as accounts, are none of theirs.
#[test]
fn the_settings_about_storages_are_whole() -> Result<()> {
    let tree = Tree::new()?;
    for name in ["objects", "gateway"] {
        let settings = lines(
            &page(&format!("gridftp-server/src/manual/{name}.rs"))?,
            "toml",
        )?;
        let file = tree.path(name);
        fs::write(&file, settings.join("\n"))?;
        let mut check = Command::new(binary("gridftp-server")?);
        let checked = run(check.args(["check", "--config"]).arg(&file), LIMIT)?;
        let whole = "ok    configuration: it is whole";
        ensure!(checked.stdout.contains(whole), "{}", checked.report());
    }
    Ok(())
}

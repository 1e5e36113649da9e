//! Our server as a gateway: over plain FTP servers, the Globus server, and our own.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Break, Finished, FtpServer, FtpServerKind, GridLab, Host, Relay, Tree, binary, run, same_file,
};

use crate::bed::LIMIT;

const SIZE: u64 = 5_000_003;

fn cp(words: &[&str]) -> Result<Finished> {
    run(Command::new(binary("gridftp-cp")?).args(words), LIMIT)
}

/// An upstream: the URL of its directory, the folder itself, and further options.
struct Upstream {
    url: String,
    folder: PathBuf,
    options: String,
}

impl Upstream {
    /// A gateway to it.
    fn gateway(&self, tree: &Tree) -> Result<Host> {
        let storage = format!("gridftp:url={}{}", self.url, self.options);
        Host::ours_with(tree.root(), &["--storage", &storage])
    }
}

/// A plain FTP server; its account, if it has one, stands in a file.
fn plain(server: &FtpServer, at: SocketAddr, tree: &Tree) -> Result<Upstream> {
    let url = server.url_at(at, "");
    let (account, place) = match url.trim_start_matches("ftp://").split_once('@') {
        Some((account, place)) => (Some(account), place.to_owned()),
        None => (None, url.trim_start_matches("ftp://").to_owned()),
    };
    let mut options = String::new();
    if let Some((user, password)) = account.and_then(|account| account.split_once(':')) {
        let file = tree.path("accounts");
        fs::write(&file, format!("default login {user} password {password}\n"))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        options = format!(";netrc={}", file.display());
    }
    Ok(Upstream {
        url: format!("ftp://{place}"),
        folder: server.path(""),
        options,
    })
}

/// Copies up and down in both modes, lists, reads a part, renames, hashes, and removes.
fn everything(upstream: &Upstream) -> Result<()> {
    let tree = Tree::new()?;
    let host = upstream.gateway(&tree)?;
    let file = tree.file("file", SIZE, 3)?;
    let from = file.display().to_string();
    for streams in ["1", "4"] {
        let name = format!("copy {streams}");
        let back = tree.path(&name);
        cp(&["-p", streams, &from, &host.url(&name)])?
            .ok()
            .with_context(|| host.output())?;
        same_file(&file, &upstream.folder.join(&name))?;
        let to = back.display().to_string();
        cp(&["-p", streams, "--verify", &host.url(&name), &to])?
            .ok()
            .with_context(|| host.output())?;
        same_file(&file, &back)?;
    }
    let listed = cp(&["--list", &host.url("")])?.ok()?;
    ensure!(listed.stdout.contains("copy 4"), "{}", listed.report());
    ensure!(!listed.stdout.contains("gateway"), "{}", listed.report());
    let part = tree.path("part");
    fs::write(&part, "")?;
    let flags = ["--offset", "1000", "--length", "500000"];
    let ends = [host.url("copy 1"), part.display().to_string()];
    cp(&[&flags[..], &[&ends[0], &ends[1]]].concat())?.ok()?;
    let (whole, got) = (fs::read(&file)?, fs::read(&part)?);
    ensure!(
        got.get(1000..) == whole.get(1000..501_000),
        "the part differs"
    );
    names(&host, upstream)
}

/// An anonymous session of a plain client.
struct Plain(BufReader<TcpStream>);

impl Plain {
    fn login(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut session = Self(BufReader::new(stream));
        session.reply()?;
        session.send("USER anonymous")?;
        session.send("PASS x")?;
        Ok(session)
    }

    fn send(&mut self, command: &str) -> Result<String> {
        self.0
            .get_mut()
            .write_all(format!("{command}\r\n").as_bytes())?;
        self.reply()
    }

    /// Reads a reply whole.
    fn reply(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            let mut line = String::new();
            ensure!(
                self.0.read_line(&mut line)? > 0,
                "the server closed: {text}"
            );
            text.push_str(&line);
            let (code, mark) = line.split_at_checked(3).context("a short line")?;
            if mark.starts_with(' ') && code.bytes().all(|byte| byte.is_ascii_digit()) {
                return Ok(text);
            }
        }
    }
}

/// Commands on names, by a plain client.
fn names(host: &Host, upstream: &Upstream) -> Result<()> {
    let mut ftp = Plain::login(host.addr())?;
    for (command, code) in [
        ("MKD sub", 257),
        ("RNFR copy 1", 350),
        ("RNTO sub/renamed", 250),
        ("DELE copy 4", 250),
        ("RMD sub", 550),
        ("DELE sub/renamed", 250),
        ("RMD sub", 250),
        ("RETR nothing", 550),
    ] {
        if command.starts_with("RETR") {
            ftp.send("PASV")?;
        }
        let reply = ftp.send(command)?;
        ensure!(reply.starts_with(&code.to_string()), "{command}: {reply}");
        if code == 550 {
            ensure!(reply.contains("upstream"), "{command}: {reply}");
        }
    }
    let left: Vec<_> = fs::read_dir(&upstream.folder)?
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().contains("gateway"))
        .collect();
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

/// An upload whose connection to the upstream breaks is continued by the client.
fn broken(upstream: &Upstream, relay: &Relay) -> Result<()> {
    let tree = Tree::new()?;
    let host = upstream.gateway(&tree)?;
    let file = tree.file("file", SIZE, 4)?;
    let from = file.display().to_string();
    cp(&["--retries", "5", &from, &host.url("broken")])?
        .ok()
        .with_context(|| format!("{}\n{:?}", host.output(), relay.commands()))?;
    ensure!(relay.broke(), "nothing broke");
    same_file(&file, &upstream.folder.join("broken"))?;
    let back = tree.path("back");
    let to = back.display().to_string();
    cp(&[&host.url("broken"), &to])?.ok()?;
    same_file(&file, &back)
}

fn over(kind: FtpServerKind) -> Result<()> {
    let Some(server) = FtpServer::start(kind)? else {
        return Ok(());
    };
    let tree = Tree::new()?;
    everything(&plain(&server, server.addr(), &tree)?)?;
    let fault = Break::Everything { after: 2_000_000 };
    let relay = Relay::start(server.addr(), fault)?;
    broken(&plain(&server, relay.addr(), &tree)?, &relay)
}

#[test]
fn a_gateway_over_vsftpd() -> Result<()> {
    over(FtpServerKind::Vsftpd)
}

#[test]
fn a_gateway_over_proftpd() -> Result<()> {
    over(FtpServerKind::Proftpd)
}

fn of_host(host: &Host, at: SocketAddr, options: &str) -> Upstream {
    Upstream {
        url: host.url_at(at, ""),
        folder: host.root().to_owned(),
        options: options.to_owned(),
    }
}

#[test]
fn a_gateway_over_the_globus_server() -> Result<()> {
    let tree = Tree::new()?;
    let Some(host) = Host::globus(tree.root(), "interop: gateway")? else {
        return Ok(());
    };
    everything(&of_host(&host, host.addr(), ""))?;
    everything(&of_host(&host, host.addr(), ";mode=E;streams=4"))?;
    let fault = Break::Everything { after: 2_000_000 };
    let relay = Relay::start(host.addr(), fault)?;
    broken(&of_host(&host, relay.addr(), ""), &relay)
}

/// A client, a gateway, a gateway, a server.
#[test]
fn a_gateway_over_a_gateway_over_our_server() -> Result<()> {
    let (far, middle) = (Tree::new()?, Tree::new()?);
    let host = Host::ours(far.root())?;
    let between = of_host(&host, host.addr(), "").gateway(&middle)?;
    let mut upstream = of_host(&between, between.addr(), "");
    upstream.folder = far.root().to_owned();
    everything(&upstream)?;
    let fault = Break::Everything { after: 2_000_000 };
    let relay = Relay::start(between.addr(), fault)?;
    let mut upstream = of_host(&between, relay.addr(), "");
    upstream.folder = far.root().to_owned();
    broken(&upstream, &relay)
}

/// A transfer that stands still at the upstream ends in time, and the next command has a new session.
#[test]
fn a_stalled_upstream_fails_its_transfer_and_is_used_again() -> Result<()> {
    let (far, near) = (Tree::new()?, Tree::new()?);
    let host = Host::ours(far.root())?;
    let relay = Relay::start(host.addr(), Break::Stall { after: 1_000_000 })?;
    let mut upstream = of_host(&host, relay.addr(), ";stall=2s;end_timeout=2s");
    upstream.folder = far.root().to_owned();
    let gateway = upstream.gateway(&near)?;
    let file = near.file("file", SIZE, 5)?;
    let from = file.display().to_string();
    let begun = Instant::now();
    let refused = cp(&["--retries", "0", &from, &gateway.url("copy")])?.failed()?;
    ensure!(
        refused.stderr.contains("upstream ftp://"),
        "{}",
        refused.report()
    );
    ensure!(begun.elapsed() < LIMIT / 2, "{:?}", begun.elapsed());
    ensure!(relay.passed() >= 1_000_000, "nothing stalled");
    ensure!(!far.path("copy").exists(), "a part was published");
    let made = Plain::login(gateway.addr())?.send("MKD after")?;
    ensure!(made.starts_with("257"), "{made}");
    ensure!(far.path("after").is_dir(), "the directory is elsewhere");
    Ok(())
}

/// The user's delegated credential opens the upstream, and nobody else's.
#[test]
fn users_act_at_the_upstream_with_their_delegated_credential() -> Result<()> {
    let (lab, far, near) = (GridLab::new()?, Tree::new()?, Tree::new()?);
    let secured = |root: &Path, storage: Option<&str>| -> Result<Host> {
        let mut command = Command::new(binary("gridftp-server")?);
        lab.serve(&mut command)
            .args([
                "--bind",
                "127.0.0.1",
                "--port",
                "0",
                "--anonymous",
                "rw",
                "--gridmap-access",
            ])
            .args(["rw", "--gridmap"])
            .arg(lab.path("grid-mapfile"))
            .arg("--host-cert")
            .arg(lab.path("hostcert.pem"))
            .arg("--host-key")
            .arg(lab.path("hostkey.pem"))
            .arg("--ca-dir")
            .arg(lab.grid().certificates());
        if let Some(storage) = storage {
            command.args(["--storage", storage]);
        }
        Host::ours_from(command.arg("--root").arg(root), root)
    };
    let upstream = secured(far.root(), None)?;
    let storage = format!("gridftp:url=gsiftp://localhost:{}/", upstream.addr().port());
    let gateway = secured(near.root(), Some(&storage))?;
    let file = near.file("file", 100_000, 9)?;
    let from = file.display().to_string();
    let to = format!("gsiftp://localhost:{}/copy", gateway.addr().port());
    let mut command = Command::new(binary("gridftp-cp")?);
    let copied = run(lab.login(&mut command).args([&from, &to]), LIMIT)?;
    copied
        .ok()
        .with_context(|| format!("{}\n{}", gateway.output(), upstream.output()))?;
    same_file(&file, &far.path("copy"))?;
    // An anonymous user has no credential, and the gateway lends none.
    let refused = cp(&[&from, &gateway.url("other")])?.failed()?;
    ensure!(
        refused.stderr.contains("no delegated credential"),
        "{}",
        refused.report()
    );
    Ok(())
}

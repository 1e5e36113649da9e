//! `FtpServer`: widely used plain FTP servers, each over its own tree.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Daemon, Inetd, Peer, Tree, is_root};
use anyhow::{Context as _, Result, ensure};

/// The server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FtpServerKind {
    /// `vsftpd`, open to anonymous users.
    Vsftpd,
    /// `proftpd`, with an account.
    Proftpd,
    /// `pure-ftpd`, with an account.
    PureFtpd,
    /// `pyftpdlib`, open to anonymous users.
    Pyftpdlib,
}

impl FtpServerKind {
    /// All programs.
    pub const ALL: [Self; 4] = [Self::Vsftpd, Self::Proftpd, Self::PureFtpd, Self::Pyftpdlib];
}

/// One running server; files lie in [`path`](Self::path), and [`url`](Self::url) names them.
#[derive(Debug)]
pub struct FtpServer {
    tree: Tree,
    addr: SocketAddr,
    /// User information of URLs, or empty where anonymous access works.
    account: &'static str,
    _running: Running,
}

/// The owner of the server's processes; dropping it ends them.
#[derive(Debug)]
enum Running {
    Inetd { _inetd: Inetd },
    Daemon { _daemon: Daemon },
}

/// User information of URLs for servers without anonymous access.
const ACCOUNT: &str = "joe:secret@";
/// SHA-512 crypt of `secret`.
const HASH: &str =
    "$6$ab$2lDVylRMp48hlYZZFOCx/xnhJEsGPynJ17rt2um9Gb8wX6ygI4uDxg3Bg43pp/Hv397hwWfT8mciHws9eE4sR/";

impl FtpServer {
    /// Starts a server, or returns nothing where it is missing or cannot run.
    pub fn start(kind: FtpServerKind) -> Result<Option<Self>> {
        let peer = match kind {
            FtpServerKind::Vsftpd => Peer::Vsftpd,
            FtpServerKind::Proftpd => Peer::Proftpd,
            FtpServerKind::PureFtpd => Peer::PureFtpd,
            FtpServerKind::Pyftpdlib => Peer::Pyftpdlib,
        };
        let Some(program) = peer.require("FTP servers") else {
            return Ok(None);
        };
        if kind != FtpServerKind::Pyftpdlib && !is_root() {
            // They change to another user, and refuse to start without that right.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED FTP servers: {kind:?} needs root"
            );
            return Ok(None);
        }
        let program = PathBuf::from(program.get_program());
        let tree = Tree::new()?;
        // vsftpd refuses a root that its anonymous user may write.
        fs::set_permissions(tree.root(), fs::Permissions::from_mode(0o755))?;
        let served = tree.dir("root/pub")?;
        fs::set_permissions(&served, fs::Permissions::from_mode(0o777))?;
        let (running, addr, account) = match kind {
            FtpServerKind::Vsftpd => vsftpd(program, &tree)?,
            FtpServerKind::Proftpd => proftpd(program, &tree)?,
            FtpServerKind::PureFtpd => pure_ftpd(program, &tree)?,
            FtpServerKind::Pyftpdlib => pyftpdlib(&tree)?,
        };
        Ok(Some(Self {
            tree,
            addr,
            account,
            _running: running,
        }))
    }

    /// Returns the control address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL of a file at another address, such as that of a relay.
    pub fn url_at(&self, addr: SocketAddr, name: &str) -> String {
        format!("ftp://{}{addr}/pub/{name}", self.account)
    }

    /// Returns the URL of a file.
    pub fn url(&self, name: &str) -> String {
        self.url_at(self.addr, name)
    }

    /// Returns the URL of the root with a wrong password, or nothing where no password is needed.
    pub fn url_with_a_wrong_password(&self) -> Option<String> {
        (!self.account.is_empty()).then(|| format!("ftp://joe:wrong@{}/pub/", self.addr))
    }

    /// Returns the local path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.tree.path("root/pub").join(name)
    }

    /// Writes a file that the server's user may read and replace.
    pub fn file(&self, name: &str, size: u64, seed: u64) -> Result<PathBuf> {
        let path = self.tree.file(&format!("root/pub/{name}"), size, seed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        Ok(path)
    }
}

fn inetd(command: impl Fn() -> Command + Send + 'static) -> Result<(Running, SocketAddr)> {
    let inetd = Inetd::start(command)?;
    let addr = inetd.addr();
    Ok((Running::Inetd { _inetd: inetd }, addr))
}

fn vsftpd(program: PathBuf, tree: &Tree) -> Result<(Running, SocketAddr, &'static str)> {
    let (root, empty, conf) = (
        tree.path("root"),
        tree.dir("empty")?,
        tree.path("vsftpd.conf"),
    );
    // The home directory of `ftp_username` must exist; that of `daemon` exists everywhere.
    let text = format!(
        "listen=NO\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nno_anon_password=YES\n\
         anon_root={}\nftp_username=daemon\nwrite_enable=YES\nanon_upload_enable=YES\n\
         anon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_world_readable_only=NO\n\
         anon_umask=022\nsecure_chroot_dir={}\nseccomp_sandbox=NO\nisolate=NO\nisolate_network=NO\n\
         connect_from_port_20=NO\nforce_dot_files=YES\nxferlog_enable=NO\n",
        root.display(),
        empty.display()
    );
    fs::write(&conf, text)?;
    let (running, addr) = inetd(move || {
        let mut command = Command::new(&program);
        command.arg(&conf);
        command
    })?;
    Ok((running, addr, ""))
}

fn proftpd(program: PathBuf, tree: &Tree) -> Result<(Running, SocketAddr, &'static str)> {
    let (root, conf) = (tree.path("root"), tree.path("proftpd.conf"));
    let (users, groups) = (tree.path("passwd"), tree.path("group"));
    fs::write(&users, format!("joe:{HASH}:65534:65534::/:/bin/sh\n"))?;
    fs::write(&groups, "nogroup:x:65534:\n")?;
    for secret in [&users, &groups] {
        fs::set_permissions(secret, fs::Permissions::from_mode(0o600))?;
    }
    let text = format!(
        "ServerType inetd\nServerName peer\nDefaultServer on\nUseReverseDNS off\nWtmpLog off\n\
         TransferLog none\nSystemLog none\nScoreboardFile none\nPidFile {0}/proftpd.pid\nDelayEngine off\n\
         AuthOrder mod_auth_file.c\nAuthUserFile {1}\nAuthGroupFile {2}\nRequireValidShell off\n\
         AllowOverwrite on\nAllowStoreRestart on\nAllowRetrieveRestart on\nUser nobody\nGroup nogroup\n\
         DefaultRoot {3}\n<Limit ALL>\nAllowAll\n</Limit>\n",
        tree.root().display(),
        users.display(),
        groups.display(),
        root.display()
    );
    fs::write(&conf, text)?;
    let (running, addr) = inetd(move || {
        let mut command = Command::new(&program);
        command.arg("-c").arg(&conf);
        command
    })?;
    Ok((running, addr, ACCOUNT))
}

fn pure_ftpd(program: PathBuf, tree: &Tree) -> Result<(Running, SocketAddr, &'static str)> {
    let pure_pw = Peer::PurePw.find().context("pure-pw is missing")?;
    let (users, database) = (tree.path("pureftpd.passwd"), tree.path("pureftpd.pdb"));
    let mut adding = Command::new(&pure_pw)
        .args(["useradd", "joe", "-u", "65534", "-g", "65534", "-f"])
        .arg(&users)
        .arg("-d")
        .arg(tree.path("root"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut input = adding.stdin.take().context("no pipe")?;
    input.write_all(b"secret\nsecret\n")?;
    drop(input);
    ensure!(adding.wait()?.success(), "pure-pw made no account");
    let made = Command::new(&pure_pw)
        .arg("mkdb")
        .arg(&database)
        .arg("-f")
        .arg(&users)
        .status()?;
    ensure!(made.success(), "pure-pw made no database");
    let database = format!("puredb:{}", database.display());
    let (running, addr) = inetd(move || {
        let mut command = Command::new(&program);
        command.args(["-l", &database, "-u", "1", "-H", "-E", "-D"]);
        command
    })?;
    Ok((running, addr, ACCOUNT))
}

fn pyftpdlib(tree: &Tree) -> Result<(Running, SocketAddr, &'static str)> {
    let python = python();
    let mut command = Command::new("sh");
    // It reports its address on standard error.
    command
        .args(["-c", "exec \"$@\" 2>&1", "sh"])
        .arg(python.get_program())
        .args(python.get_args())
        .args([
            "-u",
            "-m",
            "pyftpdlib",
            "-i",
            "127.0.0.1",
            "-p",
            "0",
            "-w",
            "-d",
        ])
        .arg(tree.path("root"));
    let daemon = Daemon::start(&mut command, |line| {
        let (_, rest) = line.split_once("server on ")?;
        rest.split_once(',')?.0.parse().ok()
    })?;
    let addr = daemon.addr();
    Ok((Running::Daemon { _daemon: daemon }, addr, ""))
}

/// Returns a command for the system's Python, which finds the libraries of Debian packages.
pub fn python() -> Command {
    let mut command = Command::new("/usr/bin/python3");
    // Old libraries print deprecation warnings.
    command.args(["-W", "ignore"]);
    command
}

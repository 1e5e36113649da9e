//! `FtpServer`: widely used plain FTP servers, each over its own tree.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Daemon, Inetd, Peer, Tree, is_root};
use anyhow::{Context as _, Result, ensure};
use rustix::process::Signal;

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

/// The TLS of a server, which admits nobody without it; data connections must be private and resume
/// the session of the control connection where the program can demand that.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FtpTls {
    /// PEM file of the certificate and its key.
    pub credential: PathBuf,
    /// Whether TLS 1.3 is off.
    pub old: bool,
    /// Whether it begins with the first byte.
    pub implicit: bool,
}

impl FtpTls {
    /// Makes the TLS of this certificate.
    pub fn new(credential: impl Into<PathBuf>, old: bool, implicit: bool) -> Self {
        Self {
            credential: credential.into(),
            old,
            implicit,
        }
    }

    /// Configures OpenSSL for the server, by the environment that it starts in.
    fn environment(&self, tree: &Tree) -> Result<Vec<(&'static str, PathBuf)>> {
        if !self.old {
            return Ok(Vec::new());
        }
        let path = tree.path("openssl.cnf");
        let text = "openssl_conf = top\n[top]\nssl_conf = tls\n[tls]\nsystem_default = all\n\
                    [all]\nMaxProtocol = TLSv1.2\n";
        fs::write(&path, text)?;
        Ok(vec![("OPENSSL_CONF", path)])
    }
}

/// One running server; files lie in [`path`](Self::path), and [`url`](Self::url) names them.
#[derive(Debug)]
pub struct FtpServer {
    /// Its configuration, and its files where they are not elsewhere.
    tree: Tree,
    /// The folder of its files, and its path in URLs.
    folder: PathBuf,
    prefix: &'static str,
    addr: SocketAddr,
    /// User information of URLs, or empty where anonymous access works.
    account: &'static str,
    running: Running,
}

/// The owner of the server's processes; dropping it ends them.
#[derive(Debug)]
enum Running {
    Inetd(Inetd),
    Daemon(Daemon),
}

/// A server, its address, and the user information of URLs.
type Started = (Running, SocketAddr, &'static str);

/// User information of URLs for servers without anonymous access.
const ACCOUNT: &str = "joe:secret@";
/// SHA-512 crypt of `secret`.
const HASH: &str =
    "$6$ab$2lDVylRMp48hlYZZFOCx/xnhJEsGPynJ17rt2um9Gb8wX6ygI4uDxg3Bg43pp/Hv397hwWfT8mciHws9eE4sR/";

impl FtpServer {
    /// Starts a server, or returns nothing where it is missing or cannot run.
    pub fn start(kind: FtpServerKind) -> Result<Option<Self>> {
        Self::run(kind, None, Tree::new()?)
    }

    /// As [`start`](Self::start), with TLS.
    pub fn start_with_tls(kind: FtpServerKind, tls: &FtpTls) -> Result<Option<Self>> {
        Self::start_with_tls_in(kind, tls, Tree::new()?)
    }

    /// As [`start_with_tls`](Self::start_with_tls), in an empty tree.
    pub fn start_with_tls_in(
        kind: FtpServerKind,
        tls: &FtpTls,
        tree: Tree,
    ) -> Result<Option<Self>> {
        if kind == FtpServerKind::Proftpd && Peer::ProftpdTls.require("FTP servers").is_none() {
            return Ok(None);
        }
        Self::run(kind, Some(tls), tree)
    }

    /// Starts `vsftpd` over a folder, whose files it may change once they are
    /// [open](Self::open_to_all).
    pub fn vsftpd_over(folder: &Path) -> Result<Option<Self>> {
        let Some(program) = Self::program(FtpServerKind::Vsftpd) else {
            return Ok(None);
        };
        let tree = Tree::new()?;
        let (running, addr, account) = vsftpd(program, &tree, folder, None)?;
        Ok(Some(Self {
            tree,
            folder: folder.to_path_buf(),
            prefix: "",
            addr,
            account,
            running,
        }))
    }

    /// Lets every user change a folder, and all that is in it.
    pub fn open_to_all(folder: &Path) -> Result<()> {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => Self::open_to_all(&entry.path())?,
                false => fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o666))?,
            }
        }
        Ok(())
    }

    /// The program of a kind, or nothing where it is missing or cannot run.
    fn program(kind: FtpServerKind) -> Option<PathBuf> {
        let peer = match kind {
            FtpServerKind::Vsftpd => Peer::Vsftpd,
            FtpServerKind::Proftpd => Peer::Proftpd,
            FtpServerKind::PureFtpd => Peer::PureFtpd,
            FtpServerKind::Pyftpdlib => Peer::Pyftpdlib,
        };
        let program = peer.require("FTP servers")?;
        if kind != FtpServerKind::Pyftpdlib && !is_root() {
            // They change to another user, and refuse to start without that right.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED FTP servers: {kind:?} needs root"
            );
            return None;
        }
        Some(PathBuf::from(program.get_program()))
    }

    fn run(kind: FtpServerKind, tls: Option<&FtpTls>, tree: Tree) -> Result<Option<Self>> {
        let Some(program) = Self::program(kind) else {
            return Ok(None);
        };
        // vsftpd refuses a root that its anonymous user may write.
        fs::set_permissions(tree.root(), fs::Permissions::from_mode(0o755))?;
        let served = tree.dir("root/pub")?;
        fs::set_permissions(&served, fs::Permissions::from_mode(0o777))?;
        let (running, addr, account) = match kind {
            FtpServerKind::Vsftpd => vsftpd(program, &tree, &tree.path("root"), tls)?,
            FtpServerKind::Proftpd => proftpd(program, &tree, tls)?,
            FtpServerKind::PureFtpd => pure_ftpd(program, &tree, tls)?,
            FtpServerKind::Pyftpdlib => pyftpdlib(&tree, tls)?,
        };
        Ok(Some(Self {
            tree,
            folder: served,
            prefix: "pub/",
            addr,
            account,
            running,
        }))
    }

    /// Sends a signal to the processes of the server; where each session has its own, to these.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        match &self.running {
            Running::Inetd(inetd) => inetd.signal(signal),
            Running::Daemon(daemon) => daemon.signal_all(signal)?,
        }
        Ok(())
    }

    /// Returns the control address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the URL of a file at another address, such as that of a relay.
    pub fn url_at(&self, addr: SocketAddr, name: &str) -> String {
        format!("ftp://{}{addr}/{}{name}", self.account, self.prefix)
    }

    /// Returns the URL of a file.
    pub fn url(&self, name: &str) -> String {
        self.url_at(self.addr, name)
    }

    /// Returns the URL of the root with a wrong password, or nothing where no password is needed.
    pub fn url_with_a_wrong_password(&self) -> Option<String> {
        (!self.account.is_empty()).then(|| format!("ftp://joe:wrong@{}/pub/", self.addr))
    }

    /// Returns the URL of a file over TLS, by the name `localhost`.
    pub fn secure_url(&self, name: &str) -> String {
        let port = self.addr.port();
        let Self {
            account, prefix, ..
        } = self;
        format!("ftps://{account}localhost:{port}/{prefix}{name}")
    }

    /// Returns the local path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file that the server's user may read and replace.
    pub fn file(&self, name: &str, size: u64, seed: u64) -> Result<PathBuf> {
        let path = self.path(name);
        let path = path.to_str().context("the tree's path is not text")?;
        let path = self.tree.file(path, size, seed)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666))?;
        Ok(path)
    }
}

fn environment(tls: Option<&FtpTls>, tree: &Tree) -> Result<Vec<(&'static str, PathBuf)>> {
    tls.map_or(Ok(Vec::new()), |tls| tls.environment(tree))
}

fn inetd(command: impl Fn() -> Command + Send + 'static) -> Result<(Running, SocketAddr)> {
    let inetd = Inetd::start(command)?;
    let addr = inetd.addr();
    Ok((Running::Inetd(inetd), addr))
}

fn vsftpd(program: PathBuf, tree: &Tree, root: &Path, tls: Option<&FtpTls>) -> Result<Started> {
    let (empty, conf) = (tree.dir("empty")?, tree.path("vsftpd.conf"));
    // The home directory of `ftp_username` must exist; that of `daemon` exists everywhere.
    let mut text = format!(
        "listen=NO\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nno_anon_password=YES\n\
         anon_root={}\nftp_username=daemon\nwrite_enable=YES\nanon_upload_enable=YES\n\
         anon_mkdir_write_enable=YES\nanon_other_write_enable=YES\nanon_world_readable_only=NO\n\
         anon_umask=022\nsecure_chroot_dir={}\nseccomp_sandbox=NO\nisolate=NO\nisolate_network=NO\n\
         connect_from_port_20=NO\nforce_dot_files=YES\nxferlog_enable=NO\n",
        root.display(),
        empty.display()
    );
    if let Some(tls) = tls {
        let (credential, implicit) = (
            tls.credential.display(),
            if tls.implicit { "YES" } else { "NO" },
        );
        text += &format!(
            "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\n\
             require_ssl_reuse=YES\nssl_ciphers=HIGH\nrsa_cert_file={credential}\n\
             rsa_private_key_file={credential}\nimplicit_ssl={implicit}\n"
        );
    }
    fs::write(&conf, text)?;
    let environment = environment(tls, tree)?;
    let (running, addr) = inetd(move || {
        let mut command = Command::new(&program);
        command.arg(&conf).envs(environment.clone());
        command
    })?;
    Ok((running, addr, ""))
}

fn proftpd(program: PathBuf, tree: &Tree, tls: Option<&FtpTls>) -> Result<Started> {
    let (root, conf) = (tree.path("root"), tree.path("proftpd.conf"));
    let (users, groups) = (tree.path("passwd"), tree.path("group"));
    fs::write(&users, format!("joe:{HASH}:65534:65534::/:/bin/sh\n"))?;
    fs::write(&groups, "nogroup:x:65534:\n")?;
    for secret in [&users, &groups] {
        fs::set_permissions(secret, fs::Permissions::from_mode(0o600))?;
    }
    let mut text = format!(
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
    if let Some(tls) = tls {
        let module = Peer::ProftpdTls.find().context("no module for TLS")?;
        let credential = tls.credential.display();
        text += &format!(
            "ModulePath {}\nLoadModule mod_tls.c\nTLSEngine on\nTLSRequired on\nTLSLog none\n\
             TLSECCertificateFile {credential}\nTLSECCertificateKeyFile {credential}\n",
            module.parent().context("no folder")?.display()
        );
        if tls.implicit {
            text += "TLSOptions UseImplicitSSL\n";
        }
    }
    fs::write(&conf, text)?;
    let environment = environment(tls, tree)?;
    let (running, addr) = inetd(move || {
        let mut command = Command::new(&program);
        command.arg("-c").arg(&conf).envs(environment.clone());
        command
    })?;
    Ok((running, addr, ACCOUNT))
}

fn pure_ftpd(program: PathBuf, tree: &Tree, tls: Option<&FtpTls>) -> Result<Started> {
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
    let mut words = ["-l", &database, "-u", "1", "-H", "-E", "-D"]
        .map(str::to_owned)
        .to_vec();
    if let Some(tls) = tls {
        let credential = tls.credential.display().to_string();
        words.extend(["-Y", "3", "-2", &credential].map(str::to_owned));
    }
    let environment = environment(tls, tree)?;
    let (running, addr) = inetd(move || {
        let mut command = Command::new(&program);
        command.args(&words).envs(environment.clone());
        command
    })?;
    Ok((running, addr, ACCOUNT))
}

fn pyftpdlib(tree: &Tree, tls: Option<&FtpTls>) -> Result<Started> {
    let mut words: Vec<OsString> = ["-u"].map(Into::into).to_vec();
    match tls {
        Some(tls) => {
            words.extend(["-c", PYFTPDLIB].map(Into::into));
            words.extend([tree.path("root").into(), tls.credential.clone().into()]);
        }
        None => {
            let flags = ["-m", "pyftpdlib", "-i", "127.0.0.1", "-p", "0", "-w", "-d"];
            words.extend(flags.map(Into::into));
            words.push(tree.path("root").into());
        }
    }
    let python = python();
    let mut command = Command::new("sh");
    // It reports its address on standard error.
    command
        .args(["-c", "exec \"$@\" 2>&1", "sh"])
        .arg(python.get_program())
        .args(python.get_args())
        .args(words)
        .envs(environment(tls, tree)?);
    let daemon = Daemon::start(&mut command, |line| {
        let (_, rest) = line.split_once("server on ")?;
        rest.split_once(',')?.0.parse().ok()
    })?;
    let addr = daemon.addr();
    Ok((Running::Daemon(daemon), addr, ""))
}

/// A server over TLS for the folder and the certificate in its arguments.
const PYFTPDLIB: &str = r#"
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import TLS_FTPHandler
from pyftpdlib.log import config_logging
from pyftpdlib.servers import FTPServer
import logging
config_logging(level=logging.INFO)
authorizer = DummyAuthorizer()
authorizer.add_anonymous(sys.argv[1], perm="elradfmwMT")
handler = TLS_FTPHandler
handler.authorizer, handler.certfile = authorizer, sys.argv[2]
handler.tls_control_required = handler.tls_data_required = True
FTPServer(("127.0.0.1", 0), handler).serve_forever()
"#;

/// Returns a command for the system's Python, which finds the libraries of Debian packages.
pub fn python() -> Command {
    let mut command = Command::new("/usr/bin/python3");
    // Old libraries print deprecation warnings.
    command.args(["-W", "ignore"]);
    command
}

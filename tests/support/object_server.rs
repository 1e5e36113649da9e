//! `ObjectServer`: servers with the interface of S3, each with an empty bucket.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::listening::listens_at;
use crate::{Daemon, Peer, Tree};

/// The server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectServerKind {
    /// `versitygw`, over files.
    Versitygw,
    /// `moto`, in memory.
    Moto,
}

impl ObjectServerKind {
    /// All programs.
    pub const ALL: [Self; 2] = [Self::Versitygw, Self::Moto];
}

/// One running server with the empty bucket `bucket`.
#[derive(Debug)]
pub struct ObjectServer {
    tree: Tree,
    addr: SocketAddr,
    daemon: Daemon,
}

impl ObjectServer {
    /// The access key of its user.
    pub const ACCESS: &str = "someone";

    /// The secret key of its user.
    pub const SECRET: &str = "a-secret-of-tests";

    /// Starts a server, or returns nothing where it is missing.
    pub fn start(kind: ObjectServerKind) -> Result<Option<Self>> {
        Self::start_in(kind, Tree::new()?)
    }

    /// As [`start`](Self::start), with its files in an empty tree.
    pub fn start_in(kind: ObjectServerKind, tree: Tree) -> Result<Option<Self>> {
        let peer = match kind {
            ObjectServerKind::Versitygw => Peer::Versitygw,
            ObjectServerKind::Moto => Peer::Moto,
        };
        let Some(program) = peer.require("interop: object stores") else {
            return Ok(None);
        };
        let keys = format!(
            "AWS_ACCESS_KEY_ID={}\nAWS_SECRET_ACCESS_KEY={}\n",
            Self::ACCESS,
            Self::SECRET
        );
        fs::write(tree.path("keys"), keys)?;
        let program = Path::new(program.get_program());
        let (daemon, addr) = match kind {
            ObjectServerKind::Versitygw => versitygw(program, &tree)?,
            ObjectServerKind::Moto => moto(program, &tree)?,
        };
        Ok(Some(Self { tree, addr, daemon }))
    }

    /// The URL of the service.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The option `--storage` of our server for the bucket.
    pub fn storage(&self) -> Result<String> {
        Ok(format!(
            "object:url=s3://bucket;endpoint={};region=us-east-1;credentials={};index={}",
            self.endpoint(),
            self.keys().display(),
            self.dir("index")?.display()
        ))
    }

    /// The file of credentials.
    pub fn keys(&self) -> PathBuf {
        self.tree.path("keys")
    }

    /// A fresh directory beside the server's files.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        self.tree.dir(name)
    }

    /// The output of the server.
    pub fn output(&self) -> String {
        self.daemon.output()
    }

    /// The file of an object, of `versitygw` alone.
    pub fn object(&self, key: &str) -> PathBuf {
        self.tree.path("files/bucket").join(key)
    }

    /// Waits until no file of an unfinished upload is left, of `versitygw` alone.
    pub fn wait_for_no_orphans(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.orphans() > 0 {
            ensure!(Instant::now() < deadline, "parts are left");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Number of files of unfinished uploads, of `versitygw` alone.
    pub fn orphans(&self) -> usize {
        let uploads = self.tree.path("files/bucket/.sgwtmp/multipart");
        let mut folders = vec![uploads];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    _ => files += 1,
                }
            }
        }
        files
    }
}

/// It does not print the port that it got.
fn versitygw(program: &Path, tree: &Tree) -> Result<(Daemon, SocketAddr)> {
    tree.dir("files/bucket")?;
    let mut command = Command::new(program);
    command
        .args(["--keep-alive", "--port", "127.0.0.1:0", "posix"])
        .arg(tree.path("files"))
        .env("ROOT_ACCESS_KEY", ObjectServer::ACCESS)
        .env("ROOT_SECRET_KEY", ObjectServer::SECRET);
    let ready = |line: &str| {
        line.contains("service listening on")
            .then_some(SocketAddr::from(([127, 0, 0, 1], 0)))
    };
    let daemon = Daemon::start(&mut command, ready)?;
    let addr = listens_at(daemon.pid())?;
    Ok((daemon, addr))
}

fn moto(program: &Path, tree: &Tree) -> Result<(Daemon, SocketAddr)> {
    // It reports its address on the standard error stream.
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$0\" -H 127.0.0.1 -p 0 2>&1"])
        .arg(program)
        .current_dir(tree.root());
    let ready = |line: &str| {
        let url = line.split("Running on http://").nth(1)?;
        url.trim().parse().ok()
    };
    let daemon = Daemon::start(&mut command, ready)?;
    let addr = daemon.addr();
    let mut stream = TcpStream::connect(addr)?;
    let request = format!(
        "PUT /bucket HTTP/1.1\r\nHost: {addr}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut reply = String::new();
    stream
        .read_to_string(&mut reply)
        .context("the reply of moto")?;
    ensure!(reply.starts_with("HTTP/1.1 200"), "no bucket: {reply}");
    Ok((daemon, addr))
}

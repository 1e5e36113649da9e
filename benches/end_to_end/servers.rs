//! Many small files in MODE S at plain FTP servers, against `lftp` with four connections.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use workspace_benches::pair::{Pair, Side};
use workspace_benches::ratio::{Cost, Line, alternate};
use workspace_tests::{Digests, FtpServer, FtpServerKind, Peer, Tree, file_url, run, tree_digests};

use crate::options::Options;

const LIMIT: Duration = Duration::from_secs(300);
const OURS: &[&str] = &["-q", "-r"];

/// Measures 2,000 files of 1 kB in both directions, at each installed server.
pub(crate) fn measure(pair: &Pair, options: &Options) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let Some(lftp) = Peer::Lftp.require("bench servers") else {
        return Ok(lines);
    };
    let lftp = lftp.get_program().to_owned();
    for kind in FtpServerKind::ALL {
        let Some(server) = FtpServer::start(kind)? else {
            continue;
        };
        let bed = Bed::new(server, options.scale.amount(2000, 100))?;
        for get in [true, false] {
            let (us, them) = alternate(
                options.scale.runs(),
                || {
                    let mut command = Command::new(pair.client(Side::Ours));
                    let (local, remote) = bed.ends(get);
                    command.args(OURS).args(match get {
                        true => [bed.server.url(remote), file_url(&bed.local.path(local))],
                        false => [file_url(&bed.local.path(local)), bed.server.url(remote)],
                    });
                    bed.copy(&mut command, get)
                },
                || {
                    let (local, remote) = bed.ends(get);
                    let local = bed.local.path(local).display().to_string();
                    let mirror = match get {
                        true => format!("mirror --parallel=4 {remote} {local}"),
                        false => format!("mirror --reverse --parallel=4 {local} {remote}"),
                    };
                    let mut command = Command::new(&lftp);
                    let url = bed.server.url("");
                    let script = format!("set ftp:ssl-allow false; open {url}; {mirror}");
                    command
                        .args(["--norc", "-c", &script])
                        .env("LFTP_HOME", bed.local.root());
                    bed.copy(&mut command, get)
                },
            )?;
            let direction = if get { "get" } else { "put" };
            eprintln!("servers, {kind:?}, {direction}: ours {us:.2?}, lftp {them:.2?}");
            lines.push(Line {
                what: format!("{} files of 1 kB, {direction}, MODE S, {kind:?}", bed.count),
                ratio: them.wall / us.wall,
                cpu: None,
                target: "1 against `lftp`, 4 connections",
                reached: them.wall >= us.wall,
                note: format!("{:.2} s", us.wall),
            });
        }
    }
    Ok(lines)
}

/// A server and a local folder, each with the files to copy.
struct Bed {
    server: FtpServer,
    local: Tree,
    count: u64,
    digests: Digests,
}

impl Bed {
    fn new(server: FtpServer, count: u64) -> Result<Self> {
        let local = Tree::new()?;
        for n in 0..count {
            let name = format!("files/dir{}/file{n}", n / 500);
            local.file(&name, 1000, n)?;
            server.file(&name, 1000, n)?;
        }
        // The server's user creates the copy; root removes it.
        fs::set_permissions(server.path(""), fs::Permissions::from_mode(0o777))?;
        Ok(Self {
            digests: tree_digests(&local.path("files"))?,
            server,
            local,
            count,
        })
    }

    /// Returns the names of the local and the remote folder.
    fn ends(&self, get: bool) -> (&'static str, &'static str) {
        if get {
            ("copy/", "files/")
        } else {
            ("files/", "copy/")
        }
    }

    /// Runs a client that copies to a new folder, and compares the files.
    fn copy(&self, command: &mut Command, get: bool) -> Result<Cost> {
        let copy = match get {
            true => self.local.path("copy"),
            false => self.server.path("copy"),
        };
        if copy.exists() {
            fs::remove_dir_all(&copy).context("remove the copy of the last run")?;
        }
        let finished = run(command, LIMIT)?.ok()?;
        ensure!(tree_digests(&copy)? == self.digests, "the copies differ");
        Ok(Cost::new(finished.took, Duration::ZERO))
    }
}

//! Many small files in MODE S at plain FTP servers, against `lftp` with four connections.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use workspace_benches::ratio::{Cost, Line, alternate};
use workspace_tests::{Digests, FtpServer, FtpServerKind, Peer, Tree, file_url, run, tree_digests};

use crate::options::Options;
use crate::pair::{Pair, Side};

const LIMIT: Duration = Duration::from_secs(300);
const OURS: &[&str] = &["-q", "-r"];

/// 2,000 files of 1 kB up and down, at each server that is there.
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
        let place = Place::new(server, options.amount(2000, 100))?;
        for get in [true, false] {
            let (us, them) = alternate(
                options.runs(),
                || {
                    let mut command = Command::new(pair.client(Side::Ours));
                    let (local, remote) = place.ends(get);
                    command.args(OURS).args(match get {
                        true => [place.server.url(remote), file_url(&place.local.path(local))],
                        false => [file_url(&place.local.path(local)), place.server.url(remote)],
                    });
                    place.copy(&mut command, get)
                },
                || {
                    let (local, remote) = place.ends(get);
                    let local = place.local.path(local).display().to_string();
                    let mirror = match get {
                        true => format!("mirror --parallel=4 {remote} {local}"),
                        false => format!("mirror --reverse --parallel=4 {local} {remote}"),
                    };
                    let mut command = Command::new(&lftp);
                    let url = place.server.url("");
                    let script = format!("set ftp:ssl-allow false; open {url}; {mirror}");
                    command
                        .args(["--norc", "-c", &script])
                        .env("LFTP_HOME", place.local.root());
                    place.copy(&mut command, get)
                },
            )?;
            let direction = if get { "get" } else { "put" };
            eprintln!("servers, {kind:?}, {direction}: ours {us:.2?}, lftp {them:.2?}");
            lines.push(Line {
                what: format!(
                    "{} files of 1 kB, {direction}, MODE S, {kind:?}",
                    place.count
                ),
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

/// A server and a local folder, each with the files at hand and room for a copy.
struct Place {
    server: FtpServer,
    local: Tree,
    count: u64,
    digests: Digests,
}

impl Place {
    fn new(server: FtpServer, count: u64) -> Result<Self> {
        let local = Tree::new()?;
        for n in 0..count {
            let name = format!("files/dir{}/file{n}", n / 500);
            local.file(&name, 1000, n)?;
            server.file(&name, 1000, n)?;
        }
        // The server's user may make the copy, and root removes it.
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

    /// Runs a client that copies to a folder which is not there yet, and compares.
    fn copy(&self, command: &mut Command, get: bool) -> Result<Cost> {
        let copy = match get {
            true => self.local.path("copy"),
            false => self.server.path("copy"),
        };
        if copy.exists() {
            fs::remove_dir_all(&copy).context("remove the copy of the run before")?;
        }
        let finished = run(command, LIMIT)?.ok()?;
        ensure!(tree_digests(&copy)? == self.digests, "the copies differ");
        Ok(Cost::new(finished.took, Duration::ZERO))
    }
}

//! A hundred thousand small files against the other clients.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_benches::copying::Way;
use workspace_benches::pair::{Pair, Side, measured, quiet, time_of};
use workspace_benches::ratio::{Cost, Line, alternate};
use workspace_tests::{Digests, Host, Peer, Tree, file_url, tree_digests};

use crate::options::Options;

/// Files in each directory.
const IN_EACH: u64 = 500;

/// A client, and its connections.
#[derive(Clone, Copy, Debug)]
enum Client {
    Ours,
    Globus,
    Lftp,
    Rclone,
}

/// Measures 100,000 files of 1 kB in memory, both directions, against each other client: that of
/// Globus at its own server, `lftp` and `rclone` at ours.
pub(crate) fn files(pair: &Pair, options: &Options) -> Result<Vec<Line>> {
    let count = options.scale.amount(100_000, 1000);
    let bed = Bed::new(pair, "/dev/shm", count, IN_EACH)?;
    let mut lines = Vec::new();
    for (other, peer) in [
        (Client::Globus, Peer::GlobusUrlCopy),
        (Client::Lftp, Peer::Lftp),
        (Client::Rclone, Peer::Rclone),
    ] {
        if peer.require("bench many").is_none() {
            continue;
        }
        for way in Way::ALL {
            let (us, them) = alternate(
                options.scale.runs().min(2),
                || bed.copy(Client::Ours, way),
                || bed.copy(other, way),
            )?;
            let what = format!("{count} files of 1 kB, {}, against {other:?}", way.name());
            eprintln!("{what}: ours {us:.2?}, other {them:.2?}");
            lines.push(Line {
                what,
                ratio: them.wall / us.wall,
                cpu: Some(them.cpu / us.cpu),
                target: "3",
                reached: them.wall / us.wall >= 3.0,
                note: format!("{:.1} / {:.1} s", us.wall, them.wall),
            });
        }
    }
    Ok(lines)
}

/// Two servers over one tree with the files to copy.
pub(crate) struct Bed<'a> {
    pair: &'a Pair,
    pub(crate) tree: Tree,
    digests: Digests,
    pub(crate) ours: Host,
    globus: Host,
}

impl<'a> Bed<'a> {
    pub(crate) fn new(pair: &'a Pair, folder: &str, count: u64, in_each: u64) -> Result<Self> {
        let tree = Tree::new_in(Path::new(folder))?;
        for n in 0..count {
            tree.file(&format!("files/dir{}/file{n}", n / in_each), 1000, n)?;
        }
        Ok(Self {
            pair,
            digests: tree_digests(&tree.path("files"))?,
            ours: pair.serve(Side::Ours, tree.root())?,
            globus: pair.serve(Side::Globus, tree.root())?,
            tree,
        })
    }

    pub(crate) fn ours_with(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(self.pair.client(Side::Ours));
        command.args(quiet(Side::Ours)).arg("-r").args(flags);
        command
    }

    /// Source and destination of a copy to `name`.
    pub(crate) fn ends(&self, way: Way, server: &Host, name: &str) -> [String; 2] {
        let local = |name: &str| file_url(&self.tree.path(&format!("{name}/")));
        let remote = |name: &str| server.url(&format!("{name}/"));
        match way {
            Way::Get => [remote("files"), local(name)],
            Way::Put => [local("files"), remote(name)],
        }
    }

    /// Copies all files by a client, to a new directory that is removed afterwards.
    fn copy(&self, client: Client, way: Way) -> Result<Cost> {
        let name = "copy";
        let server = match client {
            Client::Globus => &self.globus,
            _ => &self.ours,
        };
        let mut command = match client {
            Client::Ours => {
                let mut command = self.ours_with(&[]);
                command.args(self.ends(way, server, name));
                command
            }
            Client::Globus => {
                let mut command = Command::new(self.pair.client(Side::Globus));
                command.args(["-r", "-cd", "-fast", "-cc", "8"]);
                command.args(self.ends(way, server, name));
                command
            }
            Client::Lftp => self.lftp(way, name)?,
            Client::Rclone => self.rclone(way, name)?,
        };
        let cost = measured(Some(server), || time_of(&mut command))?;
        self.compare(name)?;
        fs::remove_dir_all(self.tree.path(name))?;
        Ok(cost)
    }

    pub(crate) fn compare(&self, name: &str) -> Result<()> {
        let copied = tree_digests(&self.tree.path(name))?;
        ensure!(copied == self.digests, "the copies differ");
        Ok(())
    }

    fn lftp(&self, way: Way, name: &str) -> Result<Command> {
        let local = |name: &str| self.tree.path(name).display().to_string();
        let [from, to] = match way {
            Way::Get => ["files".to_owned(), local(name)],
            Way::Put => [local("files"), name.to_owned()],
        };
        let reverse = match way {
            Way::Get => "",
            Way::Put => "--reverse",
        };
        let lftp = Peer::Lftp.find().context("lftp was removed")?;
        let mut command = Command::new(lftp);
        let url = self.ours.url("");
        let script = format!(
            "set ftp:ssl-allow false; set cmd:fail-exit true; open {url}; \
             mirror {reverse} --parallel=8 --no-perms {from} {to}"
        );
        command.args(["--norc", "-c", &script]);
        command.env("LFTP_HOME", self.tree.root());
        Ok(command)
    }

    fn rclone(&self, way: Way, name: &str) -> Result<Command> {
        let rclone = Peer::Rclone.find().context("rclone was removed")?;
        let addr = self.ours.addr();
        let remote = |name: &str| format!("gridftp:{name}");
        let local = |name: &str| self.tree.path(name).display().to_string();
        let [from, to] = match way {
            Way::Get => [remote("files"), local(name)],
            Way::Put => [local("files"), remote(name)],
        };
        let mut command = Command::new(rclone);
        command
            .args(["copy", "--config", "/dev/null", "--transfers", "8"])
            .args(["--checkers", "8", "--ignore-checksum", "--no-check-dest"])
            .args([from, to])
            .env("HOME", self.tree.root())
            .env("RCLONE_CONFIG_GRIDFTP_TYPE", "ftp")
            .env("RCLONE_CONFIG_GRIDFTP_HOST", addr.ip().to_string())
            .env("RCLONE_CONFIG_GRIDFTP_PORT", addr.port().to_string())
            .env("RCLONE_CONFIG_GRIDFTP_USER", "anonymous")
            // It requires a password: this is `x`, obscured.
            .env("RCLONE_CONFIG_GRIDFTP_PASS", "JYXJCGRc-M_NBL9GOPqAsQY");
        Ok(command)
    }
}

//! A hundred thousand small files: against the other clients, and the cost of our record of them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_benches::copying::Way;
use workspace_benches::pair::{Pair, Side, cost, quiet};
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
/// Globus at its own server, `lftp` and `rclone` at ours; and our client with its record of finished
/// files, against itself without.
pub(crate) fn measure(pair: &Pair, options: &Options) -> Result<Vec<Line>> {
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
            lines.push(Line::of_costs(what, us, them, ("3", 3.0)));
        }
    }
    for way in Way::ALL {
        // They differ by the record alone: files of 1 kB are copied from the start either way.
        let copy = |flags: &[&str]| {
            let mut command = bed.ours_with(&[&["--quiet"], flags]);
            bed.cost(command.args(bed.ends(way, &bed.ours, "copy")), &bed.ours)
        };
        let (us, them) = alternate(
            options.scale.runs(),
            || copy(&[]),
            || copy(&["--no-resume"]),
        )?;
        let way = way.name();
        let what = format!("{count} files of 1 kB, {way}, default flags against `--no-resume`");
        lines.push(Line::of_costs(what, us, them, ("0.95", 0.95)));
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

    pub(crate) fn ours_with(&self, flags: &[&[&str]]) -> Command {
        let mut command = Command::new(self.pair.client(Side::Ours));
        command.arg("-r").args(flags.concat());
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
                let mut command = self.ours_with(&[quiet(Side::Ours)]);
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
        self.cost(&mut command, server)
    }

    /// Runs a client that copies all files to `copy`, which is compared and removed.
    fn cost(&self, command: &mut Command, server: &Host) -> Result<Cost> {
        let cost = cost(command, server)?;
        self.compare("copy")?;
        fs::remove_dir_all(self.tree.path("copy"))?;
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

//! One large file over FTPS: our programs against `curl` and `vsftpd`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use workspace_benches::pair::{Side, measured, quiet, time_of};
use workspace_benches::ratio::{Cost, Line, alternate};
use workspace_tests::{
    FtpServer, FtpServerKind, FtpTls, Host, Peer, Tree, binary, file_url, sha256,
};
use xio_testkit::Authority;

use crate::bed::FILE;
use crate::bulk::{Way, rates};
use crate::options::{Options, tree};

const SUITE: &str = "bench ftps";
const MODE_S: &[&str] = &["--mode", "stream"];

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    /// Ours, with these flags.
    Ours(&'static [&'static str]),
    Curl,
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Ours,
    Vsftpd,
}

/// Measures copies over TLS in both directions.
pub(crate) fn measure(options: &Options) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    let Some(bed) = Bed::new(options)? else {
        return Ok(lines);
    };
    let theirs = (Client::Curl, Server::Vsftpd);
    let pairs = [
        ("ours in MODE S", (Client::Ours(MODE_S), Server::Ours), true),
        ("ours", (Client::Ours(&[]), Server::Ours), true),
        (
            "our client at vsftpd",
            (Client::Ours(&[]), Server::Vsftpd),
            false,
        ),
        ("curl at our server", (Client::Curl, Server::Ours), false),
    ];
    for (name, ours, whole) in pairs {
        for way in [Way::Get, Way::Put] {
            let (us, them) = alternate(
                options.scale.runs(),
                || bed.copy(ours, way),
                || bed.copy(theirs, way),
            )?;
            let what = format!(
                "{} MiB {} over FTPS, {name}, against curl at vsftpd",
                options.size() >> 20,
                way.name()
            );
            eprintln!("{what}: {us:.2?}, {them:.2?}");
            let ratio = them.wall / us.wall;
            lines.push(Line {
                what,
                ratio,
                cpu: Some(them.cpu / us.cpu),
                target: if whole { "1" } else { "–" },
                reached: !whole || ratio >= 1.0,
                note: rates(options.size(), us, them),
            });
        }
    }
    Ok(lines)
}

/// Both servers, each over a tree with the large file, and a local copy of it.
struct Bed {
    curl: PathBuf,
    local: Tree,
    remote: Tree,
    ours: Host,
    vsftpd: FtpServer,
    ca: PathBuf,
    digest: String,
}

impl Bed {
    /// Starts the servers, or returns nothing where a program is missing.
    fn new(options: &Options) -> Result<Option<Self>> {
        let Some(curl) = Peer::Curl.require(SUITE) else {
            return Ok(None);
        };
        let (local, remote) = (tree()?, tree()?);
        let authority = Authority::new("bench authority");
        let ca = authority.write(local.root());
        let own = authority.issue("host", &["localhost"]);
        let own = own.write(local.root(), "host");
        let kind = FtpServerKind::Vsftpd;
        let tls = FtpTls::new(&own, false, false);
        let Some(vsftpd) = FtpServer::start_with_tls_in(kind, &tls, tree()?)? else {
            return Ok(None);
        };
        let own = own.display().to_string();
        let flags = ["--tls-cert", &own, "--tls-session-reuse", "required"];
        let ours = Host::from_binary(&binary("gridftp-server")?, remote.root(), &flags)?;
        let file = local.file(FILE, options.size(), 1)?;
        remote.file(FILE, options.size(), 1)?;
        vsftpd.file(FILE, options.size(), 1)?;
        Ok(Some(Self {
            curl: curl.get_program().into(),
            digest: sha256(&file)?,
            local,
            remote,
            ours,
            vsftpd,
            ca,
        }))
    }

    /// Returns the URL and the path of a file of a server.
    fn place(&self, server: Server, name: &str) -> (String, PathBuf) {
        match server {
            Server::Ours => {
                let url = self.ours.url(name).replace("127.0.0.1", "localhost");
                (url.replacen("ftp://", "ftps://", 1), self.remote.path(name))
            }
            Server::Vsftpd => (self.vsftpd.secure_url(name), self.vsftpd.path(name)),
        }
    }

    /// Copies the large file, and compares it.
    fn copy(&self, (client, server): (Client, Server), way: Way) -> Result<Cost> {
        let (url, copied) = match way {
            Way::Get | Way::GetToNull => (self.place(server, FILE).0, self.local.path("copy")),
            Way::Put => self.place(server, "copy"),
        };
        let _ = fs::remove_file(&copied);
        let mut command = match client {
            Client::Ours(flags) => self.gridftp_cp(flags, &url, &copied, way)?,
            Client::Curl => self.curl(&url, &copied, way),
        };
        // The processes of vsftpd are children of this one.
        let host = (server == Server::Ours).then_some(&self.ours);
        let cost = measured(host, || time_of(&mut command));
        let cost = cost.with_context(|| format!("{client:?} at {server:?}"))?;
        ensure!(sha256(&copied)? == self.digest, "the copies differ");
        Ok(cost)
    }

    fn gridftp_cp(&self, flags: &[&str], url: &str, copied: &Path, way: Way) -> Result<Command> {
        let mut command = Command::new(binary("gridftp-cp")?);
        command
            .args(quiet(Side::Ours))
            .args(flags)
            .arg("--ca")
            .arg(&self.ca);
        let url = url.to_owned();
        Ok(match way {
            Way::Put => {
                command.args([file_url(&self.local.path(FILE)), url]);
                command
            }
            Way::Get | Way::GetToNull => {
                command.args([url, file_url(copied)]);
                command
            }
        })
    }

    fn curl(&self, url: &str, copied: &Path, way: Way) -> Command {
        let mut command = Command::new(&self.curl);
        command.args(["--silent", "--show-error", "--ssl-reqd", "--cacert"]);
        command.arg(&self.ca);
        match way {
            Way::Put => command.arg("--upload-file").arg(self.local.path(FILE)),
            Way::Get | Way::GetToNull => command.arg("--output").arg(copied),
        };
        // To curl, `ftps` is TLS from the first byte.
        command.arg(url.replacen("ftps://", "ftp://", 1));
        command
    }
}

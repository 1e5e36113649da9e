//! Proxies of `gridftp-cp proxy` and of the Globus programs, read by each other and by OpenSSL.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Peer, binary, run};
use xio_testkit::Grid;

const LIMIT: Duration = Duration::from_secs(120);

/// Options of `gridftp-cp proxy init`, and the same ones of `grid-proxy-init`.
const KINDS: [(&[&str], &[&str]); 9] = [
    (&[], &[]),
    (&["--limited"], &["-limited"]),
    (&["--independent"], &["-independent"]),
    (&["--path-length", "3"], &["-path-length", "3"]),
    (&["--draft"], &["-draft"]),
    (&["--draft", "--limited"], &["-draft", "-limited"]),
    (&["--legacy"], &["-old"]),
    (&["--valid", "49:30"], &["-valid", "49:30"]),
    (&["--valid", "50:30"], &["-valid", "50:30"]),
];

/// A user in a grid.
struct Lab {
    grid: Grid,
    user: PathBuf,
}

impl Lab {
    fn new() -> Self {
        let grid = Grid::new();
        let user = grid.store(&grid.user("Alice Lab"), "user");
        Self { grid, user }
    }

    /// Runs a program, and returns its output.
    fn run(&self, mut command: Command, args: &[&[&str]]) -> Result<String> {
        command
            .args(args.concat())
            .current_dir(self.grid.folder())
            .env("X509_CERT_DIR", self.grid.certificates())
            .env("X509_USER_CERT", &self.user)
            .env("X509_USER_KEY", &self.user);
        Ok(run(&mut command, LIMIT)?.ok()?.stdout)
    }

    fn ours(&self, args: &[&[&str]]) -> Result<String> {
        let mut command = Command::new(binary("gridftp-cp")?);
        command.arg("proxy");
        self.run(command, args)
    }
}

/// The facts but for the time, which passes.
fn facts(shown: &str) -> Vec<&str> {
    let facts = shown.lines().filter(|line| !line.starts_with("timeleft"));
    facts.collect()
}

/// The hours of the time, with its days, of facts that are shown within some minutes.
fn hours(shown: &str) -> Option<(&str, Option<&str>)> {
    let time = shown
        .lines()
        .find_map(|line| line.strip_prefix("timeleft : "))?;
    Some((
        time.split_once(':')?.0,
        time.split_once("  ").map(|(_, days)| days),
    ))
}

#[test]
fn grid_proxy_info_and_ours_show_the_same() -> Result<()> {
    let suite = "interop: grid-proxy-info";
    let lab = Lab::new();
    for (ours, theirs) in KINDS {
        let (Some(init), Some(info), Some(info_again)) = (
            Peer::GridProxyInit.require(suite),
            Peer::GridProxyInfo.require(suite),
            Peer::GridProxyInfo.require(suite),
        ) else {
            return Ok(());
        };
        // Half an hour more than whole hours, so that both see the same hour.
        let (time, their_time) = match ours.contains(&"--valid") {
            true => (&[][..], &[][..]),
            false => (&["--valid", "2:30"][..], &["-valid", "2:30"][..]),
        };
        lab.ours(&[&["init", "--verify", "--out", "ours"], ours, time])?;
        lab.run(init, &[&["-q", "-out", "theirs"], theirs, their_time])?;
        for (file, command) in [("ours", info), ("theirs", info_again)] {
            let shown = lab.ours(&[&["info", "-f", file]])?;
            let same = lab.run(command, &[&["-f", file]])?;
            ensure!(facts(&shown) == facts(&same), "{file}:\n{shown}\n{same}");
            let (left, same) = (hours(&shown), hours(&same));
            ensure!(left.is_some() && left == same, "{file}: {left:?} {same:?}");
        }
        let kind = |file| lab.ours(&[&["info", "--type", "--issuer", "-f", file]]);
        ensure!(kind("ours")? == kind("theirs")?, "{ours:?}");
        let info = Peer::GridProxyInfo.require(suite).context("it was there")?;
        lab.run(
            info,
            &[&["-f", "ours", "-exists", "-valid", "2:00", "-bits", "2048"]],
        )?;
    }
    Ok(())
}

#[test]
fn openssl_accepts_our_proxies() -> Result<()> {
    let lab = Lab::new();
    lab.grid
        .write("user.pem", &lab.grid.user("Alice Lab").to_pem(), 0o600);
    for kind in ["--rfc", "--limited", "--independent"] {
        let Some(openssl) = Peer::Openssl.require("interop: proxies") else {
            return Ok(());
        };
        lab.ours(&[&["init", "--out", "px", kind]])?;
        let root = format!("certificates/{}.0", lab.grid.hash());
        let verify = [
            "verify",
            "-allow_proxy_certs",
            "-untrusted",
            "user.pem",
            "-CAfile",
        ];
        let said = lab.run(openssl, &[&verify, &[&root, "px"]])?;
        ensure!(said.trim_end() == "px: OK", "{kind}: {said}");
    }
    Ok(())
}

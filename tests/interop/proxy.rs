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

/// Runs the program after it on a terminal, answers its first question, and prints its output.
const ON_A_TERMINAL: &str = r"
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown, asked = b'', False
while True:
    try:
        part = os.read(terminal, 1024)
    except OSError:
        break
    if not part:
        break
    shown += part
    if not asked and b': ' in shown:
        asked = True
        os.write(terminal, sys.argv[1].encode() + b'\n')
sys.stdout.write(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
";

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

/// Python has terminals.
#[test]
fn the_passphrase_is_asked_for_on_the_terminal_and_not_shown() -> Result<()> {
    let suite = "interop: prompt for the passphrase";
    let (Some(python), Some(openssl)) = (Peer::Python.require(suite), Peer::Openssl.require(suite))
    else {
        return Ok(());
    };
    let lab = Lab::new();
    let pem = lab.grid.user("Alice Lab").to_pem();
    let at = pem.find("-----BEGIN PRIVATE").context("no key")?;
    lab.grid
        .write("cert", pem.get(..at).unwrap_or_default(), 0o644);
    lab.grid.write("locked", "", 0o600);
    let lock = [
        "pkcs8",
        "-topk8",
        "-passout",
        "pass:open-sesame",
        "-in",
        "user",
    ];
    lab.run(openssl, &[&lock, &["-out", "locked"]])?;
    let program = binary("gridftp-cp")?.display().to_string();
    let terminal = ["-c", ON_A_TERMINAL, "open-sesame", &program];
    let init = [
        "proxy", "init", "--cert", "cert", "--key", "locked", "--out", "px",
    ];
    let shown = lab.run(python, &[&terminal, &init])?;
    ensure!(
        shown.contains("Passphrase of locked: ") && shown.contains("expires  : "),
        "{shown}"
    );
    ensure!(!shown.contains("sesame"), "{shown}");
    ensure!(
        lab.ours(&[&["info", "-f", "px", "--identity"]])?
            .contains("Alice Lab")
    );
    Ok(())
}

//! Installs missing peers if possible, builds the programs and runs every test of the workspace.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use workspace_tests::{Origin, Peer, Profile, is_root, peers_folder};

use crate::{cargo, chaos, demo, must, striped};

/// Runs all tests, or those with one of `words` in their name.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let required = env::var("REQUIRE_PEERS").is_ok_and(|value| value == "1");
    install();
    let missing: Vec<Peer> = Peer::ALL
        .into_iter()
        .filter(|peer| peer.find().is_none())
        .collect();
    let skipped: Vec<String> = missing
        .iter()
        .map(|peer| {
            format!(
                "  {} - {} is not installed (package {})",
                peer.serves(),
                peer.program(),
                peer.package()
            )
        })
        .collect();
    ensure!(
        !required || missing.is_empty(),
        "REQUIRE_PEERS=1 is set, and these peers are missing:\n{}",
        skipped.join("\n")
    );

    // One build for programs and tests: in two, features of dev-dependencies would build much
    // twice.
    must(cargo().args(["build", "--workspace", "--bins", "--tests"]))?;
    let programs = workspace_tests::programs_folder(Profile::Dev)?;
    must(
        cargo()
            .args(["test", "--workspace", "--no-fail-fast", "--"])
            .args(words)
            .env("GRIDFTP_BIN_DIR", &programs),
    )?;
    if words.is_empty() {
        // The demonstration and the random faults, in small sizes and with the programs built
        // above.
        demo::show(&programs, demo::Size::QUICK)?;
        striped::show(&programs, 64 << 20)?;
        chaos::quick(&programs)?;
    }
    if !skipped.is_empty() {
        println!("\nSKIPPED, NOT TESTED:\n{}", skipped.join("\n"));
    }
    Ok(())
}

/// Installs missing peers if possible, those of Debian if this process is root or sudo needs no
/// password, and reports it.
fn install() {
    let of = |origin: Origin| -> Vec<Peer> {
        let missing = Peer::ALL.into_iter().filter(|peer| peer.find().is_none());
        missing.filter(|peer| peer.origin() == origin).collect()
    };
    for peer in [of(Origin::Go), of(Origin::Pip)].concat() {
        println!("xtask test: installing {}", peer.package());
        if let Err(error) = compile(peer) {
            println!(
                "xtask test: could not install {}: {error:#}",
                peer.package()
            );
        }
    }
    let (unpacked, installed) = (of(Origin::Unpacked), of(Origin::Installed));
    let packages =
        |peers: &[Peer]| -> Vec<&str> { peers.iter().map(|peer| peer.package()).collect() };
    let wanted = [packages(&installed), packages(&unpacked)]
        .concat()
        .join(" ");
    if wanted.is_empty() {
        return;
    }
    if !Path::new("/etc/debian_version").exists() {
        println!("xtask test: not a Debian system, so these peers are not installed: {wanted}");
        return;
    }
    if !is_root() && !sudo_is_free() {
        println!("xtask test: to test against these peers, run: apt-get install {wanted}");
        return;
    }
    println!("xtask test: installing {wanted}");
    for (peers, install) in [
        (installed, apt_install as fn(&[&str]) -> Result<()>),
        (unpacked, unpack),
    ] {
        let packages = packages(&peers);
        if packages.is_empty() {
            continue;
        }
        if let Err(error) = with_lists(|| install(&packages)) {
            println!(
                "xtask test: could not install {}: {error:#}",
                packages.join(" ")
            );
        }
    }
}

/// Installs a peer that is no Debian package into the folder of peers.
fn compile(peer: Peer) -> Result<()> {
    let folder = peers_folder().context("no target directory")?;
    let mut install = match peer.origin() {
        Origin::Go => {
            let mut go = Command::new("go");
            go.arg("install").env("GOBIN", folder.join("go/bin"));
            go
        }
        _ => {
            let python = folder.join("python");
            must(Command::new("python3").args(["-m", "venv"]).arg(&python))?;
            let mut pip = Command::new(python.join("bin/pip"));
            pip.args(["install", "--quiet"]);
            pip
        }
    };
    must(install.arg(peer.package()))
}

/// Retries an installation once with updated package lists.
fn with_lists(mut install: impl FnMut() -> Result<()>) -> Result<()> {
    install().or_else(|_| apt(&["update"], &[]).and_then(|()| install()))
}

fn apt_install(packages: &[&str]) -> Result<()> {
    apt(&["install", "-y", "--no-install-recommends"], packages)
}

/// Unpacks packages that conflict with each other, and installs their libraries.
fn unpack(packages: &[&str]) -> Result<()> {
    let folder = peers_folder().context("no target directory")?;
    fs::create_dir_all(&folder)?;
    let needs = Command::new("apt-cache")
        .args(["depends", "--no-recommends", "--no-suggests"])
        .args(packages)
        .output()
        .context("apt-cache")?;
    let needs = String::from_utf8_lossy(&needs.stdout).into_owned();
    let libraries: BTreeSet<&str> = needs
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .filter(|name| name.starts_with("lib"))
        .collect();
    apt_install(&libraries.into_iter().collect::<Vec<_>>())?;
    must(
        Command::new("apt-get")
            .args(["-qq", "download"])
            .args(packages)
            .current_dir(&folder),
    )?;
    for file in fs::read_dir(&folder)? {
        let file = file?.path();
        if file.extension().is_some_and(|extension| extension == "deb") {
            must(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&folder))?;
            fs::remove_file(&file)?;
        }
    }
    Ok(())
}

fn apt(words: &[&str], packages: &[&str]) -> Result<()> {
    let mut apt = if is_root() {
        Command::new("apt-get")
    } else {
        Command::new("sudo")
    };
    if !is_root() {
        apt.args(["-n", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    }
    let apt = apt
        .arg("-qq")
        .args(words)
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    must(apt.stdin(Stdio::null())).context("apt-get")
}

/// Returns whether `sudo` needs no password.
fn sudo_is_free() -> bool {
    let sudo = Command::new("sudo")
        .args(["-n", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    sudo.is_ok_and(|status| status.success())
}

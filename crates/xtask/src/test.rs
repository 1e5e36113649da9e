//! Installs the peers where it may, builds the programs and runs every test of the workspace.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use workspace_tests::{Peer, Profile, is_root};

use crate::{cargo, demo, must};

/// Runs all tests, or those whose name contains one of `words`.
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
                "  {} - {} is not installed (Debian package {})",
                peer.serves(),
                peer.program(),
                peer.package()
            )
        })
        .collect();
    ensure!(
        !required || missing.is_empty(),
        "REQUIRE_PEERS=1, and missing are:\n{}",
        skipped.join("\n")
    );

    // Programs and tests in one build: apart, the features of dev-dependencies would build much of it twice.
    must(cargo().args(["build", "--workspace", "--bins", "--tests"]))?;
    let programs = workspace_tests::programs_folder(Profile::Dev)?;
    must(
        cargo()
            .args(["test", "--workspace", "--"])
            .args(words)
            .env("GRIDFTP_BIN_DIR", &programs),
    )?;
    if words.is_empty() {
        // The README's other command, small and with the programs at hand.
        demo::show(&programs, demo::Size::QUICK)?;
    }
    if !skipped.is_empty() {
        println!("\nSKIPPED, NOT TESTED:\n{}", skipped.join("\n"));
    }
    Ok(())
}

/// Installs missing peers where this is Debian and the right to install is at hand; says what it does.
fn install() {
    let packages: Vec<&str> = Peer::ALL
        .into_iter()
        .filter(|peer| peer.find().is_none())
        .map(Peer::package)
        .collect();
    if packages.is_empty() {
        return;
    }
    let wanted = packages.join(" ");
    if !Path::new("/etc/debian_version").exists() {
        println!("xtask test: this is no Debian, so these peers are not installed: {wanted}");
        return;
    }
    if !is_root() && !sudo_is_free() {
        println!("xtask test: to test against the peers too, run: apt-get install {wanted}");
        return;
    }
    println!("xtask test: installing {wanted}");
    let installed = apt(&["install", "-y", "--no-install-recommends"], &packages)
        // The lists may be missing or old.
        .or_else(|_| apt(&["update"], &[]).and_then(|()| apt(&["install", "-y", "--no-install-recommends"], &packages)));
    if let Err(error) = installed {
        println!("xtask test: could not install {wanted}: {error:#}");
    }
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

/// Returns whether `sudo` asks no password here.
fn sudo_is_free() -> bool {
    let sudo = Command::new("sudo")
        .args(["-n", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    sudo.is_ok_and(|status| status.success())
}

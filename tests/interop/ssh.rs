//! Copies through the system's ssh: a server process on the host, started for the copy.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Finished, Sshd, Tree, binary, run, same_file, same_tree};

use crate::bed::LIMIT;

/// An ssh server, and a tree that stands for the host's files.
struct Bed {
    sshd: Sshd,
    host: Tree,
    local: Tree,
    _keys: Tree,
}

impl Bed {
    fn new() -> Result<Option<Self>> {
        let keys = Tree::new()?;
        let programs = binary("gridftp-server")?;
        let programs = programs.parent().context("no folder of programs")?;
        let Some(sshd) = Sshd::start(keys.root(), programs, "interop: copies through ssh")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            sshd,
            host: Tree::new()?,
            local: Tree::new()?,
            _keys: keys,
        }))
    }

    fn copy(&self, words: &[&str]) -> Result<Finished> {
        let mut command = Command::new(binary("gridftp-cp")?);
        command.env("PATH", self.sshd.path()).args(words);
        run(&mut command, LIMIT)
    }

    /// The path of a file of the host.
    fn there(&self, name: &str) -> String {
        self.host.path(name).display().to_string()
    }

    fn here(&self, name: &str) -> String {
        self.local.path(name).display().to_string()
    }
}

#[test]
fn files_and_trees_go_both_ways() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    bed.local.file("tree/large", 20_000_003, 7)?;
    for n in 0..50 {
        bed.local.file(&format!("tree/small/{n}"), 1000 + n, n)?;
    }
    let up = format!("dtn:{}", bed.there("up"));
    bed.copy(&["-r", &bed.here("tree/"), &up])?.ok()?;
    same_tree(&bed.host.path("up"), &bed.local.path("tree"))?;
    for mode in ["stream", "extended"] {
        let url = format!("sshftp://dtn{}", bed.there("up/large"));
        let back = bed.here(mode);
        bed.copy(&["--mode", mode, &url, &back])?.ok()?;
        same_file(&bed.local.path(mode), &bed.host.path("up/large"))?;
    }
    let listed = bed
        .copy(&["--list", &format!("sshftp://dtn{}/", bed.there("up"))])?
        .ok()?;
    ensure!(listed.stdout.contains("large"), "{}", listed.report());
    Ok(())
}

#[test]
fn one_host_copies_to_another_directly() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    bed.host.file("from", 5_000_011, 3)?;
    let (from, to) = (bed.there("from"), bed.there("to"));
    bed.copy(&[&format!("dtn:{from}"), &format!("dtn2:{to}")])?
        .ok()?;
    same_file(&bed.host.path("to"), &bed.host.path("from"))
}

#[test]
fn a_failure_of_ssh_is_told_in_its_own_words() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    let to = bed.here("x");
    for (source, flags, words) in [
        ("sshftp://127.0.0.1:1/x", &[][..], "Connection refused"),
        (
            "dtn:/x",
            &["--remote-program", "/no/such/server"],
            "/no/such/server",
        ),
        (
            "sshftp://no-such-host.invalid/x",
            &[],
            "no-such-host.invalid",
        ),
    ] {
        let failed = bed
            .copy(&[flags, &["--retries", "0", source, &to]].concat())?
            .failed()?;
        ensure!(
            failed.stderr.contains(words),
            "{source}: {}",
            failed.report()
        );
        ensure!(fs::exists(&to).is_ok_and(|there| !there), "{source}");
    }
    Ok(())
}

/// Runs the commands of the manual's page, with `/srv` in a folder of the test.
#[test]
fn the_commands_of_the_manual_succeed() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    let manual = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../gridftp-server/src/manual/ssh.rs"
    );
    let manual = fs::read_to_string(manual)?;
    let (_, block) = manual.split_once("//! ```sh\n").context("no commands")?;
    let (block, _) = block
        .split_once("//! ```")
        .context("the block does not end")?;
    fs::create_dir(bed.host.path("data"))?;
    bed.local.file("results/run7", 100_003, 1)?;
    for line in block.lines() {
        let line = line
            .trim_start_matches("//! ")
            .replace("/srv", &bed.there(""));
        let line = line.replace(&bed.there(""), bed.there("").trim_end_matches('/'));
        let programs = binary("gridftp-cp")?;
        let programs = programs.parent().context("no folder")?.display();
        let mut shell = Command::new("sh");
        shell
            .args(["-ec", &line])
            .current_dir(bed.local.root())
            .env("PATH", format!("{programs}:{}", bed.sshd.path()));
        run(&mut shell, LIMIT)?.ok()?;
    }
    same_file(&bed.host.path("data/copy"), &bed.local.path("results/run7"))?;
    same_file(&bed.local.path("run7"), &bed.local.path("results/run7"))
}

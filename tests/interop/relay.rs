//! Copies between servers of others and ours that pass this machine.

use std::process::Command;

use anyhow::{Result, ensure};
use workspace_tests::{FtpServer, FtpServerKind, Host, Tree, binary, run, same_file};

use crate::bed::{End, LIMIT};

/// Copies from one URL to another.
fn copy(flags: &[&str], from: &str, to: &str) -> Result<workspace_tests::Finished> {
    let here = Tree::new()?;
    let mut command = Command::new(binary("gridftp-cp")?);
    command.current_dir(here.root()).env("HOME", here.root());
    command.args(["--security", "none", "--retries", "0"]);
    run(command.args(flags).args([from, to]), LIMIT)?.ok()
}

/// Each takes the address of its client only, where nothing else is said.
#[test]
fn foreign_servers_that_refuse_another_host() -> Result<()> {
    for kind in FtpServerKind::ALL {
        let Some(server) = FtpServer::start(kind)? else {
            continue;
        };
        let tree = Tree::new()?;
        let mut ours = Command::new(binary("gridftp-server")?);
        let flags = [
            "--bind",
            "127.0.0.3",
            "--port",
            "0",
            "--anonymous",
            "rw",
            "--root",
        ];
        let ours = Host::ours_from(ours.args(flags).arg(tree.root()), tree.root())?;
        let file = server.file("file", 3_000_003, 3)?;
        let done = copy(&[], &server.url("file"), &ours.url("copy"))?;
        let told = done.stderr.matches("pass this machine").count();
        ensure!(told == 1, "{kind:?}: {}", done.report());
        same_file(&file, &tree.path("copy"))?;
        // The way back, where the file gets its name when it is whole.
        let flags = ["--relay", "always"];
        let done = copy(&flags, &ours.url("copy"), &server.url("back"))?;
        ensure!(
            !done.stderr.contains("pass this machine"),
            "{}",
            done.report()
        );
        same_file(&file, &server.path("back"))?;
    }
    Ok(())
}

#[test]
fn globus_servers() -> Result<()> {
    let (Some(from), Some(to)) = (End::globus()?, End::globus()?) else {
        return Ok(());
    };
    from.tree.file("file", 3_000_003, 3)?;
    for mode in ["stream", "extended"] {
        let flags = ["--relay", "always", "--verify", "--mode", mode];
        copy(&flags, &from.url("file"), &to.url(mode))?;
        same_file(&from.tree.path("file"), &to.tree.path(mode))?;
    }
    Ok(())
}

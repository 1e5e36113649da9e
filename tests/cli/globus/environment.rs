//! The environment variables of `globus-url-copy`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Reaction, ScriptedServer, Tree, binary, file_url, run, same_file};

use crate::{Bed, LIMIT, command, fails};

/// Runs the program in the environment `set`.
fn globus_with(here: &Tree, set: &[(&str, &str)], words: &[&str]) -> Result<Finished> {
    let mut command = command(here, &[&["--globus"], words].concat())?;
    run(command.envs(set.iter().copied()), LIMIT)
}

#[test]
fn variables_are_honoured_or_refused() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("a", 10_000, 3)?;
    let (from, to) = (bed.url("a"), file_url(&bed.here.path("a")));
    for name in ["GLOBUS_HOSTNAME", "GLOBUS_FTP_CLIENT_DATA_IP"] {
        // No server connects there, and the copy may go on in another way.
        let words = ["-dbg", "-st", "20", "-fast", &from, &to];
        let told = globus_with(&bed.here, &[(name, "127.0.0.9")], &words)?;
        ensure!(told.stderr.contains("PORT 127,0,0,9,"), "{}", told.report());
    }
    let ports = [("GLOBUS_TCP_PORT_RANGE", "42000,42999")];
    let told = globus_with(&bed.here, &ports, &["-dbg", "-fast", &from, &to])?.ok()?;
    let is_told = |high: u8| told.stderr.contains(&format!("PORT 127,0,0,1,{high},"));
    ensure!((164..=167).any(is_told), "{}", told.report());
    let words = ["-dbg", &from, &to];
    let passive = ("GLOBUS_FTP_CLIENT_SOURCE_PASV", "1");
    let told = globus_with(&bed.here, &[passive], &words)?.ok()?;
    ensure!(!told.stderr.contains("PORT 127"), "{}", told.report());
    bed.same("a", "a")?;
    let range = ("GLOBUS_TCP_SOURCE_RANGE", "42000,42999");
    globus_with(&bed.here, &[range, passive], &words)?.ok()?;
    let both = [from.as_str(), &to];
    for (set, words) in [
        (("GLOBUS_DOMAIN_NAME", "example.org"), &both[..]),
        (("GLOBUS_TCP_SOURCE_RANGE", "many"), &both),
        (("GUC_STALL_TIMEOUT", "soon"), &both),
        (("GLOBUS_FTP_CLIENT_NO_SERVER_PASV", "1"), &both),
        (("GLOBUS_REMOTE_SSHFTP", "/opt/x -y"), &both),
        (passive, &["-fast", from.as_str(), &to]),
        (passive, &[to.as_str(), &from]),
    ] {
        let told = globus_with(&bed.here, &[set], words)?;
        fails(&told, 1, &["error: ", set.0])?;
    }
    Ok(())
}

#[test]
fn a_stall_ends_after_the_time_of_the_environment() -> Result<()> {
    let tree = Tree::new()?;
    let server = ScriptedServer::start(|line| match line {
        _ if line.starts_with("MIDWAY RETR") => Reaction::Hold,
        _ => Reaction::Usual,
    })?;
    server.file("/a", vec![1; 100_000]);
    let (from, to) = (server.url("a"), file_url(&tree.path("a")));
    let words = [from.as_str(), &to];
    let told = globus_with(&tree, &[("GUC_STALL_TIMEOUT", "1")], &words)?;
    ensure!(!told.status.success(), "{}", told.report());
    Ok(())
}

/// The session runs on this machine, behind a program that stands for ssh.
#[test]
fn the_program_behind_ssh_is_that_of_the_environment() -> Result<()> {
    let (tree, there) = (Tree::new()?, Tree::new()?);
    there.file("a", 3_000, 1)?;
    let script = "#!/bin/sh\nfor last; do :; done\nexport SSH_CONNECTION='127.0.0.1 4022 127.0.0.1 22'\n\
                  exec sh -c \"$last\"\n";
    fs::write(tree.path("ssh"), script)?;
    fs::set_permissions(tree.path("ssh"), Permissions::from_mode(0o755))?;
    let path = format!("{}:{}", tree.root().display(), std::env::var("PATH")?);
    let program = format!("{} --stdio", binary("gridftp-server")?.display());
    let from = format!("sshftp://dtn{}/a", there.root().display());
    let to = file_url(&tree.path("a"));
    let words = [from.as_str(), &to];
    let with = |program: &str| {
        let set = [("PATH", path.as_str()), ("GLOBUS_REMOTE_SSHFTP", program)];
        globus_with(&tree, &set, &words)
    };
    with(&program)?.ok()?;
    same_file(&tree.path("a"), &there.path("a"))?;
    let told = with("/nonexistent/server")?;
    ensure!(!told.status.success(), "{}", told.report());
    ensure!(
        told.stderr.contains("/nonexistent/server"),
        "{}",
        told.report()
    );
    Ok(())
}

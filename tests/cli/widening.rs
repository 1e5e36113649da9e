//! Connections added within a file: one alone on a long path, behind a program that stands for ssh.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Finished, Tree, binary, run, same_file};

use crate::{LIMIT, command};

/// Connecting takes so long that the path counts as a long one.
const SSH: &str = "#!/bin/sh\nfor last; do :; done\nsleep 0.02\n\
                   export SSH_CONNECTION='127.0.0.1 4022 127.0.0.1 22'\nexec sh -c \"$last\"\n";

/// Copies in `tree`, with the default flags and these, from or to a far host.
fn far(tree: &Tree, flags: &[&str]) -> Result<Finished> {
    let ssh = tree.path("ssh");
    fs::write(&ssh, SSH)?;
    fs::set_permissions(&ssh, Permissions::from_mode(0o755))?;
    let path = format!("{}:{}", tree.root().display(), std::env::var("PATH")?);
    let program = binary("gridftp-server")?.display().to_string();
    let mut command = command(tree, &["--remote-program", &program])?;
    run(command.args(flags).env("PATH", &path), LIMIT)?.ok()
}

/// The streams that served a copy best.
fn streams(copied: &Finished) -> Result<u32> {
    let said = format!("{}{}", copied.stdout, copied.stderr);
    let tuned = said.split("served best: --parallel ").nth(1);
    let tuned = tuned.and_then(|rest| rest.split_whitespace().next());
    let tuned = tuned.with_context(|| format!("no streams are told: {}", copied.report()))?;
    Ok(tuned.parse()?)
}

/// Each connection has a rate of its own, as on a path with loss, so that more of them are faster.
#[test]
fn an_upload_over_slow_connections_takes_more_of_them() -> Result<()> {
    let (tree, there) = (Tree::new()?, Tree::new()?);
    // Sixteen seconds, of which the last ten are with all connections.
    tree.file("file", 400 << 20, 1)?;
    let url = format!("sshftp://dtn{}/", there.root().display());
    let flags = ["--explain", "--stack", "tcp:pacing=2M", "file"];
    let copied = far(&tree, &[&flags[..], &[&url]].concat())?;
    same_file(&tree.path("file"), &there.path("file"))?;
    let streams = streams(&copied)?;
    ensure!(streams > 4, "{streams} streams: {}", copied.report());
    // Numbers of the caller stay.
    let flags = ["--debug", "-p", "2", "--stack", "tcp:pacing=200M", "file"];
    far(&tree, &[&flags[..], &[&format!("{url}two")]].concat())?;
    same_file(&tree.path("file"), &there.path("two"))
}

#[test]
fn a_download_asks_our_server_for_more_connections() -> Result<()> {
    let (tree, there) = (Tree::new()?, Tree::new()?);
    there.file("file", 80 << 20, 1)?;
    let url = format!("sshftp://dtn{}/file", there.root().display());
    for (flags, numbers) in [
        (&[][..], "4,4,16"),
        (&["-p", "3"], "3,3,3"),
        (&["--max-parallel", "6"], "4,4,6"),
        (&["--max-parallel", "2"], "2,2,2"),
        (&["--polite"], "4,4,4"),
    ] {
        let to = format!("to{numbers}");
        let copied = far(&tree, &[flags, &["--debug", &url, &to]].concat())?;
        same_file(&tree.path(&to), &there.path("file"))?;
        let told = format!("OPTS RETR Parallelism={numbers};");
        ensure!(copied.stderr.contains(&told), "{}", copied.report());
    }
    Ok(())
}

/// In MODE S the rules have a file at once for each 1.5 ms of the round trip.
#[test]
fn files_at_once_stay_within_their_bound() -> Result<()> {
    let (tree, there) = (Tree::new()?, Tree::new()?);
    for n in 0..200 {
        tree.file(&format!("many/{n}"), 100, n)?;
    }
    let sessions = |flags: &[&str], to: &str| -> Result<usize> {
        let url = format!("sshftp://dtn{}/{to}/", there.root().display());
        let all = ["-r", "--mode", "stream", "--debug", "many/", &url];
        let copied = far(&tree, &[flags, &all].concat())?;
        same_file(&tree.path("many/199"), &there.path(to).join("199"))?;
        Ok(copied.stderr.matches("> FEAT").count())
    };
    let free = sessions(&[], "free")?;
    ensure!(free > 2, "{free} sessions");
    let held = sessions(&["--max-concurrency", "2"], "held")?;
    ensure!((1..=2).contains(&held), "{held} sessions");
    Ok(())
}

//! Uploads under a hidden name: the final name holds the whole new file or the old one.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use workspace_tests::{Finished, Reaction, ScriptedServer, Tree, binary, run};

use crate::{LIMIT, command, cp_in, fails};

/// The source of an upload.
#[derive(Clone, Copy, Debug)]
enum From {
    File,
    Pipe,
    Server,
}

const ALL: [From; 3] = [From::File, From::Pipe, From::Server];

/// Uploads 300,000 bytes to `file`; `script` holds the beginnings of commands and their replies.
fn upload(
    from: From,
    flags: &[&str],
    script: &'static [(&'static str, &'static str)],
) -> Result<(ScriptedServer, Finished)> {
    let to = ScriptedServer::start(|line| {
        let act = script.iter().find(|(start, _)| line.starts_with(start));
        act.map_or(Reaction::Usual, |(_, say)| Reaction::say(say))
    })?;
    to.file("/file", "old");
    let tree = Tree::new()?;
    tree.file("up", 300_000, 5)?;
    let other = ScriptedServer::start(|line| match line.split(' ').next() {
        Some("FEAT") => Reaction::say(FEATURES),
        Some("CKSM") => Reaction::say("213 00112233445566778899aabbccddeeff"),
        _ => Reaction::Usual,
    })?;
    other.file("/up", std::fs::read(tree.path("up"))?);
    let source = match from {
        From::File => "up".to_owned(),
        From::Pipe => "-".to_owned(),
        From::Server => other.url("up"),
    };
    let target = to.url("file");
    let args = [&["--retries", "0"], flags, &[&source, &target]].concat();
    let mut shell = Command::new("sh");
    shell.current_dir(tree.root());
    shell.args(["-c", r#"exec "$0" "$@" < up"#]);
    let finished = run(shell.arg(binary("gridftp-cp")?).args(args), LIMIT)?;
    if finished.status.success() {
        let whole = to.bytes("/file") == Some(std::fs::read(tree.path("up"))?);
        ensure!(whole, "{from:?}: {}", finished.report());
    }
    Ok((to, finished))
}

const FEATURES: &str = "211-\r\n SIZE\r\n CKSM MD5:10;\r\n211 end";

/// Checks that the server holds the old file and no other.
fn is_old(server: &ScriptedServer) -> Result<()> {
    ensure!(server.files() == ["/file"], "{:?}", server.files());
    ensure!(server.bytes("/file") == Some(b"old".to_vec()));
    ensure!(server.count("DELE") == 1, "{:?}", server.commands());
    Ok(())
}

#[test]
fn an_upload_is_renamed_when_it_is_complete() -> Result<()> {
    for from in ALL {
        let (to, finished) = upload(from, &[], &[])?;
        finished.ok()?;
        ensure!(to.files() == ["/file"], "{from:?}: {:?}", to.files());
        let commands = to.commands();
        let hidden = commands
            .iter()
            .find(|line| line.starts_with("STOR /.file.gridftp-"));
        ensure!(commands.contains(&"RNTO /file".to_owned()), "{commands:?}");
        // Another run uses another hidden name, so that neither publishes data of the other.
        let (to, finished) = upload(from, &[], &[])?;
        finished.ok()?;
        ensure!(
            hidden.is_some_and(|name| !to.commands().contains(name)),
            "{commands:?}"
        );
    }
    Ok(())
}

#[test]
fn a_failed_upload_is_removed_and_keeps_the_old_file() -> Result<()> {
    for from in ALL {
        let (to, finished) = upload(from, &[], &[("END STOR", "552 the disk is full")])?;
        fails(&finished, 1, &["552 the disk is full"])?;
        is_old(&to)?;
    }
    Ok(())
}

#[test]
fn an_upload_with_a_wrong_digest_is_not_renamed() -> Result<()> {
    for from in ALL {
        let script = &[
            ("FEAT", FEATURES),
            ("CKSM", "213 0123456789abcdef0123456789abcdef"),
        ];
        let (to, finished) = upload(from, &["--verify=md5"], script)?;
        fails(&finished, 5, &["MD5", "0123456789abcdef0123456789abcdef"])?;
        is_old(&to)?;
    }
    Ok(())
}

#[test]
fn where_hidden_names_are_refused_the_final_name_is_written() -> Result<()> {
    for from in ALL {
        let (to, finished) = upload(from, &[], &[("STOR /.", "553 no such name here")])?;
        finished.ok()?;
        ensure!(to.files() == ["/file"], "{from:?}: {:?}", to.files());
        ensure!(to.count("STOR") == 2, "{:?}", to.commands());
    }
    Ok(())
}

#[test]
fn where_renames_are_refused_the_final_name_is_written() -> Result<()> {
    for from in ALL {
        let (to, finished) = upload(from, &[], &[("RNFR", "502 not here")])?;
        finished.ok()?;
        ensure!(to.files() == ["/file"], "{from:?}: {:?}", to.files());
        ensure!(to.count("STOR") == 1, "{:?}", to.commands());
    }
    Ok(())
}

#[test]
fn a_hidden_file_of_a_lost_session_is_removed_by_another() -> Result<()> {
    let midway = |about: &str| match about.starts_with("MIDWAY STOR") {
        true => Reaction::HangUp(String::new()),
        false => Reaction::Usual,
    };
    let (to, other) = (ScriptedServer::start(midway)?, ScriptedServer::usual()?);
    to.file("/file", "old");
    let tree = Tree::new()?;
    tree.file("up", 300_000, 5)?;
    other.file("/up", std::fs::read(tree.path("up"))?);
    for source in ["up", &other.url("up")] {
        let finished = cp_in(&tree, &["--retries", "0", source, &to.url("file")])?;
        ensure!(!finished.status.success(), "{}", finished.report());
        ensure!(to.files() == ["/file"], "{source}: {:?}", to.files());
        ensure!(to.bytes("/file") == Some(b"old".to_vec()));
    }
    Ok(())
}

/// Piped data cannot be read again, so it stays under the hidden name in the error message.
#[test]
fn a_refused_rename_keeps_data_from_a_pipe() -> Result<()> {
    let (to, finished) = upload(From::Pipe, &[], &[("RNTO /file", "550 no")])?;
    fails(&finished, 2, &["/.file.gridftp-"])?;
    let files = to.files();
    let part = files
        .iter()
        .find(|name| name.starts_with("/.file.gridftp-"));
    let part = part.and_then(|part| to.bytes(part));
    ensure!(
        part.is_some_and(|bytes| bytes.len() == 300_000),
        "{files:?}"
    );
    ensure!(to.bytes("/file") == Some(b"old".to_vec()));
    Ok(())
}

/// Begins an upload of 32 MiB under its own name, at a server that reacts so behind the first bytes.
fn begin_straight(midway: Reaction) -> Result<(ScriptedServer, Tree, Command)> {
    let to = ScriptedServer::start(move |line| match line {
        _ if line.starts_with("STOR /.") => Reaction::say("553 no such name here"),
        _ if line.starts_with("MIDWAY STOR") => midway.clone(),
        _ => Reaction::Usual,
    })?;
    let tree = Tree::new()?;
    tree.file("up", 32 << 20, 5)?;
    let command = command(&tree, &["--retries", "0", "up", &to.url("file")])?;
    Ok((to, tree, command))
}

/// Checks that the size of a part under the final name is told, once.
fn tells_incomplete(stderr: &str) -> Result<()> {
    let told: Vec<_> = stderr
        .lines()
        .filter(|line| line.contains("/file: may be incomplete: "))
        .collect();
    let [told] = told[..] else {
        bail!("not told once: {stderr}")
    };
    ensure!(told.ends_with(" of 33,554,432 bytes"), "{stderr}");
    // Far less than all of it fits between the ends.
    ensure!(!told.contains(": 33,554,432 of"), "{stderr}");
    Ok(())
}

#[test]
fn a_failed_upload_under_the_final_name_is_told_as_incomplete() -> Result<()> {
    let midway = Reaction::Reset("426 broken".to_owned());
    let (_to, _tree, mut command) = begin_straight(midway)?;
    let finished = run(&mut command, LIMIT)?;
    fails(&finished, 1, &["426 broken"])?;
    tells_incomplete(&finished.stderr)
}

#[test]
fn a_stopped_upload_under_the_final_name_is_told_as_incomplete() -> Result<()> {
    for signal in [Signal::INT, Signal::TERM] {
        let (to, _tree, mut command) = begin_straight(Reaction::Hold)?;
        let mut stopped = command.stderr(Stdio::piped()).spawn()?;
        let begun = Instant::now();
        while to.bytes("/file").is_none_or(|bytes| bytes.is_empty()) {
            if begun.elapsed() > LIMIT {
                stopped.kill()?;
                anyhow::bail!("nothing is stored: {:?}", to.commands());
            }
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&stopped), signal)?;
        let ended = stopped.wait_with_output()?;
        let stderr = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.code() == Some(130), "{signal:?}: {stderr}");
        tells_incomplete(&stderr)?;
        let lost = "the bytes of 1 unfinished file are lost: the same command begins it anew";
        ensure!(stderr.contains(lost), "{stderr}");
    }
    Ok(())
}

#[test]
fn the_next_run_removes_the_hidden_file_of_a_killed_one() -> Result<()> {
    let to = ScriptedServer::with(|server, line| match line {
        _ if server.count("STOR") > 1 => Reaction::Usual,
        _ if line.starts_with("MIDWAY STOR") => Reaction::Hold,
        _ => Reaction::Usual,
    })?;
    let tree = Tree::new()?;
    tree.file("up", 300_000, 5)?;
    let mut killed = command(&tree, &["up", &to.url("file")])?.spawn()?;
    let begun = Instant::now();
    while to.files().is_empty() {
        if begun.elapsed() > LIMIT {
            killed.kill()?;
            anyhow::bail!("nothing is stored: {:?}", to.commands());
        }
        std::thread::yield_now();
    }
    killed.kill()?;
    killed.wait()?;
    let left = to.files();
    ensure!(left.len() == 1 && left != ["/file"], "{left:?}");
    cp_in(&tree, &["up", &to.url("other")])?.ok()?;
    ensure!(to.files() == ["/other"], "{:?}", to.files());
    // The record went with them.
    let before = to.count("DELE");
    cp_in(&tree, &["up", &to.url("other")])?.ok()?;
    ensure!(to.count("DELE") == before, "{:?}", to.commands());
    Ok(())
}

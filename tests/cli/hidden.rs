//! Uploads to servers of others: a name holds the whole file or what it held before, whatever fails.

use std::process::Command;

use anyhow::{Result, ensure};
use workspace_tests::{Act, Finished, Played, Tree, binary, run};

use crate::{LIMIT, cp_in, fails};

/// Where the bytes of an upload come from.
#[derive(Clone, Copy, Debug)]
enum From {
    File,
    Pipe,
    Server,
}

const ALL: [From; 3] = [From::File, From::Pipe, From::Server];

/// Uploads 300,000 bytes to `file` of a server that answers commands which begin so by `act`, the others
/// as usual.
fn upload(
    from: From,
    flags: &[&str],
    script: &'static [(&'static str, &'static str)],
) -> Result<(Played, Finished)> {
    let to = Played::start(|line| {
        let act = script.iter().find(|(start, _)| line.starts_with(start));
        act.map_or(Act::Usual, |(_, say)| Act::say(say))
    })?;
    to.file("/file", "old");
    let tree = Tree::new()?;
    tree.file("up", 300_000, 5)?;
    let other = Played::start(|line| match line.split(' ').next() {
        Some("FEAT") => Act::say(FEATURES),
        Some("CKSM") => Act::say("213 00112233445566778899aabbccddeeff"),
        _ => Act::Usual,
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

/// The old file is there, and nothing else.
fn is_old(server: &Played) -> Result<()> {
    ensure!(server.files() == ["/file"], "{:?}", server.files());
    ensure!(server.bytes("/file") == Some(b"old".to_vec()));
    ensure!(server.count("DELE") == 1, "{:?}", server.heard());
    Ok(())
}

#[test]
fn an_upload_has_its_name_when_it_is_whole() -> Result<()> {
    for from in ALL {
        let (to, finished) = upload(from, &[], &[])?;
        finished.ok()?;
        ensure!(to.files() == ["/file"], "{from:?}: {:?}", to.files());
        let heard = to.heard();
        let hidden = heard
            .iter()
            .find(|line| line.starts_with("STOR /.file.gridftp-"));
        ensure!(heard.contains(&"RNTO /file".to_owned()), "{heard:?}");
        // Another run writes elsewhere, so that neither publishes what the other writes.
        let (to, finished) = upload(from, &[], &[])?;
        finished.ok()?;
        ensure!(
            hidden.is_some_and(|name| !to.heard().contains(name)),
            "{heard:?}"
        );
    }
    Ok(())
}

#[test]
fn an_upload_that_fails_is_removed_and_leaves_the_old_file() -> Result<()> {
    for from in ALL {
        let (to, finished) = upload(from, &[], &[("END STOR", "552 the disk is full")])?;
        fails(&finished, 1, &["552 the disk is full"])?;
        is_old(&to)?;
    }
    Ok(())
}

#[test]
fn an_upload_whose_digest_differs_never_has_the_name() -> Result<()> {
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
fn a_server_that_takes_no_hidden_names_gets_the_file_under_its_own() -> Result<()> {
    for from in ALL {
        let (to, finished) = upload(from, &[], &[("STOR /.", "553 no such name here")])?;
        finished.ok()?;
        ensure!(to.files() == ["/file"], "{from:?}: {:?}", to.files());
        ensure!(to.count("STOR") == 2, "{:?}", to.heard());
    }
    Ok(())
}

#[test]
fn a_server_that_does_not_rename_gets_the_file_under_its_own_name() -> Result<()> {
    for from in ALL {
        let (to, finished) = upload(from, &[], &[("RNFR", "502 not here")])?;
        finished.ok()?;
        ensure!(to.files() == ["/file"], "{from:?}: {:?}", to.files());
        ensure!(to.count("STOR") == 1, "{:?}", to.heard());
    }
    Ok(())
}

#[test]
fn an_upload_whose_session_ends_is_removed_over_another() -> Result<()> {
    let midway = |about: &str| match about.starts_with("MIDWAY STOR") {
        true => Act::Leave(String::new()),
        false => Act::Usual,
    };
    let (to, other) = (Played::start(midway)?, Played::usual()?);
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

/// What was piped in cannot be had again: it stays, and the message says where.
#[test]
fn a_refused_rename_of_what_was_piped_in_loses_nothing() -> Result<()> {
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

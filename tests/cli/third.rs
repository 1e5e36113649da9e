//! Copies from server to server between plain FTP servers: order, refusals, and the word of both.

use anyhow::{Result, ensure};
use workspace_tests::{Act, Finished, Played, Tree};

use crate::{cp_in, fails};

/// Copies ten files over one connection.
fn copy(source: &Played, destination: &Played, flags: &[&str]) -> Result<Finished> {
    for n in 0..10 {
        source.file(&format!("/from/{n}"), vec![n; 1000 + usize::from(n)]);
    }
    destination.file("/to/keep", "x");
    let urls: Vec<_> = (0..10).map(|n| source.url(&format!("from/{n}"))).collect();
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let to = destination.url("to/");
    let tree = Tree::new()?;
    cp_in(&tree, &[&["-j", "1"], flags, &urls, &[&to]].concat())
}

#[test]
fn the_store_is_there_before_its_data() -> Result<()> {
    let destination = Played::usual()?;
    let waits = destination.clone();
    let source = Played::start(move |line| match line.strip_prefix("RETR /from/") {
        Some(name) if !waits.hears(&format!("STOR /to/.{name}.")) => Act::say("425 no store there"),
        _ => Act::Usual,
    })?;
    copy(&source, &destination, &[])?.ok()?;
    for n in 0..10 {
        let there = destination.bytes(&format!("/to/{n}"));
        ensure!(there == source.bytes(&format!("/from/{n}")), "{n} differs");
    }
    Ok(())
}

#[test]
fn one_refused_file_costs_one_file() -> Result<()> {
    let refusals = [
        &["STOR /to/.4.gridftp-", "STOR /to/4"][..],
        &["RETR /from/4"],
    ];
    for (at, refused) in refusals.into_iter().enumerate() {
        let servers = [0, 1].map(|n| {
            Played::start(move |line| {
                match n == at && refused.iter().any(|start| line.starts_with(start)) {
                    true => Act::say("550 not for you"),
                    false => Act::Usual,
                }
            })
        });
        let [destination, source] = servers;
        let (destination, source) = (destination?, source?);
        let finished = copy(&source, &destination, &["--retries", "1"])?;
        fails(&finished, 1, &["from/4: failed", "550 not for you"])?;
        for n in (0..10).filter(|n| *n != 4) {
            let there = destination.bytes(&format!("/to/{n}"));
            ensure!(there == source.bytes(&format!("/from/{n}")), "{n} differs");
        }
        for server in [&source, &destination] {
            let moves = server.count("RETR") + server.count("STOR");
            let most = 9 + refused.len();
            ensure!(moves == most, "{moves} transfers: {:?}", server.heard());
            ensure!(server.count("USER") == 1, "{:?}", server.heard());
        }
    }
    Ok(())
}

#[test]
fn the_word_of_both_servers_is_told() -> Result<()> {
    let end = |verb: &'static str, text: &'static str| {
        Played::start(
            move |about| match about.starts_with(&format!("END {verb}")) {
                true => Act::say(text),
                false => Act::Usual,
            },
        )
    };
    let source = end("RETR", "551 the tape is torn")?;
    let destination = end("STOR", "552 the disk is full")?;
    let finished = copy(&source, &destination, &["--retries", "0"])?;
    fails(
        &finished,
        1,
        &["551 the tape is torn", "552 the disk is full"],
    )
}

#[test]
fn a_server_that_dies_is_named() -> Result<()> {
    for dead in ["STOR", "RETR"] {
        let mortal = |verb| {
            Played::start(
                move |about| match about.starts_with("END") && verb == dead {
                    true => Act::Leave(String::new()),
                    false => Act::Usual,
                },
            )
        };
        let (source, destination) = (mortal("RETR")?, mortal("STOR")?);
        let finished = copy(&source, &destination, &["--retries", "0"])?;
        let told = &finished.failed()?.stderr;
        let named = told.contains(&format!("{dead} /"));
        ensure!(named && told.contains("closed by the server"), "{told}");
    }
    Ok(())
}

/// A server that is at work in silence has ten minutes, unless the other one says that there is nothing to wait for.
#[test]
fn a_server_slower_than_the_timeout_does_not_keep_back_the_word_of_the_other() -> Result<()> {
    const WORD: &str = "551 the tape is torn";
    for silent in ["END STOR", "END RETR"] {
        let script = move |about: &str| match about {
            _ if about.starts_with(silent) => Act::Silence,
            _ if about.starts_with("END") => Act::say(WORD),
            _ => Act::Usual,
        };
        let (source, destination) = (Played::start(script)?, Played::start(script)?);
        source.file("/from", "abc");
        let flags = ["--timeout", "1", "--retries", "0"];
        let ends = [source.url("from"), destination.url("to")];
        let ends = ends.each_ref().map(String::as_str);
        let finished = cp_in(&Tree::new()?, &[&flags[..], &ends].concat())?;
        fails(&finished, 1, &[WORD])?;
    }
    Ok(())
}

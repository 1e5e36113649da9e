//! Third-party copies between plain FTP servers: order of commands, refusals, errors of both
//! servers.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Host, Reaction, ScriptedServer, Tree, same_file};

use crate::{cp_in, fails};

/// Copies ten files over one connection.
fn copy(source: &ScriptedServer, destination: &ScriptedServer, flags: &[&str]) -> Result<Finished> {
    for n in 0..10 {
        source.file(&format!("/from/{n}"), vec![n; 1000 + usize::from(n)]);
    }
    destination.file("/to/keep", "x");
    let urls: Vec<_> = (0..10).map(|n| source.url(&format!("from/{n}"))).collect();
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let to = destination.url("to/");
    let tree = Tree::new()?;
    let all = [&["-j", "1", "--relay", "never"], flags, &urls, &[&to]];
    cp_in(&tree, &all.concat())
}

#[test]
fn servers_without_an_algorithm_in_common_are_told_before_the_copy() -> Result<()> {
    let server = |features: &'static str| {
        ScriptedServer::start(move |line| match line {
            "FEAT" => Reaction::say(features),
            _ => Reaction::Usual,
        })
    };
    let source = server("211-\r\n CKSM MD5:10;\r\n211 end")?;
    let destination = server("211-\r\n CKSM SHA256:10;\r\n211 end")?;
    let finished = copy(&source, &destination, &["--verify"])?;
    fails(
        &finished,
        2,
        &["have no checksum algorithm in common", "without --verify"],
    )?;
    ensure!(destination.bytes("/to/0").is_none(), "it was copied");
    Ok(())
}

#[test]
fn stor_is_sent_before_retr() -> Result<()> {
    let destination = ScriptedServer::usual()?;
    let other = destination.clone();
    let source = ScriptedServer::start(move |line| match line.strip_prefix("RETR /from/") {
        Some(name) if !other.waits_for(&format!("STOR /to/.{name}.")) => {
            Reaction::say("425 no store there")
        }
        _ => Reaction::Usual,
    })?;
    copy(&source, &destination, &[])?.ok()?;
    for n in 0..10 {
        let there = destination.bytes(&format!("/to/{n}"));
        ensure!(there == source.bytes(&format!("/from/{n}")), "{n} differs");
    }
    Ok(())
}

#[test]
fn a_refused_file_fails_no_other_file() -> Result<()> {
    let refusals = [
        &["STOR /to/.4.gridftp-", "STOR /to/4"][..],
        &["RETR /from/4"],
    ];
    for (at, refused) in refusals.into_iter().enumerate() {
        let servers = [0, 1].map(|n| {
            ScriptedServer::start(move |line| {
                match n == at && refused.iter().any(|start| line.starts_with(start)) {
                    true => Reaction::say("550 not for you"),
                    false => Reaction::Usual,
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
            ensure!(moves == most, "{moves} transfers: {:?}", server.commands());
            ensure!(server.count("USER") == 1, "{:?}", server.commands());
        }
    }
    Ok(())
}

#[test]
fn errors_of_both_servers_are_reported() -> Result<()> {
    let end = |verb: &'static str, text: &'static str| {
        ScriptedServer::start(
            move |about| match about.starts_with(&format!("END {verb}")) {
                true => Reaction::say(text),
                false => Reaction::Usual,
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
fn a_lost_server_is_named() -> Result<()> {
    for dead in ["STOR", "RETR"] {
        let mortal = |verb| {
            ScriptedServer::start(
                move |about| match about.starts_with("END") && verb == dead {
                    true => Reaction::HangUp(String::new()),
                    false => Reaction::Usual,
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

/// A silent server has ten minutes to finish, unless the other server reports an error.
#[test]
fn an_error_of_one_server_ends_the_wait_for_the_other() -> Result<()> {
    const WORD: &str = "551 the tape is torn";
    for silent in ["END STOR", "END RETR"] {
        let script = move |about: &str| match about {
            _ if about.starts_with(silent) => Reaction::Silence,
            _ if about.starts_with("END") => Reaction::say(WORD),
            _ => Reaction::Usual,
        };
        let (source, destination) = (
            ScriptedServer::start(script)?,
            ScriptedServer::start(script)?,
        );
        source.file("/from", "abc");
        let flags = ["--timeout", "1", "--retries", "0"];
        let ends = [source.url("from"), destination.url("to")];
        let ends = ends.each_ref().map(String::as_str);
        let finished = cp_in(&Tree::new()?, &[&flags[..], &ends].concat())?;
        fails(&finished, 1, &[WORD])?;
    }
    Ok(())
}

/// The source cannot send digests while it sends a file that nobody takes.
#[test]
fn a_refused_large_file_holds_up_no_digests() -> Result<()> {
    let (here, there) = (Tree::new()?, Tree::new()?);
    there.dir("to/large/in the way")?;
    let [from, to] = [&here, &there].map(|tree| Host::ours(tree.root()));
    let (from, to) = (from?, to?);
    let mut urls = Vec::new();
    for n in 0..10 {
        here.file(&n.to_string(), 1000 + n, n)?;
        urls.push(from.url(&n.to_string()));
    }
    here.file("large", 20 << 20, 11)?;
    urls.push(from.url("large"));
    urls.push(to.url("to/"));
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let finished = cp_in(&here, &[&["-j1", "--verify"], &urls[..]].concat())?;
    fails(&finished, 1, &["large: failed", "is a directory"])?;
    ensure!(begun.elapsed() < Duration::from_secs(45), "late");
    for n in 0..10 {
        let name = n.to_string();
        same_file(&here.path(&name), &there.path(&format!("to/{name}")))?;
    }
    Ok(())
}

/// The source tells the times of its connections and their round trips, to this end or beside another
/// server.
#[test]
fn a_server_that_sends_tells_of_its_connections() -> Result<()> {
    let (here, there) = (Tree::new()?, Tree::new()?);
    // Four seconds, and more than socket buffers take at once.
    here.file("file", 8 << 20, 1)?;
    let from = Host::ours_with(here.root(), &["--net-stacks", "tcp:pacing=2M"])?;
    let to = Host::ours(there.root())?;
    let flags = ["--polite", "--debug", "-p1"];
    for target in ["down".to_owned(), to.url("over")] {
        let ends = [&from.url("file")[..], &target];
        let told = cp_in(&there, &[&flags[..], &ends].concat())?.ok()?.stderr;
        ensure!(told.contains("OPTS RETR Markers=1;"), "{told}");
        let tells = |line: &str| line.contains("Waits: Moving=") && line.contains("Connections=1;");
        ensure!(told.lines().any(tells), "{told}");
    }
    same_file(&here.path("file"), &there.path("down"))?;
    same_file(&here.path("file"), &there.path("over"))
}

//! Digests at servers of others, which are compared wherever a server gives them.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Reaction, ScriptedServer, Tree, sha256_of};

use crate::{cp_in, fails};

const FEATURES: &str = "211-\r\n SIZE\r\n CKSM ADLER32:10;SHA256:11;MD5:10;\r\n211 end";

/// Starts a server that gives digests; `script` reacts to lines before that.
fn digesting(
    script: impl Fn(&str) -> Option<Reaction> + Send + Sync + 'static,
) -> Result<ScriptedServer> {
    Ok(ScriptedServer::with(move |server, line| {
        if let Some(reaction) = script(line) {
            return reaction;
        }
        match line.split_once(" 0 -1 ") {
            _ if line == "FEAT" => Reaction::say(FEATURES),
            Some(("CKSM SHA256", path)) => {
                let bytes = server.bytes(path).unwrap_or_default();
                let digest = sha256_of(&bytes[..]).unwrap_or_default();
                Reaction::say(&format!("213 {digest}"))
            }
            _ => Reaction::Usual,
        }
    })?)
}

/// Copies three files of the tree to the server `to`, back from it, and from it to `other`.
fn round(tree: &Tree, to: &ScriptedServer, other: &ScriptedServer) -> Result<[Finished; 3]> {
    for n in 0..3 {
        tree.file(&format!("up/{n}"), 300_000, n)?;
    }
    tree.file("up/empty", 0, 0)?;
    let copy = |from: &str, dest: &str| cp_in(tree, &["-r", "-j", "1", "--json", from, dest]);
    Ok([
        copy("up", &to.url(""))?,
        copy(&to.url("up"), "down/")?,
        copy(&to.url("up"), &other.url(""))?,
    ])
}

/// The values of `verified` of the files of a run that moved bytes, each once.
fn proofs(finished: &Finished) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for line in finished.stdout.lines() {
        let event: serde_json::Value = serde_json::from_str(line)?;
        let text = |name: &str| event.get(name).and_then(serde_json::Value::as_str);
        if let (Some("done"), Some(proof)) = (text("event"), text("verified"))
            && event.get("bytes") != Some(&0.into())
        {
            found.push(proof.to_owned());
        }
    }
    ensure!(found.len() == 3, "{}", finished.report());
    found.dedup();
    Ok(found)
}

/// Counts the warnings of a run that hold `text`.
fn warnings(finished: &Finished, text: &str) -> usize {
    let is = |line: &&str| line.contains("\"warning\"") && line.contains(text);
    finished.stdout.lines().filter(is).count()
}

#[test]
fn the_best_cheap_digest_is_compared_unasked() -> Result<()> {
    let (tree, to, other) = (Tree::new()?, digesting(|_| None)?, digesting(|_| None)?);
    for finished in round(&tree, &to, &other)? {
        let finished = finished.ok()?;
        ensure!(proofs(&finished)? == ["digest"], "{}", finished.report());
        ensure!(warnings(&finished, "") == 0, "{}", finished.report());
    }
    ensure!(to.count("CKSM") == 9, "{:?}", to.commands());
    Ok(())
}

#[test]
fn a_server_without_digests_is_told_of_once() -> Result<()> {
    for (reply, asked) in [(None, 0), (Some("502 no such command"), 1)] {
        let start = || {
            digesting(move |line| match (line.split(' ').next(), reply) {
                (Some("FEAT"), None) => Some(Reaction::Usual),
                (Some("CKSM"), Some(reply)) => Some(Reaction::say(reply)),
                _ => None,
            })
        };
        let (tree, to, other) = (Tree::new()?, start()?, start()?);
        let runs = round(&tree, &to, &other)?;
        for finished in &runs {
            ensure!(finished.status.success(), "{}", finished.report());
            ensure!(proofs(finished)? == ["size"], "{}", finished.report());
            let told = warnings(finished, "copies are compared by size only");
            ensure!((1..=2).contains(&told), "{}", finished.report());
        }
        ensure!(warnings(&runs[0], "by size only") == 1);
        ensure!(to.count("CKSM") <= 3 * asked, "{:?}", to.commands());
        ensure!(to.count("STOR") == 4 && to.count("RETR") == 8);
    }
    Ok(())
}

#[test]
fn a_server_that_hangs_up_over_a_digest_is_asked_no_third_time() -> Result<()> {
    let to = digesting(|line| {
        line.starts_with("CKSM")
            .then(|| Reaction::HangUp(String::new()))
    })?;
    let tree = Tree::new()?;
    tree.file("up", 300_000, 1)?;
    let finished = cp_in(&tree, &["up", &to.url("up")])?;
    finished.ok()?;
    ensure!(to.files() == ["/up"], "{:?}", to.files());
    ensure!(to.count("CKSM") <= 3, "{:?}", to.commands());
    let finished = cp_in(&tree, &[&to.url("up"), "down"])?;
    finished.ok()?;
    workspace_tests::same_file(&tree.path("up"), &tree.path("down"))?;
    Ok(())
}

#[test]
fn a_bad_copy_has_no_final_name() -> Result<()> {
    // A server without renames has it under its own name meanwhile.
    for renames in [true, false] {
        let start = || {
            digesting(move |line| match line.split(' ').next() {
                Some("RNFR") if !renames => Some(Reaction::say("502 no renames")),
                Some("CKSM") => Some(Reaction::say(&format!("213 {:064}", 1))),
                _ => None,
            })
        };
        let (to, good, tree) = (start()?, digesting(|_| None)?, Tree::new()?);
        tree.file("up", 300_000, 1)?;
        good.file("/up", std::fs::read(tree.path("up"))?);
        for source in ["up", &good.url("up")] {
            let finished = cp_in(&tree, &["--retries", "0", source, &to.url("new")])?;
            fails(&finished, 5, &["SHA256"])?;
            ensure!(
                to.files().is_empty(),
                "{renames} {source}: {:?}",
                to.files()
            );
            ensure!(
                renames || finished.stderr.contains("removed"),
                "{}",
                finished.report()
            );
        }
        to.file("/down", "bytes");
        let finished = cp_in(&tree, &["--retries", "0", &to.url("down"), "down"])?;
        fails(&finished, 5, &["SHA256"])?;
        ensure!(!tree.path("down").exists());
    }
    Ok(())
}

#[test]
fn a_digest_that_is_refused_of_one_file_fails_none() -> Result<()> {
    let to = digesting(|line| {
        let is = line.starts_with("CKSM") && line.contains("/.1.");
        is.then(|| Reaction::say("550 permission denied"))
    })?;
    let tree = Tree::new()?;
    for n in 0..3 {
        tree.file(&format!("up/{n}"), 1000, n)?;
    }
    let finished = cp_in(&tree, &["-r", "-j", "1", "--json", "up", &to.url("")])?;
    let finished = finished.ok()?;
    ensure!(finished.stdout.matches("\"verified\":\"digest\"").count() == 2);
    ensure!(finished.stdout.matches("\"verified\":\"size\"").count() == 1);
    ensure!(
        warnings(&finished, "by size only") == 1,
        "{}",
        finished.report()
    );
    Ok(())
}

#[test]
fn bytes_of_a_pipe_are_compared_unasked() -> Result<()> {
    static BAD: AtomicU32 = AtomicU32::new(0);
    let to = digesting(|line| {
        let bad = line.starts_with("CKSM") && BAD.load(Ordering::Relaxed) > 0;
        bad.then(|| Reaction::say(&format!("213 {:064}", 1)))
    })?;
    let tree = Tree::new()?;
    to.file("/file", "bytes");
    cp_in(&tree, &[&to.url("file"), "-"])?.ok()?;
    ensure!(to.count("CKSM") == 1, "{:?}", to.commands());
    BAD.store(1, Ordering::Relaxed);
    fails(&cp_in(&tree, &[&to.url("file"), "-"])?, 5, &["SHA256"])
}

//! Plain FTP servers, in the order in which they need things: logins, uploads, refusals, listings.

use anyhow::{Result, ensure};
use workspace_tests::{Act, Break, Finished, Played, Relay, Tree};

use crate::{Bed, cp_in, fails};

/// Answers commands that begin with `start` by `act`, the others as usual.
fn at(start: &'static str, act: Act) -> Result<Played> {
    Played::start(move |line| match line.starts_with(start) {
        true => act.clone(),
        false => Act::Usual,
    })
}

/// Bytes that moved, as `--json` tells at the end.
fn moved(finished: &Finished) -> Result<u64> {
    for line in finished.stdout.lines() {
        let event: serde_json::Value = serde_json::from_str(line)?;
        if event.get("event").is_some_and(|name| name == "end") {
            let bytes = event.get("bytes").and_then(serde_json::Value::as_u64);
            return Ok(bytes.unwrap_or_default());
        }
    }
    anyhow::bail!("no end: {}", finished.report())
}

#[test]
fn no_password_goes_to_a_server_that_wants_tls_first() -> Result<()> {
    let server = at("USER", Act::say("530 AUTH TLS first"))?;
    let tree = Tree::new()?;
    let url = server.url("file").replace("ftp://", "ftp://ann:secret@");
    fails(&cp_in(&tree, &[&url, "file"])?, 4, &["AUTH TLS first"])?;
    ensure!(server.count("PASS") == 0, "{:?}", server.heard());
    Ok(())
}

#[test]
fn a_server_that_wants_no_password_gets_none() -> Result<()> {
    let server = at("USER", Act::say("230 come in"))?;
    server.file("/file", "abc");
    let tree = Tree::new()?;
    cp_in(&tree, &[&server.url("file"), "file"])?.ok()?;
    ensure!(server.count("PASS") == 0, "{:?}", server.heard());
    Ok(())
}

#[test]
fn a_bad_login_is_told_although_the_server_hangs_up() -> Result<()> {
    let server = at("PASS", Act::Leave("530 Login incorrect.".to_owned()))?;
    let tree = Tree::new()?;
    let finished = cp_in(&tree, &[&server.url("file"), "file"])?;
    fails(&finished, 4, &["530 Login incorrect", "--user"])
}

#[test]
fn no_data_goes_out_before_its_store_is_accepted() -> Result<()> {
    let server = Played::usual()?;
    let tree = Tree::new()?;
    for n in 0..20 {
        tree.file(&format!("up/{n}"), 1000 + n, n)?;
    }
    cp_in(&tree, &["-r", "up/", &server.url("up")])?.ok()?;
    let url = server.url("zeros");
    cp_in(&tree, &["--length", "100000", "/dev/zero", &url])?.ok()?;
    ensure!(server.early() == 0, "{} were early", server.early());
    for n in 0..20 {
        let there = server.bytes(&format!("/up/{n}"));
        ensure!(there == Some(std::fs::read(tree.path(&format!("up/{n}")))?));
    }
    ensure!(server.bytes("/zeros") == Some(vec![0; 100_000]));
    Ok(())
}

#[test]
fn a_store_that_is_never_answered_is_given_up() -> Result<()> {
    let server = at("STOR", Act::Silence)?;
    let tree = Tree::new()?;
    tree.file("file", 1000, 1)?;
    let flags = ["--timeout", "1", "--retries", "0"];
    let finished = cp_in(
        &tree,
        &[&flags[..], &["file", &server.url("file")]].concat(),
    )?;
    fails(&finished, 3, &["STOR", "no reply in time"])
}

#[test]
fn a_refused_store_gets_no_data() -> Result<()> {
    let server = at("STOR", Act::say("552 no room for you"))?;
    let tree = Tree::new()?;
    tree.file("file", 3_000_000, 1)?;
    let finished = cp_in(&tree, &["file", &server.url("file")])?;
    fails(&finished, 1, &["552 no room for you"])?;
    ensure!(server.received() == 0, "{} bytes went", server.received());
    Ok(())
}

#[test]
fn a_refused_store_of_a_huge_file_ends_at_once() -> Result<()> {
    const HUGE: u64 = 64 << 30;
    let bed = Bed::new()?;
    bed.here.sparse("huge", HUGE, 1)?;
    bed.there.file("file", 3, 1)?;
    let (flags, url) = (["--mode", "stream", "--json", "huge"], bed.url("file/sub"));
    let finished = bed.cp(&[&flags[..], &[&url]].concat())?;
    fails(&finished, 1, &[])?;
    ensure!(finished.stdout.contains("550"), "{}", finished.report());
    let went = moved(&finished)?;
    ensure!(went < HUGE / 2, "{went} bytes went: {}", finished.report());
    Ok(())
}

#[test]
fn what_cannot_be_stored_here_is_not_asked_for() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("from/file", 8_000_000, 1)?;
    bed.here.file("file", 3, 1)?;
    for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        let relay = Relay::start(bed.server.addr(), Break::Never)?;
        let url = bed.server.url_at(relay.addr(), "from/file");
        let finished = bed.cp(&[flags, &[&url, "file/sub"]].concat())?;
        fails(&finished, 1, &["local: make directory file"])?;
        ensure!(relay.passed() == 0, "{} bytes came", relay.passed());
    }
    Ok(())
}

#[test]
fn a_file_without_room_for_it_is_not_asked_for() -> Result<()> {
    let server = at("SIZE", Act::say("213 1152921504606846976"))?;
    server.file("/file", "abc");
    let tree = Tree::new()?;
    let finished = cp_in(&tree, &[&server.url("file"), "file"])?;
    fails(&finished, 1, &["create file", "No space left"])?;
    ensure!(server.count("RETR") == 0 && tree.names("")?.is_empty());
    Ok(())
}

//! Plain FTP servers, in the order in which they need things: logins, uploads, refusals, listings.

use std::sync::atomic::{AtomicU32, Ordering};

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
fn a_refused_store_of_a_huge_file_ends_at_once_in_every_mode() -> Result<()> {
    const HUGE: u64 = 64 << 30;
    let bed = Bed::new()?;
    bed.here.sparse("huge", HUGE, 1)?;
    bed.there.file("file", 3, 1)?;
    for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        let url = bed.url("file/sub");
        let finished = bed.cp(&[flags, &["--json", "huge", &url]].concat())?;
        fails(&finished, 1, &[])?;
        ensure!(finished.stdout.contains("550"), "{}", finished.report());
        let went = moved(&finished)?;
        ensure!(went < HUGE / 2, "{went} bytes went: {}", finished.report());
    }
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

/// Once a download is midway, so many connections of the server are lost.
fn outage(lost: u32) -> Result<Played> {
    let left = AtomicU32::new(u32::MAX);
    let server = Played::start(move |about| {
        let ends = match about.split(' ').next() {
            Some("MIDWAY") if left.load(Ordering::SeqCst) == u32::MAX => {
                left.store(lost, Ordering::SeqCst);
                true
            }
            Some("CONNECT") => {
                let less = |left| (1..u32::MAX).contains(&left).then(|| left - 1);
                left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                    .is_ok()
            }
            _ => false,
        };
        match ends {
            true => Act::Leave(String::new()),
            false => Act::Usual,
        }
    })?;
    server.file("/file", vec![7; 4_000_000]);
    Ok(server)
}

#[test]
fn a_server_that_comes_back_sends_the_rest() -> Result<()> {
    let server = outage(3)?;
    let tree = Tree::new()?;
    let finished = cp_in(&tree, &["--retries", "1", &server.url("file"), "file"])?.ok()?;
    ensure!(
        finished
            .stderr
            .contains("trying again for 600 s (--retry-for)"),
        "{}",
        finished.report()
    );
    ensure!(std::fs::read(tree.path("file"))? == vec![7; 4_000_000]);
    let rest = |line: &String| line.strip_prefix("REST ")?.parse::<u64>().ok();
    let rests: Vec<_> = server.heard().iter().filter_map(rest).collect();
    ensure!(
        matches!(rests[..], [at] if at > 0),
        "the bytes were not kept: {rests:?}"
    );
    Ok(())
}

#[test]
fn a_server_that_stays_away_is_given_up_after_the_time_for_that() -> Result<()> {
    for flags in [
        ["--retries", "1", "--retry-for", "0"],
        ["--retries", "0", "--retry-for", "600"],
    ] {
        let tree = Tree::new()?;
        let url = outage(1000)?.url("file");
        let finished = cp_in(&tree, &[&flags[..], &[&url, "file"]].concat())?.failed()?;
        let said = &finished.stderr;
        ensure!(said.contains("closed by the server"), "{said}");
        ensure!(!said.contains("--retry-for"), "{said}");
        ensure!(tree.names("")?.is_empty(), "{:?}", tree.names("")?);
    }
    Ok(())
}

#[test]
fn verification_that_cannot_be_done_is_told_before_the_transfer() -> Result<()> {
    let server = Played::usual()?;
    server.file("/file", "abc");
    let tree = Tree::new()?;
    tree.file("up", 3, 1)?;
    for ends in [["up", &server.url("up")], [&server.url("file"), "file"]] {
        let finished = cp_in(&tree, &[&["--verify"][..], &ends].concat())?;
        fails(&finished, 2, &["computes no checksums"])?;
    }
    ensure!(server.count("STOR") + server.count("RETR") == 0);
    ensure!(server.files() == ["/file"] && tree.names("")? == ["up"]);
    Ok(())
}

#[test]
fn of_digests_that_cost_the_same_the_strongest_is_taken() -> Result<()> {
    let server = Played::start(|line| match line.split(' ').next() {
        Some("FEAT") => Act::say("211-\r\n CKSM ADLER32:10;MD5:10;SHA256:10;\r\n211 end"),
        // That of "abc".
        Some("CKSM") => {
            Act::say("213 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        }
        _ => Act::Usual,
    })?;
    server.file("/file", "abc");
    let tree = Tree::new()?;
    let finished = cp_in(&tree, &["--verify", "-v", &server.url("file"), "file"])?.ok()?;
    ensure!(
        finished.stdout.contains("SHA256 ba78"),
        "{}",
        finished.report()
    );
    let finished = cp_in(&tree, &["--verify=crc32c", &server.url("file"), "file"])?;
    fails(
        &finished,
        2,
        &["does not offer CRC32C; it offers ADLER32, MD5, SHA256"],
    )
}

#[test]
fn a_tree_comes_from_a_server_without_machine_listings() -> Result<()> {
    // The last says that it has them.
    let servers = [
        Played::usual()?,
        at("LIST -a", Act::say("501 no options"))?,
        at(
            "FEAT",
            Act::say("211-\r\n MLST type*;size*;\r\n SIZE\r\n211 end"),
        )?,
    ];
    for (server, hidden) in servers.into_iter().zip([true, false, true]) {
        server.file("/dir/a b", "abc");
        server.file("/dir/.hidden", "");
        server.file("/dir/sub/c", vec![3; 100_000]);
        let tree = Tree::new()?;
        cp_in(&tree, &["-r", &server.url("dir/"), "in/"])?.ok()?;
        let names = tree.names("")?;
        let all = ["in/.hidden", "in/a b", "in/sub/c"];
        ensure!(names == all[usize::from(!hidden)..], "{names:?}");
        ensure!(std::fs::read(tree.path("in/sub/c"))? == vec![3; 100_000]);
        cp_in(&tree, &[&server.url("dir/a*"), "matches/"])?.ok()?;
        ensure!(tree.names("matches")?.len() == 1);
        let listed = cp_in(&tree, &["--list", &server.url("dir")])?.ok()?;
        let lines = listed.stdout.lines().count();
        ensure!(lines == 2 + usize::from(hidden), "{}", listed.report());
    }
    Ok(())
}

#[test]
fn a_wildcard_over_an_empty_directory_is_told_to_match_nothing() -> Result<()> {
    let server = Played::usual()?;
    server.dir("/empty");
    server.file("/dir/file", "abc");
    let tree = Tree::new()?;
    for pattern in ["empty/x*", "dir/x*"] {
        let finished = cp_in(&tree, &[&server.url(pattern), "in/"])?;
        fails(&finished, 1, &["no name there matches"])?;
    }
    cp_in(&tree, &["-r", &server.url("empty/"), "in/"])?.ok()?;
    Ok(())
}

#[test]
fn a_directory_that_no_command_lists_is_told_once() -> Result<()> {
    let server = at("LIST", Act::say("500 no"))?;
    server.file("/dir/file", "abc");
    let tree = Tree::new()?;
    let finished = cp_in(&tree, &["-r", &server.url("dir/"), "in/"])?;
    fails(&finished, 1, &["LIST", "500 no", "name each file"])?;
    ensure!(!finished.stderr.contains("retry"), "{}", finished.report());
    Ok(())
}

#[test]
fn what_a_broken_upload_left_is_not_taken_for_done() -> Result<()> {
    let server = Played::usual()?;
    let tree = Tree::new()?;
    tree.file("file", 3, 1)?;
    server.file("/file", "ab");
    server.file("/from/file", "abc");
    for from in ["file", &server.url("from/file")] {
        let finished = cp_in(&tree, &["-n", from, &server.url("file")])?;
        fails(&finished, 1, &["exists with 2 of 3 bytes", "--no-clobber"])?;
    }
    server.file("/file", "xyz");
    let finished = cp_in(&tree, &["-n", "-v", "file", &server.url("file")])?.ok()?;
    ensure!(
        finished.stdout.contains("it exists"),
        "{}",
        finished.report()
    );
    ensure!(server.count("STOR") == 0 && server.bytes("/file") == Some(b"xyz".to_vec()));
    Ok(())
}

//! Plain FTP servers: order of commands and data, logins, refusals, outages, listings.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use workspace_tests::{Break, Finished, Reaction, Relay, ScriptedServer, Tree};

use crate::sibling::gridftp_in;
use crate::{Bed, breaks, cp_in, fails};

/// Starts a server with `reaction` to commands that begin with `start`.
fn at(start: &'static str, reaction: Reaction) -> std::io::Result<ScriptedServer> {
    ScriptedServer::start(move |line| match line.starts_with(start) {
        true => reaction.clone(),
        false => Reaction::Usual,
    })
}

/// Returns the number of copied bytes in the `end` event of `--json`.
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
fn no_password_is_sent_to_a_server_that_requires_tls() -> Result<()> {
    let server = at("USER", Reaction::say("530 AUTH TLS first"))?;
    let tree = Tree::new()?;
    let url = server.url("file").replace("ftp://", "ftp://ann:secret@");
    fails(&cp_in(&tree, &[&url, "file"])?, 4, &["AUTH TLS first"])?;
    ensure!(server.count("PASS") == 0, "{:?}", server.commands());
    Ok(())
}

#[test]
fn no_password_is_sent_to_a_server_that_requires_none() -> Result<()> {
    let server = at("USER", Reaction::say("230 come in"))?;
    server.file("/file", "abc");
    let tree = Tree::new()?;
    cp_in(&tree, &[&server.url("file"), "file"])?.ok()?;
    ensure!(server.count("PASS") == 0, "{:?}", server.commands());
    Ok(())
}

#[test]
fn a_refused_login_is_reported_although_the_server_hangs_up() -> Result<()> {
    let server = at("PASS", Reaction::HangUp("530 Login incorrect.".to_owned()))?;
    let tree = Tree::new()?;
    let finished = cp_in(&tree, &[&server.url("file"), "file"])?;
    fails(&finished, 4, &["530 Login incorrect", "--user"])
}

#[test]
fn no_data_is_sent_before_the_150_reply() -> Result<()> {
    let server = ScriptedServer::usual()?;
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
fn a_stor_without_a_reply_times_out() -> Result<()> {
    let server = at("STOR", Reaction::Silence)?;
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
fn a_refused_stor_gets_no_data() -> Result<()> {
    let server = at("STOR", Reaction::say("552 no room for you"))?;
    let tree = Tree::new()?;
    tree.file("file", 3_000_000, 1)?;
    let finished = cp_in(&tree, &["file", &server.url("file")])?;
    fails(&finished, 1, &["552 no room for you"])?;
    ensure!(
        server.received() == 0,
        "{} bytes were sent",
        server.received()
    );
    Ok(())
}

#[test]
fn a_refused_stor_of_a_huge_file_ends_early() -> Result<()> {
    const HUGE: u64 = 64 << 30;
    let bed = Bed::new()?;
    bed.here.sparse("huge", HUGE, 1)?;
    bed.there.file("file", 3, 1)?;
    for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        let url = bed.url("file/sub");
        let finished = bed.cp(&[flags, &["--json", "huge", &url]].concat())?;
        fails(&finished, 1, &[])?;
        ensure!(finished.stdout.contains("550"), "{}", finished.report());
        let sent = moved(&finished)?;
        ensure!(
            sent < HUGE / 2,
            "{sent} bytes were sent: {}",
            finished.report()
        );
    }
    Ok(())
}

#[test]
fn a_file_that_cannot_be_created_locally_is_not_requested() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("from/file", 8_000_000, 1)?;
    bed.here.file("file", 3, 1)?;
    for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        let relay = Relay::start(bed.server.addr(), Break::Never)?;
        let url = bed.server.url_at(relay.addr(), "from/file");
        let finished = bed.cp(&[flags, &[&url, "file/sub"]].concat())?;
        fails(&finished, 1, &["local: make directory file"])?;
        ensure!(relay.passed() == 0, "{} bytes passed", relay.passed());
    }
    Ok(())
}

#[test]
fn a_file_larger_than_the_local_disk_is_not_requested() -> Result<()> {
    let server = at("SIZE", Reaction::say("213 1152921504606846976"))?;
    server.file("/file", "abc");
    let tree = Tree::new()?;
    let finished = cp_in(&tree, &[&server.url("file"), "file"])?;
    fails(&finished, 1, &["create file", "No space left"])?;
    ensure!(server.count("RETR") == 0 && tree.names("")?.is_empty());
    Ok(())
}

/// Starts a server that closes a download midway, and then the next `lost` control connections.
fn outage(lost: u32) -> Result<ScriptedServer> {
    let left = AtomicU32::new(u32::MAX);
    let server = ScriptedServer::start(move |about| {
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
            true => Reaction::HangUp(String::new()),
            false => Reaction::Usual,
        }
    })?;
    server.file("/file", vec![7; 4_000_000]);
    Ok(server)
}

#[test]
fn a_download_continues_after_an_outage() -> Result<()> {
    let server = outage(3)?;
    let tree = Tree::new()?;
    let finished = cp_in(&tree, &["--retries", "1", &server.url("file"), "file"])?.ok()?;
    ensure!(
        finished
            .stderr
            .contains("connection lost, trying again for 10:00 (--retry-for): "),
        "{}",
        finished.report()
    );
    ensure!(std::fs::read(tree.path("file"))? == vec![7; 4_000_000]);
    let rest = |line: &String| line.strip_prefix("REST ")?.parse::<u64>().ok();
    let rests: Vec<_> = server.commands().iter().filter_map(rest).collect();
    ensure!(
        matches!(rests[..], [at] if at > 0),
        "the bytes were not kept: {rests:?}"
    );
    Ok(())
}

#[test]
fn a_lasting_outage_ends_the_copy_after_retry_for() -> Result<()> {
    for (flags, told) in [
        (["--retries", "1", "--retry-for", "0"], ""),
        (["--retries", "0", "--retry-for", "600"], ""),
        (
            ["--retries", "1", "--retry-for", "2"],
            "connection lost, trying again for 0:0",
        ),
    ] {
        let tree = Tree::new()?;
        let url = outage(1000)?.url("file");
        let finished = cp_in(&tree, &[&flags[..], &[&url, "file"]].concat())?.failed()?;
        let output = &finished.stderr;
        ensure!(output.contains("closed by the server"), "{output}");
        let is_tried = output.contains("--retry-for");
        ensure!(
            is_tried != told.is_empty() && output.contains(told),
            "{output}"
        );
        ensure!(
            finished.took < Duration::from_secs(60),
            "{}",
            finished.report()
        );
        ensure!(tree.names("")?.is_empty(), "{:?}", tree.names("")?);
    }
    Ok(())
}

#[test]
fn impossible_verification_is_reported_before_the_transfer() -> Result<()> {
    let server = ScriptedServer::usual()?;
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
fn a_strong_digest_that_costs_little_more_is_chosen() -> Result<()> {
    let server = ScriptedServer::start(|line| match line.split(' ').next() {
        Some("FEAT") => Reaction::say("211-\r\n CKSM ADLER32:9;MD5:10;SHA256:11;\r\n211 end"),
        // SHA-256 of "abc".
        Some("CKSM") => {
            Reaction::say("213 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        }
        _ => Reaction::Usual,
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
fn a_tree_is_copied_from_a_server_without_mlsd() -> Result<()> {
    // The last server advertises MLST and does not have it.
    let servers = [
        ScriptedServer::usual()?,
        at("LIST -a", Reaction::say("501 no options"))?,
        at(
            "FEAT",
            Reaction::say("211-\r\n MLST type*;size*;\r\n SIZE\r\n211 end"),
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
fn files_of_unknown_age_are_copied_with_one_warning() -> Result<()> {
    let server = ScriptedServer::usual()?;
    server.file("/dir/a", "abc");
    server.file("/dir/sub/b", "abcd");
    let tree = Tree::new()?;
    let args = ["-r", "--max-age", "1d", &server.url("dir/"), "in/"];
    let said = cp_in(&tree, &args)?.ok()?;
    let warnings = said.stderr.matches("--max-age leaves out no such file");
    ensure!(warnings.count() == 1, "{}", said.report());
    ensure!(tree.names("in")?.len() == 2, "{}", said.report());
    // Of a file that is named itself the server is asked for the time.
    let said = cp_in(&tree, &["-v", "--max-age", "1d", &server.url("dir/a"), "c"])?.ok()?;
    ensure!(said.stdout.contains("older than"), "{}", said.report());
    Ok(())
}

/// Nothing listens at the address of the reply.
#[test]
fn the_address_of_a_pasv_reply_is_used_where_it_is_trusted() -> Result<()> {
    let server = at("PASV", Reaction::Announce(Ipv4Addr::new(127, 0, 0, 2)))?;
    server.file("/file", "abc");
    let (tree, url) = (Tree::new()?, server.url("file"));
    cp_in(&tree, &[&url, "file"])?.ok()?;
    let flags = ["--trust-pasv-address", "--retries", "0", &url, "other"];
    breaks(&cp_in(&tree, &flags)?, &["127.0.0.2:", "refused"])
}

#[test]
fn modes_and_times_that_a_source_does_not_tell_are_warned_of_once() -> Result<()> {
    let (usual, timeless) = (
        ScriptedServer::usual()?,
        at("MDTM", Reaction::say("500 no"))?,
    );
    let target = ScriptedServer::usual()?;
    for server in [&usual, &timeless] {
        for name in ["a", "sub/b", "sub/deep/c"] {
            server.file(&format!("/dir/{name}"), "abc");
        }
    }
    let to = target.url("x");
    // LIST tells modes, but for the directory itself, and MDTM the times of files.
    for (server, from, to, [modes, times]) in [
        (&usual, "dir/", "in/", [1, 1]),
        (&usual, "dir/a", "a", [1, 0]),
        (&timeless, "dir/a", "b", [1, 1]),
        (&timeless, "dir/a", &to, [1, 1]),
    ] {
        let tree = Tree::new()?;
        let args = ["-r", &server.url(from), to];
        let said = cp_in(&tree, &[&["--preserve"][..], &args].concat())?;
        let count = |part: &str| {
            said.stderr
                .matches(&format!(": tells no {part} of /"))
                .count()
        };
        ensure!(
            [count("mode"), count("time")] == [modes, times],
            "{}",
            said.report()
        );
        let said = cp_in(&tree, &args)?.ok()?;
        ensure!(!said.stderr.contains(": tells no "), "{}", said.report());
    }
    Ok(())
}

#[test]
fn a_comparison_says_that_it_leaves_times_out() -> Result<()> {
    let server = ScriptedServer::usual()?;
    let tree = Tree::new()?;
    tree.dir("dir")?;
    for (name, text) in [("a", "abc"), ("b", "abcd")] {
        server.file(&format!("/dir/{name}"), text);
        std::fs::write(tree.path(&format!("dir/{name}")), text)?;
    }
    let url = server.url("dir");
    gridftp_in(&tree, &["check", "dir", &url])?.ok()?;
    let said = gridftp_in(&tree, &["check", "--times", "dir", &url])?;
    fails(&said, 1, &["it tells no time of 2 files", "--checksum"])?;
    let told = "2 files and 1 directory compared: no difference, times of 2 files not compared";
    ensure!(said.stdout.contains(told), "{}", said.report());
    // Of one there is a singular.
    tree.dir("one")?;
    std::fs::write(tree.path("one/a"), "abc")?;
    server.file("/one/a", "abc");
    let said = gridftp_in(&tree, &["check", "--times", "one", &server.url("one")])?;
    fails(&said, 1, &["it tells no time of 1 file; "])?;
    let told = "1 file and 1 directory compared: no difference, the time of 1 file not compared\n";
    ensure!(said.stdout.contains(told), "{}", said.report());
    Ok(())
}

#[test]
fn a_wildcard_without_a_match_is_an_error() -> Result<()> {
    let server = ScriptedServer::usual()?;
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
fn a_refused_list_is_reported_once() -> Result<()> {
    let server = at("LIST", Reaction::say("500 no"))?;
    server.file("/dir/file", "abc");
    let tree = Tree::new()?;
    let finished = cp_in(&tree, &["-r", &server.url("dir/"), "in/"])?;
    fails(&finished, 1, &["LIST", "500 no", "name each file"])?;
    ensure!(!finished.stderr.contains("retry"), "{}", finished.report());
    Ok(())
}

#[test]
fn a_partial_file_is_not_skipped_by_no_clobber() -> Result<()> {
    let server = ScriptedServer::usual()?;
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

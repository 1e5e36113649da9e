//! The bytes that copies which broke off have left: they are told, and removed.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use workspace_tests::{Break, Cluster, Host, Reaction, Relay, ScriptedServer, Tree};

use crate::resume::{DIGESTS, SENT, broken, storing};
use crate::{Bed, LIMIT, cp_in, fails};

/// The objects of a run with `--json`.
fn objects(here: &Tree, args: &[&str]) -> Result<Vec<Value>> {
    let said = cp_in(here, &[&["--json"], args].concat())?.ok()?;
    let objects = said.stdout.lines().map(serde_json::from_str);
    Ok(objects.collect::<Result<_, _>>()?)
}

/// The only object, which is of `kind` and has `held` bytes of `size`.
fn only(objects: &[Value], kind: &str, (held, size): (Option<usize>, u64)) -> Result<Value> {
    let [only] = objects else {
        anyhow::bail!("{objects:?}")
    };
    ensure!(
        only["kind"] == kind && only["held"] == json!(held) && only["size"] == size,
        "{only}"
    );
    ensure!(only["in_use"] == false, "{only}");
    Ok(only.clone())
}

#[test]
fn what_is_kept_of_a_download_is_told_and_removed() -> Result<()> {
    let here = Tree::new()?;
    let server = broken(&here, &["-c"], (3 * SENT, DIGESTS, true))?;
    let bytes = (Some(SENT), 3 * SENT as u64);
    let told = only(&objects(&here, &["--partials"])?, "download", bytes)?;
    ensure!(told["destination"] == "./file", "{told}");
    let source = told["source"].as_str().context("no source")?;
    ensure!(source.ends_with("/file"), "{told}");
    let text = cp_in(&here, &["--partials", "file"])?.ok()?.stdout;
    ensure!(
        text.starts_with("download file: 976.57 KiB of 2.86 MiB, from ftp://"),
        "{text}"
    );
    ensure!(objects(&here, &["--partials", "other"])?.is_empty());
    // From above it is found with -r alone.
    let above = here.root().parent().context("no parent")?;
    let name = here.root().file_name().context("no name")?;
    let above = [&above.display().to_string(), "/", &name.to_string_lossy()].concat();
    only(
        &objects(&here, &["-r", "--partials", &above])?,
        "download",
        bytes,
    )?;
    fails(&cp_in(&here, &["--discard"])?, 2, &["--discard"])?;
    let gone = objects(&here, &["--discard", "."])?;
    ensure!(
        matches!(gone.as_slice(), [only] if only["event"] == "discarded"),
        "{gone:?}"
    );
    ensure!(here.names("")?.is_empty(), "{:?}", here.names("")?);
    ensure!(objects(&here, &["--partials"])?.is_empty());
    server.copy(&here, &["-c"])?.ok()?;
    ensure!(server.restarts().is_empty(), "{:?}", server.restarts());
    Ok(())
}

/// Makes all files of a directory older than a week.
fn age(dir: &Path) -> Result<()> {
    let long_ago = SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let file = File::options().write(true).open(entry.path())?;
            file.set_modified(long_ago)?;
        }
    }
    Ok(())
}

#[test]
fn what_is_kept_of_an_old_download_is_removed_by_the_next() -> Result<()> {
    // Whether or not a file of the next one outlives its run.
    for args in [&["-c"][..], &[], &["--no-resume"]] {
        let here = Tree::new()?;
        broken(&here, &["-c"], (3 * SENT, DIGESTS, true))?;
        ensure!(!here.names("")?.is_empty(), "nothing is kept");
        age(here.root())?;
        let bed = Bed::new()?;
        bed.there.file("other", 1000, 3)?;
        let url = bed.url("other");
        let planned = [args, &["--dry-run", &url, "other"]].concat();
        let before = here.names("")?;
        cp_in(&here, &planned)?.ok()?;
        ensure!(here.names("")? == before, "a dry run has removed some");
        cp_in(&here, &[args, &[&url, "other"]].concat())?.ok()?;
        ensure!(here.names("")? == ["other"], "{:?}", here.names("")?);
    }
    Ok(())
}

#[test]
fn what_is_kept_of_an_old_download_stays_where_the_next_run_fails() -> Result<()> {
    let here = Tree::new()?;
    broken(&here, &["-c"], (3 * SENT, DIGESTS, true))?;
    age(here.root())?;
    let before = here.names("")?;
    let bed = Bed::new()?;
    bed.there.file("other", 1000, 3)?;
    cp_in(&here, &[&bed.url("other"), &bed.url("missing"), "."])?.failed()?;
    // A run that fails leaves a record of the files that it finished.
    let mut after = here.names("")?;
    after.retain(|name| name != "other" && !name.starts_with(".local/"));
    ensure!(after == before, "{after:?}");
    Ok(())
}

#[test]
fn what_is_kept_of_a_new_download_stays() -> Result<()> {
    let here = Tree::new()?;
    broken(&here, &["-c"], (3 * SENT, DIGESTS, true))?;
    let before = here.names("")?;
    let bed = Bed::new()?;
    bed.there.file("other", 1000, 3)?;
    cp_in(&here, &[&bed.url("other"), "other"])?.ok()?;
    let mut after = here.names("")?;
    after.retain(|name| name != "other");
    ensure!(after == before, "{after:?}");
    Ok(())
}

#[test]
fn what_is_kept_of_an_old_upload_is_removed_by_the_next() -> Result<()> {
    let here = Tree::new()?;
    here.file("file", 3 * SENT as u64, 3)?;
    here.file("other", 1000, 3)?;
    let server = storing(DIGESTS)?;
    let to = server.url("file");
    let args = ["-c", "--retries", "0", "--mode", "stream", "file", &to];
    cp_in(&here, &args)?.failed()?;
    ensure!(server.files().len() == 1, "{:?}", server.files());
    age(&here.path(".local/state/gridftp/uploads"))?;
    // A small file, which has no note of its own.
    cp_in(&here, &["--mode", "stream", "other", &server.url("other")])?.ok()?;
    ensure!(server.files() == ["/other"], "{:?}", server.files());
    Ok(())
}

#[test]
fn what_is_kept_of_an_upload_is_told_and_removed() -> Result<()> {
    let here = Tree::new()?;
    here.file("file", 3 * SENT as u64, 3)?;
    let server = storing(DIGESTS)?;
    let (to, dir) = (server.url("file"), server.url(""));
    let args = ["-c", "--retries", "0", "--mode", "stream", "file", &to];
    cp_in(&here, &args)?.failed()?;
    // In MODE S the server has told of no bytes.
    let bytes = (None, 3 * SENT as u64);
    for place in ["--no-verify", &dir, &to] {
        let told = objects(&here, &["--partials", place])?;
        let told = only(&told, "upload", bytes)?;
        ensure!(told["destination"] == to.as_str(), "{told}");
    }
    let other = server.url("fil");
    ensure!(objects(&here, &["--partials", &other])?.is_empty());
    ensure!(server.files().len() == 1, "{:?}", server.files());
    ensure!(objects(&here, &["--discard", &dir])?.len() == 1);
    ensure!(server.files().is_empty(), "{:?}", server.files());
    ensure!(objects(&here, &["--partials"])?.is_empty());
    Ok(())
}

#[test]
fn what_is_kept_at_one_site_is_removed_over_one_session() -> Result<()> {
    for (hangs, sessions) in [(false, 1), (true, 2)] {
        let hangs_up = Arc::new(AtomicBool::new(false));
        let hangs_once = Arc::clone(&hangs_up);
        let server = ScriptedServer::with(move |_, line| match line.split(' ').next() {
            Some("STOR") => Reaction::Until(SENT),
            Some("MIDWAY" | "END") => Reaction::say("426 broken"),
            Some("DELE") if hangs_once.swap(false, Ordering::SeqCst) => {
                Reaction::HangUp(String::new())
            }
            _ => Reaction::Usual,
        })?;
        let here = Tree::new()?;
        for name in ["a", "b", "c"] {
            here.file(name, 3 * SENT as u64, 3)?;
            let to = server.url(name);
            let args = ["-c", "--retries", "0", "--mode", "stream", name, &to];
            cp_in(&here, &args)?.failed()?;
        }
        ensure!(server.files().len() == 3, "{:?}", server.files());
        let before = server.count("USER");
        hangs_up.store(hangs, Ordering::SeqCst);
        let gone = objects(&here, &["--discard", &server.url(""), &server.url("b")])?;
        ensure!(gone.len() == 3, "{gone:?}");
        ensure!(server.files().is_empty(), "{:?}", server.files());
        let logins = server.count("USER") - before;
        ensure!(logins == sessions, "{logins} sessions");
    }
    Ok(())
}

#[test]
fn a_session_that_ends_at_one_place_does_not_fail_the_next() -> Result<()> {
    let listed = "213-Partial files in /b\r\n Held=5;Modify=20200101000000; f\r\n213 End.";
    let server = ScriptedServer::with(|_, line| match line {
        "FEAT" => Reaction::say("211-features\r\n HELD\r\n211 end"),
        "SITE HELD /a" => Reaction::HangUp(String::new()),
        "SITE HELD /b" => Reaction::say(listed),
        _ => Reaction::Usual,
    })?;
    let [a, b] = ["a", "b"].map(|name| server.url(name));
    let told = cp_in(&Tree::new()?, &["--partials", &a, &b])?;
    fails(&told, 3, &["/a: "])?;
    ensure!(told.stdout.contains("/b/f: 5 B, "), "{}", told.report());
    ensure!(server.count("USER") == 2);
    Ok(())
}

#[test]
fn our_server_drops_what_it_kept_of_an_upload() -> Result<()> {
    let bed = Bed::new()?;
    let size = 8_000_001;
    bed.here.file("file", size, 3)?;
    // Bytes that the server has not read are lost with the connection.
    let plan = Break::Data { after: size / 2 };
    let relay = Relay::paced(bed.server.addr(), plan, 8_000_000)?;
    let to = bed.server.url_at(relay.addr(), "file");
    bed.cp(&["-c", "--retries", "0", "file", &to])?.failed()?;
    let kept = |tree: &Tree| -> Result<usize> {
        let names = std::fs::read_dir(tree.root())?.flatten();
        let parts = names.filter(|it| it.file_name().as_encoded_bytes().ends_with(b"gridftp-part"));
        Ok(parts.count())
    };
    ensure!(kept(&bed.there)? == 1, "nothing is kept");
    ensure!(objects(&bed.here, &["--discard", &to])?.len() == 1);
    ensure!(kept(&bed.there)? == 0, "it stays");
    Ok(())
}

/// Breaks off an upload to a server over `there`, and has another machine list and remove it.
#[expect(clippy::indexing_slicing, reason = "a missing value is null")]
fn told_and_removed(server: &Host, there: &Tree) -> Result<()> {
    let here = Tree::new()?;
    let size: u64 = 8_000_001;
    here.file("file", size, 3)?;
    std::fs::create_dir(there.path("run"))?;
    // Bytes that the server has not read are lost with the connection.
    let plan = Break::Data { after: size / 2 };
    let relay = Relay::paced(server.addr(), plan, 8_000_000)?;
    let to = server.url_at(relay.addr(), "run/file");
    cp_in(&here, &["-c", "--retries", "0", "file", &to])?.failed()?;
    let other = Tree::new()?;
    let (dir, url) = (server.url("run"), server.url("run/file"));
    let start = Instant::now();
    let told = loop {
        // The server may not have seen the end of the upload yet.
        match objects(&other, &["--partials", &dir])?.as_slice() {
            [only] if only["in_use"] == false => break only.clone(),
            more => ensure!(start.elapsed() < LIMIT, "{more:?}"),
        }
    };
    ensure!(
        told["kind"] == "upload" && told["destination"] == url.as_str() && told["source"].is_null(),
        "{told}"
    );
    let held = told["held"].as_u64().unwrap_or_default();
    ensure!(0 < held && held < size, "{told}");
    for (place, count) in [(&url, 1), (&server.url(""), 1), (&server.url("ru"), 0)] {
        let found = objects(&other, &["--partials", place])?;
        ensure!(found.len() == count, "{place}: {found:?}");
    }
    ensure!(
        objects(&other, &["--partials"])?.is_empty(),
        "no server is asked without a place"
    );
    let text = cp_in(&other, &["--partials", &dir])?.ok()?.stdout;
    ensure!(
        text.contains("begun by another account or machine"),
        "{text}"
    );
    // It may be one that another user is about to continue.
    let stays = cp_in(&other, &["--discard", &dir])?.ok()?.stderr;
    ensure!(
        stays.contains("1 partial upload of another account or machine stays: name it, or"),
        "{stays}"
    );
    let gone = objects(&other, &["--discard", "-r", &dir])?;
    ensure!(
        matches!(gone.as_slice(), [only] if only["event"] == "discarded"),
        "{gone:?}"
    );
    ensure!(there.names("run")?.is_empty(), "it stays");
    ensure!(objects(&other, &["--partials", &dir])?.is_empty());
    Ok(())
}

/// The index of our server tells what the notes of this machine do not.
#[test]
fn an_upload_from_another_machine_is_told_and_removed() -> Result<()> {
    let bed = Bed::new()?;
    told_and_removed(&bed.server, &bed.there)
}

/// The front end has no storage of its own: it asks the nodes.
#[test]
fn an_upload_to_data_nodes_is_told_and_removed() -> Result<()> {
    let there = Tree::new()?;
    let cluster = Cluster::start_with(there.root(), 2, &["--storage", "nodes"], &[])?;
    told_and_removed(cluster.front(), &there)
}

#[test]
fn a_note_stays_when_the_server_refuses() -> Result<()> {
    let here = Tree::new()?;
    here.file("file", 3 * SENT as u64, 3)?;
    let server = ScriptedServer::with(|_, line| match line.split(' ').next() {
        Some("STOR") => Reaction::Until(SENT),
        Some("MIDWAY" | "END") => Reaction::say("426 broken"),
        Some("DELE") => Reaction::say("550 permission denied"),
        _ => Reaction::Usual,
    })?;
    let to = server.url("file");
    let args = ["-c", "--retries", "0", "--mode", "stream", "file", &to];
    cp_in(&here, &args)?.failed()?;
    let failed = cp_in(&here, &["--discard", &to])?;
    fails(&failed, 1, &["permission denied"])?;
    ensure!(objects(&here, &["--partials"])?.len() == 1);
    Ok(())
}

//! Copies in MODE S with a server of ours: the digest behind the data proves them, and nothing is read
//! for it.

use anyhow::{Result, ensure};
use workspace_tests::{Break, Finished, Host, Relay, Tree, same_file, tree_digests};

use crate::journal::wait_for;
use crate::{Bed, breaks, cp_in};

const SIZE: u64 = 8_000_001;

/// Checks that a run moved data with digests, and asked for none.
fn is_trailed(finished: &Finished, command: &str) -> Result<()> {
    let said = &finished.stderr;
    let asks = said.contains("> CKSM") || said.contains("> SITE STORATTR");
    ensure!(
        said.contains(&format!("> {command} digest=")) && !asks,
        "{command}: {}",
        finished.report()
    );
    Ok(())
}

#[test]
fn copies_in_mode_s_are_proven_by_what_follows_their_data() -> Result<()> {
    let bed = Bed::new()?;
    for (name, size) in [
        ("empty", 0),
        ("tiny", 10),
        ("small", 300_000),
        ("large", SIZE),
    ] {
        bed.here.file(&format!("up/{name}"), size, 3)?;
    }
    let flags = ["-r", "--mode", "stream", "--debug", "--json"];
    for (from, to, command) in [
        ("up/", bed.url("up"), "ESTO"),
        (&bed.url("up/"), "down".to_owned(), "ERET"),
        (&bed.url("up/"), bed.url("between"), "ESTO"),
    ] {
        let finished = bed.cp(&[&flags[..], &[from, &to]].concat())?.ok()?;
        is_trailed(&finished, command)?;
        let proven = finished.stdout.matches("\"verified\":\"digest\"").count();
        ensure!(proven >= 3, "{}", finished.report());
    }
    let digests = tree_digests(&bed.here.path("up"))?;
    for copy in [
        bed.there.path("up"),
        bed.here.path("down"),
        bed.there.path("between"),
    ] {
        ensure!(tree_digests(&copy)? == digests, "{}", copy.display());
    }
    Ok(())
}

#[test]
fn a_download_in_mode_s_that_goes_on_is_proven_by_what_follows_its_data() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", SIZE, 3)?;
    let relay = Relay::start(bed.server.addr(), Break::Everything { after: SIZE / 2 })?;
    let url = bed.server.url_at(relay.addr(), "file");
    let flags = ["-c", "--mode", "stream", "--debug"];
    let first = bed.cp(&[&flags[..], &["--retries", "0", &url, "file"]].concat())?;
    breaks(&first, &["file"])?;
    ensure!(relay.broke(), "nothing broke");
    // The same server: the address is a part of the source's name.
    let second = bed.cp(&[&flags[..], &[&url, "file"]].concat())?.ok()?;
    ensure!(second.stderr.contains("> REST "), "{}", second.report());
    is_trailed(&second, "ERET")?;
    bed.same("file", "file")
}

#[test]
fn a_copy_in_mode_s_in_place_goes_on_behind_what_has_the_same_digest() -> Result<()> {
    for between in [false, true] {
        let (here, there) = (Tree::new()?, Tree::new()?);
        let server = Host::ours_with(there.root(), &["--in-place"])?;
        let file = here.file("file", SIZE, 3)?;
        std::fs::copy(&file, there.path("source"))?;
        // Paced, so that the server has stored most of the relayed bytes.
        let at_half = Break::Everything { after: SIZE / 2 };
        let relay = Relay::paced(server.addr(), at_half, SIZE / 2)?;
        let to = server.url_at(relay.addr(), "file");
        let from = match between {
            true => server.url("source"),
            false => "file".to_owned(),
        };
        let flags = ["--mode", "stream", "--debug"];
        let finished = cp_in(&here, &[&flags[..], &[&from, &to]].concat())?.ok()?;
        ensure!(relay.broke(), "nothing broke");
        for command in ["> CKSM BLAKE3 0 ", "> REST "] {
            ensure!(
                finished.stderr.contains(command),
                "no {command}: {}",
                finished.report()
            );
        }
        same_file(&file, &there.path("file"))?;
    }
    Ok(())
}

#[test]
fn an_upload_in_mode_s_that_was_cut_off_is_not_published_and_goes_on() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("file", SIZE, 3)?;
    bed.there.file("file", 5, 4)?;
    let relay = Relay::start(bed.server.addr(), Break::Everything { after: SIZE / 2 })?;
    let url = bed.server.url_at(relay.addr(), "file");
    let flags = ["-c", "--mode", "stream", "--debug"];
    let first = bed.cp(&[&flags[..], &["--retries", "0", "file", &url]].concat())?;
    breaks(&first, &["file"])?;
    ensure!(relay.broke(), "nothing broke");
    let size = std::fs::metadata(bed.there.path("file"))?.len();
    ensure!(size == 5, "the old file is gone: {}", first.report());
    wait_for(&bed.there.path(".file.gridftp-held"))?;
    let second = bed.cp(&[&flags[..], &["file", &url]].concat())?.ok()?;
    let said = &second.stderr;
    ensure!(said.contains("> REST "), "{}", second.report());
    ensure!(said.contains("> ESTO digest="), "{}", second.report());
    ensure!(!said.contains("> CKSM"), "{}", second.report());
    bed.same("file", "file")
}

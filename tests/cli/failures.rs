//! Failed copies: the destination keeps its old state.

use anyhow::{Result, ensure};
use workspace_tests::{Break, Relay};

use crate::{Bed, breaks, fails};

const SIZE: u64 = 8_000_001;

#[test]
fn a_failed_partial_download_leaves_no_file() -> Result<()> {
    for mode in ["stream", "extended"] {
        let bed = Bed::new()?;
        bed.there.file("file", SIZE, 3)?;
        let relay = Relay::start(bed.server.addr(), Break::Everything { after: SIZE / 4 })?;
        let url = bed.server.url_at(relay.addr(), "file");
        let flags = ["--mode", mode, "--retries", "0", "--offset", "1000001"];
        let finished = bed.cp(&[&flags[..], &[&url, "part"]].concat())?;
        breaks(&finished, &["file"])?;
        ensure!(relay.broke(), "nothing broke");
        ensure!(
            bed.here.names("")?.is_empty(),
            "{mode}: {:?}",
            bed.here.names("")?
        );
    }
    Ok(())
}

#[test]
fn creating_a_directory_over_a_file_is_an_error() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.dir("tree/empty")?;
    bed.there.file("tree/empty", 3, 3)?;
    let url = bed.url("tree/");
    for mode in ["stream", "extended"] {
        for flags in [&["--dry-run"][..], &[]] {
            let copy = ["--mode", mode, "-r", "tree/", &url];
            let finished = bed.cp(&[flags, &copy[..]].concat())?;
            fails(&finished, 1, &["tree/empty"])?;
        }
    }
    bed.there.dir("from/empty")?;
    let third = bed.cp(&["-r", &bed.url("from/"), &bed.url("tree/")])?;
    fails(&third, 1, &["tree/empty"])
}

#[test]
fn a_file_under_the_name_of_a_directory_is_an_error() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("tree/sub/a", 3, 3)?;
    bed.here.file("tree/b", 3, 3)?;
    bed.there.dir("tree/sub/a/inner")?;
    let url = bed.url("tree/");
    for flags in [&["--dry-run"][..], &["--dry-run", "--sync"], &[]] {
        let copy = ["--retries", "0", "-r", "tree/", &url];
        let finished = bed.cp(&[flags, &copy[..]].concat())?;
        fails(&finished, 1, &["tree/sub/a"])?;
        let planned = finished.stdout.contains("tree/sub/a ->");
        ensure!(!planned, "{}", finished.report());
        let others = flags.is_empty() || finished.stdout.contains("tree/b ->");
        ensure!(others, "{}", finished.report());
    }
    Ok(())
}

/// The server discards the changed upload.
#[test]
fn an_upload_that_was_changed_in_transit_is_not_published() -> Result<()> {
    for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        for retries in ["0", "2"] {
            let bed = Bed::new()?;
            bed.here.file("file", SIZE, 3)?;
            bed.there.file("file", 5, 4)?;
            let relay = Relay::start(bed.server.addr(), Break::Flip { after: SIZE / 2 })?;
            let url = bed.server.url_at(relay.addr(), "file");
            let finished =
                bed.cp(&[flags, &["--verify", "--retries", retries, "file", &url]].concat())?;
            ensure!(relay.broke(), "no bit was flipped");
            if retries == "0" {
                fails(&finished, 5, &["verify", "do not use"])?;
                let size = std::fs::metadata(bed.there.path("file"))?.len();
                ensure!(size == 5, "the old file is gone: {}", finished.report());
            } else {
                finished.ok()?;
                bed.same("file", "file")?;
            }
            ensure!(
                bed.there.names("")? == ["file"],
                "{:?}",
                bed.there.names("")?
            );
        }
    }
    Ok(())
}

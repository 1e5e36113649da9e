//! Pipelined uploads of many files: a failed file affects no other.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Result, ensure};
use workspace_tests::{Break, Relay, tree_digests};

use crate::{Bed, fails};

#[test]
fn a_refused_name_does_not_mix_up_the_others() -> Result<()> {
    for flags in [&["-r"][..], &["-r", "-p", "3"], &["-r", "--mode", "stream"]] {
        let bed = Bed::new()?;
        let dir = bed.here.dir("tree")?;
        for n in 0..30_u8 {
            std::fs::write(dir.join(format!("{n:02}")), [n; 500])?;
        }
        for (n, name) in (100..).zip([&b"05\x01"[..], b"10\x7f\x80", b"15\n", b"20\r"]) {
            std::fs::write(dir.join(OsStr::from_bytes(name)), [n; 500])?;
        }
        let finished = bed.cp(&[flags, &["tree", &bed.url("")]].concat())?;
        fails(&finished, 1, &["15\\n", "20\\r"])?;
        let (want, got) = (tree_digests(&dir)?, tree_digests(&bed.there.path("tree"))?);
        ensure!(got.len() >= 30, "{}", finished.report());
        for (name, digest) in got {
            ensure!(
                want.get(&name) == Some(&digest),
                "{name:?} has the content of another file"
            );
        }
    }
    Ok(())
}

#[test]
fn a_file_that_fails_midway_fails_no_other() -> Result<()> {
    let bed = Bed::new()?;
    for n in 0..200 {
        bed.here.file(&format!("tree/{n:03}"), 1000, n)?;
    }
    bed.here.file("tree/large", 4_000_000, 7)?;
    let relay = Relay::start(bed.server.addr(), Break::Flip { after: 2_000_000 })?;
    let url = bed.server.url_at(relay.addr(), "");
    let finished = bed.cp(&["-r", "-j", "1", "--verify", "--retries", "0", "tree", &url])?;
    ensure!(relay.broke(), "no bit was flipped");
    fails(&finished, 5, &["tree/large"])?;
    let (mut want, got) = (
        tree_digests(&bed.here.path("tree"))?,
        tree_digests(&bed.there.path("tree"))?,
    );
    want.retain(|name, _| !name.ends_with("large"));
    ensure!(got == want, "{}", finished.report());
    Ok(())
}

#[test]
fn a_flipped_bit_is_found_by_default_and_never_published() -> Result<()> {
    for (size, flags) in [
        (100_000, &[][..]),
        (100_000, &["--no-verify"]),
        (4_000_000, &["-p", "2"]),
        (4_000_000, &["--mode", "stream"]),
    ] {
        for (retries, upload) in [("0", true), ("1", true), ("0", false), ("1", false)] {
            let bed = Bed::new()?;
            let (from, to) = if upload {
                (&bed.here, &bed.there)
            } else {
                (&bed.there, &bed.here)
            };
            from.file("file", size, 3)?;
            let relay = Relay::start(bed.server.addr(), Break::Flip { after: 50_000 })?;
            let url = bed.server.url_at(relay.addr(), "file");
            let ends = if upload {
                ["file", &url]
            } else {
                [url.as_str(), "file"]
            };
            let finished = bed.cp(&[&["--retries", retries], flags, &ends[..]].concat())?;
            ensure!(relay.broke(), "no bit was flipped");
            if retries == "0" {
                fails(&finished, 5, &["BLAKE3"])?;
                ensure!(
                    flags == ["--no-verify"] || !to.path("file").exists(),
                    "{}",
                    finished.report()
                );
            } else {
                finished.ok()?;
                bed.same("file", "file")?;
            }
        }
    }
    Ok(())
}

#[test]
fn of_a_copy_that_differs_only_the_bad_part_is_sent_again() -> Result<()> {
    const SIZE: u64 = 30_000_000;
    let ends = [["here", "there"], ["there", "here"], ["there", "copy"]];
    let modes = ["extended", "stream"];
    for (mode, [from, to]) in modes
        .into_iter()
        .flat_map(|mode| ends.map(|ends| (mode, ends)))
    {
        let bed = Bed::new()?;
        let dir = if from == "here" {
            &bed.here
        } else {
            &bed.there
        };
        let file = dir.file("file", SIZE, 3)?;
        let relay = Relay::start(bed.server.addr(), Break::Flip { after: 9_000_000 })?;
        let url = |name| bed.server.url_at(relay.addr(), name);
        let (from, to, copy) = match [from, to] {
            ["here", _] => ("file".to_owned(), url("file"), bed.there.path("file")),
            [_, "here"] => (url("file"), "file".to_owned(), bed.here.path("file")),
            _ => (bed.url("file"), url("copy"), bed.there.path("copy")),
        };
        bed.cp(&["--mode", mode, &from, &to])?.ok()?;
        ensure!(relay.broke(), "no bit was flipped");
        ensure!(std::fs::read(&copy)? == std::fs::read(&file)?, "{from}");
        let (most, passed) = (SIZE + (2 << 20), relay.passed());
        ensure!(
            passed < most,
            "{from} to {to} in MODE {mode}: {passed} bytes passed"
        );
    }
    Ok(())
}

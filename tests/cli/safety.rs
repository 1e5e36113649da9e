//! Broken connections, killed programs and full disks: no partial file has a final name.

use std::os::unix::fs::FileExt as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use workspace_tests::{Break, Relay};

use crate::{Bed, breaks, command, fails};

const SIZE: u64 = 8_000_001;

/// Copies through a relay that breaks once, and checks that the retry completes the copy.
fn broken(plan: Break, flags: &[&str], up: bool) -> Result<()> {
    let bed = Bed::new()?;
    let tree = if up { &bed.here } else { &bed.there };
    tree.file("file", SIZE, 3)?;
    let relay = Relay::start(bed.server.addr(), plan)?;
    let url = bed.server.url_at(relay.addr(), "file");
    let ends = if up { ["file", &url] } else { [&url, "file"] };
    let output = bed.cp(&[flags, &["--debug"], &ends].concat())?.ok()?;
    ensure!(relay.broke(), "nothing broke");
    bed.same("file", "file").with_context(|| output.report())?;
    ensure!(bed.here.names("")? == ["file"], "{:?}", bed.here.names("")?);
    ensure!(
        bed.there.names("")? == ["file"],
        "{:?}",
        bed.there.names("")?
    );
    Ok(())
}

#[test]
fn a_broken_download_is_retried() -> Result<()> {
    for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        broken(Break::Data { after: SIZE / 2 }, flags, false)?;
        broken(Break::Everything { after: SIZE / 2 }, flags, false)?;
    }
    Ok(())
}

#[test]
fn a_broken_upload_is_retried() -> Result<()> {
    for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        broken(Break::Data { after: SIZE / 2 }, flags, true)?;
        broken(Break::Everything { after: SIZE / 2 }, flags, true)?;
    }
    Ok(())
}

#[test]
fn a_download_restarts_behind_the_received_bytes() -> Result<()> {
    for flags in [&["--mode", "stream"][..], &["-p", "2"]] {
        let bed = Bed::new()?;
        bed.there.file("file", SIZE, 3)?;
        let relay = Relay::paced(
            bed.server.addr(),
            Break::Data {
                after: SIZE * 3 / 4,
            },
            4_000_000,
        )?;
        let url = bed.server.url_at(relay.addr(), "file");
        let output = bed
            .cp(&[flags, &["--debug", &url, "file"]].concat())?
            .ok()?;
        bed.same("file", "file")?;
        ensure!(
            relay.passed() < SIZE * 3 / 2,
            "{} bytes passed of {SIZE}; {}",
            relay.passed(),
            output.report()
        );
    }
    Ok(())
}

#[test]
fn a_failed_download_leaves_no_file() -> Result<()> {
    for flags in [
        &["--mode", "stream", "--retries", "0"][..],
        &["-p", "2", "--retries", "0"],
    ] {
        let bed = Bed::new()?;
        bed.there.file("file", SIZE, 3)?;
        let relay = Relay::start(bed.server.addr(), Break::Everything { after: SIZE / 2 })?;
        let url = bed.server.url_at(relay.addr(), "file");
        breaks(&bed.cp(&[flags, &[&url, "file"]].concat())?, &["file"])?;
        ensure!(bed.here.names("")?.is_empty(), "{:?}", bed.here.names("")?);
        // An existing file stays as it was.
        bed.here.file("file", 7, 7)?;
        let relay = Relay::start(bed.server.addr(), Break::Everything { after: SIZE / 2 })?;
        let url = bed.server.url_at(relay.addr(), "file");
        breaks(&bed.cp(&[flags, &[&url, "file"]].concat())?, &["file"])?;
        ensure!(std::fs::metadata(bed.here.path("file"))?.len() == 7);
    }
    Ok(())
}

/// Runs the client over a link that stalls midway, stops it there by `signal`, and returns its
/// output.
fn stopped(bed: &Bed, args: impl FnOnce(String) -> Vec<String>, signal: Signal) -> Result<Output> {
    const MIDDLE: u64 = 1_000_000;
    let relay = Relay::start(bed.server.addr(), Break::Stall { after: MIDDLE })?;
    let args = args(bed.server.url_at(relay.addr(), "file"));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let child = command(&bed.here, &args)?
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    relay.wait_until_passed(MIDDLE)?;
    let pid = Pid::from_raw(i32::try_from(child.id())?).context("a child has a number")?;
    kill_process(pid, signal)?;
    Ok(child.wait_with_output()?)
}

/// Stops a download into `to` midway by `signal`.
fn stopped_download(bed: &Bed, to: &[&str], signal: Signal) -> Result<Output> {
    bed.there.file("file", SIZE * 4, 3)?;
    let args = |url: String| {
        let to = to.iter().map(|&word| word.to_owned());
        ["-q".to_owned(), url].into_iter().chain(to).collect()
    };
    stopped(bed, args, signal)
}

/// Returns whether this process ignores SIGHUP, so that its children do too.
pub(crate) fn ignores_hangup() -> Result<bool> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.context("SigIgn")?.trim(), 16)?;
    Ok(ignored & 1 == 1)
}

#[test]
fn a_signal_removes_the_partial_file() -> Result<()> {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        if signal == Signal::HUP && ignores_hangup()? {
            eprintln!("SKIPPED: SIGHUP is ignored, as below nohup, and so by the client");
            continue;
        }
        let bed = Bed::new()?;
        let done = stopped_download(&bed, &["file"], signal)?;
        ensure!(done.status.code() == Some(130), "{done:?}");
        ensure!(bed.here.names("")?.is_empty(), "{:?}", bed.here.names("")?);
    }
    Ok(())
}

#[test]
fn the_state_after_a_signal_is_reported() -> Result<()> {
    let part = ["file", "--offset", "0"];
    for (to, says) in [
        (&["new"][..], "not at their destination names"),
        (&["file"], "as it was"),
        (&part, "replaced only in part"),
        (&["-"], "written is not all there is"),
    ] {
        let bed = Bed::new()?;
        bed.here.file("file", SIZE * 4, 9)?;
        let before = std::fs::read(bed.here.path("file"))?;
        let done = stopped_download(&bed, to, Signal::TERM)?;
        let output = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.code() == Some(130), "{:?}", done.status);
        ensure!(output.contains(says), "{to:?}: {output}");
        ensure!(!bed.here.path("new").exists());
        ensure!(to == part || std::fs::read(bed.here.path("file"))? == before);
    }
    Ok(())
}

#[test]
fn the_next_run_is_told_by_a_stopped_upload() -> Result<()> {
    let lost = "the bytes of 1 unfinished file are lost: the same command begins it anew";
    let kept = "the same command goes on where this one stopped";
    for (flag, says) in [("-q", lost), ("-qc", kept), ("--no-resume", lost)] {
        let bed = Bed::new()?;
        bed.here.file("file", SIZE * 4, 3)?;
        let upload = |url| vec![flag.to_owned(), "file".to_owned(), url];
        let done = stopped(&bed, upload, Signal::INT)?;
        let output = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.code() == Some(130), "{:?}", done.status);
        let line = format!("gridftp-cp: stopped by a signal; {says}");
        ensure!(output.lines().any(|told| told == line), "{flag}: {output}");
        ensure!(!bed.there.path("file").exists());
        let notes = std::fs::read_dir(bed.here.path(".local/state/gridftp/uploads"));
        let notes = notes.map_or(0, |notes| notes.count());
        ensure!((notes > 0) == (says == kept), "{flag}: {notes} notes");
    }
    Ok(())
}

/// Kills the client when `after` bytes have passed, waits until the file is no longer written, and
/// checks that the final name has the whole new file or the old one. Returns whether the kill was
/// midway.
fn killed(flags: &[&str], up: bool, old: bool, after: u64) -> Result<bool> {
    let bed = Bed::new()?;
    let (from, to) = match up {
        true => (&bed.here, &bed.there),
        false => (&bed.there, &bed.here),
    };
    from.file("file", SIZE, 3)?;
    if old {
        to.file("file", 1000, 4)?;
    }
    let before = std::fs::read(to.path("file")).ok();
    let relay = Relay::paced(bed.server.addr(), Break::Never, 16_000_000)?;
    let url = bed.server.url_at(relay.addr(), "file");
    let ends = if up { ["file", &url] } else { [&url, "file"] };
    let args = [flags, &["-q"], &ends].concat();
    let mut child = command(&bed.here, &args)?.stderr(Stdio::null()).spawn()?;
    let begun = Instant::now();
    while relay.passed() < after && child.try_wait()?.is_none() {
        ensure!(begun.elapsed() < crate::LIMIT, "nothing moved");
        std::thread::yield_now();
    }
    child.kill()?;
    child.wait()?;
    drop(relay);
    let part = to.path(".file.gridftp-part");
    // The server ends the upload on its own; it holds a lock while it writes.
    while let Ok(file) = std::fs::File::open(&part)
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
    {
        ensure!(begun.elapsed() < crate::LIMIT, "the server still writes");
        std::thread::yield_now();
    }
    let now = std::fs::read(to.path("file")).ok();
    let whole = now == std::fs::read(from.path("file")).ok();
    ensure!(
        whole || now == before,
        "{flags:?}, up: {up}, killed after {after} bytes: a partial file has the final name"
    );
    let midway = !whole && part.exists();
    let url = bed.url("file");
    let ends = if up { ["file", &url] } else { [&url, "file"] };
    bed.cp(&[flags, &ends].concat())?.ok()?;
    bed.same("file", "file")?;
    Ok(midway)
}

#[test]
fn a_killed_client_leaves_no_partial_file_under_the_final_name() -> Result<()> {
    for up in [false, true] {
        let mut midway = 0;
        for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
            for (after, old) in [
                (1, true),
                (SIZE / 2, false),
                (SIZE - 1, true),
                (SIZE, false),
            ] {
                midway += u32::from(killed(flags, up, old, after)?);
            }
        }
        ensure!(midway >= 3, "up: {up}, only {midway} were killed midway");
    }
    Ok(())
}

#[test]
fn a_killed_server_is_an_error_within_a_minute() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", SIZE * 4, 3)?;
    let relay = Relay::paced(bed.server.addr(), Break::Never, 2_000_000)?;
    let url = bed.server.url_at(relay.addr(), "file");
    let child = command(
        &bed.here,
        &["--retries", "1", "--retry-for", "0", &url, "file"],
    )?
    .stderr(Stdio::piped())
    .spawn()?;
    let begun = Instant::now();
    relay.wait_until_passed(1_000_000)?;
    bed.server.daemon().signal(Signal::KILL)?;
    let done = child.wait_with_output()?;
    ensure!(!done.status.success());
    ensure!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
    ensure!(!bed.here.path("file").exists());
    Ok(())
}

#[test]
fn a_full_disk_is_reported() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", SIZE, 3)?;
    fails(
        &bed.cp(&[&bed.url("file"), "/dev/full"])?,
        1,
        &["local: write /dev/full", "No space left"],
    )
}

#[test]
fn an_upload_of_a_changed_source_starts_over() -> Result<()> {
    let bed = Bed::new()?;
    let file = bed.here.file("file", SIZE, 3)?;
    let other = bed.here.file("other", SIZE, 4)?;
    // Slow enough for the server to send restart markers.
    let relay = Relay::paced(
        bed.server.addr(),
        Break::Data {
            after: SIZE * 7 / 8,
        },
        1_100_000,
    )?;
    relay.hold();
    let url = bed.server.url_at(relay.addr(), "file");
    let mut child = command(&bed.here, &["-q", "file", &url])?.spawn()?;
    relay.wait_until_broken()?;
    std::fs::copy(&other, &file)?;
    relay.release();
    ensure!(child.wait()?.success());
    bed.same("file", "file")
}

#[test]
fn a_file_that_changes_during_its_upload_is_an_error() -> Result<()> {
    let bed = Bed::new()?;
    let file = bed.here.file("file", SIZE * 2, 3)?;
    let relay = Relay::paced(bed.server.addr(), Break::Never, 4_000_000)?;
    let url = bed.server.url_at(relay.addr(), "file");
    let child = command(&bed.here, &["--retries", "0", "file", &url])?
        .stderr(Stdio::piped())
        .spawn()?;
    relay.wait_until_passed(1_000_000)?;
    std::fs::OpenOptions::new()
        .append(true)
        .open(&file)?
        .set_len(SIZE * 2 + 5)?;
    let done = child.wait_with_output()?;
    let output = String::from_utf8_lossy(&done.stderr);
    ensure!(
        !done.status.success() && output.contains("changed"),
        "{output}"
    );
    Ok(())
}

/// Another file of the same length replaces the stored bytes before the retry.
#[test]
fn an_upload_does_not_continue_behind_another_file() -> Result<()> {
    for third in [false, true] {
        let (bed, from) = (Bed::new()?, Bed::new()?);
        let source = if third { &from.there } else { &bed.here };
        source.file("file", SIZE, 3)?;
        let other = bed.here.file("other", SIZE, 4)?;
        // Slow enough for the server to send restart markers.
        let plan = Break::Data {
            after: SIZE * 7 / 8,
        };
        let relay = Relay::paced(bed.server.addr(), plan, 1_100_000)?;
        relay.hold();
        let to = bed.server.url_at(relay.addr(), "file");
        let url = from.url("file");
        let name = if third { &url } else { "file" };
        let mut child = command(&bed.here, &["-q", "-p", "1", name, &to])?.spawn()?;
        relay.wait_until_broken()?;
        std::fs::copy(&other, bed.there.path("file"))?;
        for left in [".file.gridftp-part", ".file.gridftp-held"] {
            std::fs::remove_file(bed.there.path(left))?;
        }
        relay.release();
        ensure!(child.wait()?.success());
        let copy = workspace_tests::sha256(&bed.there.path("file"))?;
        ensure!(
            copy == workspace_tests::sha256(&source.path("file"))?,
            "third: {third}: the copy mixes two files"
        );
    }
    Ok(())
}

/// Flips a bit in `part`, the partial file of a broken copy, and checks that the retry notices it.
fn flipped(bed: &Bed, part: &std::path::Path, flags: &[&str], up: bool) -> Result<()> {
    let plan = Break::Data {
        after: SIZE * 7 / 8,
    };
    // Slow enough for the server to send restart markers.
    let relay = Relay::paced(bed.server.addr(), plan, 1_100_000)?;
    relay.hold();
    let url = bed.server.url_at(relay.addr(), "file");
    let ends = if up { ["file", &url] } else { [&url, "file"] };
    let child = command(&bed.here, &[flags, &["--debug"], &ends].concat())?
        .stderr(Stdio::piped())
        .spawn()?;
    relay.wait_until_broken()?;
    let held = std::fs::File::options().read(true).write(true).open(part)?;
    let mut byte = [0];
    held.read_exact_at(&mut byte, 1000)?;
    held.write_all_at(&[byte[0] ^ 1], 1000)?;
    relay.release();
    let done = child.wait_with_output()?;
    let output = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{output}");
    ensure!(output.contains("> REST "), "it did not restart: {output}");
    bed.same("file", "file")
        .with_context(|| output.into_owned())
}

/// Without it the server trusts the disk for the groups whose values it has recorded.
#[test]
fn a_flipped_bit_in_the_servers_partial_file_is_found_by_verify() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("file", SIZE, 3)?;
    let part = bed.there.path(".file.gridftp-part");
    flipped(&bed, &part, &["--verify", "-p", "1"], true)
}

#[test]
fn a_flipped_bit_in_the_local_partial_file_is_found_by_verify() -> Result<()> {
    for flags in [
        &["--verify", "-p", "1"][..],
        &["--verify", "--mode", "stream"],
    ] {
        let bed = Bed::new()?;
        bed.there.file("file", SIZE, 3)?;
        let part = bed.here.path(".file.gridftp-part");
        flipped(&bed, &part, flags, false)?;
    }
    Ok(())
}

#[test]
fn two_runs_at_once_to_one_name_both_end_well() -> Result<()> {
    const LARGE: u64 = 80 << 20;
    for up in [true, false] {
        let bed = Bed::new()?;
        let tree = if up { &bed.here } else { &bed.there };
        tree.file("file", LARGE, 5)?;
        let relay = Relay::paced(bed.server.addr(), Break::Never, 40_000_000)?;
        let url = bed.server.url_at(relay.addr(), "file");
        let ends = if up { ["file", &url] } else { [&url, "file"] };
        let start = || {
            let mut copy = command(&bed.here, &ends)?;
            let copy = copy.stdin(Stdio::null()).stdout(Stdio::null());
            Ok::<_, anyhow::Error>(copy.stderr(Stdio::piped()).spawn()?)
        };
        let first = start()?;
        // Both are under way, and the first has its note and its records.
        relay.wait_until_passed(LARGE / 2)?;
        let second = start()?;
        for copy in [first, second] {
            let output = copy.wait_with_output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(output.status.success(), "{said}");
        }
        bed.same("file", "file")?;
        for dir in [&bed.here, &bed.there] {
            ensure!(dir.names("")? == ["file"], "{:?}", dir.names("")?);
        }
        let notes = std::fs::read_dir(bed.here.path(".local/state/gridftp/uploads"));
        let notes: Vec<_> = notes.into_iter().flatten().flatten().collect();
        ensure!(notes.is_empty(), "{notes:?}");
    }
    Ok(())
}

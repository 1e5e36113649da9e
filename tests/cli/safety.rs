//! Broken connections, killed programs and full disks: nothing half-done keeps a final name.

use std::os::unix::fs::FileExt as _;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use workspace_tests::{Break, Relay};

use crate::{Bed, breaks, command, fails};

const SIZE: u64 = 8_000_001;

/// Copies through a relay that breaks after so many bytes.
fn broken(plan: Break, flags: &[&str], up: bool) -> Result<()> {
    let bed = Bed::new()?;
    let tree = if up { &bed.here } else { &bed.there };
    tree.file("file", SIZE, 3)?;
    let relay = Relay::start(bed.server.addr(), plan)?;
    let url = bed.server.url_at(relay.addr(), "file");
    let ends = if up { ["file", &url] } else { [&url, "file"] };
    let said = bed.cp(&[flags, &["--debug"], &ends].concat())?.ok()?;
    ensure!(relay.broke(), "nothing broke");
    bed.same("file", "file").with_context(|| said.report())?;
    ensure!(bed.here.names("")? == ["file"], "{:?}", bed.here.names("")?);
    ensure!(
        bed.there.names("")? == ["file"],
        "{:?}",
        bed.there.names("")?
    );
    Ok(())
}

#[test]
fn a_broken_download_goes_on() -> Result<()> {
    for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        broken(Break::Data { after: SIZE / 2 }, flags, false)?;
        broken(Break::Everything { after: SIZE / 2 }, flags, false)?;
    }
    Ok(())
}

#[test]
fn a_broken_upload_goes_on() -> Result<()> {
    for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        broken(Break::Data { after: SIZE / 2 }, flags, true)?;
        broken(Break::Everything { after: SIZE / 2 }, flags, true)?;
    }
    Ok(())
}

#[test]
fn a_download_restarts_from_what_arrived() -> Result<()> {
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
        let said = bed
            .cp(&[flags, &["--debug", &url, "file"]].concat())?
            .ok()?;
        bed.same("file", "file")?;
        ensure!(
            relay.passed() < SIZE * 3 / 2,
            "{} bytes passed of {SIZE}; {}",
            relay.passed(),
            said.report()
        );
    }
    Ok(())
}

#[test]
fn a_download_that_fails_for_good_leaves_nothing() -> Result<()> {
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
        // What was there before stays whole.
        bed.here.file("file", 7, 7)?;
        let relay = Relay::start(bed.server.addr(), Break::Everything { after: SIZE / 2 })?;
        let url = bed.server.url_at(relay.addr(), "file");
        breaks(&bed.cp(&[flags, &[&url, "file"]].concat())?, &["file"])?;
        ensure!(std::fs::metadata(bed.here.path("file"))?.len() == 7);
    }
    Ok(())
}

/// Runs the client through a link that stalls in the middle, stops it there by `signal`, and returns how it
/// ended.
fn stopped(bed: &Bed, args: impl FnOnce(String) -> Vec<String>, signal: Signal) -> Result<Output> {
    const MIDDLE: u64 = 1_000_000;
    let relay = Relay::start(bed.server.addr(), Break::Stall { after: MIDDLE })?;
    let args = args(bed.server.url_at(relay.addr(), "file"));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let child = command(&bed.here, &args)?
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let begun = Instant::now();
    while relay.passed() < MIDDLE {
        ensure!(begun.elapsed() < crate::LIMIT, "nothing moved");
        std::thread::yield_now();
    }
    let pid = Pid::from_raw(i32::try_from(child.id())?).context("a child has a number")?;
    kill_process(pid, signal)?;
    Ok(child.wait_with_output()?)
}

/// Does so with a download into `to`.
fn stopped_download(bed: &Bed, to: &[&str], signal: Signal) -> Result<Output> {
    bed.there.file("file", SIZE * 4, 3)?;
    let args = |url: String| {
        let to = to.iter().map(|&word| word.to_owned());
        ["-q".to_owned(), url].into_iter().chain(to).collect()
    };
    stopped(bed, args, signal)
}

/// Whether this process ignores SIGHUP, which the programs it starts then do as well.
fn ignores_hangup() -> Result<bool> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = u64::from_str_radix(ignored.context("SigIgn")?.trim(), 16)?;
    Ok(ignored & 1 == 1)
}

#[test]
fn a_signal_leaves_nothing_half_done() -> Result<()> {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        if signal == Signal::HUP && ignores_hangup()? {
            eprintln!("SKIPPED: SIGHUP is ignored here, as below nohup, and by the client with it");
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
fn what_a_signal_leaves_behind_is_told() -> Result<()> {
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
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.code() == Some(130), "{:?}", done.status);
        ensure!(said.contains(says), "{to:?}: {said}");
        ensure!(!bed.here.path("new").exists());
        ensure!(to == part || std::fs::read(bed.here.path("file"))? == before);
    }
    Ok(())
}

/// The Globus server writes under the final name, and keeps what came.
#[test]
fn a_stopped_upload_promises_nothing_of_the_server() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("file", SIZE * 4, 3)?;
    let upload = |url| vec!["-q".to_owned(), "file".to_owned(), url];
    let done = stopped(&bed, upload, Signal::INT)?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.code() == Some(130), "{:?}", done.status);
    ensure!(said.contains("the server keeps or drops"), "{said}");
    ensure!(!bed.there.path("file").exists());
    Ok(())
}

/// Kills the client when so many bytes have passed, waits until nobody writes any more, and says whether that was in
/// the midst of the copy. What has the final name then is the whole file, or what was there before.
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
    // The server ends the upload in its own time: whoever writes has a lock.
    while let Ok(file) = std::fs::File::open(&part)
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
    {
        ensure!(begun.elapsed() < crate::LIMIT, "somebody still writes");
        std::thread::yield_now();
    }
    let now = std::fs::read(to.path("file")).ok();
    let whole = now == std::fs::read(from.path("file")).ok();
    ensure!(
        whole || now == before,
        "{flags:?}, up: {up}, killed after {after} bytes: half a file has the name"
    );
    let midway = !whole && part.exists();
    let url = bed.url("file");
    let ends = if up { ["file", &url] } else { [&url, "file"] };
    bed.cp(&[flags, &ends].concat())?.ok()?;
    bed.same("file", "file")?;
    Ok(midway)
}

#[test]
fn a_killed_client_leaves_no_final_name() -> Result<()> {
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
fn a_killed_server_is_an_error_in_time() -> Result<()> {
    let mut bed = Bed::new()?;
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
    while relay.passed() < 1_000_000 {
        ensure!(begun.elapsed() < crate::LIMIT, "nothing came");
        std::thread::yield_now();
    }
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
fn a_full_disk_is_named() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", SIZE, 3)?;
    fails(
        &bed.cp(&[&bed.url("file"), "/dev/full"])?,
        1,
        &["local: write /dev/full", "No space left"],
    )
}

#[test]
fn an_upload_of_what_changed_meanwhile_begins_anew() -> Result<()> {
    let bed = Bed::new()?;
    let file = bed.here.file("file", SIZE, 3)?;
    let other = bed.here.file("other", SIZE, 4)?;
    // Slow enough for the server to tell what it holds.
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
    let begun = Instant::now();
    while !relay.broke() {
        ensure!(begun.elapsed() < crate::LIMIT, "nothing broke");
        std::thread::yield_now();
    }
    std::fs::copy(&other, &file)?;
    relay.release();
    ensure!(child.wait()?.success());
    bed.same("file", "file")
}

#[test]
fn a_file_that_changes_while_it_is_sent_is_noticed() -> Result<()> {
    let bed = Bed::new()?;
    let file = bed.here.file("file", SIZE * 2, 3)?;
    let relay = Relay::paced(bed.server.addr(), Break::Never, 4_000_000)?;
    let url = bed.server.url_at(relay.addr(), "file");
    let child = command(&bed.here, &["--retries", "0", "file", &url])?
        .stderr(Stdio::piped())
        .spawn()?;
    let begun = Instant::now();
    while relay.passed() < 1_000_000 {
        ensure!(begun.elapsed() < crate::LIMIT, "nothing went");
        std::thread::yield_now();
    }
    std::fs::OpenOptions::new()
        .append(true)
        .open(&file)?
        .set_len(SIZE * 2 + 5)?;
    let done = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(!done.status.success() && said.contains("changed"), "{said}");
    Ok(())
}

/// What the server has by then is of the same length, and of another file.
#[test]
fn an_upload_does_not_go_on_with_what_another_put_there() -> Result<()> {
    for third in [false, true] {
        let (bed, from) = (Bed::new()?, Bed::new()?);
        let source = if third { &from.there } else { &bed.here };
        source.file("file", SIZE, 3)?;
        let other = bed.here.file("other", SIZE, 4)?;
        // Slow enough for the server to tell what it holds.
        let plan = Break::Data {
            after: SIZE * 7 / 8,
        };
        let relay = Relay::paced(bed.server.addr(), plan, 1_100_000)?;
        relay.hold();
        let to = bed.server.url_at(relay.addr(), "file");
        let url = from.url("file");
        let name = if third { &url } else { "file" };
        let mut child = command(&bed.here, &["-q", "-p", "1", name, &to])?.spawn()?;
        let begun = Instant::now();
        while !relay.broke() {
            ensure!(begun.elapsed() < crate::LIMIT, "nothing broke");
            std::thread::yield_now();
        }
        std::fs::copy(&other, bed.there.path("file"))?;
        for left in [".file.gridftp-part", ".file.gridftp-held"] {
            std::fs::remove_file(bed.there.path(left))?;
        }
        relay.release();
        ensure!(child.wait()?.success());
        let copy = workspace_tests::sha256(&bed.there.path("file"))?;
        ensure!(
            copy == workspace_tests::sha256(&source.path("file"))?,
            "third: {third}: the copy is of two files"
        );
    }
    Ok(())
}

/// Flips a bit of `part`, a file that is held of a copy which broke, and checks that the whole copy is right.
fn flipped(bed: &Bed, part: &std::path::Path, flags: &[&str], up: bool) -> Result<()> {
    let plan = Break::Data {
        after: SIZE * 7 / 8,
    };
    // Slow enough for the server to tell what it holds.
    let relay = Relay::paced(bed.server.addr(), plan, 1_100_000)?;
    relay.hold();
    let url = bed.server.url_at(relay.addr(), "file");
    let ends = if up { ["file", &url] } else { [&url, "file"] };
    let child = command(&bed.here, &[flags, &["--debug"], &ends].concat())?
        .stderr(Stdio::piped())
        .spawn()?;
    let begun = Instant::now();
    while !relay.broke() {
        ensure!(begun.elapsed() < crate::LIMIT, "nothing broke");
        std::thread::yield_now();
    }
    let held = std::fs::File::options().read(true).write(true).open(part)?;
    let mut byte = [0];
    held.read_exact_at(&mut byte, 1000)?;
    held.write_all_at(&[byte[0] ^ 1], 1000)?;
    relay.release();
    let done = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{said}");
    ensure!(said.contains("> REST "), "it did not go on: {said}");
    bed.same("file", "file").with_context(|| said.into_owned())
}

#[test]
fn a_bit_that_flips_in_what_the_server_holds_is_found_unasked() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("file", SIZE, 3)?;
    let part = bed.there.path(".file.gridftp-part");
    flipped(&bed, &part, &["-p", "1"], true)
}

#[test]
fn a_bit_that_flips_in_what_came_is_found_by_verification() -> Result<()> {
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

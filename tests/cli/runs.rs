//! Runs as scripts use them: the first failure, lists of failures, logs, addresses and ports.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Context as _, Result, ensure};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{Pid, Signal, kill_process};
use workspace_tests::{Finished, Tree, run};

use crate::{Bed, LIMIT, command, fails};

/// Puts files and some that cannot be read into a tree: their links lead nowhere.
fn fill(tree: &Tree) -> Result<()> {
    for n in 0..5 {
        tree.file(&format!("tree/{n}"), 10, n)?;
    }
    for name in ["bad", "sub/ worse"] {
        tree.dir("tree/sub")?;
        std::os::unix::fs::symlink("nowhere", tree.path(&format!("tree/{name}")))?;
    }
    Ok(())
}

#[test]
fn failed_names_are_a_list_of_files_to_copy() -> Result<()> {
    let bed = Bed::new()?;
    fill(&bed.here)?;
    let to = bed.url("to");
    let first = bed.cp(&["-r", "--failed-list", "failed", "tree/", &to])?;
    fails(&first, 1, &["bad", "worse"])?;
    let mut list: Vec<_> = fs::read_to_string(bed.here.path("failed"))?
        .lines()
        .map(str::to_owned)
        .collect();
    list.sort();
    ensure!(list == ["bad", "sub/ worse"], "{list:?}");
    bed.here.file("tree/nowhere", 7, 7)?;
    bed.here.file("tree/sub/nowhere", 8, 8)?;
    // The same file takes the names that fail again.
    let flags = ["--files-from", "failed", "--failed-list", "failed"];
    bed.cp(&[&flags[..], &["tree", &to]].concat())?.ok()?;
    bed.same("tree/bad", "to/bad")?;
    bed.same("tree/sub/ worse", "to/sub/ worse")?;
    ensure!(fs::read(bed.here.path("failed"))?.is_empty());
    Ok(())
}

#[test]
fn the_failures_of_sources_in_one_directory_alone_are_a_list() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a/x", 10, 1)?;
    bed.here.file("b/y", 10, 2)?;
    let to = bed.url("to/");
    let list = ["-r", "--failed-list", "failed"];
    for sources in [
        ["a/x", "b/y"],
        ["a/", "b/"],
        ["a", "a/x"],
        ["a", &bed.url("b")],
    ] {
        let said = bed.cp(&[&list[..], &sources, &[&to]].concat())?;
        fails(
            &said,
            2,
            &["--failed-list", "one directory", "none in common"],
        )?;
        ensure!(!bed.here.path("failed").exists() && bed.there.names("")?.is_empty());
    }
    for name in ["a/bad", "b/worse"] {
        std::os::unix::fs::symlink("nowhere", bed.here.path(name))?;
    }
    let said = bed.cp(&[&list[..], &["a", "./b", &to]].concat())?;
    fails(&said, 1, &["bad", "worse"])?;
    bed.here.file("a/nowhere", 7, 7)?;
    bed.here.file("b/nowhere", 8, 8)?;
    bed.cp(&["--files-from", "failed", ".", &to])?.ok()?;
    bed.same("a/bad", "to/a/bad")?;
    bed.same("b/worse", "to/b/worse")
}

#[test]
fn a_list_outlives_a_run_that_does_not_end() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("tree/a", 10, 1)?;
    bed.here.file("tree/sub/b", 10, 2)?;
    let text = "a\nsub/b\n";
    fs::write(bed.here.path("failed"), text)?;
    let lists = ["--files-from", "failed", "--failed-list", "failed"];
    let flags = [&lists[..], &["--retries", "0"]].concat();
    let kept = || -> Result<()> {
        let now = fs::read_to_string(bed.here.path("failed"))?;
        ensure!(now == text, "{now:?}");
        // Nor is a temporary list left.
        let mut names: Vec<_> = fs::read_dir(bed.here.root())?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<Result<_>>()?;
        names.retain(|name| name.to_string_lossy().contains("failed"));
        ensure!(names == ["failed"], "{names:?}");
        Ok(())
    };
    let nobody = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let url = format!("ftp://{nobody}/to");
    fails(
        &bed.cp(&[&flags[..], &["tree", &url]].concat())?,
        3,
        &["refused"],
    )?;
    kept()?;
    let wrong = bed.cp(&[&flags[..], &["tree", "gopher://x/"]].concat())?;
    fails(&wrong, 2, &["scheme gopher"])?;
    kept()?;
    let url = bed.url("to");
    let dry = [&flags[..], &["--dry-run", "tree", &url]].concat();
    bed.cp(&dry)?.ok()?;
    kept()?;
    // Nor does one that would copy nothing.
    bed.there.file("old/a", 1, 1)?;
    bed.there.file("old/sub/b", 1, 1)?;
    let old = bed.url("old");
    let dry = [&flags[..], &["--dry-run", "--no-clobber", "tree", &old]].concat();
    bed.cp(&dry)?.ok()?;
    kept()?;
    // The first failure ends the run, before or behind the other file.
    bed.there.dir("full/a/in the way")?;
    let fast = ["-j", "1", "--fail-fast", "tree", &bed.url("full")];
    bed.cp(&[&flags[..], &fast].concat())?.failed()?;
    let list = fs::read_to_string(bed.here.path("failed"))?;
    let has = |name: &str| list.lines().any(|line| line == name);
    let is_copied = bed.there.path("full/sub/b").exists();
    ensure!(has("a") && (has("sub/b") || is_copied), "{list}");
    fs::write(bed.here.path("failed"), text)?;

    // A server that says nothing.
    let mute = TcpListener::bind("127.0.0.1:0")?;
    set_socket_timeout(&mute, Timeout::Recv, Some(LIMIT))?;
    let url = format!("ftp://{}/to", mute.local_addr()?);
    let args = [&flags[..], &["--log-file", "log", "tree", &url]].concat();
    for (signal, status) in [(Signal::KILL, None), (Signal::TERM, Some(130))] {
        let mut stopped = command(&bed.here, &args)?.spawn()?;
        let _held = mute.accept()?;
        kill_process(Pid::from_child(&stopped), signal)?;
        ensure!(stopped.wait()?.code() == status);
        kept()?;
    }
    let log = fs::read_to_string(bed.here.path("log"))?;
    let last: serde_json::Value = serde_json::from_str(log.lines().last().unwrap_or_default())?;
    let told = last["error"].as_str().unwrap_or_default();
    ensure!(
        told == "stopped by a signal; no file was under way",
        "{log}"
    );
    Ok(())
}

/// The directory of the names is not one of them.
#[test]
fn a_directory_whose_contents_fail_adds_no_name_to_the_list() -> Result<()> {
    let bed = Bed::new()?;
    let [there, to] = ["gone/", "to/"].map(|name| bed.url(name));
    for (source, to, listed) in [
        ("gone/", &*to, "a\n"),
        (&*there, "to/", "a\n"),
        ("gone", &*to, "gone\n"),
    ] {
        fs::write(bed.here.path("failed"), "a\n")?;
        fails(
            &bed.cp(&["-r", "--failed-list", "failed", source, to])?,
            1,
            &["gone"],
        )?;
        let now = fs::read_to_string(bed.here.path("failed"))?;
        ensure!(now == listed, "{source}: {now:?}");
    }
    Ok(())
}

#[test]
fn names_of_any_bytes_come_back_from_the_list() -> Result<()> {
    let bed = Bed::new()?;
    let name = OsStr::from_bytes(b"odd \xff\n name");
    fs::create_dir(bed.here.path("tree"))?;
    std::os::unix::fs::symlink("nowhere", bed.here.path("tree").join(name))?;
    std::os::unix::fs::symlink("nowhere", bed.here.path("tree/plain"))?;
    let flags = ["-r", "--failed-list", "failed", "tree", &bed.url("to/")];
    fails(&bed.cp(&flags)?, 1, &["plain"])?;
    let text = fs::read(bed.here.path("failed"))?;
    let mut names: Vec<_> = text.split(|byte| *byte == 0).collect();
    names.sort();
    // They are below the destination, which the directory itself was copied to.
    ensure!(names == [&b""[..], b"tree/odd \xff\n name", b"tree/plain"]);
    Ok(())
}

#[test]
fn the_first_failure_ends_the_run() -> Result<()> {
    let bed = Bed::new()?;
    for n in 0..200 {
        bed.there.file(&format!("tree/{n:03}"), 10, n)?;
        bed.here.dir(&format!("to/{n:03}/in the way"))?;
    }
    let flags = ["-r", "-j", "1", "--fail-fast", "--retries", "0", "--json"];
    let ended = bed.cp(&[&flags[..], &[&bed.url("tree/"), "to"]].concat())?;
    ensure!(ended.status.code() == Some(1), "{}", ended.report());
    let failed = ended.stdout.matches("\"event\":\"failed\"").count();
    ensure!((1..150).contains(&failed), "{failed} failed");
    ensure!(ended.stdout.contains("--fail-fast is set"));
    Ok(())
}

#[test]
fn a_run_tells_where_its_time_went() -> Result<()> {
    let bed = Bed::new()?;
    // Some seconds, of which one may be lost to other programs of a busy machine.
    bed.here.file("large", 7 << 20, 1)?;
    let url = bed.url("large");
    let slow = ["--explain", "--bwlimit", "2M"];
    for ends in [["large", &url], [&url, "back"]] {
        let text = bed.cp(&[&slow[..], &ends].concat())?.ok()?.stdout;
        let told = "the time went to:\n";
        let remedy = "most would help: a higher --bwlimit";
        ensure!(text.contains(told) && text.contains(remedy), "{text}");
        let json = bed.cp(&[&slow[..], &["--json"], &ends].concat())?.ok()?;
        let end = json.stdout.lines().last().unwrap_or_default();
        let end: serde_json::Value = serde_json::from_str(end)?;
        let shares = end["shares"].as_object().context("no shares")?;
        let sum: f64 = shares.values().filter_map(|share| share.as_f64()).sum();
        ensure!((sum - 1.0).abs() < 1e-6, "{end}");
        ensure!(shares["limit"].as_f64() > Some(0.5), "{end}");
    }
    bed.here.file("small", 10, 1)?;
    let short = bed.cp(&["--explain", "small", &url])?.ok()?;
    ensure!(
        short.stdout.contains("no explanation: "),
        "{}",
        short.report()
    );
    Ok(())
}

#[test]
fn a_log_keeps_the_events_of_all_runs() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a", 10, 1)?;
    for _ in 0..2 {
        bed.cp(&["-q", "--log-file", "log", "a", &bed.url("a")])?
            .ok()?;
    }
    fails(
        &bed.cp(&["-q", "--log-file", "log", "missing", &bed.url("b")])?,
        1,
        &[],
    )?;
    let log = fs::read_to_string(bed.here.path("log"))?;
    let count = |event: &str| log.matches(&format!("\"event\":\"{event}\"")).count();
    ensure!(
        (count("done"), count("failed"), count("end")) == (2, 1, 3),
        "{log}"
    );
    ensure!(log.lines().all(|line| line.contains("\"time\":")));
    ensure!(count("connected") >= 2, "{log}");
    let nobody = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let url = format!("ftp://{nobody}/a");
    let flags = ["-q", "--retries", "0", "--log-file", "log", "a", &url];
    fails(&bed.cp(&flags)?, 3, &["refused"])?;
    let log = fs::read_to_string(bed.here.path("log"))?;
    let last: serde_json::Value = serde_json::from_str(log.lines().last().unwrap_or_default())?;
    ensure!(
        last["event"] == "error" && last["class"] == "connect" && last["time"].is_f64(),
        "{log}"
    );
    let bad = bed.cp(&["--log-file", "no/log", "a", &bed.url("a")])?;
    fails(&bad, 2, &["--log-file: no/log: write"])
}

#[test]
fn addresses_are_of_the_family_that_was_asked_for() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("a", 10, 1)?;
    let named = bed.url("a").replace("127.0.0.1", "localhost");
    bed.cp(&["-4", &named, "a"])?.ok()?;
    bed.same("a", "a")?;
    let other = bed.cp(&["-6", "--retries", "0", &bed.url("a"), "b"])?;
    fails(&other, 3, &["has no IPv6 address"])?;
    fails(&bed.cp(&["-4", "-6", &named, "b"])?, 2, &["--ipv6"])
}

/// Runs a download with these flags and this range in the environment, and tells its conversation.
fn download(bed: &Bed, flags: &[&str], range: impl AsRef<OsStr>) -> Result<Finished> {
    let url = bed.url("a");
    let args = [&["--debug", "--mode", "extended"], flags, &[&url, "a"]].concat();
    let mut command = command(&bed.here, &args)?;
    run(command.env("GLOBUS_TCP_PORT_RANGE", range), LIMIT)
}

#[test]
fn data_connections_come_to_a_port_of_the_range() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("a", 10, 1)?;
    for globus in [false, true] {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (range, globus_range) = (format!("{port}-{port}"), format!("{port},{port}"));
        let said = match globus {
            false => download(&bed, &["--data-ports", &range], "1,2")?,
            true => download(&bed, &[], &globus_range)?,
        };
        let told = format!("127,0,0,1,{},{}", port >> 8, port & 0xff);
        ensure!(said.stderr.contains(&told), "{told} in {}", said.report());
        said.ok()?;
        bed.same("a", "a")?;
    }
    for (range, told) in [(&b"many"[..], "many"), (b"5000,500\xff", "5000,500")] {
        let said = download(&bed, &[], OsStr::from_bytes(range))?;
        fails(&said, 2, &[&format!("GLOBUS_TCP_PORT_RANGE: {told}")])?;
    }
    let stack = download(&bed, &["--data-ports", "5000-5001", "--stack", "udt"], "")?;
    fails(&stack, 2, &["--data-ports are of tcp"])
}

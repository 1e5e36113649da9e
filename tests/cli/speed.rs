//! `gridftp speed`: memory to memory and disk to memory, with the means of each server.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;
use workspace_tests::{Host, binary, run};

use crate::sibling::objects;
use crate::{Bed, LIMIT, fails};

/// The flags of a short measurement.
const SHORT: [&str; 4] = ["--seconds", "1", "--size", "300K"];

/// The server's flags that turn measurements of its memory off.
const OFF: [&str; 2] = ["--max-measurement", "0"];

/// Event, direction, source, destination and means of a measurement.
fn told(one: &Value) -> [&str; 5] {
    ["event", "direction", "from", "to", "by"].map(|field| one[field].as_str().unwrap_or(""))
}

#[test]
fn a_server_with_a_root_is_measured_memory_to_memory() -> Result<()> {
    let bed = Bed::new()?;
    fs::create_dir(bed.there.path("dir"))?;
    for streams in [&[][..], &["--parallel", "2"][..]] {
        let flags = [&["speed", "@dir", "--json"][..], &SHORT, streams].concat();
        let told_all = objects(&bed.there(&flags)?.ok()?)?;
        let kinds: Vec<_> = told_all.iter().map(told).collect();
        let wanted = [
            ["speed", "up", "memory", "memory", "memory"],
            ["speed", "down", "memory", "memory", "memory"],
            ["speed", "up", "memory", "disk", "file"],
            ["speed", "down", "disk", "memory", "file"],
        ];
        ensure!(kinds == wanted, "{told_all:?}");
        for one in &told_all[..2] {
            // More than the bytes of the file, which bound nothing here.
            ensure!(one["bytes"].as_u64() > Some(300 * 1024), "{one}");
            let seconds = one["seconds"].as_f64().unwrap_or_default();
            ensure!(seconds > 0.5, "{one}");
        }
        for one in &told_all[2..] {
            ensure!(one["bytes"] == 300 * 1024, "{one}");
            ensure!(
                one["samples"].as_array().is_some_and(|all| all.len() == 16),
                "{one}"
            );
        }
        ensure!(fs::read_dir(bed.there.path("dir"))?.next().is_none());
    }
    fails(&bed.there(&["speed", "@missing"])?, 1, &["550"])
}

#[test]
fn a_line_ends_with_the_means_of_the_server() -> Result<()> {
    let bed = Bed::new()?;
    let shown = bed.there(&[&["speed", "@"][..], &SHORT].concat())?.ok()?;
    let lines: Vec<_> = shown.stdout.lines().collect();
    let wanted = [
        ("up    memory to memory ", "  memory"),
        ("down  memory to memory ", "  memory"),
        ("up    memory to disk ", "  file"),
        ("down    disk to memory ", "  file"),
    ];
    let fits = |(line, (start, end)): (&&str, &(&str, &str))| {
        line.starts_with(start) && line.ends_with(end)
    };
    ensure!(
        lines.len() == wanted.len() && lines.iter().zip(&wanted).all(fits),
        "{}",
        shown.report()
    );
    ensure!(!shown.stderr.contains("left out"), "{}", shown.report());
    Ok(())
}

#[test]
fn without_the_servers_memory_devices_or_nothing_serve() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.server = Host::ours_with(bed.there.root(), &OFF)?;
    let shown = bed.there(&[&["speed", "@"][..], &SHORT].concat())?.ok()?;
    ensure!(
        shown.stdout.lines().count() == 2 && shown.stderr.matches("left out").count() == 2,
        "{}",
        shown.report()
    );
    ensure!(
        shown.stderr.contains("no MEMORY in FEAT"),
        "{}",
        shown.report()
    );
    for (flags, by) in [(&OFF[..], "storage"), (&OFF[..0], "memory")] {
        let flags = [&["--storage", "null"][..], flags].concat();
        let server = Host::ours_with(bed.there.root(), &flags)?;
        let url = server.url("");
        let told_all = bed.gridftp(&["speed", "--json", "--seconds", "1", &url])?;
        let told_all = objects(&told_all.ok()?)?;
        let events: Vec<_> = told_all.iter().map(|one| told(one)[0]).collect();
        ensure!(events == ["skip", "skip", "speed", "speed"], "{told_all:?}");
        for one in &told_all[2..] {
            ensure!(one["by"] == by && one["bytes"].as_u64() > Some(0), "{one}");
        }
    }
    Ok(())
}

#[test]
fn the_server_bounds_the_time() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.server = Host::ours_with(bed.there.root(), &["--max-measurement", "1"])?;
    let flags = ["speed", "@", "--seconds", "1h", "--size", "300K"];
    let shown = bed.there(&flags)?.ok()?;
    ensure!(
        shown.stderr.contains("the server measures for 1 s at most"),
        "{}",
        shown.report()
    );
    ensure!(shown.stdout.lines().count() == 4, "{}", shown.report());
    Ok(())
}

#[test]
fn a_measurement_that_is_interrupted_leaves_nothing() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.server = Host::ours_with(bed.there.root(), &OFF)?;
    fs::create_dir(bed.there.path("dir"))?;
    let (program, url) = (binary("gridftp")?, bed.url("dir"));
    // The signal comes when the file is there, and the run would last for an hour.
    let script = "\"$0\" speed --seconds 3600 --size 8G \"$1\" & \
                  until [ -n \"$(ls -A \"$2\")\" ]; do :; done; kill -INT $!; wait $!";
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &format!("set -m; {script}")])
        .arg(program)
        .arg(url);
    let stopped = run(shell.arg(bed.there.path("dir")), LIMIT)?;
    fails(&stopped, 130, &["stopped by a signal"])?;
    ensure!(
        fs::read_dir(bed.there.path("dir"))?.next().is_none(),
        "{}",
        stopped.report()
    );
    Ok(())
}

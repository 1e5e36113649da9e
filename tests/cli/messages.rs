//! Error messages of the program: fact, place and remedy, each once.

use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Break, Reaction, Relay, ScriptedServer, Tree, binary, run};

use crate::{Bed, LIMIT, cp_in, fails};

/// Offsets past the end, names with a slash or a star, and flags that are easily mistyped.
#[test]
fn usage_mistakes_are_reported_with_a_remedy() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("dir/one", 100, 1)?;
    bed.there.dir("dir/sub")?;
    bed.here.file("one", 100, 1)?;
    let url = |name: &str| bed.url(name);
    let (one, slash, to) = (url("dir/one"), url("dir/one/"), url("to"));
    let star = format!("{}*", url("dir/"));
    let nothing = format!("{}no*", url("dir/"));
    let beyond = &["one", "--offset 101", "100 bytes"][..];
    for (args, status, needles) in [
        (&["--offset", "101", &one, "x"][..], 2, beyond),
        (&["--offset", "101", "one", &to], 2, beyond),
        (&["--offset", "101", &one, "-"], 2, beyond),
        (&["--offset", "101", &one, &to], 2, beyond),
        (&[&slash, "x"], 2, &["dir/one/: is a file", "without the /"]),
        (
            &["-r", &slash, "x"],
            2,
            &["dir/one/: is a file", "without the /"],
        ),
        (
            &[&star, "x/"],
            1,
            &["dir/sub: is a directory; add --recursive"],
        ),
        (
            &[&star, &url("y/")],
            1,
            &["dir/sub: is a directory; add --recursive"],
        ),
        (&[&nothing, "x"], 1, &["no name there matches"]),
        (&["--verify", "sha256", &one, "x"], 2, &["--verify=sha256"]),
        (
            &["--offset", "-5", &one, "x"],
            2,
            &["--offset", "number of bytes"],
        ),
        (
            &["--length", "-5", &one, "x"],
            2,
            &["--length", "number of bytes"],
        ),
    ] {
        let finished = bed.cp(args)?;
        fails(&finished, status, needles).with_context(|| format!("{args:?}"))?;
        let line = finished.stderr.lines().next().unwrap_or_default();
        let place = args.iter().find(|arg| arg.starts_with("ftp://")).copied();
        let times = line.matches(place.unwrap_or("ftp://")).count();
        ensure!(times <= 1, "{times} times the place: {line}");
        ensure!(
            !bed.here.path("x").is_file() && !bed.there.path("to").exists(),
            "{args:?} created a file"
        );
    }
    bed.same("x/one", "dir/one")?;
    Ok(())
}

#[test]
fn a_mistake_in_a_time_tells_its_range() -> Result<()> {
    let tree = Tree::new()?;
    for (flags, told) in [
        (&["--timeout", "1y"][..], "from 1s to 1d, such as 60, 90s"),
        (&["--timeout", "-1"], "from 1s to 1d"),
        (&["--retry-for", "ten"], "from 0s to 10000d"),
        (&["--stats=0"], "from 1s to 1d"),
        (&["--max-age", "1.5"], "from 0s to 100000d"),
    ] {
        let finished = cp_in(&tree, &[flags, &["ftp://localhost/a", "b"]].concat())?;
        fails(&finished, 2, &["TIME>", "whole seconds, or a time", told])?;
    }
    Ok(())
}

/// In JSON the place and the fact are separate members.
#[test]
fn failures_in_json_have_source_and_error() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.dir("dir/sub")?;
    bed.there.file("dir/one", 1, 1)?;
    let star = format!("{}*", bed.url("dir/"));
    let nothing = format!("{}no*", bed.url("dir/"));
    for (source, place) in [(&star, "dir/sub"), (&nothing, "dir/")] {
        let finished = bed.cp(&["--json", source, "x/"])?;
        ensure!(finished.status.code() == Some(1), "{}", finished.report());
        let mut failures = Vec::new();
        for line in finished.stdout.lines() {
            let value: serde_json::Value = serde_json::from_str(line)?;
            if value.get("event").is_some_and(|event| event == "failed") {
                failures.push(value);
            }
        }
        let [failure] = failures.as_slice() else {
            anyhow::bail!("{} failures: {}", failures.len(), finished.report());
        };
        let member = |name: &str| {
            failure
                .get(name)
                .and_then(|text| text.as_str())
                .unwrap_or_default()
        };
        ensure!(
            member("source").contains(place) && !member("error").is_empty(),
            "{failure}"
        );
    }
    Ok(())
}

#[test]
fn a_port_of_another_protocol_is_reported() -> Result<()> {
    let tree = Tree::new()?;
    let server = ScriptedServer::start(|_| Reaction::say("SSH-2.0-OpenSSH_9.2p1 Debian-2"))?;
    let url = server.url("x");
    let finished = cp_in(&tree, &[&url, "y"])?;
    let addr = url.split('/').nth(2).context("no host")?;
    fails(&finished, 3, &[addr, "SSH", "no FTP server"])
}

#[test]
fn a_refused_connection_to_port_21_suggests_2811() -> Result<()> {
    let tree = Tree::new()?;
    // No program listens on port 21 of this loopback address.
    let finished = cp_in(&tree, &["--retries", "0", "ftp://127.255.255.254/x", "y"])?;
    fails(&finished, 3, &["127.255.255.254:21", "port 21", "2811"])?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let finished = cp_in(
        &tree,
        &["--retries", "0", &format!("ftp://127.0.0.1:{port}/x"), "y"],
    )?;
    fails(&finished, 3, &["check host and port"])?;
    ensure!(!finished.stderr.contains("2811"), "{}", finished.report());
    Ok(())
}

/// The server was reached, so host and port are right.
#[test]
fn a_login_timeout_is_not_reported_as_a_wrong_port() -> Result<()> {
    let tree = Tree::new()?;
    let server = ScriptedServer::start(|line| match line.starts_with("PASS") {
        true => Reaction::Silence,
        false => Reaction::Usual,
    })?;
    let flags = ["--retries", "0", "--timeout", "1"];
    let finished = cp_in(&tree, &[&flags[..], &[&server.url("x"), "y"]].concat())?;
    fails(&finished, 3, &["login: not done within 1 s", "--timeout"])?;
    let said = &finished.stderr;
    ensure!(!said.contains("check host"), "{}", finished.report());
    Ok(())
}

#[test]
fn no_mode_is_suggested_that_is_already_in_use() -> Result<()> {
    let tree = Tree::new()?;
    let server = ScriptedServer::start(|line| match line.starts_with("RETR") {
        true => Reaction::say("425 cannot connect"),
        false => Reaction::Usual,
    })?;
    server.file("/x", "abc");
    let finished = cp_in(
        &tree,
        &["--retries", "0", "--mode", "stream", &server.url("x"), "y"],
    )?;
    fails(&finished, 1, &["425 cannot connect"])?;
    ensure!(!finished.stderr.contains("--mode"), "{}", finished.report());
    Ok(())
}

#[test]
fn a_digest_mismatch_is_reported_in_one_sentence() -> Result<()> {
    for flags in [&["--mode", "stream"][..], &["-p", "2"]] {
        let bed = Bed::new()?;
        bed.there.file("file", 3_000_001, 1)?;
        let relay = Relay::start(bed.server.addr(), Break::Flip { after: 1_000_000 })?;
        let url = bed.server.url_at(relay.addr(), "file");
        let args = [flags, &["--verify", "--retries", "0", &url, "file"]].concat();
        let finished = bed.cp(&args)?;
        fails(
            &finished,
            5,
            &["of the source is", "of the copy another", "copy again"],
        )?;
        for stutter in ["storage:", "announced", "differs"] {
            ensure!(
                !finished.stderr.contains(stutter),
                "{stutter}: {}",
                finished.report()
            );
        }
    }
    Ok(())
}

#[test]
fn storage_errors_are_not_repeated() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", 10, 1)?;
    bed.here.file("plain", 1, 1)?;
    let finished = bed.cp(&[&bed.url("file"), "plain/file"])?;
    fails(&finished, 1, &["local: ", "plain"])?;
    let text = finished.stderr.to_lowercase();
    for word in ["not a directory", "file exists", "storage:", "os error"] {
        ensure!(
            text.matches(word).count() <= 1,
            "{word}: {}",
            finished.report()
        );
    }
    ensure!(!text.contains("storage:"), "{}", finished.report());
    Ok(())
}

/// `| head` closes the standard output of a copy.
#[test]
fn a_closed_output_pipe_is_not_a_storage_error() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", 3_000_001, 1)?;
    let program = binary("gridftp-cp")?;
    let mut shell = Command::new("sh");
    shell
        .args([
            "-c",
            "{ \"$0\" \"$@\"; echo status $? >&2; } | head -c 10 >/dev/null",
        ])
        .arg(program)
        .args([&bed.url("file"), "-"])
        .current_dir(bed.here.root());
    let finished = run(&mut shell, LIMIT)?.ok()?;
    ensure!(
        finished.stderr.contains("its reader is gone")
            && finished.stderr.contains("status 1")
            && !finished.stderr.contains("storage"),
        "{}",
        finished.report()
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "{ \"$0\" \"$@\"; echo status $? >&2; } | true"])
        .arg(binary("gridftp-cp")?)
        .args(["--list", &bed.url("")])
        .current_dir(bed.here.root());
    let finished = run(&mut shell, LIMIT)?.ok()?;
    ensure!(finished.stderr == "status 0\n", "{}", finished.report());
    Ok(())
}

#[test]
fn a_password_in_a_url_causes_a_warning() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", 10, 1)?;
    let url = bed
        .url("file")
        .replace("ftp://", "ftp://anonymous:me%40here@");
    let needle = "the password in the URL shows in the list of processes; use --netrc";
    let said = bed.cp(&[&url, "one"])?.ok()?;
    ensure!(said.stderr.contains(needle), "{}", said.report());
    let said = bed.cp(&["--json", &url, "two"])?.ok()?;
    ensure!(
        said.stdout.contains("\"event\":\"warning\"") && said.stderr.is_empty(),
        "{}",
        said.report()
    );
    let said = bed.cp(&["-q", &url, "three"])?.ok()?;
    ensure!(said.stderr.is_empty(), "{}", said.report());
    let said = bed.cp(&[&bed.url("file"), "four"])?.ok()?;
    ensure!(!said.stderr.contains("password"), "{}", said.report());
    Ok(())
}

#[test]
fn times_are_set_by_a_command_of_the_server() -> Result<()> {
    let tree = Tree::new()?;
    let file = tree.file("file", 10, 1)?;
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_234_567_890);
    std::fs::File::open(file)?.set_times(std::fs::FileTimes::new().set_modified(then))?;
    let server = ScriptedServer::start(|line| match line.split(' ').next() {
        Some("SITE") => Reaction::say("200 done"),
        _ => Reaction::Usual,
    })?;
    cp_in(&tree, &["--preserve", "file", &server.url("file")])?.ok()?;
    let commands = server.commands().join("\n");
    ensure!(
        commands.contains("SITE UTIME 20090213233130 /.file.gridftp-")
            && !commands.contains("MFMT"),
        "{commands}"
    );
    Ok(())
}

#[test]
fn a_dry_run_skips_the_same_files_as_the_copy() -> Result<()> {
    let (bed, far) = (Bed::new()?, Bed::new()?);
    for tree in [&bed.here, &bed.there] {
        tree.file("tree/old", 10, 1)?;
        tree.file("tree/new", 10, 2)?;
    }
    let kept = far.there.file("to/old", 5, 3)?;
    bed.here.file("to/old", 5, 3)?;
    for (from, to) in [
        ("tree/".to_owned(), far.url("to")),
        (bed.url("tree/"), far.url("to")),
        (bed.url("tree/"), "to".to_owned()),
    ] {
        let said = bed
            .cp(&["-n", "--dry-run", "--json", "-r", &from, &to])?
            .ok()?;
        let planned = said.stdout.lines().filter(|line| line.contains("\"plan\""));
        let planned: Vec<_> = planned.collect();
        let [one] = planned.as_slice() else {
            anyhow::bail!("{from} {to}: {}", said.report());
        };
        ensure!(one.contains("tree/new"), "{one}");
    }
    ensure!(std::fs::metadata(kept)?.len() == 5 && far.there.names("")? == ["to/old"]);
    Ok(())
}

/// Only reading reveals the size of such a file. A single one is read like a pipe.
#[test]
fn a_file_of_size_zero_with_content_is_not_copied_as_empty() -> Result<()> {
    let bed = Bed::new()?;
    let whole = std::fs::read("/proc/version")?;
    ensure!(!whole.is_empty() && std::fs::metadata("/proc/version")?.len() == 0);
    bed.there.dir("in")?;
    for (to, name) in [
        ("alone", "alone"),
        ("in", "in/version"),
        ("new/", "new/version"),
    ] {
        bed.cp(&["/proc/version", &bed.url(to)])?.ok()?;
        ensure!(std::fs::read(bed.there.path(name))? == whole, "{name}");
    }
    bed.here.file("tree/empty", 0, 0)?;
    bed.here.file("tree/file", 10, 1)?;
    std::os::unix::fs::symlink("/proc/version", bed.here.path("tree/version"))?;
    for mode in ["stream", "extended"] {
        let finished = bed.cp(&["--mode", mode, "-r", "tree", &bed.url(mode)])?;
        fails(
            &finished,
            1,
            &["tree/version", "says that it is empty, but holds bytes"],
        )?;
        let names = bed.there.names(&format!("{mode}/tree"))?;
        ensure!(names == ["empty", "file"], "{names:?}");
    }
    Ok(())
}

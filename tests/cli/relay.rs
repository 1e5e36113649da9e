//! Copies between servers that do not move data between them: through this machine.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use serde_json::Value;
use workspace_tests::{
    Break, Finished, Host, Reaction, Relay, ScriptedServer, Tree, binary, run, same_file,
};

use crate::memory::peak;
use crate::{LIMIT, command, cp_in, fails};

const SIZE: u64 = 3_000_003;

/// Two servers of ours at addresses of their own, which let data go to the client's host only.
struct Apart {
    here: Tree,
    from: Tree,
    to: Tree,
    source: Host,
    destination: Host,
}

/// Starts a server of ours at an address of its own.
fn host(address: &str, root: &Tree) -> Result<Host> {
    let mut server = Command::new(binary("gridftp-server")?);
    let flags = [
        "--bind",
        address,
        "--port",
        "0",
        "--anonymous",
        "rw",
        "--root",
    ];
    Host::ours_from(server.args(flags).arg(root.root()), root.root())
}

impl Apart {
    fn new() -> Result<Self> {
        let (here, from, to) = (Tree::new()?, Tree::new()?, Tree::new()?);
        let (source, destination) = (host("127.0.0.2", &from)?, host("127.0.0.3", &to)?);
        Ok(Self {
            here,
            from,
            to,
            source,
            destination,
        })
    }

    fn cp(&self, flags: &[&str], from: &str, to: &str) -> Result<Finished> {
        let urls = [self.source.url(from), self.destination.url(to)];
        cp_in(
            &self.here,
            &[flags, &urls.each_ref().map(String::as_str)].concat(),
        )
    }
}

#[test]
fn servers_that_refuse_third_party_are_copied_between() -> Result<()> {
    let servers = Apart::new()?;
    let names = ["tree/a", "tree/sub/b", "tree/sub/empty"];
    for (name, size) in names.into_iter().zip([SIZE, 5, 0]) {
        servers.from.file(name, size, size)?;
    }
    let flags = ["-r", "-j", "2", "--json", "--receipt", "receipts"];
    let done = servers.cp(&flags, "tree/", "copy/")?.ok()?;
    for name in names {
        let copy = name.replacen("tree", "copy", 1);
        same_file(&servers.from.path(name), &servers.to.path(&copy))?;
    }
    let events = done.stdout.lines().map(serde_json::from_str);
    let events: Vec<Value> = events.collect::<Result<_, _>>()?;
    let told = |event: &'static str| events.iter().filter(move |it| it["event"] == event);
    let warnings: Vec<_> = told("warning").map(|it| it["text"].to_string()).collect();
    let [warning] = warnings.as_slice() else {
        anyhow::bail!("{}", done.report());
    };
    let fact = "pass this machine: 127.0.0.2:";
    ensure!(
        warning.contains(fact) && warning.contains("PORT"),
        "{warning}"
    );
    let is_proven = |it: &Value| it["verified"] == "digest" || it["bytes"] == 0;
    ensure!(told("done").count() == 3, "{}", done.report());
    ensure!(
        told("done").all(|it| it["relayed"] == true && is_proven(it) && it["retries"] == 0),
        "{}",
        done.report()
    );
    let receipts = std::fs::read_to_string(servers.here.path("receipts"))?;
    let relayed = receipts.matches("\"route\":\"relayed\"").count();
    ensure!(relayed == 3, "{receipts}");
    Ok(())
}

#[test]
fn a_refusal_that_is_to_be_told_names_the_remedy() -> Result<()> {
    let servers = Apart::new()?;
    servers.from.file("file", 5, 3)?;
    let finished = servers.cp(&["--relay", "never", "--json"], "file", "copy")?;
    fails(&finished, 1, &[])?;
    ensure!(servers.to.names("")?.is_empty());
    for needle in ["500 Illegal PORT", "\"remedy\":\"--relay always"] {
        ensure!(finished.stdout.contains(needle), "{}", finished.report());
    }
    Ok(())
}

/// The source connects from its own address to that of the client, where the destination is, which is
/// stopped long before its deadline.
#[test]
fn a_destination_that_refused_the_source_is_quoted() -> Result<()> {
    let (here, from) = (Tree::new()?, Tree::new()?);
    let source = host("127.0.0.2", &from)?;
    // More than the buffers of sockets take before the connection is refused.
    from.file("file", 20 << 20, 4)?;
    let file = source.url("file");
    let refused = "data connections from 127.0.0.2 were refused";
    let option = "hosts other than the client's need --third-party at this server";
    for mode in [["-p", "1"], ["--mode", "stream"]] {
        let to = Tree::new()?;
        // Longer than a test may take.
        let destination = Host::ours_with(to.root(), &["--connect-timeout", "300"])?;
        let (site, copy) = (destination.addr().to_string(), destination.url("copy"));
        let flags = ["--relay", "never", "--retries", "0"];
        let finished = cp_in(&here, &[&flags[..], &mode, &[&file, &copy]].concat())?;
        fails(&finished, 1, &[refused, option, &site, "--relay always"])?;
        ensure!(!to.path("copy").exists(), "{}", finished.report());
        let done = cp_in(&here, &[&mode[..], &[&file, &copy]].concat())?.ok()?;
        let told = done.stderr.contains("pass this machine") && done.stderr.contains(refused);
        ensure!(told, "{}", done.report());
        same_file(&from.path("file"), &to.path("copy"))?;
    }
    Ok(())
}

#[test]
fn no_server_is_asked_to_connect_to_another() -> Result<()> {
    let (here, source, destination) = (
        Tree::new()?,
        ScriptedServer::usual()?,
        ScriptedServer::usual()?,
    );
    for n in 0..3 {
        source.file(&format!("/from/{n}"), vec![n; 100_000]);
    }
    let (from, to) = (source.url("from/*"), destination.url("to/"));
    let flags = ["--relay", "always", "-j", "1"];
    let done = cp_in(&here, &[&flags[..], &[&from, &to]].concat())?.ok()?;
    ensure!(
        !done.stderr.contains("pass this machine"),
        "{}",
        done.report()
    );
    for n in 0..3 {
        let (name, copy) = (format!("/from/{n}"), format!("/to/{n}"));
        ensure!(
            source.bytes(&name) == destination.bytes(&copy),
            "{n} differs"
        );
    }
    for (server, verb) in [(&source, "RETR"), (&destination, "STOR")] {
        ensure!(
            server.count("PORT") == 0 && server.count(verb) == 3,
            "{:?}",
            server.commands()
        );
    }
    // No name shows a part.
    let stores = destination.commands();
    let mut stores = stores.iter().filter(|line| line.starts_with("STOR"));
    ensure!(stores.all(|line| line.starts_with("STOR /to/.")));
    Ok(())
}

/// A source that refuses a file is asked before the destination makes one.
#[test]
fn a_refused_file_touches_nothing() -> Result<()> {
    let source = ScriptedServer::start(|line| match line {
        "RETR /from" => Reaction::say("550 not for you"),
        _ => Reaction::Usual,
    })?;
    let destination = ScriptedServer::usual()?;
    source.file("/from", "abc");
    destination.file("/to", "old");
    let (from, to) = (source.url("from"), destination.url("to"));
    let finished = cp_in(&Tree::new()?, &["--relay", "always", &from, &to])?;
    fails(&finished, 1, &["550 not for you"])?;
    ensure!(
        destination.count("STOR") == 0,
        "{:?}",
        destination.commands()
    );
    ensure!(destination.bytes("/to").as_deref() == Some(&b"old"[..]));
    Ok(())
}

/// As vsftpd refuses the connection of another host.
fn refusing(from: usize) -> Result<ScriptedServer> {
    let stores = Arc::new(AtomicUsize::new(0));
    Ok(ScriptedServer::start(move |line| {
        match line.starts_with("STOR") && stores.fetch_add(1, Ordering::SeqCst) == from {
            true => Reaction::say("425 Security: Bad IP connecting."),
            false => Reaction::Usual,
        }
    })?)
}

#[test]
fn a_refused_connection_counts_before_the_first_file_only() -> Result<()> {
    for (refused, relayed) in [(0, true), (1, false)] {
        let (source, destination) = (ScriptedServer::usual()?, refusing(refused)?);
        for n in 0..3 {
            source.file(&format!("/from/{n}"), vec![n; 1000]);
        }
        let (from, to) = (source.url("from/*"), destination.url("to/"));
        let done = cp_in(&Tree::new()?, &["-j", "1", &from, &to])?.ok()?;
        for n in 0..3 {
            let (name, copy) = (format!("/from/{n}"), format!("/to/{n}"));
            ensure!(
                source.bytes(&name) == destination.bytes(&copy),
                "{n} differs"
            );
        }
        let told = done.stderr.matches("pass this machine").count();
        ensure!(told == usize::from(relayed), "{refused}: {}", done.report());
        // Listings come over ports of the source as well. The refused file is set up twice again: the
        // listing told no time, so that it gets another hidden name first.
        let moved = source.count("PORT");
        ensure!(
            moved == if relayed { 1 } else { 5 },
            "{:?}",
            source.commands()
        );
    }
    Ok(())
}

#[test]
fn a_source_that_breaks_off_leaves_nothing() -> Result<()> {
    for midway in [
        Reaction::Reset("426 torn".to_owned()),
        Reaction::say("426 torn"),
        Reaction::HangUp(String::new()),
    ] {
        let broken = midway.clone();
        let source = ScriptedServer::start(move |line| match line.starts_with("MIDWAY RETR") {
            true => broken.clone(),
            false => Reaction::Usual,
        })?;
        let destination = ScriptedServer::usual()?;
        source.file("/from", vec![7; 500_000]);
        let (from, to) = (source.url("from"), destination.url("to"));
        let flags = ["--relay", "always", "--retries", "0"];
        let finished = cp_in(&Tree::new()?, &[&flags[..], &[&from, &to]].concat())?;
        ensure!(finished.status.code().is_some_and(|code| code != 0));
        let told = finished.stderr.contains("RETR") || finished.stderr.contains("/from");
        ensure!(
            told && !finished.stderr.contains("STOR"),
            "{}",
            finished.report()
        );
        let left = destination.files();
        ensure!(left.is_empty(), "{midway:?}: {left:?}");
    }
    Ok(())
}

#[test]
fn a_destination_that_breaks_off_is_named() -> Result<()> {
    let destination = ScriptedServer::start(|line| match line.starts_with("MIDWAY STOR") {
        true => Reaction::say("452 the disk is full"),
        false => Reaction::Usual,
    })?;
    let source = ScriptedServer::usual()?;
    source.file("/from", vec![7; 5_000_000]);
    let (from, to) = (source.url("from"), destination.url("to"));
    let flags = ["--relay", "always", "--retries", "0"];
    let finished = cp_in(&Tree::new()?, &[&flags[..], &[&from, &to]].concat())?;
    fails(&finished, 1, &["452 the disk is full"])?;
    ensure!(
        !finished.stderr.contains("source:"),
        "{}",
        finished.report()
    );
    ensure!(destination.files().is_empty(), "{:?}", destination.files());
    Ok(())
}

/// The digest of the bytes that passed is that of the source.
#[test]
fn bytes_that_change_on_the_way_are_found() -> Result<()> {
    let (here, from, to) = (Tree::new()?, Tree::new()?, Tree::new()?);
    let (source, destination) = (Host::ours(from.root())?, Host::ours(to.root())?);
    from.file("file", SIZE, 3)?;
    let flip = Relay::start(destination.addr(), Break::Flip { after: SIZE / 2 })?;
    let (url, target) = (source.url("file"), destination.url_at(flip.addr(), "file"));
    let flags = ["--relay", "always", "--retries", "0"];
    let finished = cp_in(&here, &[&flags[..], &[&url, &target]].concat())?;
    ensure!(flip.broke());
    fails(&finished, 5, &["verify", "BLAKE3"])
}

/// Bytes in memory do not grow with the file where they come faster than they go.
#[test]
fn a_slow_destination_holds_the_source_up() -> Result<()> {
    const LARGE: u64 = 400 << 20;
    let (here, from, to) = (Tree::new()?, Tree::new()?, Tree::new()?);
    let (source, destination) = (Host::ours(from.root())?, Host::ours(to.root())?);
    from.sparse("file", LARGE, 3)?;
    let slow = Relay::paced(destination.addr(), Break::Never, 1 << 20)?;
    let (url, target) = (source.url("file"), destination.url_at(slow.addr(), "file"));
    let mut child = command(&here, &["-q", "--relay", "always", &url, &target])?.spawn()?;
    slow.wait_until_passed(5 << 20)?;
    let most = peak(&child)?;
    child.kill()?;
    child.wait()?;
    ensure!(most < 64 << 10, "{most} KiB");
    Ok(())
}

#[test]
fn the_globus_program_leaves_third_party_out_by_notpt() -> Result<()> {
    let servers = Apart::new()?;
    servers.from.file("file", SIZE, 3)?;
    let mut globus = Command::new(binary("gridftp-cp")?);
    globus
        .current_dir(servers.here.root())
        .env("HOME", servers.here.root());
    let urls = [servers.source.url("file"), servers.destination.url("copy")];
    let done = run(globus.args(["--globus", "-notpt"]).args(urls), LIMIT)?.ok()?;
    ensure!(
        !done.stderr.contains("pass this machine"),
        "{}",
        done.report()
    );
    same_file(&servers.from.path("file"), &servers.to.path("copy"))
}

/// Bytes that the destination has are not read from the source again.
#[test]
fn a_copy_that_broke_off_goes_on() -> Result<()> {
    const LARGE: u64 = 12_000_001;
    const AFTER: u64 = 9_000_000;
    for (at_source, later) in [(true, false), (true, true), (false, true)] {
        let (here, from, to) = (Tree::new()?, Tree::new()?, Tree::new()?);
        let (source, destination) = (Host::ours(from.root())?, Host::ours(to.root())?);
        from.file("file", LARGE, 3)?;
        let plan = Break::Everything { after: AFTER };
        let behind = if at_source { &source } else { &destination };
        let relay = Relay::paced(behind.addr(), plan, 12_000_000)?;
        let through = behind.url_at(relay.addr(), "file");
        let (url, target) = match at_source {
            true => (through, destination.url("file")),
            false => (source.url("file"), through),
        };
        let retries = if later { "0" } else { "2" };
        let flags = [
            "--relay",
            "always",
            "--resume",
            "--json",
            "--retries",
            retries,
        ];
        let run = || cp_in(&here, &[&flags[..], &[&url, &target]].concat());
        let mut done = run()?;
        if later {
            ensure!(done.status.code() != Some(0), "{}", done.report());
            ensure!(!to.path("file").exists(), "a part is there");
            done = run()?;
        }
        let done = done.ok()?;
        ensure!(relay.broke());
        same_file(&from.path("file"), &to.path("file"))?;
        let passed = relay.passed();
        ensure!(
            passed < LARGE + 2_000_000,
            "{passed} bytes: {}",
            done.report()
        );
    }
    Ok(())
}

/// The bytes that passed stand for the source's, also behind an attempt that broke off.
#[test]
fn a_source_without_digests_is_compared_with_its_copy() -> Result<()> {
    for (flags, algorithm) in [(&[][..], "BLAKE3"), (&["--verify=sha256"], "SHA256")] {
        let asked = AtomicUsize::new(0);
        let source = ScriptedServer::start(move |line| {
            match line.starts_with("MIDWAY RETR") && asked.fetch_add(1, Ordering::SeqCst) == 0 {
                true => Reaction::say("426 torn"),
                false => Reaction::Usual,
            }
        })?;
        source.file("/from", vec![7; 500_000]);
        let (here, to) = (Tree::new()?, Tree::new()?);
        let destination = Host::ours(to.root())?;
        let (from, target) = (source.url("from"), destination.url("to"));
        let all = [&["--relay", "always", "--json"], flags, &[&from, &target]];
        let done = cp_in(&here, &all.concat())?.ok()?;
        let told = format!("\"algorithm\":\"{algorithm}\"");
        ensure!(done.stdout.contains(&told), "{}", done.report());
        ensure!(done.stdout.contains("\"retries\":1"), "{}", done.report());
        ensure!(std::fs::read(to.path("to"))? == vec![7; 500_000]);
    }
    Ok(())
}

//! Copies that go on in a later run.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use workspace_tests::{Finished, Reaction, ScriptedServer, Tree, wait_for_files};

use crate::safety::ignores_hangup;
use crate::uploads::digest;
use crate::{Bed, LIMIT, command, cp_in};

/// Bytes of a file that is sent before a retrieval breaks off.
pub(crate) const SENT: usize = 1_000_003;

/// Name of the record of the received bytes of `file`.
const RECORD: &str = ".file.gridftp-held";

/// A server of one file, and whether it answers `MIDWAY` with `midway` at present.
pub(crate) struct Server {
    server: ScriptedServer,
    breaks: Arc<AtomicBool>,
}

impl Server {
    /// Breaks off behind `until` bytes, until it is mended.
    pub(crate) fn start(
        file: Vec<u8>,
        until: usize,
        midway: Reaction,
        digests: &'static str,
    ) -> Result<Self> {
        let breaks = Arc::new(AtomicBool::new(true));
        let is_broken = Arc::clone(&breaks);
        let server = ScriptedServer::with(move |server, line| {
            let breaks = is_broken.load(Ordering::SeqCst);
            if let ["CKSM", _, offset, length, path] = *line.split(' ').collect::<Vec<_>>() {
                return digest(server, path, offset, length);
            }
            match line.split(' ').next() {
                Some("FEAT") => {
                    let facts = "MLST Size*;Modify*;\r\n REST STREAM";
                    Reaction::Say(format!("211-features\r\n {facts}\r\n{digests}211 end"))
                }
                Some("MLST") => Reaction::Execute,
                Some("RETR") if breaks => Reaction::Until(until),
                Some("MIDWAY") if breaks => midway.clone(),
                _ => Reaction::Usual,
            }
        })?;
        server.file("/file", file);
        Ok(Self { server, breaks })
    }

    pub(crate) fn mend(&self) {
        self.breaks.store(false, Ordering::SeqCst);
    }

    fn args<'a>(&self, url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let always = ["--mode", "stream", "--retries", "0", url, "file"];
        [more, &always].concat()
    }

    pub(crate) fn copy(&self, here: &Tree, more: &[&str]) -> Result<Finished> {
        let url = self.server.url("file");
        cp_in(here, &self.args(&url, more))
    }

    pub(crate) fn restarts(&self) -> Vec<String> {
        let mut commands = self.server.commands();
        commands.retain(|line| line.starts_with("REST "));
        commands
    }
}

fn bytes(version: usize, size: usize) -> Vec<u8> {
    let place = |at: usize| u8::try_from((at / 251 + at + version) % 251).unwrap_or(0);
    (0..size).map(place).collect()
}

/// The line of `FEAT` of a server with digests.
pub(crate) const DIGESTS: &str = " CKSM SHA256:10;\r\n";

/// Has a download of `size` bytes break off, of which something is kept if `keeps` says so.
pub(crate) fn broken(
    here: &Tree,
    more: &[&str],
    (size, digests, keeps): (usize, &'static str, bool),
) -> Result<Server> {
    let reset = Reaction::say("426 broken");
    let server = Server::start(bytes(0, size), SENT, reset, digests)?;
    let said = server.copy(here, more)?.failed()?;
    server.mend();
    let told = said.stderr.contains("are kept; the same command goes on");
    ensure!(told == keeps, "{}", said.report());
    ensure!(here.names("")?.is_empty() != keeps, "{:?}", here.names("")?);
    Ok(server)
}

#[test]
fn a_run_goes_on_where_an_earlier_one_failed() -> Result<()> {
    let here = Tree::new()?;
    let server = broken(&here, &["-c"], (3 * SENT, DIGESTS, true))?;
    ensure!(!here.path("file").exists(), "a part has the name");
    let said = server.copy(&here, &["-c"])?.ok()?;
    ensure!(
        said.stderr
            .contains("file: continuing at 976.57 KiB of 2.86 MiB"),
        "{}",
        said.report()
    );
    let restarts = server.restarts();
    ensure!(restarts == [format!("REST {SENT}")], "{restarts:?}");
    ensure!(
        std::fs::read(here.path("file"))? == bytes(0, 3 * SENT),
        "it differs"
    );
    ensure!(here.names("")? == ["file"], "{:?}", here.names("")?);
    Ok(())
}

#[test]
fn a_source_that_has_changed_is_read_from_its_start() -> Result<()> {
    let here = Tree::new()?;
    let server = broken(&here, &["-c"], (3 * SENT, DIGESTS, true))?;
    server.server.file("/file", bytes(1, 3 * SENT));
    let said = server.copy(&here, &["-c"])?.ok()?;
    ensure!(
        said.stderr.contains("file: begun anew"),
        "{}",
        said.report()
    );
    ensure!(server.restarts().is_empty(), "{:?}", server.restarts());
    ensure!(
        std::fs::read(here.path("file"))? == bytes(1, 3 * SENT),
        "it differs"
    );
    ensure!(here.names("")? == ["file"], "{:?}", here.names("")?);
    Ok(())
}

#[test]
fn parts_are_kept_of_large_files_and_of_all_where_that_is_asked_for() -> Result<()> {
    let large = 65 << 20;
    for (more, size, digests, keeps) in [
        (&[][..], large, DIGESTS, true),
        (&["--no-resume"], large, DIGESTS, false),
        (&[], 3 * SENT, DIGESTS, false),
        (&[], large, "", true),
        (&["--no-resume"], large, "", false),
        (&[], 3 * SENT, "", false),
        (&["-c"], 3 * SENT, "", true),
    ] {
        let here = Tree::new()?;
        broken(&here, more, (size, digests, keeps)).with_context(|| format!("{more:?} {size}"))?;
    }
    Ok(())
}

#[test]
fn a_file_of_two_versions_is_found_by_its_digest() -> Result<()> {
    let here = Tree::new()?;
    let server = broken(&here, &["-c"], (3 * SENT, DIGESTS, true))?;
    // The time of the source is the same.
    server.server.change("/file", bytes(1, 3 * SENT));
    let said = server.copy(&here, &["-c", "--no-verify"])?;
    ensure!(!here.path("file").exists(), "{}", said.report());
    server.copy(&here, &["-c"])?.ok()?;
    ensure!(
        std::fs::read(here.path("file"))? == bytes(1, 3 * SENT),
        "it differs"
    );
    Ok(())
}

/// Where no digest proves what is held, an eighth of it comes again.
#[test]
fn a_download_without_digests_goes_on_behind_bytes_that_are_equal() -> Result<()> {
    const MIB: usize = 1 << 20;
    for is_changed in [false, true] {
        let here = Tree::new()?;
        let reset = Reaction::say("426 broken");
        let server = Server::start(bytes(0, 30 * MIB), 24 * MIB, reset, "")?;
        server.copy(&here, &["-c"])?.failed()?;
        server.mend();
        if is_changed {
            // The time of the source is the same.
            server.server.change("/file", bytes(1, 30 * MIB));
        }
        let said = server.copy(&here, &["-c"])?.ok()?;
        let restarts = server.restarts();
        let [restart] = restarts.as_slice() else {
            anyhow::bail!("{restarts:?}: {}", said.report());
        };
        let at: usize = restart[5..].parse()?;
        ensure!((MIB..=21 * MIB).contains(&at), "{restart}");
        let anew = "file: begun anew: the source has other bytes";
        ensure!(
            said.stderr.contains(anew) == is_changed,
            "{}",
            said.report()
        );
        ensure!(
            std::fs::read(here.path("file"))? == bytes(usize::from(is_changed), 30 * MIB),
            "it differs"
        );
        ensure!(here.names("")? == ["file"], "{:?}", here.names("")?);
    }
    Ok(())
}

/// Waits until received bytes of a copy are recorded in a file other than `last`; gives its number.
fn wait_for_record(here: &Tree, copy: &mut Child, last: Option<u64>) -> Result<u64> {
    let record = || here.path(RECORD).metadata().ok().map(|file| file.ino());
    let mut now = None;
    let waited = wait_for_files(here.root(), Some(&*copy), LIMIT, || {
        now = record().filter(|now| Some(*now) != last);
        now.is_some()
    });
    if !matches!(waited, Ok(true)) {
        copy.kill()?;
    }
    waited?;
    now.context("no record is written")
}

#[test]
fn a_stopped_download_of_a_small_file_goes_on_where_that_is_asked_for() -> Result<()> {
    for signal in [Signal::INT, Signal::HUP] {
        if signal == Signal::HUP && ignores_hangup()? {
            eprintln!("SKIPPED: SIGHUP is ignored, as below nohup, and so by the client");
            continue;
        }
        stopped_and_again(signal).with_context(|| format!("{signal:?}"))?;
    }
    Ok(())
}

fn stopped_and_again(signal: Signal) -> Result<()> {
    let here = Tree::new()?;
    let server = Server::start(bytes(0, 3 * SENT), SENT, Reaction::Hold, DIGESTS)?;
    let url = server.server.url("file");
    // Slow enough for some records. The copy knows of the first one when the next is there.
    let flags = ["-c", "--bwlimit", "300K"];
    let mut copy = command(&here, &server.args(&url, &flags))?
        .stderr(Stdio::piped())
        .spawn()?;
    let first = wait_for_record(&here, &mut copy, None)?;
    wait_for_record(&here, &mut copy, Some(first))?;
    kill_process(Pid::from_child(&copy), signal)?;
    let stopped = copy.wait_with_output()?;
    let told = String::from_utf8_lossy(&stopped.stderr);
    ensure!(stopped.status.code() == Some(130), "{told}");
    let goes_on = "the same command goes on where this one stopped";
    ensure!(told.contains(goes_on), "{told}");
    server.mend();
    let said = server.copy(&here, &["-c"])?.ok()?;
    ensure!(server.restarts().len() == 1, "{}", said.report());
    ensure!(
        std::fs::read(here.path("file"))? == bytes(0, 3 * SENT),
        "it differs"
    );
    ensure!(here.names("")? == ["file"], "{:?}", here.names("")?);
    Ok(())
}

#[test]
fn a_killed_download_of_a_large_file_goes_on() -> Result<()> {
    let (size, until) = (70 << 20, 65 << 20);
    let here = Tree::new()?;
    let server = Server::start(bytes(0, size), until, Reaction::Hold, DIGESTS)?;
    let url = server.server.url("file");
    let mut copy = command(&here, &server.args(&url, &[]))?
        .stderr(Stdio::null())
        .spawn()?;
    wait_for_record(&here, &mut copy, None)?;
    copy.kill()?;
    ensure!(copy.wait()?.signal().is_some(), "it ended before");
    server.mend();
    let said = server.copy(&here, &[])?.ok()?;
    let restart = server
        .restarts()
        .first()
        .and_then(|line| line[5..].parse().ok());
    ensure!(
        restart.is_some_and(|at| (48 << 20..=until).contains(&at)),
        "{restart:?}: {}",
        said.report()
    );
    ensure!(
        std::fs::read(here.path("file"))? == bytes(0, size),
        "it differs"
    );
    ensure!(here.names("")? == ["file"], "{:?}", here.names("")?);
    Ok(())
}

/// A line of `FEAT` of a server without digests that lets no file be read.
const UNREADABLE: &str = " MDTM\r\n";

/// A server that has checksums and renames, of which the first store breaks off.
pub(crate) fn storing(digests: &'static str) -> Result<ScriptedServer> {
    Ok(ScriptedServer::with(move |server, line| {
        let words: Vec<_> = line.split(' ').collect();
        let is_first = server.count("STOR") == 1;
        match *words.as_slice() {
            ["FEAT"] => Reaction::Say(format!("211-features\r\n{digests} SIZE\r\n211 end")),
            ["CKSM", ..] if digests != DIGESTS => Reaction::say("500 what?"),
            ["CKSM", _, offset, length, path] => digest(server, path, offset, length),
            ["RETR", _] if digests == UNREADABLE => Reaction::say("550 you may not read that"),
            ["MLST", _] => Reaction::Execute,
            ["STOR", _] if is_first => Reaction::Until(SENT),
            ["MIDWAY" | "END", "STOR", _] if is_first => Reaction::say("426 broken"),
            _ => Reaction::Usual,
        }
    })?)
}

/// Has an upload from `from` break off and repeats it, with the source changed between the runs if
/// `changes` says so; returns the offsets of the restarts and what the second run said.
fn store_twice(
    bed: &Bed,
    from: &str,
    (digests, changes): (&'static str, bool),
) -> Result<(Vec<String>, Finished)> {
    let server = storing(digests)?;
    let to = server.url("file");
    let args = ["-c", "-v", "--retries", "0", "--mode", "stream", from, &to];
    cp_in(&bed.here, &args)?.failed()?;
    let files = server.files();
    ensure!(
        files.len() == 1 && files.iter().all(|path| path.starts_with("/.file.gridftp-")),
        "{files:?}"
    );
    let notes = bed.here.path(".local/state/gridftp/uploads");
    ensure!(std::fs::read_dir(&notes)?.count() == 1, "no note is kept");
    if changes {
        bed.here.file("file", 3 * SENT as u64, 4)?;
        bed.there.file("file", 3 * SENT as u64, 4)?;
    }
    let said = cp_in(&bed.here, &args)?.ok()?;
    ensure!(
        server.bytes("/file") == Some(std::fs::read(bed.here.path("file"))?),
        "the copy differs: {}",
        said.report()
    );
    ensure!(server.files() == ["/file"], "{:?}", server.files());
    ensure!(std::fs::read_dir(&notes)?.count() == 0, "a note stays");
    let mut restarts = server.commands();
    restarts.retain(|line| line.starts_with("REST "));
    Ok((restarts, said))
}

#[test]
fn an_upload_goes_on_where_an_earlier_run_failed() -> Result<()> {
    let going = "file: continuing at 976.57 KiB of 2.86 MiB";
    let reads = "file: begun anew: ";
    for (digests, changes, told) in [
        (DIGESTS, false, going),
        (DIGESTS, true, "begun anew: the source is not the one"),
        // Its bytes are read back.
        ("", false, going),
        (UNREADABLE, false, reads),
    ] {
        let bed = Bed::new()?;
        bed.here.file("file", 3 * SENT as u64, 3)?;
        bed.there.file("file", 3 * SENT as u64, 3)?;
        // A server tells whole seconds.
        touch(&bed, 1_000_000_000)?;
        for from in ["file", &bed.url("file")] {
            let (restarts, said) = store_twice(&bed, from, (digests, changes))?;
            ensure!(said.stderr.contains(told), "{from}: {}", said.report());
            let is_restarted = restarts.iter().any(|line| *line == format!("REST {SENT}"));
            ensure!(is_restarted == (told == going), "{from}: {restarts:?}");
        }
    }
    Ok(())
}

/// The source of a copy.
#[derive(Clone, Copy, Debug)]
enum From {
    Here,
    /// A server of ours.
    Server,
    /// One that sends nothing but the rest of a file.
    Plain,
}

/// Repeats a copy to a server without digests behind `damage` to the bytes that the first run left
/// there; returns the offsets of the restarts.
fn store_behind(
    (from, flags): (From, &[&str]),
    damage: impl Fn(&mut Vec<u8>),
) -> Result<Vec<String>> {
    let bed = Bed::new()?;
    let here = &bed.here;
    here.file("file", 5 * SENT as u64, 3)?;
    std::fs::copy(here.path("file"), bed.there.path("file"))?;
    // Files that have just been written may change within the precision of their times.
    touch(&bed, 1_000_000_000)?;
    let server = ScriptedServer::with(|server, line| {
        let is_first = server.count("STOR") == 1;
        match line.split(' ').next() {
            Some("STOR") if is_first => Reaction::Until(3 * SENT),
            Some("MIDWAY" | "END") if is_first && line.contains(" STOR ") => {
                Reaction::say("426 broken")
            }
            _ => Reaction::Usual,
        }
    })?;
    let plain = ScriptedServer::start(|_| Reaction::Usual)?;
    plain.file("/file", std::fs::read(here.path("file"))?);
    let from = match from {
        From::Here => "file".to_owned(),
        From::Server => bed.url("file"),
        From::Plain => plain.url("file"),
    };
    let to = server.url("file");
    let args = ["-c", "--retries", "0", &from, &to];
    let args = [flags, &args].concat();
    cp_in(here, &args)?.failed()?;
    let left = server.files().pop().context("nothing is left")?;
    let mut bytes = server.bytes(&left).context("it is gone")?;
    damage(&mut bytes);
    server.change(&left, bytes);
    let said = cp_in(here, &args)?.ok()?;
    ensure!(
        server.bytes("/file") == Some(std::fs::read(here.path("file"))?),
        "the copy differs: {}",
        said.report()
    );
    ensure!(server.files() == ["/file"], "{:?}", server.files());
    let mut restarts = server.commands();
    restarts.retain(|line| line.starts_with("REST "));
    Ok(restarts)
}

#[test]
fn an_upload_goes_on_before_the_damage_that_is_read_back() -> Result<()> {
    let relay = &["--relay", "always"][..];
    for from in [
        (From::Here, &[][..]),
        (From::Server, &[]),
        (From::Server, relay),
        (From::Plain, &[]),
        (From::Plain, relay),
    ] {
        let whole = store_behind(from, |_| ())?;
        ensure!(
            whole == [format!("REST {}", 3 * SENT)],
            "{from:?}: {whole:?}"
        );
        // As behind a power cut: the last bytes are zeros.
        let zeros = store_behind(from, |bytes| {
            bytes.truncate(5 << 19);
            bytes.resize(3 * SENT, 0);
        })?;
        ensure!(
            zeros == [format!("REST {}", 2 << 20)],
            "{from:?}: {zeros:?}"
        );
        let other = store_behind(from, |bytes| bytes.reverse())?;
        ensure!(other.is_empty(), "{from:?}: {other:?}");
    }
    Ok(())
}

fn touch(bed: &Bed, seconds: u64) -> Result<()> {
    for tree in [&bed.here, &bed.there] {
        let file = std::fs::File::options()
            .write(true)
            .open(tree.path("file"))?;
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds))?;
    }
    Ok(())
}

/// Nothing tells the bytes of two versions apart that differ before the last ones.
#[test]
fn another_version_of_a_source_at_a_server_gets_another_hidden_name() -> Result<()> {
    // A server without MLSD lists a directory without times.
    for (flags, name) in [
        (&[][..], "file"),
        (&["--relay", "always"], "file"),
        (&["-r"], "dir/file"),
    ] {
        let source = ScriptedServer::usual()?;
        let path = format!("/{name}");
        source.file(&path, bytes(0, 3 * SENT));
        let (of, changed) = (source.clone(), path.clone());
        let to = ScriptedServer::with(move |server, line| {
            let verb = line.split(' ').next();
            match (verb, server.count("STOR")) {
                (Some("STOR"), 1) => Reaction::Until(SENT),
                (Some("STOR"), 2) => Reaction::say("450 later"),
                (Some("MIDWAY" | "END"), 1) if line.contains(" STOR ") => {
                    of.file(&changed, bytes(1, 3 * SENT));
                    Reaction::say("426 broken")
                }
                _ => Reaction::Usual,
            }
        })?;
        let urls = match name.split_once('/') {
            Some((dir, _)) => [source.url(dir), to.url("")],
            None => [source.url(name), to.url(name)],
        };
        let always = ["-c", "--retries", "3", &urls[0], &urls[1]];
        let said = cp_in(&Tree::new()?, &[flags, &always].concat())?.ok()?;
        ensure!(
            to.bytes(&path) == Some(bytes(1, 3 * SENT)),
            "{}",
            said.report()
        );
        ensure!(to.files() == [path], "{:?}", to.files());
        let mut stores = to.commands();
        stores.retain(|line| line.starts_with("STOR "));
        let names: std::collections::BTreeSet<_> = stores.iter().collect();
        ensure!(
            stores.len() == 3 && names.len() == 2,
            "{flags:?}: {stores:?}"
        );
    }
    Ok(())
}

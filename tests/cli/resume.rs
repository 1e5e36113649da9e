//! Downloads that go on in a later run.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Reaction, ScriptedServer, Tree};

use crate::uploads::digest;
use crate::{Bed, LIMIT, command, cp_in};

/// Bytes of a file that is sent before a retrieval breaks off.
const SENT: usize = 1_000_003;

/// Name of the record of the received bytes of `file`.
const RECORD: &str = ".file.gridftp-held";

/// A server of one file, and whether it answers `MIDWAY` with `midway` at present.
struct Server {
    server: ScriptedServer,
    breaks: Arc<AtomicBool>,
}

impl Server {
    fn start(file: Vec<u8>, until: usize, midway: Reaction) -> Result<Self> {
        let breaks = Arc::new(AtomicBool::new(true));
        let is_broken = Arc::clone(&breaks);
        let server = ScriptedServer::start(move |line| {
            let breaks = is_broken.load(Ordering::SeqCst);
            match line.split(' ').next() {
                Some("FEAT") => {
                    Reaction::say("211-features\r\n MLST Size*;Modify*;\r\n REST STREAM\r\n211 end")
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

    fn mend(&self) {
        self.breaks.store(false, Ordering::SeqCst);
    }

    fn args<'a>(&self, url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let always = ["--mode", "stream", "--retries", "0", url, "file"];
        [more, &always].concat()
    }

    fn copy(&self, here: &Tree, more: &[&str]) -> Result<Finished> {
        let url = self.server.url("file");
        cp_in(here, &self.args(&url, more))
    }

    fn restarts(&self) -> Vec<String> {
        let mut commands = self.server.commands();
        commands.retain(|line| line.starts_with("REST "));
        commands
    }
}

fn bytes(version: usize, size: usize) -> Vec<u8> {
    let place = |at: usize| u8::try_from((at / 251 + at + version) % 251).unwrap_or(0);
    (0..size).map(place).collect()
}

fn broken(here: &Tree, more: &[&str]) -> Result<Server> {
    let reset = Reaction::say("426 broken");
    let server = Server::start(bytes(0, 3 * SENT), SENT, reset)?;
    let said = server.copy(here, more)?.failed()?;
    server.mend();
    let keeps = said.stderr.contains("are kept; the same command goes on");
    ensure!(keeps == more.contains(&"-c"), "{}", said.report());
    Ok(server)
}

#[test]
fn a_run_goes_on_where_an_earlier_one_failed() -> Result<()> {
    let here = Tree::new()?;
    let server = broken(&here, &["-c"])?;
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
    let server = broken(&here, &["-c"])?;
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
fn nothing_is_kept_of_a_small_file_or_without_resume() -> Result<()> {
    for more in [&[][..], &["--no-resume"]] {
        let here = Tree::new()?;
        broken(&here, more)?;
        ensure!(here.names("")?.is_empty(), "{:?}", here.names("")?);
    }
    Ok(())
}

#[test]
fn a_killed_download_of_a_large_file_goes_on() -> Result<()> {
    let (size, until) = (70 << 20, 65 << 20);
    let here = Tree::new()?;
    let server = Server::start(bytes(0, size), until, Reaction::Hold)?;
    let url = server.server.url("file");
    let mut copy = command(&here, &server.args(&url, &[]))?
        .stderr(Stdio::null())
        .spawn()?;
    let begun = Instant::now();
    while !here.path(RECORD).exists() {
        if begun.elapsed() > LIMIT {
            copy.kill()?;
            anyhow::bail!("no record is written");
        }
        std::thread::yield_now();
    }
    copy.kill()?;
    ensure!(copy.wait()?.signal().is_some(), "it ended before");
    server.mend();
    let said = server.copy(&here, &[])?.ok()?;
    ensure!(
        said.stderr.contains("continuing at 65"),
        "{}",
        said.report()
    );
    let restarts = server.restarts();
    ensure!(restarts == [format!("REST {until}")], "{restarts:?}");
    ensure!(
        std::fs::read(here.path("file"))? == bytes(0, size),
        "it differs"
    );
    ensure!(here.names("")? == ["file"], "{:?}", here.names("")?);
    Ok(())
}

/// A server that has checksums and renames, of which the first store breaks off.
fn storing() -> Result<ScriptedServer> {
    Ok(ScriptedServer::with(|server, line| {
        let words: Vec<_> = line.split(' ').collect();
        let is_first = server.count("STOR") == 1;
        match *words.as_slice() {
            ["FEAT"] => Reaction::say("211-features\r\n CKSM SHA256:10;\r\n SIZE\r\n211 end"),
            ["CKSM", _, offset, length, path] => digest(server, path, offset, length),
            ["MLST", _] => Reaction::Execute,
            ["STOR", _] if is_first => Reaction::Until(SENT),
            ["MIDWAY" | "END", "STOR", _] if is_first => Reaction::say("426 broken"),
            _ => Reaction::Usual,
        }
    })?)
}

/// Has an upload from `from` break off and repeats it, with the source changed between the runs if
/// `changes` says so; returns the offsets of the restarts and what the second run said.
fn store_twice(bed: &Bed, from: &str, changes: bool) -> Result<(Vec<String>, Finished)> {
    let server = storing()?;
    let to = server.url("file");
    let args = ["-c", "--retries", "0", "--mode", "stream", from, &to];
    cp_in(&bed.here, &args)?.failed()?;
    let files = server.files();
    ensure!(
        files.len() == 1 && files.iter().all(|path| path.starts_with("/.file.gridftp-")),
        "{files:?}"
    );
    let notes = bed.here.path(".local/state/gridftp/uploads");
    ensure!(std::fs::read_dir(&notes)?.count() == 1, "no note is kept");
    if changes {
        bed.here.file("file", 3 * SENT as u64 + 1, 4)?;
        bed.there.file("file", 3 * SENT as u64 + 1, 4)?;
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
    for changes in [false, true] {
        let bed = Bed::new()?;
        bed.here.file("file", 3 * SENT as u64, 3)?;
        bed.there.file("file", 3 * SENT as u64, 3)?;
        for from in ["file", &bed.url("file")] {
            let (restarts, said) = store_twice(&bed, from, changes)?;
            let told = match changes {
                true => "begun anew: the source is not the one",
                false => "file: continuing at 976.57 KiB of 2.86 MiB",
            };
            ensure!(said.stderr.contains(told), "{from}: {}", said.report());
            let is_restarted = restarts.iter().any(|line| *line == format!("REST {SENT}"));
            ensure!(is_restarted != changes, "{from}: {restarts:?}");
        }
    }
    Ok(())
}

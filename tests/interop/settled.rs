//! Downloads from a server without digests that end early, and go on in the next run.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use workspace_tests::{Break, FtpServer, FtpServerKind, Relay, Tree, kill_once, run, same_file};

use crate::bed::{Client, LIMIT};

const LARGE: u64 = 150_000_007;
const MIB: u64 = 1 << 20;

/// Age of a source from which on it counts as settled, and more.
const SETTLED: Duration = Duration::from_secs(2 * 3600);

/// Gives a file a time.
fn touch(file: &Path, time: SystemTime) -> Result<()> {
    Ok(File::options().write(true).open(file)?.set_modified(time)?)
}

/// A download of `file` by way of a relay, without a flag that says what is kept.
fn download(server: &FtpServer, relay: &Relay, here: &Tree, state: &Tree) -> Result<Command> {
    let mut download = Client::Cp.command()?.context("our own client")?;
    download.env("XDG_STATE_HOME", state.root());
    download.args(["--retries", "0"]);
    download.arg(server.url_at(relay.addr(), "file"));
    download.arg(here.path("file"));
    Ok(download)
}

/// Kills a download once bytes of it are recorded.
fn kill_recorded(download: &mut Command, here: &Tree) -> Result<()> {
    let record = here.path(".file.gridftp-held");
    kill_once(download, here.root(), LIMIT, || record.exists())
}

/// The last bytes that are there come again; where they are others, all of the file does.
#[test]
fn a_killed_download_from_vsftpd_goes_on_behind_bytes_that_are_equal() -> Result<()> {
    for is_changed in [false, true] {
        let Some(server) = FtpServer::start(FtpServerKind::Vsftpd)? else {
            return Ok(());
        };
        let (here, state) = (Tree::new()?, Tree::new()?);
        let settled = SystemTime::now() - SETTLED;
        let source = server.file("file", LARGE, 15)?;
        touch(&source, settled)?;
        let relay = Relay::paced(server.addr(), Break::Never, 50_000_000)?;
        kill_recorded(&mut download(&server, &relay, &here, &state)?, &here)?;
        if is_changed {
            // Of the same size.
            server.file("file", LARGE, 16)?;
            touch(&source, settled)?;
        }
        let before = relay.commands().len();
        let finished = run(&mut download(&server, &relay, &here, &state)?, LIMIT)?.ok()?;
        let commands = relay.commands();
        let again = commands.get(before..).unwrap_or_default();
        let moves = |line: &&String| line.starts_with("REST ") || line.starts_with("RETR ");
        let moves: Vec<_> = again.iter().filter(moves).collect();
        let (rest, from_start) = match moves.as_slice() {
            [rest, _] => (rest, false),
            [rest, _, retr] => (rest, retr.starts_with("RETR ")),
            _ => anyhow::bail!("{moves:?}: {}", finished.report()),
        };
        let at: u64 = rest.strip_prefix("REST ").unwrap_or_default().parse()?;
        // 48 MiB are recorded at the least, and an eighth of these comes again.
        ensure!(
            (42 * MIB..LARGE - 8 * MIB).contains(&at) && from_start == is_changed,
            "{moves:?}: {}",
            finished.report()
        );
        let anew = finished
            .stderr
            .contains("begun anew: the source has other bytes");
        ensure!(anew == is_changed, "{}", finished.report());
        same_file(&source, &here.path("file"))?;
        ensure!(here.names("")? == ["file"], "{:?}", here.names("")?);
    }
    Ok(())
}

/// A source of the last hour may change within the resolution of its time.
#[test]
fn a_download_from_vsftpd_is_kept_only_of_a_settled_source() -> Result<()> {
    for is_settled in [true, false] {
        let Some(server) = FtpServer::start(FtpServerKind::Vsftpd)? else {
            return Ok(());
        };
        let (here, state) = (Tree::new()?, Tree::new()?);
        let source = server.file("file", LARGE, 17)?;
        if is_settled {
            touch(&source, SystemTime::now() - SETTLED)?;
        }
        let plan = Break::Data { after: 80_000_000 };
        let relay = Relay::paced(server.addr(), plan, 100_000_000)?;
        let failed = run(&mut download(&server, &relay, &here, &state)?, LIMIT)?.failed()?;
        let told = failed.stderr.contains("are kept; the same command goes on");
        let names = here.names("")?;
        ensure!(
            told == is_settled && names.is_empty() != is_settled,
            "{names:?}: {}",
            failed.report()
        );
    }
    Ok(())
}

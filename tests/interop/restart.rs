//! Connections that break in the middle of a transfer, with each client and server.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use workspace_tests::{
    Break, Finished, FtpServer, FtpServerKind, Relay, Tree, kill_once, run, same_file,
    wait_for_files,
};

use crate::bed::{Client, End, LIMIT, Way};

const SIZE: u64 = 12_000_001;
const AFTER: u64 = 5_000_000;

/// The end of a copy that is behind the relay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Source,
    Destination,
}

/// Copies one file through a relay that breaks once, and returns the client's result.
fn broken(
    client: Client,
    way: Way,
    behind: Behind,
    flags: &[&str],
    plan: Break,
) -> Result<Option<(Finished, End, End)>> {
    let Some(mut command) = client.command()? else {
        return Ok(None);
    };
    let Some((from, to)) = client.ends(way)? else {
        return Ok(None);
    };
    from.tree.file("file", SIZE, 9)?;
    let relayed_end = if behind == Behind::Source { &from } else { &to };
    let host = relayed_end
        .host
        .as_ref()
        .context("a relay needs a server")?;
    let relay = Relay::start(host.addr(), plan)?;
    let relayed = host.url_at(relay.addr(), "file");
    let (source, target) = match behind {
        Behind::Source => (relayed, to.url("file")),
        Behind::Destination => (from.url("file"), relayed),
    };
    let finished = run(command.args(flags).args([source, target]), LIMIT)?;
    ensure!(
        relay.broke(),
        "nothing broke after {} bytes; {}",
        relay.passed(),
        finished.report()
    );
    Ok(Some((finished, from, to)))
}

/// Checks that the copy is complete in spite of the break.
fn survives(client: Client, way: Way, behind: Behind, flags: &[&str], plan: Break) -> Result<()> {
    if let Some((finished, from, to)) = broken(client, way, behind, flags, plan)? {
        finished
            .ok()
            .with_context(|| format!("source:\n{}destination:\n{}", from.output(), to.output()))?;
        is_whole(&from, &to)?;
    }
    Ok(())
}

/// Checks that the copy is there, and nothing else.
fn is_whole(from: &End, to: &End) -> Result<()> {
    same_file(&from.path("file"), &to.path("file"))?;
    ensure!(
        to.tree.names("")? == ["file"],
        "other files are left: {:?}",
        to.tree.names("")?
    );
    Ok(())
}

const DATA: Break = Break::Data { after: AFTER };
const ALL: Break = Break::Everything { after: AFTER };
const CP_S: &[&str] = &["--mode", "stream", "--retries", "3"];
const CP_E: &[&str] = &["--mode", "extended", "-p", "4", "--retries", "3"];
const GUC_S: &[&str] = &["-rst", "-rst-interval", "1"];
const GUC_E: &[&str] = &["-rst", "-rst-interval", "1", "-p", "4"];

macro_rules! survivals {
    ($($name:ident: $client:ident $way:ident $behind:ident $flags:ident $plan:ident;)*) => {
        $(
            #[test]
            fn $name() -> Result<()> {
                survives(Client::$client, Way::$way, Behind::$behind, $flags, $plan)
            }
        )*
    };
}

survivals! {
    gridftp_cp_get_mode_s: Cp Get Source CP_S DATA;
    gridftp_cp_get_p_4: Cp Get Source CP_E DATA;
    gridftp_cp_get_p_4_control_lost: Cp Get Source CP_E ALL;
    gridftp_cp_put_mode_s: Cp Put Destination CP_S DATA;
    gridftp_cp_put_p_4: Cp Put Destination CP_E DATA;
    gridftp_cp_put_p_4_control_lost: Cp Put Destination CP_E ALL;
    gridftp_cp_third_party_from_ours_p_4: Cp FromOurs Destination CP_E DATA;
    gridftp_cp_third_party_to_ours_p_4: Cp ToOurs Destination CP_E ALL;
    globus_url_copy_third_party_to_ours_p_4: Guc ToOurs Destination GUC_E ALL;
    globus_url_copy_third_party_to_ours_mode_s: Guc ToOurs Destination GUC_S ALL;
    globus_url_copy_third_party_from_ours_p_4: Guc FromOurs Source GUC_E ALL;
    globus_url_copy_third_party_from_ours_mode_s: Guc FromOurs Destination GUC_S ALL;
}

/// The client cannot restart an upload, but the server must not publish a partial file, and must
/// accept the next upload.
#[test]
fn globus_url_copy_put_succeeds_after_a_failed_one() -> Result<()> {
    for flags in [&["-p", "4"][..], &[]] {
        let Some((finished, from, to)) =
            broken(Client::Guc, Way::Put, Behind::Destination, flags, DATA)?
        else {
            return Ok(());
        };
        // The client may also abort by a failed assertion of its own.
        ensure!(!finished.status.success(), "{}", finished.report());
        ensure!(
            !to.path("file").exists(),
            "a partial file has the final name"
        );
        again(&from, &to, flags)?;
    }
    Ok(())
}

/// The same server then serves the whole file.
#[test]
fn globus_url_copy_get_succeeds_after_a_failed_one() -> Result<()> {
    for flags in [&["-p", "4"][..], &[]] {
        let Some((finished, from, to)) =
            broken(Client::Guc, Way::Get, Behind::Source, flags, DATA)?
        else {
            return Ok(());
        };
        finished.failed()?;
        again(&from, &to, flags)?;
    }
    Ok(())
}

fn again(from: &End, to: &End, flags: &[&str]) -> Result<()> {
    let Some(mut command) = Client::Guc.command()? else {
        return Ok(());
    };
    crate::bed::finish(
        command.args(flags).args([from.url("file"), to.url("file")]),
        from,
        to,
    )?;
    same_file(&from.path("file"), &to.path("file"))?;
    Ok(())
}

/// A failed copy leaves no file under any name, and its error names the file.
#[test]
fn gridftp_cp_leaves_no_partial_file() -> Result<()> {
    let (stream, extended) = (["--mode", "stream"], ["-p", "4"]);
    let ways = [Way::Get, Way::Put, Way::FromOurs];
    for (way, mode) in ways
        .into_iter()
        .flat_map(|way| [(way, stream), (way, extended)])
    {
        let flags = [["--retries", "0"], mode].concat();
        let behind = if way == Way::Get {
            Behind::Source
        } else {
            Behind::Destination
        };
        let Some((finished, _from, to)) = broken(Client::Cp, way, behind, &flags, DATA)? else {
            return Ok(());
        };
        let finished = finished.failed()?;
        ensure!(
            finished.stderr.contains("file"),
            "the message names no file: {}",
            finished.stderr
        );
        ensure!(
            to.tree.names("")?.is_empty(),
            "{flags:?}: left behind: {:?}",
            to.tree.names("")?
        );
    }
    Ok(())
}

/// Copies into a server through a slow relay that breaks after the server has sent a restart
/// marker, and checks that the client continues behind it.
fn continues_by_markers(client: Client, way: Way, flags: &[&str]) -> Result<()> {
    const SLOW_SIZE: u64 = 40_000_003;
    let Some(mut command) = client.command()? else {
        return Ok(());
    };
    let Some((from, to)) = client.ends(way)? else {
        return Ok(());
    };
    from.tree.file("file", SLOW_SIZE, 11)?;
    let host = to.host.as_ref().context("a server receives")?;
    // Four connections carry about 4.5 MB/s together, so the break comes well after the marker of
    // the fifth second.
    let relay = Relay::paced(
        host.addr(),
        Break::Everything {
            after: SLOW_SIZE * 3 / 4,
        },
        1_150_000,
    )?;
    command
        .args(flags)
        .args([from.url("file"), host.url_at(relay.addr(), "file")]);
    let finished = run(&mut command, LIMIT)?
        .ok()
        .with_context(|| to.output())?;
    same_file(&from.path("file"), &to.path("file"))?;
    ensure!(relay.broke(), "nothing broke: {}", finished.report());
    let claimed = relay.commands().iter().find_map(|line| restart(line));
    let claimed = claimed.with_context(|| format!("no REST: {:?}", relay.commands()))?;
    ensure!(
        claimed > 10_000_000,
        "the client restarts at {claimed} bytes: {}",
        finished.report()
    );
    // A server may lose acknowledged bytes with its session. Then verification notices it, and the
    // whole file is sent again.
    let noticed = finished.stderr.contains("retry 2: verify:");
    let most = SLOW_SIZE * 7 / 4 - 10_000_000;
    ensure!(
        relay.passed() < most || noticed,
        "{} bytes for a file of {SLOW_SIZE}: {}",
        relay.passed(),
        finished.report()
    );
    Ok(())
}

/// Returns the number of bytes in the ranges of `REST 0-5,7-9`.
fn restart(line: &str) -> Option<u64> {
    let ranges = line.strip_prefix("REST ")?;
    ranges.split(',').try_fold(0, |sum, range| {
        let (from, to) = range.split_once('-')?;
        Some(sum + to.parse::<u64>().ok()? - from.parse::<u64>().ok()?)
    })
}

#[test]
fn globus_url_copy_continues_by_our_markers() -> Result<()> {
    continues_by_markers(Client::Guc, Way::ToOurs, GUC_E)
}

#[test]
fn gridftp_cp_continues_by_globus_markers() -> Result<()> {
    continues_by_markers(Client::Cp, Way::Put, CP_E)
}

/// A restart transfers only the missing bytes: less than twice the file passes the relay.
#[test]
fn gridftp_cp_get_continues_where_it_broke() -> Result<()> {
    for flags in [CP_S, CP_E] {
        let Some(server) = End::globus()? else {
            return Ok(());
        };
        server.tree.file("file", SIZE, 10)?;
        let host = server.host.as_ref().context("a server")?;
        // Paced, so that the client keeps up: a reset discards unread bytes in its socket.
        let relay = Relay::paced(
            host.addr(),
            Break::Data {
                after: SIZE * 3 / 4,
            },
            8_000_000,
        )?;
        let local = Tree::new()?;
        let mut command = Client::Cp.command()?.context("our client")?;
        command
            .args(flags)
            .arg(host.url_at(relay.addr(), "file"))
            .arg(local.path("file"));
        run(&mut command, LIMIT)?.ok()?;
        same_file(&local.path("file"), &server.path("file"))?;
        let most = SIZE * 7 / 4;
        ensure!(
            relay.broke() && relay.passed() < most,
            "{} bytes for a file of {SIZE}",
            relay.passed()
        );
    }
    Ok(())
}

/// The ranges of the one upload that is noted in a directory, once there are any.
fn noted(notes: &Path) -> Option<String> {
    let note = fs::read_dir(notes).ok()?.flatten().next()?;
    let text = fs::read_to_string(note.path()).ok()?;
    let mut held = text.lines().filter_map(|line| line.strip_prefix("held "));
    held.next_back()
        .filter(|held| !held.is_empty())
        .map(str::to_owned)
}

/// Kills an upload once its note has a hole between ranges; returns those of the last state.
fn kill_noted(upload: &mut Command, notes: &Path) -> Result<String> {
    let has_hole = || noted(notes).is_some_and(|held| held.contains(','));
    kill_once(upload, notes, LIMIT, has_hole)?;
    noted(notes).context("no range is noted")
}

/// Four connections leave holes behind the blocks that were on their way.
#[test]
fn a_killed_upload_goes_on_with_all_ranges_that_globus_told() -> Result<()> {
    let (from, state) = (End::local()?, Tree::new()?);
    let Some(to) = End::globus()? else {
        return Ok(());
    };
    from.tree.file("file", 250_000_007, 12)?;
    let host = to.host.as_ref().context("a server receives")?;
    // A marker in five seconds tells of about 60 MB; by chance one has no hole.
    let relay = Relay::paced(host.addr(), Break::Never, 3_000_000)?;
    let upload = || -> Result<Command> {
        let mut upload = Client::Cp.command()?.context("our own client")?;
        upload.env("XDG_STATE_HOME", state.root()).args(CP_E);
        upload.args([from.url("file"), host.url_at(relay.addr(), "file")]);
        Ok(upload)
    };
    let held = kill_noted(&mut upload()?, &state.path("gridftp/uploads"))?;
    let finished = run(&mut upload()?, LIMIT)?
        .ok()
        .with_context(|| to.output())?;
    let rest = format!("REST {held}");
    ensure!(
        relay.commands().contains(&rest),
        "no {rest}: {:?}; {}",
        relay.commands(),
        finished.report()
    );
    is_whole(&from, &to)
}

/// The hidden file of the upload of `file` in a folder, and its size.
fn hidden_in(folder: &Path) -> Option<(PathBuf, u64)> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let is_hidden = |path: &PathBuf| path.to_string_lossy().contains("/.file.gridftp-");
    let path = entries.map(|entry| entry.path()).find(is_hidden)?;
    let size = fs::metadata(&path).ok()?.len();
    Some((path, size))
}

/// Whether a process has a file open.
fn is_open(file: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let open = processes.flat_map(|process| fs::read_dir(process.path().join("fd")));
    open.flatten()
        .flatten()
        .any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|to| to == file))
}

/// Kills an upload once the server has so many bytes of it; returns the hidden file and its size,
/// once the server has closed it.
fn kill_stored(upload: &mut Command, folder: &Path, bytes: u64) -> Result<(PathBuf, u64)> {
    kill_once(upload, folder, LIMIT, || {
        hidden_in(folder).is_some_and(|(_, size)| size >= bytes)
    })?;
    let (left, _) = hidden_in(folder).context("no hidden file is left")?;
    let left = left.canonicalize()?;
    let is_closed = wait_for_files(folder, None, LIMIT, || !is_open(&left))?;
    ensure!(is_closed, "the server still has it open");
    hidden_in(folder).context("the hidden file is gone")
}

/// A server without digests: the end of its bytes is read back, and mended where it is damaged.
#[test]
fn a_killed_upload_to_vsftpd_goes_on_behind_the_bytes_that_are_equal() -> Result<()> {
    const LARGE: u64 = 150_000_007;
    const STORED: u64 = 90_000_000;
    const MIB: u64 = 1 << 20;
    for damage in [false, true] {
        let Some(server) = FtpServer::start(FtpServerKind::Vsftpd)? else {
            return Ok(());
        };
        let (here, state) = (Tree::new()?, Tree::new()?);
        let source = here.file("file", LARGE, 14)?;
        let folder = server.path("");
        let relay = Relay::paced(server.addr(), Break::Never, 50_000_000)?;
        let upload = || -> Result<Command> {
            let mut upload = Client::Cp.command()?.context("our own client")?;
            upload.env("XDG_STATE_HOME", state.root()).arg(&source);
            upload.arg(server.url_at(relay.addr(), "file"));
            Ok(upload)
        };
        let (left, stored) = kill_stored(&mut upload()?, &folder, STORED)?;
        let mut goes_on = stored;
        if damage {
            // As behind a power cut of the server.
            let from = stored - 5_000_000;
            let zeros = vec![0; 5_000_000];
            File::options()
                .write(true)
                .open(&left)?
                .write_all_at(&zeros, from)?;
            goes_on = from / MIB * MIB;
        }
        let before = relay.commands().len();
        let finished = run(&mut upload()?, LIMIT)?.ok()?;
        let commands = relay.commands();
        let again = commands.get(before..).unwrap_or_default();
        let moves = |line: &&String| {
            let verb = line.split(' ').next().unwrap_or_default();
            matches!(verb, "REST" | "RETR" | "STOR" | "APPE")
        };
        let moves: Vec<_> = again.iter().filter(moves).collect();
        let read = (stored - 64 * MIB).next_multiple_of(MIB);
        let [rest, retr, on, stor] = moves.as_slice() else {
            anyhow::bail!("{moves:?}: {}", finished.report());
        };
        ensure!(
            **rest == format!("REST {read}")
                && retr.starts_with("RETR ")
                && **on == format!("REST {goes_on}")
                && stor.starts_with("STOR "),
            "not {read} and {goes_on}: {moves:?}: {}",
            finished.report()
        );
        same_file(&source, &server.path("file"))?;
        ensure!(!left.exists(), "the hidden file is left");
    }
    Ok(())
}

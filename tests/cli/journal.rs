//! Copies that go on by the values of groups in the journal of a partial file: what is on the medium
//! is not read again, and is proven all the same.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use workspace_tests::{Break, Host, Relay, Tree, binary, bytes_read, kill_once, wait_for_files};

use crate::{Bed, LIMIT, command};

/// Bytes of the file, no multiple of a group.
const SIZE: u64 = (150 << 20) + 12_345;
/// Bytes a second of each of four data connections: the record behind 48 MiB is written long before
/// the end, on a busy machine too.
const RATE: u64 = 8_000_000;
/// Bytes of a group.
const GROUP: u64 = 1 << 20;
/// Bytes of a slot in the journal.
const SLOT: usize = 36;
/// Most bytes that a program reads by itself: its libraries, and the ends of some ranges.
const FEW: u64 = 16 << 20;

/// Seconds since the last change of a file from which on its times tell a further one.
const SETTLED: u64 = 61;

/// The partial file of `file`, and its journal.
const PARTIAL: &str = ".file.gridftp-part";
const SUMS: &str = ".file.gridftp-sums";

/// Runs a copy that has to succeed; returns the bytes that it read, and what it said.
fn reads(bed: &Bed, args: &[&str]) -> Result<(u64, String)> {
    let child = command(&bed.here, args)?
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    // It stays in the table until it is waited for.
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&child)), how)?;
    let bytes = bytes_read(child.id())?;
    let said = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(said.status.success(), "{text}");
    Ok((bytes, text))
}

/// Kills a copy once `is_recorded` in `folder`.
pub(crate) fn kill_midway(
    here: &Tree,
    args: &[&str],
    folder: &Path,
    is_recorded: impl Fn() -> bool,
) -> Result<()> {
    kill_once(&mut command(here, args)?, folder, LIMIT, is_recorded)
}

/// Waits for a file.
pub(crate) fn wait_for(path: &Path) -> Result<()> {
    let folder = path.parent().context("it is in a folder")?;
    let is_there = wait_for_files(folder, None, LIMIT, || path.exists())?;
    ensure!(is_there, "no {}", path.display());
    Ok(())
}

/// Makes the file, and waits until its times would tell a further change of it.
fn settled_file(dir: &Tree) -> Result<()> {
    let file = dir.file("file", SIZE, 7)?;
    let changed = u64::try_from(std::fs::metadata(&file)?.ctime())?;
    let settled = UNIX_EPOCH + Duration::from_secs(changed + SETTLED);
    if let Ok(left) = settled.duration_since(SystemTime::now()) {
        ensure!(left < LIMIT, "the clocks differ");
        // No call sets the time of the last change back, and no event tells its age.
        std::thread::sleep(left);
    }
    Ok(())
}

/// Kills a download over several connections once it has a record; returns the relay and the URL.
fn killed_download(bed: &Bed) -> Result<(Relay, String)> {
    bed.there.file("file", SIZE, 7)?;
    kill_download(bed)
}

/// As [`killed_download`], of a file that is there.
fn kill_download(bed: &Bed) -> Result<(Relay, String)> {
    // Slow enough that it does not end before the first record.
    let relay = Relay::paced(bed.server.addr(), Break::Never, RATE)?;
    let url = bed.server.url_at(relay.addr(), "file");
    let held = bed.here.path(".file.gridftp-held");
    let args = ["-p", "4", &url, "file"];
    kill_midway(&bed.here, &args, bed.here.root(), || held.exists())?;
    let sums = std::fs::metadata(bed.here.path(SUMS))?;
    ensure!(sums.len() >= 40 * SLOT as u64, "{} bytes", sums.len());
    Ok((relay, url))
}

#[test]
fn a_killed_download_reads_the_ends_of_ranges_again() -> Result<()> {
    let bed = Bed::new()?;
    settled_file(&bed.there)?;
    let (_relay, url) = kill_download(&bed)?;
    let before = bytes_read(bed.server.pid())?;
    let (read, said) = reads(&bed, &["-p", "4", &url, "file"])?;
    ensure!(said.contains("file: continuing at"), "{said}");
    ensure!(read < FEW, "{read} bytes are read: {said}");
    // Nor does the server read what it does not send.
    let read = bytes_read(bed.server.pid())? - before;
    ensure!(
        read < SIZE - (16 << 20),
        "the server reads {read} bytes: {said}"
    );
    bed.same("file", "file")?;
    ensure!(bed.here.names("")? == ["file"], "{:?}", bed.here.names("")?);
    Ok(())
}

#[test]
fn a_wrong_value_has_the_file_copied_again() -> Result<()> {
    let bed = Bed::new()?;
    let (_relay, url) = killed_download(&bed)?;
    // A slot with a value that another content would have, and its checksum.
    let sums = File::options()
        .read(true)
        .write(true)
        .open(bed.here.path(SUMS))?;
    let inode = std::fs::metadata(bed.here.path(PARTIAL))?.ino();
    let mut slot = [0; SLOT];
    sums.read_exact_at(&mut slot, 0)?;
    slot[31] ^= 1;
    let parts = [&inode.to_le_bytes()[..], &0_u64.to_le_bytes(), &slot[..32]];
    let sum = crc32c(&parts.concat());
    slot[32..].copy_from_slice(&sum.to_le_bytes());
    sums.write_all_at(&slot, 0)?;
    let (_, said) = reads(&bed, &["-p", "4", &url, "file"])?;
    ensure!(
        said.contains("retry 1") && said.contains("BLAKE3"),
        "{said}"
    );
    bed.same("file", "file")
}

#[test]
fn flipped_bits_of_a_partial_file_are_found() -> Result<()> {
    let bed = Bed::new()?;
    let (_relay, url) = killed_download(&bed)?;
    // A slot that fails its checksum has its group read.
    let sums = File::options().write(true).open(bed.here.path(SUMS))?;
    sums.write_all_at(&[0x55], 5 * SLOT as u64 + 3)?;
    let partial = File::options()
        .read(true)
        .write(true)
        .open(bed.here.path(PARTIAL))?;
    let mut byte = [0];
    partial.read_exact_at(&mut byte, 5 * GROUP + 99)?;
    partial.write_all_at(&[byte[0] ^ 4], 5 * GROUP + 99)?;
    let args = ["-p", "4", &url, "file"];
    let (_, said) = reads(&bed, &args)?;
    ensure!(said.contains("BLAKE3"), "{said}");
    bed.same("file", "file")
}

/// Has the partial file in `dir` as after a power cut: all bytes that its durable record does not name
/// are others. Returns how many it names, which were synced before.
fn cut_power(dir: &Tree, record: &Path) -> Result<u64> {
    let held = dir.path(".file.gridftp-held");
    if held != record {
        // One of this boot of the machine.
        std::fs::remove_file(held)?;
    }
    let record = std::fs::read_to_string(record)?;
    ensure!(record.contains("\nlifetime durable\n"), "{record}");
    let held = record.lines().find_map(|line| line.strip_prefix("held "));
    let held = held.context("no ranges")?;
    let partial = File::options().write(true).open(dir.path(PARTIAL))?;
    let lose = |from: u64, to: u64| -> Result<()> {
        let len = usize::try_from(to.saturating_sub(from))?;
        Ok(partial.write_all_at(&vec![0xee; len], from)?)
    };
    let (mut end, mut all) = (0, 0);
    for range in held.split(',') {
        let (from, to) = range.split_once('-').context("no range")?;
        let (from, to): (u64, u64) = (from.parse()?, to.parse()?);
        lose(end, from)?;
        (end, all) = (to, all + to - from);
    }
    lose(end, partial.metadata()?.len())?;
    Ok(all)
}

#[test]
fn a_copy_goes_on_behind_the_synced_bytes_after_a_power_cut() -> Result<()> {
    for is_upload in [false, true] {
        let bed = Bed::new()?;
        let (from, to) = match is_upload {
            true => (&bed.here, &bed.there),
            false => (&bed.there, &bed.here),
        };
        from.file("file", SIZE, 7)?;
        // A sync begins after 64 MiB, and its record comes long before the end.
        let relay = Relay::paced(bed.server.addr(), Break::Never, RATE / 2)?;
        let url = bed.server.url_at(relay.addr(), "file");
        let args = match is_upload {
            true => ["-p", "4", "file", &url],
            false => ["-p", "4", &url, "file"],
        };
        // Our server syncs beside the transfer, unless --sync-writes has it wait for that.
        let record = to.path(match is_upload {
            true => ".file.gridftp-sync",
            false => ".file.gridftp-held",
        });
        kill_midway(&bed.here, &args, to.root(), || record.exists())?;
        // The address is that of the URL, by which the next copy knows the partial file.
        let port = bed.server.addr().port().to_string();
        let Bed {
            here,
            there,
            server,
        } = bed;
        // It is killed, and waited for.
        drop(server);
        let held = cut_power(if is_upload { &there } else { &here }, &record)?;
        ensure!(held >= 32 << 20, "{held} bytes are recorded");
        let mut again = Command::new(binary("gridftp-server")?);
        again.args(["--bind", "127.0.0.1", "--port", &port, "--anonymous", "rw"]);
        let server = Host::ours_from(again.arg("--root").arg(there.root()), there.root())?;
        let bed = Bed {
            here,
            there,
            server,
        };
        let before = relay.passed();
        let (_, said) = reads(&bed, &args)?;
        ensure!(said.contains("file: continuing at"), "{said}");
        let again = relay.passed() - before;
        ensure!(
            again <= SIZE - held + FEW,
            "{again} bytes pass, and {held} were recorded: {said}"
        );
        bed.same("file", "file")?;
    }
    Ok(())
}

/// The folder of the notes of uploads.
pub(crate) fn notes(here: &Tree) -> PathBuf {
    here.path(".local/state/gridftp/uploads")
}

/// Says whether the note of an upload in `bed` has ranges of the file.
fn is_noted(bed: &Bed) -> bool {
    let notes = std::fs::read_dir(notes(&bed.here));
    let mut notes = notes.into_iter().flatten().flatten();
    notes.any(|note| {
        let text = std::fs::read_to_string(note.path()).unwrap_or_default();
        text.lines().any(|line| line.starts_with("held 0-"))
    })
}

#[test]
fn a_server_reads_the_ends_of_ranges_of_a_killed_upload_again() -> Result<()> {
    let bed = Bed::new()?;
    settled_file(&bed.here)?;
    // The server tells of the bytes that it holds every few seconds.
    let relay = Relay::paced(bed.server.addr(), Break::Never, RATE / 2)?;
    let url = bed.server.url_at(relay.addr(), "file");
    let args = ["-p", "4", "file", &url];
    kill_midway(&bed.here, &args, &notes(&bed.here), || is_noted(&bed))?;
    let before = bytes_read(bed.server.pid())?;
    let (read, said) = reads(&bed, &args)?;
    ensure!(said.contains("file: continuing at"), "{said}");
    // Nor does the client read what it does not send.
    ensure!(read < SIZE, "the client reads {read} bytes: {said}");
    let read = bytes_read(bed.server.pid())? - before;
    ensure!(read < FEW, "{read} bytes are read: {said}");
    bed.same("file", "file")?;
    let names = bed.there.names("")?;
    ensure!(
        names.iter().all(|name| !name.ends_with("-sums")),
        "{names:?}"
    );
    Ok(())
}

/// In MODE S the server is asked for the bytes that it holds.
#[test]
fn no_end_reads_again_for_a_killed_upload_in_mode_s() -> Result<()> {
    let bed = Bed::new()?;
    settled_file(&bed.here)?;
    let relay = Relay::paced(bed.server.addr(), Break::Never, 4 * RATE)?;
    let url = bed.server.url_at(relay.addr(), "file");
    let args = ["--mode", "stream", "file", &url];
    kill_midway(&bed.here, &args, bed.there.root(), || {
        relay.passed() > 80 << 20
    })?;
    wait_for(&bed.there.path(".file.gridftp-held"))?;
    let before = bytes_read(bed.server.pid())?;
    let (read, said) = reads(&bed, &args)?;
    ensure!(said.contains("file: continuing at"), "{said}");
    ensure!(read < SIZE, "the client reads {read} bytes: {said}");
    let read = bytes_read(bed.server.pid())? - before;
    ensure!(read < FEW, "the server reads {read} bytes: {said}");
    bed.same("file", "file")
}

/// The server records more often than it sends markers, which alone are in the note.
#[test]
fn a_killed_upload_goes_on_with_what_no_marker_told() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("file", SIZE, 7)?;
    // 32 MB a second: a record comes within two seconds, the first marker in five.
    let relay = Relay::paced(bed.server.addr(), Break::Never, RATE)?;
    let url = bed.server.url_at(relay.addr(), "file");
    let args = ["-p", "4", "file", &url];
    let held = bed.there.path(".file.gridftp-held");
    kill_midway(&bed.here, &args, bed.there.root(), || held.exists())?;
    let (_, said) = reads(&bed, &args)?;
    ensure!(said.contains("file: continuing at"), "{said}");
    bed.same("file", "file")
}

#[test]
fn a_source_reads_nothing_twice_for_a_copy_between_servers_that_goes_on() -> Result<()> {
    let bed = Bed::new()?;
    let file = bed.there.file("file", SIZE, 7)?;
    let relay = Relay::paced(bed.server.addr(), Break::Never, RATE / 2)?;
    let url = |name| bed.server.url_at(relay.addr(), name);
    let (from, to) = (url("file"), url("copy"));
    let args = ["-p", "4", &from, &to];
    kill_midway(&bed.here, &args, &notes(&bed.here), || is_noted(&bed))?;
    let before = bytes_read(bed.server.pid())?;
    let (_, said) = reads(&bed, &args)?;
    ensure!(said.contains("continuing at"), "{said}");
    // The bytes that are sent, and the others for the digest; both ends are this server.
    let read = bytes_read(bed.server.pid())? - before;
    ensure!(read < SIZE + 2 * FEW, "{read} bytes are read: {said}");
    let copy = std::fs::read(bed.there.path("copy"))?;
    ensure!(copy == std::fs::read(file)?, "the copy differs");
    Ok(())
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let sum = bytes.iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg())
        })
    });
    !sum
}

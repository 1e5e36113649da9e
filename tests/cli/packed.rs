//! Small files share commands with our server, and one that fails has its own.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Result, ensure};
use workspace_tests::{Break, Finished, Host, Relay, Tree, tree_digests};

use crate::{Bed, fails};

/// Largest file that shares a command, in bytes.
const MOST: u64 = 64 << 10;

/// The two directions.
const WAYS: [bool; 2] = [true, false];

impl Bed {
    /// A bed with so many sources of this size in `from/`.
    fn with_files(upload: bool, count: u64, size: u64) -> Result<Self> {
        let bed = Self::new()?;
        for n in 0..count {
            bed.ends(upload).0.file(&format!("from/{n}"), size, n)?;
        }
        Ok(bed)
    }

    /// The tree of the sources and that of the copies.
    fn ends(&self, upload: bool) -> (&Tree, &Tree) {
        match upload {
            true => (&self.here, &self.there),
            false => (&self.there, &self.here),
        }
    }

    /// Copies `from/` to `to/` through a relay.
    fn copy(&self, upload: bool, relay: &Relay, flags: &[&str]) -> Result<Finished> {
        let url = |name| self.server.url_at(relay.addr(), name);
        let (from, to) = match upload {
            true => ("from/".to_owned(), url("to/")),
            false => (url("from/"), "to/".to_owned()),
        };
        self.cp(&[&["-r"], flags, &[&from, &to]].concat())
    }

    /// Checks that all copies have the times and the permission bits of their sources.
    fn has_equal_facts(&self, upload: bool) -> Result<()> {
        let (from, to) = self.ends(upload);
        for name in tree_digests(&from.path("from"))?.keys() {
            let facts = |root: &Path| -> Result<_> {
                let meta = root.join(name).metadata()?;
                let time = meta.modified()?.duration_since(UNIX_EPOCH)?.as_millis();
                Ok((time, meta.permissions().mode()))
            };
            let (source, copy) = (facts(&from.path("from"))?, facts(&to.path("to"))?);
            ensure!(source == copy, "{name}: {source:?} {copy:?}");
        }
        Ok(())
    }

    fn is_equal(&self, upload: bool) -> Result<bool> {
        let (from, to) = self.ends(upload);
        Ok(tree_digests(&from.path("from"))? == tree_digests(&to.path("to"))?)
    }
}

#[test]
fn small_files_share_commands_and_large_ones_have_their_own() -> Result<()> {
    for upload in WAYS {
        for flags in [
            &[][..],
            &["--mode", "stream"],
            &["--mode", "stream", "--no-verify"],
            &["--sync"],
            &["--preserve"],
            &["--no-clobber"],
        ] {
            let bed = Bed::new()?;
            let (from, _) = bed.ends(upload);
            for n in 0..300 {
                let size = [0, 1, 1000, 5000][n % 4];
                from.file(&format!("from/dir {}/{n} \"x\"", n % 2), size, n as u64)?;
            }
            from.file("from/most", MOST, 1)?;
            from.file("from/least", 1, 2)?;
            from.file("from/large", MOST + 1, 3)?;
            for (n, mode) in [(4, 0o600), (5, 0o444), (6, 0o755)] {
                let path = from.path(&format!("from/dir {}/{n} \"x\"", n % 2));
                std::fs::set_permissions(&path, Permissions::from_mode(mode))?;
                let time = UNIX_EPOCH + Duration::new(1_000_000_000 + n, 123_456_789);
                File::options().read(true).open(&path)?.set_modified(time)?;
            }
            let relay = Relay::start(bed.server.addr(), Break::Never)?;
            bed.copy(upload, &relay, flags)?.ok()?;
            ensure!(bed.is_equal(upload)?);
            let commands = relay.commands();
            let count = |words: &[&str]| {
                let is = |line: &&String| words.iter().any(|word| line.starts_with(word));
                commands.iter().filter(is).count()
            };
            let packs = count(&["ERET files=", "ESTO files="]);
            let alone = count(&[
                "RETR",
                "STOR",
                "ERET tag",
                "ERET digest",
                "ESTO tag",
                "ESTO digest",
            ]);
            // While the directories are listed, some wait alone.
            ensure!(
                packs > 0 && packs + alone < 150,
                "{packs} {alone} {flags:?}"
            );
            ensure!(alone > 0, "{flags:?}");
            // Each has a line of its own in the log of the server.
            let verb = if upload { "STOR" } else { "RETR" };
            let log = bed.server.output();
            let lines = log.matches(&format!("verb=\"{verb}\"")).count();
            ensure!(lines == 303, "{lines} lines");
            if flags == ["--preserve"] {
                bed.has_equal_facts(upload)?;
            }
            if flags != ["--sync"] && flags != ["--no-clobber"] {
                continue;
            }
            // The copies have the times, or only the names count.
            let again = bed.copy(upload, &relay, flags)?.ok()?;
            ensure!(again.stdout.starts_with("0 files"), "{}", again.stdout);
        }
    }
    Ok(())
}

#[test]
fn a_small_file_that_fails_is_told_with_its_reason_and_fails_no_other() -> Result<()> {
    for upload in WAYS {
        let bed = Bed::with_files(upload, 50, 1000)?;
        let (from, to) = bed.ends(upload);
        to.dir("to/17")?;
        let relay = Relay::start(bed.server.addr(), Break::Never)?;
        let finished = bed.copy(upload, &relay, &["--retries", "0"])?;
        fails(&finished, 1, &["17", "irectory"])?;
        let (want, got) = (
            tree_digests(&from.path("from"))?,
            tree_digests(&to.path("to"))?,
        );
        ensure!(got.len() == 49, "{}", finished.report());
        for (name, digest) in got {
            ensure!(want.get(&name) == Some(&digest), "{name:?}");
        }
    }
    Ok(())
}

#[test]
fn a_flipped_bit_in_a_small_file_is_found_and_the_file_sent_again() -> Result<()> {
    for upload in WAYS {
        for mode in ["extended", "stream"] {
            // Before the files of a download comes the listing.
            let first = if upload { 20 } else { 20_000 };
            for after in [first, 200_000] {
                let bed = Bed::with_files(upload, 40, 20_000)?;
                let relay = Relay::start(bed.server.addr(), Break::Flip { after })?;
                bed.copy(upload, &relay, &["-j", "1", "--mode", mode])?
                    .ok()?;
                ensure!(relay.broke(), "no bit was flipped");
                ensure!(bed.is_equal(upload)?, "{upload} {mode} {after}");
            }
        }
    }
    Ok(())
}

#[test]
fn small_files_go_on_when_their_connections_break() -> Result<()> {
    for upload in WAYS {
        for plan in [
            Break::Data { after: 200_000 },
            Break::Everything { after: 200_000 },
        ] {
            let bed = Bed::with_files(upload, 400, 2000)?;
            let relay = Relay::start(bed.server.addr(), plan)?;
            bed.copy(upload, &relay, &[])?.ok()?;
            ensure!(relay.broke(), "nothing broke");
            ensure!(bed.is_equal(upload)?);
        }
    }
    Ok(())
}

#[test]
fn one_command_moves_hundreds_of_files() -> Result<()> {
    for upload in WAYS {
        let bed = Bed::with_files(upload, 1500, 100)?;
        // Paced, so that the listing is complete while most files wait.
        let relay = Relay::paced(bed.server.addr(), Break::Never, 20_000)?;
        bed.copy(upload, &relay, &["-j", "1"])?.ok()?;
        ensure!(bed.is_equal(upload)?);
        let count = |line: &String| -> Option<usize> {
            let arguments = line.split('"').nth(1)?;
            let is_pack = line.contains(" files=");
            arguments
                .split(' ')
                .nth(1)?
                .parse()
                .ok()
                .filter(|_| is_pack)
        };
        let most = relay.commands().iter().filter_map(count).max();
        ensure!(most.is_some_and(|most| most >= 200), "{most:?}");
    }
    Ok(())
}

/// A file that appears at the destination while others are on their way is not replaced.
#[test]
fn small_files_replace_nothing_where_that_is_asked_for() -> Result<()> {
    for upload in WAYS {
        for flag in ["--no-clobber", "--immutable"] {
            let bed = Bed::with_files(upload, 100, 1000)?;
            let (_, to) = bed.ends(upload);
            to.file("to/17", 5, 0)?;
            let before = std::fs::read(to.path("to/17"))?;
            for after in [3000, 60_000] {
                let relay = Relay::start(bed.server.addr(), Break::Data { after })?;
                let finished = bed.copy(upload, &relay, &[flag])?;
                ensure!(finished.status.code() == Some(i32::from(flag == "--immutable")));
                ensure!(
                    std::fs::read(to.path("to/17"))? == before,
                    "{upload} {flag}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_small_upload_that_grows_or_goes_leaves_the_others_alone() -> Result<()> {
    let bed = Bed::new()?;
    for n in 0..300 {
        bed.here.file(&format!("from/{n}"), 500, n)?;
    }
    // Its size is not that of its bytes, so that it is never small.
    std::os::unix::fs::symlink("/proc/self/status", bed.here.path("from/odd"))?;
    let relay = Relay::start(bed.server.addr(), Break::Never)?;
    let finished = bed.copy(true, &relay, &["--retries", "0"])?;
    fails(&finished, 1, &["odd"])?;
    ensure!(tree_digests(&bed.there.path("to"))?.len() == 300);
    Ok(())
}

#[test]
fn a_server_that_refuses_many_files_by_one_command_is_asked_for_each() -> Result<()> {
    for (mode, most) in [("stream", 1), ("extended", 75)] {
        let (here, there) = (Tree::new()?, Tree::new()?);
        for n in 0..300 {
            here.file(&format!("from/{}/{n}", n / 2), 100, n)?;
            there.dir(&format!("to/{}", n / 2))?;
        }
        let mut command = std::process::Command::new(workspace_tests::binary("gridftp-server")?);
        command.args(["--bind", "127.0.0.1", "--port", "0", "--anonymous", "ro"]);
        command.arg("--root").arg(there.root());
        let server = Host::ours_from(&mut command, there.root())?;
        let bed = Bed {
            here,
            there,
            server,
        };
        let relay = Relay::start(bed.server.addr(), Break::Never)?;
        let finished = bed.copy(true, &relay, &["-j", "1", "--mode", mode, "--retries", "0"])?;
        fails(&finished, 1, &["may not change"])?;
        let commands = relay.commands();
        let packs = commands
            .iter()
            .filter(|line| line.contains(" files="))
            .count();
        ensure!((1..=most).contains(&packs), "{packs} in MODE {mode}");
    }
    Ok(())
}

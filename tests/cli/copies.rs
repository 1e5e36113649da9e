//! Copies in every direction and mode, of files, trees, parts and pipes; digests are compared.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use workspace_tests::{Host, Tree, same_tree, tree_digests};

use crate::{Bed, command, fails};

/// Sizes around the block size: empty, one byte, a block and one more, several blocks.
const SIZES: [u64; 6] = [0, 1, 65_536, 262_144, 262_145, 3_000_001];

fn there_and_back(flags: &[&str]) -> Result<()> {
    let bed = Bed::new()?;
    for (seed, size) in (1..).zip(SIZES) {
        let name = format!("file {size}");
        bed.here.file(&name, size, seed)?;
        bed.cp(&[flags, &[&name, &bed.url(&name)]].concat())?.ok()?;
        bed.same(&name, &name)?;
        let back = format!("back {size}");
        bed.cp(&[flags, &[&bed.url(&name), &back]].concat())?.ok()?;
        bed.same(&back, &name)?;
    }
    Ok(())
}

#[test]
fn defaults() -> Result<()> {
    there_and_back(&[])
}

#[test]
fn mode_s() -> Result<()> {
    there_and_back(&["--mode", "stream"])
}

#[test]
fn four_streams_of_small_blocks() -> Result<()> {
    there_and_back(&["-p", "4", "--block-size", "10000"])
}

#[test]
fn verified_with_every_algorithm() -> Result<()> {
    for algorithm in [
        "", "=md5", "=sha1", "=sha256", "=sha512", "=adler32", "=crc32c",
    ] {
        there_and_back(&[&format!("--verify{algorithm}")])?;
    }
    Ok(())
}

#[test]
fn buffer_size_and_options_of_local_sockets() -> Result<()> {
    there_and_back(&["--tcp-buffer", "64K", "--stack", "tcp:nodelay=1"])
}

#[test]
fn trees_with_every_shape_of_name() -> Result<()> {
    for flags in [
        &["-r"][..],
        &["-r", "--mode", "stream"],
        &["-r", "-j", "4", "--verify", "--preserve"],
    ] {
        let bed = Bed::new()?;
        for (seed, name) in (1..).zip([
            "a b", "-x", "ü€", "#%41", "d/e f/g", "d/e f/h", "~t", "...", "\\back",
        ]) {
            bed.here.file(&format!("tree/{name}"), seed * 1000, seed)?;
        }
        for n in 0..200 {
            bed.here.file(&format!("tree/many/{n}"), n, n)?;
        }
        bed.here.dir("tree/empty/empty")?;
        bed.cp(&[flags, &["tree", &bed.url("")]].concat())?.ok()?;
        same_tree(&bed.here.path("tree"), &bed.there.path("tree"))?;
        ensure!(bed.there.path("tree/empty/empty").is_dir());
        bed.cp(&[flags, &[&bed.url("tree"), "back"]].concat())?
            .ok()?;
        same_tree(&bed.here.path("tree"), &bed.here.path("back/tree"))?;
        ensure!(bed.here.path("back/tree/empty/empty").is_dir());
    }
    Ok(())
}

#[test]
fn over_ipv6() -> Result<()> {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return Ok(());
    }
    let (here, there) = (Tree::new()?, Tree::new()?);
    let server = Host::ours_over_ipv6(there.root())?;
    ensure!(server.addr().is_ipv6());
    let file = here.file("file", 3_000_001, 1)?;
    for flags in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        crate::cp_in(&here, &[flags, &["file", &server.url("new/file")]].concat())?.ok()?;
        crate::cp_in(&here, &[flags, &[&server.url("new/file"), "back"]].concat())?.ok()?;
        ensure!(std::fs::read(&file)? == std::fs::read(here.path("back"))?);
        let between = [&server.url("new/file"), &server.url("copy")];
        crate::cp_in(&here, &[flags, &between.map(String::as_str)].concat())?.ok()?;
        ensure!(std::fs::read(&file)? == std::fs::read(there.path("copy"))?);
    }
    Ok(())
}

#[test]
fn from_server_to_server() -> Result<()> {
    let bed = Bed::new()?;
    let far = Tree::new()?;
    let other = Host::ours(far.root())?;
    for n in 0..120 {
        bed.there.file(&format!("tree/{}/{n}", n % 7), n * 100, n)?;
    }
    bed.there.dir("tree/empty")?;
    bed.there.file("large", 5_000_001, 1)?;
    for (n, flags) in [
        &["-r"][..],
        &["-r", "--mode", "stream"],
        &["-r", "--verify", "-p", "2"],
    ]
    .into_iter()
    .enumerate()
    {
        let to = format!("to{n}/");
        bed.cp(&[
            flags,
            &[&bed.url("tree"), &bed.url("large"), &other.url(&to)],
        ]
        .concat())?
            .ok()?;
        ensure!(
            tree_digests(&bed.there.path("tree"))?
                == tree_digests(&far.path(&format!("to{n}/tree")))?
        );
        ensure!(far.path(&format!("to{n}/tree/empty")).is_dir());
        ensure!(
            workspace_tests::sha256(&bed.there.path("large"))?
                == workspace_tests::sha256(&far.path(&format!("to{n}/large")))?
        );
    }
    Ok(())
}

#[test]
fn a_third_party_source_that_cannot_be_listed_is_an_error() -> Result<()> {
    let (near, far) = (Tree::new()?, Tree::new()?);
    near.file("tree/file", 10, 1)?;
    // Listing needs a session of its own, which this server refuses.
    let source = Host::ours_with(near.root(), &["--max-sessions", "1"])?;
    let other = Host::ours(far.root())?;
    let finished = crate::cp_in(
        &near,
        &["-r", "--retries", "0", &source.url("tree"), &other.url("")],
    )?;
    fails(&finished, 3, &["/tree", "421"])
}

#[test]
fn a_failed_third_party_file_does_not_mix_up_the_others() -> Result<()> {
    let bed = Bed::new()?;
    let far = Tree::new()?;
    let other = Host::ours(far.root())?;
    for n in 0..60 {
        bed.there.file(&format!("tree/{n:02}"), 1000 + n, n)?;
    }
    // A directory of that name makes one STOR fail in the middle of the pipeline.
    far.dir("tree/30")?;
    far.file("tree/30/keep", 1, 1)?;
    let finished = bed.cp(&["-r", &bed.url("tree"), &other.url("")])?;
    fails(&finished, 1, &["tree/30"])?;
    let mut want = tree_digests(&bed.there.path("tree"))?;
    let mut got = tree_digests(&far.path("tree"))?;
    want.retain(|name, _| !name.ends_with("30"));
    got.retain(|name, _| !name.ends_with("keep"));
    ensure!(want == got, "a file has the content of another");
    Ok(())
}

#[test]
fn a_failed_upload_does_not_mix_up_the_others() -> Result<()> {
    let bed = Bed::new()?;
    for n in 0..60 {
        bed.here.file(&format!("tree/{n:02}"), 1000 + n, n)?;
    }
    bed.there.dir("tree/30")?;
    bed.there.file("tree/30/keep", 1, 1)?;
    fails(&bed.cp(&["-r", "tree", &bed.url("")])?, 1, &["tree/30"])?;
    let mut want = tree_digests(&bed.here.path("tree"))?;
    let mut got = tree_digests(&bed.there.path("tree"))?;
    want.retain(|name, _| !name.ends_with("30"));
    got.retain(|name, _| !name.ends_with("keep"));
    ensure!(want == got, "a file has the content of another");
    Ok(())
}

#[test]
fn parts_are_written_at_their_offsets() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("file", 2_000_000, 5)?;
    bed.there.file("file", 2_000_000, 5)?;
    for (n, mode) in ["stream", "extended"].into_iter().enumerate() {
        let flags = [
            "--mode", mode, "--offset", "100001", "--length", "1000000", "--verify",
        ];
        let name = format!("part{n}");
        bed.cp(&[&flags[..], &["file", &bed.url(&name)]].concat())?
            .ok()?;
        bed.cp(&[&flags[..], &[&bed.url("file"), &name]].concat())?
            .ok()?;
        let want = workspace_tests::sha256_range(&bed.here.path("file"), 100_001, 1_000_000)?;
        for tree in [&bed.here, &bed.there] {
            let got = workspace_tests::sha256_range(&tree.path(&name), 100_001, u64::MAX)?;
            ensure!(got == want, "{mode}: {}", tree.path(&name).display());
        }
    }
    Ok(())
}

#[test]
fn through_pipes() -> Result<()> {
    let bed = Bed::new()?;
    let file = bed.here.file("file", 1_000_003, 2)?;
    let bytes = std::fs::read(&file)?;
    let mut put = command(&bed.here, &["--verify", "-", &bed.url("dir/in")])?
        .stdin(Stdio::piped())
        .spawn()?;
    put.stdin.take().context("piped")?.write_all(&bytes)?;
    ensure!(put.wait()?.success());
    bed.same("file", "dir/in")?;
    let mut get = command(&bed.here, &["-q", &bed.url("dir/in"), "-"])?
        .stdout(Stdio::piped())
        .spawn()?;
    let mut got = Vec::new();
    get.stdout.take().context("piped")?.read_to_end(&mut got)?;
    ensure!(get.wait()?.success());
    ensure!(got == bytes, "{} bytes arrived", got.len());
    Ok(())
}

#[test]
fn devices_and_pipes_are_written_directly() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", 1_000_003, 2)?;
    bed.cp(&["-p", "2", &bed.url("file"), "/dev/null"])?.ok()?;
    ensure!(!std::fs::metadata("/dev/null")?.is_file());
    let fifo = bed.here.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU)?;
    let reader = std::thread::spawn(move || std::fs::read(fifo));
    bed.cp(&[&bed.url("file"), "fifo"])?.ok()?;
    let got = reader
        .join()
        .map_err(|_| anyhow::anyhow!("the reader panicked"))??;
    ensure!(got == std::fs::read(bed.there.path("file"))?);
    Ok(())
}

#[test]
fn times_and_modes_are_preserved() -> Result<()> {
    let bed = Bed::new()?;
    let file = bed.here.file("tree/file", 10, 1)?;
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_234_567_890);
    let set = |path: &std::path::Path, mode| -> Result<()> {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        std::fs::File::open(path)?.set_times(std::fs::FileTimes::new().set_modified(then))?;
        Ok(())
    };
    set(&file, 0o640)?;
    set(&bed.here.path("tree"), 0o750)?;
    bed.cp(&["-r", "--preserve", "tree", &bed.url("")])?.ok()?;
    bed.cp(&["-r", "--preserve", &bed.url("tree"), "back"])?
        .ok()?;
    for path in [bed.there.path("tree"), bed.here.path("back/tree")] {
        let (dir, file) = (
            std::fs::metadata(&path)?,
            std::fs::metadata(path.join("file"))?,
        );
        ensure!(
            (file.mtime(), file.mode() & 0o777) == (1_234_567_890, 0o640),
            "{}",
            path.display()
        );
        ensure!(
            (dir.mtime(), dir.mode() & 0o777) == (1_234_567_890, 0o750),
            "{}",
            path.display()
        );
    }
    Ok(())
}

#[test]
fn many_files_need_few_file_descriptors() -> Result<()> {
    let bed = Bed::new()?;
    for n in 0..600 {
        bed.here.file(&format!("many/{n}"), 1000, n)?;
    }
    // `ulimit` lowers the hard limit too, so that the program cannot raise it.
    let mut few = std::process::Command::new("sh");
    few.arg("-c")
        .arg("ulimit -n 80; exec \"$@\"")
        .arg("sh")
        .arg(workspace_tests::binary("gridftp-cp")?)
        .args(["-r", "many", &bed.url("")])
        .current_dir(bed.here.root())
        .env("HOME", bed.here.root());
    workspace_tests::run(&mut few, crate::LIMIT)?.ok()?;
    let (here, there) = (bed.here.path("many"), bed.there.path("many"));
    same_tree(&here, &there)?;
    Ok(())
}

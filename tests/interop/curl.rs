//! `curl` against our server.

use std::fs;

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Peer, Tree, run, same_file};

use crate::bed::{End, LIMIT};

/// Runs curl, or returns nothing where it is missing.
fn curl(args: &[&str]) -> Result<Option<Finished>> {
    let Some(mut command) = Peer::Curl.require("interop: curl") else {
        return Ok(None);
    };
    run(
        command
            .args(["--silent", "--show-error", "--verbose"])
            .args(args),
        LIMIT,
    )
    .map(Some)
}

fn path(tree: &Tree, name: &str) -> String {
    tree.path(name).display().to_string()
}

/// Downloads a file with `flags`; the trace of curl must contain `line`.
fn get(flags: &[&str], line: &str) -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    server.tree.file("a dir/the file", 1_000_003, 21)?;
    let (url, target) = (server.url("a dir/the file"), path(&local, "file"));
    if let Some(finished) = curl(&[flags, &["--output", &target, &url]].concat())? {
        let finished = finished.ok()?;
        ensure!(
            finished.stderr.contains(line),
            "no {line}: {}",
            finished.report()
        );
        same_file(&local.path("file"), &server.path("a dir/the file"))?;
    }
    Ok(())
}

#[test]
fn get_by_extended_passive() -> Result<()> {
    get(&[], "> EPSV")
}

#[test]
fn get_by_passive() -> Result<()> {
    get(&["--disable-epsv"], "> PASV")
}

#[test]
fn get_by_extended_active() -> Result<()> {
    get(&["--ftp-port", "127.0.0.1"], "> EPRT")
}

#[test]
fn get_by_active() -> Result<()> {
    get(&["--ftp-port", "127.0.0.1", "--disable-eprt"], "> PORT")
}

#[test]
fn get_without_changing_directory() -> Result<()> {
    get(&["--ftp-method", "nocwd"], "> RETR a dir/the file")
}

#[test]
fn get_a_range() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    let original = server.tree.file("file", 100_003, 22)?;
    let target = path(&local, "file");
    if let Some(finished) = curl(&[
        "--range",
        "1000-4999",
        "--output",
        &target,
        &server.url("file"),
    ])? {
        finished.ok()?;
        let want = fs::read(original)?.get(1000..5000).map(<[u8]>::to_vec);
        ensure!(want == Some(fs::read(&target)?), "the range differs");
    }
    Ok(())
}

#[test]
fn get_is_resumed() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    let original = server.tree.file("file", 1_000_003, 23)?;
    fs::write(
        local.path("file"),
        fs::read(&original)?.get(..400_000).unwrap_or_default(),
    )?;
    let target = path(&local, "file");
    if let Some(finished) = curl(&[
        "--continue-at",
        "-",
        "--output",
        &target,
        &server.url("file"),
    ])? {
        let finished = finished.ok()?;
        ensure!(
            finished.stderr.contains("> REST 400000"),
            "{}",
            finished.report()
        );
        same_file(&original, &local.path("file"))?;
    }
    Ok(())
}

#[test]
fn put_makes_directories() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    let original = local.file("file", 1_000_003, 24)?;
    let url = server.url("new dir/below/file");
    if let Some(finished) = curl(&[
        "--ftp-create-dirs",
        "--upload-file",
        &path(&local, "file"),
        &url,
    ])? {
        finished.ok()?;
        same_file(&original, &server.path("new dir/below/file"))?;
    }
    Ok(())
}

#[test]
fn put_is_resumed() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    let original = local.file("file", 1_000_003, 25)?;
    fs::write(
        server.path("file"),
        fs::read(&original)?.get(..400_000).unwrap_or_default(),
    )?;
    let source = path(&local, "file");
    if let Some(finished) = curl(&[
        "--continue-at",
        "-",
        "--upload-file",
        &source,
        &server.url("file"),
    ])? {
        let finished = finished.ok()?;
        ensure!(finished.stderr.contains("> SIZE"), "{}", finished.report());
        same_file(&original, &server.path("file"))?;
    }
    Ok(())
}

#[test]
fn put_is_appended() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    fs::write(server.path("file"), "first ")?;
    fs::write(local.path("more"), "second")?;
    if let Some(finished) = curl(&[
        "--append",
        "--upload-file",
        &path(&local, "more"),
        &server.url("file"),
    ])? {
        finished.ok()?;
        ensure!(
            fs::read_to_string(server.path("file"))? == "first second",
            "not appended"
        );
    }
    Ok(())
}

#[test]
fn listings() -> Result<()> {
    let server = End::ours()?;
    server.tree.file("dir/one", 1, 1)?;
    server.tree.file("dir/two words", 2, 2)?;
    for flags in [
        &[][..],
        &["--list-only"],
        &["--list-only", "--request", "MLSD"],
    ] {
        let Some(finished) = curl(&[flags, &[&server.url("dir/")]].concat())? else {
            return Ok(());
        };
        let finished = finished.ok()?;
        ensure!(
            finished.stdout.contains("one") && finished.stdout.contains("two words"),
            "{}",
            finished.report()
        );
    }
    Ok(())
}

#[test]
fn quoted_commands() -> Result<()> {
    let server = End::ours()?;
    server.tree.file("old", 10, 1)?;
    let quotes = [
        "--quote",
        "MKD made",
        "--quote",
        "RNFR old",
        "--quote",
        "RNTO made/new",
        "--quote",
        "SIZE made/new",
    ];
    if let Some(finished) =
        curl(&[&quotes[..], &["--quote", "MDTM made/new", &server.url("")]].concat())?
    {
        let finished = finished.ok()?;
        ensure!(
            finished.stderr.contains("213 10") && server.path("made/new").exists(),
            "{}",
            finished.report()
        );
    }
    Ok(())
}

#[test]
fn names_in_utf_8() -> Result<()> {
    let (server, local) = (End::ours()?, Tree::new()?);
    let original = server.tree.file("Größe €", 1003, 26)?;
    if let Some(finished) = curl(&["--output", &path(&local, "file"), &server.url("Größe €")])?
    {
        finished.ok()?;
        same_file(&original, &local.path("file"))?;
    }
    Ok(())
}

#[test]
fn a_missing_file_has_its_own_exit_status() -> Result<()> {
    let server = End::ours()?;
    if let Some(finished) = curl(&[&server.url("nothing")])? {
        let finished = finished.failed()?;
        ensure!(
            finished.status.code() == Some(78),
            "not reported as a missing file: {}",
            finished.report()
        );
    }
    Ok(())
}

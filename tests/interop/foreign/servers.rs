//! `gridftp-cp` against the plain FTP servers in use: trees, listings, parts of files, and what goes wrong.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Break, Finished, FtpServer, FtpServerKind, Relay, Tree, binary, file_url, run, sha256,
    tree_digests,
};

use crate::bed::LIMIT;

/// Small files of a tree.
const FILES: u64 = 120;

fn cp(words: &[&str]) -> Result<Finished> {
    run(Command::new(binary("gridftp-cp")?).args(words), LIMIT)
}

fn lay(mut file: impl FnMut(&str, u64, u64) -> Result<()>) -> Result<()> {
    for n in 0..FILES {
        file(&format!("tree/d{}/file {n}", n % 3), n * 37, n)?;
    }
    file("tree/a/b/deep", 300_001, 7)?;
    file("tree/.hidden", 11, 8)
}

/// Runs `part` with a server of each kind that is there, and an empty local tree.
fn with_each(part: impl Fn(&FtpServer, &Tree) -> Result<()>) -> Result<()> {
    for kind in FtpServerKind::ALL {
        if let Some(server) = FtpServer::start(kind)? {
            part(&server, &Tree::new()?).with_context(|| format!("{kind:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_tree_goes_up() -> Result<()> {
    with_each(|server, local| {
        lay(|name, size, seed| local.file(name, size, seed).map(drop))?;
        let from = file_url(&local.path("tree"));
        cp(&["-r", &format!("{from}/"), &server.url("copy/")])?.ok()?;
        ensure!(
            tree_digests(&local.path("tree"))? == tree_digests(&server.path("copy"))?,
            "the trees differ"
        );
        Ok(())
    })
}

#[test]
fn a_tree_comes_down() -> Result<()> {
    with_each(|server, local| {
        lay(|name, size, seed| server.file(name, size, seed).map(drop))?;
        let to = file_url(&local.path("copy"));
        cp(&["-r", &server.url("tree/"), &format!("{to}/")])?.ok()?;
        ensure!(
            tree_digests(&server.path("tree"))? == tree_digests(&local.path("copy"))?,
            "the trees differ"
        );
        Ok(())
    })
}

#[test]
fn names_are_listed_and_matched() -> Result<()> {
    with_each(|server, local| {
        for name in ["one.dat", "two words.dat", "three.txt"] {
            server.file(name, 100, 3)?;
        }
        let listed = cp(&["--list", &server.url("")])?.ok()?;
        for name in ["one.dat", "two words.dat", "three.txt"] {
            ensure!(listed.stdout.contains(name), "{}", listed.report());
        }
        let to = format!("{}/", file_url(&local.dir("got")?));
        cp(&[&server.url("*.dat"), &to])?.ok()?;
        ensure!(
            local.names("got")? == ["one.dat", "two words.dat"],
            "other names came"
        );
        Ok(())
    })
}

#[test]
fn a_part_of_a_file_comes_down() -> Result<()> {
    with_each(|server, local| {
        let there = server.file("file", 1_000_003, 5)?;
        let to = local.path("part");
        let flags = ["--offset", "1000", "--length", "5000"];
        let ends = [&server.url("file"), &file_url(&to)];
        fs::write(&to, "")?;
        cp(&[&flags[..], &ends.map(String::as_str)].concat())?.ok()?;
        let whole = fs::read(there)?;
        let got = fs::read(&to)?;
        // A part lands at its own offset.
        ensure!(got.get(1000..) == whole.get(1000..6000), "the part differs");
        Ok(())
    })
}

#[test]
fn a_wrong_password_is_told_as_one() -> Result<()> {
    with_each(|server, _| {
        if let Some(url) = server.url_with_a_wrong_password() {
            let refused = cp(&["--list", &url])?.failed()?;
            ensure!(refused.status.code() == Some(4), "{}", refused.report());
        }
        Ok(())
    })
}

#[test]
fn a_file_that_is_not_there_is_asked_for_once() -> Result<()> {
    with_each(|server, local| {
        let to = file_url(&local.path("x"));
        let refused = cp(&["--debug", &server.url("nothing"), &to])?.failed()?;
        let asked = refused.stderr.matches("RETR ").count();
        ensure!(asked <= 1, "asked {asked} times: {}", refused.report());
        ensure!(!local.path("x").exists(), "a file was made");
        Ok(())
    })
}

#[test]
fn verification_that_cannot_be_done_is_told_before_the_transfer() -> Result<()> {
    with_each(|server, local| {
        // ProFTPD has digests of its own; they are not CKSM.
        let from = local.file("file", 2_000_003, 6)?;
        let refused =
            cp(&["--verify", "--debug", &file_url(&from), &server.url("file")])?.failed()?;
        ensure!(
            !refused.stderr.contains("STOR ") && !server.path("file").exists(),
            "it was sent all the same: {}",
            refused.report()
        );
        ensure!(
            refused.stderr.to_lowercase().contains("checksum") || refused.stderr.contains("CKSM"),
            "the reason is missing: {}",
            refused.report()
        );
        Ok(())
    })
}

#[test]
fn an_upload_that_breaks_leaves_no_file_under_its_name() -> Result<()> {
    with_each(|server, local| {
        let from = local.file("file", 3_000_003, 9)?;
        let relay = Relay::start(server.addr(), Break::Everything { after: 500_000 })?;
        let to = server.url_at(relay.addr(), "file");
        cp(&["--retries", "0", &file_url(&from), &to])?.failed()?;
        ensure!(!server.path("file").exists(), "half a file has the name");
        // What was left over does not stop the next try, nor stay behind after it.
        cp(&[&file_url(&from), &server.url("file")])?.ok()?;
        ensure!(
            sha256(&from)? == sha256(&server.path("file"))?,
            "the copy differs"
        );
        Ok(())
    })
}

#[test]
fn an_upload_replaces_a_file_in_one_step() -> Result<()> {
    with_each(|server, local| {
        let old = server.file("file", 3_000_003, 1)?;
        let before = sha256(&old)?;
        let from = local.file("file", 2_000_003, 9)?;
        let relay = Relay::start(server.addr(), Break::Everything { after: 500_000 })?;
        let to = server.url_at(relay.addr(), "file");
        cp(&["--retries", "0", &file_url(&from), &to])?.failed()?;
        ensure!(before == sha256(&old)?, "the old file is damaged");
        cp(&[&file_url(&from), &server.url("file")])?.ok()?;
        ensure!(sha256(&from)? == sha256(&old)?, "the copy differs");
        Ok(())
    })
}

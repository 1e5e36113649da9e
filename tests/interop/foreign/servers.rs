//! `gridftp-cp` against widely used plain FTP servers: trees, listings, parts of files, failures.

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Break, Finished, FtpServer, FtpServerKind, Relay, Tree, binary, file_url, run, same_file,
    same_tree, sha256,
};

use crate::bed::LIMIT;

/// Small files of a tree.
const FILES: u64 = 120;

fn cp(words: &[&str]) -> Result<Finished> {
    run(Command::new(binary("gridftp-cp")?).args(words), LIMIT)
}

fn create(mut file: impl FnMut(&str, u64, u64) -> Result<()>) -> Result<()> {
    for n in 0..FILES {
        file(&format!("tree/d{}/file {n}", n % 3), n * 37, n)?;
    }
    file("tree/a/b/deep", 300_001, 7)?;
    file("tree/.hidden", 11, 8)
}

/// Runs `part` with each installed server and an empty local tree.
fn with_each(part: impl Fn(&FtpServer, &Tree) -> Result<()>) -> Result<()> {
    for kind in FtpServerKind::ALL {
        if let Some(server) = FtpServer::start(kind)? {
            part(&server, &Tree::new()?).with_context(|| format!("{kind:?}"))?;
        }
    }
    Ok(())
}

#[test]
fn names_are_worked_on_without_copying() -> Result<()> {
    use std::os::unix::fs::symlink;
    let gridftp = |words: &[&str]| run(Command::new(binary("gridftp")?).args(words), LIMIT);
    with_each(|server, local| {
        let same = |one: &str, other: &str| gridftp(&["check", "-q", "-c", one, other])?.ok();
        local.file("tree/sub/two", 2000, 2)?;
        local.file("tree/one", 1000, 1)?;
        local.file("kept/file", 10, 3)?;
        // Made by the server, so that its account may change them.
        for name in ["tree", "kept"] {
            let from = file_url(&local.path(name));
            cp(&["-r", &format!("{from}/"), &server.url(&format!("{name}/"))])?.ok()?;
        }
        symlink("../kept", server.path("tree/door"))?;
        let sub = local.path("tree/sub").display().to_string();
        same(&sub, &server.url("tree/sub"))?;
        let told = gridftp(&["sum", &server.url("tree/one")])?.ok()?;
        let digest = sha256(&server.path("tree/one"))?;
        ensure!(told.stdout.starts_with(&digest), "{}", told.report());
        let told = gridftp(&["head", "-c", "10", &server.url("tree/one")])?.ok()?;
        ensure!(
            told.stdout.len() == 10 || !told.stdout.is_ascii(),
            "{}",
            told.report()
        );
        gridftp(&["mkdir", "-p", &server.url("tree/a/b")])?.ok()?;
        gridftp(&["mkdir", "-p", &server.url("tree/a/b")])?.ok()?;
        gridftp(&["touch", &server.url("tree/a/b/new")])?.ok()?;
        gridftp(&["mv", &server.url("tree/a/b/new"), &server.url("tree/a")])?.ok()?;
        ensure!(server.path("tree/a/new").is_file());
        let told = gridftp(&["ls", "-R", &server.url("tree/a")])?.ok()?;
        ensure!(told.stdout.contains("b\nnew\n"), "{}", told.report());
        gridftp(&["rm", "-r", &server.url("tree")])?.ok()?;
        ensure!(!server.path("tree").exists() && server.path("kept/file").exists());
        gridftp(&["rm", "-rf", &server.url("tree")])?.ok()?;
        Ok(())
    })
}

#[test]
fn a_tree_is_uploaded() -> Result<()> {
    with_each(|server, local| {
        create(|name, size, seed| local.file(name, size, seed).map(drop))?;
        let from = file_url(&local.path("tree"));
        cp(&["-r", &format!("{from}/"), &server.url("copy/")])?.ok()?;
        same_tree(&local.path("tree"), &server.path("copy"))?;
        Ok(())
    })
}

#[test]
fn a_tree_is_downloaded() -> Result<()> {
    with_each(|server, local| {
        create(|name, size, seed| server.file(name, size, seed).map(drop))?;
        let to = file_url(&local.path("copy"));
        cp(&["-r", &server.url("tree/"), &format!("{to}/")])?.ok()?;
        same_tree(&server.path("tree"), &local.path("copy"))?;
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
            "other names were copied"
        );
        Ok(())
    })
}

#[test]
fn a_part_of_a_file_is_downloaded() -> Result<()> {
    with_each(|server, local| {
        let there = server.file("file", 1_000_003, 5)?;
        let to = local.path("part");
        let flags = ["--offset", "1000", "--length", "5000"];
        let ends = [&server.url("file"), &file_url(&to)];
        fs::write(&to, "")?;
        cp(&[&flags[..], &ends.map(String::as_str)].concat())?.ok()?;
        let whole = fs::read(there)?;
        let got = fs::read(&to)?;
        // A part is written at its own offset.
        ensure!(got.get(1000..) == whole.get(1000..6000), "the part differs");
        Ok(())
    })
}

#[test]
fn a_wrong_password_has_its_own_exit_status() -> Result<()> {
    with_each(|server, _| {
        if let Some(url) = server.url_with_a_wrong_password() {
            let refused = cp(&["--list", &url])?.failed()?;
            ensure!(refused.status.code() == Some(4), "{}", refused.report());
        }
        Ok(())
    })
}

#[test]
fn a_missing_file_is_requested_once() -> Result<()> {
    with_each(|server, local| {
        let to = file_url(&local.path("x"));
        let refused = cp(&["--debug", &server.url("nothing"), &to])?.failed()?;
        let asked = refused.stderr.matches("RETR ").count();
        ensure!(asked <= 1, "asked {asked} times: {}", refused.report());
        ensure!(!local.path("x").exists(), "a file was created");
        Ok(())
    })
}

#[test]
fn impossible_verification_is_reported_before_the_transfer() -> Result<()> {
    with_each(|server, local| {
        // ProFTPD computes digests by other commands than CKSM.
        let from = local.file("file", 2_000_003, 6)?;
        let refused =
            cp(&["--verify", "--debug", &file_url(&from), &server.url("file")])?.failed()?;
        ensure!(
            !refused.stderr.contains("STOR ") && !server.path("file").exists(),
            "the file was sent: {}",
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
fn a_broken_upload_leaves_no_file_under_the_final_name() -> Result<()> {
    with_each(|server, local| {
        let from = local.file("file", 3_000_003, 9)?;
        let relay = Relay::start(server.addr(), Break::Everything { after: 500_000 })?;
        let to = server.url_at(relay.addr(), "file");
        cp(&["--retries", "0", &file_url(&from), &to])?.failed()?;
        ensure!(
            !server.path("file").exists(),
            "a partial file has the final name"
        );
        // A leftover of the broken upload must not stop the next one.
        cp(&[&file_url(&from), &server.url("file")])?.ok()?;
        same_file(&from, &server.path("file"))?;
        Ok(())
    })
}

#[test]
fn an_upload_replaces_a_file_atomically() -> Result<()> {
    with_each(|server, local| {
        let old = server.file("file", 3_000_003, 1)?;
        let before = sha256(&old)?;
        let from = local.file("file", 2_000_003, 9)?;
        let relay = Relay::start(server.addr(), Break::Everything { after: 500_000 })?;
        let to = server.url_at(relay.addr(), "file");
        cp(&["--retries", "0", &file_url(&from), &to])?.failed()?;
        ensure!(before == sha256(&old)?, "the old file is damaged");
        cp(&[&file_url(&from), &server.url("file")])?.ok()?;
        same_file(&from, &old)?;
        Ok(())
    })
}

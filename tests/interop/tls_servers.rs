//! `gridftp-cp` against widely used FTP servers over TLS, which demand it of both channels and, where
//! they can, that data connections resume the session of the control connection.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Finished, FtpServer, FtpServerKind, FtpTls, Tree, binary, run, same_file, same_tree,
};
use xio_testkit::Authority;

use crate::bed::LIMIT;

/// Files of a tree: more than a session has tickets.
const FILES: u64 = 7;

/// A server over TLS, and a tree with its authority and its certificate.
struct Bed {
    kind: FtpServerKind,
    server: FtpServer,
    local: Tree,
    ca: PathBuf,
}

impl Bed {
    fn new(kind: FtpServerKind, old: bool, implicit: bool) -> Result<Option<Self>> {
        let local = Tree::new()?;
        let authority = Authority::new("interop authority");
        let ca = authority.write(local.root());
        let own = authority.issue("host", &["localhost"]);
        let tls = FtpTls::new(own.write(local.root(), "host"), old, implicit);
        let server = FtpServer::start_with_tls(kind, &tls)?;
        Ok(server.map(|server| Self {
            kind,
            server,
            local,
            ca,
        }))
    }

    fn cp(&self, words: &[&str]) -> Result<Finished> {
        let mut command = Command::new(binary("gridftp-cp")?);
        // Each data connection must resume at once; but pyftpdlib closes some of those that are there
        // before their STOR.
        let retries = match self.kind {
            FtpServerKind::Pyftpdlib => "9",
            _ => "0",
        };
        command.args(["--retries", retries, "--ca"]).arg(&self.ca);
        run(command.args(words).current_dir(self.local.root()), LIMIT)
    }
}

/// Runs `part` with each server that is installed, and both versions of TLS.
fn with_each(part: impl Fn(&Bed, &str) -> Result<()>) -> Result<()> {
    for kind in FtpServerKind::ALL {
        for old in [false, true] {
            let version = if old { "TLS 1.2" } else { "TLS 1.3" };
            if let Some(bed) = Bed::new(kind, old, false)? {
                part(&bed, version).with_context(|| format!("{kind:?}, {version}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_tree_goes_there_and_back() -> Result<()> {
    with_each(|bed, _| {
        for n in 0..FILES {
            bed.local
                .file(&format!("tree/d{}/file {n}", n % 3), n * 70_001, n)?;
        }
        // Of one session, and of several.
        for (sessions, copy) in [("1", "one"), ("3", "three")] {
            let there = bed.server.secure_url(&format!("{copy}/"));
            bed.cp(&["-j", sessions, "-r", "tree/", &there])?.ok()?;
            same_tree(&bed.local.path("tree"), &bed.server.path(copy))?;
            bed.cp(&["-j", sessions, "-r", &there, copy])?.ok()?;
            same_tree(&bed.local.path("tree"), &bed.local.path(copy))?;
        }
        Ok(())
    })
}

#[test]
fn a_file_and_a_listing_are_private() -> Result<()> {
    with_each(|bed, version| {
        bed.server.file("file", 3_000_017, 1)?;
        let url = bed.server.secure_url("file");
        let got = bed.cp(&["-v", &url, "got"])?.ok()?;
        same_file(&bed.server.path("file"), &bed.local.path("got"))?;
        let told = got.stderr.lines().find(|line| line.contains("control "));
        let told = told.with_context(|| got.report())?;
        ensure!(
            told.contains(&format!("control {version}")) && told.contains("data private"),
            "{told}"
        );
        let listed = bed.cp(&["--list", &bed.server.secure_url("")])?.ok()?;
        ensure!(listed.stdout.contains("3000017"), "{}", listed.report());
        Ok(())
    })
}

#[test]
fn tls_may_begin_with_the_first_byte() -> Result<()> {
    for kind in [FtpServerKind::Vsftpd, FtpServerKind::Proftpd] {
        let Some(bed) = Bed::new(kind, false, true)? else {
            continue;
        };
        bed.server.file("file", 300_001, 1)?;
        let url = bed.server.secure_url("file");
        bed.cp(&["--security", "implicit", &url, "got"])?.ok()?;
        same_file(&bed.server.path("file"), &bed.local.path("got"))?;
        tells(&bed.cp(&[&url, "again"])?, "--security implicit", kind)?;
    }
    with_each(|bed, _| {
        let url = bed.server.secure_url("file");
        let failed = bed.cp(&["--security", "implicit", &url, "got"])?;
        tells(&failed, "ftp:// and --security tls", bed.kind)
    })
}

/// Checks the remedy of a failure to connect.
fn tells(failed: &Finished, remedy: &str, kind: FtpServerKind) -> Result<()> {
    let told = failed.status.code() == Some(3) && failed.stderr.contains(remedy);
    ensure!(told, "{kind:?}: {}", failed.report());
    Ok(())
}

#[test]
fn clear_text_is_refused_with_the_remedy() -> Result<()> {
    with_each(|bed, _| {
        bed.server.file("file", 10, 1)?;
        let clear = bed.cp(&["--security", "none", &bed.server.url("file"), "got"])?;
        let clear = clear.failed()?;
        ensure!(
            clear.status.code() == Some(4) && clear.stderr.contains("--security tls"),
            "{}",
            clear.report()
        );
        let url = bed.server.secure_url("file");
        let data = bed.cp(&["--protect", "clear", &url, "got"])?.failed()?;
        ensure!(
            fs::metadata(bed.local.path("got")).is_err(),
            "{}",
            data.report()
        );
        Ok(())
    })
}

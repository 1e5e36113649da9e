//! `curl` and `lftp` over TLS against our server, explicit and implicit, with private data.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Finished, Host, Peer, Tree, run, run_with_input, same_file};
use xio_testkit::Authority;

use crate::bed::LIMIT;

/// The password is `open sesame`.
const ANN: &str = "ann:$6$rounds=1000$salt$c/rx876elUtSjHtqzbR4t4bBD/c0LZyMkaP8WcR76l0qH4uuR/u2OObFJW77Apnmy6G3yYLi4kU2yXpy3CXj60";

/// A server that demands private channels for `ann`, and a local tree.
struct Bed {
    tree: Tree,
    local: Tree,
    ca: PathBuf,
    _files: tempfile::TempDir,
    host: Host,
}

impl Bed {
    fn new(flags: &[&str]) -> Result<Self> {
        let (tree, local, files) = (Tree::new()?, Tree::new()?, tempfile::tempdir()?);
        let authority = Authority::new("ftps authority");
        let ca = authority.write(files.path());
        let own = authority.issue("server", &["localhost"]);
        let (cert, users) = (
            own.write(files.path(), "server"),
            files.path().join("users"),
        );
        std::fs::write(&users, ANN)?;
        let (cert, users) = (cert.display().to_string(), users.display().to_string());
        let demands = [
            "--tls-cert",
            &cert,
            "--tls-port",
            "0",
            "--users",
            &users,
            "--require-control",
            "private",
            "--require-data",
            "private",
        ];
        let host = Host::ours_with(tree.root(), &[&demands, flags].concat())?;
        tree.file("a dir/there", 1_000_003, 31)?;
        local.file("here", 1_000_003, 32)?;
        Ok(Self {
            tree,
            local,
            ca,
            _files: files,
            host,
        })
    }

    /// The host and the port of AUTH TLS, or of TLS from the first byte.
    fn site(&self, implicit: bool) -> Result<String> {
        let output = self.host.output();
        let line = match implicit {
            true => "listening with TLS on ",
            false => "listening on ",
        };
        let address = output.lines().find_map(|text| text.strip_prefix(line));
        let port = address.and_then(|address| address.rsplit(':').next());
        Ok(match implicit {
            true => format!("ftps://localhost:{}", port.context("no TLS port")?),
            false => format!("ftp://localhost:{}", self.host.addr().port()),
        })
    }

    fn same(&self, name: &str) -> Result<()> {
        same_file(&self.local.path("got"), &self.tree.path("a dir/there"))?;
        same_file(&self.local.path("here"), &self.tree.path(name))
    }
}

fn curl(bed: &Bed, flags: &[&str], urls: &[&str]) -> Result<Option<Finished>> {
    let Some(mut command) = Peer::Curl.require("interop: curl with TLS") else {
        return Ok(None);
    };
    command.args(["--silent", "--show-error", "--verbose", "--ssl-reqd"]);
    command
        .args(["--user", "ann:open sesame"])
        .args(flags)
        .args(urls);
    run(command.current_dir(bed.local.root()), LIMIT).map(Some)
}

/// Downloads, uploads and lists with curl, of which `says` must be in the trace.
fn curl_copies(implicit: bool, version: &str, says: &str) -> Result<()> {
    // Two transfers in one direction resume in one session.
    let bed = Bed::new(&["--tls-session-reuse", "required"])?;
    let (site, ca) = (bed.site(implicit)?, bed.ca.display().to_string());
    let flags = ["--cacert", &ca, "--tlsv1.2", "--tls-max", version];
    let there = format!("{site}/a%20dir/there");
    let gets = [&there, "--output", "got", &there, "--output", "again"];
    let Some(finished) = curl(&bed, &flags, &gets)? else {
        return Ok(());
    };
    let finished = finished.ok()?;
    ensure!(finished.stderr.contains(says), "{}", finished.report());
    let put = format!("{site}/put");
    let put = curl(&bed, &flags, &["--upload-file", "here", &put])?;
    put.context("curl is gone")?.ok()?;
    bed.same("put")?;
    let listed = curl(&bed, &flags, &[&format!("{site}/")])?;
    let listed = listed.context("curl is gone")?.ok()?;
    ensure!(listed.stdout.contains("a dir"), "{}", listed.report());
    Ok(())
}

#[test]
fn curl_with_auth_tls_1_3() -> Result<()> {
    curl_copies(false, "1.3", "> AUTH TLS")
}

#[test]
fn curl_with_auth_tls_1_2() -> Result<()> {
    curl_copies(false, "1.2", "> AUTH TLS")
}

#[test]
fn curl_with_tls_at_once() -> Result<()> {
    curl_copies(true, "1.3", "> PROT P")
}

/// With TLS 1.3 it spends its ticket on the first upload.
#[test]
fn curl_uploads_several_files() -> Result<()> {
    let bed = Bed::new(&[])?;
    let (site, ca) = (bed.site(false)?, bed.ca.display().to_string());
    let (one, two) = (format!("{site}/one"), format!("{site}/two"));
    let puts = ["--upload-file", "here", &one, "--upload-file", "here", &two];
    if let Some(finished) = curl(&bed, &["--cacert", &ca], &puts)? {
        finished.ok()?;
        same_file(&bed.local.path("here"), &bed.tree.path("one"))?;
        same_file(&bed.local.path("here"), &bed.tree.path("two"))?;
    }
    Ok(())
}

#[test]
fn curl_refuses_a_foreign_authority() -> Result<()> {
    let bed = Bed::new(&[])?;
    for implicit in [false, true] {
        let url = format!("{}/", bed.site(implicit)?);
        if let Some(finished) = curl(&bed, &[], &[&url])? {
            ensure!(
                finished.stderr.contains("certificate"),
                "{}",
                finished.report()
            );
            ensure!(finished.ok().is_err(), "curl trusts anybody");
        }
    }
    Ok(())
}

/// A password is refused at its user's name in clear.
#[test]
fn curl_in_clear_is_refused() -> Result<()> {
    let bed = Bed::new(&[])?;
    let Some(mut command) = Peer::Curl.require("interop: curl with TLS") else {
        return Ok(());
    };
    command.args([
        "--silent",
        "--show-error",
        "--verbose",
        "--user",
        "ann:open sesame",
    ]);
    let finished = run(command.arg(format!("{}/", bed.site(false)?)), LIMIT)?;
    ensure!(finished.stderr.contains("< 534 "), "{}", finished.report());
    ensure!(!finished.stderr.contains("> PASS"), "{}", finished.report());
    Ok(())
}

fn lftp(bed: &Bed, implicit: bool, authority: bool, script: &str) -> Result<Option<Finished>> {
    let Some(mut command) = Peer::Lftp.require("interop: lftp with TLS") else {
        return Ok(None);
    };
    let ca = match authority {
        true => format!("set ssl:ca-file {}; ", bed.ca.display()),
        false => String::new(),
    };
    let script = format!(
        "set net:max-retries 1; set net:timeout 20; set ftp:ssl-force true; \
         set ftp:ssl-protect-data true; set cmd:fail-exit true; {ca}\
         open -u ann,'open sesame' {}; {script}",
        bed.site(implicit)?
    );
    let root = bed.local.root();
    command.env("HOME", root).env("LFTP_HOME", root);
    run(quiet(&mut command, &script).current_dir(root), LIMIT).map(Some)
}

fn quiet<'a>(command: &'a mut Command, script: &str) -> &'a mut Command {
    command.args(["--norc", "-c", script])
}

#[test]
fn lftp_explicit_and_implicit() -> Result<()> {
    for implicit in [false, true] {
        let bed = Bed::new(&["--tls-session-reuse", "required"])?;
        let script =
            "ls; get 'a dir/there' -o got; put here -o one; put here -o two; mirror 'a dir' copy";
        if let Some(finished) = lftp(&bed, implicit, true, script)? {
            let finished = finished.ok()?;
            ensure!(finished.stdout.contains("a dir"), "{}", finished.report());
            bed.same("one")?;
            bed.same("two")?;
        }
        if let Some(finished) = lftp(&bed, implicit, false, "ls")? {
            ensure!(finished.ok().is_err(), "lftp trusts anybody");
        }
    }
    Ok(())
}

/// A client that negotiates anew within TLS 1.2 gets no second handshake, which would cost the server
/// more than the client and could hide whose bytes came first (CVE-2009-3555).
#[test]
fn openssl_negotiates_once() -> Result<()> {
    let bed = Bed::new(&[])?;
    let Some(mut command) = Peer::Openssl.require("interop: renegotiation") else {
        return Ok(());
    };
    let address = bed.host.addr().to_string();
    command.args([
        "s_client",
        "-connect",
        &address,
        "-starttls",
        "ftp",
        "-tls1_2",
    ]);
    let script = bed.local.path("script");
    std::fs::write(&script, "R\n")?;
    let script = std::fs::File::open(script)?.into();
    let finished = run_with_input(&mut command, script, LIMIT)?;
    ensure!(
        finished.stderr.contains("no renegotiation"),
        "{}",
        finished.report()
    );
    Ok(())
}

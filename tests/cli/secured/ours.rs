//! TLS and Grid security between `gridftp-cp` and our server.

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{GridLab, Host, Tree, binary, run, same_file, same_tree};
use xio_testkit::Authority;

use crate::sibling::gridftp_in;
use crate::{LIMIT, cp_in, fails};

/// Our server over the second tree, whose certificate the authority in the first one has issued.
fn ours(flags: &[&str]) -> Result<(Tree, Tree, Host)> {
    let (local, there) = (Tree::new()?, Tree::new()?);
    let authority = Authority::new("test authority");
    drop(authority.write(local.root()));
    let own = authority.issue("host", &["127.0.0.1"]);
    let own = own.write(local.root(), "host").display().to_string();
    let server = Host::ours_with(there.root(), &[&["--tls-cert", &own], flags].concat())?;
    Ok((local, there, server))
}

/// Each connection of TLS 1.3 uses up a ticket, and one on which the server only reads brings none.
#[test]
fn data_connections_of_our_server_resume_as_it_demands() -> Result<()> {
    let (local, there, server) = ours(&["--tls-session-reuse", "required"])?;
    for n in 0..5 {
        local.file(&format!("tree/file{n}"), 5_000_001 + n, n)?;
    }
    let url = server.url("copy/").replace("ftp://", "ftps://");
    for flags in [
        &["-j", "1", "-p", "16"][..],
        &["-j", "3", "-p", "2"],
        &["-j", "1", "--mode", "stream"],
        &["-j", "3", "--mode", "stream"],
    ] {
        let cp = |args: &[&str]| {
            let common = ["--retries", "0", "--ca", "ca.pem", "-r"];
            cp_in(&local, &[&common, flags, args].concat())
        };
        cp(&["tree/", &url])?.ok()?;
        same_tree(&local.path("tree"), &there.path("copy"))?;
        cp(&[&url, "back"])?.ok()?;
        same_tree(&there.path("copy"), &local.path("back"))?;
        std::fs::remove_dir_all(local.path("back"))?;
        std::fs::remove_dir_all(there.path("copy"))?;
    }
    Ok(())
}

/// The subject of a certificate, with and without alternative names, logs its user in.
#[test]
fn a_certificate_logs_in_at_our_server() -> Result<()> {
    let (files, clients) = (Tree::new()?, Authority::new("clients"));
    let ca = clients.write(files.root()).display().to_string();
    for (file, text) in [("map", "/CN=ann ann\n"), ("users", "ann:*\n")] {
        std::fs::write(files.path(file), text)?;
    }
    let [map, users] = ["map", "users"].map(|file| files.path(file).display().to_string());
    let flags = ["--tls-client-ca", &ca, "--tls-map", &map, "--users", &users];
    let (local, there, server) = ours(&flags)?;
    there.file("file", 1000, 1)?;
    let url = server.url("file").replace("ftp://", "ftps://ann@");
    for (name, hosts) in [("bare", &[][..]), ("named", &["ann.example.org"])] {
        let own = clients.issue("ann", hosts).write(local.root(), name);
        let flags = ["--retries", "0", "--ca", "ca.pem", "--cert"];
        let own = own.display().to_string();
        cp_in(&local, &[&flags[..], &[&own, &url, "back"]].concat())?.ok()?;
        same_file(&there.path("file"), &local.path("back"))?;
    }
    Ok(())
}

#[test]
fn two_servers_leave_the_data_between_them_clear_or_have_it_pass_this_machine() -> Result<()> {
    let (local, there, server) = ours(&[])?;
    there.file("file", 100_001, 1)?;
    let url = |name: &str| server.url(name).replace("ftp://", "ftps://");
    let cp = |flags: &[&str]| {
        let (from, to) = (url("file"), url("copy"));
        let common = ["--retries", "0", "--ca", "ca.pem"];
        cp_in(&local, &[&common, flags, &[&from, &to]].concat())
    };
    fails(
        &cp(&["--relay", "never"])?,
        2,
        &[
            "cannot protect the data between them",
            "each would wait for the other's handshake",
            "--protect clear",
        ],
    )?;
    ensure!(!there.path("copy").exists());
    // Through this machine they are protected.
    fails(
        &cp(&["-v"])?,
        0,
        &["pass this machine: third party: two servers"],
    )?;
    same_file(&there.path("file"), &there.path("copy"))?;
    std::fs::remove_file(there.path("copy"))?;
    let clear = cp(&["--protect", "clear"])?.ok()?;
    ensure!(
        !clear.stderr.contains("pass this machine"),
        "{}",
        clear.report()
    );
    same_file(&there.path("file"), &there.path("copy"))
}

/// Each server has its own authority, which the other end of the copy must not be judged by.
#[test]
fn the_servers_of_two_places_have_their_own_authorities() -> Result<()> {
    let ((local, from, one), (elsewhere, to, two)) = (ours(&[])?, ours(&[])?);
    from.file("file", 100_001, 1)?;
    let place = |name: &str, server: &Host, ca: &Tree| {
        let url = server.url("").replace("ftp://", "ftps://");
        let ca = ca.path("ca.pem");
        format!("[place.{name}]\nurl = '{url}'\nca = '{}'\n", ca.display())
    };
    local.dir(".config/gridftp")?;
    let config = local.path(".config/gridftp/config.toml");
    std::fs::write(
        &config,
        place("one", &one, &local) + &place("two", &two, &elsewhere),
    )?;
    for flags in [&["--protect", "clear", "--relay", "never"][..], &[]] {
        let ends = ["--retries", "0", "one:file", "two:copy"];
        cp_in(&local, &[flags, &ends].concat())?.ok()?;
        same_file(&from.path("file"), &to.path("copy"))?;
        std::fs::remove_file(to.path("copy"))?;
    }
    cp_in(&local, &["one:file", "two:file"])?.ok()?;
    gridftp_in(&local, &["check", "one:", "two:"])?.ok()?;
    gridftp_in(&local, &["ls", "one:", "two:", "one:file"])?.ok()?;
    std::fs::write(
        &config,
        place("one", &one, &local) + &place("two", &two, &local),
    )?;
    let refused = cp_in(&local, &["--retries", "0", "one:file", "two:again"])?;
    let at_two = format!("{}: tls: connect: the peer's certificate", two.addr());
    fails(&refused, 3, &[&at_two])
}

/// The server waits for TLS, and the client for a greeting: for half a minute, if nothing is done.
#[test]
fn a_port_of_implicit_tls_is_told_as_that() -> Result<()> {
    let (local, there, server) = ours(&["--tls-port", "0"])?;
    there.file("file", 1000, 1)?;
    let output = server.output();
    let mut lines = output.lines();
    let address = lines.find_map(|line| line.strip_prefix("listening with TLS on "));
    let address = address.context("no TLS port")?;
    let get = |flags: &[&str], start: &str, at: &str| {
        let url = format!("{start}{at}/file");
        cp_in(
            &local,
            &[&["--ca", "ca.pem"], flags, &[&url, "out"]].concat(),
        )
    };
    let needles = ["speaks TLS", "--security implicit"];
    fails(&get(&[], "ftps://", address)?, 3, &needles)?;
    fails(
        &get(&["--security", "tls"], "ftp://", address)?,
        3,
        &needles,
    )?;
    get(&["--security", "implicit"], "ftps://", address)?.ok()?;
    let plain = server.addr().to_string();
    let needles = ["not TLS", "ftp:// and --security tls"];
    let failed = get(&["--security", "implicit"], "ftps://", &plain)?;
    fails(&failed, 3, &needles)?;
    get(&["--security", "tls"], "ftp://", &plain)?
        .ok()
        .map(drop)
}

/// The lease is that of the Globus server, by a link of the same name.
#[test]
fn a_person_of_a_pool_has_one_account_of_it() -> Result<()> {
    let (lab, there, here) = (GridLab::new()?, Tree::new()?, Tree::new()?);
    there.file("file", 1000, 1)?;
    lab.grid().write(
        "grid-mapfile",
        &format!("\"{}\" .lab\n", lab.identity()),
        0o644,
    );
    here.file("pool/lab1", 0, 0)?;
    let users = here.path("users");
    std::fs::write(&users, "lab1:*:ro\n")?;
    let mut server = Command::new(binary("gridftp-server")?);
    server.args(["--bind", "127.0.0.1", "--port", "0", "--users"]);
    lab.serve(server.arg(&users).arg("--root").arg(there.root()));
    server.env("GRIDMAPDIR", here.path("pool"));
    let host = Host::ours_from(&mut server, there.root())?;
    let url = |name: &str| {
        host.url(name)
            .replacen("ftp://127.0.0.1", "gsiftp://localhost", 1)
    };
    let cp = |from: &str, to: &str| {
        let mut client = Command::new(binary("gridftp-cp")?);
        lab.login(&mut client).current_dir(here.root());
        run(client.args(["--retries", "0", from, to]), LIMIT)
    };
    for _ in 0..2 {
        cp(&url("file"), "copy")?.ok()?;
        same_file(&there.path("file"), &here.path("copy"))?;
        let link = "pool/%2fo%3dgrid%2fou%3dlab%2fcn%3dalice%20lab";
        let [link, account] = [link, "pool/lab1"].map(|name| here.path(name).metadata());
        let (link, account) = (link?, account?);
        ensure!((link.ino(), link.nlink()) == (account.ino(), 2));
    }
    // It is the account of the users file.
    cp("copy", &url("other"))?.failed()?;
    std::fs::remove_file(here.path("pool/lab1"))?;
    fails(
        &cp(&url("file"), "copy")?,
        4,
        &[
            "no account of the pool .lab is free for /O=Grid/OU=Lab/CN=Alice Lab: the server's GRIDMAPDIR needs more accounts",
        ],
    )
}

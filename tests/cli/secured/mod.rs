//! Protection of control and data connections: certificates, and servers and third parties that
//! break it.

mod ours;
mod server;

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use gsi::trust::TrustOptions;
use workspace_tests::{Finished, GridLab, Tree, binary, run};
use xio::gsi::{GssapiAcceptor, Judge, KeyPool, TrustDirectory};
use xio_testkit::{Authority, Credential, Validity};
use xio_tls::{Identity, Roots, Tls};

use crate::{LIMIT, cp_in, fails};
pub(crate) use server::Plain;
use server::{FILE, Fault, Security, Server};

/// A server with this certificate, and a tree with its authority in `ca.pem`.
struct Bed {
    tree: Tree,
    server: Server,
}

impl Bed {
    /// A server on the loopback address with a valid certificate for it.
    fn new(fault: Fault) -> Result<Self> {
        let authority = Authority::new("test authority");
        let own = authority.issue("host", &["127.0.0.1"]);
        Self::with(&authority, &own, fault)
    }

    fn with(trusted: &Authority, own: &Credential, fault: Fault) -> Result<Self> {
        Self::on(Ipv4Addr::LOCALHOST.into(), trusted, own, fault)
    }

    fn on(host: IpAddr, trusted: &Authority, own: &Credential, fault: Fault) -> Result<Self> {
        let tree = Tree::new()?;
        drop(trusted.write(tree.root()));
        let tls = Tls::server(identity(own)?).build()?;
        let server = Server::start(host, Security::Tls(tls), fault)?;
        Ok(Self { tree, server })
    }

    fn cp(&self, args: &[&str]) -> Result<Finished> {
        let common = ["--retries", "0", "--ca", "ca.pem"];
        cp_in(&self.tree, &[&common, args].concat())
    }

    /// Downloads the file to `out`.
    fn get(&self, flags: &[&str]) -> Result<Finished> {
        let url = self.server.url("ftps://ann:secret@127.0.0.1");
        self.cp(&[flags, &[&url, "out"]].concat())
    }
}

pub(crate) fn identity(own: &Credential) -> Result<Identity> {
    let (certificate, key) = (own.certificate.as_bytes(), own.key.as_bytes());
    Ok(Identity::pem(certificate, key)?)
}

#[test]
fn the_protection_of_both_channels_is_told() -> Result<()> {
    let bed = Bed::new(Fault::None)?;
    let told = bed.get(&["-v"])?.ok()?;
    let line = "control TLS 1.3 TLS13_AES_256_GCM_SHA384, data private";
    ensure!(told.stderr.contains(line), "{}", told.report());
    ensure!(std::fs::read(bed.tree.path("out"))? == FILE);
    let commands = bed.server.commands();
    ensure!(
        commands.starts_with(&["AUTH TLS", "PBSZ 0", "PROT P", "USER ann"].map(str::to_owned)),
        "{commands:?}"
    );
    let told = bed.get(&["--json"])?.ok()?.stdout;
    ensure!(
        told.contains(r#""control":"TLS 1.3 TLS13_AES_256_GCM_SHA384","data":"private""#),
        "{told}"
    );
    Ok(())
}

#[test]
fn a_server_with_a_wrong_certificate_is_not_told_the_account() -> Result<()> {
    let (authority, stranger) = (Authority::new("ours"), Authority::new("a stranger's"));
    let host = ["127.0.0.1"];
    for (own, needles) in [
        (
            stranger.issue("host", &host),
            ["authority that is not trusted", "--ca FILE or FOLDER"],
        ),
        (
            authority.issue("host", &["other.example.org"]),
            ["not for 127.0.0.1 but for", "the URL must name the host"],
        ),
        (
            authority.issue_valid("host", &host, Validity::Expired),
            ["expired", "must renew it"],
        ),
        (
            authority.issue_valid("host", &host, Validity::NotYet),
            ["becomes valid in", "unless this clock is wrong"],
        ),
    ] {
        let bed = Bed::with(&authority, &own, Fault::None)?;
        fails(&bed.get(&[])?, 3, &needles)?;
        ensure!(bed.server.commands() == ["AUTH TLS"]);
        ensure!(!bed.tree.path("out").exists());
    }
    Ok(())
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_it() -> Result<()> {
    let authority = Authority::new("test authority");
    let own = authority.issue("host", &["127.0.0.1"]);
    let tree = Tree::new()?;
    drop(authority.write(tree.root()));
    drop(authority.issue("ann", &[]).write(tree.root(), "ann"));
    let tls = Tls::server(identity(&own)?)
        .require_client_certificates(Roots::pem(authority.pem().as_bytes())?)
        .build()?;
    let tls = Security::Tls(tls);
    let server = Server::start(Ipv4Addr::LOCALHOST.into(), tls, Fault::None)?;
    let bed = Bed { tree, server };
    bed.get(&["--cert", "ann.pem"])?.ok()?;
    let needle = "it requires a certificate of us";
    fails(&bed.get(&[])?, 3, &[needle])?;
    fails(&bed.get(&["--key", "ann.pem"])?, 2, &["--cert"])
}

/// Whether the server has no TLS, or a third party took `AUTH` out of the conversation, is all the
/// same: the features that are listed do not matter.
#[test]
fn nothing_but_auth_goes_to_a_server_without_tls() -> Result<()> {
    let bed = Bed::new(Fault::Stripped)?;
    fails(
        &bed.get(&[])?,
        4,
        &["AUTH TLS: 500 AUTH not understood", "nothing else was sent"],
    )?;
    ensure!(bed.server.commands() == ["AUTH TLS"]);
    let url = bed.server.url("ftp://ann:secret@127.0.0.1");
    for flags in [["--security", "tls"], ["--protect", "private"]] {
        let refused = bed.cp(&[&flags[..], &[&url, "out"]].concat())?;
        fails(&refused, 4, &["AUTH TLS: 500"])?;
    }
    ensure!(bed.server.commands() == ["AUTH TLS"; 3]);
    Ok(())
}

/// The address of this machine that a network would see, if there is one; nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback()).then_some(ip)
}

#[test]
fn a_password_crosses_a_network_under_tls_or_not_at_all() -> Result<()> {
    use std::io::Write as _;
    let Some(host) = own_address() else {
        let _ = writeln!(
            io::stderr(),
            "SKIPPED passwords on a network: there is none"
        );
        return Ok(());
    };
    let authority = Authority::new("test authority");
    let own = authority.issue("host", &[&host.to_string()]);
    let bed = Bed::on(host, &authority, &own, Fault::None)?;
    let url = bed.server.url(&format!("ftp://ann:secret@{host}"));
    let told = bed.cp(&["-v", &url, "out"])?.ok()?;
    ensure!(told.stderr.contains("data private"), "{}", told.report());

    let bed = Bed::on(host, &authority, &own, Fault::Stripped)?;
    let url = bed.server.url(&format!("ftp://ann:secret@{host}"));
    fails(
        &bed.cp(&[&url, "out"])?,
        4,
        &["AUTH TLS: 500", "no password was sent", "--security none"],
    )?;
    ensure!(bed.server.commands() == ["AUTH TLS"]);
    // Without a password nothing is kept from anybody; and a person may send it all the same.
    bed.server.clear();
    let anonymous = bed.server.url(&format!("ftp://{host}"));
    bed.cp(&["--list", &anonymous])?;
    bed.cp(&["--security", "none", "--list", &url])?;
    let commands = bed.server.commands();
    ensure!(
        !commands.contains(&"AUTH TLS".to_owned()) && commands.contains(&"PASS secret".to_owned()),
        "{commands:?}"
    );
    Ok(())
}

#[test]
fn clear_text_behind_the_agreement_on_tls_ends_the_session() -> Result<()> {
    let bed = Bed::new(Fault::Injected)?;
    fails(
        &bed.get(&[])?,
        3,
        &["clear text followed the agreement on TLS"],
    )?;
    ensure!(bed.server.commands() == ["AUTH TLS"]);
    Ok(())
}

#[test]
fn a_handshake_that_does_not_come_ends_in_time() -> Result<()> {
    let bed = Bed::new(Fault::Silent)?;
    fails(&bed.get(&["--timeout", "1"])?, 3, &["within 1 s"])
}

#[test]
fn data_that_is_cut_off_is_not_taken_for_whole() -> Result<()> {
    let bed = Bed::new(Fault::Cut)?;
    let needle = "ended without close-notify";
    fails(&bed.get(&[])?, 1, &[needle])?;
    ensure!(!bed.tree.path("out").exists());
    let url = bed.server.url("ftps://ann:secret@127.0.0.1");
    fails(&bed.cp(&["--list", &url])?, 1, &[needle])
}

/// Servers under load do so.
#[test]
fn a_listing_whose_data_connection_is_reset_is_tried_again() -> Result<()> {
    let bed = Bed::new(Fault::ResetOnce)?;
    let url = bed.server.url("ftps://ann:secret@127.0.0.1");
    let list = |retries| {
        let flags = ["--ca", "ca.pem", "-v", "--retries", retries, "--list", &url];
        cp_in(&bed.tree, &flags)
    };
    let listed = list("1")?.ok()?;
    ensure!(listed.stdout.contains(" file\n"), "{}", listed.report());
    ensure!(listed.stderr.contains("retry 1"), "{}", listed.report());
    let bed = Bed::new(Fault::ResetOnce)?;
    let url = bed.server.url("ftps://ann:secret@127.0.0.1");
    fails(&bed.cp(&["--list", &url])?, 1, &["426 broken"])?;
    bed.cp(&["--list", &url])?.ok()?;
    Ok(())
}

/// A server with Grid security, and the client's place in the same lab.
fn grid_server(fault: Fault) -> Result<(GridLab, Server)> {
    let lab = GridLab::new()?;
    let trust = TrustDirectory::open(lab.grid().certificates(), TrustOptions::default())?;
    let judge = Judge::from(Arc::new(trust));
    let (host, keys) = (lab.grid().host(&["localhost"]), KeyPool::new(1)?);
    let acceptor = GssapiAcceptor::new(&host, judge.clone(), Arc::new(keys))?;
    let grid = Security::Grid(Box::new((acceptor, judge)));
    let server = Server::start(Ipv4Addr::LOCALHOST.into(), grid, fault)?;
    Ok((lab, server))
}

/// Trap 12 of Grid security: the Globus programs send no close-notify, so data whose length nobody
/// told may have been cut off.
#[test]
fn data_of_unknown_length_ends_with_close_notify_under_grid_security() -> Result<()> {
    for fault in [Fault::None, Fault::Cut, Fault::CutUnmeasured] {
        let ((lab, server), tree) = (grid_server(fault)?, Tree::new()?);
        let url = server.url("gsiftp://localhost");
        for out in ["out", "-"] {
            let mut client = Command::new(binary("gridftp-cp")?);
            lab.login(&mut client).current_dir(tree.root());
            client.args(["--mode", "stream", "--retries", "0", &url, out]);
            let finished = run(&mut client, LIMIT)?;
            match fault {
                Fault::CutUnmeasured => {
                    let needles = ["may have been cut off", "--mode extended"];
                    fails(&finished, 1, &needles)?;
                    ensure!(!tree.path("out").exists());
                }
                _ => drop(finished.ok()?),
            }
        }
    }
    Ok(())
}

#[test]
fn a_server_that_cannot_protect_data_is_named() -> Result<()> {
    let ((lab, server), tree) = (grid_server(Fault::Unprotected)?, Tree::new()?);
    let mut client = Command::new(binary("gridftp-cp")?);
    lab.login(&mut client).current_dir(tree.root());
    client.args([
        "--protect",
        "private",
        &server.url("gsiftp://localhost"),
        "out",
    ]);
    let needles = ["FEAT: it lists no ", "--protect clear"];
    fails(&run(&mut client, LIMIT)?, 4, &needles)
}

#[test]
fn a_certificate_needs_no_terminal_to_ask_for_a_password() -> Result<()> {
    let bed = Bed::new(Fault::None)?;
    let ann = Authority::new("clients").issue("ann", &[]);
    drop(ann.write(bed.tree.root(), "ann"));
    let url = bed.server.url("ftps://ann@127.0.0.1");
    fails(
        &detached(&bed, &[&url])?,
        2,
        &["no password and no terminal to ask on; use --netrc"],
    )?;
    detached(&bed, &["--cert", "ann.pem", &url])?.ok().map(drop)
}

/// Gets a file without a terminal.
fn detached(bed: &Bed, flags: &[&str]) -> Result<Finished> {
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(binary("gridftp-cp")?);
    command.args(["--ca", "ca.pem"]).args(flags).arg("out");
    run(command.current_dir(bed.tree.root()), LIMIT)
}

#[test]
fn no_password_is_asked_for_under_an_anonymous_name() -> Result<()> {
    let bed = Bed::new(Fault::None)?;
    for user in ["ftp", "FTP", "Anonymous"] {
        let url = bed.server.url(&format!("ftps://{user}@127.0.0.1"));
        detached(&bed, &[&url])?.ok().context(user)?;
    }
    Ok(())
}

#[test]
fn choices_that_contradict_each_other_are_refused() -> Result<()> {
    let tree = Tree::new()?;
    for (args, needle) in [
        (
            &["--security", "none", "ftps://127.0.0.1:1/x", "out"][..],
            "contradicts ftps://",
        ),
        (
            &["--protect", "safe", "ftps://127.0.0.1:1/x", "out"],
            "needs Grid security",
        ),
        (
            &["--ca", "missing.pem", "ftps://127.0.0.1:1/x", "out"],
            "missing.pem",
        ),
        (
            &["--security", "tls", "--list", "sshftp://h/x"],
            "has the protection of ssh",
        ),
    ] {
        fails(&cp_in(&tree, args)?, 2, &[needle])?;
    }
    Ok(())
}

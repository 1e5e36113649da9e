//! `gridftp-cp doctor`: the steps to healthy servers of each kind, and to those with a defect.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use anyhow::{Result, ensure};
use gsi::proxy::ProxyOptions;
use serde_json::Value;
use workspace_tests::{Finished, GridLab, Host, Reaction, ScriptedServer, Tree, binary, run};
use xio_testkit::{Authority, Grid, Validity};

use crate::{Bed, LIMIT, command, fails};

/// Runs `doctor` in a tree.
fn doctor(tree: &Tree, args: &[&str]) -> Result<Finished> {
    run(&mut command(tree, &[&["doctor"], args].concat())?, LIMIT)
}

/// Expects these lines among others, each by its beginning and its further parts between `...`, and
/// exactly these among those that do not begin with `ok`.
fn tells(finished: &Finished, wanted: &[&str]) -> Result<()> {
    let fits = |line: &str, wanted: &str| {
        let mut parts = wanted.split("...");
        line.starts_with(parts.next().unwrap_or_default()) && parts.all(|part| line.contains(part))
    };
    for wanted in wanted {
        let found = finished.stdout.lines().any(|line| fits(line, wanted));
        ensure!(found, "no {wanted:?} in {}", finished.report());
    }
    for line in finished
        .stdout
        .lines()
        .filter(|line| !line.starts_with("ok    "))
    {
        let known = wanted.iter().any(|wanted| fits(line, wanted));
        ensure!(known, "{line:?} is not wanted: {}", finished.report());
    }
    let failed = wanted.iter().any(|line| line.starts_with("FAIL"));
    let status = finished.status.code();
    ensure!(status == Some(i32::from(failed)), "{}", finished.report());
    Ok(())
}

/// A server without MODE E.
const STREAM_ONLY: &str = "skip  data: active: not tried, as only MODE E has servers connect";
const SKIPPED: &str = "skip  doctor: the steps behind the failed one were not tried";

#[test]
fn a_healthy_server_has_no_other_word_than_ok() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("folder/file", 10, 1)?;
    let port = bed.server.addr().port();
    let steps = [
        "ok    name: 127.0.0.1 is an address itself",
        &format!("ok    port: 127.0.0.1:{port} answers in "),
        "ok    greeting: the server says `220 ",
        "ok    protection: control connection: clear text",
        "ok    protection: data connections: clear text",
        "ok    login: logged in as anonymous: `230 ",
        "ok    features: MODE E, MLSD, REST STREAM, UTF8, ...; checksums BLAKE3",
        "ok    data: listing of /...: 1 entry through port ... (PASV) in ",
        "ok    data: EPSV: port ... answers in ",
        "ok    mtu: control connection: path MTU ...segments of up to ",
        "ok    buffers: the server is on this host",
        "ok    data: active: the server connects to port ... of this host: listing of /folder in ",
        "ok    disk: .: ... MiB written and synced at ... MiB read back at ",
    ];
    let told = doctor(&bed.here, &[&bed.url("folder")])?;
    tells(&told, &steps)?;
    tells(&told, &["ok    path: /folder is there"])?;
    ensure!(told.stderr.is_empty(), "{}", told.report());
    let told = doctor(&bed.here, &[&bed.url("folder/file")])?;
    tells(
        &told,
        &[
            "ok    path: /folder/file is a file of 10 bytes",
            "ok    data: listing of /folder",
        ],
    )?;
    bed.there.file("large", 3 << 20, 2)?;
    let told = doctor(&bed.here, &[&bed.url("large")])?;
    let part = "ok    data: the last 1048576 bytes of /large in ... MiB/s";
    let connects = "ok    data: active: the server connects to port ";
    tells(&told, &[part, connects])?;
    let told = doctor(&bed.here, &[&bed.url("missing")])?;
    tells(
        &told,
        &[
            "FAIL  path: ...MLST /missing: 550 ...; check the path",
            "ok    data: listing of /: ",
        ],
    )?;

    let told = doctor(&bed.here, &["--json", &bed.url("")])?;
    for line in told.stdout.lines() {
        ensure!(
            line.starts_with("{\"verdict\":\"ok\",\"topic\":\""),
            "{line}"
        );
        let finding: Value = serde_json::from_str(line)?;
        ensure!(
            finding["fact"].is_string() && finding["remedy"].is_null(),
            "{line}"
        );
    }
    Ok(())
}

#[test]
fn a_server_that_cannot_be_reached_is_told_with_its_reason() -> Result<()> {
    let tree = Tree::new()?;
    // Bound, and nobody listens.
    let port = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.local_addr()?.port()
    };
    let url = format!("ftp://127.0.0.1:{port}/");
    let refused = format!("FAIL  port: 127.0.0.1:{port}: Connection refused...; the host is up");
    tells(&doctor(&tree, &[&url])?, &[&refused, SKIPPED])?;
    let unknown = "FAIL  name: no-such-host.invalid: ...; check the spelling of the host";
    let url = "ftp://no-such-host.invalid/";
    tells(
        &doctor(&tree, &["--timeout", "20", url])?,
        &[unknown, SKIPPED],
    )?;

    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("ftp://{}/", silent.local_addr()?);
    let late = "FAIL  greeting: ...greeting: no reply in time; see that a server of FTP";
    tells(&doctor(&tree, &["--timeout", "1", &url])?, &[late, SKIPPED])?;
    fails(
        &doctor(&tree, &["file"])?,
        2,
        &["usage: doctor needs an ftp://"],
    )
}

#[test]
fn a_server_that_refuses_is_told_with_the_step() -> Result<()> {
    let tree = Tree::new()?;
    let check = |verb: &'static str, reaction: Reaction, wanted: &[&str]| {
        let server = ScriptedServer::start(move |line| match line.split(' ').next() {
            Some(found) if found == verb => reaction.clone(),
            Some("EPSV") => Reaction::Execute,
            _ => Reaction::Usual,
        })?;
        tells(
            &doctor(&tree, &["--timeout", "5", &server.url("")])?,
            wanted,
        )
    };
    let passive =
        "FAIL  data: ...PASV: 502 not here; the server must allow passive data connections";
    check("PASV", Reaction::say("502 not here"), &[passive, SKIPPED])?;
    let login = "FAIL  login: ...login as anonymous: 530 no; check the account";
    let clear = "ok    protection: the login went over the control connection in clear text";
    check("PASS", Reaction::say("530 no"), &[clear, login, SKIPPED])?;
    let epsv = "warn  data: EPSV: the server refuses it: 502 no; PASV works";
    let listed = "ok    data: listing of /: ";
    check(
        "EPSV",
        Reaction::say("502 no"),
        &[listed, epsv, STREAM_ONLY],
    )?;
    // As behind a firewall that refuses connections to data ports.
    let shut = "FAIL  data: listing of / through port ... (PASV): ...425 no connection; firewalls on the way must let";
    check("PASV", Reaction::Shut, &[shut, SKIPPED])?;
    // Refused, or reset where the connection was in the queue of the closing listener.
    let shut = "FAIL  data: EPSV: 127.0.0.1:...; firewalls on the way must let";
    check("EPSV", Reaction::Shut, &[listed, shut, STREAM_ONLY])?;
    // As behind address translation: the inner address.
    let inner = "warn  data: the server tells the data address 192.0.2.1:..., and itself is \
                 127.0.0.1; its own was used";
    let announce = Reaction::Announce(Ipv4Addr::new(192, 0, 2, 1));
    check("PASV", announce, &[inner, listed, STREAM_ONLY])
}

/// Starts a server with MODE E that reacts so to a listing once it knows a port of ours, and to `PORT`.
fn active(port: Reaction, listing: Reaction) -> Result<ScriptedServer> {
    Ok(ScriptedServer::with(move |server, line| {
        match line.split(' ').next() {
            Some("FEAT") => Reaction::say("211-\r\n PARALLEL\r\n211 end"),
            Some("PORT") => port.clone(),
            Some("LIST") if server.count("PORT") > 0 => listing.clone(),
            Some("EPSV" | "MODE") => Reaction::Execute,
            _ => Reaction::Usual,
        }
    })?)
}

#[test]
fn a_server_that_cannot_connect_to_us_is_told_with_the_ports() -> Result<()> {
    let tree = Tree::new()?;
    let examine = |server: &ScriptedServer, flags: &[&str]| {
        let url = server.url("");
        doctor(&tree, &[&["--timeout", "5"][..], flags, &[&url]].concat())
    };
    let usual = active(Reaction::Usual, Reaction::Usual)?;
    usual.file("/file", "text");
    let listed = "ok    data: listing of /: ";
    let connects = "ok    data: active: the server connects to port ";
    tells(&examine(&usual, &[])?, &[listed, connects])?;

    // As behind a firewall here.
    let shut = || active(Reaction::Usual, Reaction::say("425 no connection"));
    let any = "FAIL  data: active: no connection from the server to 127.0.0.1:..., a port of any\
               ...MODE E...425 no connection; name ports by --data-ports LOW-HIGH...--mode stream";
    tells(&examine(&shut()?, &[])?, &[listed, any])?;
    let range = "50000-51000";
    let named = "FAIL  data: active: ...a port of the data ports 50000-51000...from 127.0.0.1 to \
                 ports 50000-51000 through; --mode stream";
    tells(
        &examine(&shut()?, &["--data-ports", range])?,
        &[listed, named],
    )?;
    let told = examine(&shut()?, &["--json"])?;
    let failed = told
        .stdout
        .lines()
        .find(|line| line.contains("FAIL") || line.contains("\"fail\""));
    let finding: Value = serde_json::from_str(failed.unwrap_or_default())?;
    ensure!(finding["topic"] == "data", "{}", told.report());
    ensure!(finding["remedy"].is_string(), "{}", told.report());

    // A port that another program has.
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let port = taken.local_addr()?.port().to_string();
    let busy = format!("FAIL  data: active: ...; free a port of {port}...--data-ports LOW-HIGH");
    tells(
        &examine(&usual, &["--data-ports", &port])?,
        &[listed, &busy],
    )?;

    let refuses = active(Reaction::say("502 no ports"), Reaction::Usual)?;
    let refused = "warn  data: active: ...PORT...502 no ports; --mode stream";
    tells(&examine(&refuses, &[])?, &[listed, refused])
}

/// As on a path that drops packets of full size.
#[test]
fn data_that_stalls_is_told_with_the_packets() -> Result<()> {
    let tree = Tree::new()?;
    let server = ScriptedServer::start(|line| match line.split(' ').next() {
        Some("MIDWAY") if line.contains("RETR") => Reaction::Hold,
        Some("EPSV") => Reaction::Execute,
        _ => Reaction::Usual,
    })?;
    server.file("/file", vec![7; 65_536]);
    let stalled = "FAIL  data: the last 65536 bytes of /file: 32768 came within ...the connection \
                   opened, and its data stalls...MTU";
    let listed = "ok    data: listing of /: ";
    let told = doctor(&tree, &["--timeout", "1", &server.url("file")])?;
    tells(&told, &[listed, stalled, SKIPPED])?;
    let server = ScriptedServer::with(|server, line| match line.split(' ').next() {
        Some("FEAT") => Reaction::say("211-\r\n PARALLEL\r\n211 end"),
        Some("MIDWAY") if server.count("PORT") > 0 => Reaction::Hold,
        Some("EPSV" | "MODE") => Reaction::Execute,
        _ => Reaction::Usual,
    })?;
    server.file("/file", "text");
    let stalled = "FAIL  data: active: the server connects to port ..., and the listing of / fails: \
                   ...the connection opened, and its data stalls";
    let told = doctor(&tree, &["--timeout", "1", &server.url("")])?;
    tells(&told, &[listed, stalled])
}

#[test]
fn the_disk_of_a_directory_is_measured() -> Result<()> {
    let bed = Bed::new()?;
    let url = bed.url("");
    bed.here.dir("data")?;
    let told = doctor(&bed.here, &["--disk", "data", &url])?;
    tells(&told, &["ok    disk: data: ... MiB written and synced at "])?;
    let left = fs::read_dir(bed.here.path("data"))?.count();
    ensure!(left == 0, "{left} files are left");
    let missing = "FAIL  disk: missing: a file of 64 MiB: ...No such file...; name a directory";
    tells(
        &doctor(&bed.here, &["--disk", "missing", &url])?,
        &[missing],
    )?;
    // Behind a fault it is measured where it was asked for.
    let gone = bed.url("gone");
    let path = "FAIL  path: ";
    let told = doctor(&bed.here, &[&gone])?;
    tells(&told, &[path])?;
    ensure!(!told.stdout.contains("disk: "), "{}", told.report());
    let told = doctor(&bed.here, &["--disk", ".", &gone])?;
    tells(&told, &[path, "ok    disk: .: "])
}

#[test]
fn a_server_of_tls_is_examined_with_its_certificate() -> Result<()> {
    let (tree, there) = (Tree::new()?, Tree::new()?);
    let authority = Authority::new("test authority");
    drop(authority.write(tree.root()));
    let serve = |own: xio_testkit::Credential| {
        let own = own.write(tree.root(), "host").display().to_string();
        Host::ours_with(there.root(), &["--tls-cert", &own])
    };
    let examine = |server: &Host, flags: &[&str]| {
        let url = server.url("").replace("ftp://", "ftps://");
        doctor(&tree, &[flags, &[&url]].concat())
    };
    let server = serve(authority.issue("localhost", &["127.0.0.1"]))?;
    let told = examine(&server, &["--ca", "ca.pem"])?;
    tells(
        &told,
        &[
            "ok    protection: control connection: TLS 1.3 TLS13_AES_256_GCM_SHA384",
            "ok    protection: certificate of the server: /CN=localhost, valid for ",
            "ok    protection: certificate of the server: it is for ...by the trusted authority /CN=test authority",
            "ok    protection: data connections: private",
            "ok    data: listing of /: ",
        ],
    )?;
    let url = server.url("").replace("ftp://", "ftps://nobody:wrong@");
    let agreed = "ok    protection: the login went over the control connection under TLS; data \
                  connections would be private";
    let refused = "FAIL  login: ...530 ";
    let told = doctor(&tree, &["--ca", "ca.pem", &url])?;
    tells(&told, &[agreed, refused, SKIPPED])?;
    let untrusted = "FAIL  protection: ...authority that is not trusted...--ca FILE or FOLDER";
    tells(
        &examine(&server, &[])?,
        &["ok    greeting: ", untrusted, SKIPPED],
    )?;
    let server = serve(authority.issue_valid("localhost", &["127.0.0.1"], Validity::Expired))?;
    let expired = "FAIL  protection: ...expired...; its administrator must renew it";
    tells(&examine(&server, &["--ca", "ca.pem"])?, &[expired, SKIPPED])?;
    let plain = Host::ours(there.root())?;
    let none = "FAIL  protection: ...AUTH TLS: 50...; the server has no TLS";
    tells(&examine(&plain, &["--ca", "ca.pem"])?, &[none, SKIPPED])
}

/// A server of a Grid, and its users.
struct Site {
    lab: GridLab,
    there: Tree,
}

impl Site {
    fn new() -> Result<Self> {
        let site = Self {
            lab: GridLab::new()?,
            there: Tree::new()?,
        };
        site.lab.grid().revoke(&[]);
        Ok(site)
    }

    fn serve(&self) -> Result<Host> {
        let mut server = Command::new(binary("gridftp-server")?);
        self.lab.serve(&mut server);
        server.args(["--bind", "127.0.0.1", "--port", "0", "--root"]);
        server.arg(self.there.root());
        Host::ours_from(&mut server, self.there.root())
    }

    fn doctor(&self, server: &Host, flags: &[&str]) -> Result<Finished> {
        let url = server.url("").replace("ftp://", "gsiftp://");
        let mut command = command(&self.there, &[&["doctor"], flags, &[&url]].concat())?;
        run(self.lab.login(&mut command), LIMIT)
    }
}

#[test]
fn a_server_of_a_grid_is_examined_with_its_authority() -> Result<()> {
    let site = Site::new()?;
    let server = site.serve()?;
    let told = site.doctor(&server, &[])?;
    tells(
        &told,
        &[
            "ok    credential: ...proxy.pem: proxy of /O=Grid/OU=Lab/CN=Alice Lab, valid for ",
            "ok    protection: control connection: GSI over TLS 1.3 with /O=Grid/OU=Lab/CN=localhost",
            "ok    protection: certificate of the server: /O=Grid/OU=Lab/CN=localhost, valid for ",
            "ok    authorities: ...0: /O=Grid/OU=Lab/CN=Lab CA, valid for ",
            "ok    authorities: ...r0: revocation list, valid for ",
            "ok    protection: delegation: the server got a limited proxy",
            "ok    protection: data connections: private, both ends prove: self",
            "ok    login: logged in as the account of the certificate: `230 ",
            "ok    data: listing of /: ",
        ],
    )?;
    let other = ["--subject", "/O=Grid/CN=other"];
    let line =
        "FAIL  protection: ...the server is /O=Grid/OU=Lab/CN=localhost, not /O=Grid/CN=other";
    tells(&site.doctor(&server, &other)?, &[line, SKIPPED])?;
    let grid = site.lab.grid();
    let old = grid.issue("Alice Lab", &[], Validity::Expired);
    let old = grid.store(&old, "old.pem").display().to_string();
    let found = site.doctor(&server, &["--cred", &old])?;
    let line = "FAIL  credential: ...old.pem: certificate of ...Alice Lab, expired ...; renew it";
    ensure!(
        found
            .stdout
            .lines()
            .any(|told| told.starts_with("FAIL  credential: ")),
        "{}",
        found.report()
    );
    ensure!(
        line.split("...").all(|part| found.stdout.contains(part)),
        "{}",
        found.report()
    );
    let stranger = Grid::named("Other CA").user("Eve");
    let stranger = grid.store(&stranger, "stranger.pem").display().to_string();
    let found = site.doctor(&server, &["--cred", &stranger])?;
    for line in [
        "warn  credential: ",
        "is unknown: add ",
        "FAIL  protection: ",
    ] {
        ensure!(
            found.stdout.contains(line),
            "no {line} in {}",
            found.report()
        );
    }
    let mallory = grid.proxy(&grid.user("Mallory"), &ProxyOptions::default());
    let mallory = grid.store(&mallory, "mallory.pem").display().to_string();
    let line = "FAIL  protection: ...530...Mallory";
    tells(
        &site.doctor(&server, &["--cred", &mallory])?,
        &[line, SKIPPED],
    )?;
    grid.revoke_until(2023, &[]);
    let found = site.doctor(&server, &[])?;
    let line = "FAIL  protection: ";
    ensure!(
        found.stdout.contains(line) && found.stdout.contains("expired"),
        "{}",
        found.report()
    );
    Ok(())
}

/// The session runs on this machine, behind a program that stands for ssh.
#[test]
fn a_host_behind_ssh_is_examined() -> Result<()> {
    let (tree, there) = (Tree::new()?, Tree::new()?);
    there.file("file", 5, 1)?;
    let ssh = tree.path("ssh");
    let script = "#!/bin/sh\nfor last; do :; done\nexport SSH_CONNECTION='127.0.0.1 4022 127.0.0.1 22'\n\
                  exec sh -c \"$last\"\n";
    fs::write(&ssh, script)?;
    fs::set_permissions(&ssh, Permissions::from_mode(0o755))?;
    let path = format!("{}:{}", tree.root().display(), std::env::var("PATH")?);
    let program = binary("gridftp-server")?.display().to_string();
    let url = format!("sshftp://dtn{}", there.root().display());
    let examine = |program: &str| {
        let mut command = command(&tree, &["doctor", "--remote-program", program, &url])?;
        run(command.env("PATH", &path), LIMIT)
    };
    tells(
        &examine(&program)?,
        &[
            "ok    protection: control connection: ssh",
            "ok    protection: data connections: private, both ends prove: session",
            "ok    login: logged in as the person of ssh",
            "ok    data: listing of /...: 1 entry through port ",
        ],
    )?;
    let missing = "FAIL  ssh: ...exec: /nonexistent/gridftp-server...--remote-program PATH";
    tells(
        &examine("/nonexistent/gridftp-server")?,
        &[missing, SKIPPED],
    )
}

//! `gridftp-server check`: a healthy set-up, and each defect with its line.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use workspace_tests::{Finished, GridLab, Host, Tree, binary, is_root, run};
use xio_testkit::{Authority, Grid, Validity};

use crate::LIMIT;

/// A set-up of a server with all that can be examined.
struct Site {
    tree: Tree,
    lab: GridLab,
    authority: Authority,
}

impl Site {
    fn new() -> Result<Self> {
        let site = Self {
            tree: Tree::new()?,
            lab: GridLab::new()?,
            authority: Authority::new("test authority"),
        };
        fs::create_dir_all(site.tree.path("root/ann"))?;
        site.certify(&site.authority.issue("localhost", &["localhost"]))?;
        drop(site.authority.write(site.tree.root()));
        site.write("users", "ann:*:rw:/ann\nbob:*:ro\n", 0o600)?;
        site.write("map", "/CN=Ann ann\n", 0o644)?;
        let map = format!("\"{}\" ann,bob\n", site.lab.identity());
        site.lab.grid().write("grid-mapfile", &map, 0o644);
        site.lab.grid().revoke(&[]);
        Ok(site)
    }

    fn certify(&self, own: &xio_testkit::Credential) -> Result<()> {
        drop(own.write(self.tree.root(), "host"));
        fs::set_permissions(self.tree.path("host.pem"), Permissions::from_mode(0o600))?;
        Ok(())
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> Result<()> {
        let path = self.tree.path(name);
        fs::write(&path, text)?;
        Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
    }

    fn authority_file(&self, end: &str) -> PathBuf {
        let grid = self.lab.grid();
        grid.certificates().join(format!("{}.{end}", grid.hash()))
    }

    /// Runs `check`; a flag given twice is that of `flags`.
    fn check(&self, flags: &[&str]) -> Result<Finished> {
        let lab = |file| self.lab.path(file).display().to_string();
        let tree = |file| self.tree.path(file).display().to_string();
        let own = [
            ("--bind", "127.0.0.1".to_owned()),
            ("--port", "0".to_owned()),
            ("--host", "localhost".to_owned()),
            ("--root", tree("root")),
            ("--users", tree("users")),
            ("--tls-cert", tree("host.pem")),
            ("--tls-port", "0".to_owned()),
            ("--tls-client-ca", tree("ca.pem")),
            ("--tls-map", tree("map")),
            ("--host-cert", lab("hostcert.pem")),
            ("--host-key", lab("hostkey.pem")),
            ("--ca-dir", lab("certificates")),
            ("--gridmap", lab("grid-mapfile")),
        ];
        let mut command = Command::new(binary("gridftp-server")?);
        command.arg("check").current_dir(self.tree.root());
        for (flag, value) in own.iter().filter(|(flag, _)| !flags.contains(flag)) {
            command.args([flag, value.as_str()]);
        }
        run(command.args(flags), LIMIT)
    }

    /// Expects exactly these lines beside those that begin with `ok`, by their beginnings.
    fn tells(&self, flags: &[&str], wanted: &[&str]) -> Result<Finished> {
        let finished = self.check(flags)?;
        let about_root = "warn  accounts: the server runs as root";
        let lines: Vec<&str> = finished
            .stdout
            .lines()
            .filter(|line| !line.starts_with("ok    ") && !line.starts_with(about_root))
            .collect();
        let fits = lines.len() == wanted.len()
            && lines.iter().zip(wanted).all(|(line, wanted)| {
                let mut parts = wanted.split("...");
                line.starts_with(parts.next().unwrap_or_default())
                    && parts.all(|part| line.contains(part))
            });
        ensure!(fits, "wanted {wanted:#?}\n{}", finished.report());
        ensure!(is_root() == finished.stdout.contains(about_root));
        let fails = wanted.iter().any(|line| line.starts_with("FAIL"));
        let status = finished.status.code();
        ensure!(status == Some(i32::from(fails)), "{}", finished.report());
        ensure!(finished.stderr.is_empty(), "{}", finished.report());
        Ok(finished)
    }
}

/// The lines of a set-up whose configuration is not whole.
const NOT_WHOLE: [&str; 2] = ["skip  ports: not examined", "skip  policy: not examined"];

#[test]
fn a_healthy_set_up_has_no_other_word_than_ok() -> Result<()> {
    let site = Site::new()?;
    let told = site.tells(&[], &[])?.stdout;
    for line in [
        "ok    configuration: it is whole, for user ",
        "ok    accounts: ",
        "ok    tls: certificate ",
        ": it is for localhost\n",
        "ok    grid: credential of the host ",
        ": certificate of /O=Grid/OU=Lab/CN=localhost, valid for ",
        ": the authorities in ",
        ".0: /O=Grid/OU=Lab/CN=Lab CA, valid for ",
        ".r0: revocation list, valid for ",
        "ok    gridmap: ",
        ": 1 identities are mapped\n",
        "ok    names: localhost is 127.0.0.1, an address of this host\n",
        "ok    clock: ",
        "ok    ports: control connections: any free port of 127.0.0.1\n",
        "ok    policy: passwords from other hosts: the control connection is private\n",
    ] {
        ensure!(told.contains(line), "no {line} in {told}");
    }
    let left: Vec<_> = fs::read_dir(site.tree.path("root"))?.collect::<Result<_, _>>()?;
    ensure!(left.len() == 1, "something was written: {left:?}");
    Ok(())
}

#[test]
fn lines_of_json_have_the_fields_of_a_finding() -> Result<()> {
    let site = Site::new()?;
    let told = site.check(&["--json", "--root", "missing"])?;
    let mut verdicts = Vec::new();
    for line in told.stdout.lines() {
        let finding: Value = serde_json::from_str(line)?;
        let has_remedy = finding["remedy"].is_string();
        let verdict = finding["verdict"].as_str().context("no verdict")?;
        ensure!(
            has_remedy == (verdict == "warn" || verdict == "fail"),
            "{line}"
        );
        ensure!(
            finding["topic"].is_string() && finding["fact"].is_string(),
            "{line}"
        );
        verdicts.push(verdict.to_owned());
    }
    ensure!(verdicts.iter().filter(|verdict| *verdict == "fail").count() == 1);
    ensure!(told.status.code() == Some(1), "{}", told.report());
    Ok(())
}

#[test]
fn defects_of_the_configuration_are_told() -> Result<()> {
    let site = Site::new()?;
    site.write("bad.toml", "port = 0\nmax-sesions = 5\n", 0o600)?;
    let bad = site.check(&["--config", "bad.toml"])?;
    let told = bad
        .stdout
        .starts_with("FAIL  configuration: config: bad.toml: ");
    ensure!(
        told && bad.stdout.contains("line 2, column 1"),
        "{}",
        bad.report()
    );
    ensure!(bad.status.code() == Some(1) && bad.stdout.lines().count() == 1);
    let range = "FAIL  configuration: the server does not start: max-streams must be at least 1; ";
    site.tells(
        &["--max-streams", "0"],
        &[&[range][..], &NOT_WHOLE].concat(),
    )?;
    site.tells(
        &["--root", "missing"],
        &["FAIL  storage: missing: No such file...; make the dir"],
    )?;
    site.tells(
        &["--root", "users"],
        &["FAIL  storage: users: it is no directory"],
    )?;
    site.write(
        "file.toml",
        "anonymous = \"rw\"\nbind = \"0.0.0.0\"\n",
        0o600,
    )?;
    let told = site.tells(&["--config", "file.toml"], &[])?;
    ensure!(
        told.stdout.contains("read and write, from this host"),
        "a flag wins"
    );
    Ok(())
}

#[test]
fn defects_of_accounts_are_told() -> Result<()> {
    let site = Site::new()?;
    for (mode, line) in [
        (
            0o644,
            "warn  accounts: ...users: its mode 0644 lets everybody read password hashes; chmod",
        ),
        (
            0o666,
            "FAIL  accounts: ...users: its mode 0666 lets others change accounts; chmod 600",
        ),
    ] {
        fs::set_permissions(site.tree.path("users"), Permissions::from_mode(mode))?;
        site.tells(&[], &[line])?;
    }
    site.write("users", "ann:*:rw:/nowhere\nbob:*\n", 0o600)?;
    site.tells(
        &[],
        &["warn  accounts: ann: the home directory /nowhere is not in the tree; make"],
    )?;
    site.write("users", "ann:*\nbob:*:rx\n", 0o600)?;
    let found = site.check(&[])?;
    for line in [
        "FAIL  configuration: the server does not start",
        "users: line 2: access must be ro or rw",
    ] {
        ensure!(found.stdout.contains(line), "{}", found.report());
    }
    let mut bare = Command::new(binary("gridftp-server")?);
    bare.args(["check", "--port", "0", "--storage", "null"])
        .env_remove("X509_USER_CERT");
    let bare = run(&mut bare, LIMIT)?;
    ensure!(
        bare.stdout
            .contains("FAIL  accounts: nobody can log in; name"),
        "{}",
        bare.report()
    );
    Ok(())
}

#[test]
fn defects_of_the_certificate_of_tls_are_told() -> Result<()> {
    let site = Site::new()?;
    let issue = |names: &[&str], validity| {
        site.certify(&site.authority.issue_valid("localhost", names, validity))
    };
    issue(&["localhost"], Validity::Expired)?;
    site.tells(
        &[],
        &["FAIL  tls: certificate ...: /CN=localhost, expired ... days ago; renew it"],
    )?;
    issue(&["localhost"], Validity::NotYet)?;
    site.tells(
        &[],
        &[
            "FAIL  tls: certificate ...: /CN=localhost, becomes valid in ... days; set the clock",
            "warn  clock: it stands before the beginning of a certificate",
        ],
    )?;
    issue(&["other.example.org"], Validity::Good)?;
    let other = "it is for other.example.org, and not for localhost; ";
    site.tells(&[], &[&format!("FAIL  tls: certificate ...{other}")])?;
    issue(&["localhost"], Validity::Good)?;
    fs::set_permissions(site.tree.path("host.pem"), Permissions::from_mode(0o644))?;
    site.tells(
        &[],
        &["FAIL  tls: key ...host.pem: its mode 0644 lets others at it; chmod 600"],
    )?;
    issue(&["localhost"], Validity::Good)?;
    let another = site.authority.issue("localhost", &["localhost"]);
    site.write("other.key", &another.key, 0o600)?;
    let lines = [
        "FAIL  configuration: the server does not start: tls-cert: ",
        "FAIL  tls: key other.key: it is not that of the first certificate, /CN=localhost; name the key",
    ];
    site.tells(
        &["--tls-key", "other.key"],
        &[&lines[..], &NOT_WHOLE].concat(),
    )?;
    site.write("map", "/CN=Eve eve\n", 0o644)?;
    site.tells(
        &[],
        &["warn  tls: map ...: eve has no account, so that login is refused; add"],
    )?;
    Ok(())
}

#[test]
fn defects_of_the_credential_of_the_host_are_told() -> Result<()> {
    let site = Site::new()?;
    let key = site.lab.path("hostkey.pem");
    fs::set_permissions(&key, Permissions::from_mode(0o644))?;
    let lines = [
        "FAIL  configuration: the server does not start: Grid security: ...hostkey.pem",
        "FAIL  grid: credential of the host: ...hostkey.pem: its mode 0644 lets others at",
    ];
    site.tells(&[], &[&lines[..], &NOT_WHOLE].concat())?;
    fs::set_permissions(&key, Permissions::from_mode(0o400))?;

    let grid = site.lab.grid();
    let store = |credential: gsi::credential::Credential, name| {
        grid.store(&credential, name).display().to_string()
    };
    let old = store(
        grid.issue("localhost", &["localhost"], Validity::Expired),
        "old.pem",
    );
    let lines = [
        "FAIL  configuration: the server does not start: Grid security: ...has expired",
        "FAIL  grid: credential of the host ...: certificate of /O=Grid/OU=Lab/CN=localhost, expired",
        "FAIL  grid: credential of the host ...it is refused: ...it expired at",
    ];
    let flags = ["--host-cert", &old, "--host-key", &old];
    site.tells(&flags, &[&lines[..], &NOT_WHOLE].concat())?;

    let stranger = store(Grid::named("Other CA").host(&["localhost"]), "stranger.pem");
    let flags = ["--host-cert", &stranger, "--host-key", &stranger];
    let line = "FAIL  grid: credential of the host ...it is refused: ...its issuer /O=Grid/OU=Lab/CN=Other CA is unknown";
    site.tells(&flags, &[line])?;

    let other = store(grid.host(&["other.example.org"]), "other.pem");
    let flags = ["--host-cert", &other, "--host-key", &other];
    let line = "FAIL  grid: credential of the host ...: it is for other.example.org, and not for localhost";
    site.tells(&flags, &[line])?;
    Ok(())
}

#[test]
fn credentials_of_further_host_names_are_examined() -> Result<()> {
    let site = Site::new()?;
    let grid = site.lab.grid();
    let hosts = grid.folder().join("vhosts");
    for (directory, name, validity) in [
        ("one", "one.example.org", Validity::Good),
        ("old", "old.example.org", Validity::Expired),
        ("keyless", "keyless.example.org", Validity::Good),
    ] {
        fs::create_dir_all(hosts.join(directory))?;
        let pem = grid.issue(name, &[name], validity).to_pem();
        let (certificate, key) = pem.split_at(pem.find("-----BEGIN PRIVATE").context("a key")?);
        grid.write(
            &format!("vhosts/{directory}/hostcert.pem"),
            certificate,
            0o644,
        );
        if directory != "keyless" {
            grid.write(&format!("vhosts/{directory}/hostkey.pem"), key, 0o400);
        }
    }
    let flags = ["--host-certs", &hosts.display().to_string()];
    let lines = [
        "FAIL  grid: credential of the host: ...vhosts/keyless/hostkey.pem: No such file",
        "FAIL  grid: credential of the host ...vhosts/old/hostcert.pem: ...expired",
        "FAIL  grid: credential of the host ...it is refused: ...it expired at",
    ];
    let told = site.tells(&flags, &lines)?;
    let fact = "vhosts/one/hostcert.pem: the authorities in ";
    ensure!(told.stdout.contains(fact), "{}", told.report());
    let missing = hosts.join("none").display().to_string();
    let lines = [
        "FAIL  configuration: the server does not start: Grid security: host-certs...none: No such file",
        "FAIL  grid: further names of the host: ...none: No such file",
    ];
    site.tells(
        &["--host-certs", &missing],
        &[&lines[..], &NOT_WHOLE].concat(),
    )?;
    Ok(())
}

#[test]
fn defects_of_authorities_are_told() -> Result<()> {
    let site = Site::new()?;
    let grid = site.lab.grid();
    let refused = "FAIL  grid: credential of the host ...it is refused: ...";
    let of_authority =
        "FAIL  authorities: ...: certificates by /O=Grid/OU=Lab/CN=Lab CA are refused: ";
    fs::remove_file(site.authority_file("r0"))?;
    site.tells(
        &[],
        &["warn  authorities: ...r0: there is no revocation list...; have fetch-crl"],
    )?;
    grid.revoke_until(2023, &[]);
    let expired = "the revocation list of /O=Grid/OU=Lab/CN=Lab CA expired";
    site.tells(
        &[],
        &[
            &format!("{refused}{expired}"),
            &format!("{of_authority}{expired}"),
        ],
    )?;
    grid.revoke(&["localhost"]);
    site.tells(&[], &[&format!("{refused}revoked it")])?;
    grid.revoke(&[]);

    let policy = fs::read_to_string(site.authority_file("signing_policy"))?;
    fs::remove_file(site.authority_file("signing_policy"))?;
    let missing = "no signing policy";
    site.tells(
        &[],
        &[
            &format!("{refused}{missing}"),
            &format!("{of_authority}{missing}"),
        ],
    )?;
    fs::write(site.authority_file("signing_policy"), policy)?;

    let list = fs::read(site.authority_file("r0"))?;
    fs::write(site.authority_file("r0"), "-----BEGIN X509 CRL-----\n")?;
    let found = site.check(&[])?;
    let broken = "r0: broken PEM block";
    let line = found
        .stdout
        .lines()
        .find(|line| line.contains(broken))
        .unwrap_or_default();
    ensure!(
        line.starts_with("FAIL  authorities: "),
        "{}",
        found.report()
    );
    fs::write(site.authority_file("r0"), list)?;

    fs::rename(
        site.authority_file("0"),
        grid.certificates().join("12345678.0"),
    )?;
    let found = site.check(&[])?;
    let renamed = format!(
        "since the hash of its subject is {0}; rename it to {0}.0",
        grid.hash()
    );
    ensure!(found.stdout.contains(&renamed), "{}", found.report());
    ensure!(found.status.code() == Some(1), "{}", found.report());
    Ok(())
}

#[test]
fn defects_of_the_grid_mapfile_are_told() -> Result<()> {
    let site = Site::new()?;
    let identity = site.lab.identity();
    let map = |text: &str, mode| site.lab.grid().write("grid-mapfile", text, mode);
    let told = site.tells(&["--subject", &identity], &[])?;
    let line =
        format!("{identity} logs in as ann, or as bob; ann reads and writes, at home in /ann");
    ensure!(told.stdout.contains(&line), "{}", told.report());
    let line = "FAIL  gridmap: /CN=Eve is not mapped; add the line `\"/CN=Eve\" NAME`";
    site.tells(&["--subject", "/CN=Eve"], &[line])?;
    map("\"/CN=Ann\" ann\n\"/CN=Bob bob\n", 0o644);
    site.tells(
        &[],
        &["FAIL  gridmap: ...: line 2 is passed over: the quote is not closed; correct"],
    )?;
    map("\"/CN=Eve\" eve\n", 0o644);
    site.tells(
        &[],
        &["warn  gridmap: ...: eve has no account in --users...; add the line `eve:*"],
    )?;
    map("\"/CN=Ann\" ann\n", 0o666);
    site.tells(
        &[],
        &["FAIL  gridmap: ...: its mode 0666 lets others map themselves; chmod 644"],
    )?;
    map("", 0o644);
    site.tells(&[], &["warn  gridmap: ...: nobody is mapped; add lines"])?;
    Ok(())
}

#[test]
fn ports_that_are_taken_are_told() -> Result<()> {
    let site = Site::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    let taken = format!(
        "FAIL  ports: control connections: port {port} is taken by a program without a greeting; stop"
    );
    site.tells(&["--port", &port], &[&taken])?;
    let range = format!("{port}-{port}");
    let none =
        format!("FAIL  ports: data connections: 0 of 1 ports {range} are free...; choose other");
    site.tells(&["--data-ports", &range], &[&none])?;
    site.tells(
        &["--bind", "192.0.2.1"],
        &[
            "FAIL  ports: control...192.0.2.1 is no address of this host",
            "FAIL  ports: TLS: ",
        ],
    )?;

    let server = Host::ours(&site.tree.path("root"))?;
    let port = server.addr().port().to_string();
    let told = site.tells(&["--port", &port], &[])?;
    let line = format!("port {port} is taken by a server that greets `220 ");
    ensure!(told.stdout.contains(&line), "{}", told.report());
    Ok(())
}

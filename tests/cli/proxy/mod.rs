//! `gridftp-cp proxy`: proxies made, shown and destroyed.

mod passphrase;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use workspace_tests::{Finished, binary, is_root, run};
use xio_testkit::Grid;

use crate::{Bed, LIMIT, fails};

/// A user at home, with a certificate, in a grid.
struct Home {
    grid: Grid,
}

impl Home {
    fn new() -> Result<Self> {
        let grid = Grid::new();
        fs::create_dir_all(grid.folder().join("home/.globus"))?;
        let pem = grid.user("Alice Lab").to_pem();
        let key = pem.find("-----BEGIN PRIVATE").context("no key")?;
        let (certificate, key) = pem.split_at(key);
        grid.write("home/.globus/usercert.pem", certificate, 0o644);
        grid.write("home/.globus/userkey.pem", key, 0o400);
        Ok(Self { grid })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.grid.folder().join(name)
    }

    fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(binary("gridftp-cp")?);
        command
            .current_dir(self.grid.folder())
            .arg("proxy")
            .args(args)
            .env("HOME", self.path("home"))
            .env("X509_CERT_DIR", self.grid.certificates())
            .env("X509_USER_PROXY", self.path("px"))
            .env_remove("X509_USER_CERT")
            .env_remove("X509_USER_KEY");
        Ok(command)
    }

    fn proxy(&self, args: &[&str]) -> Result<Finished> {
        run(&mut self.command(args)?, LIMIT)
    }

    /// Makes a proxy and returns the facts about it.
    fn made(&self, args: &[&str]) -> Result<Value> {
        let finished = self.proxy(&[&["init", "--json"], args].concat())?.ok()?;
        ensure!(
            finished.stdout.lines().count() == 1,
            "{}",
            finished.report()
        );
        Ok(serde_json::from_str(&finished.stdout)?)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        self.grid.write(name, text, 0o600)
    }
}

#[test]
fn a_proxy_is_made_shown_and_destroyed() -> Result<()> {
    let home = Home::new()?;
    let path = home.path("px");
    let made = home.proxy(&["init"])?.ok()?;
    ensure!(made.stderr.is_empty(), "{}", made.report());
    let lines: Vec<&str> = made.stdout.lines().collect();
    let place = format!("path     : {}", path.display());
    ensure!(
        lines.first() == Some(&"identity : /O=Grid/OU=Lab/CN=Alice Lab")
            && lines.get(1) == Some(&place.as_str())
            && lines
                .get(2)
                .is_some_and(|line| line.starts_with("expires  : 20")),
        "{}",
        made.report()
    );
    ensure!(fs::metadata(&path)?.mode() & 0o7777 == 0o600);
    let beside: Vec<_> = fs::read_dir(home.grid.folder())?.collect::<Result<_, _>>()?;
    ensure!(beside.len() == 3, "{beside:?}");

    let shown = home.proxy(&["info"])?.ok()?.stdout;
    let names: Vec<&str> = shown
        .lines()
        .filter_map(|line| Some(line.split_once(" : ")?.0.trim_end()))
        .collect();
    ensure!(
        names
            == [
                "subject", "issuer", "identity", "type", "strength", "path", "timeleft"
            ],
        "{shown}"
    );
    for line in [
        "issuer   : /O=Grid/OU=Lab/CN=Alice Lab",
        "type     : RFC 3820 compliant impersonation proxy",
        "strength : 2048 bits",
    ] {
        ensure!(shown.contains(line), "no {line} in {shown}");
    }
    ensure!(
        shown.contains("subject  : /O=Grid/OU=Lab/CN=Alice Lab/CN="),
        "{shown}"
    );

    let left = shown
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("timeleft : "));
    ensure!(
        left.is_some_and(|left| left == "12:00:00" || left.starts_with("11:5")),
        "{shown}"
    );

    let rehearsed = home.proxy(&["destroy", "--dry-run"])?.ok()?;
    ensure!(
        rehearsed.stdout.contains("px: would be destroyed"),
        "{}",
        rehearsed.report()
    );
    ensure!(path.exists());
    let mut open = File::open(&path)?;
    let length = open.metadata()?.len();
    home.proxy(&["destroy"])?.ok()?;
    ensure!(!path.exists());
    let mut left = Vec::new();
    open.read_to_end(&mut left)?;
    ensure!(left.len() as u64 == length && left.iter().all(|byte| *byte == 0));
    fails(&home.proxy(&["destroy"])?, 1, &["px: No such file"])?;
    fails(&home.proxy(&["info"])?, 1, &["px: No such file"])
}

#[test]
fn the_options_of_a_proxy_are_in_its_certificate() -> Result<()> {
    let home = Home::new()?;
    for (args, format, rights, kind) in [
        (
            &["--rfc"][..],
            "rfc",
            "full",
            "RFC 3820 compliant impersonation proxy",
        ),
        (
            &["--limited"],
            "rfc",
            "limited",
            "RFC 3820 compliant limited proxy",
        ),
        (
            &["--independent"],
            "rfc",
            "independent",
            "RFC 3820 compliant independent proxy",
        ),
        (
            &["--draft"],
            "draft",
            "full",
            "Proxy draft (pre-RFC) compliant impersonation proxy",
        ),
        (
            &["--draft", "--limited"],
            "draft",
            "limited",
            "Proxy draft (pre-RFC) compliant limited proxy",
        ),
        (&["--legacy"], "legacy", "full", "full legacy globus proxy"),
        (
            &["--old", "--limited"],
            "legacy",
            "limited",
            "limited legacy globus proxy",
        ),
    ] {
        let made = home.made(args)?;
        let facts = [&made["format"], &made["rights"], &made["type"]];
        ensure!(facts == [format, rights, kind], "{args:?}: {made}");
    }
    Ok(())
}

#[test]
fn the_limits_of_a_proxy_bind_those_below_it() -> Result<()> {
    let home = Home::new()?;
    let made = home.made(&["--path-length", "0", "--bits", "3072", "--valid", "1:30"])?;
    ensure!(
        made["path_length"] == 0 && made["strength"] == 3072,
        "{made}"
    );
    ensure!(made["timeleft"] == 5400, "{made}");
    let refused = home.proxy(&["init", "--cert", "px"])?;
    fails(
        &refused,
        1,
        &["the path length of", "allows no proxy below it"],
    )?;

    // A proxy of a proxy, in a file of its own.
    let above = home.made(&["--hours", "2", "--limited", "--draft"])?;
    fails(
        &home.proxy(&["init", "--cert", "px"])?,
        1,
        &["ask for a limited proxy"],
    )?;
    let below = home.made(&[
        "--cert",
        "px",
        "--hours",
        "1",
        "--limited",
        "--out",
        "below",
    ])?;
    ensure!(
        below["issuer"] == above["subject"]
            && below["identity"] == "/O=Grid/OU=Lab/CN=Alice Lab"
            && below["format"] == "draft"
            && below["path"] == "below",
        "{below}"
    );
    Ok(())
}

#[test]
fn contradictory_options_are_refused() -> Result<()> {
    let home = Home::new()?;
    for wrong in [
        &["--limited", "--independent"][..],
        &["--rfc", "--draft"],
        &["--bits", "1024"],
        &["--hours", "0"],
        &["--valid", "1"],
        &["--key", "x"],
    ] {
        fails(&home.proxy(&[&["init"], wrong].concat())?, 2, &["error: "])?;
    }
    Ok(())
}

#[test]
fn a_proxy_ends_with_its_certificate_at_the_latest() -> Result<()> {
    let home = Home::new()?;
    let made = home.proxy(&["init", "--hours", "4294967295"])?.ok()?;
    let warning = "it expires with the certificate of /O=Grid/OU=Lab/CN=Alice Lab at 2049-01-01T";
    ensure!(made.stderr.contains(warning), "{}", made.report());
    let shown = home.proxy(&["info"])?.ok()?.stdout;
    ensure!(shown.trim_end().ends_with(" days)"), "{shown}");

    let old = home.grid.issue("Old", &[], xio_testkit::Validity::Expired);
    let _ = home.grid.store(&old, "old");
    fails(
        &home.proxy(&["init", "--cert", "old", "--out", "none"])?,
        1,
        &["/O=Grid/OU=Lab/CN=Old has expired"],
    )?;
    ensure!(!home.path("none").exists());
    // It is shown nevertheless.
    let left = home
        .proxy(&["info", "-f", "old", "--timeleft", "--type"])?
        .ok()?
        .stdout;
    ensure!(left == "end entity credential\n0\n", "{left}");
    fails(&home.proxy(&["info", "-f", "old", "--exists"])?, 1, &[])
}

#[test]
fn facts_are_shown_one_by_one_and_exists_ends_with_a_status() -> Result<()> {
    let home = Home::new()?;
    let made = home.made(&["--hours", "2"])?;
    let shown = home.proxy(&[
        "info",
        "--path",
        "--subject",
        "--issuer",
        "--identity",
        "--strength",
    ])?;
    let shown = shown.ok()?.stdout;
    let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
    let path = home.path("px").display().to_string();
    let wanted = [
        text("subject"),
        text("issuer"),
        text("identity"),
        "2048".to_owned(),
        path,
    ];
    ensure!(shown.lines().eq(wanted), "{shown}");
    for (args, status) in [
        (&[][..], 0),
        (&["--valid", "1:59"], 0),
        (&["--valid", "2:01"], 1),
        (&["--bits", "2048"], 0),
        (&["--bits", "4096"], 1),
        (&["--file", "gone"], 1),
    ] {
        let asked = home.proxy(&[&["info", "--exists"], args].concat())?;
        ensure!(
            asked.status.code() == Some(status),
            "{args:?}: {}",
            asked.report()
        );
        ensure!(asked.stdout.is_empty(), "{}", asked.report());
    }
    fails(&home.proxy(&["info", "--valid", "1:00"])?, 2, &["--exists"])?;
    // Others may not read it.
    fs::set_permissions(home.path("px"), fs::Permissions::from_mode(0o640))?;
    fails(
        &home.proxy(&["info"])?,
        1,
        &["px: its mode 0640", "chmod 600"],
    )
}

#[test]
fn a_proxy_without_trust_is_a_warning_and_refused_with_verify() -> Result<()> {
    let home = Home::new()?;
    let other = Grid::new();
    other.revoke(&["Alice Lab"]);
    let revoked = other.certificates().display().to_string();
    for (directory, needle) in [("empty", "empty"), (&revoked, "revoked it")] {
        let args = ["init", "--cert-dir", directory];
        let strict = home.proxy(&[&args[..], &["--verify"]].concat())?;
        fails(&strict, 1, &["gridftp-cp: proxy: ", needle])?;
        ensure!(!home.path("px").exists(), "{}", strict.report());
        let warned = home.proxy(&args)?.ok()?;
        ensure!(
            warned.stderr.contains("servers may refuse this proxy: ")
                && warned.stderr.contains(needle),
            "{}",
            warned.report()
        );
        home.proxy(&["destroy"])?.ok()?;
    }
    home.made(&["--verify"])?;
    Ok(())
}

#[test]
fn a_missing_or_unprotected_certificate_is_named() -> Result<()> {
    let home = Home::new()?;
    let key = "home/.globus/userkey.pem";
    fs::set_permissions(home.path(key), fs::Permissions::from_mode(0o644))?;
    fails(&home.proxy(&["init"])?, 1, &["userkey.pem: its mode 0644"])?;
    fs::remove_file(home.path("home/.globus/usercert.pem"))?;
    fails(
        &home.proxy(&["init"])?,
        1,
        &["usercert.pem: no such user certificate", "--cert"],
    )?;
    let mut command = home.command(&["init"])?;
    command.env("X509_USER_CERT", home.path("nowhere"));
    fails(
        &run(&mut command, LIMIT)?,
        1,
        &["nowhere: no such user certificate"],
    )
}

#[test]
fn a_link_in_the_place_of_a_proxy_is_replaced_and_not_followed() -> Result<()> {
    let home = Home::new()?;
    let (victim, place) = (home.write("victim", "mine"), home.path("px"));
    symlink(&victim, &place)?;
    home.proxy(&["init"])?.ok()?;
    ensure!(fs::symlink_metadata(&place)?.is_file());
    ensure!(fs::read_to_string(&victim)? == "mine");

    fs::remove_file(&place)?;
    fs::create_dir(&place)?;
    fails(
        &home.proxy(&["init"])?,
        1,
        &["px: there is no regular file there: name another one with --out"],
    )?;
    fs::remove_dir(&place)?;
    if is_root() {
        for is_link in [true, false] {
            match is_link {
                true => symlink(&victim, &place)?,
                false => fs::write(&place, "theirs")?,
            }
            std::os::unix::fs::lchown(&place, Some(54321), None)?;
            fails(
                &home.proxy(&["init"])?,
                1,
                &["px: user 54321 has a file there: remove it, or name another one with --out"],
            )?;
            ensure!(fs::read_to_string(&victim)? == "mine");
            fs::remove_file(&place)?;
        }
    }
    Ok(())
}

#[test]
fn only_proxies_are_destroyed() -> Result<()> {
    let home = Home::new()?;
    home.made(&[])?;
    home.made(&["--out", "second"])?;
    let user = home.grid.store(&home.grid.user("Alice Lab"), "user");
    let before = fs::read(&user)?;
    symlink(home.path("px"), home.path("link"))?;
    let text = home.write("text", "important");
    let finished = home.proxy(&["destroy", "user", "link", "text", "home", "second"])?;
    fails(
        &finished,
        1,
        &[
            "user: it holds no proxy",
            "text: it holds no proxy",
            "link: ",
            "home: ",
        ],
    )?;
    ensure!(fs::read(&user)? == before && fs::read_to_string(text)? == "important");
    ensure!(home.path("px").exists() && !home.path("second").exists());
    Ok(())
}

#[test]
fn a_file_called_proxy_is_copied_with_its_folder_before_it() -> Result<()> {
    let bed = Bed::new()?;
    let url = bed.url("copy");
    bed.here.file("proxy", 1000, 1)?;
    let hint = "A file called proxy is copied as ./proxy.";
    fails(
        &bed.cp(&["proxy", &url])?,
        2,
        &["unrecognized subcommand", hint],
    )?;
    bed.cp(&["./proxy", &url])?.ok()?;
    bed.same("proxy", "copy")?;
    bed.here.file("proxy", 2000, 2)?;
    bed.cp(&["-q", "proxy", &url])?.ok()?;
    bed.same("proxy", "copy")?;
    bed.here.file("help", 3000, 3)?;
    bed.cp(&["help", &url])?.ok()?;
    bed.same("help", "copy")?;
    let help = bed.cp(&["proxy", "--help"])?.ok()?.stdout;
    ensure!(help.contains("is copied as ./proxy"), "{help}");
    let man = bed.cp(&["--man"])?.ok()?.stdout;
    for page in [
        "gridftp-cp-proxy-init",
        "gridftp-cp-proxy-info",
        "gridftp-cp-proxy-destroy",
    ] {
        ensure!(man.contains(&format!(".TH {page} 1")), "no {page} in {man}");
    }
    Ok(())
}

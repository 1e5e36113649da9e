//! Copies through the system's ssh: a server process on the host, started for the copy.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Finished, Peer, Sshd, Tree, binary, file_url, is_root, run, same_file, same_tree,
};
use xio_testkit::Grid;

use crate::bed::LIMIT;

/// An ssh server, and a tree that stands for the host's files.
struct Bed {
    sshd: Sshd,
    host: Tree,
    local: Tree,
    _keys: Tree,
}

impl Bed {
    fn new() -> Result<Option<Self>> {
        let keys = Tree::new()?;
        let programs = binary("gridftp-server")?;
        let programs = programs.parent().context("no folder of programs")?;
        let Some(sshd) = Sshd::start(keys.root(), programs, "interop: copies through ssh")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            sshd,
            host: Tree::new()?,
            local: Tree::new()?,
            _keys: keys,
        }))
    }

    fn copy(&self, words: &[&str]) -> Result<Finished> {
        let mut command = Command::new(binary("gridftp-cp")?);
        command.env("PATH", self.sshd.path()).args(words);
        run(&mut command, LIMIT)
    }

    /// The path of a file of the host.
    fn there(&self, name: &str) -> String {
        self.host.path(name).display().to_string()
    }

    fn here(&self, name: &str) -> String {
        self.local.path(name).display().to_string()
    }
}

#[test]
fn files_and_trees_go_both_ways() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    bed.local.file("tree/large", 20_000_003, 7)?;
    for n in 0..50 {
        bed.local.file(&format!("tree/small/{n}"), 1000 + n, n)?;
    }
    let up = format!("dtn:{}", bed.there("up"));
    bed.copy(&["-r", &bed.here("tree/"), &up])?.ok()?;
    same_tree(&bed.host.path("up"), &bed.local.path("tree"))?;
    for mode in ["stream", "extended"] {
        let url = format!("sshftp://dtn{}", bed.there("up/large"));
        let back = bed.here(mode);
        bed.copy(&["--mode", mode, &url, &back])?.ok()?;
        same_file(&bed.local.path(mode), &bed.host.path("up/large"))?;
    }
    let listed = bed
        .copy(&["--list", &format!("sshftp://dtn{}/", bed.there("up"))])?
        .ok()?;
    ensure!(listed.stdout.contains("large"), "{}", listed.report());
    Ok(())
}

#[test]
fn one_host_copies_to_another_directly() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    bed.host.file("from", 5_000_011, 3)?;
    let (from, to) = (bed.there("from"), bed.there("to"));
    bed.copy(&[&format!("dtn:{from}"), &format!("dtn2:{to}")])?
        .ok()?;
    same_file(&bed.host.path("to"), &bed.host.path("from"))
}

#[test]
fn a_failure_of_ssh_is_told_in_its_own_words() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    let to = bed.here("x");
    for (source, flags, words) in [
        ("sshftp://127.0.0.1:1/x", &[][..], "Connection refused"),
        (
            "dtn:/x",
            &["--remote-program", "/no/such/server"],
            "/no/such/server",
        ),
        (
            "sshftp://no-such-host.invalid/x",
            &[],
            "no-such-host.invalid",
        ),
    ] {
        let failed = bed
            .copy(&[flags, &["--retries", "0", source, &to]].concat())?
            .failed()?;
        ensure!(
            failed.stderr.contains(words),
            "{source}: {}",
            failed.report()
        );
        ensure!(fs::exists(&to).is_ok_and(|there| !there), "{source}");
    }
    Ok(())
}

/// The entry of the Globus server for ssh, as `globus-gridftp-server-enable-sshftp` makes it, with
/// this directory of authorities; `None` where the server is not installed.
fn globus_entry(bed: &Bed, authorities: &Path) -> Result<Option<String>> {
    let Some(server) = Peer::GlobusServer.require("interop: copies through ssh") else {
        return Ok(None);
    };
    let account = if is_root() {
        "-allow-root -anonymous-user root"
    } else {
        ""
    };
    let server = server.get_program().display();
    let authorities = authorities.display();
    let line = format!("X509_CERT_DIR={authorities} exec {server} -ssh {account}");
    let entry = bed.host.path("sshftp");
    fs::write(&entry, format!("#!/bin/sh\n{line}\n"))?;
    fs::set_permissions(&entry, fs::Permissions::from_mode(0o755))?;
    Ok(Some(entry.display().to_string()))
}

/// Data is private by `DCSC`, which the Globus server takes, unless clear text is asked for.
#[test]
fn the_globus_server_is_started_by_our_client() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    let grid = Grid::new();
    let Some(entry) = globus_entry(&bed, &grid.certificates())? else {
        return Ok(());
    };
    bed.local.file("file", 3_000_017, 10)?;
    let (file, back) = (bed.here("file"), bed.here("back"));
    let url = format!("sshftp://dtn{}", bed.there("copy"));
    for (protect, told) in [
        (&[][..], "control ssh, data private, DCAU session"),
        (
            &["--protect", "safe"],
            "control ssh, data safe, DCAU session",
        ),
        (
            &["--protect", "clear"],
            "control ssh, data clear, DCAU none",
        ),
    ] {
        for mode in ["stream", "extended"] {
            let flags = ["-v", "--remote-program", &entry, "--mode", mode];
            let copy = |from: &str, to: &str| -> Result<Finished> {
                bed.copy(&[&flags[..], protect, &[from, to]].concat())?.ok()
            };
            for done in [copy(&file, &url)?, copy(&url, &back)?] {
                ensure!(done.stderr.contains(told), "{}", done.report());
            }
            same_file(&bed.local.path("back"), &bed.local.path("file"))?;
            fs::remove_file(&back)?;
            fs::remove_file(bed.host.path("copy"))?;
        }
    }
    Ok(())
}

/// The Globus server takes no credential without a directory of authorities, although it needs none.
#[test]
fn a_server_that_cannot_protect_data_is_refused() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    let Some(entry) = globus_entry(&bed, "/nonexistent".as_ref())? else {
        return Ok(());
    };
    bed.local.file("file", 1000, 10)?;
    let (file, url) = (bed.here("file"), format!("dtn:{}", bed.there("copy")));
    let flags = ["--remote-program", &entry, "--retries", "0"];
    let failed = bed.copy(&[&flags[..], &[&file, &url]].concat())?.failed()?;
    for words in ["DCSC", "Credential import failed", "--protect clear"] {
        ensure!(failed.stderr.contains(words), "{}", failed.report());
    }
    ensure!(!bed.host.path("copy").exists(), "nothing is sent");
    bed.copy(&[&flags[..], &["--protect", "clear", &file, &url]].concat())?
        .ok()?;
    same_file(&bed.host.path("copy"), &bed.local.path("file"))
}

/// A Globus server and ours get one credential of the session.
#[test]
fn the_globus_server_and_ours_copy_to_each_other() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    let grid = Grid::new();
    let Some(entry) = globus_entry(&bed, &grid.certificates())? else {
        return Ok(());
    };
    // The first session has the Globus server, and the second ours.
    let both = bed.host.path("either");
    let ours = binary("gridftp-server")?;
    let turn = bed.host.path("turn");
    fs::write(
        &both,
        format!(
            "#!/bin/sh\nif mkdir {} 2>/dev/null; then exec {entry}; fi\nexec {} --stdio\n",
            turn.display(),
            ours.display()
        ),
    )?;
    fs::set_permissions(&both, fs::Permissions::from_mode(0o755))?;
    bed.host.file("from", 3_000_017, 11)?;
    let (from, to) = (bed.there("from"), bed.there("to"));
    let both = both.display().to_string();
    let done = bed
        .copy(&[
            "-v",
            "--remote-program",
            &both,
            &format!("dtn:{from}"),
            &format!("dtn2:{to}"),
        ])?
        .ok()?;
    ensure!(done.stderr.contains("data private"), "{}", done.report());
    ensure!(turn.exists(), "the Globus server took part");
    same_file(&bed.host.path("to"), &bed.host.path("from"))
}

#[test]
fn globus_url_copy_starts_our_server() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    let grid = Grid::new();
    // Its helper runs ssh by its path, and puts these words behind the name of the host.
    let remote = format!("-F {} gridftp-server --stdio", bed.sshd.config().display());
    let port = bed.sshd.addr().port();
    bed.local.file("file", 3_000_017, 12)?;
    let url = format!("sshftp://dtn:{port}{}", bed.there("copy"));
    let (file, back) = (
        file_url(&bed.local.path("file")),
        file_url(&bed.local.path("back")),
    );
    for flags in [
        &[][..],
        &["-p", "4"],
        &["-data-cred", "auto"],
        &["-data-cred", "auto", "-dcpriv"],
        &["-data-cred", "auto", "-dcpriv", "-p", "4"],
    ] {
        for (from, to) in [(&file, &url), (&url, &back)] {
            let Some(mut client) = Peer::GlobusUrlCopy.require("interop: copies through ssh")
            else {
                return Ok(());
            };
            client.env("GLOBUS_REMOTE_SSHFTP", &remote);
            // It wants a directory for credentials of its own too.
            client.env("X509_CERT_DIR", grid.certificates());
            run(client.args(flags).args([from, to]), LIMIT)?
                .ok()
                .with_context(|| format!("{flags:?}"))?;
        }
        same_file(&bed.local.path("back"), &bed.local.path("file"))?;
        fs::remove_file(bed.local.path("back"))?;
        fs::remove_file(bed.host.path("copy"))?;
    }
    Ok(())
}

#[test]
fn the_protection_of_both_channels_is_told() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    bed.host.file("file", 1000, 1)?;
    let (url, to) = (format!("dtn:{}", bed.there("file")), bed.here("copy"));
    let told = bed.copy(&["-v", &url, &to])?.ok()?;
    let line = "control ssh, data private, DCAU session";
    ensure!(told.stderr.contains(line), "{}", told.report());
    let told = bed
        .copy(&["--json", "--protect", "clear", &url, &to])?
        .ok()?;
    let fields = r#""control":"ssh","data":"clear","dcau":"none""#;
    ensure!(told.stdout.contains(fields), "{}", told.report());
    Ok(())
}

/// Runs the commands of the manual's page, with `/srv` in a folder of the test.
#[test]
fn the_commands_of_the_manual_succeed() -> Result<()> {
    let Some(bed) = Bed::new()? else {
        return Ok(());
    };
    let manual = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../gridftp-server/src/manual/ssh.rs"
    );
    let manual = fs::read_to_string(manual)?;
    let (_, block) = manual.split_once("//! ```sh\n").context("no commands")?;
    let (block, _) = block
        .split_once("//! ```")
        .context("the block does not end")?;
    fs::create_dir(bed.host.path("data"))?;
    bed.local.file("results/run7", 100_003, 1)?;
    for line in block.lines() {
        let line = line
            .trim_start_matches("//! ")
            .replace("/srv", &bed.there(""));
        let line = line.replace(&bed.there(""), bed.there("").trim_end_matches('/'));
        let programs = binary("gridftp-cp")?;
        let programs = programs.parent().context("no folder")?.display();
        let mut shell = Command::new("sh");
        shell
            .args(["-ec", &line])
            .current_dir(bed.local.root())
            .env("PATH", format!("{programs}:{}", bed.sshd.path()));
        run(&mut shell, LIMIT)?.ok()?;
    }
    same_file(&bed.host.path("data/copy"), &bed.local.path("results/run7"))?;
    same_file(&bed.local.path("run7"), &bed.local.path("results/run7"))
}

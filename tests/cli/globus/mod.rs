//! `gridftp-cp --globus`: each option of `globus-url-copy`, by itself and beside the real program.

mod ends;
mod environment;
mod lists;
mod rates;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Finished, Host, Peer, Reaction, ScriptedServer, Tree, binary, file_url, run,
};

use crate::{Bed, LIMIT, command, fails};

/// Runs the program under the name of the other, which a link gives it.
fn globus(here: &Tree, words: &[&str]) -> Result<Finished> {
    let link = here.path("globus-url-copy");
    if !link.exists() {
        std::os::unix::fs::symlink(binary("gridftp-cp")?, &link)?;
    }
    let mut command = Command::new(&link);
    command
        .current_dir(here.root())
        .args(words)
        .env("HOME", here.root());
    run(&mut command, LIMIT)
}

/// Runs the real program; nothing where it is not installed.
fn real(here: &Tree, words: &[&str]) -> Result<Option<Finished>> {
    let Some(mut command) = Peer::GlobusUrlCopy.require("cli") else {
        return Ok(None);
    };
    run(command.current_dir(here.root()).args(words), LIMIT).map(Some)
}

/// Options that take effect or need none, with their values: each copies a file as a whole.
const HONOURED: &[&[&str]] = &[
    &[],
    &["-c"],
    &["-continue-on-error"],
    &["-b"],
    &["-binary"],
    &["-cd"],
    &["-create-dest"],
    &["-r"],
    &["-recurse"],
    &["-fast"],
    &["-t", "60"],
    &["-t", "0"],
    &["-transfer-time", "60"],
    &["-fast-data-channels"],
    &["-fast", "-p", "2"],
    &["-rst", "-restart-retries", "1", "-restart-interval", "1"],
    &["-rst", "-restart-timeout", "60"],
    &["-IPv6"],
    &["-gridftp2"],
    &["-pipelineq", "20"],
    &["-checksum"],
    &["-checksum", "-algo", "SHA256"],
    &["-sync", "-sync-level", "3", "-checksum-alg", "SHA256"],
    &["-cp"],
    &["-copy-perms"],
    &["-allocate"],
    &["-q"],
    &["-quiet"],
    &["-v"],
    &["-verbose"],
    &["-vb"],
    &["-verbose-perf"],
    &["-dbg"],
    &["-debugftp"],
    &["-rst"],
    &["-restart", "-rst-retries", "0", "-rst-interval", "1"],
    &["-rst", "-rst-timeout", "60"],
    &["-stall-timeout", "60"],
    &["-st", "0"],
    &["-tcp-bs", "65536"],
    &["-tcp-buffer-size", "65536"],
    &["-bs", "65536"],
    &["-block-size", "65536"],
    &["-p", "3"],
    &["-parallel", "3"],
    &["-notpt"],
    &["-no-third-party-transfers"],
    &["-nodcau"],
    &["-no-data-channel-authentication"],
    &["-stripe"],
    &["-striped", "-sbs", "65536"],
    &["-stripe", "-striped-block-size", "0"],
    &["-ipv6"],
    &["-no-g2"],
    &["-nogridftp2"],
    &["-nog2"],
    &["-g2"],
    &["-pp"],
    &["-pipeline", "-ppq", "20"],
    &["-cc", "3"],
    &["-concurrency", "3"],
    &["-sync"],
    &["-sync", "-sync-level", "0"],
    &["-sync", "-sync-level", "1"],
    &["-sync", "-sync-level", "3"],
    &["-verify-checksum"],
    &["-verify-checksum", "-checksum-alg", "SHA256"],
    &["-preserve"],
    &["-allo"],
    &["-ss", "/CN=x"],
    &["-ds", "/CN=x"],
    &["-source-subject", "/CN=x"],
    &["-dest-subject", "/CN=x"],
    &["-s", "/CN=x"],
    &["-subject", "/CN=x"],
    &["-data-cred", "auto"],
    &["-dcstack", "tcp"],
    &["-udt"],
    &["-u"],
    &["-fsstack", "file"],
    &["-file-system-stack", "file"],
    &["-data-channel-stack", "tcp,gsi"],
];

/// Options that cannot be honoured, with their values.
const REFUSED: &[&[&str]] = &[
    &["-a"],
    &["-ascii"],
    &["-dp"],
    &["-delayed-pasv"],
    &["-mn", "x"],
    &["-module-name", "x"],
    &["-mp", "x"],
    &["-module-parameters", "x"],
    &["-smn", "x"],
    &["-src-module-name", "x"],
    &["-smp", "x"],
    &["-src-module-parameters", "x"],
    &["-dmn", "x"],
    &["-dst-module-name", "x"],
    &["-dmp", "x"],
    &["-dst-module-parameters", "x"],
    &["-aa", "x"],
    &["-authz-assert", "x"],
    &["-saa", "x"],
    &["-src-authz-assert", "x"],
    &["-daa", "x"],
    &["-dst-authz-assert", "x"],
    &["-cache-aa"],
    &["-cache-authz-assert"],
    &["-cache-saa"],
    &["-cache-src-authz-assert"],
    &["-cache-daa"],
    &["-cache-dst-authz-assert"],
    &["-nlb"],
    &["-nl-bottleneck"],
    &["-src-pipe", "x"],
    &["-SP", "x"],
    &["-sp", "x"],
    &["-dst-pipe", "x"],
    &["-DP", "x"],
    &["-pipe", "x"],
    &["-src-dcstack", "x"],
    &["-source-data-channel-stack", "x"],
    &["-src-fsstack", "x"],
    &["-source-file-system-stack", "x"],
    &["-dst-dcstack", "x"],
    &["-dest-data-channel-stack", "x"],
    &["-dst-fsstack", "x"],
    &["-dest-file-system-stack", "x"],
    &["-data-cred", "x"],
    &["-af", "x"],
    &["-alias-file", "x"],
    &["-no-allo"],
    &["-no-allocate"],
    &["-nli", "1"],
    &["-nl-interval", "1"],
    &["-P", "x"],
    &["-X", "x"],
    &["-extentions", "x"],
    &["-MC", "x"],
    &["-multicast", "x"],
    &["-CP", "x"],
    &["-plugin", "x"],
];

/// Names of the manual page and of the program that its help does not tell.
const UNTOLD: &str = "-usage -g2 -gridftp2 -sp -src-pipe -DP -pipe -P -algo -checksum -cp -copy-perms -preserve \
                      -transfer-time -filename -list-url -ppq -pipelineq -IPv6 -allo -allocate -no-allo \
                      -no-allocate -fast-data-channels -restart-retries -restart-interval -restart-timeout \
                      -MC -multicast -CP -plugin -X -extentions -nli -nl-interval -striped -u";

/// Options with a test of their own.
const OTHERS: &[&str] = &[
    "-help",
    "-usage",
    "-version",
    "-versions",
    "-f",
    "-filename",
    "-df",
    "-dumpfile",
    "-do",
    "-dump-only",
    "-rp",
    "-relative-paths",
    "-off",
    "-partial-offset",
    "-len",
    "-partial-length",
    "-list",
    "-list-url",
    "-dcsafe",
    "-data-channel-safe",
    "-dcpriv",
    "-data-channel-private",
    "-cred",
    "-src-cred",
    "-sc",
    "-dst-cred",
    "-dc",
];

#[test]
fn each_option_is_honoured_or_refused() -> Result<()> {
    let stacks = ["--net-stacks", "tcp,udt", "--disk-stacks", "file"];
    let mut bed = Bed::new()?;
    bed.server = Host::ours_with(bed.there.root(), &stacks)?;
    bed.here.file("a", 300_001, 3)?;
    let (from, to) = (file_url(&bed.here.path("a")), bed.url("b"));
    for options in HONOURED {
        let words = [options, &[from.as_str(), &to][..]].concat();
        globus(&bed.here, &words)?
            .ok()
            .with_context(|| format!("{options:?}"))?;
        bed.same("a", "b").with_context(|| format!("{options:?}"))?;
        fs::remove_file(bed.there.path("b"))?;
    }
    for options in REFUSED {
        let words = [options, &[from.as_str(), &to][..]].concat();
        let told = globus(&bed.here, &words)?;
        fails(&told, 1, &["Error, argument #1", options[0]])?;
        ensure!(bed.there.names("")?.is_empty(), "{options:?} copied");
    }
    let told = globus(&bed.here, &["-frob", &from, &to])?;
    fails(&told, 1, &["argument #1 (-frob) : unknown option"])
}

#[test]
fn a_value_of_other_bytes_than_utf_8_is_refused() -> Result<()> {
    let here = Tree::new()?;
    let mut command = command(&here, &["--globus", "-dcstack"])?;
    let told = run(command.arg(OsStr::from_bytes(b"\xff")), LIMIT)?;
    fails(&told, 1, &["argument #1 (-dcstack) : it is no text"])
}

#[test]
fn no_option_of_the_real_program_is_forgotten() -> Result<()> {
    let Some(help) = real(&Tree::new()?, &["-help"])? else {
        return Ok(());
    };
    let text = [help.stdout.as_str(), &help.stderr].concat();
    let lines = text.lines().filter(|line| line.starts_with("  -"));
    let named: BTreeSet<_> = lines
        .flat_map(|line| line.split([' ', '|']))
        .filter(|word| word.starts_with('-'))
        .map(|word| word.trim_end_matches('.'))
        .collect();
    ensure!(named.len() > 100, "{named:?}");
    all_are_tested(&named)
}

#[test]
fn no_name_of_the_manual_is_forgotten() -> Result<()> {
    all_are_tested(&UNTOLD.split_whitespace().collect())
}

#[test]
fn an_option_with_a_test_of_its_own_is_in_one() -> Result<()> {
    let text = [include_str!("mod.rs"), include_str!("lists.rs")].concat();
    for name in OTHERS {
        let told = text.matches(&format!("\"{name}\"")).count();
        ensure!(told > 1, "{name} is in no test");
    }
    Ok(())
}

fn all_are_tested(named: &BTreeSet<&str>) -> Result<()> {
    let tested = HONOURED.iter().chain(REFUSED).flat_map(|row| row.iter());
    let tested: BTreeSet<_> = tested.chain(OTHERS).copied().collect();
    let missing: Vec<_> = named.difference(&tested).collect();
    ensure!(missing.is_empty(), "{missing:?}");
    Ok(())
}

#[test]
fn options_reach_the_server() -> Result<()> {
    let tree = Tree::new()?;
    tree.file("a", 30, 1)?;
    let from = file_url(&tree.path("a"));
    let server = ScriptedServer::start(|line| match line {
        _ if line.starts_with("SITE") || line.starts_with("SBUF") => Reaction::say("200 done"),
        _ => Reaction::Usual,
    })?;
    globus(&tree, &["-tcp-bs", "65536", &from, &server.url("a")])?.ok()?;
    let commands = server.commands();
    ensure!(
        commands.iter().any(|line| line.ends_with(" 65536")),
        "{commands:?}"
    );
    // The file has the same size at its destination.
    let before = server.count("STOR");
    let words = ["-sync", "-sync-level", "1", &from, &server.url("a")];
    globus(&tree, &words)?.ok()?;
    ensure!(server.count("STOR") == before, "{:?}", server.commands());
    // Without -rst a refusal for now ends it.
    let mut tries = Vec::new();
    for flags in [
        &[][..],
        &["-rst", "-rst-retries", "2", "-rst-interval", "1"],
    ] {
        let server = ScriptedServer::start(|line| match line.starts_with("STOR") {
            true => Reaction::say("450 busy"),
            false => Reaction::Usual,
        })?;
        let to = server.url("a");
        let told = globus(&tree, &[flags, &[from.as_str(), &to][..]].concat())?;
        ensure!(!told.status.success(), "{}", told.report());
        tries.push(server.count("STOR"));
    }
    ensure!(tries[0] > 0 && tries[1] == 3 * tries[0], "{tries:?}");
    Ok(())
}

#[test]
fn modes_are_preserved_and_files_are_compared_with_the_algorithm() -> Result<()> {
    let bed = Bed::new()?;
    let file = bed.here.file("a", 3_000, 3)?;
    fs::set_permissions(&file, Permissions::from_mode(0o640))?;
    let (from, to) = (file_url(&file), bed.url("a"));
    for flag in ["-cp", "-copy-perms", "-preserve"] {
        globus(&bed.here, &[flag, &from, &to])?.ok()?;
        let mode = fs::metadata(bed.there.path("a"))?.permissions().mode();
        ensure!(mode & 0o777 == 0o640, "{flag}: {mode:o}");
        fs::remove_file(bed.there.path("a"))?;
    }
    globus(&bed.here, &[&from, &to])?.ok()?;
    let stored = fs::metadata(bed.there.path("a"))?.ino();
    for name in ["SHA512", "ADLER32"] {
        let words = ["-dbg", "-sync", "-sync-level", "3", "-algo", name];
        let told = globus(&bed.here, &[&words[..], &[from.as_str(), &to][..]].concat())?.ok()?;
        let asked = format!("CKSM {name} 0 -1");
        ensure!(told.stderr.contains(&asked), "{}", told.report());
        let now = fs::metadata(bed.there.path("a"))?.ino();
        ensure!(now == stored, "it is stored again: {}", told.report());
    }
    Ok(())
}

#[test]
fn output_is_that_of_the_real_program() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("dir/a", 30_001, 3)?;
    bed.there.file("tree/x", 5, 3)?;
    bed.there.file("tree/sub/y", 5, 3)?;
    let dir = file_url(&bed.here.path("dir"));
    let (file, there) = (format!("{dir}/a"), bed.url("there/"));
    let dir = format!("{dir}/");
    let (other, none) = (bed.url("tree/other"), bed.url("none"));
    for words in [
        &["-v", "-cd", "-r", &dir, &there][..],
        &["-v", &file, &other],
        &["-vb", &file, &other],
        &["-q", &file, &other],
        &["-list", &bed.url("tree/sub/")],
        &["-v", &none, &file_url(&bed.here.path("got"))],
        &["-c", "-v", &none, &file_url(&bed.here.path("got"))],
        &["-do", "plan", "-cd", "-r", &dir, &there],
        &["-df", "left", &none, &file_url(&bed.here.path("got"))],
    ] {
        let Some(theirs) = real(&bed.here, words)? else {
            return Ok(());
        };
        // Their files have further words.
        let dumped = |name: &str| -> Result<Option<String>> {
            let path = bed.here.path(name);
            if !path.exists() {
                return Ok(None);
            }
            let text = fs::read_to_string(&path)?;
            fs::remove_file(&path)?;
            let two = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
            Ok(Some(text.lines().map(two).collect()))
        };
        let written = [dumped("plan")?, dumped("left")?];
        let ours = globus(&bed.here, words)?;
        ensure!(
            ours.stdout == theirs.stdout && ours.status.code() == theirs.status.code(),
            "{words:?}: {}\n{}",
            ours.report(),
            theirs.report()
        );
        ensure!(
            written == [dumped("plan")?, dumped("left")?],
            "{words:?}: {written:?}"
        );
    }
    Ok(())
}

#[test]
fn protection_is_what_the_options_say() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a", 10_000, 3)?;
    let (from, to) = (file_url(&bed.here.path("a")), bed.url("a"));
    for flag in [
        "-dcsafe",
        "-data-channel-safe",
        "-dcpriv",
        "-data-channel-private",
    ] {
        // There is no protection without a protected login, and no fall-back.
        let told = globus(&bed.here, &[flag, &from, &to])?;
        fails(&told, 1, &["error: "])?;
        ensure!(bed.there.names("")?.is_empty(), "{flag} copied");
    }
    let there = to.replace("ftp://", "gsiftp://");
    for (flag, from, to) in [
        ("-cred", &from, &there),
        ("-dst-cred", &from, &there),
        ("-dc", &from, &there),
        ("-src-cred", &there, &from),
        ("-sc", &there, &from),
    ] {
        let told = globus(&bed.here, &[flag, "nowhere", from, to])?;
        fails(&told, 1, &["nowhere"])?;
    }
    Ok(())
}

#[test]
fn a_bound_on_the_time_is_no_failure() -> Result<()> {
    let bed = Bed::new()?;
    let words = [
        "-t",
        "1",
        "-len",
        "100000000000000",
        "file:///dev/zero",
        &bed.url("a"),
    ];
    let told = globus(&bed.here, &words)?.ok()?;
    ensure!(
        told.stderr.contains("Cancelling copy..."),
        "{}",
        told.report()
    );
    ensure!(!bed.there.path("a").exists(), "a part has the name");
    Ok(())
}

#[test]
fn the_flag_does_what_the_name_does() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a", 10_000, 3)?;
    let (from, to) = (file_url(&bed.here.path("a")), bed.url("a"));
    let told = run(
        &mut command(&bed.here, &["--globus", "-v", &from, &to])?,
        LIMIT,
    )?
    .ok()?;
    ensure!(
        told.stdout.starts_with("Source: file://"),
        "{}",
        told.report()
    );
    bed.same("a", "a")?;
    for flag in ["-help", "-usage"] {
        let told = globus(&bed.here, &[flag])?.ok()?;
        ensure!(
            told.stdout.contains("Syntax: globus-url-copy"),
            "{}",
            told.report()
        );
    }
    for flag in ["-version", "-versions"] {
        let told = globus(&bed.here, &[flag])?.ok()?;
        ensure!(
            told.stderr.contains("globus-url-copy: by gridftp-cp"),
            "{}",
            told.report()
        );
    }
    fails(
        &globus(&bed.here, &[])?,
        1,
        &["source and dest url strings are required"],
    )
}

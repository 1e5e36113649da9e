//! `gridftp-cp --globus`: each option of `globus-url-copy`, by itself and beside the real program.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Finished, Host, Peer, Reaction, ScriptedServer, Tree, binary, file_url, run, same_file,
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

fn all_are_tested(named: &BTreeSet<&str>) -> Result<()> {
    let tested = HONOURED.iter().chain(REFUSED).flat_map(|row| row.iter());
    let tested: BTreeSet<_> = tested.chain(OTHERS).copied().collect();
    let missing: Vec<_> = named.difference(&tested).collect();
    ensure!(missing.is_empty(), "{missing:?}");
    Ok(())
}

/// Runs the program in the environment `set`.
fn globus_with(here: &Tree, set: &[(&str, &str)], words: &[&str]) -> Result<Finished> {
    let mut command = command(here, &[&["--globus"], words].concat())?;
    run(command.envs(set.iter().copied()), LIMIT)
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
fn lines_of_a_list_have_parts() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("a", 10_000, 3)?;
    let whole = fs::read(bed.there.path("a"))?;
    let (from, to) = (bed.url("a"), file_url(&bed.here.path("out")));
    let pairs = format!(
        "{from} {to}/b 1000,500 size=10000;\n{from} {to}/c 9000,-1\n\"{from}\" \"{to}/d\" 0,-1\n"
    );
    fs::write(bed.here.path("pairs"), pairs)?;
    globus(&bed.here, &["-filename", "pairs"])?.ok()?;
    let [b, c, d] = ["b", "c", "d"].map(|name| fs::read(bed.here.path("out").join(name)));
    let (b, c) = (b?, c?);
    ensure!(
        b.len() == 1500 && b[1000..] == whole[1000..1500],
        "{}",
        b.len()
    );
    ensure!(
        c.len() == 10_000 && c[9000..] == whole[9000..],
        "{}",
        c.len()
    );
    ensure!(d? == whole, "d is not whole");
    fs::write(
        bed.here.path("pairs"),
        format!("{from} {to}/e\n{from} {to}/f 1;2\n"),
    )?;
    fails(
        &globus(&bed.here, &["-f", "pairs"])?,
        1,
        &["pairs: line 2: 1;2: "],
    )?;
    ensure!(
        !bed.here.path("out/e").exists(),
        "it begins with a bad list"
    );
    let told = globus(&bed.here, &["-list-url", &bed.url("")])?.ok()?;
    ensure!(told.stdout.contains("    a "), "{}", told.report());
    Ok(())
}

#[test]
fn variables_are_honoured_or_refused() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("a", 10_000, 3)?;
    let (from, to) = (bed.url("a"), file_url(&bed.here.path("a")));
    for name in ["GLOBUS_HOSTNAME", "GLOBUS_FTP_CLIENT_DATA_IP"] {
        // No server connects there, and the copy may go on in another way.
        let words = ["-dbg", "-st", "20", "-fast", &from, &to];
        let told = globus_with(&bed.here, &[(name, "127.0.0.9")], &words)?;
        ensure!(told.stderr.contains("PORT 127,0,0,9,"), "{}", told.report());
    }
    let words = ["-dbg", &from, &to];
    let passive = ("GLOBUS_FTP_CLIENT_SOURCE_PASV", "1");
    let told = globus_with(&bed.here, &[passive], &words)?.ok()?;
    ensure!(!told.stderr.contains("PORT 127"), "{}", told.report());
    bed.same("a", "a")?;
    let range = ("GLOBUS_TCP_SOURCE_RANGE", "42000,42999");
    globus_with(&bed.here, &[range, passive], &words)?.ok()?;
    let both = [from.as_str(), &to];
    for (set, words) in [
        (("GLOBUS_DOMAIN_NAME", "example.org"), &both[..]),
        (("GLOBUS_TCP_SOURCE_RANGE", "many"), &both),
        (("GUC_STALL_TIMEOUT", "soon"), &both),
        (("GLOBUS_REMOTE_SSHFTP", "/opt/x -y"), &both),
        (passive, &["-fast", from.as_str(), &to]),
        (passive, &[to.as_str(), &from]),
    ] {
        let told = globus_with(&bed.here, &[set], words)?;
        fails(&told, 1, &["error: ", set.0])?;
    }
    Ok(())
}

#[test]
fn a_stall_ends_after_the_time_of_the_environment() -> Result<()> {
    let tree = Tree::new()?;
    let server = ScriptedServer::start(|line| match line {
        _ if line.starts_with("MIDWAY RETR") => Reaction::Hold,
        _ => Reaction::Usual,
    })?;
    server.file("/a", vec![1; 100_000]);
    let (from, to) = (server.url("a"), file_url(&tree.path("a")));
    let words = [from.as_str(), &to];
    let told = globus_with(&tree, &[("GUC_STALL_TIMEOUT", "1")], &words)?;
    ensure!(!told.status.success(), "{}", told.report());
    Ok(())
}

/// The session runs on this machine, behind a program that stands for ssh.
#[test]
fn the_program_behind_ssh_is_that_of_the_environment() -> Result<()> {
    let (tree, there) = (Tree::new()?, Tree::new()?);
    there.file("a", 3_000, 1)?;
    let script = "#!/bin/sh\nfor last; do :; done\nexport SSH_CONNECTION='127.0.0.1 4022 127.0.0.1 22'\n\
                  exec sh -c \"$last\"\n";
    fs::write(tree.path("ssh"), script)?;
    fs::set_permissions(tree.path("ssh"), Permissions::from_mode(0o755))?;
    let path = format!("{}:{}", tree.root().display(), std::env::var("PATH")?);
    let program = format!("{} --stdio", binary("gridftp-server")?.display());
    let from = format!("sshftp://dtn{}/a", there.root().display());
    let to = file_url(&tree.path("a"));
    let words = [from.as_str(), &to];
    let with = |program: &str| {
        let set = [("PATH", path.as_str()), ("GLOBUS_REMOTE_SSHFTP", program)];
        globus_with(&tree, &set, &words)
    };
    with(&program)?.ok()?;
    same_file(&tree.path("a"), &there.path("a"))?;
    let told = with("/nonexistent/server")?;
    ensure!(!told.status.success(), "{}", told.report());
    ensure!(
        told.stderr.contains("/nonexistent/server"),
        "{}",
        told.report()
    );
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
fn lists_of_pairs_are_copied_and_those_left_are_written() -> Result<()> {
    let bed = Bed::new()?;
    for name in ["a", "b c", "d"] {
        bed.here.file(name, 3_000, 3)?;
    }
    let line = |from: &str, to: &str| {
        let from = file_url(&bed.here.path(from)).replace(' ', "%20");
        format!("\"{from}\" \"{}\"\n", bed.url(to))
    };
    let pairs = [
        "# all\n\n",
        &line("a", "up/a"),
        &line("none", "up/none"),
        &line("d", "e"),
    ];
    fs::write(bed.here.path("pairs"), pairs.concat())?;
    let told = globus(&bed.here, &["-f", "pairs", "-df", "left"])?;
    fails(&told, 1, &["error: ", "none"])?;
    let left = fs::read_to_string(bed.here.path("left"))?;
    ensure!(left.contains("up/none") && left.contains("d\""), "{left}");
    // Of the files that are left, those that are there are copied now.
    fs::copy(bed.here.path("a"), bed.here.path("none"))?;
    globus(&bed.here, &["-df", "left", "-f", "nowhere"])?.ok()?;
    ensure!(!bed.here.path("left").exists(), "it stays");
    bed.same("a", "up/none")?;
    bed.same("d", "e")?;
    fs::write(bed.here.path("pairs"), line("b c", "f g"))?;
    globus(&bed.here, &["-f", "pairs"])?.ok()?;
    bed.same("b c", "f g")
}

#[test]
fn files_of_a_directory_that_failed_are_left() -> Result<()> {
    let bed = Bed::new()?;
    for name in ["dir/a", "dir/sub/b", "dir/sub/c"] {
        bed.there.file(name, 3_000, 3)?;
    }
    // A directory has the name of a file.
    fs::create_dir_all(bed.here.path("got/sub/b/x"))?;
    let (from, to) = (bed.url("dir/"), file_url(&bed.here.path("got")) + "/");
    let words = ["-c", "-r", "-df", "left", &from, &to];
    fails(&globus(&bed.here, &words)?, 1, &["sub/b"])?;
    let left = fs::read_to_string(bed.here.path("left"))?;
    let line = format!("\"{from}sub/b\" \"{to}sub/b\"\n");
    ensure!(left == line, "{left}");
    fs::remove_dir_all(bed.here.path("got/sub/b"))?;
    globus(&bed.here, &words)?.ok()?;
    ensure!(!bed.here.path("left").exists(), "it stays");
    same_file(&bed.here.path("got/sub/b"), &bed.there.path("dir/sub/b"))
}

#[test]
fn a_failure_ends_the_run_unless_others_go_on() -> Result<()> {
    for (flags, goes_on) in [(&[][..], false), (&["-c"], true)] {
        let bed = Bed::new()?;
        bed.here.file("b", 3_000, 3)?;
        let b = file_url(&bed.here.path("b"));
        let (none, to) = (bed.url("none"), bed.url("b"));
        let got = file_url(&bed.here.path("got"));
        fs::write(bed.here.path("pairs"), format!("{none} {got}\n{b} {to}\n"))?;
        let told = globus(&bed.here, &[flags, &["-f", "pairs"]].concat())?;
        fails(&told, 1, &["none"])?;
        ensure!(bed.there.path("b").exists() == goes_on, "{flags:?}");
        let counted = told.stderr.contains("There was an error with 1 transfer.");
        ensure!(counted == goes_on, "{}", told.report());
    }
    Ok(())
}

#[test]
fn parts_are_copied_and_relative_paths_are_below_home() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("a", 10_000, 3)?;
    let got = bed.here.path("got");
    for offset in ["-off", "-partial-offset"] {
        for length in ["-len", "-partial-length"] {
            let words = [
                offset,
                "1000",
                length,
                "500",
                &bed.url("a"),
                &file_url(&got),
            ];
            globus(&bed.here, &words)?.ok()?;
            let whole = fs::read(bed.there.path("a"))?;
            let part = fs::read(&got)?;
            ensure!(
                part.len() == 1500 && part[1000..] == whole[1000..1500],
                "{words:?}"
            );
            fs::remove_file(&got)?;
        }
    }
    for flag in ["-rp", "-relative-paths"] {
        globus(&bed.here, &[flag, &bed.url("a"), &file_url(&got)])?.ok()?;
        same_file(&got, &bed.there.path("a"))?;
        fs::remove_file(&got)?;
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

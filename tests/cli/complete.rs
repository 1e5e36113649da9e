//! Completions of remote names, by the functions that `--completions` writes.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Finished, Tree, binary, run};

use crate::{Bed, LIMIT};

/// Loads the completions of the program `$1`, and completes the command line `$2`, divided at blanks
/// and colons as by bash.
const SCRIPT: &str = r#"
source <("$1" --completions bash)
COMP_LINE=$2
COMP_POINT=${#COMP_LINE}
IFS=$' \t:' read -ra COMP_WORDS <<<"$COMP_LINE"
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
function=$(complete -p "$1")
function=${function#*-F }
"${function%% *}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// Completes a command line of `program` in the tree.
fn complete(here: &Tree, program: &str, line: &str) -> Result<Finished> {
    let folder = binary("gridftp-cp")?;
    let folder = folder.parent().context("a program has a folder")?.display();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["-c", SCRIPT, "bash", program, line])
        .current_dir(here.root())
        .env("PATH", format!("{folder}:{path}"))
        .env("HOME", here.root())
        .env_remove("NETRC")
        .env_remove("XDG_CONFIG_HOME");
    run(&mut bash, LIMIT)
}

/// The words behind the last colon.
fn words(here: &Tree, program: &str, line: &str) -> Result<Vec<String>> {
    let said = complete(here, program, line)?.ok()?;
    ensure!(said.stderr.is_empty(), "{}", said.report());
    Ok(said.stdout.lines().map(str::to_owned).collect())
}

#[test]
fn names_of_servers_and_places_complete_a_word() -> Result<()> {
    let bed = Bed::new()?;
    for name in ["dir/plain", "dir/a b'$(x)", "dir/pool/x", "dir/other:1"] {
        bed.there.file(name, 1, 1)?;
    }
    let place = format!("[place.lab]\nurl = '{}'\n", bed.url(""));
    std::fs::create_dir_all(bed.here.path(".config/gridftp"))?;
    std::fs::write(bed.here.path(".config/gridftp/config.toml"), place)?;
    let url = bed.url("dir/");
    let (_, behind) = url.rsplit_once(':').context("a URL with a port")?;
    let whole = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("{behind}{name}")).collect()
    };
    for (program, line, expected) in [
        (
            "gridftp-cp",
            format!("gridftp-cp -r {url}p"),
            whole(&["plain", "pool/"]),
        ),
        (
            "gridftp",
            format!("gridftp ls {url}a"),
            whole(&["a%20b%27%24%28x%29"]),
        ),
        (
            "gridftp-cp",
            format!("gridftp-cp {url}a%20"),
            whole(&["a%20b%27%24%28x%29"]),
        ),
        (
            "gridftp-cp",
            format!("gridftp-cp {url}o"),
            whole(&["other%3A1"]),
        ),
        (
            "gridftp-cp",
            "gridftp-cp lab:di".to_owned(),
            vec!["dir/".to_owned()],
        ),
        (
            "gridftp-cp",
            "gridftp-cp x lab:/dir/pl".to_owned(),
            vec!["/dir/plain".to_owned()],
        ),
    ] {
        let found = words(&bed.here, program, &line)?;
        ensure!(found == expected, "{line}: {found:?}");
    }
    // Flags are completed as before.
    let flags = words(&bed.here, "gridftp-cp", "gridftp-cp --no-clob")?;
    ensure!(flags == ["--no-clobber"], "{flags:?}");
    Ok(())
}

#[test]
fn completions_neither_wait_nor_ask() -> Result<()> {
    let here = Tree::new()?;
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let port = silent.local_addr()?.port();
    for account in ["", "ann@"] {
        let line = format!("gridftp-cp ftp://{account}127.0.0.1:{port}/dir/");
        let said = complete(&here, "gridftp-cp", &line)?;
        ensure!(said.stdout.trim().is_empty(), "{}", said.report());
        ensure!(!said.stderr.contains("assword"), "{}", said.report());
        ensure!(said.took < Duration::from_secs(20), "{}", said.report());
    }
    Ok(())
}

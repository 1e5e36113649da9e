//! Completions of remote names, by the functions that `--completions` writes.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Finished, Tree, binary, run};

use crate::{Bed, LIMIT};

/// The file of a tree in which calls are noted.
const NOTED: &str = "calls";

/// Loads the completions of the program `$1`, and completes the command line `$2`, divided as by bash:
/// the word to complete is the part behind the last of `COMP_WORDBREAKS`. The lines are those that
/// result, and the calls of `gridftp-cp` are noted in the file `$3`.
const SCRIPT: &str = r#"
source <("$1" --completions bash)
gridftp-cp() { printf '%s\n' "$*" >>"$noted"; command gridftp-cp "$@"; }
noted=$3
COMP_LINE=$2
COMP_POINT=${#COMP_LINE}
IFS=$COMP_WORDBREAKS read -ra COMP_WORDS <<<"$COMP_LINE"
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
function=$(complete -p "$1")
function=${function#*-F }
word=${COMP_LINE##*[$COMP_WORDBREAKS]}
"${function%% *}" "$1" "$word" "${COMP_WORDS[COMP_CWORD-1]}"
(( ${#COMPREPLY[@]} )) && printf '%s\n' "${COMPREPLY[@]/#/"${COMP_LINE%"$word"}"}"
true
"#;

/// Completes a command line of `program` in the tree.
fn complete(here: &Tree, program: &str, line: &str) -> Result<Finished> {
    let folder = binary("gridftp-cp")?;
    let folder = folder.parent().context("a program has a folder")?.display();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["-c", SCRIPT, "bash", program, line, NOTED])
        .current_dir(here.root())
        .env("PATH", format!("{folder}:{path}"))
        .env("HOME", here.root())
        .env_remove("NETRC")
        .env_remove("XDG_CONFIG_HOME");
    run(&mut bash, LIMIT)
}

/// The command lines that a line may become.
fn lines(here: &Tree, program: &str, line: &str) -> Result<Vec<String>> {
    let said = complete(here, program, line)?.ok()?;
    ensure!(said.stderr.is_empty(), "{}", said.report());
    Ok(said.stdout.lines().map(str::to_owned).collect())
}

#[test]
fn names_of_servers_and_places_complete_a_word() -> Result<()> {
    let bed = Bed::new()?;
    let names = [
        "dir/plain",
        "dir/a b'$(x)",
        "dir/pool/x",
        "dir/other:1",
        "dir/me@home",
        "dir/key=1",
    ];
    for name in names {
        bed.there.file(name, 1, 1)?;
    }
    let place = format!("[place.lab]\nurl = '{}'\n", bed.url(""));
    std::fs::create_dir_all(bed.here.path(".config/gridftp"))?;
    std::fs::write(bed.here.path(".config/gridftp/config.toml"), place)?;
    let url = bed.url("dir/");
    let named = url.replacen("://", "://anonymous@", 1);
    let odd = "a%20b%27%24%28x%29";
    for (before, word, begun, found) in [
        ("gridftp-cp -r", &*url, "p", &["plain", "pool/"][..]),
        ("gridftp-cp -r", &named, "p", &["plain", "pool/"]),
        ("gridftp ls", &url, "a", &[odd]),
        ("gridftp-cp", &url, "a%20", &[odd]),
        ("gridftp-cp", &url, "o", &["other%3A1"]),
        ("gridftp-cp", &url, "me@", &["me@home"]),
        ("gridftp-cp", &url, "key=", &["key=1"]),
        ("gridftp-cp", &url, "other:", &[]),
        ("gridftp-cp", "lab:", "di", &["dir/"]),
        ("gridftp-cp x", "lab:/dir/", "pl", &["plain"]),
    ] {
        let program = before.split(' ').next().unwrap_or_default();
        let line = format!("{before} {word}{begun}");
        let whole = |name: &&str| format!("{before} {word}{name}");
        let expected: Vec<_> = found.iter().map(whole).collect();
        let found = lines(&bed.here, program, &line)?;
        ensure!(found == expected, "{line}: {found:?}");
    }
    // Flags are completed as before.
    let flags = lines(&bed.here, "gridftp-cp", "gridftp-cp --no-clob")?;
    ensure!(flags == ["gridftp-cp --no-clobber"], "{flags:?}");
    Ok(())
}

/// Other users see the arguments of a program.
#[test]
fn the_words_before_are_no_argument_of_a_completion() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("plain", 1, 1)?;
    let url = bed.url("p");
    let line = format!("gridftp-cp ftp://ann:secret@example.org/x {url}");
    let found = lines(&bed.here, "gridftp-cp", &line)?;
    ensure!(found == [format!("{line}lain")], "{found:?}");
    let noted = std::fs::read_to_string(bed.here.path(NOTED))?;
    ensure!(noted == format!("--complete={url}\n"), "{noted}");
    Ok(())
}

#[test]
fn completions_do_not_wait() -> Result<()> {
    let here = Tree::new()?;
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let port = silent.local_addr()?.port();
    for account in ["", "ann@"] {
        let line = format!("gridftp-cp ftp://{account}127.0.0.1:{port}/dir/");
        let said = complete(&here, "gridftp-cp", &line)?;
        ensure!(said.stdout.trim().is_empty(), "{}", said.report());
        ensure!(said.took < Duration::from_secs(20), "{}", said.report());
    }
    Ok(())
}

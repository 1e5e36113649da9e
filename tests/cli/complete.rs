//! Completions of remote names, by the functions that `--completions` writes.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Finished, Peer, Tree, binary, run};

use crate::{Bed, LIMIT};

/// The file of a tree in which calls are noted.
const NOTED: &str = "calls";

/// A shell with completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Each loads the completions of the program `$1`, and completes the command line `$2`. The lines are
/// those that result, and the calls of `gridftp-cp` are noted in the file `$3`.
///
/// Bash divides the line: the word to complete is the part behind the last of `COMP_WORDBREAKS`.
const BASH: &str = r#"
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

/// Zsh completes in its line editor alone, for which it needs a terminal and an interactive shell.
const ZSH: &str = r#"
zmodload zsh/zpty
export ZDOTDIR=$PWD/zsh PROGRAM=$1 LINE=$2 NOTED=$PWD/$3 FOUND=$PWD/found
mkdir -p $ZDOTDIR && : >$FOUND
print -r -- '
    autoload -Uz compinit && compinit -u -D
    source <($PROGRAM --completions zsh)
    gridftp-cp() { print -r -- "$*" >>$NOTED; command gridftp-cp "$@" }
    complete-all() {
        local typed_before="${BUFFER% *} "
        compadd() {
            local -a hits
            builtin compadd -O hits "$@"
            [[ " $* " == *" -"[OAD]" "* ]] || (( ! $#hits )) ||
                print -rl -- $typed_before$^hits >>$FOUND
            builtin compadd "$@"
        }
        zle complete-word
        exit
    }
    zle -N zle-line-init complete-all
    print -z -- $LINE
' >$ZDOTDIR/.zshrc
zpty completing 'zsh -di'
while zpty -r completing REPLY; do :; done
cat $FOUND
"#;

const FISH: &str = r#"
source (eval $argv[1] --completions fish | psub)
set noted $argv[3]
function gridftp-cp; echo "$argv" >>$noted; command gridftp-cp $argv; end
set before (string replace -r '[^ ]*$' '' -- $argv[2])
for word in (complete -C $argv[2])
    echo $before(string split -f1 \t -- $word)
end
"#;

impl Shell {
    const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// The shell with its script; `None` where it is not installed.
    fn command(self) -> Option<Command> {
        let mut command = match self {
            Self::Bash => Command::new("bash"),
            Self::Zsh => Peer::Zsh.require("completions")?,
            Self::Fish => Peer::Fish.require("completions")?,
        };
        command.args(match self {
            Self::Bash => &["-c", BASH, "bash"][..],
            Self::Zsh => &["-f", "-c", ZSH, "zsh"],
            Self::Fish => &["--no-config", "-c", FISH],
        });
        Some(command)
    }
}

/// Completes a command line of `program` in the tree; `None` where the shell is not installed.
fn complete(here: &Tree, shell: Shell, program: &str, line: &str) -> Result<Option<Finished>> {
    let folder = binary("gridftp-cp")?;
    let folder = folder.parent().context("a program has a folder")?.display();
    let path = std::env::var("PATH").unwrap_or_default();
    let Some(mut shell) = shell.command() else {
        return Ok(None);
    };
    shell
        .args([program, line, NOTED])
        .current_dir(here.root())
        .env("PATH", format!("{folder}:{path}"))
        .env("HOME", here.root())
        .env("TERM", "dumb")
        .env_remove("NETRC")
        .env_remove("XDG_CONFIG_HOME");
    run(&mut shell, LIMIT).map(Some)
}

/// The command lines that a line may become; `None` where the shell is not installed.
fn lines(here: &Tree, shell: Shell, program: &str, line: &str) -> Result<Option<Vec<String>>> {
    let Some(said) = complete(here, shell, program, line)? else {
        return Ok(None);
    };
    let said = said.ok()?;
    ensure!(said.stderr.is_empty(), "{}", said.report());
    Ok(Some(said.stdout.lines().map(str::to_owned).collect()))
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
        ("gridftp-cp", "", "la", &["lab:"]),
        ("gridftp ls", "", "la", &["lab:"]),
        ("gridftp-cp", "--list=", "la", &["lab:"]),
        ("gridftp-cp", "--list=lab:", "di", &["dir/"]),
        ("gridftp-cp --list", "lab:", "di", &["dir/"]),
    ] {
        let program = before.split(' ').next().unwrap_or_default();
        let line = format!("{before} {word}{begun}");
        let whole = |name: &&str| format!("{before} {word}{name}");
        let expected: Vec<_> = found.iter().map(whole).collect();
        for shell in Shell::ALL {
            if let Some(found) = lines(&bed.here, shell, program, &line)? {
                ensure!(found == expected, "{shell:?}: {line}: {found:?}");
            }
        }
    }
    // Flags are completed as before, and names of files with a colon.
    bed.here.file("run:1", 1, 1)?;
    for (shell, begun, expected) in [
        (Shell::Bash, "--no-clob", "--no-clobber"),
        (Shell::Fish, "--no-clob", "--no-clobber"),
        (Shell::Fish, "run:", "run:1"),
        (Shell::Zsh, "run:", "run:1"),
    ] {
        let line = format!("gridftp-cp {begun}");
        if let Some(found) = lines(&bed.here, shell, "gridftp-cp", &line)? {
            let first = found.first().map(String::as_str);
            let expected = format!("gridftp-cp {expected}");
            ensure!(first == Some(&expected), "{shell:?}: {found:?}");
        }
    }
    Ok(())
}

/// Other users see the arguments of a program.
#[test]
fn the_words_before_are_no_argument_of_a_completion() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("plain", 1, 1)?;
    let url = bed.url("p");
    let line = format!("gridftp-cp ftp://ann:secret@example.org/x {url}");
    for shell in Shell::ALL {
        let Some(found) = lines(&bed.here, shell, "gridftp-cp", &line)? else {
            continue;
        };
        let expected = format!("{line}lain");
        ensure!(found == [expected], "{shell:?}: {found:?}");
        let noted = std::fs::read_to_string(bed.here.path(NOTED))?;
        ensure!(noted == format!("--complete={url}\n"), "{shell:?}: {noted}");
        std::fs::remove_file(bed.here.path(NOTED))?;
    }
    Ok(())
}

#[test]
fn completions_do_not_wait() -> Result<()> {
    let here = Tree::new()?;
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let port = silent.local_addr()?.port();
    for account in ["", "ann@"] {
        let line = format!("gridftp-cp ftp://{account}127.0.0.1:{port}/dir/");
        for shell in Shell::ALL {
            let Some(said) = complete(&here, shell, "gridftp-cp", &line)? else {
                continue;
            };
            ensure!(said.stdout.trim().is_empty(), "{}", said.report());
            ensure!(said.took < Duration::from_secs(20), "{}", said.report());
        }
    }
    Ok(())
}

//! `gridftp-server passwd`: reads a password and makes a line for the users file.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use gridftp_server::auth::{Hashed, Users, is_name};
use gridftp_server::config::Access;
use rustix::termios::{self, LocalModes, OptionalActions};

/// The options of `gridftp-server passwd`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Login name.
    name: String,

    /// Users file to write the line to, replacing an older line of that name; without it the line
    /// is printed.
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,

    /// Access of the user.
    #[arg(long, value_name = "ACCESS", default_value = "rw")]
    access: Access,

    /// Initial directory of the user's sessions, within the exported tree.
    #[arg(long, value_name = "PATH", default_value = "/")]
    home: String,
}

/// Makes the line and prints or stores it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(
        is_name(&args.name),
        "a name has no blanks, colons or control characters"
    );
    let hash = Hashed::new(&password()?)?;
    let access = match args.access {
        Access::Rw => "rw",
        Access::Ro => "ro",
    };
    let line = format!("{}:{}:{access}:{}", args.name, hash.as_str(), args.home);
    Users::parse(&line).context("the account")?;
    match &args.users {
        None => {
            println!("{line}");
            Ok(())
        }
        Some(path) => {
            store(path, &args.name, &line).with_context(|| format!("users file {}", path.display()))
        }
    }
}

/// Asks twice on a terminal, reads one line otherwise.
fn password() -> anyhow::Result<String> {
    let input = io::stdin();
    let password = if input.is_terminal() {
        let first = prompt("Password: ")?;
        ensure!(prompt("Again: ")? == first, "the two passwords differ");
        first
    } else {
        read_line()?
    };
    if password.is_empty() {
        bail!("an empty password would let anybody in");
    }
    Ok(password)
}

fn read_line() -> anyhow::Result<String> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .context("read the password")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads a line with the terminal's echo off.
fn prompt(text: &str) -> anyhow::Result<String> {
    eprint!("{text}");
    io::stderr().flush()?;
    let input = io::stdin();
    let before = termios::tcgetattr(&input)?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    termios::tcsetattr(&input, OptionalActions::Flush, &silent)?;
    let line = read_line();
    termios::tcsetattr(&input, OptionalActions::Flush, &before)?;
    eprintln!();
    line
}

/// Replaces the file with one that holds `line`: a reader sees the old file or the new one, which
/// has the same permissions.
fn store(path: &Path, name: &str, line: &str) -> anyhow::Result<()> {
    let old = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).context("read"),
    };
    let of_name = |old: &str| old.split_once(':').is_some_and(|(other, _)| other == name);
    let mut text = String::new();
    for kept in old.lines().filter(|old| !of_name(old)).chain([line]) {
        text.push_str(kept);
        text.push('\n');
    }
    Users::parse(&text)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .context("write")?;
    if let Ok(old) = fs::metadata(path) {
        file.set_permissions(old.permissions())
            .and_then(|()| fchown(&file, Some(old.uid()), Some(old.gid())))
            .context("keep owner and mode")?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path).context("rename")
}

//! `Flags`: the command line, from which help, completions and the man pages are made as well.

use clap::{Parser, Subcommand};
use clap_complete::Shell;
use gridftp_client::program::examples::section;
use gridftp_client::program::settings::RULES;
use gridftp_client::program::{doctor, events, proxy};

use crate::examples::{GENERAL, of_command};
use crate::{bytes, change, check, list, places, receipts, size, speed, sum};

/// The text of `--help` before the commands.
const ABOUT: &str = "\
Works on files of GridFTP and FTP servers in all ways but copying, which gridftp-cp does.

A place is an ftp://[USER[:PASSWORD]@]HOST[:PORT]/PATH URL, an ftps:// URL for TLS, a gsiftp:// URL \
for Grid security, or an sshftp://[USER@]HOST[:PORT]/PATH URL or [USER@]HOST:/PATH for a host that is \
reached through ssh; ls, stat, tree, cat, head, du, sum and check take local paths and file: URLs \
too. The last component of a URL may have wildcards (* ? [a-z]), which are matched against what is \
there; %2A, %3F and %5B stand for themselves. A path /~/x of a URL is relative to the home directory \
of the account.

NAME:/PATH is a path below the URL of [place.NAME] in ~/.config/gridftp/config.toml. A flag that the \
command line leaves out is taken from its variable (--timeout from GRIDFTP_TIMEOUT), the place, or \
[defaults], in this order, by the rules at the end of the long help.";

/// The exit statuses, for `--help` and the man page.
const EXIT: &str = "\
Exit status:
  0    all was done; trees that were compared are the same
  1    some operations failed; each is named on standard error
  2    the command line or a URL is wrong
  3    a server cannot be reached, or the connection to it was lost for good
  4    a server refused the login
  5    trees that were compared differ
  130  stopped by a signal";

/// Works on files of GridFTP and FTP servers in all ways but copying.
#[derive(Debug, Parser)]
#[command(
    name = "gridftp",
    version,
    long_about = ABOUT,
    after_help = EXIT,
    after_long_help = format!("{}{RULES}{}{EXIT}", section("gridftp", GENERAL), events::of_others()),
    mut_subcommands = of_command,
    max_term_width = 100,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub(crate) struct Flags {
    /// The work to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Write completions for SHELL to standard output; those of bash, zsh and fish ask for names of
    /// places and servers, without the flags on the command line, with those of the configuration file
    #[arg(long, value_name = "SHELL", value_enum, exclusive = true)]
    pub(crate) completions: Option<Shell>,

    /// Write the man pages to standard output
    #[arg(long, exclusive = true)]
    pub(crate) man: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List directories, by name
    Ls(Box<list::LsArgs>),
    /// Tell all that is known of files and directories
    Stat(Box<list::StatArgs>),
    /// Draw directories with all that they hold
    Tree(Box<list::TreeArgs>),
    /// Write files to standard output
    Cat(Box<bytes::CatArgs>),
    /// Write the beginnings of files to standard output
    Head(Box<bytes::HeadArgs>),
    /// Make directories
    Mkdir(Box<change::MkdirArgs>),
    /// Remove files, and with -r directories with all that they hold; nothing is asked
    Rm(Box<change::RmArgs>),
    /// Rename a file or a directory of one server
    Mv(Box<change::MvArgs>),
    /// Make a symbolic link
    Ln(Box<change::LnArgs>),
    /// Set permission bits
    Chmod(Box<change::ChmodArgs>),
    /// Set the modification time to now, and make a file that is missing
    Touch(Box<change::TouchArgs>),
    /// Tell the bytes of files below directories
    Du(Box<size::DuArgs>),
    /// Tell the free space of a server
    Df(Box<size::DfArgs>),
    /// Tell digests of files, which servers compute that can
    Sum(Box<sum::SumArgs>),
    /// Compare two files or trees, and tell the differences
    Check(Box<check::CheckArgs>),
    /// Check the receipts that gridftp-cp has written
    CheckReceipt(Box<receipts::CheckReceiptArgs>),
    /// Measure how fast bytes go to a server and come from it
    Speed(Box<speed::SpeedArgs>),
    /// List the places of the configuration file
    Places(places::PlacesArgs),
    /// Examine the way to a server step by step
    #[command(long_about = doctor::ABOUT, disable_help_subcommand = true)]
    Doctor(Box<doctor::Args>),
    /// Make a proxy of a user certificate, show it, or destroy it
    #[command(long_about = proxy::ABOUT, disable_help_subcommand = true)]
    Proxy(proxy::Args),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Args as _, CommandFactory as _};
    use gridftp_client::program::connection::ConnectionFlags;
    use gridftp_client::program::settings::{self, audit};

    use super::*;

    #[test]
    fn definitions_are_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn variables_have_the_effects_of_flags() {
        let plain = [
            "ls",
            "stat",
            "tree",
            "cat",
            "head",
            "mkdir",
            "rm",
            "mv ftp://h/b",
            "ln -s target",
            "chmod 640",
            "touch",
            "du",
            "df",
            "sum",
            "check ftp://h/b",
            "check-receipt",
            "speed",
            "doctor",
        ];
        let lines = plain.iter().flat_map(|command| {
            ["ftp://h/a", "--cert own ftp://h/a"].map(|rest| format!("gridftp {command} {rest}"))
        });
        let others = [
            "places",
            "proxy init",
            "proxy info --exists",
            "proxy destroy",
        ];
        let others = others.map(|line| format!("gridftp {line}"));
        let lines: Vec<_> = lines.chain(others).collect();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        assert_eq!(audit::faults(&Flags::command(), &lines), [""; 0]);
    }

    /// Those of the commands that `gridftp-cp` has too are known to it.
    #[test]
    fn the_other_program_knows_the_flags_of_this_one() {
        let shared = ConnectionFlags::augment_args(clap::Command::new("connection"));
        let (mut own, mut shared) = (settings::flags(&Flags::command()), settings::flags(&shared));
        for command in Flags::command().get_subcommands() {
            if matches!(command.get_name(), "doctor" | "proxy") {
                shared.extend(settings::flags(command));
            }
        }
        own.retain(|flag| !shared.contains(flag));
        let known = settings::SIBLING.split(' ').map(str::to_owned);
        assert_eq!(own, known.collect::<BTreeSet<_>>());
    }
}

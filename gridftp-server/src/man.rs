//! The man pages, made of the definitions behind `--help`, and the sections behind the examples.

use std::io::{self, ErrorKind, Write as _};

use anyhow::Context as _;
use clap::Command;

/// The rest of `--help` and of the page of the program.
pub(crate) const REST: &str = "\
Signals:
  SIGTERM, SIGINT
      no new connections; idle sessions end, and running transfers may
      go on for --drain-timeout; the second one aborts them
  SIGHUP
      reads the files of --config and --users, and the certificates,
      again for sessions that begin later; a mistake changes nothing.
      A data node reads the certificate of its cluster, and no more;
      --stdio ends

Exit status:
  0    stopped by SIGTERM or SIGINT, or the command has done its work
  1    the server cannot start, or the command failed; of check: a FAIL
  2    the command line is wrong

Files:
  /etc/grid-security/hostcert.pem, hostkey.pem
      credential of the host, where Grid security is asked for without
      --host-cert
  /etc/grid-security/certificates
      authorities of Grid users, unless --ca-dir names others
  /etc/grid-security/grid-mapfile
      accounts of Grid users, unless --gridmap names another
  /etc/gridftp/cluster
      certificates and keys of a member, unless --cluster names another
  ROOT/.gridftp-index
      index of partial uploads, unless --partial-index names another
  .NAME.gridftp-part, .gridftp-held, .gridftp-sync, .gridftp-sums
      rest of a failed upload of NAME, and its records, beside NAME

Environment:
  X509_USER_CERT, X509_USER_KEY, X509_USER_PROXY, X509_CERT_DIR,
  X509_VHOST_CRED_DIR, GRIDMAP, GLOBUSMAP, GRIDMAPDIR, GLOBUS_LOCATION
      places of Grid security, as for the Globus programs; flags win
  AWS_*, GOOGLE_*, AZURE_*
      keys of object stores, as AWS_ACCESS_KEY_ID; those in a file of
      credentials win
  SSH_CONNECTION
      with --stdio, the addresses of client and server, as sshd sets it

See also:
  gridftp-cp(1), gridftp(1), ssh(1)";

/// Writes the pages of a program and its commands to standard output.
pub(crate) fn print(program: Command) -> anyhow::Result<()> {
    let text = pages(program)?;
    let mut out = io::stdout().lock();
    match out.write_all(&text).and_then(|()| out.flush()) {
        // A reader that has gone away wants no more.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.context("output: write"),
    }
}

/// The page of a program, and then those of its commands.
fn pages(program: Command) -> io::Result<Vec<u8>> {
    // That command has every other one in it a second time.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut text = Vec::new();
    write_pages(&program, &mut text)?;
    Ok(text)
}

fn write_pages(command: &Command, text: &mut Vec<u8>) -> io::Result<()> {
    let page = clap_mangen::Man::new(command.clone()).section("8");
    page.render(text)?;
    let mut inner = command.get_subcommands();
    inner.try_for_each(|inner| write_pages(inner, text))
}

#[cfg(test)]
mod tests {
    use clap::{Arg, CommandFactory as _};

    use super::*;
    use crate::{Cli, examples};

    /// The pages in plain text, but for the marks of options.
    fn plain() -> String {
        let text = String::from_utf8(pages(Cli::command()).unwrap()).unwrap();
        text.replace("\\-", "-").replace("\\*(Aq", "'")
    }

    #[test]
    fn each_command_has_a_page_with_its_options_and_examples() {
        let text = plain();
        let pages: Vec<&str> = text.split("\n.TH ").skip(1).collect();
        let mut program = Cli::command().disable_help_subcommand(true);
        program.build();
        let mut commands = vec![&program];
        let mut count = 0;
        while let Some(command) = commands.pop() {
            let name = command.get_display_name().unwrap_or("gridftp-server");
            let start = format!("{name} 8 ");
            let page = pages.iter().find(|page| page.starts_with(&start));
            let page = page.unwrap_or_else(|| panic!("no page {start}"));
            assert!(page.contains("Examples:\n  gridftp-server"), "{page}");
            for option in command.get_arguments().filter_map(Arg::get_long) {
                assert!(page.contains(&format!("\\fB--{option}\\fR")), "{option}");
            }
            count += 1;
            commands.extend(command.get_subcommands());
        }
        assert_eq!(count, pages.len());
    }

    #[test]
    fn the_page_of_the_program_has_every_line_behind_the_options() {
        let text = plain();
        let page = text.split("\n.TH ").nth(1).unwrap();
        for line in examples::text().lines() {
            assert!(page.contains(line), "{line}");
        }
        for section in ["Signals", "Exit status", "Files", "Environment", "See also"] {
            assert!(page.contains(&format!("\n{section}:\n")), "{section}");
        }
    }
}

//! The examples of `--help` and the man pages, by use; each option is in one of them.

use clap::Command;

use crate::man::REST;

/// Command lines, each with its effect in half a sentence.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "gridftp-server --bind 127.0.0.1 --port 2811 --root /srv/data --anonymous ro",
        "serves a directory to this machine, to read",
    ),
    (
        "gridftp-server passwd ann --users /etc/gridftp/users",
        "makes an account, and asks for its password",
    ),
    (
        "gridftp-server passwd bob --users /etc/gridftp/users --access ro --home /bob",
        "makes one that reads only, and begins in /bob",
    ),
    (
        "gridftp-server --root /srv/data --users /etc/gridftp/users --data-ports 50000-51000",
        "serves accounts, with the data ports that a firewall lets in",
    ),
    (
        "gridftp-server --config server.toml",
        "takes options as keys of a file",
    ),
    (
        "gridftp-server check --config server.toml --host dtn.example.org",
        "examines the set-up, by the name that clients use",
    ),
    (
        "gridftp-server check --config server.toml --subject /O=Grid/CN=Ann --json",
        "tells the account of a Grid user too, as JSON",
    ),
    (
        "gridftp-server --stdio",
        "serves one session, of a person that ssh has let in",
    ),
    (
        "gridftp-server --root /srv/data --users users --tls-cert cert.pem --tls-key key.pem --tls-port 990",
        "offers TLS, at port 990 from the first byte on",
    ),
    (
        "gridftp-server --root /srv/data --tls-cert host.pem --tls-client-ca ca.pem --tls-map map",
        "logs in users by their certificates",
    ),
    (
        "gridftp-server --config server.toml --tls-session-reuse required",
        "refuses data connections outside the TLS session of their control connection",
    ),
    (
        "gridftp-server --root /srv/data --host-cert host.pem --host-key host.key --gridmap map",
        "serves users of a Grid, by a grid-mapfile",
    ),
    (
        "gridftp-server --config server.toml --ca-dir /srv/grid/certificates --gridmap-access ro",
        "trusts other authorities, and lets the names of the grid-mapfile read",
    ),
    (
        "gridftp-server --config server.toml --host-certs /etc/grid-security/vhosts",
        "has a certificate for each name of this host",
    ),
    (
        "gridftp-server --config server.toml --require-control private --require-data integrity",
        "demands protection of all users with a password",
    ),
    (
        "gridftp-server --config server.toml --require-anonymous-control private",
        "demands protection of the commands of anonymous users",
    ),
    (
        "gridftp-server --config server.toml --require-anonymous-data private",
        "demands protection of their data",
    ),
    (
        "gridftp-server --config server.toml --require-from 10.0.0.0/8=clear --require-user ann=private",
        "demands none of one network, and more of one user",
    ),
    (
        "gridftp-server --config server.toml --allow-clear-passwords 10.0.0.0/8",
        "takes passwords in clear text from the network of a laboratory",
    ),
    (
        "gridftp-server --config server.toml --advertise 198.51.100.7",
        "tells clients the address outside address translation",
    ),
    (
        "gridftp-server --config server.toml --third-party users",
        "lets users move data between this server and others without Grid security",
    ),
    (
        "gridftp-server --config server.toml --net-stacks tcp,udt,compress --disk-stacks file,compress",
        "lets clients ask for UDT and compression",
    ),
    (
        "gridftp-server --storage process:socket=/run/folder.sock --anonymous rw",
        "serves the storage of another process",
    ),
    (
        "gridftp-server --config server.toml --sync-writes --partial-index /var/lib/gridftp/index",
        "keeps uploads through a crash of the machine, and their index outside the tree",
    ),
    (
        "gridftp-server --config server.toml --partial-expiry 24",
        "removes partial uploads after a day",
    ),
    (
        "gridftp-server --config server.toml --in-place",
        "writes uploads under their final names at once",
    ),
    (
        "gridftp-server --config server.toml --block-size 1M --part-memory 1G",
        "moves larger blocks, and lets uploads to object stores take more memory",
    ),
    (
        "gridftp-server --config server.toml --max-sessions 200 --max-streams 32",
        "bounds sessions, and the data connections of a transfer",
    ),
    (
        "gridftp-server --config server.toml --max-measurement 10",
        "lets users measure the path to this server's memory for 10 seconds at a time, not for a minute",
    ),
    (
        "gridftp-server --config server.toml --max-unauthenticated 100 --max-per-address 20",
        "bounds connections that have not logged in, of all addresses and of each",
    ),
    (
        "gridftp-server --config server.toml --login-attempts 3 --lockout 600 --login-delay 2",
        "slows down guesses of passwords",
    ),
    (
        "gridftp-server --config server.toml --login-timeout 20 --idle-timeout 300",
        "ends connections sooner that do not log in, or do nothing",
    ),
    (
        "gridftp-server --config server.toml --connect-timeout 30 --stall-timeout 120",
        "ends transfers sooner that do not move",
    ),
    (
        "gridftp-server --config server.toml --drain-timeout 600",
        "gives transfers ten minutes when the server is to stop",
    ),
    (
        "gridftp-server --config server.toml --log-format json --log-level debug",
        "logs every command, as JSON",
    ),
    (
        "gridftp-server cluster init --cluster front --name front",
        "makes a cluster at its front end",
    ),
    (
        "gridftp-server front --cluster front --cluster-listen 0.0.0.0:2812 --root data --anonymous rw",
        "serves as the front end",
    ),
    (
        "gridftp-server cluster token --cluster front --address dtn.example.org:2812 --valid 600 > token",
        "makes a token with which one host joins within ten minutes",
    ),
    (
        "gridftp-server cluster join --cluster node1 --name node1 - < token",
        "joins the cluster at that host",
    ),
    (
        "gridftp-server node --cluster node1 --front dtn.example.org:2812 --root data --capacity 32",
        "serves as a data node, for 32 transfers at a time",
    ),
    (
        "gridftp-server front --config /etc/gridftp/front.toml --stripes 4 --hybrid",
        "has at most four nodes move a file, for clients that ask for stripes",
    ),
    (
        "gridftp-server front --config /etc/gridftp/front.toml --node node1.example.org:2812",
        "dials a data node that cannot dial the front end",
    ),
    (
        "gridftp-server node --config /etc/gridftp/node.toml",
        "takes the options of a data node from a file",
    ),
    (
        "gridftp-server cluster token --cluster front --address dtn.example.org:2812 --front > token",
        "makes a token for a further front end",
    ),
    (
        "gridftp-server front --cluster front2 --authority dtn.example.org:2812 --root data",
        "serves as a further front end",
    ),
    (
        "gridftp-server nodes --cluster front --front dtn.example.org:2812 --json",
        "lists the data nodes, as JSON",
    ),
    (
        "gridftp-server nodes --cluster front --front dtn.example.org:2812 --drain node1",
        "places no more sessions on a node",
    ),
    (
        "gridftp-server nodes --cluster front --front dtn.example.org:2812 --undrain node1",
        "places sessions on it again",
    ),
    (
        "gridftp-server cluster rotate --cluster front",
        "makes a new authority beside the old one",
    ),
    (
        "gridftp-server cluster retire --cluster front",
        "trusts the old one no more, once all members have new certificates",
    ),
    (
        "gridftp-server cluster revoke --cluster front node2",
        "refuses the certificate of a data node, as after a theft",
    ),
    (
        "gridftp-server cluster revoke --cluster front --front front2",
        "refuses that of a front end",
    ),
    (
        "gridftp-server storages",
        "lists the storages and their options",
    ),
    (
        "gridftp-server --man | man -l -",
        "shows the manual pages, of its commands too",
    ),
];

/// The text of `--help` behind the flags.
pub(crate) fn text() -> String {
    format!("{}\n{REST}", section("gridftp-server"))
}

/// The section of the examples of a command, which begin with these words.
fn section(words: &str) -> String {
    let mut text = "Examples:\n".to_owned();
    for (line, effect) in EXAMPLES {
        let rest = line.strip_prefix(words);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')) {
            text.push_str(&format!("  {line}\n      {effect}\n"));
        }
    }
    text
}

/// Adds their examples to a command of the program and to those in it: to `--help` and the man page,
/// and not to `-h`.
pub(crate) fn of_command(command: Command) -> Command {
    with_examples(command, "gridftp-server")
}

fn with_examples(command: Command, program: &str) -> Command {
    let words = format!("{program} {}", command.get_name());
    let command = command.mut_subcommands(|inner| with_examples(inner, &words));
    command.after_long_help(section(&words).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::parser::ValueSource;
    use clap::{Arg, Args as _, CommandFactory as _};
    use gridftp_server::config::{ClusterOptions, Options};

    use super::*;
    use crate::Cli;

    /// The options that a line gives, each with its command.
    fn given(line: &str) -> BTreeSet<(String, String)> {
        let words = line.split(' ');
        let words = words.take_while(|word| !matches!(*word, "<" | ">" | "|"));
        let mut program = Cli::command();
        let all = program.try_get_matches_from_mut(words);
        let all = all.unwrap_or_else(|error| panic!("{line}: {error}"));
        let (mut command, mut matches) = (&program, &all);
        let mut given = BTreeSet::new();
        loop {
            for arg in command.get_arguments() {
                let source = matches.value_source(arg.get_id().as_str());
                if let (Some(option), Some(ValueSource::CommandLine)) = (arg.get_long(), source) {
                    given.insert((command.get_name().to_owned(), option.to_owned()));
                }
            }
            let Some((name, inner)) = matches.subcommand() else {
                return given;
            };
            (command, matches) = (command.find_subcommand(name).unwrap(), inner);
        }
    }

    /// Those of servers are the same for all commands that take them.
    #[test]
    fn each_option_is_in_an_example_that_parses() {
        let given: BTreeSet<_> = EXAMPLES.iter().flat_map(|(line, _)| given(line)).collect();
        let shared = ClusterOptions::augment_args(Options::augment_args(Command::new("shared")));
        let shared: BTreeSet<_> = shared.get_arguments().filter_map(Arg::get_long).collect();
        let program = Cli::command();
        let mut commands = vec![&program];
        while let Some(command) = commands.pop() {
            let name = command.get_name();
            let serves = matches!(name, "gridftp-server" | "check" | "front" | "node");
            for option in command.get_arguments().filter_map(Arg::get_long) {
                let is_given = given.iter().any(|(of, it)| {
                    it == option && (of == name || serves && shared.contains(option))
                });
                assert!(is_given, "{name} --{option}");
            }
            commands.extend(command.get_subcommands());
        }
    }
}

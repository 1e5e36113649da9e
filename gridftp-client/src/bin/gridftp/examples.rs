//! The examples of `--help` and the man pages, by use; each option of a command is in one of them.

use clap::Command;
use gridftp_client::program::examples::{Example, Table, with_examples};

/// Adds the examples of a command.
pub(crate) fn of_command(command: Command) -> Command {
    with_examples(command, "gridftp", TABLE)
}

/// The examples of the program as a whole, and of flags that most commands have.
pub(crate) const GENERAL: &[Example] = &[
    (
        "gridftp ls gsiftp://dtn.example.org/data/",
        "lists a directory",
    ),
    (
        "gridftp ls cern:run7/",
        "lists a directory of the place cern of the configuration file",
    ),
    (
        "gridftp ls ann@dtn.example.org:/data/",
        "lists one of a host that is reached through ssh",
    ),
    (
        "gridftp ls --json gsiftp://dtn.example.org/data/ | jq -r .name",
        "takes the names from JSON",
    ),
    (
        "gridftp rm --quiet 'gsiftp://dtn.example.org/data/scratch/*.tmp'",
        "removes the files that the pattern fits, and writes errors only",
    ),
    (
        "gridftp sum --cred /run/robot/proxy --timeout 10m gsiftp://dtn.example.org/data/large.h5",
        "proves another identity, and waits longer for a slow server",
    ),
    (
        "gridftp ls --user ann --netrc ftps://ftp.example.org/in/",
        "logs in as ann with the password in ~/.netrc",
    ),
    (
        "gridftp ls --ca lab-ca.pem --cert ann.pem --key ann.key ftps://ftp.example.org/in/",
        "trusts an authority of one's own, and has a certificate for the server",
    ),
    (
        "gridftp ls --user ann --security none ftp://ftp.lab.example.org/in/",
        "sends the password in clear text, to a server that has no TLS",
    ),
    (
        "gridftp ls --delegation none --data-cred auto gsiftp://dtn.example.org/data/",
        "gives the server no rights of the user",
    ),
    (
        "gridftp cat --dcau none --protect clear gsiftp://dtn.example.org/data/notes",
        "leaves data in clear text, as on a network of one's own",
    ),
    (
        "gridftp ls --subject /O=Grid/CN=dtn7.example.org gsiftp://dtn.example.org/data/",
        "expects a server with the certificate of another name",
    ),
    (
        "gridftp ls --names HYBRID gsiftp://192.0.2.7/data/",
        "takes a certificate for the name that the address resolves to, too",
    ),
    (
        "gridftp ls --remote-program /opt/gridftp/gridftp-server ann@dtn.example.org:/data/",
        "goes through ssh, to a host with the server outside PATH",
    ),
    (
        "gridftp ls --ipv4 --data-ports 50000-50100 gsiftp://dtn.example.org/data/",
        "uses IPv4 and the ports that the firewall here lets in",
    ),
    (
        "gridftp ls --ipv6 gsiftp://dtn.example.org/data/",
        "uses IPv6 alone",
    ),
    (
        "gridftp ls --trust-pasv-address ftp://ftp.example.org/pub/",
        "connects to the data address that the server gives, where it is not its own",
    ),
    (
        "gridftp ls --debug gsiftp://dtn.example.org/data/",
        "shows the control conversation, as for a report of a fault",
    ),
    (
        "gridftp --completions bash > ~/.local/share/bash-completion/completions/gridftp",
        "has bash complete options, and names of places and servers",
    ),
    ("gridftp --man | man -l -", "shows the man pages"),
];

/// The examples of commands.
const TABLE: &Table = &[
    ("gridftp", GENERAL),
    (
        "ls",
        &[
            (
                "gridftp ls --long gsiftp://dtn.example.org/data/",
                "shows kinds, permission bits, owners, sizes and times too",
            ),
            (
                "gridftp ls --all --recursive gsiftp://dtn.example.org/data/run7/",
                "lists the directories below too, and names that begin with a dot",
            ),
            (
                "gridftp ls 'gsiftp://dtn.example.org/data/run7/*.h5'",
                "lists the files that the pattern fits",
            ),
        ],
    ),
    (
        "stat",
        &[(
            "gridftp stat gsiftp://dtn.example.org/data/run7/large.h5",
            "tells size, time, permission bits and all else that the server knows",
        )],
    ),
    (
        "tree",
        &[
            (
                "gridftp tree --depth 2 gsiftp://dtn.example.org/data/",
                "draws two levels of directories",
            ),
            (
                "gridftp tree --all gsiftp://dtn.example.org/data/run7/",
                "draws all, with names that begin with a dot",
            ),
        ],
    ),
    (
        "cat",
        &[(
            "gridftp cat gsiftp://dtn.example.org/data/run7/README | less",
            "reads a text there",
        )],
    ),
    (
        "head",
        &[
            (
                "gridftp head --lines 50 gsiftp://dtn.example.org/data/run7/log",
                "shows the first 50 lines",
            ),
            (
                "gridftp head --bytes 4K gsiftp://dtn.example.org/data/run7/large.h5 | xxd",
                "shows the first 4 KiB of a file that is no text",
            ),
        ],
    ),
    (
        "mkdir",
        &[
            (
                "gridftp mkdir gsiftp://dtn.example.org/data/run8",
                "makes a directory",
            ),
            (
                "gridftp mkdir --parents gsiftp://dtn.example.org/data/2026/run8",
                "makes those above it too, where they are missing",
            ),
        ],
    ),
    (
        "rm",
        &[
            (
                "gridftp rm gsiftp://dtn.example.org/data/run7/notes",
                "removes a file",
            ),
            (
                "gridftp rm --recursive --force gsiftp://dtn.example.org/data/scratch",
                "removes a directory and all in it, if it is there",
            ),
        ],
    ),
    (
        "mv",
        &[
            (
                "gridftp mv gsiftp://dtn.example.org/data/run7 gsiftp://dtn.example.org/data/run7-bad",
                "renames a directory",
            ),
            (
                "gridftp mv --no-clobber gsiftp://dtn.example.org/data/new.h5 gsiftp://dtn.example.org/data/run7/",
                "moves a file to a directory, unless one of its name is there",
            ),
        ],
    ),
    (
        "ln",
        &[
            (
                "gridftp ln --symbolic run7 gsiftp://dtn.example.org/data/latest",
                "makes a link latest, which leads to run7 beside it",
            ),
            (
                "gridftp ln --symbolic --force run8 gsiftp://dtn.example.org/data/latest",
                "replaces the link by one that leads to run8",
            ),
        ],
    ),
    (
        "chmod",
        &[(
            "gridftp chmod 0640 gsiftp://dtn.example.org/data/run7/notes",
            "lets the owner read and write, and the group read",
        )],
    ),
    (
        "touch",
        &[
            (
                "gridftp touch gsiftp://dtn.example.org/data/run7/done",
                "makes an empty file, or sets its time to now",
            ),
            (
                "gridftp touch --no-create --time 20261123104500 gsiftp://dtn.example.org/data/run7/large.h5",
                "sets a time in UTC, of a file that is there",
            ),
        ],
    ),
    (
        "du",
        &[(
            "gridftp du --summarize --human cern:run7/ cern:run8/",
            "tells the sum of each, as 1.50 GiB",
        )],
    ),
    (
        "df",
        &[(
            "gridftp df --human gsiftp://dtn.example.org/data/",
            "tells the free space of the server, as 1.50 TiB",
        )],
    ),
    (
        "sum",
        &[
            (
                "gridftp sum --recursive gsiftp://dtn.example.org/data/run7/ > run7.sha256",
                "writes the SHA-256 digests of all files in a directory",
            ),
            (
                "gridftp sum --algorithm adler32 gsiftp://dtn.example.org/data/run7/large.h5",
                "tells the digest that many catalogues have",
            ),
            (
                "gridftp sum --read gsiftp://dtn.example.org/data/run7/large.h5",
                "reads the bytes instead of asking the server",
            ),
        ],
    ),
    (
        "check",
        &[
            (
                "gridftp check run7/ gsiftp://dtn.example.org/data/run7/",
                "compares names, kinds and sizes of a copy with its source",
            ),
            (
                "gridftp check --times gsiftp://dtn.example.org/data/run7/ gsiftp://dtn2.example.net/data/run7/",
                "compares two servers, and modification times too",
            ),
            (
                "gridftp check --checksum=sha256 run7/ gsiftp://dtn.example.org/data/run7/",
                "compares digests too",
            ),
        ],
    ),
    (
        "check-receipt",
        &[
            (
                "gridftp check-receipt receipts",
                "checks the signatures of receipts",
            ),
            (
                "gridftp check-receipt --compare receipts",
                "compares the files at the destinations with them too",
            ),
            (
                "gridftp check-receipt --unsigned receipts",
                "takes those of a user without a credential",
            ),
        ],
    ),
    (
        "speed",
        &[
            (
                "gridftp speed gsiftp://dtn.example.org/data/",
                "measures for 5 seconds each way, memory to memory and with a file at the server",
            ),
            (
                "gridftp speed --parallel 8 --seconds 2m --size 20G gsiftp://dtn.example.org/data/",
                "measures 8 streams for longer, with a file of at most 20 GiB",
            ),
        ],
    ),
    (
        "places",
        &[
            (
                "gridftp places",
                "lists the names and URLs of the configuration file",
            ),
            (
                "gridftp places --json | jq -r .url",
                "takes the URLs from JSON",
            ),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use clap::{Args as _, CommandFactory as _};
    use gridftp_client::program::examples::{check_chapter, missing};

    use super::*;
    use crate::flags::Flags;
    use crate::work::Common;

    #[test]
    fn each_option_is_in_an_example_that_parses() {
        let common = Common::augment_args(Command::new("common"));
        let missing = missing(&Flags::command(), TABLE, &common).unwrap();
        assert!(missing.is_empty(), "{missing:#?}");
        check_chapter(&Flags::command(), TABLE).unwrap();
    }
}

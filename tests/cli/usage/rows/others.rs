//! Command lines of `gridftp`.

use super::Row;

pub(in crate::usage) const OTHERS: &[Row] = &[
    ("", 2, &["Usage: gridftp"]),
    ("bogus", 2, &["unrecognized subcommand 'bogus'"]),
    ("ls", 2, &["not provided", "<PLACE>..."]),
    ("ls none", 1, &["none: ", "No such file"]),
    ("ls URL/none", 1, &["none: "]),
    ("ls URL/no*", 1, &["no name there matches", "%2A"]),
    ("ls -", 2, &["-: is no file of a server"]),
    (
        "ls http://localhost:1/",
        2,
        &[
            "http: web servers have no sessions",
            "write gsiftp://, ftp://, ftps:// or sshftp://",
        ],
    ),
    ("tree -L 0 d", 2, &["--depth <N>", "0 is not in 1.."]),
    ("stat none", 1, &["none: "]),
    (
        "cat --json x",
        2,
        &["cat and head write the bytes of files, and no objects"],
    ),
    ("cat d", 1, &["d: "]),
    ("head -n 1 -c 1 x", 2, &["cannot be used with"]),
    ("head -c 1Q x", 2, &["write a number of bytes"]),
    ("mkdir d", 2, &["d: is no URL of a server"]),
    (
        "mkdir URL/d",
        1,
        &["it is there already", "-p takes it as it is"],
    ),
    ("rm URL/none", 1, &["none: "]),
    (
        "rm -r URL/",
        2,
        &["usage: \"/\" is not removed; name what is in it"],
    ),
    (
        "mv URL/x URL2/x",
        2,
        &["mv renames in one session: name one server, user and place, or copy with gridftp-cp"],
    ),
    (
        "mv -n URL/x URL/d/one",
        1,
        &["it is there already", "leave out -n to replace it"],
    ),
    ("chmod 9 URL/x", 2, &["write an octal number up to 7777"]),
    (
        "touch --time now URL/x",
        2,
        &["write a time in UTC such as 20261123104500"],
    ),
    ("df URL/d", 1, &["does not tell its free space", "AVBL"]),
    (
        "sum --algorithm sha0 x",
        2,
        &["unknown algorithm; known are"],
    ),
    (
        "sum d",
        1,
        &["d: is a directory", "-r takes the files below it"],
    ),
    ("check URL/no* d", 2, &["a pattern is no tree"]),
    ("check none d", 1, &["none: "]),
    ("check-receipt none", 2, &["none: open: No such file"]),
    ("check-receipt d", 2, &["d: line 1: read: Is a directory"]),
    ("check-receipt x", 5, &["x: line 1: expected value"]),
    (
        "check-receipt --unsigned --compare receipts",
        5,
        &[
            "receipts: line 1: is no receipt",
            "\\q: is no name as gridftp-cp writes it",
            "x: the receipt has no digest",
            "sha0: is no algorithm known here",
        ],
    ),
    (
        "check-receipt receipts",
        5,
        &["receipts: the last 3 receipts of a run are not signed"],
    ),
    ("speed x", 2, &["x: is no URL of a server"]),
    ("speed --seconds 0 URL/d", 2, &["from 1s to 1h"]),
    ("speed --size 1Q URL/d", 2, &["write a number of bytes"]),
    ("speed --parallel 0 URL/d", 2, &["0 is not in 1..=256"]),
    (
        "speed URL/x",
        1,
        &["is no directory", "name the one it is in"],
    ),
    ("doctor x", 2, &["doctor needs an ftp://"]),
];

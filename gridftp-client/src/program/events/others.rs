//! The events of `gridftp`, and of `proxy`.

use super::{Fields, Kind, kind};

/// Those of `proxy`.
pub(crate) const PROXIES: &[Kind] = &[
    kind(
        "proxy",
        "a proxy was made or is shown",
        &[
            ("subject", "name of the proxy"),
            ("issuer", "name of its issuer"),
            ("identity", "name of the user"),
            ("type", "type, in words"),
            ("format", "format of the proxy"),
            ("rights", "rights of the proxy"),
            ("path_length", "proxies that may follow"),
            ("strength", "size of the key, in bits"),
            ("path", "file"),
            ("expires", "end in UTC, as 2026-11-23T09:44:48Z"),
            ("timeleft", "time until then, in seconds"),
        ],
    ),
    kind("destroyed", "a proxy was destroyed", &[("path", "file")]),
    kind("plan", "a proxy would be destroyed", &[("path", "file")]),
];

const FACTS: Fields = &[
    ("url", "object"),
    ("name", "name"),
    ("type", "file, dir, link or other"),
    ("size", "size in bytes"),
    ("modified", "last change in UTC, as YYYYMMDDhhmmss"),
    ("mode", "permission bits, octal"),
    ("owner", "owner"),
    ("group", "group"),
    ("target", "text of a link"),
];

/// Those of `gridftp`.
pub(crate) const OTHERS: &[Kind] = &[
    kind("entry", "an object of a directory or tree", FACTS),
    kind("stat", "an object", FACTS),
    kind(
        "directory",
        "a directory was made, or with -p is there",
        &[("url", "directory")],
    ),
    kind("removed", "an object was removed", &[("url", "object")]),
    kind(
        "renamed",
        "an object was renamed",
        &[("source", "old name"), ("destination", "new name")],
    ),
    kind(
        "symlink",
        "a symbolic link was made",
        &[("url", "link"), ("target", "its text")],
    ),
    kind(
        "mode",
        "permission bits were set",
        &[("url", "object"), ("mode", "permission bits, octal")],
    ),
    kind(
        "touched",
        "a file was made, or its time was set",
        &[
            ("url", "object"),
            ("made", "whether it was made"),
            ("modified", "time that was set, in UTC"),
        ],
    ),
    kind(
        "size",
        "the files below a directory",
        &[
            ("url", "directory"),
            ("bytes", "sum of their sizes, in bytes"),
            ("files", "files"),
            ("directories", "directories"),
        ],
    ),
    kind(
        "free",
        "the free space of a server",
        &[("url", "directory"), ("bytes", "free space, in bytes")],
    ),
    kind(
        "digest",
        "the digest of a file",
        &[
            ("url", "file"),
            ("algorithm", "algorithm"),
            ("digest", "value, hexadecimal"),
            ("by", "server, or reading by this end"),
        ],
    ),
    kind(
        "difference",
        "two objects differ",
        &[
            ("path", "path of both"),
            ("what", "missing, extra, type, size, time, target or digest"),
            ("source", "value at the source"),
            ("destination", "value at the destination"),
        ],
    ),
    kind(
        "signature",
        "a signature of receipts is good",
        &[
            ("files", "receipts under it"),
            ("bytes", "bytes of their files"),
            ("signer", "identity of the signer"),
            ("time", "its time, in seconds since 1970"),
        ],
    ),
    kind("same", "a file is that of its receipt", &[("url", "file")]),
    kind(
        "speed",
        "a measurement",
        &[
            ("direction", "up or down"),
            ("from", "memory or disk"),
            ("to", "memory or disk"),
            ("by", "the server's means: memory, device, storage or file"),
            ("bytes", "bytes moved"),
            ("seconds", "time, in seconds"),
            ("bytes_per_second", "rate"),
            (
                "samples",
                "rates in sixteen equal parts of the time, a second",
            ),
        ],
    ),
    kind(
        "skip",
        "an object (source), or a measurement (the others), is left out",
        &[
            ("source", "object"),
            ("direction", "up or down"),
            ("from", "memory or disk"),
            ("to", "memory or disk"),
            ("why", "reason"),
        ],
    ),
    kind("place", "a place", &[("name", "name"), ("url", "URL")]),
    kind(
        "end",
        "a tree is drawn, or a comparison has ended",
        &[
            ("files", "files"),
            ("directories", "directories"),
            ("differences", "differences, of a comparison"),
            ("failed", "objects that failed, of a comparison"),
            ("untimed", "files whose times were not compared (--times)"),
        ],
    ),
];

//! The events of copies, and of `gridftp-cp` without a copy.

use super::{Fields, Kind, kind};

const LINK: Fields = &[
    ("source", "link"),
    ("destination", "new link"),
    ("target", "text of both"),
];

const PART: Fields = &[
    ("source", "file"),
    ("destination", "copy"),
    ("held", "bytes that are stored"),
    ("bytes", "size of the file, in bytes"),
];

/// Those of copies.
pub(crate) const COPIES: &[Kind] = &[
    kind(
        "continue",
        "a file goes on with the bytes of an earlier run",
        PART,
    ),
    kind(
        "kept",
        "bytes of a file that failed are kept for the next run",
        PART,
    ),
    kind(
        "incomplete",
        "an upload broke off; a part may be under its name",
        &[
            ("source", "file"),
            ("destination", "copy"),
            ("sent", "bytes that were sent"),
            ("bytes", "size of the file, in bytes"),
        ],
    ),
    kind(
        "done",
        "a file was copied",
        &[
            ("source", "file"),
            ("destination", "copy"),
            ("bytes", "size of the file or the copied part, in bytes"),
            ("seconds", "time from its start, in seconds"),
            ("retries", "attempts that failed before"),
            ("verified", "proof of the copy: digest, size or none"),
            ("checksum", "algorithm and digest that both ends have"),
            ("stripes", "bytes of each stripe, if there were several"),
            (
                "relayed",
                "true: data between two servers passed this machine",
            ),
        ],
    ),
    kind(
        "plan",
        "a file would be copied (--dry-run)",
        &[
            ("source", "file"),
            ("destination", "copy"),
            ("bytes", "size of the file, in bytes"),
        ],
    ),
    kind(
        "mkdir",
        "a directory would be made (--dry-run)",
        &[("path", "directory")],
    ),
    kind(
        "move",
        "a name would be moved (--dry-run)",
        &[("source", "object"), ("destination", "place for it")],
    ),
    kind(
        "deleted",
        "a name of the destination was removed",
        &[("path", "object")],
    ),
    kind(
        "delete",
        "a name of the destination would be removed",
        &[("path", "object")],
    ),
    kind("linked", "a symbolic link was made", LINK),
    kind("link", "a symbolic link would be made", LINK),
    kind(
        "skip",
        "a file was left out",
        &[("source", "file"), ("why", "reason")],
    ),
    kind(
        "progress",
        "the counts so far (--stats)",
        &[
            ("files", "files copied"),
            ("found", "files found"),
            ("failed", "files that failed"),
            ("skipped", "files left out"),
            ("same", "files that were the same"),
            ("bytes", "bytes moved"),
            ("bytes_found", "bytes of the files found"),
            ("complete", "whether all files are found"),
            ("bytes_hashing", "bytes of the files that servers hash"),
            ("bytes_hashed", "bytes of these that are hashed"),
            ("bytes_per_second", "rate since the last line"),
            ("mostly", "cause of most of the time (--explain)"),
        ],
    ),
    kind(
        "end",
        "the copy has ended",
        &[
            ("files", "files copied"),
            ("failed", "files that failed"),
            ("skipped", "files left out"),
            ("planned", "files that would be copied"),
            ("same", "files that were the same"),
            ("deleted", "names removed"),
            ("links", "links made"),
            ("bytes", "bytes moved"),
            ("seconds", "time of the run, in seconds"),
            (
                "shares",
                "share of the time of each cause, of 1 (--explain)",
            ),
            ("remedy", "change that would help most (--explain)"),
            (
                "tuned",
                "best parallel, concurrency and bytes_per_second found",
            ),
        ],
    ),
];

const PARTIAL: Fields = &[
    ("kind", "download or upload"),
    ("source", "file, null where it is not known"),
    ("destination", "copy"),
    ("held", "bytes that are stored"),
    ("size", "size of the file, in bytes"),
    ("modified", "last change, in seconds since 1970"),
    ("in_use", "whether a copy is at it"),
];

/// Those of `gridftp-cp` without a copy.
pub(crate) const LISTS: &[Kind] = &[
    kind(
        "entry",
        "an object of a directory (--list)",
        &[
            ("name", "name"),
            ("type", "file, dir, link or other"),
            ("size", "size in bytes"),
            ("modified", "last change in UTC, as YYYYMMDDhhmmss"),
            ("mode", "permission bits, octal"),
        ],
    ),
    kind("partial", "the remains of a copy (--partials)", PARTIAL),
    kind(
        "discarded",
        "the remains of a copy were removed (--discard)",
        PARTIAL,
    ),
];

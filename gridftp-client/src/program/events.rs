//! The events in JSON and their fields: one table, of which the helps and the man pages are made.

use serde_json::Value;

/// An event, and the fields of its object beside `event`.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    pub meaning: &'static str,
    pub fields: &'static [(&'static str, &'static str)],
    /// Whether it has those of a failure too.
    pub fails: bool,
}

const fn kind(
    name: &'static str,
    meaning: &'static str,
    fields: &'static [(&'static str, &'static str)],
) -> Kind {
    Kind {
        name,
        meaning,
        fields,
        fails: false,
    }
}

const fn failure(
    name: &'static str,
    meaning: &'static str,
    fields: &'static [(&'static str, &'static str)],
) -> Kind {
    Kind {
        name,
        meaning,
        fields,
        fails: true,
    }
}

/// The fields of a failure.
pub const FAILURE: &[(&str, &str)] = &[
    ("error", "text of the failure with its remedy"),
    ("class", "usage, connect, login, transfer or verify"),
    ("site", "server, as host:port"),
    ("operation", "command, secrets masked, or local operation"),
    ("path", "object, where the operation does not name it"),
    ("code", "code of the reply"),
    ("remedy", "change that helps"),
];

/// Those of both programs.
pub const SHARED: &[Kind] = &[
    kind(
        "connected",
        "a server was reached; once for the same protection",
        &[
            ("site", "server, as host:port"),
            ("control", "protection of the control connection, or clear"),
            ("data", "protection of data: clear, safe or private"),
            ("dcau", "identity of data connections; with Grid security"),
        ],
    ),
    failure(
        "failed",
        "an object failed for good",
        &[("source", "object")],
    ),
    failure("error", "the run or a command ends with an error", &[]),
    failure(
        "retry N",
        "a file is tried again, the Nth time",
        &[("source", "file")],
    ),
    failure(
        "gone",
        "a server that is gone is tried again",
        &[("seconds", "longest time for that, in seconds")],
    ),
    kind(
        "warning",
        "something should be mended, although it works",
        &[("text", "text")],
    ),
    kind("note", "a fallback, a pause", &[("text", "text")]),
];

const LINK: &[(&str, &str)] = &[
    ("source", "link"),
    ("destination", "new link"),
    ("target", "text of both"),
];

const PART: &[(&str, &str)] = &[
    ("source", "file"),
    ("destination", "copy"),
    ("held", "bytes that are stored"),
    ("bytes", "size of the file, in bytes"),
];

/// Those of copies.
pub const COPIES: &[Kind] = &[
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

const PARTIAL: &[(&str, &str)] = &[
    ("kind", "download or upload"),
    ("source", "file"),
    ("destination", "copy"),
    ("held", "bytes that are stored"),
    ("size", "size of the file, in bytes"),
    ("modified", "last change, in seconds since 1970"),
    ("in_use", "whether a copy is at it"),
];

/// Those of `gridftp-cp` without a copy.
pub const LISTS: &[Kind] = &[
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

/// Those of `proxy`.
pub const PROXIES: &[Kind] = &[
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

const FACTS: &[(&str, &str)] = &[
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
pub const OTHERS: &[Kind] = &[
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
        ],
    ),
];

/// The events of `gridftp-cp`, for its help.
pub fn of_copies() -> String {
    all(&[SHARED, COPIES, LISTS, PROXIES])
}

/// The events of `gridftp`, for its help.
pub fn of_others() -> String {
    all(&[SHARED, OTHERS, PROXIES])
}

/// The events of these names of `gridftp`, for the help of a command.
pub fn named(names: &[&str]) -> String {
    let mut text = "Events of --json, beside those of failures (gridftp --help):\n".to_owned();
    for kind in OTHERS.iter().filter(|kind| names.contains(&kind.name)) {
        write(&mut text, kind);
    }
    text
}

fn all(tables: &[&[Kind]]) -> String {
    let mut text = "\
Events of --json, with the fields beside event; an unknown value is null, and a
line of doctor has no event but verdict, topic, fact and remedy:
"
    .to_owned();
    for kind in tables.iter().copied().flatten() {
        write(&mut text, kind);
    }
    text.push_str("Fields of a failure, as far as they are known:\n");
    fields(&mut text, FAILURE);
    text.push('\n');
    text
}

fn write(text: &mut String, kind: &Kind) {
    text.push_str(&format!("  {}: {}\n", kind.name, kind.meaning));
    fields(text, kind.fields);
    if kind.fails {
        text.push_str("    and the fields of a failure\n");
    }
}

fn fields(text: &mut String, fields: &[(&str, &str)]) {
    for (name, meaning) in fields {
        text.push_str(&format!("    {name:<16}  {meaning}\n"));
    }
}

/// Says whether the tables have the event of an object, and all its fields.
pub(super) fn know(value: &Value) -> bool {
    let Some(object) = value.as_object() else {
        return false;
    };
    let name = object.get("event").and_then(Value::as_str).map(name_of);
    let tables = [SHARED, COPIES, LISTS, PROXIES, OTHERS];
    let mut kinds = tables.into_iter().flatten();
    kinds.any(|kind| {
        let has = |key: &str| {
            let own = kind.fields.iter().any(|(field, _)| *field == key);
            own || kind.fails && FAILURE.iter().any(|(field, _)| *field == key)
        };
        Some(kind.name) == name && object.keys().all(|key| key == "event" || has(key))
    })
}

/// The name of an event in the tables, where `N` stands for a number.
pub(super) fn name_of(event: &str) -> &str {
    match event.starts_with("retry ") {
        true => "retry N",
        false => event,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_unique_and_lines_are_not_broken() {
        for tables in [&[SHARED, COPIES, LISTS][..], &[SHARED, OTHERS], &[PROXIES]] {
            let mut names = HashSet::new();
            for kind in tables.iter().copied().flatten() {
                assert!(names.insert(kind.name), "{kind:?}");
                let fields: HashSet<_> = kind.fields.iter().map(|(name, _)| name).collect();
                assert_eq!(fields.len(), kind.fields.len(), "{kind:?}");
            }
        }
        for text in [of_copies(), of_others()] {
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(80), "{longest:?} in {text}");
        }
    }

    #[test]
    fn what_no_table_has_is_not_known() {
        assert!(know(
            &json!({ "event": "retry 2", "source": "a", "class": "connect" })
        ));
        for bad in [
            json!({ "event": "note", "text": "a", "more": 1 }),
            json!({ "event": "note", "class": "connect" }),
            json!({ "event": "fallen" }),
            json!({ "text": "a" }),
            json!("note"),
        ] {
            assert!(!know(&bad), "{bad}");
        }
    }

    #[test]
    fn a_command_names_its_events() {
        let text = named(&["renamed"]);
        assert!(
            text.contains("  renamed: ") && text.contains("    destination "),
            "{text}"
        );
        assert!(!text.contains("removed"), "{text}");
    }
}

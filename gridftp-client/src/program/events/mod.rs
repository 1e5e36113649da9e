//! The events in JSON and their fields: one table, from which the help and the man pages are made.

mod copies;
mod others;

use serde_json::Value;

pub(crate) use copies::{COPIES, LISTS};
pub(crate) use others::{OTHERS, PROXIES};

/// Fields of an object, and their meanings.
type Fields = &'static [(&'static str, &'static str)];

/// An event, and the fields of its object beside `event`.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    meaning: &'static str,
    pub(crate) fields: Fields,
    /// Whether it has those of a failure too.
    pub(crate) fails: bool,
}

const fn kind(name: &'static str, meaning: &'static str, fields: Fields) -> Kind {
    Kind {
        name,
        meaning,
        fields,
        fails: false,
    }
}

const fn failure(name: &'static str, meaning: &'static str, fields: Fields) -> Kind {
    Kind {
        fails: true,
        ..kind(name, meaning, fields)
    }
}

/// The fields of a failure.
pub(crate) const FAILURE: Fields = &[
    ("error", "text of the failure with its remedy"),
    ("class", "usage, connect, login, transfer or verify"),
    ("site", "server, as host:port"),
    ("operation", "command, secrets masked, or local operation"),
    ("path", "object, where the operation does not name it"),
    ("code", "code of the reply"),
    ("remedy", "change that helps"),
];

/// Those of both programs.
pub(crate) const SHARED: &[Kind] = &[
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
        write_kind(&mut text, kind);
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
        write_kind(&mut text, kind);
    }
    text.push_str("Fields of a failure, as far as they are known:\n");
    write_fields(&mut text, FAILURE);
    text.push('\n');
    text
}

fn write_kind(text: &mut String, kind: &Kind) {
    text.push_str(&format!("  {}: {}\n", kind.name, kind.meaning));
    write_fields(text, kind.fields);
    if kind.fails {
        text.push_str("    and the fields of a failure\n");
    }
}

fn write_fields(text: &mut String, fields: Fields) {
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
    fn unlisted_events_and_fields_are_not_known() {
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

//! Events of a copy, its progress and its end as JSON objects.

use serde_json::{Map, Value, json};

use crate::copy::Summary;
use crate::error::TransferError;
use crate::explain::{Cause, Tuned};
use crate::options::Level;
use crate::progress::{Counts, Event};
use crate::words;

/// The JSON object of an event.
pub(super) fn object(event: &Event<'_>) -> Option<Value> {
    Some(match event {
        Event::Connected {
            site,
            control,
            data,
            data_peer,
            ..
        } => session(site, *control, *data, *data_peer),
        Event::Failed { source, error, .. } => {
            with_fields(json!({ "event": "failed", "source": source }), error)
        }
        Event::Retrying {
            source,
            error,
            attempt,
        } => with_fields(
            json!({ "event": format!("retry {attempt}"), "source": source }),
            error,
        ),
        Event::Gone { error, within } => with_fields(
            json!({ "event": "gone", "seconds": within.as_secs() }),
            error,
        ),
        Event::Continuing {
            source,
            destination,
            held,
            size,
        } => part("continue", (source, destination), *held, *size),
        Event::Kept {
            source,
            destination,
            held,
            size,
        } => part("kept", (source, destination), *held, *size),
        Event::Incomplete {
            source,
            destination,
            sent,
            size,
        } => json!({
            "event": "incomplete", "source": source, "destination": destination, "sent": sent,
            "bytes": size,
        }),
        Event::Finished { .. } => return finished(event),
        Event::Removed { path } => json!({ "event": "deleted", "path": path }),
        Event::Linked {
            source,
            destination,
            target,
        } => link("linked", source, destination, target),
        Event::Skipped { source, why, .. } => {
            json!({ "event": "skip", "source": source, "why": why })
        }
        Event::Warning(text) => json!({ "event": "warning", "text": text }),
        Event::Note(text) => json!({ "event": "note", "text": text }),
        _ => return planned(event),
    })
}

/// The JSON object of an event of a dry run.
fn planned(event: &Event<'_>) -> Option<Value> {
    Some(match event {
        Event::Planned {
            source,
            destination,
            size,
        } => json!({
            "event": "plan", "source": source, "destination": destination, "bytes": size,
        }),
        Event::PlannedDir { path } => json!({ "event": "mkdir", "path": path }),
        Event::PlannedMove {
            source,
            destination,
        } => json!({ "event": "move", "source": source, "destination": destination }),
        Event::PlannedRemoval { path } => json!({ "event": "delete", "path": path }),
        Event::PlannedLink {
            source,
            destination,
            target,
        } => link("link", source, destination, target),
        _ => return None,
    })
}

/// A file that was copied.
fn finished(event: &Event<'_>) -> Option<Value> {
    let Event::Finished {
        source,
        destination,
        bytes,
        stripes,
        took,
        retries,
        verification,
        verified,
        relayed,
    } = event
    else {
        return None;
    };
    let mut value = json!({
        "event": "done", "source": source, "destination": destination, "bytes": bytes,
        "seconds": took.as_secs_f64(), "retries": retries, "verified": verification.name(),
        "checksum": verified.map(|(algorithm, digest)| json!({
            "algorithm": algorithm, "digest": digest,
        })),
    });
    if let (false, Some(fields)) = (stripes.is_empty(), value.as_object_mut()) {
        fields.insert("stripes".to_owned(), (*stripes).into());
    }
    if let (true, Some(fields)) = (*relayed, value.as_object_mut()) {
        fields.insert("relayed".to_owned(), true.into());
    }
    Some(value)
}

/// A session with a server, and its protection.
pub(super) fn session(
    site: &str,
    control: Option<&str>,
    data: Level,
    data_peer: Option<&str>,
) -> Value {
    let (control, data) = (control.unwrap_or("clear"), level(data));
    let mut value = json!({ "event": "connected", "site": site, "control": control, "data": data });
    if let (Some(peer), Some(fields)) = (data_peer, value.as_object_mut()) {
        fields.insert("dcau".to_owned(), peer.into());
    }
    value
}

/// The word for a protection of data.
pub(super) fn level(level: Level) -> &'static str {
    words::of_level(level).unwrap_or("unknown")
}

/// The reason why nothing more is done.
pub(super) fn fatal(error: &dyn std::fmt::Display, parts: Option<&TransferError>) -> Value {
    let value = json!({ "event": "error", "error": error.to_string() });
    match parts {
        Some(error) => with_fields(value, error),
        None => value,
    }
}

/// A file of which a part is there.
fn part(event: &str, (source, destination): (&str, &str), held: u64, size: u64) -> Value {
    json!({
        "event": event, "source": source, "destination": destination, "held": held, "bytes": size,
    })
}

fn link(event: &str, source: &str, destination: &str, target: &str) -> Value {
    json!({ "event": event, "source": source, "destination": destination, "target": target })
}

/// Adds the text and the parts of an error to a JSON object.
pub(super) fn with_fields(mut value: Value, error: &TransferError) -> Value {
    if let (Value::Object(all), Ok(Value::Object(fields))) =
        (&mut value, serde_json::to_value(error.fields()))
    {
        all.insert("error".to_owned(), error.to_string().into());
        all.extend(fields);
    }
    value
}

/// The counts of a copy that moves so many bytes a second.
pub(super) fn progress(counts: Counts, rate: u64) -> Value {
    json!({
        "event": "progress", "files": counts.files_done, "found": counts.files_found,
        "failed": counts.files_failed, "skipped": counts.files_skipped,
        "same": counts.files_same, "bytes": counts.bytes_moved,
        "bytes_found": counts.bytes_found, "complete": counts.complete,
        "bytes_hashing": counts.bytes_hashing, "bytes_hashed": counts.bytes_hashed,
        "bytes_per_second": rate, "mostly": counts.mostly.map(Cause::name),
    })
}

/// The end of a copy.
pub(super) fn end(summary: &Summary) -> Value {
    let counts = summary.counts;
    let mut end = json!({
        "event": "end", "files": counts.files_done, "failed": counts.files_failed,
        "skipped": counts.files_skipped, "planned": counts.files_planned,
        "same": counts.files_same,
        "deleted": counts.deleted, "links": counts.links, "bytes": counts.bytes_moved,
        "seconds": summary.took.as_secs_f64(),
    });
    if let (Some(explanation), Some(fields)) = (&summary.explanation, end.as_object_mut()) {
        let shares = explanation.shares.iter();
        let shares: Map<_, _> = shares
            .map(|(cause, share)| (cause.name().to_owned(), json!(share)))
            .collect();
        fields.insert("shares".into(), shares.into());
        fields.insert("remedy".into(), json!(explanation.remedy()));
    }
    if let (Some(tuned), Some(fields)) = (summary.tuned, end.as_object_mut()) {
        let Tuned {
            streams,
            files,
            rate,
        } = tuned;
        let tuned = json!({ "parallel": streams, "concurrency": files, "bytes_per_second": rate });
        fields.insert("tuned".into(), tuned);
    }
    end
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use super::*;
    use crate::explain::Explanation;
    use crate::program::events::{COPIES, FAILURE, SHARED, name_of};
    use crate::progress::Verification;

    /// A summary with all that one may have.
    fn summary() -> Summary {
        Summary {
            counts: Counts::default(),
            took: Duration::ZERO,
            failed: None,
            explanation: Some(Explanation::default()),
            tuned: Some(Tuned {
                streams: None,
                files: 1,
                rate: 1,
            }),
        }
    }

    /// Objects of all events of a dry run.
    fn plans() -> Vec<Value> {
        let (source, destination, target, path) = ("a", "b", "c", "d");
        let events = [
            Event::Planned {
                source,
                destination,
                size: None,
            },
            Event::PlannedDir { path },
            Event::PlannedMove {
                source,
                destination,
            },
            Event::PlannedRemoval { path },
            Event::PlannedLink {
                source,
                destination,
                target,
            },
        ];
        events.iter().filter_map(object).collect()
    }
    const INCOMPLETE: Event<'static> = Event::Incomplete {
        source: "a",
        destination: "b",
        sent: 1,
        size: None,
    };

    /// Objects of all events, with all fields that they may have.
    fn objects() -> Vec<Value> {
        let error = &TransferError::Changed {
            path: "a".to_owned(),
        };
        let (source, destination, target, path) = ("a", "b", "c", "d");
        let (held, size) = (1, 2);
        let events = [
            Event::Connected {
                site: "host:2811",
                round_trip: Duration::ZERO,
                control: None,
                data: Level::Private,
                data_peer: Some("self"),
            },
            Event::Failed {
                source,
                destination: Some(destination),
                name: b"a",
                error,
            },
            Event::Retrying {
                source,
                error,
                attempt: 2,
            },
            Event::Gone {
                error,
                within: Duration::from_secs(1),
            },
            Event::Continuing {
                source,
                destination,
                held,
                size,
            },
            Event::Kept {
                source,
                destination,
                held,
                size,
            },
            INCOMPLETE,
            Event::Finished {
                source,
                destination,
                bytes: size,
                stripes: &[1, 1],
                took: Duration::ZERO,
                retries: 0,
                verification: Verification::Digest,
                verified: Some(("MD5", "00")),
                relayed: true,
            },
            Event::Removed { path },
            Event::Linked {
                source,
                destination,
                target,
            },
            Event::Skipped {
                source,
                destination: Some(destination),
                why: "why",
            },
            Event::Warning("text"),
            Event::Note("text"),
        ];
        let mut all: Vec<_> = events.iter().filter_map(object).collect();
        all.extend(plans());
        all.push(progress(Counts::default(), 1));
        all.push(end(&summary()));
        all.push(fatal(error, Some(error)));
        all
    }

    #[test]
    fn the_help_has_every_field_of_every_event_and_no_other() {
        let mut emitted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for value in objects() {
            let name = name_of(value["event"].as_str().unwrap()).to_owned();
            let keys = value.as_object().unwrap().keys();
            let keys = keys.filter(|key| key.as_str() != "event").cloned();
            emitted.entry(name).or_default().extend(keys);
        }
        let mut told = BTreeMap::new();
        for kind in [SHARED, COPIES].into_iter().flatten() {
            let of_failure = FAILURE.iter().filter(|_| kind.fails);
            let fields = kind.fields.iter().chain(of_failure);
            let fields: BTreeSet<_> = fields.map(|(field, _)| (*field).to_owned()).collect();
            told.insert(kind.name.to_owned(), fields);
        }
        assert_eq!(emitted, told);
    }
}

//! The events of `gridftp COMMAND --json` of all commands: those of its help, with their fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::Host;

use crate::Bed;
use crate::sibling::{objects, tree};

/// Runs in their order: the command line, its exit status, and the events of its objects.
const RUNS: &[(&[&str], i32, &[&str])] = &[
    (&["ls", "@dir"], 0, &["entry"; 4]),
    (&["stat", "@dir/one"], 0, &["stat"]),
    (
        &["tree", "@dir"],
        0,
        &["entry", "entry", "entry", "entry", "entry", "end"],
    ),
    (&["cat", "@dir/one"], 2, &["error"]),
    (&["head", "@dir/one"], 2, &["error"]),
    (&["mkdir", "@new"], 0, &["directory"]),
    (&["mkdir", "-p", "@new/a", "@new"], 0, &["directory"; 2]),
    (&["mkdir", "@new"], 1, &["failed"]),
    (&["touch", "@new/file"], 0, &["touched"]),
    (
        &["touch", "-c", "@new/none", "@new/file"],
        0,
        &["skip", "touched"],
    ),
    (&["chmod", "0640", "@new/file"], 0, &["mode"]),
    (&["mv", "@new/file", "@new/moved"], 0, &["renamed"]),
    (&["ln", "-s", "moved", "@new/link"], 0, &["symlink"]),
    (
        &["rm", "@new/link", "@new/moved", "@new/moved"],
        1,
        &["removed", "removed", "failed"],
    ),
    (&["rm", "-r", "@new"], 0, &["removed"]),
    (&["rm", "-rf", "@new"], 0, &["skip"]),
    (&["du", "-s", "@dir"], 0, &["size"]),
    (&["df", "@dir"], 0, &["free"]),
    (&["sum", "@dir/one"], 0, &["digest"]),
    (&["check", "dir", "@dir"], 5, &["difference", "end"]),
    (
        &["speed", "@dir", "--size", "300K"],
        0,
        &["skip", "skip", "speed", "speed"],
    ),
    (&["places"], 0, &["place"]),
    (&["ls", "@missing"], 1, &["failed"]),
];

/// Events that no run above has with all their fields: they are of Grid security, or of a server
/// that fails.
const OTHERS: &[&str] = &[
    "connected",
    "destroyed",
    "error",
    "gone",
    "note",
    "plan",
    "proxy",
    "retry N",
    "same",
    "signature",
    "warning",
];

type Events = BTreeMap<String, BTreeSet<String>>;

/// The events in a help, and their fields.
fn told(help: &str) -> Events {
    let mut events = Events::new();
    let (mut event, mut failing) = (String::new(), Vec::new());
    let lines = help
        .lines()
        .skip_while(|line| !line.starts_with("Events of --json"));
    for line in lines.take_while(|line| !line.starts_with("Exit status")) {
        if let Some(line) = line.strip_prefix("    ") {
            match line.split_once("  ") {
                Some((field, _)) => {
                    let fields = events.entry(event.clone()).or_default();
                    fields.insert(field.to_owned());
                }
                None => failing.push(event.clone()),
            }
        } else if line.starts_with("Fields of a failure") {
            event = "failure".to_owned();
        } else if let Some((name, _)) = line
            .strip_prefix("  ")
            .and_then(|line| line.split_once(": "))
        {
            event = name.to_owned();
            events.entry(event.clone()).or_default();
        }
    }
    let failure = events.remove("failure").unwrap_or_default();
    for event in failing {
        events
            .entry(event)
            .or_default()
            .extend(failure.iter().cloned());
    }
    events
}

#[test]
fn every_command_tells_its_events_as_its_help_has_them() -> Result<()> {
    let mut bed = Bed::new()?;
    // Measurements that are left out are events too.
    bed.server = Host::ours_with(bed.there.root(), &["--max-measurement", "0"])?;
    tree(&bed.there)?;
    tree(&bed.here)?;
    bed.here.file("dir/one", 11, 1)?;
    bed.here.dir(".config/gridftp")?;
    let place = format!("[place.there]\nurl = \"{}\"\n", bed.url(""));
    fs::write(bed.here.path(".config/gridftp/config.toml"), place)?;
    let mut emitted = Events::new();
    for (args, status, events) in RUNS {
        let (command, rest) = args.split_first().context("no command")?;
        let run = bed.there(&[&[*command, "--json"][..], rest].concat())?;
        let objects = objects(&run)?;
        let names: Vec<_> = objects
            .iter()
            .map(|object| object["event"].as_str().unwrap_or_default())
            .collect();
        ensure!(
            run.status.code() == Some(*status) && names == *events,
            "{args:?}: {}",
            run.report()
        );
        for object in &objects {
            let keys = object.as_object().context("no object")?.keys();
            let keys = keys.filter(|key| key.as_str() != "event").cloned();
            let name = object["event"].as_str().unwrap_or_default();
            emitted.entry(name.to_owned()).or_default().extend(keys);
        }
    }
    let help = bed.gridftp(&["--help"])?.ok()?.stdout;
    let told = told(&help);
    for (event, fields) in &emitted {
        let known = told.get(event).with_context(|| event.clone())?;
        ensure!(fields.is_subset(known), "{event}: {fields:?}");
    }
    for (event, fields) in &told {
        let is_whole = emitted.get(event) == Some(fields);
        ensure!(
            is_whole || OTHERS.contains(&event.as_str()),
            "{event}: {fields:?}, and {:?}",
            emitted.get(event)
        );
    }
    let man = bed.gridftp(&["--man"])?.ok()?.stdout;
    ensure!(man.contains("Events of \\-\\-json"), "{man}");

    // No command of the help is left out, but for those of certificates, and doctor below.
    let commands: Vec<_> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    ensure!(commands.len() > 15, "{commands:?}");
    for command in commands {
        let is_run = RUNS
            .iter()
            .any(|(args, _, _)| args.first() == Some(&command));
        let is_other = ["check-receipt", "doctor", "proxy"].contains(&command);
        ensure!(is_run || is_other, "{command}");
    }
    // The lines of doctor have no event but those of connections.
    let run = bed.there(&["doctor", "--json", "@"])?.ok()?;
    for object in objects(&run)? {
        let keys: Vec<_> = object.as_object().context("no object")?.keys().collect();
        let is_finding = ["verdict", "topic", "fact", "remedy"]
            .iter()
            .all(|key| object.get(*key).is_some());
        ensure!(
            object["event"] == "connected" || is_finding && keys.len() == 4,
            "{object}"
        );
    }
    Ok(())
}

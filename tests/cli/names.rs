//! Names of any bytes: each file keeps its content, and names that no command carries are reported.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Finished, Host, OddTree, Tree, UNNAMEABLE};

use crate::{Bed, cp_in};

/// Both modes, with one and several connections and sessions.
const WAYS: [&[&str]; 6] = [
    &["--mode", "stream", "-j", "1"],
    &["--mode", "stream", "-j", "4"],
    &["--mode", "extended", "-p", "1", "-j", "1"],
    &["--mode", "extended", "-p", "4", "-j", "1"],
    &["--mode", "extended", "-p", "1", "-j", "4"],
    &["--mode", "extended", "-p", "3", "-j", "3", "--verify"],
];

fn unnameable() -> OddTree {
    OddTree::of(UNNAMEABLE.iter().map(|name| name.to_vec()))
}

/// Copies a tree of all names in every way, without and with names that no command can carry.
fn round(from: &Tree, url: &str, to: &Tree, to_url: impl Fn(&str) -> String) -> Result<()> {
    let all = OddTree::all();
    all.write(&from.path("tree"))?;
    all.with(&unnameable()).write(&from.path("more"))?;
    for (n, way) in WAYS.into_iter().enumerate() {
        for (tree, missing) in [("tree", 0), ("more", UNNAMEABLE.len())] {
            let name = format!("{tree} {n}");
            let source = format!("{url}{tree}/");
            let target = to_url(&name);
            let args = [&["-r", "-v"], way, &[&source, &target]].concat();
            let finished = cp_in(from, &args)?;
            let run = || format!("{way:?} {tree}: {}", finished.report());
            let differences = OddTree::all().differences(&OddTree::read(&to.path(&name))?);
            ensure!(differences.is_empty(), "{differences:#?}\n{}", run());
            let told = finished.stderr.lines().filter(|line| {
                line.contains(": failed: ") || line.contains("gridftp-cp: failed: ")
            });
            let told = told.count();
            ensure!(
                told == missing,
                "{told} instead of {missing} names reported: {}",
                run()
            );
            let status = finished.status.code().context("a signal")?;
            ensure!(status == i32::from(missing > 0), "{}", run());
            harmless(&finished)?;
        }
    }
    Ok(())
}

/// Checks that the output has no control characters and no changes of the writing direction.
fn harmless(finished: &Finished) -> Result<()> {
    for text in [&finished.stdout, &finished.stderr] {
        let bad = text.chars().find(|c| {
            (c.is_control() && *c != '\n') || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        });
        ensure!(
            bad.is_none(),
            "{bad:?} in {}",
            finished.report().escape_debug()
        );
    }
    Ok(())
}

#[test]
fn uploads_keep_names_of_any_bytes() -> Result<()> {
    let bed = Bed::new()?;
    round(&bed.here, "", &bed.there, |name| bed.url(name))
}

#[test]
fn downloads_keep_names_of_any_bytes() -> Result<()> {
    let bed = Bed::new()?;
    round(&bed.there, &bed.url(""), &bed.here, |name| {
        bed.here.path(name).display().to_string()
    })
}

#[test]
fn copies_between_servers_keep_names_of_any_bytes() -> Result<()> {
    let bed = Bed::new()?;
    let far = Tree::new()?;
    let other = Host::ours(far.root())?;
    round(&bed.there, &bed.url(""), &far, |name| other.url(name))
}

/// Local names on the command line need not be UTF-8.
#[test]
fn any_local_name_can_be_a_source() -> Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let bed = Bed::new()?;
    let all = OddTree::of([b"\xff\xfe".to_vec(), b" a ".to_vec(), b"\x1b[1m".to_vec()]);
    all.write(bed.here.root())?;
    for (name, _) in all.files() {
        let mut up = crate::command(&bed.here, &[])?;
        up.arg(std::ffi::OsStr::from_bytes(name))
            .arg(bed.url("to/"));
        workspace_tests::run(&mut up, crate::LIMIT)?.ok()?;
    }
    let differences = all.differences(&OddTree::read(&bed.there.path("to"))?);
    ensure!(differences.is_empty(), "{differences:#?}");
    Ok(())
}

/// No command has to carry the names of a copy on this machine.
#[test]
fn copies_on_this_machine_keep_names_with_line_ends() -> Result<()> {
    let here = Tree::new()?;
    let all = OddTree::all().with(&unnameable());
    all.write(&here.path("tree"))?;
    let list: Vec<u8> = all
        .files()
        .flat_map(|(name, _)| [name.as_slice(), &[0]].concat())
        .collect();
    std::fs::write(here.path("list"), list)?;
    for (to, args) in [
        ("whole", &["-r", "tree/"][..]),
        ("listed", &["--files-from", "list", "tree"]),
        ("named", &["tree/a\nb", "tree/\n", "tree/x\r", "tree/a\rb"]),
    ] {
        harmless(&cp_in(&here, &[args, &[&format!("{to}/")]].concat())?.ok()?)?;
        let wanted = match to {
            "named" => unnameable(),
            _ => OddTree::all().with(&unnameable()),
        };
        let differences = wanted.differences(&OddTree::read(&here.path(to))?);
        ensure!(differences.is_empty(), "{to}: {differences:#?}");
    }
    Ok(())
}

/// A printed URL names the same file when it is used as a source.
#[test]
fn printed_urls_can_be_used_as_sources() -> Result<()> {
    let bed = Bed::new()?;
    let all = OddTree::all();
    all.write(bed.there.root())?;
    let plan = bed
        .cp(&["--json", "--dry-run", "-r", &bed.url(""), "to"])?
        .ok()?;
    let mut urls = Vec::new();
    for line in plan.stdout.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        if value["event"] == "plan" {
            urls.push(value["source"].as_str().context("no source")?.to_owned());
        }
    }
    ensure!(urls.len() == all.files().len(), "{} URLs", urls.len());
    let mut got = HashSet::new();
    for (n, url) in urls.iter().enumerate().step_by(7) {
        let one = format!("one {n}");
        bed.cp(&[url, &one])?.ok()?;
        got.insert(std::fs::read(bed.here.path(&one))?);
    }
    ensure!(
        got.len() == urls.len().div_ceil(7)
            && got
                .iter()
                .all(|got| all.files().any(|(_, want)| want == got)),
        "two URLs gave one file"
    );
    Ok(())
}

/// Both ends in a line of a plan are arguments for a shell.
#[test]
fn lines_of_a_plan_can_be_pasted_in_a_shell() -> Result<()> {
    let bed = Bed::new()?;
    let names: [&[u8]; 9] = [
        b"a b",
        b"it's",
        b"\"q\" \\ $HOME `id`; *?#&",
        b"100%41",
        b"\xff\xfe",
        b"-r",
        b"a:b",
        b"~",
        b"plain-1.root",
    ];
    let names = OddTree::of(names.map(<[u8]>::to_vec));
    let lines = OddTree::of([b"a\nb".to_vec()]);
    let (here, there) = (&bed.here, &bed.there);
    let (far, back) = (bed.url("far"), bed.url("to"));
    for (all, from, to, source, target) in [
        (names.clone().with(&lines), "tree o'", "to b", here, here),
        (names.clone(), "tree o'", &back, here, there),
        (names, &far, "back b", there, here),
    ] {
        let name = |end: &str| end.rsplit('/').next().unwrap_or_default().to_owned();
        let (root, into) = (source.path(&name(from)), target.path(&name(to)));
        let _before = std::fs::remove_dir_all(&root);
        all.write(&root)?;
        let plan = bed
            .cp(&["--dry-run", "-r", &format!("{from}/"), to])?
            .ok()?;
        std::fs::create_dir(&into)?;
        for line in plan.stdout.lines().filter(|line| line.contains(" -> ")) {
            let words: Vec<_> = line.splitn(4, ' ').collect();
            let [source, "->", destination, size] = words.as_slice() else {
                anyhow::bail!("{line}");
            };
            ensure!(size.starts_with('('), "{line}");
            let mut shell = std::process::Command::new("sh");
            shell
                .args(["-c", &format!("exec \"$0\" {source} {destination}")])
                .arg(workspace_tests::binary("gridftp-cp")?)
                .current_dir(here.root())
                .env("HOME", here.root());
            workspace_tests::run(&mut shell, crate::LIMIT)?.ok()?;
        }
        let differences = all.differences(&OddTree::read(&into)?);
        ensure!(differences.is_empty(), "{differences:#?} {}", plan.report());
    }
    Ok(())
}

/// File names must not inject control characters into a terminal, a log or JSON.
#[test]
fn names_are_escaped_in_all_output() -> Result<()> {
    let bed = Bed::new()?;
    let all = OddTree::all().with(&unnameable());
    all.write(bed.there.root())?;
    let url = bed.url("");
    let unwritable = bed.url("a\x1b[1m/\u{202e}\u{7f}");
    for args in [
        &["--list", &url][..],
        &["--list", "--json", &url],
        &["--json", "--dry-run", "-r", &url, "x"],
        &["--json", "-r", "--verify", &url, "json"],
        &["-vv", "-r", "--dry-run", &url, "x"],
        &["--debug", "-r", &url, "debug"],
        &[&unwritable, "x"],
        &["--json", &unwritable, "x"],
        &[&format!("{unwritable}*"), "x"],
    ] {
        let finished = bed.cp(args)?;
        harmless(&finished)?;
        if args.contains(&"--json") {
            for line in finished.stdout.lines() {
                serde_json::from_str::<serde_json::Value>(line)?;
            }
        }
    }
    let log = bed.server.output();
    let bad = log.chars().find(|c| c.is_control() && *c != '\n');
    ensure!(bad.is_none(), "{bad:?} in the log: {}", log.escape_debug());
    Ok(())
}

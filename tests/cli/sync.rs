//! Files that are at their destination already: `--sync`, `--checksum`, `--update`, `--immutable`
//! and `--backup-dir`, in every direction.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Finished, Host, Reaction, ScriptedServer, Tree};

use crate::{Bed, cp_in, fails};

/// One way to copy `tree/`.
struct Route<'a> {
    name: &'a str,
    from: String,
    to: String,
    /// The tree of the source, and that of the destination below `to`.
    source: &'a Tree,
    target: &'a Tree,
}

impl Route<'_> {
    fn copy(&self, bed: &Bed, flags: &[&str]) -> Result<Finished> {
        bed.cp(&[&["-r", "--json"], flags, &[&self.from, &self.to]].concat())
    }

    /// Copies, and checks the counts of the last line.
    fn counts(&self, bed: &Bed, flags: &[&str], files: u64, same: u64) -> Result<()> {
        let said = self.copy(bed, flags)?.ok()?;
        let end = said.stdout.lines().last().unwrap_or_default();
        let (files, same) = (format!("\"files\":{files},"), format!("\"same\":{same},"));
        let fits = end.contains(&files) && end.contains(&same);
        ensure!(fits, "{} {flags:?}: {end}", self.name);
        Ok(())
    }
}

/// Does the same on fresh trees of ten files: upload, download, third party, on this machine, and in
/// MODE S.
fn each(act: impl Fn(&Bed, &Route<'_>) -> Result<()>) -> Result<()> {
    for way in ["up", "down", "between", "here", "--mode=stream"] {
        let bed = Bed::new()?;
        let far = Tree::new()?;
        let other = Host::ours(far.root())?;
        let (source, target) = match way {
            "up" | "--mode=stream" => (&bed.here, &bed.there),
            "down" => (&bed.there, &bed.here),
            "here" => (&bed.here, &bed.here),
            _ => (&bed.there, &far),
        };
        let (from, to) = match way {
            "up" | "--mode=stream" => ("tree/".to_owned(), bed.url("to")),
            "down" => (bed.url("tree/"), "to".to_owned()),
            "here" => ("tree/".to_owned(), "to".to_owned()),
            _ => (bed.url("tree/"), other.url("to")),
        };
        for n in 0..10 {
            let name = match n {
                0..5 => format!("tree/{n}"),
                _ => format!("tree/sub/{n}"),
            };
            set_time(&source.file(&name, 10 + n, n)?, 1_000_000_000)?;
        }
        let route = Route {
            name: way,
            from,
            to,
            source,
            target,
        };
        act(&bed, &route).context(way)?;
    }
    Ok(())
}

fn set_time(path: &Path, seconds: u64) -> Result<()> {
    let time = UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    let file = File::options().write(true).open(path)?;
    Ok(file.set_modified(time)?)
}

fn time(path: &Path) -> Result<SystemTime> {
    Ok(fs::metadata(path)?.modified()?)
}

#[test]
fn a_second_run_copies_what_changed() -> Result<()> {
    each(|bed, route| {
        route.counts(bed, &["--sync"], 10, 0)?;
        let copied = time(&route.target.path("to/sub/7"))?;
        let original = time(&route.source.path("tree/sub/7"))?;
        // Listings tell milliseconds.
        ensure!(original.duration_since(copied)? < Duration::from_millis(1));
        route.counts(bed, &["--sync"], 0, 10)?;
        route.source.file("tree/3", 99, 9)?;
        route.source.file("tree/sub/7", 17, 70)?;
        set_time(&route.source.path("tree/sub/7"), 1_000_000_001)?;
        let planned = route.copy(bed, &["--sync", "--dry-run"])?.ok()?.stdout;
        let planned = planned.lines().filter(|line| line.contains("\"plan\""));
        ensure!(planned.count() == 2);
        route.counts(bed, &["--sync"], 2, 8)?;
        workspace_tests::same_file(
            &route.source.path("tree/sub/7"),
            &route.target.path("to/sub/7"),
        )
    })
}

#[test]
fn digests_find_what_times_hide() -> Result<()> {
    each(|bed, route| {
        route.counts(bed, &["--sync"], 10, 0)?;
        // Another content of the same size and time, and another time of the same content.
        set_time(&route.source.file("tree/4", 14, 40)?, 1_000_000_000)?;
        set_time(&route.source.path("tree/2"), 1_234_567_890)?;
        route.counts(bed, &["--checksum"], 1, 9)?;
        workspace_tests::same_file(&route.source.path("tree/4"), &route.target.path("to/4"))?;
        route.counts(bed, &["--sync"], 1, 9)
    })
}

#[test]
fn newer_copies_stay() -> Result<()> {
    each(|bed, route| {
        let newer = route.target.file("to/1", 3, 1)?;
        let older = route.target.file("to/sub/8", 3, 1)?;
        set_time(&older, 999_999_999)?;
        route.counts(bed, &["--update"], 9, 0)?;
        ensure!(fs::metadata(newer)?.len() == 3 && fs::metadata(older)?.len() == 18);
        Ok(())
    })
}

#[test]
fn a_copy_that_differs_is_an_error_and_stays() -> Result<()> {
    each(|bed, route| {
        route.counts(bed, &["--sync"], 10, 0)?;
        fs::remove_file(route.target.path("to/0"))?;
        route.target.file("to/1", 3, 1)?;
        let finished = route.copy(bed, &["--immutable"])?;
        ensure!(finished.status.code() == Some(1), "{}", finished.report());
        let failed = finished
            .stdout
            .lines()
            .filter(|l| l.contains("\"failed\","));
        let failed: Vec<_> = failed.collect();
        let [one] = failed.as_slice() else {
            anyhow::bail!("{}", finished.report());
        };
        ensure!(one.contains("its copy differs") && one.contains("tree/1"));
        ensure!(fs::metadata(route.target.path("to/1"))?.len() == 3);
        ensure!(fs::metadata(route.target.path("to/0"))?.len() == 10);
        Ok(())
    })
}

#[test]
fn replaced_files_move_to_the_directory_for_them() -> Result<()> {
    each(|bed, route| {
        route.counts(bed, &["--sync"], 10, 0)?;
        for size in [50, 60] {
            route.source.file("tree/sub/7", size, size)?;
            route.counts(bed, &["--sync", "--backup-dir", "old/runs"], 1, 9)?;
        }
        ensure!(route.target.names("to/old")? == ["runs/sub/7"]);
        let (kept, new) = (route.target.path("to/old/runs/sub/7"), "to/sub/7");
        ensure!(fs::metadata(kept)?.len() == 50);
        ensure!(fs::metadata(route.target.path(new))?.len() == 60);
        // Without a comparison everything is replaced.
        route.counts(bed, &["--backup-dir", "all"], 10, 0)?;
        ensure!(route.target.names("to/all")?.len() == 10);
        Ok(())
    })
}

/// The next file that is replaced would move to the name of that copy.
#[test]
fn no_file_is_copied_among_the_replaced_ones() -> Result<()> {
    each(|bed, route| {
        route.counts(bed, &["--sync"], 10, 0)?;
        route.source.file("tree/3", 50, 5)?;
        route.source.file("tree/old/3", 7, 7)?;
        let manner = ["--sync", "--backup-dir", "old"];
        for flags in [&["--dry-run"][..], &[]] {
            let said = route.copy(bed, &[&manner[..], flags].concat())?;
            ensure!(said.status.code() == Some(1), "{}", said.report());
            let told = "among the replaced files of --backup-dir";
            ensure!(said.stdout.matches(told).count() == 1, "{}", said.report());
        }
        ensure!(fs::metadata(route.target.path("to/3"))?.len() == 50);
        ensure!(fs::metadata(route.target.path("to/old/3"))?.len() == 13);
        let left = [&manner[..], &["--exclude", "/old"]].concat();
        route.counts(bed, &left, 0, 10)
    })
}

#[test]
fn replaced_files_have_one_directory_by_all_its_names() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("tree/a", 10, 1)?;
    bed.here.file("to/a", 20, 2)?;
    bed.here.file("to/b", 30, 3)?;
    std::os::unix::fs::symlink("to", bed.here.path("link"))?;
    let root = bed.here.root().display();
    let all = ["-r", "--sync", "--delete", "--backup-dir"];
    for dir in [
        format!("{root}/to/it/was"),
        format!("{root}/link//it/was/"),
        "it//was".to_owned(),
    ] {
        bed.cp(&[&all[..], &[&dir, "tree/", "to"]].concat())?.ok()?;
        let names = bed.here.names("to")?;
        ensure!(names == ["a", "it/was/a", "it/was/b"], "{dir}: {names:?}");
    }
    bed.here.file("tree/a", 40, 4)?;
    std::os::unix::fs::symlink(".", bed.here.path("to/self"))?;
    for dir in [
        format!("{root}/to"),
        format!("{root}/link"),
        "self".to_owned(),
    ] {
        let refused = bed.cp(&[&all[..], &[&dir, "tree/", "to"]].concat())?;
        fails(
            &refused,
            2,
            &["it is the directory of the destination itself"],
        )?;
    }
    ensure!(fs::metadata(bed.here.path("to/a"))?.len() == 10, "replaced");
    Ok(())
}

/// The places of the events of a kind in the output of a dry run, sorted.
fn planned(said: &Finished, event: &str, field: &str) -> Result<Vec<String>> {
    let mut places = Vec::new();
    for line in said.stdout.lines() {
        let value: serde_json::Value = serde_json::from_str(line)?;
        if value.get("event").and_then(|event| event.as_str()) == Some(event) {
            let place = value
                .get(field)
                .and_then(|place| place.as_str())
                .context("no place")?;
            places.push(place.to_owned());
        }
    }
    places.sort();
    Ok(places)
}

#[test]
fn a_dry_run_tells_the_directories_and_the_moves_of_the_copy() -> Result<()> {
    each(|bed, route| {
        route.target.file("to/3", 5, 5)?;
        route.target.file("to/gone", 5, 5)?;
        route.source.dir("tree/empty/deep")?;
        let flags = ["--delete", "--backup-dir", "old/runs"];
        let said = route
            .copy(bed, &[&flags[..], &["--dry-run"]].concat())?
            .ok()?;
        let at = |names: &[&str]| -> Vec<_> {
            let places = names.iter().map(|name| format!("{}/{name}", route.to));
            places.collect()
        };
        let dirs = planned(&said, "mkdir", "path")?;
        let wanted = ["empty", "empty/deep", "old", "old/runs", "sub"];
        ensure!(dirs == at(&wanted), "{}: {}", route.name, said.report());
        let moved = planned(&said, "move", "source")?;
        ensure!(moved == at(&["3", "gone"]), "{}", said.report());
        let moved = planned(&said, "move", "destination")?;
        let wanted = ["old/runs/3", "old/runs/gone"];
        ensure!(moved == at(&wanted), "{}", said.report());
        ensure!(planned(&said, "delete", "path")?.is_empty());
        let end = said.stdout.lines().last().unwrap_or_default();
        ensure!(
            end.contains("\"planned\":10,") && end.contains("\"skipped\":0"),
            "{end}"
        );
        ensure!(route.target.names("to")? == ["3", "gone"]);
        // The copy does as the dry run said.
        route.copy(bed, &flags)?.ok()?;
        for dir in dirs {
            let name = dir.strip_prefix(&route.to).context("elsewhere")?;
            let made = route.target.path(&format!("to{name}"));
            ensure!(made.is_dir(), "{}: {dir}", route.name);
        }
        ensure!(route.target.names("to/old")? == ["runs/3", "runs/gone"]);
        Ok(())
    })
}

#[test]
fn directories_are_listed_and_files_not_asked_for() -> Result<()> {
    let bed = Bed::new()?;
    for n in 0..50 {
        bed.here.file(&format!("tree/{n}"), 10, n)?;
    }
    let to = bed.url("to");
    bed.cp(&["-r", "--sync", "tree/", &to])?.ok()?;
    let said = bed.cp(&["-r", "--sync", "--debug", "tree/", &to])?.ok()?;
    let count = |verb: &str| said.stderr.matches(&format!("> {verb}")).count();
    ensure!(count("MLSD") == 1 && count("MLST") < 5, "{}", said.stderr);
    let end = said.stdout.lines().last().unwrap_or_default();
    ensure!(
        end.contains("0 files") && end.contains("50 the same"),
        "{end}"
    );
    Ok(())
}

#[test]
fn a_server_without_facts_is_asked_for_each_file() -> Result<()> {
    let tree = Tree::new()?;
    for name in ["a", "b"] {
        set_time(&tree.file(name, 10, 1)?, 1_234_567_890)?;
    }
    let server = ScriptedServer::start(|line| match line.split(' ').next() {
        Some("MLST" | "MLSD") => Reaction::say("500 what?"),
        Some("SITE") => Reaction::say("500 what?"),
        Some("MDTM") => Reaction::say("213 20090213233130"),
        _ => Reaction::Usual,
    })?;
    let url = server.url("to/");
    // It keeps no times, which is told once.
    let said = cp_in(&tree, &["--sync", "a", "b", &url])?.ok()?;
    ensure!(
        said.stderr.matches("use --checksum").count() == 1,
        "{}",
        said.report()
    );
    let said = cp_in(&tree, &["--sync", "a", "b", &url])?.ok()?;
    ensure!(said.stdout.contains("2 the same"), "{}", said.report());
    Ok(())
}

#[test]
fn parts_and_pipes_are_not_compared() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a", 10, 1)?;
    for args in [
        &["--sync", "--offset", "3", "a"][..],
        &["--update", "-"],
        &["--backup-dir", "", "a"],
    ] {
        let refused = bed.cp(&[args, &[&bed.url("to")]].concat())?;
        fails(&refused, 2, &["usage: "])?;
    }
    Ok(())
}

//! Lists of pairs that `-f` reads and `-df` writes, parts of files, wildcards, and levels of `-sync`.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Result, ensure};
use workspace_tests::{Finished, Tree, file_url, run_with_input, same_file};

use super::{globus, real};
use crate::{Bed, LIMIT, command, fails};

/// Runs a program in a tree; nothing where it is not installed.
type Program = fn(&Tree, &[&str]) -> Result<Option<Finished>>;

#[test]
fn lines_of_a_list_have_parts() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("a", 10_000, 3)?;
    let whole = fs::read(bed.there.path("a"))?;
    let (from, to) = (bed.url("a"), file_url(&bed.here.path("out")));
    let pairs = format!(
        "{from} {to}/b 1000,500 size=10000;\n{from} {to}/c 9000,-1\n\"{from}\" \"{to}/d\" 0,-1\n"
    );
    fs::write(bed.here.path("pairs"), pairs)?;
    globus(&bed.here, &["-filename", "pairs"])?.ok()?;
    let [b, c, d] = ["b", "c", "d"].map(|name| fs::read(bed.here.path("out").join(name)));
    let (b, c) = (b?, c?);
    ensure!(
        b.len() == 1500 && b[1000..] == whole[1000..1500],
        "{}",
        b.len()
    );
    ensure!(
        c.len() == 10_000 && c[9000..] == whole[9000..],
        "{}",
        c.len()
    );
    ensure!(d? == whole, "d is not whole");
    fs::write(
        bed.here.path("pairs"),
        format!("{from} {to}/e\n{from} {to}/f 1;2\n"),
    )?;
    fails(
        &globus(&bed.here, &["-f", "pairs"])?,
        1,
        &["pairs: line 2: 1;2: "],
    )?;
    ensure!(
        !bed.here.path("out/e").exists(),
        "it begins with a bad list"
    );
    let told = globus(&bed.here, &["-list-url", &bed.url("")])?.ok()?;
    ensure!(told.stdout.contains("    a "), "{}", told.report());
    Ok(())
}

#[test]
fn lists_of_pairs_are_copied_and_those_left_are_written() -> Result<()> {
    let bed = Bed::new()?;
    for name in ["a", "b c", "d"] {
        bed.here.file(name, 3_000, 3)?;
    }
    let line = |from: &str, to: &str| {
        let from = file_url(&bed.here.path(from)).replace(' ', "%20");
        format!("\"{from}\" \"{}\"\n", bed.url(to))
    };
    let pairs = [
        "# all\n\n",
        &line("a", "up/a"),
        &line("none", "up/none"),
        &line("d", "e"),
    ];
    fs::write(bed.here.path("pairs"), pairs.concat())?;
    let told = globus(&bed.here, &["-f", "pairs", "-df", "left"])?;
    fails(&told, 1, &["error: ", "none"])?;
    let left = fs::read_to_string(bed.here.path("left"))?;
    ensure!(left.contains("up/none") && left.contains("d\""), "{left}");
    // Of the files that are left, those that are there are copied now.
    fs::copy(bed.here.path("a"), bed.here.path("none"))?;
    globus(&bed.here, &["-df", "left", "-f", "nowhere"])?.ok()?;
    ensure!(!bed.here.path("left").exists(), "it stays");
    bed.same("a", "up/none")?;
    bed.same("d", "e")?;
    fs::write(bed.here.path("pairs"), line("b c", "f g"))?;
    globus(&bed.here, &["-f", "pairs"])?.ok()?;
    bed.same("b c", "f g")
}

#[test]
fn other_names_of_options_read_and_write_lists_too() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a", 3_000, 3)?;
    let line = format!("{} {}\n", file_url(&bed.here.path("a")), bed.url("a"));
    fs::write(bed.here.path("pairs"), line)?;
    globus(&bed.here, &["-dump-only", "plan", "-f", "pairs"])?.ok()?;
    ensure!(bed.there.names("")?.is_empty(), "a plan is copied");
    globus(&bed.here, &["-dumpfile", "plan"])?.ok()?;
    bed.same("a", "a")?;
    ensure!(!bed.here.path("plan").exists(), "it stays");
    // Standard input is a list too.
    fs::remove_file(bed.there.path("a"))?;
    let input = fs::File::open(bed.here.path("pairs"))?;
    let mut reads = command(&bed.here, &["--globus", "-f", "-"])?;
    run_with_input(&mut reads, input.into(), LIMIT)?.ok()?;
    bed.same("a", "a")
}

#[test]
fn wildcards_match_the_files_that_the_real_program_copies() -> Result<()> {
    let bed = Bed::new()?;
    for name in ["in/one", "in/o b", "in/two", "in/out/deep"] {
        bed.here.file(name, 300, 3)?;
        bed.there.file(name, 300, 3)?;
    }
    fs::create_dir(bed.here.path("got"))?;
    let (here, there) = (file_url(&bed.here.path("in")), bed.url("in"));
    let (got, up) = (file_url(&bed.here.path("got")), bed.url("up"));
    let all = &["o b", "one", "two"][..];
    let deep = &["o b", "one", "out/deep", "two"][..];
    for (flags, pattern, expected) in [
        (&["-cd"][..], "*", all),
        (&["-cd"], "[ot]*", all),
        (&["-cd"], "?n*", &["one"]),
        (&["-cd", "-r"], "*", deep),
        (&["-cd"], "no*", &[]),
    ] {
        for (from, to, tree, dir) in [
            (&here, &up, &bed.there, "up"),
            (&there, &got, &bed.here, "got"),
        ] {
            let (from, to) = (format!("{from}/{pattern}"), format!("{to}/"));
            let words = [flags, &[from.as_str(), &to][..]].concat();
            let copied = || -> Result<Vec<String>> {
                let at = tree.path(dir);
                let found = if at.exists() {
                    tree.names(dir)?
                } else {
                    Vec::new()
                };
                if at.exists() {
                    fs::remove_dir_all(&at)?;
                }
                fs::create_dir(&at)?;
                Ok(found)
            };
            let ours = globus(&bed.here, &words)?;
            let status = i32::from(expected.is_empty());
            ensure!(ours.status.code() == Some(status), "{}", ours.report());
            ensure!(copied()? == expected, "{words:?}: {}", ours.report());
            let Some(theirs) = real(&bed.here, &words)? else {
                continue;
            };
            ensure!(theirs.status == ours.status, "{}", theirs.report());
            ensure!(copied()? == expected, "{words:?}: {}", theirs.report());
        }
    }
    // One file may get another name.
    let words = [format!("{here}/tw*"), bed.url("last")];
    globus(&bed.here, &[&words[0], &words[1]])?.ok()?;
    bed.same("in/two", "last")?;
    let words = ["-v", &here, &there, "more"];
    fails(&globus(&bed.here, &words)?, 1, &["too many url strings"])
}

/// The copy at the destination is newer or older by some seconds, and has other bytes.
#[test]
fn levels_of_sync_copy_what_the_real_program_copies() -> Result<()> {
    let bed = Bed::new()?;
    let since = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let touch = |path: &Path, seconds: u64| -> Result<()> {
        let file = fs::File::options().write(true).open(path)?;
        Ok(file.set_modified(since(seconds))?)
    };
    let source = bed.here.file("a", 300, 3)?;
    touch(&source, 1_000_000_000)?;
    let (from, to) = (file_url(&source), bed.url("a"));
    for (time, size, copying) in [
        (1_000_000_000, 300, &["3"][..]),
        (1_000_000_010, 300, &["3"]),
        (999_999_990, 300, &["2", "3"]),
        (1_000_000_010, 200, &["1", "2", "3"]),
    ] {
        for level in ["0", "1", "2", "3"] {
            let words = ["-sync", "-sync-level", level, &from, &to];
            let copies = |run: Program| -> Result<Option<bool>> {
                touch(&bed.there.file("a", size, 4)?, time)?;
                let Some(told) = run(&bed.here, &words)? else {
                    return Ok(None);
                };
                told.ok()?;
                Ok(Some(fs::read(bed.there.path("a"))? == fs::read(&source)?))
            };
            let expected = copying.contains(&level);
            let ours = copies(|here, words| globus(here, words).map(Some))?;
            ensure!(ours == Some(expected), "{time} {size}: level {level}");
            let theirs = copies(real)?.unwrap_or(expected);
            ensure!(theirs == expected, "{time} {size}: level {level} of theirs");
        }
    }
    Ok(())
}

#[test]
fn files_of_a_directory_that_failed_are_left() -> Result<()> {
    let bed = Bed::new()?;
    for name in ["dir/a", "dir/sub/b", "dir/sub/c"] {
        bed.there.file(name, 3_000, 3)?;
    }
    // A directory has the name of a file.
    fs::create_dir_all(bed.here.path("got/sub/b/x"))?;
    let (from, to) = (bed.url("dir/"), file_url(&bed.here.path("got")) + "/");
    let words = ["-c", "-r", "-df", "left", &from, &to];
    fails(&globus(&bed.here, &words)?, 1, &["sub/b"])?;
    let left = fs::read_to_string(bed.here.path("left"))?;
    let line = format!("\"{from}sub/b\" \"{to}sub/b\"\n");
    ensure!(left == line, "{left}");
    fs::remove_dir_all(bed.here.path("got/sub/b"))?;
    globus(&bed.here, &words)?.ok()?;
    ensure!(!bed.here.path("left").exists(), "it stays");
    same_file(&bed.here.path("got/sub/b"), &bed.there.path("dir/sub/b"))
}

#[test]
fn a_failure_ends_the_run_unless_others_go_on() -> Result<()> {
    for (flags, goes_on) in [(&[][..], false), (&["-c"], true)] {
        let bed = Bed::new()?;
        bed.here.file("b", 3_000, 3)?;
        let b = file_url(&bed.here.path("b"));
        let (none, to) = (bed.url("none"), bed.url("b"));
        let got = file_url(&bed.here.path("got"));
        fs::write(bed.here.path("pairs"), format!("{none} {got}\n{b} {to}\n"))?;
        let told = globus(&bed.here, &[flags, &["-f", "pairs"]].concat())?;
        fails(&told, 1, &["none"])?;
        ensure!(bed.there.path("b").exists() == goes_on, "{flags:?}");
        let counted = told.stderr.contains("There was an error with 1 transfer.");
        ensure!(counted == goes_on, "{}", told.report());
    }
    Ok(())
}

#[test]
fn parts_are_copied_and_relative_paths_are_below_home() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("a", 10_000, 3)?;
    let got = bed.here.path("got");
    for offset in ["-off", "-partial-offset"] {
        for length in ["-len", "-partial-length"] {
            let words = [
                offset,
                "1000",
                length,
                "500",
                &bed.url("a"),
                &file_url(&got),
            ];
            globus(&bed.here, &words)?.ok()?;
            let whole = fs::read(bed.there.path("a"))?;
            let part = fs::read(&got)?;
            ensure!(
                part.len() == 1500 && part[1000..] == whole[1000..1500],
                "{words:?}"
            );
            fs::remove_file(&got)?;
        }
    }
    for flag in ["-rp", "-relative-paths"] {
        globus(&bed.here, &[flag, &bed.url("a"), &file_url(&got)])?.ok()?;
        same_file(&got, &bed.there.path("a"))?;
        fs::remove_file(&got)?;
    }
    Ok(())
}

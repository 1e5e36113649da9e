//! Choice of files: rules on names, lists of names, sizes, ages and depths, in every direction.

use std::fs::File;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use workspace_tests::{Host, Tree, tree_digests};

use crate::{Bed, fails};

/// A tree to choose from.
fn fill(tree: &Tree) -> Result<()> {
    for name in [
        "a.root",
        "b.tmp",
        "raw/c.root",
        "raw/d.tmp",
        "raw/deep/e.root",
        "cache/f.root",
        "odd[1].root",
    ] {
        tree.file(&format!("tree/{name}"), 10, 1)?;
    }
    tree.dir("tree/empty").map(drop)
}

/// The names below a directory, in their order.
fn names(tree: &Tree, dir: &str) -> Result<Vec<String>> {
    let dir = tree.path(dir);
    match dir.exists() {
        true => Ok(tree_digests(&dir)?.into_keys().collect()),
        false => Ok(Vec::new()),
    }
}

/// Copies the tree by each route with the flags, and compares the names that come.
fn copies(flags: &[&str], wanted: &[&str]) -> Result<()> {
    let bed = Bed::new()?;
    let far = Tree::new()?;
    let other = Host::ours(far.root())?;
    fill(&bed.here)?;
    fill(&bed.there)?;
    for (route, from, to, at) in [
        ("down", bed.url("tree/"), "down".to_owned(), &bed.here),
        ("up", "tree/".to_owned(), bed.url("up"), &bed.there),
        ("between", bed.url("tree/"), other.url("between"), &far),
        ("here", "tree/".to_owned(), "here".to_owned(), &bed.here),
    ] {
        bed.cp(&[&["-r"], flags, &[&from, &to]].concat())?.ok()?;
        let came = names(at, route)?;
        ensure!(came == wanted, "{flags:?} {route}: {came:?}");
        let has_empty = at.path(route).join("empty").exists();
        let all = flags.first() == Some(&"--exclude") || flags.contains(&"[ab].*");
        ensure!(has_empty == all, "{flags:?} {route}: empty {has_empty}");
    }
    Ok(())
}

#[test]
fn excluded_names_and_directories_are_left_out() -> Result<()> {
    copies(
        &[
            "--exclude",
            "*.tmp",
            "--exclude",
            "/raw/deep",
            "--exclude",
            "cache/",
        ],
        &["a.root", "odd[1].root", "raw/c.root"],
    )
}

#[test]
fn included_names_alone_are_copied_and_their_directories_made() -> Result<()> {
    copies(
        &["--include", "raw/**/*.root", "--include", "odd\\[?]*"],
        &["odd[1].root", "raw/c.root", "raw/deep/e.root"],
    )
}

#[test]
fn the_first_rule_on_the_command_line_decides() -> Result<()> {
    copies(
        &[
            "--include",
            "c.root",
            "--exclude",
            "raw",
            "--exclude",
            "[ab].*",
        ],
        &["cache/f.root", "odd[1].root", "raw/c.root"],
    )
}

#[test]
fn rules_are_read_from_a_file() -> Result<()> {
    let lists = Tree::new()?;
    let rules = lists.path("rules");
    std::fs::write(&rules, "# of this run\n+ b.tmp\n- *.tmp\n\n- deep/\n")?;
    let rules = rules.display().to_string();
    copies(
        &["--exclude", "cache/", "--filter-from", &rules],
        &["a.root", "b.tmp", "odd[1].root", "raw/c.root"],
    )
}

#[test]
fn names_are_read_from_a_list() -> Result<()> {
    let lists = Tree::new()?;
    for list in [
        "raw/c.root\na.root\nraw/deep\na.root\n",
        "raw/c.root\0/a.root\0./raw/deep/\0",
    ] {
        let path = lists.path("list");
        std::fs::write(&path, list)?;
        let path = path.to_str().unwrap_or_default();
        copies(
            &["--files-from", path],
            &["a.root", "raw/c.root", "raw/deep/e.root"],
        )?;
    }
    Ok(())
}

#[test]
fn a_listed_name_that_is_missing_or_leads_out_fails_alone() -> Result<()> {
    let bed = Bed::new()?;
    fill(&bed.here)?;
    fill(&bed.there)?;
    bed.here.file("secret", 1, 1)?;
    std::fs::write(bed.here.path("list"), "missing\n../secret\nraw\na.root\n")?;
    for (from, to) in [
        ("tree", bed.url("up")),
        (&bed.url("tree"), "down".to_owned()),
    ] {
        let finished = bed.cp(&["--files-from", "list", from, &to])?;
        fails(
            &finished,
            1,
            &["missing", "../secret", "leads out", "add --recursive"],
        )?;
    }
    ensure!(names(&bed.here, "down")? == ["a.root"] && names(&bed.there, "up")? == ["a.root"]);
    let twice = bed.cp(&["--files-from", "list", "tree", "list", &bed.url("x")])?;
    fails(&twice, 2, &["--files-from", "one source directory"])
}

#[test]
fn sizes_ages_and_depths_bound_the_choice() -> Result<()> {
    let bed = Bed::new()?;
    for tree in [&bed.here, &bed.there] {
        for (name, size) in [
            ("small", 9),
            ("right", 100),
            ("sub/right", 100),
            ("large", 2000),
        ] {
            tree.file(&format!("tree/{name}"), size, 1)?;
        }
        let old = File::options()
            .write(true)
            .open(tree.path("tree/sub/right"))?;
        old.set_modified(SystemTime::now() - Duration::from_secs(3 * 86_400))?;
    }
    for (n, (flags, wanted)) in [
        (
            &["--max-size", "1K", "--min-size", "10"][..],
            &["right", "sub/right"][..],
        ),
        (&["--max-age", "2d"], &["large", "right", "small"]),
        (&["--max-age", "4d", "--min-size", "1K"], &["large"]),
        (&["--max-depth", "1"], &["large", "right", "small"]),
        (
            &["--max-depth", "2"],
            &["large", "right", "small", "sub/right"],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let (up, down) = (format!("up{n}"), format!("down{n}"));
        bed.cp(&[&["-r"], flags, &["tree/", &bed.url(&up)]].concat())?
            .ok()?;
        bed.cp(&[&["-r"], flags, &[&bed.url("tree/"), &down]].concat())?
            .ok()?;
        ensure!(names(&bed.there, &up)? == wanted, "{flags:?}");
        ensure!(names(&bed.here, &down)? == wanted, "{flags:?}");
    }
    Ok(())
}

#[test]
fn a_source_that_is_left_out_is_told_and_an_excluded_fault_is_not() -> Result<()> {
    let bed = Bed::new()?;
    fill(&bed.here)?;
    std::os::unix::fs::symlink("nowhere", bed.here.path("tree/dangling"))?;
    let told = bed
        .cp(&["-v", "--exclude", "*.root", "tree/a.root", &bed.url("a")])?
        .ok()?;
    ensure!(
        told.stdout.contains("a filter leaves it out"),
        "{}",
        told.stdout
    );
    fails(&bed.cp(&["-r", "tree", &bed.url("one")])?, 1, &["dangling"])?;
    bed.cp(&["-r", "--exclude", "dangling", "tree", &bed.url("two")])?
        .ok()?;
    let bad = bed.cp(&["--exclude", "[a", "tree/a.root", &bed.url("a")])?;
    fails(&bad, 2, &["--exclude [a", "no ]"])
}

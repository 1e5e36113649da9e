//! `--links`: symbolic links are followed, copied as links, or left out, by every route.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Host, Tree};

use crate::{Bed, fails};

/// Options that copy links as they are.
pub(crate) const COPY: [&str; 3] = ["-r", "--links", "copy"];

/// Two files and links to them, to a directory and to nothing.
const SOURCE: [&str; 8] = [
    "a",
    "d/",
    "d/b",
    "d/nowhere -> missing",
    "d/up -> ../a",
    "e/",
    "e/to d -> ../d",
    "l -> ./a",
];

/// The source with its links followed, less the last one and those that lead nowhere.
pub(crate) const FOLLOWED: [&str; 8] = [
    "a",
    "d/",
    "d/b",
    "d/up",
    "e/",
    "e/to d/",
    "e/to d/b",
    "e/to d/up",
];

/// Fills a source, and copies by each route between and on this machine and servers of ours.
fn each(act: impl Fn(&Bed, [&str; 2], [&Tree; 2]) -> Result<()>) -> Result<()> {
    for way in ["up", "down", "between", "here"] {
        let bed = Bed::new()?;
        let far = Tree::new()?;
        let other = Host::ours(far.root())?;
        let (trees, from, to) = match way {
            "up" => ([&bed.here, &bed.there], "tree/".to_owned(), bed.url("to")),
            "down" => ([&bed.there, &bed.here], bed.url("tree/"), "to".to_owned()),
            "here" => ([&bed.here, &bed.here], "tree/".to_owned(), "to".to_owned()),
            _ => ([&bed.there, &far], bed.url("tree/"), other.url("to")),
        };
        fill(trees[0])?;
        act(&bed, [&from, &to], trees).context(way)?;
    }
    Ok(())
}

/// Makes the files and links of a source.
pub(crate) fn fill(tree: &Tree) -> Result<()> {
    tree.file("tree/a", 10, 1)?;
    tree.file("tree/d/b", 20, 2)?;
    tree.dir("tree/e")?;
    for (text, link) in [
        ("./a", "l"),
        ("../a", "d/up"),
        ("missing", "d/nowhere"),
        ("../d", "e/to d"),
    ] {
        symlink(text, tree.path("tree").join(link))?;
    }
    Ok(())
}

/// The objects below `to`: directories end in a slash, and links tell their text.
fn look(tree: &Tree) -> Result<Vec<String>> {
    let top = tree.path("to");
    let (mut waiting, mut found) = (vec![top.clone()], Vec::new());
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = path.strip_prefix(&top)?.display().to_string();
            found.push(match kind {
                kind if kind.is_symlink() => {
                    format!("{name} -> {}", fs::read_link(&path)?.display())
                }
                kind if kind.is_dir() => {
                    waiting.push(path);
                    format!("{name}/")
                }
                _ => name,
            });
        }
    }
    found.sort();
    Ok(found)
}

/// Checks the objects below `to`.
pub(crate) fn has(tree: &Tree, wanted: &[&str]) -> Result<()> {
    let found = look(tree)?;
    ensure!(found == wanted, "{found:?} and not {wanted:?}");
    Ok(())
}

#[test]
fn links_are_copied_as_they_are_and_left_in_the_next_run() -> Result<()> {
    each(|bed, [from, to], [_, target]| {
        let planned = bed
            .cp(&[&COPY[..], &["--dry-run", from, to]].concat())?
            .ok()?;
        ensure!(
            planned.stdout.contains("/l (link to ./a)") && !target.path("to").exists(),
            "{}",
            planned.report()
        );
        let told = bed.cp(&[&COPY[..], &[from, to]].concat())?.ok()?;
        ensure!(
            told.stdout.starts_with("2 files") && told.stdout.contains(", 4 links"),
            "{}",
            told.report()
        );
        has(target, &SOURCE)?;
        for flags in [&["--json"][..], &["--json", "--sync"]] {
            let told = bed.cp(&[&COPY[..], flags, &[from, to]].concat())?.ok()?;
            ensure!(
                told.stdout.contains("\"links\":0")
                    && !told.stdout.contains("\"event\":\"linked\""),
                "{}",
                told.report()
            );
        }
        has(target, &SOURCE)
    })
}

#[test]
fn links_that_differ_are_replaced_unless_they_are_to_stay() -> Result<()> {
    each(|bed, [from, to], [_, target]| {
        let old = ["d/nowhere -> b", "d/up -> ../l", "e/to d -> .", "l"];
        let fill = || -> Result<()> {
            target.file("to/l", 5, 5)?;
            for line in old.iter().filter_map(|line| line.split_once(" -> ")) {
                let path = target.path("to").join(line.0);
                fs::create_dir_all(path.parent().context("a parent")?)?;
                symlink(line.1, path)?;
            }
            Ok(())
        };
        fill()?;
        let kept = bed
            .cp(&[&COPY[..], &["--no-clobber", from, to]].concat())?
            .ok()?;
        ensure!(kept.stdout.contains("4 left out"), "{}", kept.report());
        has(
            target,
            &["a", "d/", "d/b", old[0], old[1], "e/", old[2], "l"],
        )?;
        let kept = bed.cp(&[&COPY[..], &["--immutable", from, to]].concat())?;
        fails(&kept, 1, &["to%20d", "--immutable"])
            .or_else(|_| fails(&kept, 1, &["to d", "--immutable"]))?;
        has(
            target,
            &["a", "d/", "d/b", old[0], old[1], "e/", old[2], "l"],
        )?;
        let told = bed.cp(&[&COPY[..], &["--json", "--backup-dir", "old", from, to]].concat())?;
        let line = "\"event\":\"linked\"";
        ensure!(told.stdout.matches(line).count() == 4, "{}", told.report());
        told.ok()?;
        let moved = [
            "old/d/nowhere -> b",
            "old/d/up -> ../l",
            "old/e/to d -> .",
            "old/l",
        ];
        let found = look(target)?;
        for wanted in SOURCE.iter().chain(&moved) {
            ensure!(
                found.iter().any(|line| line == wanted),
                "{wanted} in {found:?}"
            );
        }
        Ok(())
    })
}

/// The first run moves a link to the directory of backups, where the second one has files to move.
#[test]
fn nothing_is_moved_through_a_link_among_the_backups() -> Result<()> {
    each(|bed, [from, to], [_, target]| {
        fs::create_dir_all(target.path("to"))?;
        fs::create_dir_all(target.path("outside"))?;
        target.file("outside/b", 7, 1)?;
        symlink("../outside", target.path("to/e"))?;
        fs::create_dir_all(target.path("to/old"))?;
        fs::rename(target.path("to/e"), target.path("to/old/d"))?;
        target.file("to/d/b", 3, 2)?;
        let moved = bed.cp(&[&COPY[..], &["--backup-dir", "old", from, to]].concat())?;
        fails(&moved, 1, &["old/d", "is a link at the destination"])?;
        ensure!(
            fs::metadata(target.path("outside/b"))?.len() == 7,
            "overwritten"
        );
        ensure!(fs::metadata(target.path("to/d/b"))?.len() == 3, "replaced");
        Ok(())
    })
}

#[test]
fn links_are_left_out_or_followed() -> Result<()> {
    each(|bed, [from, to], [source, target]| {
        let skip = ["-r", "--links", "skip"];
        for flags in [&["--dry-run", "-v"][..], &["-v"]] {
            let told = bed.cp(&[&skip[..], flags, &[from, to]].concat())?.ok()?;
            let line = "left out, it is a symbolic link";
            ensure!(told.stdout.matches(line).count() == 4, "{}", told.report());
        }
        has(target, &["a", "d/", "d/b", "e/"])?;
        fs::remove_file(source.path("tree/d/nowhere"))?;
        bed.cp(&["-r", from, to])?.ok()?;
        has(target, &[&FOLLOWED[..], &["l"]].concat())
    })
}

#[test]
fn links_out_of_the_tree_of_a_server_are_refused() -> Result<()> {
    each(|bed, [from, to], [source, target]| {
        for (text, link) in [
            ("../x", "out"),
            ("../../x", "d/out"),
            ("d/../../x", "through"),
            ("/etc/passwd", "absolute"),
        ] {
            symlink(text, source.path("tree").join(link))?;
        }
        let told = bed.cp(&[&COPY[..], &[from, to]].concat())?;
        if std::ptr::eq(source, &raw const bed.here) {
            // Its own user has them, and a server keeps all in its tree.
            told.ok()?;
            let found = look(target)?;
            let absolute = match std::ptr::eq(source, target) {
                true => "absolute -> /etc/passwd",
                false => "absolute -> ../etc/passwd",
            };
            for wanted in ["out -> ../x", absolute] {
                ensure!(found.contains(&wanted.to_owned()), "{found:?}");
            }
            let again = bed.cp(&[&COPY[..], &["--sync", from, to]].concat())?.ok()?;
            ensure!(again.stdout.contains(", 8 the same"), "{}", again.report());
            return Ok(());
        }
        let texts = ["/x, out of its tree", "/etc/passwd, out of its tree"];
        fails(&told, 1, &texts)?;
        ensure!(told.stdout.contains(", 4 failed"), "{}", told.report());
        has(target, &SOURCE)
    })
}

#[test]
fn nothing_is_written_through_a_link() -> Result<()> {
    each(|bed, [from, to], [source, target]| {
        target.file("outside/b", 5, 5)?;
        target.file("to/kept", 6, 6)?;
        symlink("../outside", target.path("to/d"))?;
        symlink("kept", target.path("to/a"))?;
        let told = bed.cp(&[&COPY[..], &[from, to]].concat())?;
        fails(&told, 1, &["/d", "is a link at the destination"])?;
        ensure!(fs::metadata(target.path("outside/b"))?.len() == 5);
        ensure!(fs::read_dir(target.path("outside"))?.count() == 1);
        ensure!(fs::metadata(target.path("to/kept"))?.len() == 6);
        let wanted = [
            "a",
            "d -> ../outside",
            "e/",
            "e/to d -> ../d",
            "kept",
            "l -> ./a",
        ];
        has(target, &wanted)?;
        workspace_tests::same_file(&source.path("tree/a"), &target.path("to/a"))
    })
}

#[test]
fn directories_are_made_for_links_alone() -> Result<()> {
    each(|bed, [from, to], [_, target]| {
        let choice = ["--include", "/d/up", "--exclude", "*"];
        bed.cp(&[&COPY[..], &choice, &[from, to]].concat())?.ok()?;
        has(target, &["d/", "d/up -> ../a"])
    })
}

/// A link of one source and a directory of another have one name.
#[test]
fn a_link_does_not_lead_out_through_another() -> Result<()> {
    each(|bed, [from, to], [source, target]| {
        for (link, text) in [("one/d/e/x", "../.."), ("two/d/e/x/z", "../../../q")] {
            let path = source.path(link);
            fs::create_dir_all(path.parent().context("a parent")?)?;
            symlink(text, path)?;
        }
        let [one, two] = ["one/", "two/"].map(|dir| from.replace("tree/", dir));
        let told = bed.cp(&[&COPY[..], &[&one, &two, to]].concat())?;
        fails(&told, 1, &["/d/e/x", "link"])?;
        ensure!(!target.path("to/z").is_symlink(), "{:?}", look(target)?);
        Ok(())
    })
}

#[test]
fn a_destination_that_is_named_is_followed() -> Result<()> {
    let bed = Bed::new()?;
    for (tree, other) in [(&bed.here, &bed.there), (&bed.there, &bed.here)] {
        other.file("source", 10, 1)?;
        tree.file("real", 5, 5)?;
        symlink("real", tree.path("link"))?;
    }
    for (from, to) in [
        ("source".to_owned(), bed.url("link")),
        (bed.url("source"), "link".to_owned()),
    ] {
        for flags in [&["--links", "copy"][..], &["--links", "copy", "--checksum"]] {
            bed.cp(&[flags, &[&from, &to]].concat())?.ok()?;
        }
    }
    for tree in [&bed.here, &bed.there] {
        ensure!(tree.path("link").is_symlink() && fs::metadata(tree.path("real"))?.len() == 10);
    }
    Ok(())
}

#[test]
fn links_are_removed_with_delete_and_kept_when_left_out() -> Result<()> {
    each(|bed, [from, to], [_, target]| {
        target.file("outside/kept", 10, 1)?;
        target.file("to/gone/x", 10, 1)?;
        symlink("../outside", target.path("to/link"))?;
        symlink("../../outside", target.path("to/gone/link"))?;
        let skip = ["-r", "--links", "skip", "--delete"];
        bed.cp(&[&skip[..], &[from, to]].concat())?.ok()?;
        let kept = ["gone/", "gone/link -> ../../outside", "link -> ../outside"];
        has(target, &["a", "d/", "d/b", "e/", kept[0], kept[1], kept[2]])?;
        bed.cp(&[&COPY[..], &["--delete", from, to]].concat())?
            .ok()?;
        has(target, &SOURCE)?;
        ensure!(target.path("outside/kept").exists());
        Ok(())
    })
}

#[test]
fn names_of_a_list_may_be_links() -> Result<()> {
    each(|bed, [from, to], [_, target]| {
        fs::write(bed.here.path("names"), "d/up\nl\na\n")?;
        let flags = ["--links", "copy", "--files-from", "names"];
        let from = from.trim_end_matches('/');
        bed.cp(&[&flags[..], &[from, to]].concat())?.ok()?;
        has(target, &["a", "d/", "d/up -> ../a", "l -> ./a"])
    })
}

/// A link that leads back fails, and the list of failures names it.
#[test]
fn a_named_link_that_leads_back_is_not_copied() -> Result<()> {
    each(|bed, [from, to], [source, target]| {
        symlink(".", source.path("tree/loop"))?;
        symlink("..", source.path("tree/e/up"))?;
        fs::remove_file(source.path("tree/d/nowhere"))?;
        let first = ["-r", "--failed-list", "failed", from, to];
        fails(&bed.cp(&first)?, 1, &["loop", "e/up"])?;
        let mut names: Vec<_> = fs::read_to_string(bed.here.path("failed"))?
            .lines()
            .map(str::to_owned)
            .collect();
        names.sort();
        ensure!(names == ["e/up", "loop"], "{names:?}");
        let from = from.trim_end_matches('/');
        let again = ["-r", "--files-from", "failed", from, to];
        fails(&bed.cp(&again)?, 1, &["loop", "e/up", "leads back"])?;
        for name in ["loop", "e/up"] {
            ensure!(!target.path("to").join(name).exists(), "{name}");
        }
        // Another directory behind a link is copied.
        fs::write(bed.here.path("names"), "e/to d\n")?;
        fs::remove_dir_all(target.path("to/e/to d"))?;
        let flags = ["-r", "--files-from", "names", from, to];
        bed.cp(&flags)?.ok()?;
        let [original, copy] = [source.path("tree/d/b"), target.path("to/e/to d/b")];
        workspace_tests::same_file(&original, &copy)
    })
}

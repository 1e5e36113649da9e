//! `--delete`: names that no source has go, after an error-free run, within a limit, and no others.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Host, Reaction, ScriptedServer, Tree};

use crate::{Bed, cp_in, fails};

/// Fills a source and a destination that has more, and copies by each route.
fn each(act: impl Fn(&Bed, &str, &str, &Tree, &Tree) -> Result<()>) -> Result<()> {
    for way in ["up", "down", "between", "here"] {
        let bed = Bed::new()?;
        let far = Tree::new()?;
        let other = Host::ours(far.root())?;
        let (source, target, from, to) = match way {
            "up" => (&bed.here, &bed.there, "tree/".to_owned(), bed.url("to")),
            "down" => (&bed.there, &bed.here, bed.url("tree/"), "to".to_owned()),
            "here" => (&bed.here, &bed.here, "tree/".to_owned(), "to".to_owned()),
            _ => (&bed.there, &far, bed.url("tree/"), other.url("to")),
        };
        for name in ["a", "sub/b", "sub/deep/c"] {
            source.file(&format!("tree/{name}"), 10, 1)?;
        }
        source.dir("tree/empty")?;
        for name in ["a", "old", "sub/old", "gone/x", "gone/deep/y", "log.tmp"] {
            target.file(&format!("to/{name}"), 20, 2)?;
        }
        target.dir("to/hollow")?;
        act(&bed, &from, &to, source, target).context(way)?;
    }
    Ok(())
}

/// The names and directories below `to`.
fn there(tree: &Tree) -> Result<Vec<String>> {
    let (mut waiting, mut names) = (vec![tree.path("to")], Vec::new());
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let path = entry.path();
            let name = path.strip_prefix(tree.path("to"))?.display().to_string();
            if entry.file_type()?.is_dir() {
                waiting.push(path);
            }
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

const SOURCE: [&str; 6] = ["a", "empty", "sub", "sub/b", "sub/deep", "sub/deep/c"];

#[test]
fn what_no_source_has_goes_and_a_dry_run_tells_it() -> Result<()> {
    each(|bed, from, to, _, target| {
        let before = there(target)?;
        let told = bed
            .cp(&["-r", "--delete", "--dry-run", from, to])?
            .ok()?
            .stdout;
        let planned = told.lines().filter_map(|line| line.strip_prefix("delete "));
        let planned: Vec<_> = planned.collect();
        ensure!(planned.len() == 8 && there(target)? == before, "{told}");
        let at = |name: &str| planned.iter().position(|line| line.ends_with(name));
        ensure!(at("/gone/deep/y") < at("/gone/deep") && at("/gone/deep") < at("/gone"));
        let told = bed.cp(&["-r", "--delete", from, to])?.ok()?.stdout;
        ensure!(told.contains(", 8 deleted"), "{told}");
        ensure!(there(target)? == SOURCE, "{:?}", there(target)?);
        Ok(())
    })
}

#[test]
fn more_than_the_limit_removes_nothing() -> Result<()> {
    each(|bed, from, to, _, target| {
        let flags = ["-r", "--delete", "--max-delete", "7", from, to];
        let refused = bed.cp(&flags)?;
        fails(&refused, 1, &["8 names would go", "--max-delete allows 7"])?;
        ensure!(there(target)?.contains(&"old".to_owned()));
        let planned = bed.cp(&[&["--dry-run"], &flags[..]].concat())?;
        fails(&planned, 1, &["8 names would go", "none would be removed"])?;
        let lines = planned.stdout.lines();
        ensure!(lines.filter(|line| line.starts_with("delete ")).count() == 8);
        bed.cp(&["-r", "--delete", "--max-delete", "8", from, to])?
            .ok()?;
        ensure!(there(target)? == SOURCE);
        Ok(())
    })
}

#[test]
fn what_is_left_out_or_unfinished_stays() -> Result<()> {
    each(|bed, from, to, source, target| {
        for name in [".gridftp-index", "gone/.x.gridftp-0a1b2c3d"] {
            target.file(&format!("to/{name}"), 5, 5)?;
        }
        source.file("tree/large", 5000, 1)?;
        target.file("to/large", 5, 5)?;
        let flags = ["-r", "--delete", "--exclude", "*.tmp", "--max-size", "1K"];
        bed.cp(&[&flags[..], &[from, to]].concat())?.ok()?;
        let mut wanted = [".gridftp-index", "gone", "gone/.x.gridftp-0a1b2c3d"].to_vec();
        wanted.extend(SOURCE);
        wanted.extend(["large", "log.tmp"]);
        wanted.sort_unstable();
        ensure!(there(target)? == wanted, "{:?}", there(target)?);
        Ok(())
    })
}

#[test]
fn links_are_removed_and_not_followed() -> Result<()> {
    each(|bed, from, to, _, target| {
        target.file("outside/kept", 10, 1)?;
        symlink("../outside", target.path("to/link"))?;
        symlink("../../outside", target.path("to/gone/link"))?;
        bed.cp(&["-r", "--delete", from, to])?.ok()?;
        ensure!(there(target)? == SOURCE);
        ensure!(target.path("outside/kept").exists());
        Ok(())
    })
}

#[test]
fn removed_files_move_to_the_directory_for_them() -> Result<()> {
    each(|bed, from, to, _, target| {
        for _ in 0..2 {
            let flags = ["-r", "--sync", "--delete", "--backup-dir", "was", from, to];
            bed.cp(&flags)?.ok()?;
        }
        let kept = target.names("to/was")?;
        let wanted = ["a", "gone/deep/y", "gone/x", "log.tmp", "old", "sub/old"];
        ensure!(kept == wanted, "{kept:?}");
        ensure!(!target.path("to/gone").exists());
        Ok(())
    })
}

#[test]
fn an_empty_or_missing_source_or_a_failure_removes_nothing() -> Result<()> {
    each(|bed, from, to, source, target| {
        let before = there(target)?;
        source.dir("nothing")?;
        let nothing = from.replace("tree/", "nothing/");
        let refused = bed.cp(&["-r", "--delete", &nothing, to])?;
        fails(&refused, 1, &["it has nothing to copy"])?;
        let missing = from.replace("tree/", "missing/");
        fails(&bed.cp(&["-r", "--delete", &missing, to])?, 1, &["missing"])?;
        ensure!(there(target)? == before);
        symlink("nowhere", source.path("tree/sub/dangling"))?;
        let refused = bed.cp(&["-r", "--delete", from, to])?;
        fails(&refused, 1, &["dangling"])?;
        ensure!(there(target)?.contains(&"old".to_owned()));
        Ok(())
    })
}

/// The source may have all that the destination has there.
#[test]
fn a_directory_that_cannot_be_listed_removes_nothing() -> Result<()> {
    let server = ScriptedServer::start(|line| match line {
        "FEAT" => Reaction::say("211-features\r\n MLST Type*;Size*;Modify*;\r\n211 end"),
        _ if line.starts_with("MLSD") && line.contains("sub") => Reaction::say("550 no"),
        _ if line.starts_with("MLS") => Reaction::Execute,
        _ => Reaction::Usual,
    })?;
    server.file("/tree/a", "abc");
    server.file("/tree/sub/b", "abc");
    let tree = Tree::new()?;
    for name in ["to/a", "to/old", "to/sub/b"] {
        tree.file(name, 5, 1)?;
    }
    let from = server.url("tree/");
    let refused = cp_in(&tree, &["-r", "--delete", "--retries", "0", &from, "to"])?;
    fails(&refused, 1, &["sub", "550 no"])?;
    let names = tree.names("to")?;
    ensure!(names == ["a", "old", "sub/b"], "{names:?}");
    Ok(())
}

#[test]
fn one_source_directory_is_compared_and_not_one_in_the_destination() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("one/a", 1, 1)?;
    bed.here.file("two/b", 1, 1)?;
    for name in ["a", "b", "c", "one/old", "other/x"] {
        bed.there.file(&format!("to/{name}"), 1, 1)?;
    }
    let several = bed.cp(&["-r", "--delete", "one/", "two/", &bed.url("to")])?;
    fails(&several, 2, &["name one source directory"])?;
    let inside = bed.cp(&["-r", "--delete", &bed.url("to/one/"), &bed.url("to")])?;
    fails(&inside, 1, &["it lies in the destination"])?;
    // A list of names does not tell all that the source has.
    bed.here.file("list", 1, 1)?;
    let listed = ["-r", "--delete", "--files-from", "list", "one"];
    let listed = bed.cp(&[&listed[..], &[&bed.url("to")]].concat())?;
    fails(&listed, 2, &["--delete compares a whole directory"])?;
    let aside = [
        "-r",
        "--delete",
        "--backup-dir",
        "./x",
        "one/",
        &bed.url("to"),
    ];
    fails(&bed.cp(&aside)?, 2, &["without . and .."])?;
    // A name that differs in case only may be that of a copied file.
    bed.there.file("to/A", 1, 1)?;
    bed.cp(&["-r", "--delete", "one/", &bed.url("to")])?.ok()?;
    ensure!(there(&bed.there)? == ["A", "a"]);
    fs::remove_file(bed.there.path("to/A"))?;
    bed.there.file("to/b", 1, 1)?;
    // A directory that is copied itself is the only one that is compared.
    bed.there.file("to/one/old", 1, 1)?;
    bed.cp(&["-r", "--delete", "one", &bed.url("to")])?.ok()?;
    ensure!(there(&bed.there)? == ["a", "b", "one", "one/a"]);
    for bad in [
        &["--delete", "one", "x"][..],
        &["-r", "--max-delete", "1", "one", "x"],
    ] {
        fails(&bed.cp(bad)?, 2, &["required"])?;
    }
    let pattern = bed.cp(&["-r", "--delete", &format!("{}t*", bed.url("")), "x"])?;
    fails(&pattern, 2, &["--delete", "without wildcards"])
}

/// Such a server tells a link to a directory as a directory.
#[test]
fn a_link_in_the_guise_of_a_directory_keeps_what_it_leads_to() -> Result<()> {
    let tree = Tree::new()?;
    tree.file("tree/a", 10, 1)?;
    let serve = |feat: &'static str| {
        let server = ScriptedServer::start(move |line| match line {
            "DELE /to/link" => Reaction::say("250 gone"),
            "FEAT" => Reaction::say(feat),
            _ if line.starts_with("MLS") => Reaction::Execute,
            _ => Reaction::Usual,
        })?;
        server.file("/to/a", "old");
        server.file("/to/link/kept", "kept");
        Ok::<_, anyhow::Error>(server)
    };
    let kept = |server: &ScriptedServer| {
        let kept = server.bytes("/to/link/kept").is_some();
        ensure!(kept, "{:?}", server.commands());
        Ok(())
    };
    let server = serve("211-features\r\n MLST Type*;Size*;Modify*;\r\n211 end")?;
    cp_in(&tree, &["-r", "--delete", "tree/", &server.url("to")])?.ok()?;
    kept(&server)?;
    let server = serve("211-features\r\n SIZE\r\n211 end")?;
    let refused = cp_in(&tree, &["-r", "--delete", "tree/", &server.url("to")])?;
    fails(&refused, 1, &["its server has no MLSD"])?;
    kept(&server)
}

//! Destination names: the rule of the trailing slash, `--no-clobber`, wildcards, name conflicts.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Reaction, ScriptedServer, Tree, wait_for_files};

use crate::uploads::digest;
use crate::{Bed, LIMIT, cp_in, fails};

/// The refusal of a store that was to replace nothing.
const EXISTS: &str = "550-f exists\r\n550-GlobusError: v=1 c=PATH_EXISTS\r\n550 End.";

/// Uploads to `to`, and returns the names on the server.
fn up(args: &[&str], to: &str) -> Result<Vec<String>> {
    let bed = Bed::new()?;
    bed.here.file("dir/sub/file", 3, 1)?;
    bed.here.file("one", 1, 1)?;
    bed.here.file("two", 2, 2)?;
    bed.there.dir("old")?;
    bed.cp(&[args, &[&bed.url(to)]].concat())?.ok()?;
    bed.there.names("")
}

/// Downloads into `to`, and returns the local names.
fn down(from: &[&str], to: &str) -> Result<Vec<String>> {
    let bed = Bed::new()?;
    bed.there.file("dir/sub/file", 3, 1)?;
    bed.there.file("one", 1, 1)?;
    bed.there.file("two", 2, 2)?;
    bed.here.dir("old")?;
    let urls: Vec<String> = from.iter().map(|name| bed.url(name)).collect();
    let args: Vec<&str> = ["-r"]
        .into_iter()
        .chain(urls.iter().map(String::as_str))
        .chain([to])
        .collect();
    bed.cp(&args)?.ok()?;
    bed.here.names("")
}

fn has(names: Result<Vec<String>>, want: &str) -> Result<()> {
    let names = names?;
    ensure!(
        names.iter().any(|name| name == want),
        "no {want} in {names:?}"
    );
    Ok(())
}

#[test]
fn a_trailing_slash_copies_the_contents_of_a_directory() -> Result<()> {
    has(up(&["-r", "dir/"], "new"), "new/sub/file")?;
    has(up(&["-r", "dir/"], "new/deep/"), "new/deep/sub/file")?;
    has(up(&["-r", "dir/"], "old"), "old/sub/file")?;
    has(up(&["-r", "dir/."], "old"), "old/sub/file")?;
    has(down(&["dir/"], "new"), "new/sub/file")?;
    has(down(&["dir/"], "old/"), "old/sub/file")
}

#[test]
fn without_a_slash_the_directory_itself_is_copied() -> Result<()> {
    has(up(&["-r", "dir"], "new"), "new/dir/sub/file")?;
    has(up(&["-r", "dir"], "old/"), "old/dir/sub/file")?;
    has(up(&["-r", "dir"], ""), "dir/sub/file")?;
    has(down(&["dir"], "new"), "new/dir/sub/file")?;
    has(down(&["dir"], "old"), "old/dir/sub/file")
}

#[test]
fn a_file_is_copied_to_a_name_or_into_a_directory() -> Result<()> {
    has(up(&["one"], "name"), "name")?;
    has(up(&["one"], "deep/down/name"), "deep/down/name")?;
    has(up(&["one"], "old"), "old/one")?;
    has(up(&["one"], "new/"), "new/one")?;
    has(down(&["one"], "name"), "name")?;
    has(down(&["one"], "deep/down/name"), "deep/down/name")?;
    has(down(&["one"], "old"), "old/one")?;
    has(down(&["one"], "new/"), "new/one")
}

#[test]
fn several_sources_require_a_directory() -> Result<()> {
    has(up(&["one", "two"], "new"), "new/two")?;
    has(down(&["one", "two"], "new"), "new/two")?;
    let bed = Bed::new()?;
    bed.here.file("one", 1, 1)?;
    bed.there.file("file", 2, 2)?;
    let finished = bed.cp(&["one", "one", &bed.url("file")])?;
    fails(&finished, 2, &["file", "directory"])
}

#[test]
fn a_directory_requires_recursive() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.dir("dir")?;
    bed.there.dir("dir")?;
    fails(
        &bed.cp(&["dir", &bed.url("new")])?,
        2,
        &["dir", "--recursive"],
    )?;
    fails(
        &bed.cp(&[&bed.url("dir"), "new"])?,
        2,
        &["dir", "--recursive"],
    )
}

#[test]
fn no_clobber_keeps_existing_files() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("tree/a", 10, 1)?;
    bed.here.file("tree/b", 10, 2)?;
    bed.there.file("tree/a", 5, 3)?;
    bed.cp(&["-n", "-r", "tree", &bed.url("")])?.ok()?;
    bed.same("tree/b", "tree/b")?;
    ensure!(std::fs::metadata(bed.there.path("tree/a"))?.len() == 5);
    bed.here.file("back/tree/b", 4, 4)?;
    bed.cp(&["-n", "-r", &bed.url("tree"), "back"])?.ok()?;
    bed.same("back/tree/a", "tree/a")?;
    ensure!(std::fs::metadata(bed.here.path("back/tree/b"))?.len() == 4);
    Ok(())
}

#[test]
fn a_dry_run_changes_nothing() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("tree/a", 10, 1)?;
    bed.there.file("far/b", 10, 1)?;
    let told = bed
        .cp(&["--dry-run", "-r", "tree", &bed.url("new")])?
        .ok()?;
    let made = format!("make directory {}", bed.url("new/tree"));
    ensure!(
        told.stdout.contains("tree/a -> ftp://") && told.stdout.contains(&made),
        "{}",
        told.report()
    );
    let told = bed.cp(&["--dry-run", "-r", &bed.url("far"), "new"])?.ok()?;
    ensure!(told.stdout.contains("new/far/b"), "{}", told.report());
    ensure!(bed.there.names("")? == ["far/b"]);
    ensure!(bed.here.names("")? == ["tree/a"]);
    Ok(())
}

#[test]
fn a_failed_file_stops_no_other() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a", 10, 1)?;
    bed.here.file("b", 10, 2)?;
    let finished = bed.cp(&["a", "missing", "b", &bed.url("to/")])?;
    fails(&finished, 1, &["local: read missing"])?;
    bed.same("a", "to/a")?;
    bed.same("b", "to/b")?;
    let finished = bed.cp(&[&bed.url("to/a"), &bed.url("no"), &bed.url("to/b"), "back/"])?;
    fails(&finished, 1, &["/no", "check the path"])?;
    bed.same("back/b", "to/b")
}

#[test]
fn directories_in_place_of_some_files_stop_no_others() -> Result<()> {
    for mode in ["stream", "extended"] {
        let bed = Bed::new()?;
        for n in 0..20 {
            bed.there.file(&format!("tree/{n:02}"), 100 + n, n)?;
            if n % 3 == 0 {
                bed.here.dir(&format!("tree/{n:02}/in the way"))?;
            }
        }
        let finished = bed.cp(&["-r", "-j", "1", "--mode", mode, &bed.url("tree"), "."])?;
        fails(&finished, 1, &["tree/00", "tree/18"])?;
        for n in (0..20).filter(|n| n % 3 != 0) {
            let name = format!("tree/{n:02}");
            bed.same(&name, &name)?;
        }
    }
    Ok(())
}

#[test]
fn wildcards_match_names_on_the_server() -> Result<()> {
    let bed = Bed::new()?;
    for (seed, name) in (1..).zip(["a1.dat", "a2.dat", "b1.dat", "a*.dat", ".a.dat"]) {
        bed.there.file(&format!("dir/{name}"), seed * 10, seed)?;
    }
    bed.there.file("dir/asub.dat/in", 3, 1)?;
    let dir = bed.url("dir/");
    bed.cp(&[&format!("{dir}a?.dat"), "to"])?.ok()?;
    ensure!(bed.here.names("to")? == ["a*.dat", "a1.dat", "a2.dat"]);
    bed.same("to/a2.dat", "dir/a2.dat")?;
    bed.cp(&[&format!("{dir}a%2A.dat"), "one"])?.ok()?;
    bed.same("one", "dir/a*.dat")?;
    let said = bed.cp(&[&format!("{dir}*b*"), "dirs/"])?;
    fails(&said, 1, &["asub.dat: is a directory; add --recursive"])?;
    bed.same("dirs/b1.dat", "dir/b1.dat")?;
    bed.cp(&["-r", &format!("{dir}*.dat"), "all"])?.ok()?;
    ensure!(
        bed.here.names("all")? == ["a*.dat", "a1.dat", "a2.dat", "asub.dat/in", "b1.dat"],
        "{:?}",
        bed.here.names("all")?
    );
    fails(
        &bed.cp(&[&format!("{dir}nothing*"), "to"])?,
        1,
        &["nothing*", "no name there matches"],
    )?;
    let said = bed.cp(&["--list", &format!("{dir}b*")])?.ok()?.stdout;
    ensure!(
        said.lines().count() == 1 && said.contains("b1.dat"),
        "{said}"
    );
    Ok(())
}

#[test]
fn two_sources_for_one_name_are_an_error() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a/x", 10, 1)?;
    bed.here.file("b/x", 10, 2)?;
    let finished = bed.cp(&["a/x", "b/x", &bed.url("to/")])?;
    fails(&finished, 1, &["b/x", "another source"])?;
    bed.same("a/x", "to/x")
}

/// The trees are merged, but no file overwrites a file of the other.
#[test]
fn two_trees_with_a_common_file_are_an_error() -> Result<()> {
    let bed = Bed::new()?;
    for tree in [&bed.here, &bed.there] {
        for (dir, seed) in [("a", 1), ("b", 2)] {
            tree.file(&format!("{dir}/tree/sub/x"), 10, seed)?;
            tree.file(&format!("{dir}/tree/{dir}"), 10, seed)?;
        }
    }
    let urls = [bed.url("a/tree"), bed.url("b/tree")];
    let ways = [
        (["a/tree", "b/tree"], bed.url("to/"), &bed.there),
        ([&urls[0], &urls[1]], "to/".to_owned(), &bed.here),
        ([&urls[0], &urls[1]], bed.url("third/"), &bed.there),
    ];
    for (from, to, tree) in ways {
        let finished = bed.cp(&["-r", from[0], from[1], &to])?;
        fails(&finished, 1, &["tree/sub/x", "another source"])?;
        let to = if to.ends_with("third/") {
            "third"
        } else {
            "to"
        };
        let names = tree.names(&format!("{to}/tree"))?;
        ensure!(
            names == ["a", "b", "sub/x"],
            "{names:?}: {}",
            finished.report()
        );
        let got = std::fs::read(tree.path(&format!("{to}/tree/sub/x")))?;
        let mut whole = Vec::new();
        for dir in ["a", "b"] {
            whole.push(std::fs::read(tree.path(&format!("{dir}/tree/sub/x")))?);
        }
        ensure!(whole.contains(&got), "{}", finished.report());
    }
    Ok(())
}

#[test]
fn no_clobber_keeps_existing_files_from_standard_input() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("a", 5, 3)?;
    bed.here.file("empty", 0, 0)?;
    let input = std::fs::File::open(bed.here.path("empty"))?;
    let url = bed.url("a");
    let mut put = crate::command(&bed.here, &["-n", "-", &url])?;
    ensure!(put.stdin(input).status()?.success());
    ensure!(std::fs::metadata(bed.there.path("a"))?.len() == 5);
    Ok(())
}

/// The client has looked, and found nothing. Its input comes only once, so that is an error.
#[test]
fn no_clobber_keeps_a_file_that_appears_during_an_upload_from_standard_input() -> Result<()> {
    let bed = Bed::new()?;
    let mut put = crate::command(&bed.here, &["-n", "-", &bed.url("a")])?;
    let mut put = put.stdin(Stdio::piped()).spawn()?;
    let mut input = put.stdin.take().context("a pipe")?;
    input.write_all(&vec![1; 1 << 20])?;
    let is_file =
        |entry: std::io::Result<std::fs::DirEntry>| entry.is_ok_and(|entry| entry.path().is_file());
    let has_begun = wait_for_files(bed.there.root(), Some(&put), LIMIT, || {
        std::fs::read_dir(bed.there.root()).is_ok_and(|mut entries| entries.any(is_file))
    })?;
    ensure!(has_begun, "the upload does not begin");
    std::fs::write(bed.there.path("a"), "other")?;
    drop(input);
    ensure!(put.wait()?.code() == Some(1));
    ensure!(std::fs::read(bed.there.path("a"))? == b"other");
    Ok(())
}

#[test]
fn no_clobber_leaves_out_a_file_that_the_server_refuses_for_another() -> Result<()> {
    let tree = Tree::new()?;
    tree.file("f", 10, 1)?;
    let server = ScriptedServer::start(|line| match line.split(' ').next() {
        Some("FEAT") => Reaction::say("211-features\r\n EXCLUSIVE\r\n HELD\r\n211 end"),
        Some("STOR") => Reaction::say(EXISTS),
        _ => Reaction::Usual,
    })?;
    let finished = cp_in(&tree, &["-n", "--mode", "stream", "f", &server.url("f")])?.ok()?;
    ensure!(
        finished.stdout.contains("1 left out"),
        "{}",
        finished.report()
    );
    let commands = server.commands();
    let told = commands
        .iter()
        .position(|line| line == "SITE STORATTR x.exclusive=1;");
    let stored = commands.iter().position(|line| line.starts_with("STOR"));
    ensure!(told.is_some() && told < stored, "{commands:?}");
    Ok(())
}

/// The end of the first of two attempts that may both have stored the file.
enum FirstEnd {
    /// The reply to the store is lost.
    Lost,
    /// The store is confirmed, but its digest is refused for now.
    Unproven,
    /// The store is confirmed, and its digest is another one.
    Differs,
}

/// A server with the uploads of ours: a `STOR` behind `x.exclusive=1` replaces nothing.
fn exclusive_server(end: FirstEnd) -> Result<ScriptedServer> {
    let is_wished = AtomicBool::new(false);
    let ended = AtomicBool::new(false);
    let server = ScriptedServer::with(move |server, line| {
        let words: Vec<_> = line.split(' ').collect();
        match *words.as_slice() {
            ["FEAT"] => {
                Reaction::say("211-f\r\n CKSM SHA256:10;\r\n EXCLUSIVE\r\n HELD\r\n211 end")
            }
            ["SITE", "STORATTR", "x.exclusive=1;"] => {
                is_wished.store(true, Ordering::SeqCst);
                Reaction::say("250 OK.")
            }
            ["STOR", path] if is_wished.swap(false, Ordering::SeqCst) => {
                match server.bytes(path).is_some() {
                    true => Reaction::say(EXISTS),
                    false => Reaction::Usual,
                }
            }
            ["END", "STOR", _] if matches!(end, FirstEnd::Lost) => {
                match ended.swap(true, Ordering::SeqCst) {
                    true => Reaction::Usual,
                    false => Reaction::HangUp(String::new()),
                }
            }
            ["CKSM", ..] if !ended.swap(true, Ordering::SeqCst) => match end {
                FirstEnd::Differs => Reaction::say(&format!("213 {}", "0".repeat(64))),
                _ => Reaction::say("451 the disk is slow"),
            },
            ["CKSM", _, offset, length, path] => digest(server, path, offset, length),
            _ => Reaction::Usual,
        }
    })?;
    Ok(server)
}

#[test]
fn a_retry_of_an_upload_that_is_to_replace_nothing_replaces_its_own_file() -> Result<()> {
    for flag in ["--no-clobber", "--immutable"] {
        for (end, more) in [
            (FirstEnd::Lost, &[][..]),
            (FirstEnd::Unproven, &["--verify=sha256"][..]),
        ] {
            let tree = Tree::new()?;
            tree.file("f", 10, 1)?;
            let server = exclusive_server(end)?;
            let url = server.url("f");
            let args = [&[flag, "--mode", "stream", "f", &url], more].concat();
            let finished = cp_in(&tree, &args)?.ok()?;
            ensure!(
                !finished.stdout.contains("left out"),
                "{}",
                finished.report()
            );
            ensure!(server.bytes("/f") == Some(std::fs::read(tree.path("f"))?));
            let commands = server.commands();
            let count = |start: &str| {
                commands
                    .iter()
                    .filter(|line| line.starts_with(start))
                    .count()
            };
            let sent = (count("SITE STORATTR x.exclusive"), count("STOR"));
            ensure!(sent == (1, 2), "{commands:?}");
        }
    }
    Ok(())
}

#[test]
fn a_bad_copy_behind_an_upload_that_is_to_replace_nothing_is_removed_and_told() -> Result<()> {
    for (retries, status, stores) in [("0", 5, 1), ("1", 0, 2)] {
        let tree = Tree::new()?;
        tree.file("f", 10, 1)?;
        let server = exclusive_server(FirstEnd::Differs)?;
        let (url, retries) = (server.url("f"), ["--retries", retries]);
        let flags = ["-n", "--mode", "stream", "--verify=sha256", "f", &url];
        let finished = cp_in(&tree, &[&retries[..], &flags].concat())?;
        fails(&finished, status, &["removed, it differs from its source"])?;
        let whole = std::fs::read(tree.path("f"))?;
        let left = (status == 0).then_some(whole);
        ensure!(server.bytes("/f") == left, "{}", finished.report());
        // The name is free for other clients between the two attempts.
        let commands = server.commands();
        let wishes = commands
            .iter()
            .filter(|line| line.starts_with("SITE STORATTR x.exclusive"));
        ensure!(wishes.count() == stores, "{commands:?}");
    }
    Ok(())
}

#[test]
fn a_directory_that_cannot_be_created_is_an_error() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.dir("tree/empty")?;
    bed.there.file("tree", 3, 1)?;
    let finished = bed.cp(&["-r", "tree/empty", &bed.url("tree/sub")])?;
    fails(&finished, 1, &["tree/empty"])
}

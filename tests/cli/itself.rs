//! Sources that are or contain their destination: refused before the first write.

use anyhow::{Context, Result, anyhow, ensure};
use std::os::unix::fs::symlink;
use std::process::Command;
use workspace_tests::{Break, Host, OddTree, Relay, binary, is_root, run, skip};

use crate::{Bed, cp_in, fails};

/// Starts a server over a file with a symbolic and a hard link, and a directory with a link to it.
fn bed() -> Result<Bed> {
    let bed = Bed::new()?;
    bed.there.file("file", 300_001, 1)?;
    bed.there.file("tree/sub/deep/file", 10_001, 2)?;
    bed.there.file("tree/other", 10_002, 3)?;
    symlink("file", bed.there.path("link"))?;
    symlink("tree", bed.there.path("alias"))?;
    std::fs::hard_link(bed.there.path("file"), bed.there.path("twin"))?;
    Ok(bed)
}

/// Checks that the copies are refused, and that nothing was written.
fn refused(bed: &Bed, copies: &[(&[&str], &str)]) -> Result<()> {
    let before = OddTree::read(bed.there.root())?;
    for (args, needle) in copies {
        for mode in ["stream", "extended"] {
            let args = [&["--mode", mode], *args].concat();
            let finished = cp_in(&bed.here, &args)?;
            fails(&finished, 2, &[needle]).with_context(|| format!("{args:?}"))?;
            let differences = before.differences(&OddTree::read(bed.there.root())?);
            ensure!(differences.is_empty(), "{args:?}: {differences:?}");
        }
    }
    Ok(())
}

#[test]
fn a_file_is_not_copied_onto_itself() -> Result<()> {
    let bed = bed()?;
    let url = |name: &str| bed.url(name);
    let (file, tree) = (url("file"), url("tree/other"));
    let same = "is the destination itself";
    let matches = format!("{}o*", url("tree/"));
    let dotted = file.replace("/file", "/./tree/..//file");
    let other_host = file.replace("127.0.0.1", "localhost");
    refused(
        &bed,
        &[
            (&[&file, &file], same),
            (&[&file, &dotted], same),
            (&[&file, &url("link")], same),
            (&[&url("link"), &file], same),
            (&[&file, &url("twin")], same),
            (&[&file, &url("")], same),
            (&[&tree, &url("tree")], same),
            (&[&tree, &url("alias/")], same),
            (&[&file, &other_host], same),
            (&[&other_host, &file], same),
            (&["-r", &url("tree"), &url("")], same),
            (&["-r", &url("tree/"), &url("alias")], same),
            (&[&matches, &url("tree")], same),
        ],
    )
}

#[test]
fn a_tree_is_not_copied_into_itself() -> Result<()> {
    let bed = bed()?;
    let url = |name: &str| bed.url(name);
    let within = "would be copied into itself";
    refused(
        &bed,
        &[
            (&["-r", &url("tree"), &url("tree")], within),
            (&["-r", &url("tree"), &url("tree/new/deeper")], within),
            (&["-r", &url("tree/"), &url("tree/sub")], within),
            (&["-r", &url("alias/"), &url("tree/sub/x")], within),
            (&["-r", &url("tree"), &url("alias/x")], within),
            (&["-r", &url(""), &url("new")], within),
        ],
    )
}

/// The servers have different roots, so that only the objects reveal it.
#[test]
fn two_servers_over_one_tree_are_detected() -> Result<()> {
    let bed = bed()?;
    let inner = Host::ours(&bed.there.path("tree"))?;
    refused(
        &bed,
        &[
            (
                &[&bed.url("tree/other"), &inner.url("other")],
                "is the destination itself",
            ),
            (
                &["-r", &bed.url("tree"), &inner.url("sub/new")],
                "would be copied into itself",
            ),
        ],
    )
}

#[test]
fn a_local_name_of_the_servers_object_is_detected() -> Result<()> {
    let bed = bed()?;
    let local = |name: &str| bed.there.path(name).display().to_string();
    let file_url = workspace_tests::file_url(&bed.there.path("file"));
    let (same, within) = ("is the destination itself", "would be copied into itself");
    refused(
        &bed,
        &[
            (&[&bed.url("file"), &local("file")], same),
            (&[&bed.url("file"), &local("link")], same),
            (&[&bed.url("file"), &file_url], same),
            (&[&local("file"), &bed.url("file")], same),
            (&[&file_url, &bed.url("link")], same),
            (&["-r", &local("tree"), &bed.url("")], same),
            (&["-r", &local("tree"), &bed.url("tree/sub")], within),
            (&["-r", &bed.url("tree"), &local("tree/sub/new")], within),
            (&["-r", &bed.url("tree"), &local("alias/new")], within),
        ],
    )
}

#[test]
fn both_names_may_be_local() -> Result<()> {
    let bed = bed()?;
    let local = |name: &str| bed.there.path(name).display().to_string();
    let file_url = workspace_tests::file_url(&bed.there.path("file"));
    let (same, within) = ("is the destination itself", "would be copied into itself");
    refused(
        &bed,
        &[
            (&[&local("file"), &local("file")], same),
            (&[&local("file"), &local("./tree/../file")], same),
            (&[&local("file"), &local("link")], same),
            (&[&local("link"), &local("file")], same),
            (&[&local("file"), &local("twin")], same),
            (&[&file_url, &local("")], same),
            (&[&local("file"), &file_url, "--no-verify"], same),
            (&["-r", &local("tree"), &local("")], same),
            (&["-r", &local("tree/"), &local("alias")], same),
            (&["-r", &local("tree"), &local("tree/new/deeper")], within),
            (&["-r", &local("alias/"), &local("tree/sub/x")], within),
            (&["-r", &local(""), &local("new")], within),
        ],
    )
}

/// Only the files of a tree that are their own destinations fail, by whatever names.
#[test]
fn files_of_a_tree_are_not_copied_onto_themselves() -> Result<()> {
    for flags in [
        &[][..],
        &["--backup-dir", "/nowhere/old"],
        &["--no-verify", "--checksum", "--update"],
        &["--dry-run"],
    ] {
        let bed = bed()?;
        bed.there.dir("to")?;
        std::fs::hard_link(bed.there.path("tree/other"), bed.there.path("to/other"))?;
        symlink("../tree/sub", bed.there.path("to/sub"))?;
        let [from, to] = ["tree/", "to"].map(|name| bed.there.path(name));
        let [from, to] = [from, to].map(|path| path.display().to_string());
        let before = OddTree::read(bed.there.root())?;
        let finished = bed.cp(&[&["-r"], flags, &[&from, &to]].concat())?;
        if flags.contains(&"--checksum") {
            finished.ok()?;
        } else {
            let needles = [
                "tree/other: is the destination",
                "deep/file: is the destination",
            ];
            fails(&finished, 1, &needles)?;
        }
        let differences = before.differences(&OddTree::read(bed.there.root())?);
        ensure!(differences.is_empty(), "{flags:?}: {differences:?}");
    }
    Ok(())
}

/// A name for the destination that leads through a link does not hide a source in it from --delete.
#[test]
fn a_source_in_its_destination_is_not_deleted() -> Result<()> {
    let bed = bed()?;
    let (from, to) = (bed.there.path("tree/sub/"), bed.there.path("alias"));
    let [from, to] = [from, to].map(|path| path.display().to_string());
    let before = OddTree::read(bed.there.root())?;
    let finished = bed.cp(&["-r", "--delete", &format!("{from}/"), &to])?;
    fails(&finished, 1, &["--delete would remove it"])?;
    let differences = before.differences(&OddTree::read(bed.there.root())?);
    ensure!(differences.is_empty(), "{differences:?}");
    Ok(())
}

/// Runs a script, of which `$0` is the program, over a bed whose destination has old files; the copy
/// is refused, and leaves all sources as they are.
fn spares(script: &str) -> Result<()> {
    let bed = bed()?;
    bed.there.file("to/new", 5, 7)?;
    bed.there.file("tree/new", 6, 8)?;
    let look = || -> Result<_> {
        let tree = OddTree::read(&bed.there.path("tree"))?;
        Ok((tree, std::fs::read(bed.there.path("file"))?))
    };
    let (tree, file) = look()?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script]);
    command.arg(binary("gridftp-cp")?);
    let finished = run(command.current_dir(bed.there.root()), crate::LIMIT)?;
    let told = fails(&finished, 1, &["it leads into a source of this copy"]);
    told.with_context(|| script.to_owned())?;
    let now = look()?;
    let differences = tree.differences(&now.0);
    ensure!(differences.is_empty(), "{script}: {differences:?}");
    ensure!(file == now.1, "{script}");
    // No directory comes of a link either.
    ensure!(!bed.there.path("tree/deep").exists(), "{script}");
    Ok(())
}

#[test]
fn nothing_at_a_destination_leads_into_a_source() -> Result<()> {
    if !is_root() {
        skip("cli", "only root has a namespace of its own");
        return Ok(());
    }
    for script in [
        // Replaced files would move there.
        "\"$0\" -r --backup-dir $PWD/tree tree/ to",
        "\"$0\" -r --backup-dir $PWD/alias/old tree/ to",
        "\"$0\" -r --delete --backup-dir $PWD/alias tree/ to",
        "\"$0\" --backup-dir $PWD/tree tree/new to/new",
        "\"$0\" --backup-dir $PWD/tree tree/new to",
        "mkdir at; mount --bind tree at; \"$0\" -r --backup-dir $PWD/at/old tree/ to",
        // A link leads there.
        "ln -s ../file to/other; \"$0\" tree/other file to",
        "ln -s ../tree/new to/other; \"$0\" -r tree/ to",
        "ln -s ../tree/none to/other; \"$0\" -r --no-verify tree/ to",
        "ln -s ../tree to/sub; \"$0\" -r --preserve tree/ to",
        "mkdir to/sub; mount --bind tree to/sub; \"$0\" -r --links copy tree/ to",
        // Their names would go.
        "mount --bind tree /mnt; \"$0\" -r --delete /mnt/ .",
    ] {
        spares(script)?;
    }
    Ok(())
}

/// Files are renamed into it, and stay where that cannot be.
#[test]
fn backups_on_another_file_system_are_refused() -> Result<()> {
    if !is_root() {
        skip("cli", "only root may mount");
        return Ok(());
    }
    let bed = bed()?;
    bed.there.file("to/new", 5, 7)?;
    bed.there.file("far/new", 5, 7)?;
    bed.there.file("tree/new", 6, 8)?;
    bed.there.dir("disk")?;
    let refused = "is on another file system than the destination; name a directory on that one";
    for (script, is_touched) in [
        (
            "mount -t tmpfs none disk; \"$0\" -r --backup-dir $PWD/disk/old tree/ to",
            false,
        ),
        // Only the rename tells it of a bind mount.
        (
            "mount --bind far to; \"$0\" -r --backup-dir $PWD/old tree/ to",
            true,
        ),
    ] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", script]);
        command.arg(binary("gridftp-cp")?);
        let finished = run(command.current_dir(bed.there.root()), crate::LIMIT)?;
        fails(&finished, 2, &[refused]).with_context(|| script.to_owned())?;
        let far = bed.there.names("far")?;
        ensure!((far.len() > 1) == is_touched, "{script}: {far:?}");
        for kept in ["to/new", "far/new"] {
            ensure!(
                std::fs::metadata(bed.there.path(kept))?.len() == 5,
                "{script}"
            );
        }
    }
    Ok(())
}

/// Its name in the destination is seen before the copy begins.
#[test]
fn a_source_in_another_mount_of_its_destination_is_not_deleted() -> Result<()> {
    if !is_root() {
        skip("cli", "only root may mount");
        return Ok(());
    }
    let bed = bed()?;
    bed.there.dir("at")?;
    let script = "mount --bind tree at; \"$0\" -r --delete tree/sub/ at";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script]);
    command.arg(binary("gridftp-cp")?);
    let before = OddTree::read(bed.there.root())?;
    let finished = run(command.current_dir(bed.there.root()), crate::LIMIT)?;
    fails(&finished, 1, &["--delete would remove it"])?;
    let differences = before.differences(&OddTree::read(bed.there.root())?);
    ensure!(differences.is_empty(), "{differences:?}");
    Ok(())
}

/// A link inside the source to the destination is the only name that is skipped.
#[test]
fn a_link_to_the_destination_is_not_followed() -> Result<()> {
    for local in [[false, false], [true, false], [true, true]] {
        let bed = bed()?;
        bed.there.dir("to")?;
        symlink("../../to", bed.there.path("tree/sub/loop"))?;
        let place = |local: bool, name: &str| match local {
            true => bed.there.path(name).display().to_string(),
            false => bed.url(name),
        };
        let [from, to] = [place(local[0], "tree/"), place(local[1], "to")];
        let finished = bed.cp(&["-r", &from, &to])?;
        fails(
            &finished,
            1,
            &["tree/sub/loop", "is the directory that is copied to"],
        )?;
        let names = bed.there.names("to")?;
        ensure!(names == ["other", "sub/deep/file"], "{names:?}");
    }
    Ok(())
}

/// Also onto a different file with equal content.
#[test]
fn a_copy_beside_the_source_is_allowed() -> Result<()> {
    let bed = bed()?;
    bed.there.file("equal", 300_001, 1)?;
    bed.cp(&[&bed.url("file"), &bed.url("equal")])?.ok()?;
    bed.cp(&["-r", &bed.url("tree"), &bed.url("tree2")])?.ok()?;
    bed.cp(&["-r", &bed.url("tree/sub"), &bed.url("tree/sub2")])?
        .ok()?;
    let all = format!("{}*", bed.url("tree/"));
    bed.cp(&["-r", &all, &bed.url("tree2/tree")])?.ok()?;
    let names = bed.there.names("tree2")?;
    ensure!(
        names.contains(&"tree/sub2/sub/deep/file".to_owned()),
        "{names:?}"
    );
    Ok(())
}

/// The retry must not take the smaller file for the source.
#[test]
fn a_retry_does_not_copy_a_source_that_shrank() -> Result<()> {
    for (third, mode) in [
        (false, "stream"),
        (false, "extended"),
        (true, "stream"),
        (true, "extended"),
    ] {
        let (bed, from) = (Bed::new()?, Bed::new()?);
        let source = if third { &from.there } else { &bed.here };
        let path = source.file("file", 8_000_001, 1)?;
        let relay = Relay::paced(
            bed.server.addr(),
            Break::Data { after: 2_000_000 },
            4_000_000,
        )?;
        relay.hold();
        let to = bed.server.url_at(relay.addr(), "file");
        let url = from.url("file");
        let name = if third { &url } else { "file" };
        let mut command = crate::command(&bed.here, &["--mode", mode, name, &to])?;
        let copy = std::thread::spawn(move || run(&mut command, crate::LIMIT));
        relay.wait_until_broken()?;
        // The source file stays open, unchanged.
        let smaller = source.file("smaller", 1_000, 2)?;
        std::fs::rename(smaller, path)?;
        relay.release();
        let finished = copy.join().map_err(|_| anyhow!("the copy panicked"))??;
        fails(&finished, 1, &["1000 bytes", "had 8000001"])?;
        ensure!(!bed.there.path("file").exists(), "{}", finished.report());
    }
    Ok(())
}

//! `--xattrs`: extended attributes of files and directories, in every direction.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::XattrFlags;
use workspace_tests::{Cluster, Host, Reaction, ScriptedServer, Tree, binary, is_root, run, skip};

use crate::{Bed, LIMIT, cp_in, fails};

const VALUE: &[u8] = b"a value\0\xff\r\n";

fn set(path: &Path, name: &str, value: &[u8]) -> Result<()> {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).context("setxattr")
}

fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 8192];
    let len = rustix::fs::getxattr(path, name, value.as_mut_slice()).ok()?;
    value.get(..len).map(<[u8]>::to_vec)
}

/// Whether the file system of a tree keeps attributes.
fn keeps(tree: &Tree) -> Result<bool> {
    tree.file("probe", 1, 1)?;
    let is_kept = set(&tree.path("probe"), "user.probe", b"").is_ok();
    if !is_kept {
        let why = "the file system of the tests keeps no extended attributes";
        skip("xattrs", why);
    }
    Ok(is_kept)
}

fn same_file(one: &Path, other: &Path) -> Result<()> {
    ensure!(std::fs::read(one)? == std::fs::read(other)?, "{other:?}");
    Ok(())
}

/// Gives a new file attributes.
fn dress(tree: &Tree, name: &str) -> Result<()> {
    tree.file(name, 100_000, 7)?;
    let path = tree.path(name);
    set(&path, "user.one", VALUE)?;
    set(&path, "user.two words = x", b"")
}

fn is_dressed(tree: &Tree, name: &str, wanted: bool) -> Result<()> {
    let path = tree.path(name);
    let one = get(&path, "user.one");
    let expected = wanted.then(|| VALUE.to_vec());
    ensure!(one == expected, "{name}: {one:?}");
    let two = get(&path, "user.two words = x");
    ensure!(two == wanted.then(Vec::new), "{name}: {two:?}");
    Ok(())
}

#[test]
fn attributes_are_carried_in_every_direction() -> Result<()> {
    let (bed, far) = (Bed::new()?, Tree::new()?);
    if !keeps(&bed.here)? {
        return Ok(());
    }
    let other = Host::ours(far.root())?;
    dress(&bed.here, "source/a")?;
    dress(&bed.here, "source/b")?;
    for mode in ["extended", "stream"] {
        for (flags, wanted) in [(&["--xattrs"][..], true), (&[], false)] {
            let to = format!("{mode}-{wanted}/");
            let (near, beyond) = (bed.url(&to), other.url(&to));
            let relayed = other.url(&format!("relayed-{to}"));
            let (back, here) = (format!("back-{to}"), format!("here-{to}"));
            for (from, to, more) in [
                ("source/", &near, &[][..]),
                (&near, &beyond, &[]),
                (&near, &relayed, &["--relay", "always"]),
                (&beyond, &back, &[]),
                ("source/", &here, &[]),
            ] {
                let args = [&["-r", "--mode", mode], flags, more, &[from, to]].concat();
                bed.cp(&args)?.ok().with_context(|| format!("{args:?}"))?;
            }
            for file in ["a", "b"] {
                is_dressed(&bed.there, &format!("{to}{file}"), wanted)?;
                is_dressed(&far, &format!("{to}{file}"), wanted)?;
                is_dressed(&far, &format!("relayed-{to}{file}"), wanted)?;
                is_dressed(&bed.here, &format!("{back}{file}"), wanted)?;
                is_dressed(&bed.here, &format!("{here}{file}"), wanted)?;
            }
        }
    }
    Ok(())
}

#[test]
fn attributes_of_directories_are_carried_in_every_direction() -> Result<()> {
    let (bed, far) = (Bed::new()?, Tree::new()?);
    if !keeps(&bed.here)? {
        return Ok(());
    }
    let other = Host::ours(far.root())?;
    bed.here.file("source/sub/a", 100, 7)?;
    for dir in ["source", "source/sub"] {
        set(&bed.here.path(dir), "user.one", VALUE)?;
    }
    for (n, flags) in [&["--xattrs"][..], &["--xattrs", "--preserve"], &[]]
        .into_iter()
        .enumerate()
    {
        let to = format!("to{n}/");
        let (near, beyond) = (bed.url(&to), other.url(&to));
        let (back, here) = (format!("back-{to}"), format!("here-{to}"));
        for (from, to) in [
            ("source/", &near),
            (&near, &beyond),
            (&beyond, &back),
            ("source/", &here),
        ] {
            let args = [&["-r"], flags, &[from, to]].concat();
            bed.cp(&args)?.ok().with_context(|| format!("{args:?}"))?;
        }
        let wanted = (!flags.is_empty()).then(|| VALUE.to_vec());
        for (tree, root) in [
            (&bed.there, &to),
            (&far, &to),
            (&bed.here, &back),
            (&bed.here, &here),
        ] {
            for dir in [root.clone(), format!("{root}sub")] {
                let one = get(&tree.path(&dir), "user.one");
                ensure!(one == wanted, "{flags:?}, {dir}: {one:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn an_attribute_that_a_directory_does_not_get_is_a_failure() -> Result<()> {
    let tree = Tree::new()?;
    if !keeps(&tree)? {
        return Ok(());
    }
    tree.file("source/a", 100, 7)?;
    set(&tree.path("source"), "user.one", VALUE)?;
    let server = ScriptedServer::start(|line| match line {
        "FEAT" => Reaction::say("211-\r\n XATTR\r\n211 end"),
        line if line.starts_with("SITE SETXATTR") => Reaction::say("552 no room for it"),
        _ => Reaction::Usual,
    })?;
    let to = server.url("copy/");
    let said = cp_in(&tree, &["-r", "--retries", "0", "--xattrs", "source/", &to])?;
    let whole = "the copy is whole and stays, without its attribute user.one";
    fails(&said, 1, &[whole, "552 no room for it"])?;
    ensure!(server.files() == ["/copy/a"], "{:?}", server.files());
    Ok(())
}

/// The mode of a copied directory may take the permission to set them once more.
#[test]
fn an_attribute_that_a_directory_has_already_is_not_set_again() -> Result<()> {
    let tree = Tree::new()?;
    if !keeps(&tree)? {
        return Ok(());
    }
    tree.file("source/a", 100, 7)?;
    for (value, status) in [(b"x", 0), (b"y", 1)] {
        set(&tree.path("source"), "user.one", value)?;
        let server = ScriptedServer::start(|line| match line {
            "FEAT" => Reaction::say("211-\r\n XATTR\r\n211 end"),
            line if line.starts_with("SITE XATTR") => {
                Reaction::say("250-Attributes\r\n user.one=eA==\r\n250 End.")
            }
            line if line.starts_with("SITE SETXATTR") => Reaction::say("550 permission denied"),
            _ => Reaction::Usual,
        })?;
        let to = server.url("copy/");
        let said = cp_in(&tree, &["-r", "--retries", "0", "--xattrs", "source/", &to])?;
        if status == 0 {
            said.ok()?;
        } else {
            fails(
                &said,
                status,
                &["attribute user.one", "550 permission denied"],
            )?;
        }
    }
    Ok(())
}

#[test]
fn data_nodes_keep_attributes() -> Result<()> {
    let (here, there) = (Tree::new()?, Tree::new()?);
    if !keeps(&here)? {
        return Ok(());
    }
    let cluster = Cluster::start(there.root(), 1)?;
    dress(&here, "source")?;
    for (from, to) in [
        ("source", cluster.front().url("copy").as_str()),
        (cluster.front().url("copy").as_str(), "back"),
    ] {
        let said = cp_in(&here, &["--xattrs", from, to])?.ok()?;
        ensure!(!said.stderr.contains("attributes"), "{}", said.report());
    }
    is_dressed(&there, "copy", true)?;
    is_dressed(&here, "back", true)
}

#[test]
fn a_server_that_keeps_none_is_warned_about_once() -> Result<()> {
    let (here, there) = (Tree::new()?, Tree::new()?);
    if !keeps(&here)? {
        return Ok(());
    }
    dress(&here, "source/a")?;
    dress(&here, "source/b")?;
    let server = Host::ours_with(there.root(), &["--storage", "memory"])?;
    for (from, to) in [
        ("source/", server.url("copy/").as_str()),
        (server.url("copy/").as_str(), "back/"),
    ] {
        let said = cp_in(&here, &["-r", "--xattrs", from, to])?.ok()?;
        let warnings = said
            .stderr
            .matches("the server keeps no extended attributes")
            .count();
        ensure!(warnings == 1, "{}", said.report());
    }
    is_dressed(&here, "back/a", false)
}

#[test]
fn attributes_that_cannot_be_carried_are_failures() -> Result<()> {
    let bed = Bed::new()?;
    if !keeps(&bed.here)? {
        return Ok(());
    }
    bed.there.file("many", 10, 1)?;
    for n in 0..65 {
        set(&bed.there.path("many"), &format!("user.{n}"), b"")?;
    }
    let whole = "copy: the copy is whole and stays, without its extended attributes";
    // Nor does a later run take it for the same.
    for _ in 0..2 {
        let said = bed.cp(&["--sync", "--xattrs", &bed.url("many"), "copy"])?;
        fails(&said, 1, &["more than 64 attributes", whole])?;
    }
    same_file(&bed.there.path("many"), &bed.here.path("copy"))
}

#[test]
fn an_attribute_that_the_destination_refuses_leaves_a_whole_copy() -> Result<()> {
    let bed = Bed::new()?;
    if !keeps(&bed.here)? {
        return Ok(());
    }
    for tree in [&bed.here, &bed.there] {
        tree.file("file", 1000, 1)?;
        set(&tree.path("file"), "user.one", VALUE)?;
    }
    let bytes = std::fs::read(bed.here.path("file"))?;
    for (from, flags) in [
        ("file", &[][..]),
        (&bed.url("file"), &["--relay", "never"]),
        (&bed.url("file"), &["--relay", "always"]),
    ] {
        let server = ScriptedServer::start(|line| match line {
            "FEAT" => Reaction::say("211-\r\n XATTR\r\n211 end"),
            line if line.starts_with("SITE SETXATTR") => Reaction::say("552 no room for it"),
            _ => Reaction::Usual,
        })?;
        let to = server.url("copy");
        let args = [&["--retries", "0", "--xattrs"], flags, &[from, &to]].concat();
        let said = bed.cp(&args)?;
        let text = format!("{to}: the copy is whole and stays, without its attribute user.one: ");
        let masked = "SITE SETXATTR user.one=(11 bytes) /";
        fails(&said, 1, &[&text, masked, ": 552 no room for it"])
            .with_context(|| format!("{args:?}"))?;
        ensure!(server.bytes("/copy") == Some(bytes.clone()), "{args:?}");
        ensure!(server.files() == ["/copy"], "{:?}", server.files());
    }
    Ok(())
}

/// The owner of a file without permission to write cannot set its attributes.
#[test]
fn a_read_only_file_of_its_user_gets_attributes() -> Result<()> {
    const USER: u32 = 65_534;
    let (bed, near) = (Bed::new()?, Tree::new()?);
    if !keeps(&bed.there)? {
        return Ok(());
    }
    dress(&bed.there, "file")?;
    let read_only = Permissions::from_mode(0o444);
    std::fs::set_permissions(bed.there.path("file"), read_only)?;
    // The program must be found by a user who may not enter the directory of the build.
    let program = near.path("gridftp-cp");
    std::fs::copy(binary("gridftp-cp")?, &program)?;
    for dir in [near.root().to_owned(), near.dir("here")?] {
        std::fs::set_permissions(dir, Permissions::from_mode(0o777))?;
    }
    // The second copy has the mode of the file that it replaces.
    for flags in [&["--preserve"][..], &[]] {
        let mut copy = Command::new(&program);
        copy.arg("--xattrs")
            .args(flags)
            .args([bed.url("file").as_str(), "copy"])
            .current_dir(near.path("here"))
            .env("HOME", near.path("here"));
        if is_root() {
            copy.uid(USER).gid(USER);
        }
        run(&mut copy, LIMIT)?.ok()?;
        is_dressed(&near, "here/copy", true)?;
        let mode = std::fs::metadata(near.path("here/copy"))?.permissions();
        ensure!(mode.mode() & 0o777 == 0o444, "{mode:?}");
    }
    Ok(())
}

#[test]
fn an_attribute_and_a_path_that_fit_no_command_are_failures() -> Result<()> {
    let (bed, deep) = (Bed::new()?, "d".repeat(250));
    if !keeps(&bed.here)? {
        return Ok(());
    }
    bed.here.file("file", 10, 1)?;
    set(&bed.here.path("file"), "user.large", &[7; 3500])?;
    let to = vec![deep; 14].join("/");
    let said = bed.cp(&["--xattrs", "file", &bed.url(&to)])?;
    fails(
        &said,
        1,
        &["attribute user.large and the path are too long for one command"],
    )?;
    same_file(&bed.here.path("file"), &bed.there.path(&to))
}

#[test]
fn a_copy_of_a_pipe_says_that_it_has_no_attributes() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("file", 10, 1)?;
    let said = bed.cp(&["--xattrs", &bed.url("file"), "-"])?.ok()?;
    let warning = "a pipe or a device keeps no extended attributes";
    ensure!(said.stderr.contains(warning), "{}", said.report());
    Ok(())
}

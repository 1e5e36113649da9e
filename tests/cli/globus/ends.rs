//! Directories with and without a slash, listings, standard input and output, and the words of
//! messages, beside the real program.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{
    Finished, Peer, Reaction, ScriptedServer, file_url, run_with_input, same_file,
};

use super::{globus, real};
use crate::{Bed, LIMIT, command, fails};

/// Lines in an order of their own; that of directories differs from run to run.
fn sorted<'a>(parts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut parts: Vec<_> = parts.collect();
    parts.sort_unstable();
    parts
}

#[test]
fn directories_below_a_source_are_named() -> Result<()> {
    let bed = Bed::new()?;
    for tree in [&bed.here, &bed.there] {
        for name in ["dir/x", "dir/aa/y", "dir/aa/bb/z"] {
            tree.file(name, 300, 3)?;
        }
        fs::create_dir(tree.path("dir/empty"))?;
    }
    let (here, up) = (file_url(&bed.here.path("dir")), bed.url("up/"));
    let (there, got) = (bed.url("dir"), file_url(&bed.here.path("got")) + "/");
    for (from, to, copy) in [
        (&here, &up, bed.there.path("up")),
        (&there, &got, bed.here.path("got")),
    ] {
        for flags in [&["-v", "-r"][..], &["-vb", "-r"], &["-v"]] {
            for end in ["/", "/*"] {
                let from = format!("{from}{end}");
                let words = [flags, &["-cd", from.as_str(), to]].concat();
                let ours = globus(&bed.here, &words)?.ok()?;
                fs::remove_dir_all(&copy)?;
                let told = sorted(ours.stdout.split("Source: "));
                let at = |name: &str| ours.stdout.find(&format!("\n  {name}\n"));
                let [dir, file] = [at("aa/"), at("y")];
                ensure!(dir.is_some() == flags.contains(&"-r"), "{}", ours.report());
                ensure!(dir <= file, "{}", ours.report());
                let Some(theirs) = real(&bed.here, &words)? else {
                    continue;
                };
                fs::remove_dir_all(&copy)?;
                let expected = sorted(theirs.stdout.split("Source: "));
                ensure!(told == expected, "{}\n{}", ours.report(), theirs.report());
            }
        }
    }
    Ok(())
}

#[test]
fn a_plan_names_its_files_and_directories() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("dir/aa/y", 300, 3)?;
    let (from, to) = (bed.url("dir/"), file_url(&bed.here.path("got")) + "/");
    let words = ["-v", "-r", "-do", "plan", "-cd", &from, &to];
    let ours = globus(&bed.here, &words)?.ok()?;
    ensure!(ours.stdout.contains("\n  aa/\n"), "{}", ours.report());
    if let Some(theirs) = real(&bed.here, &words)? {
        ensure!(ours.stdout == theirs.stdout, "{}", ours.report());
    }
    Ok(())
}

/// The real program fails.
#[test]
fn a_directory_without_a_slash_is_copied_under_its_name() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("dir/aa/y", 300, 3)?;
    let (from, to) = (bed.url("dir"), file_url(&bed.here.path("got")) + "/");
    globus(&bed.here, &["-r", &from, &to])?.ok()?;
    bed.same("got/dir/aa/y", "dir/aa/y")
}

#[test]
fn lists_have_the_names_of_the_real_program() -> Result<()> {
    let bed = Bed::new()?;
    for tree in [&bed.here, &bed.there] {
        for name in ["dir/x", "dir/a b", "dir/.hidden", "dir/sub/y"] {
            tree.file(name, 300, 3)?;
        }
    }
    symlink("x", bed.here.path("dir/to-x"))?;
    symlink("sub", bed.here.path("dir/to-sub"))?;
    symlink("nowhere", bed.here.path("dir/to-nothing"))?;
    let (here, there) = (file_url(&bed.here.path("dir")), bed.url("dir"));
    for (flags, url, names) in [
        (&[][..], format!("{here}/"), Some(6)),
        (&[], here.clone(), Some(1)),
        (&[], format!("{here}/x"), Some(1)),
        (&[], format!("{here}/a%20b"), Some(1)),
        (&[], format!("{here}/to-*"), Some(2)),
        (&[], format!("{there}/"), Some(4)),
        (&[], there.clone(), Some(1)),
        (&[], format!("{there}/a%20b"), Some(1)),
        (&["-rp"], there.clone(), Some(1)),
        (&["-rp"], format!("{there}/"), Some(4)),
        // The real program tells such names.
        (&[], format!("{here}/none"), None),
        (&[], format!("{there}/none"), None),
        (&[], format!("{here}/none*"), None),
        (&[], format!("{here}/none/"), None),
    ] {
        let words = [flags, &["-list", url.as_str()]].concat();
        let ours = globus(&bed.here, &words)?;
        let Some(names) = names else {
            fails(&ours, 1, &["error: ", "none"])?;
            continue;
        };
        let told = sorted(ours.stdout.lines());
        ensure!(ours.status.success(), "{}", ours.report());
        ensure!(told.len() == names + 2, "{}", ours.report());
        let Some(theirs) = real(&bed.here, &words)? else {
            continue;
        };
        let expected = sorted(theirs.stdout.lines());
        ensure!(told == expected, "{}\n{}", ours.report(), theirs.report());
    }
    Ok(())
}

/// Runs a program with the file `text` as its standard input.
fn with_input(bed: &Bed, mut program: Command, words: &[&str]) -> Result<Finished> {
    let input = File::open(bed.here.path("text"))?;
    let program = program.current_dir(bed.here.root()).args(words);
    run_with_input(program, input.into(), LIMIT)?.ok()
}

#[test]
fn standard_input_and_output_are_ends() -> Result<()> {
    let bed = Bed::new()?;
    let text = bed.here.path("text");
    fs::write(&text, "some words\n")?;
    fs::write(bed.there.path("text"), "other words\n")?;
    let (here, there) = (file_url(&text), bed.url("text"));
    let got = bed.here.path("got");
    let (local, remote) = (file_url(&got), bed.url("got"));
    for (words, data) in [
        (&[here.as_str(), "-"][..], "some words\n"),
        (&["-v", &here, "-"], "some words\n"),
        (&["-off", "5", "-len", "3", &here, "-"], "wor"),
        (&["-v", &there, "-"], "other words\n"),
        (&["-", &local], ""),
        (&["-v", "-", &local], ""),
        (&["-v", "-", &remote], ""),
    ] {
        let copies = || -> Result<()> {
            for copy in [&got, &bed.there.path("got")] {
                if copy.exists() {
                    same_file(copy, &text)?;
                    fs::remove_file(copy)?;
                    ensure!(data.is_empty());
                }
            }
            Ok(())
        };
        let ours = with_input(&bed, command(&bed.here, &["--globus"])?, words)?;
        ensure!(ours.stdout == data, "{words:?}: {}", ours.report());
        let made = got.exists() || bed.there.path("got").exists();
        ensure!(made == data.is_empty(), "{words:?}: {}", ours.report());
        copies().with_context(|| format!("{words:?}"))?;
        if let Some(program) = Peer::GlobusUrlCopy.require("cli") {
            let theirs = with_input(&bed, program, words)?;
            ensure!(theirs.stdout == data, "{words:?}: {}", theirs.report());
            copies().with_context(|| format!("{words:?} of theirs"))?;
        }
    }
    fails(&globus(&bed.here, &["-", "-"])?, 1, &["standard output"])
}

#[test]
fn messages_name_options_that_are_there() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("dir/x", 300, 3)?;
    let got = file_url(&bed.here.path("got"));
    let refusing = ScriptedServer::start(|line| match line.starts_with("PASS") {
        true => Reaction::say("530 no"),
        false => Reaction::Usual,
    })?;
    let joe = refusing.url("x").replace("ftp://", "ftp://joe:secret@");
    let (dir, file) = (bed.url("dir"), bed.url("dir/x"));
    for (words, needle) in [
        (&["-p", "x", file.as_str(), &got][..], "'x' for '-p"),
        (&["-cc", "x", &file, &got], "'x' for '-cc"),
        (&["-tcp-bs", "x", &file, &got], "'x' for '-tcp-bs"),
        (&[dir.as_str(), &got], "add -r to copy it"),
        (&["-off", "999", &file, &got], "-off 999 is beyond"),
        (&[joe.as_str(), &got], "in the URL, as USER:PASSWORD@HOST"),
        (&["-list", &joe], "in the URL, as USER:PASSWORD@HOST"),
    ] {
        let told = globus(&bed.here, words)?;
        fails(&told, 1, &[needle])?;
        ensure!(!told.stderr.contains(" --"), "{}", told.report());
    }
    // Standard output is for data alone.
    let told = globus(&bed.here, &["-v", &joe, "-"])?;
    fails(&told, 1, &["530 no"])?;
    ensure!(told.stdout.is_empty(), "{}", told.report());
    Ok(())
}

/// Scripts have no other place for it.
#[test]
fn a_password_in_a_url_is_no_reason_to_warn() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("a", 300, 3)?;
    let url = bed.url("a").replace("ftp://", "ftp://anonymous:me%40here@");
    let got = file_url(&bed.here.path("a"));
    for words in [[url.as_str(), &got], ["-list", &url]] {
        let told = globus(&bed.here, &words)?.ok()?;
        ensure!(!told.stderr.contains("password"), "{}", told.report());
    }
    bed.same("a", "a")
}

//! Symbolic links of Globus servers, and of others with fewer abilities than ours.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
use workspace_tests::{Host, Reaction, ScriptedServer, Tree};

use crate::links::{COPY, FOLLOWED, fill, has};
use crate::{cp_in, fails};

/// A Globus server tells the end of a link in place of its text, and none that leads nowhere.
#[test]
fn links_of_a_globus_server_become_relative() -> Result<()> {
    let (here, there) = (Tree::new()?, Tree::new()?);
    fill(&there)?;
    symlink("/etc/passwd", there.path("tree/absolute"))?;
    symlink("l", there.path("tree/chain"))?;
    let Some(server) = Host::globus(there.root(), "cli: links")? else {
        return Ok(());
    };
    let from = server.url("tree/");
    let told = cp_in(&here, &[&COPY[..], &[&from, "to"]].concat())?;
    fails(&told, 1, &["absolute", "/etc/passwd, out of its tree"])?;
    let links = [
        "chain -> a",
        "d/",
        "d/b",
        "d/up -> ../a",
        "e/",
        "e/to d -> ../d",
        "l -> a",
    ];
    has(&here, &[&["a"][..], &links].concat())?;
    fs::remove_file(there.path("tree/absolute"))?;
    let followed = [&["a", "chain"], &FOLLOWED[1..], &["l"]].concat();
    for (how, wanted) in [
        ("skip", &["a", "d/", "d/b", "e/"][..]),
        ("follow", &followed),
    ] {
        fs::remove_dir_all(here.path("to"))?;
        cp_in(&here, &["-r", "--links", how, &from, "to"])?.ok()?;
        has(&here, wanted)?;
    }
    Ok(())
}

/// It makes links to objects of its own only, by absolute paths.
#[test]
fn a_globus_server_is_sent_no_links() -> Result<()> {
    let (here, there) = (Tree::new()?, Tree::new()?);
    fill(&here)?;
    let Some(server) = Host::globus(there.root(), "cli: links")? else {
        return Ok(());
    };
    let told = cp_in(
        &here,
        &[&COPY[..], &["-v", "tree/", &server.url("to")]].concat(),
    )?
    .ok()?;
    let warned = told.stderr.matches("it makes no symbolic links").count();
    let out = told.stdout.matches("makes no symbolic links").count();
    ensure!((warned, out) == (1, 4), "{}", told.report());
    ensure!(told.stderr.contains("--links follow"));
    has(&there, &["a", "d/", "d/b", "e/"])
}

#[test]
fn a_server_that_may_not_tell_links_is_named() -> Result<()> {
    let here = Tree::new()?;
    let server = ScriptedServer::start(|line| {
        let (verb, path) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "FEAT" => Reaction::say("211-features\r\n MLST type*;size*;\r\n211 end"),
            "MLST" if path.ends_with("tree") => {
                Reaction::Say(format!("250-facts\r\n type=dir; {path}\r\n250 end"))
            }
            "MLSD" => Reaction::send(b"type=OS.unix=slink; bare\r\ntype=OS.unix=slink:x; told\r\n"),
            "CONNECT" | "MODE" | "PORT" | "PASV" | "USER" | "PASS" | "TYPE" | "OPTS" | "QUIT"
            | "END" | "MIDWAY" => Reaction::Usual,
            _ => Reaction::say("500 no"),
        }
    })?;
    let from = server.url("tree/");
    let told = cp_in(&here, &[&COPY[..], &["-v", &from, "to"]].concat())?.ok()?;
    for (text, out) in [
        ("may not tell symbolic links", &told.stderr),
        ("it does not tell where symbolic links lead", &told.stderr),
        ("bare: left out", &told.stdout),
    ] {
        ensure!(out.contains(text), "{text} in {}", told.report());
    }
    has(&here, &["told -> x"])
}

/// Each target goes out right before its link, over the next session as well.
#[test]
fn links_are_made_over_another_session_where_one_ends() -> Result<()> {
    let here = Tree::new()?;
    here.dir("tree")?;
    for n in 0..100 {
        symlink(format!("target {n}"), here.path(&format!("tree/link {n}")))?;
    }
    let lines = Arc::new(Mutex::new(Vec::new()));
    let (told, left) = (Arc::clone(&lines), AtomicUsize::new(30));
    let server = ScriptedServer::start(move |line| {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match rest.split_once(' ') {
            Some(("SYMLINKTO", _)) if left.fetch_sub(1, Ordering::Relaxed) == 1 => {
                return Reaction::HangUp(String::new());
            }
            Some((word @ ("SYMLINKFROM" | "SYMLINKTO"), name)) => {
                let number = name.rsplit(' ').next().unwrap_or(name).to_owned();
                let mut lines = told.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push((word.to_owned(), number));
                return Reaction::say(if word == "SYMLINKFROM" {
                    "350 on"
                } else {
                    "250 made"
                });
            }
            _ => {}
        }
        match verb {
            "FEAT" => Reaction::say("211-features\r\n MLST type*;UNIX.slink*;\r\n HELD\r\n211 end"),
            "MKD" => Reaction::say("257 made"),
            "MLSD" => Reaction::send(b""),
            "CONNECT" | "MODE" | "PORT" | "PASV" | "USER" | "PASS" | "TYPE" | "OPTS" | "QUIT"
            | "END" | "MIDWAY" => Reaction::Usual,
            _ => Reaction::say("550 No such file or directory"),
        }
    })?;
    let made = cp_in(&here, &[&COPY[..], &["tree/", &server.url("to")]].concat())?.ok()?;
    ensure!(made.stdout.contains(", 100 links"), "{}", made.report());
    let lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    let mut from = None;
    for (word, number) in lines.iter() {
        match word.as_str() {
            "SYMLINKFROM" => from = Some(number),
            _ => ensure!(from.take() == Some(number), "{lines:?}"),
        }
    }
    Ok(())
}

#[test]
fn links_in_a_plain_listing_are_told_and_kept_in_the_tree() -> Result<()> {
    let here = Tree::new()?;
    let server = ScriptedServer::start(|line| {
        let (verb, path) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "FEAT" => Reaction::say("211-features\r\n SIZE\r\n211 end"),
            "CWD" if path.ends_with("tree") => Reaction::say("250 there"),
            "LIST" => Reaction::send(
                b"lrwxrwxrwx 1 o g 4 Jan 1 10:00 in -> a -> b\r\n\
                  lrwxrwxrwx 1 o g 4 Jan 1 10:00 out -> ../x\r\n",
            ),
            "CONNECT" | "MODE" | "PORT" | "PASV" | "USER" | "PASS" | "TYPE" | "OPTS" | "QUIT"
            | "END" | "MIDWAY" => Reaction::Usual,
            _ => Reaction::say("500 no"),
        }
    })?;
    let from = server.url("tree/");
    let told = cp_in(&here, &[&COPY[..], &[&from, "to"]].concat())?;
    fails(&told, 1, &["is a link to ../x, out of its tree"])?;
    ensure!(!told.stderr.contains("may not tell"), "{}", told.report());
    has(&here, &["in -> a -> b"])
}

#[test]
fn a_link_that_is_refused_for_now_is_made_later() -> Result<()> {
    let here = Tree::new()?;
    here.dir("tree")?;
    symlink("target", here.path("tree/link"))?;
    let refusals = AtomicUsize::new(2);
    let server = ScriptedServer::start(move |line| {
        if line.starts_with("SITE SYMLINKTO") {
            let is_busy = refusals
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .is_ok();
            return Reaction::say(if is_busy { "450 busy" } else { "250 made" });
        }
        match line.split(' ').next().unwrap_or_default() {
            "SITE" => Reaction::say("350 on"),
            "FEAT" => Reaction::say("211-features\r\n MLST type*;UNIX.slink*;\r\n HELD\r\n211 end"),
            "MLSD" => Reaction::send(b""),
            "MLST" => Reaction::say("550 No such file or directory"),
            _ => Reaction::Usual,
        }
    })?;
    let to = server.url("");
    let made = cp_in(&here, &[&COPY[..], &["tree/", &to]].concat())?.ok()?;
    ensure!(made.stdout.contains(", 1 link"), "{}", made.report());
    let commands = server.commands();
    let tries = commands
        .iter()
        .filter(|line| line.starts_with("SITE SYMLINKTO"));
    ensure!(tries.count() == 3, "{commands:?}");
    Ok(())
}

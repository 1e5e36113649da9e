//! Mistakes on command lines and in the settings, by their messages: the exit status and the words, of
//! `gridftp-cp` and of `gridftp`.

mod rows;
mod scan;

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use workspace_tests::{ScriptedServer, Tree, run};

use crate::sibling::gridftp_command;
use crate::{LIMIT, command, cp_in, fails};
use rows::{COPIES, OTHERS, RECEIPTS, SETTINGS};

/// Makes the command of a program in a tree.
type Program = fn(&Tree, &[&str]) -> Result<Command>;

fn bed() -> Result<Tree> {
    let tree = Tree::new()?;
    tree.file("d/one", 3, 1)?;
    fs::write(tree.path("x"), "abc")?;
    fs::write(tree.path("pairs"), "file:///x file:///y 1,2\n")?;
    fs::write(tree.path("parts"), "file:///x file:///y 1;2\n")?;
    fs::write(tree.path("receipts"), RECEIPTS)?;
    Ok(tree)
}

#[test]
fn a_mistake_on_a_command_line_has_its_status_and_its_words() -> Result<()> {
    let tree = bed()?;
    let servers = [ScriptedServer::usual()?, ScriptedServer::usual()?];
    for server in &servers {
        server.file("/x", "abc");
        server.file("/d/one", "abc");
    }
    let [here, there] = servers.each_ref().map(|server| server.url(""));
    let mut wrong = Vec::new();
    let programs: [(Program, _); 2] = [(command, COPIES), (gridftp_command, OTHERS)];
    for (program, rows) in programs {
        for (words, status, needles) in rows {
            let line = words.replace("URL2/", &there).replace("URL/", &here);
            let is_variable = |word: &&str| {
                let name = word.split_once('=').map(|(name, _)| name);
                let is_of_name = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
                name.is_some_and(|name| name.bytes().all(is_of_name))
            };
            let (set, line): (Vec<_>, Vec<_>) = line.split_whitespace().partition(is_variable);
            let set = set.iter().filter_map(|word| word.split_once('='));
            let mut command = program(&tree, &line)?;
            command.env_remove("X509_USER_CERT").envs(set);
            let finished = run(&mut command, LIMIT)?;
            let told = finished.stdout.clone() + &finished.stderr;
            let is_told = needles.iter().all(|needle| told.contains(needle));
            if finished.status.code() != Some(*status) || !is_told {
                wrong.push(format!("{words:?}: {}", finished.report()));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn a_mistake_in_the_settings_has_its_words() -> Result<()> {
    let mut wrong = Vec::new();
    for (text, words, needles) in SETTINGS {
        let tree = bed()?;
        tree.dir(".config/gridftp")?;
        fs::write(tree.path(".config/gridftp/config.toml"), text)?;
        let words: Vec<_> = words.split_whitespace().collect();
        if let Err(error) = fails(&cp_in(&tree, &words)?, 2, needles) {
            wrong.push(format!("{text:?}: {error:#}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

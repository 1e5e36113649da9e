//! Names of any bytes, and sources that are their own destination, with the Globus programs at one
//! end.

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Finished, OddTree, run, sha256};

use crate::bed::{Client, End, LIMIT, Way};

/// Modes and numbers of connections of each client.
const WAYS: [(&[&str], &[&str]); 3] = [
    (&["--mode", "stream", "-j", "1"], &[]),
    (
        &["--mode", "extended", "-p", "1", "-j", "2"],
        &["-p", "1", "-fast"],
    ),
    (
        &["--mode", "extended", "-p", "3", "-j", "1"],
        &["-p", "3", "-cc", "2"],
    ),
];

const DIRECTIONS: [Way; 4] = [Way::Put, Way::Get, Way::FromOurs, Way::ToOurs];

/// Returns whether the Globus server keeps a name: it drops all bytes that are neither printable
/// ASCII nor white space.
fn globus_keeps(name: &[u8]) -> bool {
    name.iter()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\t' | 0x0b | 0x0c))
}

/// Copies a tree and returns the copy, or nothing where a program is missing.
fn copied(
    client: Client,
    way: Way,
    flags: &[&str],
    tree: &OddTree,
) -> Result<Option<(OddTree, Finished)>> {
    let (Some(mut command), Some((from, to))) = (client.command()?, client.ends(way)?) else {
        return Ok(None);
    };
    tree.write(&from.path("tree"))?;
    fs::create_dir(to.path("to"))?;
    command.args(client.recursive()).args(flags);
    command.args([from.url("tree/"), to.url("to/")]);
    let finished = run(&mut command, LIMIT)?;
    Ok(Some((OddTree::read(&to.path("to"))?, finished)))
}

#[test]
fn gridftp_cp_copies_every_name_that_the_globus_server_keeps() -> Result<()> {
    let all = OddTree::all();
    let taken = all.only(globus_keeps);
    let missing = all.files().len() - taken.files().len();
    for way in DIRECTIONS {
        for (flags, _) in WAYS {
            for (tree, missing) in [(&all, missing), (&taken, 0)] {
                let Some((got, finished)) = copied(Client::Cp, way, flags, tree)? else {
                    return Ok(());
                };
                let differences = taken.differences(&got);
                ensure!(
                    differences.is_empty(),
                    "{way:?} {flags:?}: {differences:#?}\n{}",
                    finished.report()
                );
                let told = finished.stderr.matches(": failed: ").count();
                ensure!(
                    told >= missing && (told == 0) == (missing == 0),
                    "{way:?}: {}",
                    finished.report()
                );
                let status = i32::from(missing > 0);
                ensure!(
                    finished.status.code() == Some(status),
                    "{way:?}: {}",
                    finished.report()
                );
            }
        }
    }
    Ok(())
}

/// Returns a URL with all bytes of the name percent-encoded.
fn encoded(dir: &str, name: &[u8]) -> String {
    let name = name.iter().map(|byte| match byte {
        b'/' => "/".to_owned(),
        byte => format!("%{byte:02X}"),
    });
    format!("{dir}{}", name.collect::<String>())
}

/// Each file is named in a list, since a recursive `globus-url-copy` ends at the first name that it
/// cannot put into a URL.
#[test]
fn globus_url_copy_copies_names_of_any_bytes() -> Result<()> {
    // It does not double the byte 255, which starts a Telnet command (RFC 854).
    let all = OddTree::all().only(|name| !name.contains(&b'/') && !name.contains(&0xff));
    let taken = all.only(globus_keeps);
    for way in DIRECTIONS {
        // Our server keeps all names; third-party copies involve the Globus server.
        let tree = if matches!(way, Way::Put | Way::Get) {
            &all
        } else {
            &taken
        };
        for (_, flags) in WAYS {
            let (Some(mut command), Some((from, to))) =
                (Client::Guc.command()?, Client::Guc.ends(way)?)
            else {
                return Ok(());
            };
            tree.write(&from.path("tree"))?;
            fs::create_dir(to.path("to"))?;
            let (source, target) = (from.url("tree/"), to.url("to/"));
            let lines = tree.files().map(|(name, _)| {
                format!(
                    "\"{}\" \"{}\"\n",
                    encoded(&source, name),
                    encoded(&target, name)
                )
            });
            let list = from.path("list");
            fs::write(&list, lines.collect::<String>())?;
            command.args(flags).arg("-c").arg("-f").arg(list);
            let finished = run(&mut command, LIMIT)?;
            let differences = tree.differences(&OddTree::read(&to.path("to"))?);
            ensure!(
                differences.is_empty(),
                "{way:?} {flags:?}: {differences:#?}\n{}",
                finished.report()
            );
        }
    }
    Ok(())
}

#[test]
fn a_copy_onto_itself_is_refused() -> Result<()> {
    let Some(end) = End::globus()? else {
        return Ok(());
    };
    let file = end.tree.file("file", 5_000_000, 1)?;
    end.tree.file("tree/sub/file", 100_000, 2)?;
    symlink("file", end.path("link"))?;
    symlink("tree", end.path("alias"))?;
    fs::hard_link(&file, end.path("twin"))?;
    let (digest, before) = (sha256(&file)?, end.tree.names("")?);
    let (url, local) = (end.url("file"), file.display().to_string());
    let dotted = url.replace("/file", "/.//./file");
    let host = url.replace("127.0.0.1", "localhost");
    let same = "is the destination itself";
    let within = "would be copied into itself";
    for (args, needle) in [
        (&[&url, &url][..], same),
        (&[&url, &dotted], same),
        (&[&url, &host], same),
        (&[&url, &end.url("link")], same),
        (&[&end.url("link"), &url], same),
        (&[&end.url("twin"), &url], same),
        (&[&url, &end.url("")], same),
        (&[&local, &url], same),
        (&[&url, &local], same),
        (&[&end.url("tree"), &end.url("tree")], within),
        (&[&end.url("tree/"), &end.url("tree/sub/new/")], within),
        (&[&end.url("alias/"), &end.url("tree/sub")], within),
        (
            &[
                &end.path("tree").display().to_string(),
                &end.url("tree/new"),
            ],
            within,
        ),
    ] {
        for mode in ["stream", "extended"] {
            let mut command = Client::Cp.command()?.context("ours is always there")?;
            command.args(["-r", "--mode", mode]).args(args);
            let finished = run(&mut command, LIMIT)?;
            ensure!(
                finished.status.code() == Some(2) && finished.stderr.contains(needle),
                "{}",
                finished.report()
            );
            ensure!(
                sha256(&file)? == digest,
                "the file was written: {}",
                finished.report()
            );
            let after = end.tree.names("")?;
            ensure!(after == before, "{after:?}: {}", finished.report());
        }
    }
    Ok(())
}

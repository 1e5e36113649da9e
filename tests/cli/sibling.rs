//! `gridftp`: listings, changes, digests and comparisons, with their output and exit statuses.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use workspace_tests::{Finished, Host, Tree, binary, run, sha256};

use crate::{Bed, LIMIT, fails};

pub(super) fn gridftp_command(tree: &Tree, args: &[&str]) -> Result<Command> {
    let mut command = Command::new(binary("gridftp")?);
    command
        .current_dir(tree.root())
        .args(args)
        .env_remove("NETRC")
        .env_remove("XDG_CONFIG_HOME")
        .env("HOME", tree.root());
    Ok(command)
}

pub(super) fn gridftp_in(tree: &Tree, args: &[&str]) -> Result<Finished> {
    run(&mut gridftp_command(tree, args)?, LIMIT)
}

impl Bed {
    /// Runs `gridftp` in the local tree.
    pub(super) fn gridftp(&self, args: &[&str]) -> Result<Finished> {
        gridftp_in(&self.here, args)
    }

    /// Runs a command of `gridftp` on paths of the server, which begin with `@`.
    pub(super) fn there(&self, args: &[&str]) -> Result<Finished> {
        let args: Vec<_> = args
            .iter()
            .map(|arg| match arg.strip_prefix('@') {
                Some(name) => self.url(name),
                None => (*arg).to_owned(),
            })
            .collect();
        self.gridftp(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// The objects in lines of JSON.
pub(super) fn objects(finished: &Finished) -> Result<Vec<Value>> {
    let lines = finished.stdout.lines();
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// A tree with files, a directory, a hidden name and links.
pub(super) fn tree(at: &Tree) -> Result<()> {
    at.file("dir/one", 10, 1)?;
    at.file("dir/sub/two", 20, 2)?;
    at.file("dir/.hidden", 5, 3)?;
    symlink("one", at.path("dir/link"))?;
    symlink("sub", at.path("dir/door"))?;
    fs::set_permissions(at.path("dir/one"), fs::Permissions::from_mode(0o640))?;
    Ok(())
}

#[test]
fn directories_are_listed_in_each_form() -> Result<()> {
    let bed = Bed::new()?;
    tree(&bed.there)?;
    tree(&bed.here)?;
    for place in [
        "@dir",
        "dir",
        &format!("file://{}", bed.here.path("dir").display()),
    ] {
        let told = bed.there(&["ls", place])?.ok()?;
        ensure!(told.stdout == "door\nlink\none\nsub\n", "{}", told.report());
        let told = bed.there(&["ls", "-a", place])?.ok()?;
        ensure!(told.stdout.starts_with(".hidden\n"), "{}", told.report());
        let told = bed.there(&["ls", "-l", place])?.ok()?;
        let line = told
            .stdout
            .lines()
            .find(|line| line.ends_with(" one") && !line.contains("->"));
        let line = line.unwrap_or_default();
        ensure!(
            line.starts_with("-rw-r----- ") && line.contains(" 10 20"),
            "{line}"
        );
        ensure!(told.stdout.contains(" link -> one\n"), "{}", told.report());
        let told = bed.there(&["ls", "-R", place])?.ok()?;
        // The link to a directory is not entered.
        ensure!(
            told.stdout.matches("two\n").count() == 1,
            "{}",
            told.report()
        );
        let told = bed.there(&["ls", "--json", place])?.ok()?;
        let one = &objects(&told)?[2];
        ensure!(
            one["event"] == "entry" && one["name"] == "one" && one["size"] == 10,
            "{one}"
        );
        ensure!(one["type"] == "file" && one["mode"] == "0640", "{one}");
        let told = bed.there(&["stat", &format!("{place}/one")])?.ok()?;
        ensure!(
            told.stdout.contains("\n  size      10\n"),
            "{}",
            told.report()
        );
        let told = bed.there(&["tree", place])?.ok()?;
        let drawn = "├── door -> sub\n├── link -> one\n├── one\n└── sub\n    └── two\n\n\
                     1 directory, 4 files\n";
        ensure!(told.stdout.ends_with(drawn), "{}", told.report());
        let told = bed.there(&["tree", "--depth", "1", place])?.ok()?;
        let drawn = "├── door -> sub\n├── link -> one\n├── one\n└── sub\n\n1 directory, 3 files\n";
        ensure!(told.stdout.ends_with(drawn), "{}", told.report());
        let told = bed.there(&["du", place])?.ok()?;
        let sums: Vec<_> = told
            .stdout
            .lines()
            .filter_map(|line| line.split('\t').next())
            .collect();
        ensure!(sums == ["20", "35"], "{}", told.report());
    }
    let told = bed
        .gridftp(&["ls", &format!("{}/*o*e", bed.url("dir"))])?
        .ok()?;
    ensure!(told.stdout == "one\n", "{}", told.report());
    let told = bed.there(&["ls", "-L"])?;
    ensure!(told.status.code() == Some(2), "{}", told.report());
    fails(
        &bed.there(&["ls", "@missing"])?,
        1,
        &["gridftp: ", "550", "check the path"],
    )?;
    let told = bed.there(&["ls", "--json", "@missing", "@dir"])?;
    ensure!(told.status.code() == Some(1), "{}", told.report());
    let first = &objects(&told)?[0];
    ensure!(
        first["event"] == "failed" && first["class"] == "transfer",
        "{first}"
    );
    fails(
        &bed.gridftp(&["ls", "ftp://127.0.0.1:1/"])?,
        3,
        &["gridftp: "],
    )?;
    fails(&bed.gridftp(&["ls", "gopher://x/"])?, 2, &["scheme gopher"])
}

#[test]
fn bytes_are_written_as_they_are() -> Result<()> {
    let bed = Bed::new()?;
    let text: String = (0..100_000).map(|line| format!("line {line}\n")).collect();
    fs::write(bed.there.path("text"), &text)?;
    fs::write(bed.here.path("text"), &text)?;
    for place in ["@text", "text"] {
        ensure!(bed.there(&["cat", place])?.ok()?.stdout == text, "{place}");
        let told = bed.there(&["cat", place, place])?.ok()?;
        ensure!(told.stdout.len() == 2 * text.len(), "{place}");
        let told = bed.there(&["head", place])?.ok()?;
        ensure!(told.stdout == text[..70], "{}", told.report());
        let told = bed.there(&["head", "-n", "2", place, place])?.ok()?;
        ensure!(
            told.stdout == "line 0\nline 1\n".repeat(2),
            "{}",
            told.report()
        );
        let told = bed.there(&["head", "-c", "9", place])?.ok()?;
        ensure!(told.stdout == "line 0\nli", "{}", told.report());
        let told = bed.there(&["head", "-c", "1G", place])?.ok()?;
        ensure!(told.stdout == text, "{place}");
    }
    fails(&bed.there(&["cat", "@missing"])?, 1, &["550"])?;
    for command in ["cat", "head"] {
        let refused = bed.there(&[command, "--json", "@text"])?;
        fails(&refused, 2, &[])?;
        let told = objects(&refused)?;
        let error = told[0]["error"].as_str().unwrap_or_default();
        ensure!(
            told.len() == 1 && error.contains("usage: --json"),
            "{error}"
        );
    }
    Ok(())
}

#[test]
fn names_are_made_changed_and_removed() -> Result<()> {
    let bed = Bed::new()?;
    let path = |name| bed.there.path(name);
    fails(&bed.there(&["mkdir", "@a/b/c"])?, 1, &["550"])?;
    bed.there(&["mkdir", "-p", "@a/b/c"])?.ok()?;
    bed.there(&["mkdir", "-p", "@a/b/c"])?.ok()?;
    ensure!(path("a/b/c").is_dir());
    fails(&bed.there(&["mkdir", "@a"])?, 1, &["it is there already"])?;
    bed.there(&["touch", "@a/new", "@a/b"])?.ok()?;
    ensure!(fs::metadata(path("a/new"))?.len() == 0);
    fails(&bed.there(&["mkdir", "-p", "@a/new/x"])?, 1, &["MKD"])?;
    bed.there(&["touch", "-c", "@a/none"])?.ok()?;
    ensure!(!path("a/none").exists());
    bed.there(&["touch", "-t", "20010909014640", "@a/new"])?
        .ok()?;
    let modified = fs::metadata(path("a/new"))?.modified()?;
    ensure!(modified.duration_since(std::time::UNIX_EPOCH)?.as_secs() == 1_000_000_000);
    bed.there(&["chmod", "0600", "@a/new"])?.ok()?;
    ensure!(fs::metadata(path("a/new"))?.permissions().mode() & 0o7777 == 0o600);
    fails(&bed.there(&["chmod", "u+x", "@a/new"])?, 2, &["octal"])?;

    bed.there(&["mv", "@a/new", "@a/old"])?.ok()?;
    bed.there(&["mv", "@a/old", "@a/b"])?.ok()?;
    ensure!(path("a/b/old").is_file());
    fs::write(path("a/b/other"), b"other")?;
    let kept = bed.there(&["mv", "-n", "@a/b/old", "@a/b/other"])?;
    fails(&kept, 1, &["it is there already"])?;
    fails(
        &bed.there(&["mv", "@a", "ftp://elsewhere.invalid/a"])?,
        2,
        &["gridftp-cp"],
    )?;

    bed.there(&["ln", "-s", "b/old", "@a/link"])?.ok()?;
    ensure!(fs::read_link(path("a/link"))?.to_str() == Some("b/old"));
    bed.there(&["ln", "-sf", "b", "@a/link"])?.ok()?;
    ensure!(fs::read_link(path("a/link"))?.to_str() == Some("b"));
    fails(&bed.there(&["ln", "b", "@a/hard"])?, 2, &["--symbolic"])?;

    fails(&bed.there(&["rm", "@a/b"])?, 1, &["is a directory", "-r"])?;
    for root in ["@", "@/", "@a/..", "@."] {
        fails(&bed.there(&["rm", "-rf", root])?, 2, &["is not removed"])?;
    }
    fs::create_dir(path("kept"))?;
    fs::write(path("kept/file"), b"kept")?;
    symlink("../kept", path("a/out"))?;
    bed.there(&["rm", "-r", "@a"])?.ok()?;
    ensure!(!path("a").exists() && path("kept/file").exists());
    symlink("kept", path("door"))?;
    bed.there(&["rm", "-r", "@door"])?.ok()?;
    ensure!(!path("door").exists() && path("kept/file").exists());
    fails(&bed.there(&["rm", "-r", "@a"])?, 1, &["550"])?;
    bed.there(&["rm", "-rf", "@a"])?.ok()?;
    fails(&bed.gridftp(&["rm", "kept"])?, 2, &["no URL"])
}

#[test]
fn digests_are_those_of_other_tools() -> Result<()> {
    let bed = Bed::new()?;
    tree(&bed.there)?;
    tree(&bed.here)?;
    let digest = sha256(&bed.there.path("dir/one"))?;
    for args in [
        &["sum", "@dir/one"][..],
        &["sum", "--read", "@dir/one"],
        &["sum", "dir/one"],
    ] {
        let told = bed.there(args)?.ok()?;
        ensure!(
            told.stdout.starts_with(&format!("{digest}  ")),
            "{}",
            told.report()
        );
    }
    let told = bed
        .there(&["sum", "--json", "-a", "md5", "-r", "@dir"])?
        .ok()?;
    let told = objects(&told)?;
    let names: Vec<_> = told
        .iter()
        .map(|sum| sum["url"].as_str().unwrap_or_default())
        .collect();
    ensure!(
        names.len() == 4 && names[3].ends_with("dir/sub/two"),
        "{names:?}"
    );
    ensure!(
        told[0]["by"] == "server" && told[0]["algorithm"] == "MD5",
        "{told:?}"
    );
    fails(&bed.there(&["sum", "@dir"])?, 1, &["is a directory", "-r"])
}

#[test]
fn free_space_is_that_of_the_disk() -> Result<()> {
    let bed = Bed::new()?;
    tree(&bed.there)?;
    let free = || -> Result<u64> {
        let room = rustix::fs::statvfs(bed.there.root())?;
        Ok(room.f_bavail * room.f_frsize)
    };
    let before = free()?;
    let told = bed.there(&["df", "--json", "@dir"])?.ok()?;
    let after = free()?;
    let told = objects(&told)?[0]["bytes"].as_u64().unwrap_or(0);
    // Other tests fill the same disk meanwhile.
    let (least, most) = (before.min(after), before.max(after));
    let slack = 1 << 30;
    let range = least.saturating_sub(slack)..=most + slack;
    ensure!(told > 0 && range.contains(&told), "{told} of {range:?}");
    let told = bed.there(&["df", "--human", "@dir"])?.ok()?.stdout;
    let (size, url) = told.split_once('\t').context("no tab")?;
    ensure!(
        size.ends_with("iB") && url == format!("{}\n", bed.url("dir")),
        "{told}"
    );
    fails(&bed.there(&["df", "@absent"])?, 1, &["no such file"])?;
    let server = Host::ours_with(bed.there.root(), &["--storage", "memory"])?;
    let none = bed.there(&["df", &server.url("")])?;
    fails(&none, 1, &["does not tell its free space"])
}

#[test]
fn trees_are_compared() -> Result<()> {
    let bed = Bed::new()?;
    tree(&bed.there)?;
    tree(&bed.here)?;
    for args in [
        &["check", "dir", "@dir"][..],
        &["check", "-c", "@dir", "dir"],
        &["check", "@dir", "@dir"],
    ] {
        let told = bed.there(args)?.ok()?;
        let same = "5 files and 2 directories compared: no difference\n";
        ensure!(told.stdout == same, "{}", told.report());
    }
    bed.here.file("dir/one", 10, 9)?;
    bed.there(&["check", "dir", "@dir"])?.ok()?;
    let told = bed.there(&["check", "--checksum", "dir", "@dir"])?;
    ensure!(told.status.code() == Some(5), "{}", told.report());
    ensure!(
        told.stdout.starts_with("digest  one: BLAKE3 "),
        "{}",
        told.report()
    );
    bed.there(&["touch", "-t", "20010909014640", "@dir/sub/two"])?
        .ok()?;
    bed.here.file("dir/sub/new", 1, 1)?;
    bed.there.file("dir/sub/old", 1, 1)?;
    bed.here.file("dir/.hidden", 6, 1)?;
    fs::remove_file(bed.here.path("dir/link"))?;
    symlink("other", bed.here.path("dir/link"))?;
    let told = bed.there(&["check", "--json", "-t", "dir", "@dir"])?;
    ensure!(told.status.code() == Some(5), "{}", told.report());
    let told = objects(&told)?;
    let found: Vec<_> = told
        .iter()
        .map(|one| (one["what"].as_str(), one["path"].as_str()))
        .filter(|(what, path)| *what != Some("time") || *path == Some("sub/two"))
        .collect();
    let wanted = [
        (Some("size"), Some(".hidden")),
        (Some("target"), Some("link")),
        (Some("missing"), Some("sub/new")),
        (Some("extra"), Some("sub/old")),
        (Some("time"), Some("sub/two")),
        (None, None),
    ];
    ensure!(found == wanted, "{found:?}");
    let quiet = bed.there(&["check", "-q", "dir", "@dir"])?;
    ensure!(
        quiet.stdout.is_empty() && quiet.status.code() == Some(5),
        "{}",
        quiet.report()
    );
    fails(&bed.there(&["check", "dir", "@missing"])?, 1, &["550"])?;
    fails(
        &bed.there(&["check", "dir", "ftp://127.0.0.1:1/"])?,
        3,
        &["gridftp: "],
    )
}

#[test]
fn mistakes_in_a_command_have_status_two() -> Result<()> {
    let bed = Bed::new()?;
    for (args, told) in [
        (
            &["mv", "ftp://h/x", "ftp://i/y"][..],
            "mv renames in one session",
        ),
        (&["mv", "ftp://h/x", "y"], "y: is no URL of a server"),
        (&["check", "ftp://h/a*", "d"], "a pattern is no tree"),
        (
            &["rm", "-r", "ftp://h/"],
            "is not removed; name what is in it",
        ),
        (&["cat", "-"], "is no file of a server"),
        (&["speed", "/tmp"], "is no URL of a server"),
        (&["check-receipt", "none"], "none: open"),
        (&["sum"], "<PLACE>"),
    ] {
        fails(&bed.gridftp(args)?, 2, &[told])?;
    }
    // In JSON the mistake is an object.
    let told = bed.gridftp(&["head", "--json", "ftp://h/x"])?;
    ensure!(
        told.status.code() == Some(2) && told.stdout.contains("cat and head write the bytes"),
        "{}",
        told.report()
    );
    Ok(())
}

#[test]
fn the_commands_of_both_programs_are_the_same() -> Result<()> {
    let bed = Bed::new()?;
    let told = bed.there(&["doctor", "@"])?.ok()?;
    ensure!(
        told.stdout.contains("ok    data: listing of /: "),
        "{}",
        told.report()
    );
    fails(
        &bed.gridftp(&["doctor", "file"])?,
        2,
        &["gridftp: usage: doctor needs"],
    )?;
    let help = bed.gridftp(&["proxy", "init", "--help"])?.ok()?.stdout;
    ensure!(help.contains("--hours"), "{help}");
    ensure!(help.contains("  gridftp proxy init --hours 24\n"), "{help}");
    let man = bed.gridftp(&["--man"])?.ok()?.stdout;
    for page in [
        ".TH gridftp 1",
        ".TH gridftp-check 1",
        ".TH gridftp-proxy-init 1",
    ] {
        ensure!(man.contains(page), "no {page}");
    }
    let words = bed.gridftp(&["--completions", "bash"])?.ok()?.stdout;
    ensure!(words.contains("_gridftp"), "{words}");
    fails(&bed.gridftp(&[])?, 2, &["Usage"])?;
    fails(&bed.gridftp(&["cp"])?, 2, &["unrecognized subcommand"])
}

//! Copies with both ends on this machine.

use std::fs::{self, File, Permissions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use gridftp_client::{CopyOptions, Location, Silent, Totals, blocking};
use workspace_tests::{
    OddTree, Peer, Tree, binary, file_url, is_root, run, run_with_input, same_file, same_tree, skip,
};

use crate::journal::kill_midway;
use crate::{Bed, LIMIT, command, cp_in, fails};

/// Size of a file that is mostly a hole.
const SPARSE: u64 = 300 << 20;

/// Gives a file a mode and a time.
fn dress(path: &Path, mode: u32, seconds: u64) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    Ok(File::open(path)?.set_modified(time)?)
}

/// Mode, time and size of an object.
fn facts(path: &Path) -> Result<(u32, i64, i64, u64)> {
    let meta = fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    let size = if meta.is_dir() { 0 } else { meta.len() };
    Ok((meta.mode(), meta.mtime(), meta.mtime_nsec(), size))
}

#[test]
fn a_tree_comes_with_its_links_holes_modes_and_times() -> Result<()> {
    for flags in [
        &[][..],
        &["--no-verify"],
        &["--verify=disk", "--sparse", "-j", "1"],
        &["--no-verify", "--sparse", "--sync-writes"],
    ] {
        let here = Tree::new()?;
        here.file("tree/empty", 0, 1)?;
        here.file("tree/sub/program", 300_001, 2)?;
        here.sparse("tree/sparse", SPARSE, 3)?;
        here.dir("tree/hollow/deep")?;
        OddTree::all().write(&here.path("tree/odd"))?;
        symlink("sub/program", here.path("tree/link"))?;
        symlink("/no/where", here.path("tree/sub/nowhere"))?;
        dress(&here.path("tree/sub/program"), 0o751, 1_000_000_000)?;
        dress(&here.path("tree/sub"), 0o705, 1_100_000_000)?;
        let all = ["-r", "--preserve", "--links", "copy", "tree/", "to"];
        let said = cp_in(&here, &[flags, &all].concat())?.ok()?;
        ensure!(said.stdout.contains(", 2 links"), "{}", said.report());
        for name in ["empty", "sub/program", "sparse", "hollow/deep", "sub"] {
            let [from, to] = ["tree", "to"].map(|dir| here.path(dir).join(name));
            ensure!(facts(&from)? == facts(&to)?, "{flags:?} {name}");
        }
        for link in ["link", "sub/nowhere"] {
            let [from, to] = ["tree", "to"].map(|dir| here.path(dir).join(link));
            ensure!(
                fs::read_link(&from)? == fs::read_link(&to)?,
                "{flags:?} {link}"
            );
            fs::remove_file(from)?;
            fs::remove_file(to)?;
        }
        let odd = OddTree::read(&here.path("to/odd"))?;
        ensure!(OddTree::all().differences(&odd).is_empty());
        let taken = fs::metadata(here.path("to/sparse"))?.blocks() * 512;
        ensure!(taken < SPARSE / 50, "{flags:?}: {taken} bytes are taken");
        same_tree(&here.path("tree"), &here.path("to"))?;
    }
    Ok(())
}

#[test]
fn a_file_has_each_kind_of_proof() -> Result<()> {
    let here = Tree::new()?;
    here.file("file", 3_000_001, 1)?;
    for (flags, wanted) in [
        (&[][..], "\"verified\":\"digest\""),
        (&["--verify=md5"], "\"algorithm\":\"MD5\""),
        (&["--no-verify"], "\"verified\":\"size\""),
    ] {
        let said = cp_in(&here, &[flags, &["--json", "file", "copy"]].concat())?.ok()?;
        ensure!(said.stdout.contains(wanted), "{}", said.report());
        same_file(&here.path("file"), &here.path("copy"))?;
        let said = cp_in(&here, &[flags, &["file", "copy"]].concat())?.ok()?;
        let is_told = said.stdout.ends_with("/s), 1 compared by size only\n");
        ensure!(is_told == wanted.contains("size"), "{}", said.report());
    }
    let receipt = ["--receipt", "log", "file", "copy"];
    cp_in(&here, &receipt)?.ok()?;
    let log = fs::read_to_string(here.path("log"))?;
    ensure!(log.contains("\"route\":\"local\""), "{log}");
    Ok(())
}

#[test]
fn a_part_is_copied_into_the_file_that_is_there() -> Result<()> {
    let here = Tree::new()?;
    let bytes = fs::read(here.file("file", 3_000_001, 1)?)?;
    for flags in [&[][..], &["--no-verify"]] {
        let old = fs::read(here.file("to", 3_000_001, 2)?)?;
        let part = ["--offset", "1000", "--length", "2000000", "file", "to"];
        cp_in(&here, &[flags, &part].concat())?.ok()?;
        let now = fs::read(here.path("to"))?;
        let (begin, end) = (1_000, 2_001_000);
        ensure!(now[begin..end] == bytes[begin..end], "{flags:?}");
        ensure!(now[..begin] == old[..begin] && now[end..] == old[end..]);
    }
    Ok(())
}

#[test]
fn a_killed_copy_goes_on_in_the_next_run() -> Result<()> {
    for flags in [&[][..], &["--no-verify"]] {
        let here = Tree::new()?;
        here.file("file", (150 << 20) + 12_345, 7)?;
        let slow = [flags, &["--bwlimit", "66M", "file", "to/copy"]].concat();
        let held = here.path("to/.copy.gridftp-held");
        kill_midway(&here, &slow, &here.path("to"), || held.exists())?;
        ensure!(!here.path("to/copy").exists(), "a part has the final name");
        let listed = cp_in(&here, &["--partials", "to"])?.ok()?.stdout;
        let source = here.path("file").display().to_string();
        ensure!(listed.contains(&source), "{listed}");
        // Another working directory, and another name of the same source.
        let again = [flags, &[source.as_str(), "copy"]].concat();
        let mut copy = command(&here, &again)?;
        let said = run(copy.current_dir(here.path("to")), LIMIT)?.ok()?;
        ensure!(
            said.stderr.contains("copy: continuing at"),
            "{}",
            said.report()
        );
        same_file(&here.path("file"), &here.path("to/copy"))?;
        let names = here.names("to")?;
        ensure!(names == ["copy"], "{names:?}");
    }
    Ok(())
}

#[test]
fn a_killed_copy_of_a_source_that_has_changed_begins_anew() -> Result<()> {
    let here = Tree::new()?;
    here.file("file", 3_000_001, 7)?;
    let slow = ["-c", "--bwlimit", "300K", "file", "to/copy"];
    let held = here.path("to/.copy.gridftp-held");
    kill_midway(&here, &slow, &here.path("to"), || held.exists())?;
    here.file("file", 3_000_001, 8)?;
    let said = cp_in(&here, &["-c", "file", "to/copy"])?.ok()?;
    let anew = "to/copy: begun anew: the source is not the one";
    ensure!(said.stderr.contains(anew), "{}", said.report());
    ensure!(!said.stderr.contains("continuing"), "{}", said.report());
    same_file(&here.path("file"), &here.path("to/copy"))?;
    let names = here.names("to")?;
    ensure!(names == ["copy"], "{names:?}");
    Ok(())
}

#[test]
fn a_dry_run_tells_what_a_copy_would_do() -> Result<()> {
    let here = Tree::new()?;
    here.file("tree/a", 10, 1)?;
    here.file("tree/sub/b", 2_000, 2)?;
    here.file("to/old", 10, 1)?;
    let all = ["-r", "--sync", "--delete", "--dry-run", "tree/", "to"];
    let said = cp_in(&here, &all)?.ok()?.stdout;
    let (lines, end) = said.trim_end().rsplit_once('\n').context("no line")?;
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    let wanted = [
        "delete to/old",
        "make directory to/sub",
        "tree/a -> to/a (10 B)",
        "tree/sub/b -> to/sub/b (1.95 KiB)",
    ];
    ensure!(lines == wanted, "{said}");
    ensure!(end.ends_with(", 2 would be copied"), "{end}");
    ensure!(here.names("to")? == ["old"], "something was written");
    Ok(())
}

#[test]
fn what_cannot_be_read_or_written_is_told() -> Result<()> {
    let here = Tree::new()?;
    here.file("tree/good", 100_001, 1)?;
    here.file("tree/clash", 10, 2)?;
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        here.path("tree/fifo"),
        rustix::fs::Mode::RWXU,
    )?;
    here.dir("to/clash")?;
    here.file("tree/dir/file", 10, 3)?;
    here.file("to/dir", 10, 4)?;
    for flags in [&["-r", "--dry-run"][..], &["-r"]] {
        let finished = cp_in(&here, &[flags, &["tree/", "to"]].concat())?;
        let needles = [
            "tree/fifo: neither a file nor",
            "create to/clash: ",
            "tree/dir/file: failed: local: make directory to/dir: ",
        ];
        fails(&finished, 1, &needles)?;
    }
    same_file(&here.path("tree/good"), &here.path("to/good"))?;
    fails(
        &cp_in(&here, &["none", "to"])?,
        1,
        &["read none: No such file"],
    )?;
    let names = here.names("to")?;
    ensure!(names == ["dir", "good"], "{names:?}");
    Ok(())
}

#[test]
fn a_full_disk_and_a_private_file_are_told() -> Result<()> {
    if !is_root() {
        skip("cli", "only root may mount");
        return Ok(());
    }
    let here = Tree::new()?;
    here.file("file", 3_000_000, 1)?;
    here.file("tree/secret", 10, 1)?;
    here.dir("small")?;
    dress(&here.path("tree/secret"), 0o600, 1)?;
    let program = binary("gridftp-cp")?;
    let script = "mount -t tmpfs -o size=1M none small || exit 9; \
                  \"$0\" file small/file; told=$?; ls -A small; \"$0\" --no-verify file small; \
                  ls -A small; exit $told";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(&program);
    let finished = run(command.current_dir(here.root()), LIMIT)?;
    fails(&finished, 1, &["small/file: no space left"])?;
    ensure!(
        finished
            .stdout
            .lines()
            .all(|line| line.starts_with("0 files")),
        "{}",
        finished.report()
    );
    let mut other = self::command(&here, &["-r", "tree", "/tmp/nowhere", "to"])?;
    let finished = run(other.uid(65_534).gid(65_534), LIMIT)?;
    fails(&finished, 1, &["tree/secret: permission denied"])
}

#[test]
fn something_in_order_is_copied_once() -> Result<()> {
    let here = Tree::new()?;
    let file = here.file("file", 3_000_001, 1)?;
    here.dir("to")?;
    for flags in [
        &[][..],
        &["--no-verify"],
        &["--verify=sha256", "--preserve"],
    ] {
        let args = [flags, &["/dev/stdin", "to/copy"]].concat();
        let mut cat = Command::new("cat")
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()?;
        let pipe = cat.stdout.take().context("no pipe")?;
        run_with_input(&mut command(&here, &args)?, pipe.into(), LIMIT)?.ok()?;
        cat.wait()?;
        same_file(&file, &here.path("to/copy"))?;
        // It says that it is empty.
        cp_in(&here, &[flags, &["/proc/version", "to"]].concat())?.ok()?;
        same_file(Path::new("/proc/version"), &here.path("to/version"))?;
        cp_in(&here, &[flags, &["file", "/dev/null"]].concat())?.ok()?;
    }
    let fifo = here.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, fifo, rustix::fs::Mode::RWXU)?;
    let itself = cp_in(&here, &["fifo", "./fifo"])?;
    fails(&itself, 1, &["fifo: is the destination itself"])?;
    let stdin = Stdio::piped();
    let to_dir = run_with_input(&mut command(&here, &["/dev/stdin", "to"])?, stdin, LIMIT)?;
    fails(&to_dir, 2, &["a pipe has no name of its own"])?;
    Ok(())
}

#[test]
fn standard_input_and_output_need_no_server() -> Result<()> {
    let here = Tree::new()?;
    let text = here.path("text");
    fs::write(&text, "some words\n")?;
    // A file of that name is another.
    fs::write(here.path("-"), "none of it")?;
    // What is read of the input already is not read again.
    let mut input = File::open(&text)?;
    input.seek(SeekFrom::Start(5))?;
    let mut reads = command(&here, &["-", "./-"])?;
    run_with_input(&mut reads, input.into(), LIMIT)?.ok()?;
    ensure!(fs::read(here.path("-"))? == b"words\n");
    let told = cp_in(&here, &["text", "-"])?.ok()?;
    ensure!(told.stdout == "some words\n", "{}", told.report());
    ensure!(!told.stderr.contains("digest"), "{}", told.report());
    let told = cp_in(&here, &["--offset", "5", "--length", "3", "text", "-"])?.ok()?;
    ensure!(told.stdout == "wor", "{}", told.report());
    for (words, status, needle) in [
        (&["-", "-"][..], 2, "standard output the destination"),
        (
            &["--verify=sha256", "text", "-"],
            2,
            "digest of standard output",
        ),
        (&["-", "."], 2, "a pipe has no name of its own"),
        (&["none", "-"], 1, "none"),
        (&["--offset", "12", "text", "-"], 2, "--offset 12 is beyond"),
    ] {
        fails(&cp_in(&here, words)?, status, &[needle])?;
    }
    // It would have no end.
    let end = File::options().append(true).open(&text)?;
    let mut appends = command(&here, &["--length", "99", "text", "-"])?;
    let said = appends.stdout(end).stderr(Stdio::piped()).output()?;
    let told = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.code() == Some(1), "{told}");
    ensure!(
        told.contains("is standard output itself; write to another file"),
        "{told}"
    );
    ensure!(fs::read(&text)? == b"some words\n");
    Ok(())
}

#[test]
fn a_part_of_something_in_order_begins_at_its_offset() -> Result<()> {
    let here = Tree::new()?;
    let whole = fs::read("/proc/version")?;
    for length in [None, Some(7)] {
        fs::write(here.path("to"), [b'x'; 5])?;
        let length = length.map(|n: usize| n.to_string());
        let flags: Vec<_> = length.iter().flat_map(|n| ["--length", n]).collect();
        let part = ["--offset", "5", "/proc/version", "to"];
        cp_in(&here, &[&flags[..], &part].concat())?.ok()?;
        let end = if length.is_some() { 12 } else { whole.len() };
        ensure!(fs::read(here.path("to"))? == [b"xxxxx", &whole[5..end]].concat());
    }
    let fifo = here.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, fifo, rustix::fs::Mode::RWXU)?;
    let refused = cp_in(&here, &["--offset", "5", "fifo", "new"])?;
    fails(&refused, 1, &["fifo: it has no offsets"])?;
    ensure!(!here.path("new").exists(), "it was made");
    Ok(())
}

#[test]
fn a_file_goes_into_a_fifo() -> Result<()> {
    let here = Tree::new()?;
    let file = here.sparse("file", 3 << 20, 1)?;
    let fifo = here.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU)?;
    let reader = std::thread::spawn(move || fs::read(fifo));
    cp_in(&here, &["file", "fifo"])?.ok()?;
    let got = reader.join().expect("it reads")?;
    ensure!(got == fs::read(file)?, "{} bytes came", got.len());
    Ok(())
}

#[test]
fn sources_of_both_kinds_go_to_one_directory() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("far", 300_001, 1)?;
    bed.here.file("near", 300_002, 2)?;
    bed.cp(&["near", &bed.url("far"), "to/"])?.ok()?;
    bed.same("to/far", "far")?;
    same_file(&bed.here.path("near"), &bed.here.path("to/near"))?;
    let twice = bed.cp(&["near", &bed.url("far"), "./near", "to/"])?;
    fails(&twice, 1, &["another source is copied to to/near already"])
}

#[test]
fn a_file_that_is_there_is_kept_where_that_is_asked() -> Result<()> {
    let here = Tree::new()?;
    here.file("tree/a", 300_001, 1)?;
    let old = fs::read(here.file("to/a", 300_001, 2)?)?;
    let said = cp_in(&here, &["-r", "-n", "-v", "tree/", "to"])?.ok()?;
    ensure!(said.stdout.contains("it exists"), "{}", said.report());
    ensure!(fs::read(here.path("to/a"))? == old);
    cp_in(&here, &["-r", "tree/", "to"])?.ok()?;
    same_file(&here.path("tree/a"), &here.path("to/a"))
}

#[test]
fn the_library_copies_between_local_paths() -> Result<()> {
    let here = Tree::new()?;
    here.file("tree/a", 300_001, 3)?;
    let place = |name: &str| Location::parse(&here.path(name).display().to_string());
    let (observer, totals) = (Arc::new(Silent::default()), Arc::new(Totals::default()));
    let options = CopyOptions::default().recursive(true);
    let summary = blocking::copy(&[place("tree/")?], &place("to")?, options, observer, totals)?;
    ensure!(summary.counts.files_done == 1 && summary.failed.is_none());
    same_tree(&here.path("tree"), &here.path("to"))
}

/// The program of the Toolkit cuts a file that is its own destination off; ours refuses it.
#[test]
fn the_manner_of_globus_url_copy_is_that_of_the_real_program() -> Result<()> {
    let results = |own: bool| -> Result<Option<(Tree, Vec<String>)>> {
        let here = Tree::new()?;
        here.file("dir/a", 30_001, 3)?;
        here.file("dir/sub/b c", 5, 4)?;
        here.file("one", 0, 5)?;
        let url = |name: &str| file_url(&here.path(name)).replace(' ', "%20");
        let pairs = [["dir/a", "listed/x"], ["dir/sub/b c", "listed/y z"]];
        let lines = pairs.map(|[from, to]| format!("{} {}\n", url(from), url(to)));
        fs::write(here.path("pairs"), lines.concat())?;
        let mut told = Vec::new();
        for words in [
            &["-v", "-cd", &url("dir/a"), &url("new/a")][..],
            &["-vb", &url("one"), &url("two")],
            &[&url("dir/a"), &url("new/")],
            &["-cd", "-r", &url("dir/"), &url("tree/")],
            &["-cd", "-f", "pairs"],
            &["-sync", &url("dir/a"), &url("new/a")],
            &["-off", "5", "-len", "10", &url("dir/a"), &url("part")],
            &[&url("none"), &url("gone")],
            &["-c", "-v", &url("none"), &url("gone")],
        ] {
            let mut program = match own {
                true => {
                    let mut ours = command(&here, &["--globus"])?;
                    ours.args(words);
                    ours
                }
                false => match Peer::GlobusUrlCopy.require("cli") {
                    Some(mut theirs) => {
                        theirs.current_dir(here.root()).args(words);
                        theirs
                    }
                    None => return Ok(None),
                },
            };
            let done = run(&mut program, LIMIT)?;
            let root = here.root().display().to_string();
            let status = format!("{:?} {:?}\n", done.status.code(), words);
            told.push([status, done.stdout].concat().replace(&root, ""));
        }
        Ok(Some((here, told)))
    };
    let (Some(theirs), Some(ours)) = (results(false)?, results(true)?) else {
        return Ok(());
    };
    ensure!(ours.1 == theirs.1, "{:#?}\n{:#?}", ours.1, theirs.1);
    for made in ["new", "tree", "listed"] {
        same_tree(&ours.0.path(made), &theirs.0.path(made))?;
    }
    for made in ["two", "part"] {
        same_file(&ours.0.path(made), &theirs.0.path(made))?;
    }
    let (here, file) = (&ours.0, file_url(&ours.0.path("dir/a")));
    let itself = cp_in(here, &["--globus", &file, &file])?;
    fails(&itself, 1, &["is the destination itself"])?;
    ensure!(fs::metadata(here.path("dir/a"))?.len() == 30_001);
    Ok(())
}

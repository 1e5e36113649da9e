//! Copies over stacks of data connections, and through layers over the server's files.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use workspace_tests::{Break, Host, Relay, Tree, binary, run, same_file};
use xio_testkit::Authority;

use crate::{Bed, fails};

const NET: &[&str] = &["--net-stacks", "tcp,udt,count,compress,rate"];
const DISK: &[&str] = &["--disk-stacks", "file,count,compress"];

/// Stacks of data connections.
const STACKS: &[&str] = &[
    "tcp,count",
    "tcp:nodelay=1;sndbuf=256K,compress:codec=zlib;level=1,count",
    "tcp,compress:codec=lz4;block=16K",
    "tcp,compress:strategy=auto",
    "tcp,rate:rate=100M",
    "udt",
    "udt,compress:codec=zlib",
];

pub(crate) fn bed(flags: &[&str]) -> Result<Bed> {
    let (here, there) = (Tree::new()?, Tree::new()?);
    let server = Host::ours_with(there.root(), flags)?;
    Ok(Bed {
        here,
        there,
        server,
    })
}

#[test]
fn a_file_of_the_server_is_an_end_of_xio_perf() -> Result<()> {
    let bed = bed(&[])?;
    bed.here.file("one", 2_000_003, 9)?;
    let perf = |stack: &str, file: &str, more: &[&str]| -> Result<()> {
        let mut command = Command::new(binary("xio-perf")?);
        command.args(["run", "--stack", stack, "--connect", &bed.url("there")]);
        command.arg("--file").arg(bed.here.path(file)).args(more);
        run(&mut command, Duration::from_secs(60))?.ok().map(drop)
    };
    perf("gridftp:flags=w", "one", &[])?;
    bed.same("one", "there")?;
    perf("gridftp:mode=E;streams=2", "back", &["--reverse"])?;
    bed.same("back", "there")
}

#[test]
fn files_and_trees_are_copied_over_every_stack() -> Result<()> {
    let bed = bed(NET)?;
    bed.here.file("one", 3_000_001, 7)?;
    for n in 0..40 {
        bed.here
            .file(&format!("tree/sub{}/f{n}", n % 3), n * 997, n)?;
    }
    bed.here.file("tree/empty", 0, 1)?;
    for stack in STACKS {
        for mode in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "4"]] {
            let flags = [&["-q", "--stack", stack], mode].concat();
            let cp = |more: &[&str]| bed.cp(&[&flags, more].concat());
            cp(&["one", &bed.url("up")])?.ok()?;
            bed.same("one", "up")?;
            cp(&[&bed.url("up"), "down"])?.ok()?;
            bed.same("down", "up")?;
            cp(&["-r", "tree/", &bed.url("trees/")])?.ok()?;
            cp(&["-r", &bed.url("trees/"), "back/"])?.ok()?;
            let names = bed.here.names("tree")?;
            anyhow::ensure!(bed.here.names("back")? == names, "{stack} {mode:?}");
            for name in ["sub1/f37", "empty"] {
                bed.same(&format!("back/{name}"), &format!("trees/{name}"))?;
                bed.same(&format!("tree/{name}"), &format!("trees/{name}"))?;
            }
            fs::remove_dir_all(bed.there.path("trees"))?;
            fs::remove_dir_all(bed.here.path("back"))?;
        }
    }
    Ok(())
}

#[test]
fn third_party_copies_use_the_stack() -> Result<()> {
    let (one, other) = (bed(NET)?, bed(NET)?);
    one.there.file("f", 2_000_003, 5)?;
    for mode in ["stream", "extended"] {
        let stack = "tcp,compress:codec=zlib";
        let to = other.url(mode);
        one.cp(&["-q", "--stack", stack, "--mode", mode, &one.url("f"), &to])?
            .ok()?;
        anyhow::ensure!(fs::read(one.there.path("f"))? == fs::read(other.there.path(mode))?);
    }
    Ok(())
}

/// The layer keeps to a rate while the servers see their connections idle.
#[test]
fn servers_tell_where_the_time_between_them_went() -> Result<()> {
    let (one, other) = (bed(NET)?, bed(NET)?);
    one.there.file("f", 4 << 20, 5)?;
    let stack = ["--explain", "--json", "--stack", "tcp,rate:rate=2M"];
    let ends = [&one.url("f")[..], &other.url("f")];
    let told = one.cp(&[&stack[..], &ends].concat())?.ok()?.stdout;
    let end: serde_json::Value = serde_json::from_str(told.lines().last().unwrap_or_default())?;
    let shares = end["shares"].as_object().context("no shares")?;
    let sum: f64 = shares.values().filter_map(|share| share.as_f64()).sum();
    anyhow::ensure!((sum - 1.0).abs() < 1e-6, "{end}");
    let moving = 1.0
        - shares
            .get("idle")
            .and_then(|idle| idle.as_f64())
            .unwrap_or(0.0);
    anyhow::ensure!(moving > 0.5, "{end}");
    Ok(())
}

/// The listening end must take part in the handshake before its transfer command arrives.
#[test]
fn handshakes_complete_with_either_end_listening() -> Result<()> {
    let keys = Tree::new()?;
    let authority = Authority::new("authority of the test");
    let ca = authority.write(keys.root());
    let host = authority.issue("host", &["127.0.0.1"]);
    let host = host.write(keys.root(), "host");
    let tls = format!("tcp,tls:ca={};cert={}", ca.display(), host.display());
    let (one, other) = (bed(&["--net-stacks", &tls])?, bed(&["--net-stacks", &tls])?);
    one.here.file("f", 3_000_003, 5)?;
    for mode in [
        &["--mode", "stream"][..],
        &["--mode", "extended", "-p", "4"],
    ] {
        let cp = |from: &str, to: &str| {
            let flags = ["-q", "--retries", "0", "--stack", &tls];
            one.cp(&[&flags, mode, &[from, to]].concat())?.ok()
        };
        cp("f", &one.url("up"))?;
        cp(&one.url("up"), &other.url("over"))?;
        cp(&other.url("over"), "back")?;
        one.same("f", "up")?;
        one.same("back", "up")?;
        same_file(&other.there.path("over"), &one.here.path("f"))?;
    }
    Ok(())
}

#[test]
fn stacks_that_the_server_does_not_allow_are_an_error() -> Result<()> {
    let bed = Bed::new()?;
    bed.there.file("f", 1000, 1)?;
    let from = bed.url("f");
    let finished = bed.cp(&["--stack", "tcp,count", &from, "copy"])?;
    fails(
        &finished,
        1,
        &["stack tcp,count", "not whitelisted", "net-stacks"],
    )?;
    anyhow::ensure!(!bed.here.path("copy").exists());
    let finished = bed.cp(&["--disk-stack", "file,count", &from, "copy"])?;
    anyhow::ensure!(!finished.status.success() && finished.stderr.contains("disk-stacks"));
    // An invalid string is no matter of permission.
    let finished = bed.cp(&["--disk-stack", "file:flags=w", &from, "copy"])?;
    fails(&finished, 1, &["stack file:flags=w", "no option `flags`"])?;
    anyhow::ensure!(!finished.stderr.contains("allow"), "{}", finished.report());
    let finished = bed.cp(&["--stack", "tcp,nonsense", &from, "copy"])?;
    fails(&finished, 2, &["nonsense"])?;
    // Options of the local end are not sent, so they need no permission.
    bed.cp(&["-q", "--stack", "tcp:nodelay=1;sndbuf=1M", &from, "copy"])?
        .ok()?;
    bed.same("copy", "f")
}

#[test]
fn layers_over_the_servers_files_round_trip() -> Result<()> {
    let bed = bed(DISK)?;
    let text: Vec<u8> = b"the same words again and again, ".repeat(60_000);
    fs::create_dir(bed.here.path("tree"))?;
    fs::write(bed.here.path("tree/text"), &text)?;
    fs::write(bed.here.path("tree/empty"), b"")?;
    bed.here.file("tree/noise", 400_000, 9)?;
    let layers = ["-q", "--disk-stack", "file,compress:codec=zlib"];
    for mode in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "4"]] {
        let cp = |more: &[&str]| bed.cp(&[&layers[..], mode, more].concat());
        cp(&["-r", "tree/", &bed.url("packed/")])?.ok()?;
        let packed = fs::metadata(bed.there.path("packed/text"))?.len();
        anyhow::ensure!(packed > 0 && packed < 100_000, "{packed} bytes, {mode:?}");
        cp(&["-r", &bed.url("packed/"), "back/"])?.ok()?;
        for name in ["text", "empty", "noise"] {
            let (sent, got) = (format!("tree/{name}"), format!("back/{name}"));
            let same = fs::read(bed.here.path(&sent))? == fs::read(bed.here.path(&got))?;
            anyhow::ensure!(same, "{name} {mode:?}");
        }
        // Without the layers the stored bytes are copied.
        bed.cp(&["-q", &bed.url("packed/text"), "raw"])?.ok()?;
        bed.same("raw", "packed/text")?;
        fs::remove_dir_all(bed.there.path("packed"))?;
        fs::remove_dir_all(bed.here.path("back"))?;
    }
    Ok(())
}

#[test]
fn a_file_without_the_layers_format_is_an_error() -> Result<()> {
    let bed = bed(DISK)?;
    bed.there.file("plain", 100_000, 3)?;
    let layers = ["--disk-stack", "file,compress:codec=zlib", "--retries", "0"];
    let from = bed.url("plain");
    let finished = bed.cp(&[&layers[..], &[&from, "copy"]].concat())?;
    anyhow::ensure!(!finished.status.success(), "{}", finished.report());
    anyhow::ensure!(
        finished.stderr.contains("compress"),
        "{}",
        finished.report()
    );
    anyhow::ensure!(!bed.here.path("copy").exists());
    Ok(())
}

#[test]
fn a_file_without_the_layers_format_is_not_retried() -> Result<()> {
    let bed = bed(DISK)?;
    bed.there.file("plain", 100_000, 3)?;
    for mode in ["stream", "extended"] {
        let flags = [
            "--retries",
            "0",
            "--mode",
            mode,
            "--disk-stack",
            "file,compress",
        ];
        let done = bed.cp(&[&flags[..], &[&bed.url("plain"), "back"]].concat())?;
        fails(&done, 1, &["not the bytes of this layer"])?;
        anyhow::ensure!(!done.stderr.contains("try again"), "{}", done.report());
        anyhow::ensure!(done.took < Duration::from_secs(4), "{}", done.report());
        anyhow::ensure!(!bed.here.path("back").exists(), "{}", done.report());
    }
    Ok(())
}

/// A changed byte fails the checksum of its block; earlier blocks are kept.
#[test]
fn a_damaged_compressed_block_is_found_and_sent_again() -> Result<()> {
    const SIZE: u64 = 24_000_001;
    let stack = ["--stack", "tcp,compress:codec=zlib", "--retries", "2"];
    for mode in [&["--mode", "stream"][..], &["-p", "1"], &["-p", "3"]] {
        let bed = bed(NET)?;
        bed.here.file("file", SIZE, 3)?;
        bed.there.file("there", SIZE, 4)?;
        for down in [false, true] {
            let plan = Break::Flip { after: SIZE / 2 };
            let relay = Relay::start(bed.server.addr(), plan)?;
            let url = |name| bed.server.url_at(relay.addr(), name);
            let (from, to) = match down {
                false => ("file".to_owned(), url("file")),
                true => (url("there"), "there".to_owned()),
            };
            let copied = bed.cp(&[&stack[..], mode, &[&from, &to]].concat())?.ok()?;
            anyhow::ensure!(relay.broke(), "no bit was flipped");
            let name = if down { "there" } else { "file" };
            bed.same(name, name)?;
            anyhow::ensure!(
                relay.passed() < SIZE * 7 / 4,
                "{} bytes passed for {SIZE}: {}",
                relay.passed(),
                copied.report()
            );
        }
    }
    Ok(())
}

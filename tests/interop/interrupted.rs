//! Failed system calls on files: interrupted ones (`EINTR`) are repeated, and a failed sync of
//! `--sync-writes` fails the copy.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use workspace_tests::{Host, Peer, Tree, binary, file_url, run, same_file, sha256};

use crate::bed::LIMIT;

/// Calls that transfer or store the content of a file; every second one of a thread fails.
const CALLS: &str = "preadv2,pwrite64,pwritev,pwritev2,copy_file_range,fsync,fdatasync,ftruncate,\
                     sendfile,splice";

/// Returns a command for `program` under strace, which writes the interrupted calls to `log`.
fn interrupted(program: &str, log: &Path) -> Result<Option<Command>> {
    let Some(mut strace) = Peer::Strace.require("interop: interrupted system calls") else {
        return Ok(None);
    };
    strace
        .args(["--follow-forks", "--quiet=all", "--output"])
        .arg(log);
    strace.args(["-e", &format!("trace={CALLS},pread64")]);
    strace.args(["-e", &format!("inject={CALLS}:error=EINTR:when=1+2")]);
    // The dynamic loader uses the first calls, and fails on EINTR.
    strace.args(["-e", "inject=pread64:error=EINTR:when=9+2"]);
    strace.arg(binary(program)?);
    Ok(Some(strace))
}

#[test]
fn an_interrupted_system_call_is_repeated() -> Result<()> {
    let (remote, local) = (Tree::new()?, Tree::new()?);
    let logs = Tree::new()?;
    let at_server = logs.path("server");
    let Some(mut server) = interrupted("gridftp-server", &at_server)? else {
        return Ok(());
    };
    server.args([
        "--bind",
        "127.0.0.1",
        "--port",
        "0",
        "--anonymous",
        "rw",
        "--sync-writes",
    ]);
    let host = Host::ours_from(server.arg("--root").arg(remote.root()), remote.root())?;
    local.file("file", 12_000_001, 53)?;
    let whole = sha256(&local.path("file"))?;
    // Without digests the kernel moves the bytes of MODE S.
    for (name, flags) in [
        ("stream", &["--mode", "stream"][..]),
        ("kernel", &["--mode", "stream", "--no-verify"]),
        ("extended", &["--mode", "extended"]),
    ] {
        let up = [file_url(&local.path("file")), host.url("stored")];
        let down = [host.url("stored"), file_url(&local.path("back"))];
        for (way, urls, written) in [
            ("up", up, remote.path("stored")),
            ("down", down, local.path("back")),
        ] {
            let log = logs.path(&format!("{name}-{way}"));
            let Some(mut client) = interrupted("gridftp-cp", &log)? else {
                return Ok(());
            };
            // A retry could hide a failed call.
            client.args(flags).args(["--retries", "0"]).args(urls);
            run(&mut client, LIMIT)?.ok()?;
            ensure!(
                sha256(&written)? == whole,
                "{name}, {way}: the content differs"
            );
            let calls = fs::read_to_string(&log)?;
            ensure!(
                calls.contains("INJECTED"),
                "no call of the client failed:\n{calls}"
            );
            fs::remove_file(written)?;
            if way == "up" {
                fs::copy(local.path("file"), remote.path("stored"))?;
            }
        }
    }
    let calls = fs::read_to_string(at_server)?;
    for call in ["fsync", "splice"] {
        let failed = calls
            .lines()
            .any(|line| line.contains(call) && line.contains("INJECTED"));
        ensure!(failed, "no {call} of the server failed:\n{calls}");
    }
    Ok(())
}

#[test]
fn a_download_whose_sync_fails_is_not_published() -> Result<()> {
    let (remote, local) = (Tree::new()?, Tree::new()?);
    remote.file("file", 3_000_001, 54)?;
    let host = Host::ours(remote.root())?;
    let to = local.path("copy");
    for (flags, is_synced) in [(&[][..], false), (&["--sync-writes"][..], true)] {
        let Some(mut strace) = Peer::Strace.require("interop: failing syncs") else {
            return Ok(());
        };
        strace.args(["--follow-forks", "--quiet=all", "--output=/dev/null"]);
        strace.args(["-e", "trace=fsync", "-e", "inject=fsync:error=EIO"]);
        strace.arg(binary("gridftp-cp")?);
        strace.args(["--retries", "0", "--no-resume"]).args(flags);
        let copied = run(strace.args([host.url("file"), file_url(&to)]), LIMIT)?;
        ensure!(
            copied.status.success() != is_synced && to.exists() != is_synced,
            "{flags:?}: {}",
            copied.report()
        );
        if is_synced {
            ensure!(
                copied.stderr.contains("Input/output error"),
                "{}",
                copied.report()
            );
        } else {
            fs::remove_file(&to)?;
        }
    }
    Ok(())
}

#[test]
fn an_upload_that_a_server_may_not_sync_is_told() -> Result<()> {
    let (remote, local) = (Tree::new()?, Tree::new()?);
    let file = local.file("file", 1000, 55)?;
    for (flags, syncs) in [(&[][..], false), (&["--sync-writes"][..], true)] {
        let host = Host::ours_with(remote.root(), flags)?;
        let mut upload = Command::new(binary("gridftp-cp")?);
        upload.arg("--sync-writes").arg(&file).arg(host.url("copy"));
        let copied = run(&mut upload, LIMIT)?.ok()?;
        let is_told = copied.stderr.contains("DURABLE");
        ensure!(is_told != syncs, "{flags:?}: {}", copied.report());
    }
    Ok(())
}

/// The digest of a download is of the bytes that were synced and dropped from memory, small ones too.
#[test]
fn a_download_is_read_back_from_the_medium() -> Result<()> {
    for size in [1000, 3_000_001] {
        let (remote, local, log) = (Tree::new()?, Tree::new()?, Tree::new()?);
        let source = remote.file("file", size, 56)?;
        let host = Host::ours_with(remote.root(), &["--sync-writes"])?;
        let Some(mut strace) = Peer::Strace.require("interop: verified on the medium") else {
            return Ok(());
        };
        let calls = log.path("calls");
        strace
            .args(["--follow-forks", "--quiet=all", "--output"])
            .arg(&calls);
        strace.args(["-e", "trace=fsync,fadvise64,renameat,renameat2,linkat"]);
        strace.arg(binary("gridftp-cp")?);
        let copy = local.path("copy");
        strace.args(["--verify=disk", &host.url("file"), &file_url(&copy)]);
        run(&mut strace, LIMIT)?.ok()?;
        same_file(&source, &copy)?;
        let calls = fs::read_to_string(&calls)?;
        let at = |call: &str| {
            calls
                .find(call)
                .with_context(|| format!("no {call}: {calls}"))
        };
        let (synced, dropped) = (at("fsync(")?, at("POSIX_FADV_DONTNEED")?);
        let named = calls.rfind("renameat").or_else(|| calls.rfind("linkat"));
        ensure!(
            synced < dropped && named.is_some_and(|named| dropped < named),
            "{calls}"
        );
        let back = run(
            Command::new(binary("gridftp-cp")?).args([
                "--verify=disk",
                &file_url(&copy),
                &host.url("back"),
            ]),
            LIMIT,
        )?;
        back.ok()?;
        same_file(&remote.path("back"), &copy)?;
    }
    Ok(())
}

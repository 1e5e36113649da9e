//! The conformance suite, and retrievals by programs that the tests write.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails like the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use gridftp_dsi::{Create, Dsi, DsiPath, ErrorKind, Finish, Memory, Sink, Staging, User};
use gridftp_dsi_staged::{Hooks, Staged};
use tempfile::TempDir;

/// Longest wait for a program of a test, which a loaded machine may need.
const PATIENCE: Duration = Duration::from_secs(60);

/// Programs in a folder of their own, `$D` in their text.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        let folder = self.0.path().display();
        let script = format!("#!/bin/sh\nPATH=/usr/bin:/bin\nD={folder}\n{text}\n");
        // Written by another process: a child that a parallel test forks would inherit our
        // descriptor, and the program could not be started meanwhile (ETXTBSY).
        let text = path.with_extension("text");
        fs::write(&text, script).unwrap();
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
        let copied = Command::new("cp").args([&text, &path]).status().unwrap();
        assert!(copied.success());
        path
    }

    /// A file is at hand once `$D/here` exists.
    fn hooks(&self, recall: &str) -> Hooks {
        let status = self.program("status", "test -e $D/here");
        Hooks::new(status, self.program("recall", recall))
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap_or_default()
    }

    fn allow(&self, name: &str) {
        fs::write(self.0.path().join(name), "").unwrap();
    }
}

fn ann() -> User {
    User::new("ann", DsiPath::root(), true)
}

fn path() -> DsiPath {
    DsiPath::new(b"/a file; rm -rf $HOME").unwrap()
}

/// A storage with one file of that name.
async fn storage(hooks: Hooks) -> Staged<Memory> {
    let memory = Memory::new();
    let how = Create::Whole { size: None };
    let sink = memory.write(&ann(), &path(), how).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"text")).await.unwrap();
    sink.finish(Finish::whole(4)).await.unwrap();
    Staged::new(memory, hooks)
}

#[tokio::test]
async fn it_conforms_with_all_files_at_hand() {
    let bench = Bench::new();
    bench.allow("here");
    let report =
        xio_testkit::dsi_suite::run(&Staged::new(Memory::new(), bench.hooks("false"))).await;
    assert!(report.passed.len() > 20, "{report:?}");
}

#[tokio::test]
async fn a_file_is_retrieved_once_for_a_task() {
    let bench = Bench::new();
    let hooks = bench.hooks(
        "echo \"$#:$1\" >> $D/calls; env | grep -v -e PWD -e SHLVL -e _= -e PATH | sort >> $D/calls\n\
         while ! test -e $D/tape; do sleep 0.05; done; touch $D/here",
    );
    let storage = storage(hooks).await;
    let staged = storage.stat(&ann(), &path()).await.unwrap().staged;
    assert_eq!(staged, Some(false));
    for _ in 0..3 {
        let staging = storage.stage(&ann(), &path(), "t1", Duration::ZERO).await;
        assert_eq!(staging.unwrap(), Staging::Retrieving);
    }
    bench.allow("tape");
    let staging = storage.stage(&ann(), &path(), "t1", PATIENCE).await;
    assert_eq!(staging.unwrap(), Staging::Here);
    // The name is one argument, and nothing of this process's environment is there.
    let calls = "1:/a file; rm -rf $HOME\nSTAGE_TASK=t1\nSTAGE_USER=ann\n";
    assert_eq!(bench.text("calls"), calls);
    let staged = storage.stat(&ann(), &path()).await.unwrap().staged;
    assert_eq!(staged, Some(true));
}

#[tokio::test]
async fn facts_asked_for_again_run_no_program_again() {
    let bench = Bench::new();
    let status = bench.program("status", "echo >> $D/looks; test -e $D/here");
    let hooks = Hooks::new(status, bench.program("recall", "touch $D/here"));
    let storage = storage(hooks).await;
    // They may be asked for in two moments on a slow machine.
    for _ in 0..50 {
        let staged = storage.stat(&ann(), &path()).await.unwrap().staged;
        assert_eq!(staged, Some(false));
    }
    let looks = bench.text("looks").len();
    assert!(looks < 25, "{looks} runs for 50 looks");
    // A retrieval is seen at once.
    let staging = storage.stage(&ann(), &path(), "t", PATIENCE).await;
    assert_eq!(staging.unwrap(), Staging::Here);
    let staged = storage.stat(&ann(), &path()).await.unwrap().staged;
    assert_eq!(staged, Some(true));
}

#[tokio::test]
async fn reading_waits_for_the_retrieval_of_any_task() {
    let bench = Bench::new();
    let hooks = bench
        .hooks("echo >> $D/calls; while ! test -e $D/tape; do sleep 0.05; done; touch $D/here");
    let storage = storage(hooks).await;
    let begun = storage.stage(&ann(), &path(), "t1", Duration::ZERO).await;
    assert_eq!(begun.unwrap(), Staging::Retrieving);
    let reading = async {
        let (ann, path) = (ann(), path());
        tokio::time::timeout(PATIENCE, storage.read(&ann, &path)).await
    };
    let (read, ()) = tokio::join!(reading, async { bench.allow("tape") });
    read.unwrap().unwrap();
    assert_eq!(bench.text("calls"), "\n");
}

#[tokio::test]
async fn a_wait_is_bounded_and_the_retrieval_goes_on() {
    let bench = Bench::new();
    let mut hooks = bench.hooks("while ! test -e $D/tape; do sleep 0.05; done; touch $D/here");
    hooks.wait = Duration::from_millis(1);
    let storage = storage(hooks).await;
    let refused = storage.read(&ann(), &path()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(
        why.contains("is being retrieved from the archive..."),
        "{why}"
    );
    bench.allow("tape");
    let staging = storage.stage(&ann(), &path(), "", PATIENCE).await;
    assert_eq!(staging.unwrap(), Staging::Here);
    storage.read(&ann(), &path()).await.unwrap();
}

#[tokio::test]
async fn a_failed_retrieval_is_told_and_begun_anew() {
    let bench = Bench::new();
    let hooks = bench.hooks("echo >> $D/calls; echo 'no drive is free' >&2; exit 3");
    let storage = storage(hooks).await;
    for calls in ["\n", "\n\n"] {
        let failed = storage
            .stage(&ann(), &path(), "t", PATIENCE)
            .await
            .unwrap_err();
        let why = std::error::Error::source(&failed).unwrap().to_string();
        assert!(why.contains("exit status 3: no drive is free"), "{why}");
        assert_eq!(bench.text("calls"), calls);
    }
}

#[tokio::test]
async fn a_retrieval_that_brings_nothing_is_an_error() {
    let bench = Bench::new();
    let storage = storage(bench.hooks("true")).await;
    let failed = storage
        .stage(&ann(), &path(), "t", PATIENCE)
        .await
        .unwrap_err();
    let why = std::error::Error::source(&failed).unwrap().to_string();
    assert!(why.contains("not at hand"), "{why}");
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_with_its_children() {
    let bench = Bench::new();
    let mut hooks = bench.hooks("sleep 1000 & echo $! > $D/child; wait");
    hooks.recall_limit = Duration::from_secs(2);
    let storage = storage(hooks).await;
    let failed = storage
        .stage(&ann(), &path(), "t", PATIENCE)
        .await
        .unwrap_err();
    let why = std::error::Error::source(&failed).unwrap().to_string();
    assert!(why.contains("was killed"), "{why}");
    let child = format!("/proc/{}/stat", bench.text("child").trim());
    let begun = std::time::Instant::now();
    // Nobody waits for it here, so it may stay a zombie.
    while fs::read_to_string(&child).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(begun.elapsed() < PATIENCE, "{child} is left");
        tokio::task::yield_now().await;
    }
}

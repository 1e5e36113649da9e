//! The libudt program at the other end, compiled once from `peer.cpp`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;
use workspace_tests::{Daemon, Peer, run};

/// Compiles the program, or reports that `suite` is skipped.
pub(crate) fn program(suite: &str) -> Option<&'static Path> {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let mut compiler = Peer::Gxx.require(suite)?;
    Peer::LibUdt.require(suite)?;
    let (_, program) = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("peer");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/udt/peer.cpp");
        compiler.args(["-O2", source, "-o"]).arg(&program);
        compiler.args(["-ludt", "-lpthread"]);
        run(&mut compiler, Duration::from_secs(120))
            .and_then(workspace_tests::Finished::ok)
            .unwrap();
        (folder, program)
    });
    Some(program)
}

/// Starts the program with these arguments, and waits until it prints its address.
pub(crate) fn start(program: &Path, words: &[&str]) -> Daemon {
    let address = |line: &str| line.trim().parse::<SocketAddr>().ok();
    Daemon::start(Command::new(program).args(words), address).unwrap()
}

/// Waits until the program has succeeded, and returns its output.
pub(crate) fn finish(mut peer: Daemon) -> String {
    let ended = peer.wait(Duration::from_secs(60));
    assert!(matches!(ended, Ok(true)), "{ended:?}: {}", peer.output());
    peer.output()
}

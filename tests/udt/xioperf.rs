//! Files to and from `globus-xioperf -D udt`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use workspace_tests::{Daemon, globus_xioperf, globus_xioperf_addr, run};
use xio_core::{Incoming as _, Listener as _, Passive as _, Target, Transport as _};
use xio_testkit::Random;

const BYTES: usize = 5_000_000;

fn udt() -> xio_core::DynStack {
    xio::registry().stack("udt").unwrap()
}

fn xioperf(direction: &str, file: &Path) -> Option<Command> {
    let mut command = globus_xioperf("udt: globus-xioperf", "udt")?;
    command.args([direction, "-F"]).arg(file);
    Some(command)
}

#[test]
fn connect_and_send() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bytes");
    let Some(mut command) = xioperf("-R", &file) else {
        return;
    };
    let mut server = Daemon::start(command.arg("-s"), globus_xioperf_addr).unwrap();
    let bytes = Random::new(1).bytes(BYTES);
    crate::block_on(async {
        let mut handle = udt().connect(&Target::from(server.addr())).await.unwrap();
        handle.write_all(&bytes).await.unwrap();
        handle.shutdown().await.unwrap();
    });
    assert!(
        server.wait(Duration::from_secs(30)).unwrap(),
        "{}",
        server.output()
    );
    assert!(
        fs::read(&file).unwrap() == bytes,
        "the received bytes differ"
    );
}

#[test]
fn connect_and_receive() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bytes");
    let Some(mut command) = xioperf("-S", &file) else {
        return;
    };
    let bytes = Random::new(2).bytes(BYTES);
    fs::write(&file, &bytes).unwrap();
    let server = Daemon::start(command.arg("-s"), globus_xioperf_addr).unwrap();
    let mut arrived = Vec::new();
    crate::block_on(async {
        let mut handle = udt().connect(&Target::from(server.addr())).await.unwrap();
        handle.read_to_end(&mut arrived).await.unwrap();
    });
    assert!(
        arrived == bytes,
        "{} bytes arrived of {BYTES}",
        arrived.len()
    );
}

/// Runs `ours` on a connection from `globus-xioperf`; returns false where that is missing.
fn with_client(direction: &str, file: &Path, ours: impl AsyncFnOnce(xio_core::BoxStream)) -> bool {
    let Some(mut command) = xioperf(direction, file) else {
        return false;
    };
    crate::block_on(async {
        let mut listener = udt().listen(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let addr = listener.info().local.unwrap().to_string();
        command.args(["-c", &addr]);
        let client = tokio::task::spawn_blocking(move || {
            run(&mut command, Duration::from_secs(30)).and_then(workspace_tests::Finished::ok)
        });
        let handle = listener.accept().await.unwrap().open().await.unwrap();
        ours(handle).await;
        client.await.unwrap().unwrap();
    });
    true
}

#[test]
fn listen_and_receive() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bytes");
    let bytes = Random::new(3).bytes(BYTES);
    fs::write(&file, &bytes).unwrap();
    with_client("-S", &file, async |mut handle| {
        let mut arrived = Vec::new();
        handle.read_to_end(&mut arrived).await.unwrap();
        assert!(
            arrived == bytes,
            "{} bytes arrived of {BYTES}",
            arrived.len()
        );
    });
}

#[test]
fn listen_and_send() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bytes");
    let bytes = Random::new(4).bytes(BYTES);
    let ran = with_client("-R", &file, async |mut handle| {
        handle.write_all(&bytes).await.unwrap();
        handle.shutdown().await.unwrap();
    });
    assert!(
        !ran || fs::read(&file).unwrap() == bytes,
        "the received bytes differ"
    );
}

//! Layers over a remote file behave as over a local one.

use std::io;

use gridftp_server::Server;
use gridftp_server::config::{Access, Config, Options};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{BoxStream, Target, Transport as _};
use xio_testkit::Random;

use crate::everything;

/// Layers over a local or a remote file.
const LAYERS: [&str; 7] = [
    "",
    ",count",
    ",timeout:all=60",
    ",queue",
    ",verify:block=1K",
    ",compress:codec=zlib;threads=1",
    ",count,compress:codec=stored,rate:rate=1G",
];

/// Options of both transfer modes.
const MODES: [&str; 2] = ["mode=S", "mode=E;streams=3"];

/// Starts a server over a folder in this runtime, and returns the URL of a file.
fn serve(folder: &std::path::Path) -> Target {
    let mut options = Options::default();
    options.bind = Some([127, 0, 0, 1].into());
    options.port = Some(0);
    options.anonymous = Some(Access::Rw);
    let files = gridftp_dsi_posix::Posix::open(folder).unwrap();
    let server = Server::bind(Config::check(&options).unwrap(), files).unwrap();
    let to = format!("ftp://{}/there", server.local_addr());
    tokio::spawn(server.run(std::future::pending(), std::future::pending()));
    to.parse().unwrap()
}

async fn open(stack: &str, to: &Target) -> BoxStream {
    let stack = everything().stack(stack).unwrap();
    stack.connect(to).await.unwrap()
}

async fn write(stack: &str, to: &Target, bytes: &[u8]) {
    let mut handle = open(stack, to).await;
    for part in bytes.chunks(30_011) {
        handle.write_all(part).await.unwrap();
    }
    handle.shutdown().await.unwrap();
    handle.shutdown().await.unwrap();
}

async fn read(stack: &str, to: &Target) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(stack, to).await.read_to_end(&mut bytes).await?;
    Ok(bytes)
}

#[tokio::test]
async fn layers_work_alike_on_local_and_remote_files() {
    let folder = tempfile::tempdir().unwrap();
    let there = serve(folder.path());
    let file = |name: &str| folder.path().join(name);
    let here = Target::file(file("here").to_str().unwrap());
    let bytes = Random::new(77).bytes(500_000);
    for layers in LAYERS {
        write(&format!("file:flags=w{layers}"), &here, &bytes).await;
        let at_rest = std::fs::read(file("here")).unwrap();
        for mode in MODES {
            let label = format!("{mode}{layers}");
            write(&format!("gridftp:flags=w;{mode}{layers}"), &there, &bytes).await;
            let stored = std::fs::read(file("there")).unwrap();
            assert!(stored == at_rest, "{label}: the stored bytes differ");
            let got = read(&format!("gridftp:{mode}{layers}"), &there).await;
            assert!(got.unwrap() == bytes, "{label}: the read bytes differ");
        }
    }
}

#[tokio::test]
async fn a_layer_detects_a_truncated_remote_file() {
    let folder = tempfile::tempdir().unwrap();
    let there = serve(folder.path());
    let bytes = Random::new(78).bytes(500_000);
    for layers in [",verify:block=1K", ",compress:codec=zlib;threads=1"] {
        write(&format!("gridftp:flags=w{layers}"), &there, &bytes).await;
        let file = folder.path().join("there");
        let stored = std::fs::read(&file).unwrap();
        std::fs::write(&file, &stored[..stored.len() / 2]).unwrap();
        for mode in MODES {
            let error = read(&format!("gridftp:{mode}{layers}"), &there).await;
            let error = error.unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::UnexpectedEof,
                "{layers}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_dropped_write_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let there = serve(folder.path());
    for layers in LAYERS {
        for mode in MODES {
            let stack = format!("gridftp:flags=w;{mode}{layers}");
            write(&stack, &there, b"before").await;
            let before = std::fs::read(folder.path().join("there")).unwrap();
            let mut handle = open(&stack, &there).await;
            handle
                .write_all(&Random::new(79).bytes(700_000))
                .await
                .unwrap();
            handle.flush().await.unwrap();
            drop(handle);
            let after = std::fs::read(folder.path().join("there")).unwrap();
            assert!(after == before, "{stack}: the file was replaced");
        }
    }
}

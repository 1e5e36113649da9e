//! The `gridftp` driver against the Globus server: a remote file as a stream, in both modes.

use std::fs;
use std::io::SeekFrom;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};
use workspace_tests::{Host, Tree, same_file, sha256, sha256_range};
use xio_core::{Target, Transport as _};
use xio_gridftp::{Gridftp, GridftpHandle};

/// Options of both transfer modes.
const MODES: [&str; 2] = ["mode=S", "mode=E;streams=4"];

const SIZE: u64 = 5_000_017;

fn block_on<T>(part: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async { tokio::time::timeout(crate::bed::LIMIT, part).await? })
}

async fn open(host: &Host, options: &str, name: &str) -> Result<GridftpHandle> {
    let to: Target = host.url(name).parse()?;
    Ok(Gridftp::new()
        .with_options(options.parse()?)
        .connect(&to)
        .await?)
}

async fn write(host: &Host, options: &str, name: &str, bytes: &[u8]) -> Result<()> {
    let mut handle = open(host, options, name).await?;
    for part in bytes.chunks(100_003) {
        handle.write_all(part).await?;
    }
    Ok(handle.shutdown().await?)
}

/// Runs `part` in each mode with a server over a tree that holds the file `there`.
fn with_globus(part: impl AsyncFn(&Host, &Tree, &str) -> Result<()>) -> Result<()> {
    for mode in MODES {
        let tree = Tree::new()?;
        tree.file("there", SIZE, 5)?;
        let Some(host) = Host::globus(tree.root(), "interop: the gridftp driver")? else {
            return Ok(());
        };
        block_on(part(&host, &tree, mode))
            .with_context(|| format!("{mode}; output of the server: {}", host.output()))?;
    }
    Ok(())
}

#[test]
fn a_file_is_written_and_read_whole() -> Result<()> {
    with_globus(async |host, tree, mode| {
        let bytes = fs::read(tree.path("there"))?;
        write(host, &format!("flags=w;{mode}"), "copy", &bytes).await?;
        same_file(&tree.path("copy"), &tree.path("there"))?;
        let mut handle = open(host, mode, "copy").await?;
        let mut got = Vec::new();
        handle.read_to_end(&mut got).await?;
        fs::write(tree.path("back"), got)?;
        same_file(&tree.path("back"), &tree.path("there"))?;
        write(host, &format!("flags=w;{mode}"), "empty", b"").await?;
        ensure!(fs::read(tree.path("empty"))?.is_empty());
        Ok(())
    })
}

#[test]
fn parts_are_read_and_written_at_their_offsets() -> Result<()> {
    with_globus(async |host, tree, mode| {
        let before = fs::read(tree.path("there"))?;
        let mut handle = open(host, &format!("flags=r+;{mode}"), "there").await?;
        for at in [4_000_000, 17, SIZE - 5_000, 2_000_000] {
            handle.seek(SeekFrom::Start(at)).await?;
            let mut part = Vec::new();
            (&mut handle).take(5_000).read_to_end(&mut part).await?;
            fs::write(tree.path("part"), &part)?;
            let expected = sha256_range(&tree.path("there"), at, 5_000)?;
            ensure!(sha256(&tree.path("part"))? == expected, "{at}");
        }
        handle.seek(SeekFrom::End(-3)).await?;
        handle.write_all(b"tail").await?;
        handle.seek(SeekFrom::Start(100)).await?;
        handle.write_all(b"middle").await?;
        let mut next = [0; 4];
        handle.read_exact(&mut next).await?;
        ensure!(next == before[106..110]);
        handle.shutdown().await?;
        write(host, &format!("flags=a;{mode}"), "there", b"and more").await?;
        let mut expected = before;
        expected.truncate(expected.len() - 3);
        expected.extend_from_slice(b"tailand more");
        expected[100..106].copy_from_slice(b"middle");
        ensure!(fs::read(tree.path("there"))? == expected);
        Ok(())
    })
}

#[test]
fn refusals_are_reported() -> Result<()> {
    with_globus(async |host, _, mode| {
        let error = open(host, mode, "nothing").await.map(drop).unwrap_err();
        ensure!(format!("{error:#}").contains("check the path"), "{error:#}");
        let mut handle = open(host, &format!("flags=w;{mode}"), "no/such/folder").await?;
        // The refusal may come during the write or at its end.
        let written = async {
            handle.write_all(b"x").await?;
            handle.shutdown().await
        };
        let error = written.await.unwrap_err();
        ensure!(error.to_string().contains("STOR"), "{error}");
        Ok(())
    })
}

//! Uploads to an object store that break or differ, and go on with the parts that the store has.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Result, ensure};
use workspace_tests::{Break, Host, Relay, Tree, bytes_read};

use crate::{LIMIT, breaks, cp_in};

const SIZE: u64 = 90_000_123;
const PART: u64 = 5 << 20;

/// Bytes a second of each connection.
const RATE: u64 = 20_000_000;

/// Most bytes that a server reads besides the object: its journals and its program files.
const FEW: u64 = 16 << 20;

/// A server over a directory as an object store, with an older object under the name.
fn store(dir: &Tree) -> Result<Host> {
    dir.file("bucket/file", 20, 9)?;
    let url = format!("file://{}", dir.path("bucket").display());
    let index = dir.path("index");
    let storage = format!("object:url={url};index={};part=5M", index.display());
    Host::ours_with(dir.root(), &["--storage", &storage])
}

/// Waits until the server holds bytes of the file.
fn wait_until_held(server: &Host) -> Result<()> {
    let begun = Instant::now();
    loop {
        let mut session = TcpStream::connect(server.addr())?;
        session.write_all(b"USER anonymous\r\nPASS a@b\r\nSITE HELD /file\r\nQUIT\r\n")?;
        let mut replies = String::new();
        session.read_to_string(&mut replies)?;
        if replies.contains("\n213 Range Marker ") {
            return Ok(());
        }
        ensure!(begun.elapsed() < LIMIT, "nothing is held: {replies}");
    }
}

#[test]
fn an_upload_that_goes_on_over_an_older_object_is_not_read_again() -> Result<()> {
    for mode in ["extended", "stream"] {
        let (here, there) = (Tree::new()?, Tree::new()?);
        let server = store(&there)?;
        let file = std::fs::read(here.file("file", SIZE, 3)?)?;
        // A reset drops what waits to be read, which is little at this rate.
        let after = SIZE / 4 * 3;
        let relay = Relay::paced(server.addr(), Break::Everything { after }, RATE)?;
        let url = server.url_at(relay.addr(), "file");
        let flags = ["-c", "--mode", mode, "--debug"];
        let first = cp_in(
            &here,
            &[&flags[..], &["--retries", "0", "file", &url]].concat(),
        )?;
        breaks(&first, &["file"])?;
        ensure!(relay.broke(), "nothing broke");
        wait_until_held(&server)?;
        let object = there.path("bucket/file");
        ensure!(
            std::fs::metadata(&object)?.len() == 20,
            "the old object is gone"
        );

        let before = (relay.passed(), bytes_read(server.pid())?);
        let second = cp_in(&here, &[&flags[..], &["file", &url]].concat())?.ok()?;
        ensure!(second.stderr.contains("> REST "), "{}", second.report());
        ensure!(std::fs::read(&object)? == file, "it differs in MODE {mode}");
        let (passed, read) = (
            relay.passed() - before.0,
            bytes_read(server.pid())? - before.1,
        );
        ensure!(
            passed < SIZE,
            "{passed} bytes passed in MODE {mode}: {}",
            second.report()
        );
        ensure!(read < FEW, "the server read {read} bytes in MODE {mode}");
        let left = std::fs::read_dir(there.path("index"))?.count();
        ensure!(left == 0, "{left} journals are left");
    }
    Ok(())
}

#[test]
fn of_an_object_that_differs_only_the_bad_part_is_sent_again() -> Result<()> {
    for mode in ["extended", "stream"] {
        let (here, there) = (Tree::new()?, Tree::new()?);
        let server = store(&there)?;
        let file = std::fs::read(here.file("file", SIZE, 3)?)?;
        let relay = Relay::start(server.addr(), Break::Flip { after: SIZE / 3 })?;
        let url = server.url_at(relay.addr(), "file");
        cp_in(&here, &["--mode", mode, "file", &url])?.ok()?;
        ensure!(relay.broke(), "no bit was flipped");
        ensure!(
            std::fs::read(there.path("bucket/file"))? == file,
            "MODE {mode}"
        );
        // The part with that bit, and the last one, which does not consist of groups.
        let (most, passed) = (SIZE + 2 * PART + (1 << 20), relay.passed());
        ensure!(passed < most, "{passed} bytes passed in MODE {mode}");
        let left = std::fs::read_dir(there.path("index"))?.count();
        ensure!(left == 0, "{left} journals are left");
    }
    Ok(())
}

//! The library: its examples, and its blocking form.

use std::io::{Read as _, Write};
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use gridftp_client::progress::Verification;
use gridftp_client::results::Outcome;
use gridftp_client::{
    Choice, CopyOptions, FileResult, Location, Results, Silent, Totals, blocking,
};
use workspace_tests::{Break, Relay};

use crate::Bed;

#[path = "../../gridftp-client/examples/copy_with_progress.rs"]
#[allow(dead_code, reason = "its main is not called here")]
mod copy_with_progress;
#[path = "../../gridftp-client/examples/third_party.rs"]
#[allow(dead_code, reason = "its main is not called here")]
mod third_party;
#[path = "../../gridftp-client/examples/walk_and_verify.rs"]
#[allow(dead_code, reason = "its main is not called here")]
mod walk_and_verify;

/// Output that several may write to.
#[derive(Debug, Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut written = self.0.lock().expect("nothing panics");
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(work)
}

fn well<T>(done: std::result::Result<T, Box<dyn std::error::Error>>) -> Result<T> {
    done.map_err(|error| anyhow::anyhow!("{error}"))
}

#[test]
fn a_tree_is_copied_with_progress_and_verified() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("tree/a", 300_001, 3)?;
    bed.here.file("tree/sub/b", 7, 4)?;
    let dir = bed.here.path("tree").display().to_string();
    let (from, to) = (format!("{dir}/"), bed.url("copy/"));
    let mut told = Vec::new();
    well(wait(copy_with_progress::run(&from, &to, &mut told)))?;
    let told = String::from_utf8(told)?;
    ensure!(told.contains("2 files, 300008 bytes, 0 failed"), "{told}");
    let of_file = format!("{from}sub/b: 7 bytes, BLAKE3 ");
    ensure!(told.contains(&of_file), "{told}");
    bed.same("tree/sub/b", "copy/sub/b")?;
    let check = |out: &mut Vec<u8>| wait(walk_and_verify::run(&dir, &bed.url("copy"), out));
    ensure!(well(check(&mut Vec::new()))? == 0);
    bed.there.file("copy/a", 300_001, 5)?;
    std::fs::remove_file(bed.there.path("copy/sub/b"))?;
    let mut told = Vec::new();
    ensure!(well(check(&mut told))? == 2);
    let told = String::from_utf8(told)?;
    ensure!(
        told.contains("a: differs") && told.contains("sub/b: "),
        "{told}"
    );
    Ok(())
}

#[test]
fn each_file_of_a_tree_has_one_result() -> Result<()> {
    let bed = Bed::new()?;
    for (name, size) in [("good", 300_001), ("large", 400_000), ("bad", 10)] {
        bed.here.file(&format!("tree/{name}"), size, 3)?;
    }
    // A directory is in the place of its copy.
    bed.there.file("copy/bad/x", 1, 1)?;
    let from = format!("{}/", bed.here.path("tree").display());
    let ends = [Location::parse(&from)?, Location::parse(&bed.url("copy/"))?];
    let [source, destination] = &ends;
    let options = CopyOptions::default()
        .recursive(true)
        .choice(Choice::default().max_size(350_000_u64));
    let (results, totals) = (Arc::new(Results::new(10)), Arc::new(Totals::default()));
    let sources = std::slice::from_ref(source);
    let summary = blocking::copy(sources, destination, options, results.clone(), totals)?;
    let mut told = results.take();
    told.sort_by(|a, b| a.source.cmp(&b.source));
    ensure!(
        summary.counts.files_failed == 1 && told.len() == 3,
        "{told:?}"
    );
    ensure!(results.missed() == 0 && results.take().is_empty());
    let [bad, good, large] = told.as_slice() else {
        anyhow::bail!("{told:?}");
    };
    ensure!(
        bad.source.ends_with("/tree/bad") && bad.bytes.is_none(),
        "{bad:?}"
    );
    let place = |file: &FileResult| file.destination.clone().unwrap_or_default();
    ensure!(place(bad) == bed.url("copy/bad"), "{bad:?}");
    let Outcome::Failed { message, .. } = &bad.outcome else {
        anyhow::bail!("{bad:?}");
    };
    ensure!(!message.is_empty(), "{bad:?}");
    ensure!(
        good.outcome == Outcome::Copied(Verification::Digest),
        "{good:?}"
    );
    ensure!(good.bytes == Some(300_001) && place(good) == bed.url("copy/good"));
    let digest = good.digest.as_ref();
    ensure!(
        digest.is_some_and(|(name, digest)| name == "BLAKE3" && digest.len() == 64),
        "{good:?}"
    );
    ensure!(
        matches!(large.outcome, Outcome::Skipped { .. }),
        "{large:?}"
    );
    Ok(())
}

#[test]
fn a_copy_between_servers_goes_on_after_a_break() -> Result<()> {
    let (one, other) = (Bed::new()?, Bed::new()?);
    one.there.file("file", 8_000_001, 3)?;
    let plan = Break::Data { after: 4_000_000 };
    let relay = Relay::start(other.server.addr(), plan)?;
    let to = other.server.url_at(relay.addr(), "file");
    let told = Written::default();
    well(wait(third_party::run(&one.url("file"), &to, told.clone())))?;
    workspace_tests::same_file(&one.there.path("file"), &other.there.path("file"))?;
    let told = String::from_utf8(told.0.lock().expect("nothing panics").clone())?;
    ensure!(relay.broke() && told.contains("attempt 1 failed"), "{told}");
    Ok(())
}

#[test]
fn the_blocking_form_needs_no_runtime() -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("a", 300_001, 3)?;
    let local = bed.here.path("a").display().to_string();
    let ends = [Location::parse(&local)?, Location::parse(&bed.url("a"))?];
    let [from, to] = &ends;
    let (observer, totals) = (Arc::new(Silent::default()), Arc::new(Totals::default()));
    let sources = std::slice::from_ref(from);
    let summary = blocking::copy(sources, to, Default::default(), observer, totals)?;
    ensure!(summary.counts.files_done == 1 && summary.failed.is_none());
    bed.same("a", "a")?;
    let Location::Remote(remote) = to else {
        anyhow::bail!("{to}")
    };
    let mut client = blocking::Client::connect(&remote.site, Default::default())?;
    client.run(async |client| client.make_dirs(b"/x/y").await)?;
    let names: Vec<_> = client
        .list(b"/")?
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    ensure!(
        names.contains(&b"x".to_vec()) && names.len() == 2,
        "{names:?}"
    );
    let mut writer = client.write(b"/x/y/b", Default::default());
    writer.write_all(b"some bytes")?;
    let client = writer.finish()?;
    let mut reader = client.read(b"/x/y/b", Default::default());
    let mut text = String::new();
    reader.read_to_string(&mut text)?;
    ensure!(text == "some bytes", "{text}");
    let client = reader.stop().ok_or_else(|| anyhow::anyhow!("no session"))?;
    let mut none = client.read(b"/none", Default::default());
    ensure!(
        none.read_to_string(&mut text).is_err(),
        "a missing file is read"
    );
    none.stop()
        .ok_or_else(|| anyhow::anyhow!("no session"))?
        .close();
    Ok(())
}

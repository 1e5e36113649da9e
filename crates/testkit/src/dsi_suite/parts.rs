//! Backends that take whole parts: restart by parts, and objects that change as a whole only.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{Create, Dsi, ErrorKind, Finish, Meta, Sink, Source};

use super::{Bench, Outcome, len, pattern, ranges, refused, step, write};

/// The bytes of two parts and a short one, and the length of a part.
fn three<S: Sink>(sink: &S) -> (Vec<u8>, u64) {
    let part = u32::try_from(step(sink, 1000)).expect("a small part");
    (pattern(2 * part + 100, 11), u64::from(part))
}

fn part(bytes: &[u8], index: u64, size: u64) -> Bytes {
    let size = usize::try_from(size).expect("small");
    let at = usize::try_from(index).expect("small") * size;
    let end = bytes.len().min(at + size);
    Bytes::copy_from_slice(bytes.get(at..end).expect("within"))
}

pub(super) async fn recorded_parts_are_held<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    let (bytes, size) = three(&sink);
    sink.write_at(size, part(&bytes, 1, size)).await?;
    let held = ranges(&[(size, 2 * size)]);
    sink.checkpoint(&held, true).await?;
    // Written after the checkpoint, so it must not be held.
    sink.write_at(0, part(&bytes, 0, size)).await?;
    drop(sink);
    assert_eq!(bench.held("file").await?, held);
    refused(bench.stat("file").await, &[ErrorKind::NotFound]);
    for _ in 0..2 {
        let sink = bench.resume("file").await?;
        assert_eq!(
            (sink.held(), step(&sink, 0)),
            (held.clone(), usize::try_from(size)?)
        );
    }
    let sink = bench.resume("file").await?;
    sink.write_at(2 * size, part(&bytes, 2, size)).await?;
    sink.write_at(0, part(&bytes, 0, size)).await?;
    let whole = ranges(&[(0, len(&bytes))]);
    sink.finish(Finish::whole(len(&bytes)).with_held(whole))
        .await?;
    assert!(
        bench.get("file").await? == bytes,
        "the resumed file differs"
    );
    assert!(bench.held("file").await?.is_empty());
    assert!(bench.resume("file").await?.held().is_empty());
    Ok(())
}

/// Keeps the first part of an upload to `name`.
async fn keep<D: Dsi>(bench: &Bench<'_, D>, name: &str) -> Result<D::Sink, gridftp_dsi::Error> {
    let sink = bench.whole(name).await?;
    let (bytes, size) = three(&sink);
    sink.write_at(0, part(&bytes, 0, size)).await?;
    sink.checkpoint(&ranges(&[(0, size)]), false).await?;
    Ok(sink)
}

pub(super) async fn a_new_upload_discards_the_parts<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    drop(keep(bench, "file").await?);
    assert!(!bench.held("file").await?.is_empty());
    let sink = bench.whole("file").await?;
    assert!(sink.held().is_empty());
    write(&sink, 0, b"new").await?;
    sink.finish(Finish::whole(3)).await?;
    assert_eq!(bench.get("file").await?, b"new");
    assert!(bench.held("file").await?.is_empty());
    Ok(())
}

pub(super) async fn only_one_upload_resumes_its_parts<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = keep(bench, "file").await?;
    refused(bench.resume("file").await, &[ErrorKind::Busy]);
    refused(
        bench.dsi.drop_held(&bench.user, &bench.at("file")).await,
        &[ErrorKind::Busy],
    );
    // A second upload goes its own way, and is not the one kept.
    let second = bench.whole("file").await?;
    let (bytes, size) = three(&second);
    second.write_at(0, part(&bytes, 0, size)).await?;
    let recorded = second.checkpoint(&ranges(&[(0, size)]), false).await;
    refused(recorded, &[ErrorKind::Busy]);
    drop(second);
    drop(sink);
    let sink = bench.resume("file").await?;
    refused(bench.resume("file").await, &[ErrorKind::Busy]);
    sink.write_at(size, Bytes::from_static(b"end")).await?;
    sink.finish(Finish::whole(size + 3)).await?;
    assert_eq!(bench.stat("file").await?.size, size + 3);
    Ok(())
}

pub(super) async fn kept_parts_can_be_dropped<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (dsi, user, file) = (bench.dsi, &bench.user, bench.at("file"));
    refused(dsi.drop_held(user, &file).await, &[ErrorKind::NotFound]);
    drop(keep(bench, "file").await?);
    dsi.drop_held(user, &file).await?;
    assert!(bench.held("file").await?.is_empty());
    refused(dsi.drop_held(user, &file).await, &[ErrorKind::NotFound]);
    Ok(())
}

pub(super) async fn old_parts_expire<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let used = keep(bench, "used").await?;
    drop(keep(bench, "file").await?);
    assert_eq!(bench.dsi.expire(Duration::from_secs(3600)).await?, 0);
    assert!(!bench.held("file").await?.is_empty());
    assert!(bench.dsi.expire(Duration::ZERO).await? >= 1);
    assert!(bench.held("file").await?.is_empty());
    let (bytes, size) = three(&used);
    used.write_at(size, part(&bytes, 1, size)).await?;
    used.finish(Finish::whole(2 * size)).await?;
    assert_eq!(bench.stat("used").await?.size, 2 * size);
    Ok(())
}

pub(super) async fn a_replaced_file_is_never_mixed<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    const LEN: u32 = 9_000_000;
    let (old, new) = (pattern(LEN, 12), pattern(LEN, 13));
    bench.put("file", &old).await?;
    bench.put("removed", &old).await?;
    let sources = [bench.source("file").await?, bench.source("removed").await?];
    for source in &sources {
        source.unchanged().await?;
    }
    bench.put("file", &new).await?;
    bench.dsi.remove(&bench.user, &bench.at("removed")).await?;
    for source in &sources {
        let mut at = 0;
        let told = loop {
            match source.read_at(at, BytesMut::with_capacity(1 << 20)).await {
                Ok(bytes) if bytes.is_empty() => break source.unchanged().await,
                Ok(bytes) => {
                    let from = usize::try_from(at)?;
                    assert!(
                        old.get(from..from + bytes.len()) == Some(&bytes[..]),
                        "mixed"
                    );
                    at += len(&bytes);
                }
                Err(error) => break Err(error),
            }
        };
        match told {
            // An open file may stay readable without its name.
            Ok(()) => assert_eq!(at, len(&old), "the old file was cut off"),
            told => refused(told, &[ErrorKind::Changed]),
        }
    }
    Ok(())
}

pub(super) async fn changes_of_a_part_are_refused<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    bench.put("file", b"old").await?;
    for how in [
        Create::Append,
        Create::InPlace { truncate: false },
        Create::Update { size: None },
    ] {
        refused(bench.sink("file", how).await, &[ErrorKind::Unsupported]);
    }
    let (dsi, user, path) = (bench.dsi, &bench.user, bench.at("file"));
    refused(
        dsi.truncate(user, &path, 1).await,
        &[ErrorKind::Unsupported],
    );
    if !dsi.capabilities().times {
        let meta = Meta::new().with_modified(1, 2);
        let set = dsi.set_meta(user, &path, meta).await;
        refused(set, &[ErrorKind::Unsupported]);
    }
    dsi.set_meta(user, &path, Meta::new()).await?;
    refused(
        dsi.set_meta(user, &bench.at("absent"), Meta::new()).await,
        &[ErrorKind::NotFound],
    );
    assert_eq!(bench.get("file").await?, b"old");
    Ok(())
}

//! Files: written bytes are read back, and uploads are atomic.

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{
    Create, Dsi, DsiPath, Error, ErrorKind, Finish, Meta, Sink, Source, User, WriteModel,
};

use super::{Bench, Outcome, len, pattern, ranges, refused, step, write};

/// Splits `bytes` into writes, in reverse order where the sink accepts any order.
fn cuts<S: Sink>(sink: &S, bytes: &[u8]) -> Vec<(u64, Bytes)> {
    let step = step(sink, 1000);
    let chunks = bytes.chunks(step).zip((0_u64..).step_by(step));
    let mut cuts: Vec<_> = chunks
        .map(|(part, at)| (at, Bytes::copy_from_slice(part)))
        .collect();
    if sink.order() != WriteModel::Sequential {
        cuts.reverse();
    }
    cuts
}

pub(super) async fn bytes_may_be_written_in_any_order<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    for (name, size) in [("one", 1), ("odd", 12_345), ("large", 300_000)] {
        let bytes = pattern(size, 1);
        let sink = bench.whole(name).await?;
        assert!(sink.held().is_empty());
        for (at, part) in cuts(&sink, &bytes) {
            sink.write_at(at, part).await?;
        }
        let held = ranges(&[(0, len(&bytes))]);
        let stat = sink
            .finish(Finish::whole(len(&bytes)).with_held(held))
            .await?;
        assert_eq!(
            (stat.size, stat.name.as_slice()),
            (len(&bytes), name.as_bytes())
        );
        assert!(
            bench.get(name).await? == bytes,
            "{name}: the read bytes differ"
        );
        assert_eq!(bench.stat(name).await?.size, len(&bytes));
        assert_eq!(bench.source(name).await?.size(), len(&bytes));
    }
    Ok(())
}

pub(super) async fn an_empty_file_is_stored<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("empty").await?;
    assert_eq!(sink.finish(Finish::whole(0)).await?.size, 0);
    assert!(bench.stat("empty").await?.is_file());
    assert!(bench.get("empty").await?.is_empty());
    Ok(())
}

pub(super) async fn an_upload_is_invisible_until_it_is_finished<D: Dsi>(
    bench: &Bench<'_, D>,
) -> Outcome {
    let size = Some(100_000);
    let sink = bench.sink("late", Create::Whole { size }).await?;
    write(&sink, 0, &pattern(100_000, 2)).await?;
    sink.checkpoint(&ranges(&[(0, 100_000)]), false).await?;
    refused(bench.stat("late").await, &[ErrorKind::NotFound]);
    refused(bench.source("late").await, &[ErrorKind::NotFound]);
    assert!(
        bench.names("").await?.is_empty(),
        "an upload in progress is listed"
    );
    sink.finish(Finish::whole(100_000)).await?;
    assert_eq!(bench.names("").await?, [b"late"]);
    Ok(())
}

pub(super) async fn an_incomplete_file_is_refused<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("short").await?;
    sink.write_at(0, Bytes::from_static(b"0123456789")).await?;
    refused(
        sink.finish(Finish::whole(11)).await,
        &[ErrorKind::Incomplete],
    );
    let sink = bench.whole("gap").await?;
    if sink.order() == WriteModel::Sequential {
        // It has no gap to make; one that is told is refused all the same.
        sink.write_at(0, Bytes::from_static(b"0123456789")).await?;
        let done = Finish::whole(10).with_held(ranges(&[(0, 5), (6, 10)]));
        refused(sink.finish(done).await, &[ErrorKind::Incomplete]);
        assert!(bench.names("").await?.is_empty());
        return Ok(());
    }
    let part = pattern(u32::try_from(step(&sink, 5))?, 2);
    let at = 2 * len(&part);
    sink.write_at(0, Bytes::from(part.clone())).await?;
    sink.write_at(at, Bytes::from_static(b"6789")).await?;
    let done = Finish::whole(at + 4).with_held(ranges(&[(0, len(&part)), (at, at + 4)]));
    refused(sink.finish(done).await, &[ErrorKind::Incomplete]);
    assert!(
        bench.names("").await?.is_empty(),
        "an incomplete file was published"
    );
    Ok(())
}

pub(super) async fn a_file_is_replaced_atomically<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (old, new) = (pattern(5000, 3), pattern(2000, 4));
    bench.put("file", &old).await?;
    let sink = bench.whole("file").await?;
    write(&sink, 0, &new).await?;
    assert!(
        bench.get("file").await? == old,
        "the old file changed before the upload was finished"
    );
    drop(sink);
    assert!(
        bench.get("file").await? == old,
        "a dropped upload changed the file"
    );
    let sink = bench.whole("file").await?;
    write(&sink, 0, &new).await?;
    sink.finish(Finish::whole(2000)).await?;
    assert!(bench.get("file").await? == new, "old bytes are left");
    Ok(())
}

pub(super) async fn a_longer_upload_is_truncated<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    sink.write_at(0, Bytes::from_static(b"0123456789")).await?;
    assert_eq!(sink.finish(Finish::whole(4)).await?.size, 4);
    assert_eq!(bench.get("file").await?, b"0123");
    Ok(())
}

pub(super) async fn in_place_writes_are_visible_at_once<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let keep = Create::InPlace { truncate: false };
    let sink = bench.sink("file", keep).await?;
    sink.write_at(0, Bytes::from_static(b"hello world")).await?;
    sink.finish(Finish::as_is()).await?;
    let sink = bench.sink("file", keep).await?;
    assert_eq!(sink.held(), ranges(&[(0, 11)]));
    sink.write_at(0, Bytes::from_static(b"J")).await?;
    assert_eq!(bench.get("file").await?, b"Jello world");
    sink.write_at(11, Bytes::from_static(b"!")).await?;
    drop(sink);
    assert_eq!(bench.get("file").await?, b"Jello world!");
    let sink = bench
        .sink("file", Create::InPlace { truncate: true })
        .await?;
    assert!(sink.held().is_empty());
    sink.finish(Finish::as_is()).await?;
    assert!(bench.get("file").await?.is_empty());
    Ok(())
}

pub(super) async fn an_append_excludes_other_writers<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let keep = Create::InPlace { truncate: false };
    let cut = Create::InPlace { truncate: true };
    for (before, bytes) in [(0, b"one"), (3, b"two")] {
        let sink = bench.sink("file", Create::Append).await?;
        assert_eq!(sink.held().end(), before);
        for how in [Create::Append, keep, cut] {
            refused(bench.sink("file", how).await, &[ErrorKind::Busy]);
        }
        sink.write_at(before, Bytes::from_static(bytes)).await?;
        sink.finish(Finish::as_is()).await?;
    }
    assert_eq!(bench.get("file").await?, b"onetwo");
    // Parts of one file may be written concurrently, but not while it is truncated or extended.
    let parts = (
        bench.sink("file", keep).await?,
        bench.sink("file", keep).await?,
    );
    for how in [Create::Append, cut] {
        refused(bench.sink("file", how).await, &[ErrorKind::Busy]);
    }
    assert_eq!(bench.get("file").await?, b"onetwo");
    drop(parts);
    drop(bench.sink("file", cut).await?);
    Ok(())
}

pub(super) async fn writing_to_a_removed_file_is_an_error<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    for how in [
        Create::Append,
        Create::InPlace { truncate: false },
        Create::InPlace { truncate: true },
        Create::Update { size: None },
    ] {
        for replaced in [false, true] {
            bench.put("file", b"old").await?;
            let sink = bench.sink("file", how).await?;
            sink.write_at(3, Bytes::from_static(b"new")).await?;
            bench.dsi.remove(&bench.user, &bench.at("file")).await?;
            if replaced {
                bench.put("file", b"another").await?;
            }
            let done = Finish::as_is();
            refused(sink.finish(done).await, &[ErrorKind::Changed]);
            if replaced {
                assert_eq!(bench.get("file").await?, b"another");
            } else {
                refused(bench.stat("file").await, &[ErrorKind::NotFound]);
            }
        }
    }
    Ok(())
}

/// The bytes from `offset` on, read in as many pieces as the source gives.
async fn rest<S: Source>(source: &S, offset: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    loop {
        let at = offset + len(&bytes);
        let piece = source.read_at(at, BytesMut::with_capacity(64)).await?;
        if piece.is_empty() {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&piece);
    }
}

pub(super) async fn reads_past_the_end_are_empty<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    bench.put("file", b"0123456789").await?;
    let source = bench.source("file").await?;
    assert_eq!(rest(&source, 7).await?, b"789");
    for beyond in [10, 11, 1 << 40, u64::MAX] {
        assert!(
            source
                .read_at(beyond, BytesMut::with_capacity(64))
                .await?
                .is_empty(),
            "{beyond}"
        );
    }
    let mut begun = BytesMut::with_capacity(64);
    begun.extend_from_slice(b"head ");
    let read = source.read_at(0, begun).await?;
    assert!(read.len() > 5 && b"head 0123456789".starts_with(&read));
    let little = source.read_at(0, BytesMut::with_capacity(4)).await?;
    assert!(!little.is_empty() && b"0123456789".starts_with(&little));
    if let Some(data) = source.data().await? {
        assert!(data.end() <= 10);
    }
    if source.lends() {
        let mut lent = Vec::new();
        loop {
            let piece = source.lend(3 + len(&lent), 2).await?;
            assert!(piece.len() <= 2, "{piece:?}");
            if piece.is_empty() {
                break;
            }
            lent.extend_from_slice(&piece);
        }
        assert_eq!(lent, b"3456789");
        for beyond in [10, u64::MAX] {
            assert!(source.lend(beyond, 64).await?.is_empty(), "{beyond}");
        }
    }
    Ok(())
}

pub(super) async fn offsets_out_of_bounds_are_refused<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    for offset in [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1] {
        let written = sink.write_at(offset, Bytes::from_static(b"xy")).await;
        refused(written, &[ErrorKind::TooLarge, ErrorKind::NoSpace]);
    }
    drop(sink);
    assert!(bench.names("").await?.is_empty());
    Ok(())
}

pub(super) async fn two_writers_never_mix<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (a, b) = (pattern(200_000, 5), pattern(200_000, 6));
    let first = bench.whole("file").await?;
    // A backend may refuse the second writer, or let the last one win.
    let second = bench.whole("file").await;
    let step = step(&first, 50_000);
    for (at, (one, other)) in (0..).step_by(step).zip(a.chunks(step).zip(b.chunks(step))) {
        first.write_at(at, Bytes::copy_from_slice(one)).await?;
        if let Ok(second) = &second {
            second.write_at(at, Bytes::copy_from_slice(other)).await?;
        }
    }
    first.finish(Finish::whole(200_000)).await?;
    assert!(
        bench.get("file").await? == a,
        "the first writer's bytes were mixed"
    );
    match second {
        Ok(second) => {
            second.finish(Finish::whole(200_000)).await?;
            assert!(
                bench.get("file").await? == b,
                "the second writer's bytes were mixed"
            );
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Busy),
    }
    assert_eq!(bench.names("").await?, [b"file"]);
    Ok(())
}

pub(super) async fn a_change_while_reading_is_detected<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    bench.put("touched", b"0123456789").await?;
    bench.put("cut", b"0123456789").await?;
    bench.put("removed", b"0123456789").await?;
    bench.put("replaced", b"0123456789").await?;
    let open = [
        bench.source("touched").await?,
        bench.source("cut").await?,
        bench.source("removed").await?,
        bench.source("replaced").await?,
    ];
    for source in &open {
        source.unchanged().await?;
    }
    bench
        .dsi
        .set_meta(
            &bench.user,
            &bench.at("touched"),
            Meta::new().with_modified(1, 2),
        )
        .await?;
    bench.dsi.truncate(&bench.user, &bench.at("cut"), 3).await?;
    bench.dsi.remove(&bench.user, &bench.at("removed")).await?;
    bench.put("replaced", b"9876543210").await?;
    let [touched, cut, removed, replaced] = &open;
    for source in [touched, cut] {
        refused(source.unchanged().await, &[ErrorKind::Changed]);
    }
    // An open file stays readable without its name.
    for source in [removed, replaced] {
        source.unchanged().await?;
        assert_eq!(rest(source, 0).await?, b"0123456789");
    }
    Ok(())
}

pub(super) async fn concurrent_writes_to_one_sink<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let bytes = pattern(64 * 1000, 7);
    let sink = bench.whole("file").await?;
    let writes = cuts(&sink, &bytes);
    if sink.order() == WriteModel::Sequential {
        for (at, part) in writes {
            sink.write_at(at, part).await?;
        }
    } else {
        // All writes are polled before the first one completes.
        let mut under_way: Vec<_> = writes
            .into_iter()
            .map(|(at, part)| Box::pin(sink.write_at(at, part)))
            .collect();
        std::future::poll_fn(|cx| {
            let mut failed = None;
            under_way.retain_mut(|write| match write.as_mut().poll(cx) {
                std::task::Poll::Pending => true,
                std::task::Poll::Ready(done) => {
                    failed = failed.take().or_else(|| done.err());
                    false
                }
            });
            match failed {
                Some(error) => std::task::Poll::Ready(Err(error)),
                None if under_way.is_empty() => std::task::Poll::Ready(Ok(())),
                None => std::task::Poll::Pending,
            }
        })
        .await?;
    }
    sink.finish(Finish::whole(len(&bytes))).await?;
    assert!(bench.get("file").await? == bytes);
    Ok(())
}

pub(super) async fn writing_requires_permission<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let reader = User::new("reader", DsiPath::root(), false);
    let (dsi, path, other) = (bench.dsi, bench.at("file"), bench.at("other"));
    let denied = [ErrorKind::Denied];
    for how in [
        Create::Whole { size: None },
        Create::Resume { size: None },
        Create::InPlace { truncate: true },
    ] {
        refused(dsi.write(&reader, &path, how).await, &denied);
    }
    refused(dsi.make_dir(&reader, &path).await, &denied);
    refused(dsi.remove_dir(&reader, &bench.dir).await, &denied);
    refused(dsi.remove(&reader, &path).await, &denied);
    refused(dsi.remove_tree(&reader, &bench.dir).await, &denied);
    refused(dsi.rename(&reader, &path, &other).await, &denied);
    refused(
        dsi.set_meta(&reader, &bench.dir, Meta::new().with_modified(0, 0))
            .await,
        &denied,
    );
    refused(dsi.truncate(&reader, &path, 0).await, &denied);
    let unsupported = [ErrorKind::Denied, ErrorKind::Unsupported];
    refused(dsi.symlink(&reader, b"x", &path).await, &unsupported);
    Ok(())
}

pub(super) async fn discarded_bytes_are_counted<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    sink.write_at(1 << 40, Bytes::from_static(b"far away"))
        .await?;
    refused(
        sink.write_at(u64::MAX, Bytes::from_static(b"x")).await,
        &[ErrorKind::TooLarge],
    );
    let stat = sink.finish(Finish::whole(8 + (1 << 40))).await?;
    assert_eq!(stat.size, 8 + (1 << 40));
    let sink = bench.whole("file").await?;
    let done = Finish::whole(10).with_held(ranges(&[(0, 9)]));
    refused(sink.finish(done).await, &[ErrorKind::Incomplete]);
    Ok(())
}

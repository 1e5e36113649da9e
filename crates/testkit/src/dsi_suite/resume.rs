//! Restart: what was recorded is held, and nothing else is claimed.

use bytes::Bytes;
use gridftp_dsi::{Dsi, ErrorKind, Finish, Sink};

use super::{Bench, Outcome, pattern, ranges, refused};

pub(super) async fn what_was_recorded_is_held<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let bytes = pattern(300_000, 1);
    let part =
        |from: usize, to: usize| Bytes::copy_from_slice(bytes.get(from..to).expect("within"));
    let sink = bench.whole("file").await?;
    sink.write_at(0, part(0, 10)).await?;
    sink.write_at(200_000, part(200_000, 300_000)).await?;
    let held = ranges(&[(0, 10), (200_000, 300_000)]);
    sink.checkpoint(&held, false).await?;
    // Written after the record: not to be claimed.
    sink.write_at(10, part(10, 20)).await?;
    drop(sink);
    assert_eq!(bench.held("file").await?, held);
    let sink = bench.resume("file").await?;
    assert_eq!(sink.held(), held);
    // Giving up again loses nothing.
    drop(sink);
    let sink = bench.resume("file").await?;
    assert_eq!(sink.held(), held);
    sink.write_at(10, part(10, 100_000)).await?;
    sink.checkpoint(&ranges(&[(0, 100_000), (200_000, 300_000)]), true)
        .await?;
    drop(sink);
    let sink = bench.resume("file").await?;
    assert_eq!(sink.held(), ranges(&[(0, 100_000), (200_000, 300_000)]));
    sink.write_at(100_000, part(100_000, 200_000)).await?;
    sink.finish(Finish::whole(300_000).with_held(ranges(&[(0, 300_000)])))
        .await?;
    assert!(
        bench.get("file").await? == bytes,
        "the parts do not make the whole"
    );
    // Published: from here on the object itself is what is held, and nothing is kept apart.
    assert!(bench.held("file").await?.is_empty());
    assert_eq!(bench.resume("file").await?.held(), ranges(&[(0, 300_000)]));
    Ok(())
}

pub(super) async fn what_was_not_recorded_is_not_held<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    sink.write_at(0, Bytes::from(pattern(100_000, 2))).await?;
    drop(sink);
    assert!(bench.held("file").await?.is_empty());
    assert!(bench.held("nowhere").await?.is_empty());
    assert!(bench.resume("file").await?.held().is_empty());
    assert!(bench.names("").await?.is_empty());
    Ok(())
}

pub(super) async fn a_new_attempt_forgets_the_old<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    sink.write_at(0, Bytes::from_static(b"old bytes, more of them"))
        .await?;
    sink.checkpoint(&ranges(&[(0, 23)]), false).await?;
    drop(sink);
    let sink = bench.whole("file").await?;
    assert!(sink.held().is_empty());
    sink.write_at(0, Bytes::from_static(b"new")).await?;
    sink.finish(Finish::whole(3)).await?;
    assert_eq!(bench.get("file").await?, b"new");
    Ok(())
}

pub(super) async fn the_published_object_is_continued<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    bench.put("file", b"hello").await?;
    let sink = bench.resume("file").await?;
    assert_eq!(sink.held(), ranges(&[(0, 5)]));
    sink.write_at(5, Bytes::from_static(b" world")).await?;
    assert_eq!(bench.get("file").await?, b"hello");
    drop(sink);
    assert_eq!(bench.get("file").await?, b"hello");
    let sink = bench.resume("file").await?;
    assert_eq!(sink.held(), ranges(&[(0, 5)]));
    sink.write_at(5, Bytes::from_static(b", you")).await?;
    sink.finish(Finish::whole(10)).await?;
    assert_eq!(bench.get("file").await?, b"hello, you");
    Ok(())
}

pub(super) async fn only_one_continues<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    sink.write_at(0, Bytes::from_static(b"0123456789")).await?;
    sink.checkpoint(&ranges(&[(0, 10)]), false).await?;
    let refusal = bench
        .resume("file")
        .await
        .err()
        .expect("the first writer is still there");
    assert_eq!(refusal.kind(), ErrorKind::Busy);
    assert!(refusal.is_transient());
    drop(sink);
    let sink = bench.resume("file").await?;
    refused(bench.resume("file").await, &[ErrorKind::Busy]);
    sink.finish(Finish::whole(10)).await?;
    assert_eq!(bench.get("file").await?, b"0123456789");
    Ok(())
}

pub(super) async fn a_failed_finish_can_be_continued<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    sink.write_at(0, Bytes::from_static(b"01234")).await?;
    sink.checkpoint(&ranges(&[(0, 5)]), false).await?;
    refused(
        sink.finish(Finish::whole(10)).await,
        &[ErrorKind::Incomplete],
    );
    let sink = bench.resume("file").await?;
    assert_eq!(sink.held(), ranges(&[(0, 5)]));
    sink.write_at(5, Bytes::from_static(b"56789")).await?;
    sink.finish(Finish::whole(10)).await?;
    assert_eq!(bench.get("file").await?, b"0123456789");
    Ok(())
}

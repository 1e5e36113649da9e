//! Restart: exactly the recorded ranges of a partial file are held.

use bytes::Bytes;
use gridftp_dsi::{Create, Dsi, DsiPath, ErrorKind, Finish, Sink, User};

use super::{Bench, Outcome, pattern, ranges, refused, write};

pub(super) async fn recorded_ranges_are_held<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let bytes = pattern(300_000, 1);
    let part =
        |from: usize, to: usize| Bytes::copy_from_slice(bytes.get(from..to).expect("within"));
    let sink = bench.whole("file").await?;
    sink.write_at(0, part(0, 10)).await?;
    sink.write_at(200_000, part(200_000, 300_000)).await?;
    let held = ranges(&[(0, 10), (200_000, 300_000)]);
    sink.checkpoint(&held, false).await?;
    // Written after the checkpoint, so it must not be held.
    sink.write_at(10, part(10, 20)).await?;
    drop(sink);
    assert_eq!(bench.held("file").await?, held);
    let sink = bench.resume("file").await?;
    assert_eq!(sink.held(), held);
    // A second interruption loses nothing.
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
        "the resumed file differs"
    );
    // After publishing there is no partial file.
    assert!(bench.held("file").await?.is_empty());
    assert!(bench.resume("file").await?.held().is_empty());
    Ok(())
}

pub(super) async fn unrecorded_bytes_are_not_held<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    write(&sink, 0, &pattern(100_000, 2)).await?;
    drop(sink);
    assert!(bench.held("file").await?.is_empty());
    assert!(bench.held("nowhere").await?.is_empty());
    assert!(bench.resume("file").await?.held().is_empty());
    assert!(bench.names("").await?.is_empty());
    Ok(())
}

pub(super) async fn a_new_upload_discards_the_partial_file<D: Dsi>(
    bench: &Bench<'_, D>,
) -> Outcome {
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

const UPDATE: Create = Create::Update { size: None };

pub(super) async fn an_update_keeps_unwritten_bytes<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    bench.put("file", b"hello").await?;
    let sink = bench.sink("file", UPDATE).await?;
    assert_eq!(sink.held(), ranges(&[(0, 5)]));
    sink.write_at(5, Bytes::from_static(b" world")).await?;
    assert_eq!(bench.get("file").await?, b"hello");
    drop(sink);
    assert_eq!(bench.get("file").await?, b"hello");
    for (at, bytes, held, whole) in [
        (5, &b", you"[..], &[(0, 10)][..], &b"hello, you"[..]),
        (0, b"J", &[(0, 1)], b"Jello, you"),
        (2, b"LL", &[(0, 4)], b"JeLLo, you"),
    ] {
        let sink = bench.sink("file", UPDATE).await?;
        sink.write_at(at, Bytes::from_static(bytes)).await?;
        let held = ranges(held);
        let done = Finish::whole(held.end()).with_held(held);
        assert_eq!(sink.finish(done).await?.size, 10);
        assert_eq!(bench.get("file").await?, whole);
    }
    let sink = bench.sink("new", UPDATE).await?;
    assert!(sink.held().is_empty());
    Ok(())
}

pub(super) async fn an_update_is_resumed<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let old = pattern(400_000, 3);
    bench.put("file", &old).await?;
    for replaced in [true, false] {
        let sink = bench.sink("file", UPDATE).await?;
        sink.write_at(0, Bytes::from(vec![1; 100_000])).await?;
        sink.checkpoint(&ranges(&[(0, 100_000)]), false).await?;
        drop(sink);
        assert_eq!(bench.held("file").await?, ranges(&[(0, 100_000)]));
        if replaced {
            // The partial file belongs to the replaced file.
            bench.put("file", b"another").await?;
            bench.put("file", &old).await?;
            assert!(bench.resume("file").await?.held().is_empty());
        }
    }
    let sink = bench.resume("file").await?;
    assert_eq!(sink.held(), ranges(&[(0, 100_000)]));
    sink.write_at(100_000, Bytes::from(vec![2; 100_000]))
        .await?;
    let done = Finish::whole(200_000).with_held(ranges(&[(0, 200_000)]));
    sink.finish(done).await?;
    let (new, rest) = old.split_at(200_000);
    let expected = [&[1; 100_000][..], &[2; 100_000], rest].concat();
    assert_eq!(new.len() + rest.len(), expected.len());
    assert!(
        bench.get("file").await? == expected,
        "unwritten bytes changed"
    );
    Ok(())
}

pub(super) async fn an_update_refuses_a_partial_file<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    bench.put("file", &pattern(200_000, 4)).await?;
    let sink = bench.whole("file").await?;
    sink.write_at(0, Bytes::from(vec![1; 100_000])).await?;
    sink.checkpoint(&ranges(&[(0, 100_000)]), false).await?;
    refused(bench.sink("file", UPDATE).await, &[ErrorKind::Busy]);
    drop(sink);
    refused(bench.sink("file", UPDATE).await, &[ErrorKind::Incomplete]);
    assert_eq!(bench.held("file").await?, ranges(&[(0, 100_000)]));
    bench.dsi.drop_held(&bench.user, &bench.at("file")).await?;
    let sink = bench.sink("file", UPDATE).await?;
    assert_eq!(sink.held(), ranges(&[(0, 200_000)]));
    Ok(())
}

pub(super) async fn a_partial_file_can_be_dropped<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let (dsi, user, file) = (bench.dsi, &bench.user, bench.at("file"));
    bench.put("file", b"published").await?;
    refused(dsi.drop_held(user, &file).await, &[ErrorKind::NotFound]);
    let sink = bench.whole("file").await?;
    sink.write_at(0, Bytes::from_static(b"0123456789")).await?;
    sink.checkpoint(&ranges(&[(0, 10)]), false).await?;
    refused(dsi.drop_held(user, &file).await, &[ErrorKind::Busy]);
    drop(sink);
    let reader = User::new("reader", DsiPath::root(), false);
    refused(dsi.drop_held(&reader, &file).await, &[ErrorKind::Denied]);
    assert_eq!(bench.held("file").await?, ranges(&[(0, 10)]));
    dsi.drop_held(user, &file).await?;
    assert!(bench.held("file").await?.is_empty());
    refused(dsi.drop_held(user, &file).await, &[ErrorKind::NotFound]);
    assert_eq!(bench.get("file").await?, b"published");
    Ok(())
}

pub(super) async fn only_one_upload_resumes<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
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

pub(super) async fn a_failed_finish_can_be_resumed<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
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

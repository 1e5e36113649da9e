//! Backends that take bytes in order: restart behind the recorded ones, and refusal of others.

use bytes::Bytes;
use gridftp_dsi::{Dsi, ErrorKind, Finish, Sink, Source, WriteModel};

use super::{Bench, Outcome, pattern, ranges, refused, write};

pub(super) async fn recorded_bytes_are_held<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let bytes = pattern(700_000, 21);
    let part = |from: usize, to: usize| bytes.get(from..to).expect("within");
    let sink = bench.whole("file").await?;
    write(&sink, 0, part(0, 300_000)).await?;
    sink.checkpoint(&ranges(&[(0, 300_000)]), false).await?;
    drop(sink);
    let held = ranges(&[(0, 300_000)]);
    assert_eq!(bench.held("file").await?, held);
    refused(bench.stat("file").await, &[ErrorKind::NotFound]);
    // An interruption that adds nothing loses nothing.
    let sink = bench.resume("file").await?;
    assert_eq!(
        (sink.held(), sink.order()),
        (held.clone(), WriteModel::Sequential)
    );
    drop(sink);
    let sink = bench.resume("file").await?;
    assert_eq!(sink.held(), held);
    write(&sink, 300_000, part(300_000, 500_000)).await?;
    sink.checkpoint(&ranges(&[(0, 500_000)]), false).await?;
    drop(sink);
    let sink = bench.resume("file").await?;
    assert_eq!(sink.held(), ranges(&[(0, 500_000)]));
    write(&sink, 500_000, part(500_000, 700_000)).await?;
    let whole = ranges(&[(0, 700_000)]);
    sink.finish(Finish::whole(700_000).with_held(whole)).await?;
    assert!(
        bench.get("file").await? == bytes,
        "the resumed file differs"
    );
    assert!(bench.held("file").await?.is_empty());
    assert!(bench.resume("file").await?.held().is_empty());
    assert_eq!(bench.source("file").await?.size(), 700_000);
    Ok(())
}

pub(super) async fn a_restart_may_begin_before_the_end_of_what_is_held<D: Dsi>(
    bench: &Bench<'_, D>,
) -> Outcome {
    let bytes = pattern(700_000, 22);
    let part = |from: usize, to: usize| bytes.get(from..to).expect("within");
    let sink = bench.whole("file").await?;
    write(&sink, 0, part(0, 300_000)).await?;
    sink.checkpoint(&ranges(&[(0, 200_000)]), false).await?;
    drop(sink);
    let sink = bench.resume("file").await?;
    assert!(sink.held().first_hole() >= 200_000, "{:?}", sink.held());
    write(&sink, 200_000, part(200_000, 250_000)).await?;
    write(&sink, 250_000, part(250_000, 700_000)).await?;
    let whole = ranges(&[(0, 700_000)]);
    sink.finish(Finish::whole(700_000).with_held(whole)).await?;
    assert!(bench.get("file").await? == bytes, "the file differs");
    Ok(())
}

pub(super) async fn a_second_upload_is_not_recorded<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    write(&sink, 0, b"01234").await?;
    sink.checkpoint(&ranges(&[(0, 5)]), false).await?;
    let second = bench.whole("file").await?;
    write(&second, 0, b"other").await?;
    let recorded = second.checkpoint(&ranges(&[(0, 5)]), false).await;
    refused(recorded, &[ErrorKind::Busy]);
    drop(second);
    assert_eq!(bench.held("file").await?, ranges(&[(0, 5)]));
    write(&sink, 5, b"56789").await?;
    sink.finish(Finish::whole(10)).await?;
    assert_eq!(bench.get("file").await?, b"0123456789");
    Ok(())
}

pub(super) async fn bytes_out_of_order_are_refused<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let sink = bench.whole("file").await?;
    sink.write_at(0, Bytes::from_static(b"0123")).await?;
    for offset in [0, 3, 5] {
        let written = sink.write_at(offset, Bytes::from_static(b"x")).await;
        refused(written, &[ErrorKind::Unsupported]);
    }
    sink.write_at(4, Bytes::from_static(b"4")).await?;
    sink.finish(Finish::whole(5)).await?;
    assert_eq!(bench.get("file").await?, b"01234");
    Ok(())
}

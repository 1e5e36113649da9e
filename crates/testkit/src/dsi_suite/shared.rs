//! Shared uploads: others write, the owner alone records and publishes.

use bytes::Bytes;
use gridftp_dsi::dsi::MAX_TOKEN;
use gridftp_dsi::{Create, Dsi, DsiPath, Error, ErrorKind, Finish, Sink, User};

use super::{Bench, Outcome, pattern, ranges, refused};

/// Kinds of refusal of a token.
const REFUSED: [ErrorKind; 3] = [ErrorKind::Denied, ErrorKind::Changed, ErrorKind::NotFound];

impl<D: Dsi> Bench<'_, D> {
    async fn join(&self, name: &str, token: &[u8]) -> Result<D::Sink, Error> {
        self.dsi.join(&self.user, &self.at(name), token).await
    }
}

pub(super) async fn joined_writes_are_published_by_the_owner<D: Dsi>(
    bench: &Bench<'_, D>,
) -> Outcome {
    let bytes = pattern(300_000, 1);
    let part =
        |from: usize, to: usize| Bytes::copy_from_slice(bytes.get(from..to).expect("within"));
    for (name, size) in [("small", Some(300)), ("file", Some(300_000)), ("any", None)] {
        let owner = bench.sink(name, Create::Whole { size }).await?;
        let token = owner.share(None).await?;
        assert!((1..=MAX_TOKEN).contains(&token.len()), "{}", token.len());
        let (one, two) = (
            bench.join(name, &token).await?,
            bench.join(name, &token).await?,
        );
        assert!(one.held().is_empty());
        one.write_at(200_000, part(200_000, 300_000)).await?;
        owner.write_at(0, part(0, 50_000)).await?;
        two.write_at(100_000, part(100_000, 200_000)).await?;
        owner.checkpoint(&ranges(&[(0, 50_000)]), false).await?;
        one.write_at(50_000, part(50_000, 100_000)).await?;
        let whole = ranges(&[(50_000, 100_000), (200_000, 300_000)]);
        one.checkpoint(&whole, true).await?;
        two.checkpoint(&ranges(&[(100_000, 200_000)]), false)
            .await?;
        // The joined sinks recorded nothing.
        assert_eq!(bench.held(name).await?, ranges(&[(0, 50_000)]));
        refused(bench.stat(name).await, &[ErrorKind::NotFound]);
        assert_eq!(owner.share(None).await?, token);
        drop(two);
        let done = Finish::whole(300_000).with_held(ranges(&[(0, 300_000)]));
        assert_eq!(owner.finish(done).await?.size, 300_000);
        assert!(bench.get(name).await? == bytes, "{name} differs");
        let late = one.write_at(0, Bytes::from_static(b"late")).await;
        refused(late, &[ErrorKind::Changed]);
        assert!(bench.get(name).await? == bytes, "{name} was written to");
        refused(bench.join(name, &token).await, &REFUSED);
    }
    Ok(())
}

pub(super) async fn a_joined_sink_does_not_publish<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let owner = bench.whole("file").await?;
    let token = owner.share(None).await?;
    let joined = bench.join("file", &token).await?;
    joined
        .write_at(0, Bytes::from_static(b"0123456789"))
        .await?;
    refused(joined.share(None).await, &[ErrorKind::Unsupported]);
    for done in [Finish::whole(10), Finish::as_is()] {
        let joined = bench.join("file", &token).await?;
        refused(joined.finish(done).await, &[ErrorKind::Denied]);
    }
    refused(joined.finish(Finish::whole(4)).await, &[ErrorKind::Denied]);
    assert!(bench.names("").await?.is_empty());
    assert_eq!(owner.finish(Finish::whole(10)).await?.size, 10);
    assert_eq!(bench.get("file").await?, b"0123456789");
    Ok(())
}

pub(super) async fn a_joined_sink_ends_with_its_owner<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let owner = bench.whole("file").await?;
    let token = owner.share(None).await?;
    let joined = bench.join("file", &token).await?;
    joined.write_at(0, Bytes::from(vec![1; 200_000])).await?;
    owner.checkpoint(&ranges(&[(0, 100_000)]), true).await?;
    drop(owner);
    let write = |at| joined.write_at(at, Bytes::from_static(b"late"));
    refused(write(0).await, &[ErrorKind::Changed]);
    refused(bench.join("file", &token).await, &REFUSED);
    for again in [true, false] {
        let owner = match again {
            true => bench.resume("file").await?,
            false => bench.whole("file").await?,
        };
        let held = if again { 100_000 } else { 0 };
        assert_eq!(owner.held(), ranges(&[(0, held)]));
        let next = owner.share(None).await?;
        refused(write(0).await, &[ErrorKind::Changed]);
        refused(bench.join("file", &token).await, &REFUSED);
        drop(bench.join("file", &next).await?);
    }
    Ok(())
}

pub(super) async fn a_forged_token_is_refused<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let owner = bench.whole("file").await?;
    let other = bench.whole("other").await?;
    let (token, foreign) = (owner.share(None).await?, other.share(None).await?);
    refused(bench.join("file", &foreign).await, &REFUSED);
    refused(bench.join("missing", &token).await, &REFUSED);
    refused(
        bench.join("", &token).await.map(drop),
        &[
            ErrorKind::Denied,
            ErrorKind::Changed,
            ErrorKind::IsDirectory,
        ],
    );
    for at in 0..token.len() {
        let mut forged = token.clone();
        if let Some(byte) = forged.get_mut(at) {
            *byte ^= 1;
        }
        refused(bench.join("file", &forged).await, &REFUSED);
        refused(
            bench
                .join("file", token.get(..at).unwrap_or_default())
                .await,
            &REFUSED,
        );
    }
    for forged in [vec![0; MAX_TOKEN], b"../../etc/passwd".to_vec()] {
        refused(bench.join("file", &forged).await, &REFUSED);
    }
    let stranger = User::new("stranger", DsiPath::root(), true);
    let at = bench.at("file");
    refused(bench.dsi.join(&stranger, &at, &token).await, &REFUSED);
    let reader = User::new("suite", DsiPath::root(), false);
    refused(
        bench.dsi.join(&reader, &at, &token).await,
        &[ErrorKind::Denied],
    );
    bench.join("file", &token).await?;
    Ok(())
}

pub(super) async fn every_kind_of_upload_can_be_shared<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let x = |at| (at, Bytes::from_static(b"X"));
    bench.put("update", b"0123456789").await?;
    let update = bench.sink("update", Create::Update { size: None }).await?;
    let joined = bench.join("update", &update.share(None).await?).await?;
    let (at, bytes) = x(3);
    joined.write_at(at, bytes).await?;
    assert_eq!(bench.get("update").await?, b"0123456789");
    update.finish(Finish::as_is()).await?;
    assert_eq!(bench.get("update").await?, b"012X456789");

    for how in [Create::InPlace { truncate: false }, Create::Append] {
        let place = bench.sink("update", how).await?;
        let joined = bench.join("update", &place.share(None).await?).await?;
        let (at, bytes) = x(5);
        joined.write_at(at, bytes).await?;
        assert_eq!(bench.get("update").await?, b"012X4X6789");
        joined.checkpoint(&ranges(&[(5, 6)]), true).await?;
        drop(joined);
        place.finish(Finish::as_is()).await?;
    }

    // The second of two uploads to one name cannot be continued, but it can be shared.
    let (first, second) = (bench.whole("two").await?, bench.whole("two").await?);
    let (one, two) = (first.share(None).await?, second.share(None).await?);
    for (token, bytes) in [(one, "first"), (two, "other")] {
        let joined = bench.join("two", &token).await?;
        joined
            .write_at(0, Bytes::from_static(bytes.as_bytes()))
            .await?;
    }
    first.finish(Finish::whole(5)).await?;
    assert_eq!(bench.get("two").await?, b"first");
    second.finish(Finish::whole(5)).await?;
    assert_eq!(bench.get("two").await?, b"other");
    Ok(())
}

pub(super) async fn unwritten_ranges_are_not_data<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let owner = bench.whole("file").await?;
    let joined = bench.join("file", &owner.share(None).await?).await?;
    owner.write_at(0, Bytes::from(pattern(10, 1))).await?;
    joined
        .write_at(900_000, Bytes::from(pattern(100_000, 2)))
        .await?;
    for sink in [&owner, &joined] {
        if let Some(data) = sink.data().await? {
            let written = ranges(&[(0, 10), (900_000, 1_000_000)]);
            assert_eq!(data.intersect(&written), written, "{data}");
            assert_eq!(data.end(), 1_000_000);
        }
    }
    Ok(())
}

pub(super) async fn discarded_uploads_can_be_shared<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    let owner = bench.whole("file").await?;
    let token = owner.share(None).await?;
    let joined = bench.join("file", &token).await?;
    joined.write_at(1 << 40, Bytes::from_static(b"x")).await?;
    let whole = Finish::whole((1 << 40) + 1);
    refused(joined.finish(whole.clone()).await, &[ErrorKind::Denied]);
    assert_eq!(owner.finish(whole).await?.size, (1 << 40) + 1);
    refused(bench.join("file", b"forged").await, &REFUSED);
    Ok(())
}

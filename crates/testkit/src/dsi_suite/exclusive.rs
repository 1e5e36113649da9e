//! Exclusive uploads: they never replace an object.

use gridftp_dsi::{Create, Dsi, ErrorKind, Finish, Sink};
use tokio::task::JoinSet;

use super::{Bench, Outcome, len, pattern, refused, write};

/// Lengths of files: in one block, and in parts.
const LENGTHS: [u32; 3] = [0, 3000, 300_000];

pub(super) async fn an_exclusive_upload_replaces_nothing<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    for length in LENGTHS {
        let (name, bytes) = (format!("file{length}"), pattern(length, 1));
        let size = Some(len(&bytes));
        for (how, is_first) in [
            (Create::Whole { size }, true),
            (Create::Whole { size }, false),
            (Create::Whole { size: None }, false),
            (Create::Resume { size }, false),
        ] {
            let sink = bench.sink(&name, how).await?;
            let sent = match is_first {
                true => bytes.clone(),
                false => pattern(length, 2),
            };
            write(&sink, 0, &sent).await?;
            let done = sink.finish(Finish::whole(len(&sent)).exclusive()).await;
            match is_first {
                true => assert_eq!(done?.size, len(&sent)),
                false => refused(done, &[ErrorKind::Exists]),
            }
            assert!(bench.get(&name).await? == bytes, "{name} was replaced");
        }
        assert!(bench.held(&name).await?.is_empty(), "a part is left");
    }
    Ok(())
}

pub(super) async fn one_of_many_exclusive_uploads_wins<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    for length in LENGTHS {
        let name = format!("file{length}");
        let size = Some(u64::from(length));
        let mut sinks = Vec::new();
        for number in 0..8 {
            let sink = bench.sink(&name, Create::Whole { size }).await?;
            write(&sink, 0, &pattern(length, number)).await?;
            sinks.push((number, sink));
        }
        let mut finishing = JoinSet::new();
        for (number, sink) in sinks {
            let done = Finish::whole(u64::from(length)).exclusive();
            finishing.spawn(async move { (number, sink.finish(done).await) });
        }
        let mut winners = Vec::new();
        for (number, finished) in finishing.join_all().await {
            match finished {
                Ok(_) => winners.push(number),
                // A store may refuse two at a time.
                Err(error) if error.kind() == ErrorKind::Busy => {}
                refusal => refused(refusal, &[ErrorKind::Exists]),
            }
        }
        let [winner] = winners.as_slice() else {
            panic!("{winners:?} have all won {name}");
        };
        assert!(bench.get(&name).await? == pattern(length, *winner));
    }
    Ok(())
}

pub(super) async fn an_exclusive_change_is_refused<D: Dsi>(bench: &Bench<'_, D>) -> Outcome {
    bench.put("file", b"0123456789").await?;
    let update = Create::Update { size: None };
    for how in [Create::InPlace { truncate: false }, Create::Append, update] {
        let sink = bench.sink("file", how).await?;
        let done = sink.finish(Finish::as_is().exclusive()).await;
        refused(done, &[ErrorKind::Unsupported]);
    }
    assert_eq!(bench.get("file").await?, b"0123456789");
    Ok(())
}

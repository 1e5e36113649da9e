//! Tests of the markers of transfers, their cancellation and their publication.

use tokio::time::{self, Instant};

use super::*;

/// A small file has no marker, and those of a large one tell its connections and its time.
#[tokio::test(start_paused = true)]
async fn markers_tell_waits_from_the_first_interval_on() {
    let (events, mut told) = mpsc::channel(64);
    let (_never, cancel) = oneshot::channel();
    let second = Duration::from_secs(1);
    let mut reporter = Reporter::at(events, cancel, Some(second), None);
    reporter.tell_waits();
    let watch = Watch::new();
    watch.measure();
    watch.connected(3);
    watch.open(false);
    let work = async {
        time::sleep(second * 5 / 2).await;
        Ok::<_, Error>(())
    };
    let kept = |_| std::future::ready(Ok(()));
    reporter.run(&watch, work, kept).await.unwrap();
    drop(reporter);
    assert_eq!(told.recv().await, Some(Event::Opened { reused: false }));
    for seconds in 1..=2 {
        let Some(Event::Moved { waits, .. }) = told.recv().await else {
            panic!("no marker");
        };
        let waits = waits.unwrap();
        assert_eq!((waits.moving, waits.connections), (second * seconds, 3));
    }
    assert_eq!(told.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn opening_gives_signs_of_life_as_often_as_markers() {
    for (markers, expected) in [(None, 3), (Some(20), 3), (Some(5), 6)] {
        let (events, mut told) = mpsc::channel(64);
        let (_never, cancel) = oneshot::channel();
        let markers = markers.map(Duration::from_secs);
        let mut reporter = Reporter::at(events, cancel, markers, None);
        let work = async {
            time::sleep(Duration::from_secs(34)).await;
            Ok::<_, Error>(())
        };
        reporter.run_patiently(work).await.unwrap();
        drop(reporter);
        let mut signs = 0;
        while let Some(event) = told.recv().await {
            assert_eq!(event, Event::Waiting);
            signs += 1;
        }
        assert_eq!(signs, expected, "{markers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn completing_gives_signs_of_life() {
    let (events, mut told) = mpsc::channel(64);
    let (_never, cancel) = oneshot::channel();
    let reporter = Reporter::at(events, cancel, Some(Duration::from_secs(5)), None);
    let work = time::sleep(Duration::from_secs(61));
    reporter.complete(&Watch::new(), work).await;
    drop(reporter);
    let mut signs = 0;
    while let Some(event) = told.recv().await {
        assert!(matches!(event, Event::Moved { .. }));
        signs += 1;
    }
    assert_eq!(signs, 12);
}

/// Ranges whose recording failed are told once they are recorded.
#[tokio::test(start_paused = true)]
async fn a_failed_recording_loses_no_marker() {
    let (events, mut told) = mpsc::channel(64);
    let (_never, cancel) = oneshot::channel();
    let every = Some(Duration::from_secs(1));
    let mut reporter = Reporter::at(events, cancel, None, every);
    let watch = Watch::new();
    watch.open(false);
    watch.record(&RangeSet::up_to(10)).unwrap();
    let work = async {
        time::sleep(Duration::from_millis(2500)).await;
        Ok::<_, Error>(())
    };
    let mut failures = 1;
    let kept = |_| {
        let fails = std::mem::take(&mut failures) > 0;
        let io = || gridftp_dsi::Error::new(gridftp_dsi::ErrorKind::Io, "sync");
        std::future::ready(if fails { Err(io()) } else { Ok(()) })
    };
    reporter.run(&watch, work, kept).await.unwrap();
    drop(reporter);
    assert_eq!(told.recv().await, Some(Event::Opened { reused: false }));
    assert_eq!(
        told.recv().await,
        Some(Event::Received(RangeSet::up_to(10)))
    );
    assert_eq!(told.recv().await, None);
}

/// Ranges that are being recorded when the session cancels are among the last markers.
#[tokio::test(start_paused = true)]
async fn a_cancellation_while_recording_loses_no_marker() {
    let (events, mut told) = mpsc::channel(64);
    let (abort, cancel) = oneshot::channel();
    let every = Some(Duration::from_secs(1));
    let mut reporter = Reporter::at(events, cancel, None, every);
    let watch = Watch::new();
    watch.open(false);
    watch.record(&RangeSet::up_to(10)).unwrap();
    let work = std::future::pending::<Result<(), Error>>();
    let mut abort = Some(abort);
    let kept = |_| {
        abort.take().unwrap().send(AbortedBy::Client).unwrap();
        std::future::pending()
    };
    let ended = reporter.run(&watch, work, kept).await;
    assert!(matches!(ended, Err(Error::Aborted(_))), "{ended:?}");
    reporter.last_marks(&watch).await;
    drop(reporter);
    assert_eq!(told.recv().await, Some(Event::Opened { reused: false }));
    assert_eq!(
        told.recv().await,
        Some(Event::Received(RangeSet::up_to(10)))
    );
}

/// A disk of the front end that does not answer must not hold an abort.
#[tokio::test(start_paused = true)]
async fn a_recording_that_hangs_does_not_hold_an_abort() {
    let (events, _told) = mpsc::channel(64);
    let (abort, cancel) = oneshot::channel();
    let mut reporter = Reporter::at(events, cancel, None, Some(Duration::from_secs(1)));
    let stop = CancellationToken::new();
    reporter.set_stop(stop.clone());
    let watch = Watch::new();
    watch.open(false);
    watch.record(&RangeSet::up_to(10)).unwrap();
    let work = async {
        stop.cancelled().await;
        // More than one interval of recording.
        time::sleep(Duration::from_secs(3)).await;
        Err::<(), Error>(NodeFault::NoNode.into())
    };
    let mut abort = Some(abort);
    let kept = |_| {
        let abort = abort.take().expect("one recording");
        abort.send(AbortedBy::Client).unwrap();
        std::future::pending()
    };
    let running = reporter.run(&watch, work, kept);
    let ended = time::timeout(Duration::from_secs(60), running).await;
    let ended = ended.expect("an end");
    assert!(matches!(ended, Err(Error::Aborted(_))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_and_a_lost_node_are_told_after_an_abort() {
    for fault in [NodeFault::Unknown, NodeFault::Silent] {
        let (events, _told) = mpsc::channel(64);
        let (abort, cancel) = oneshot::channel();
        let mut reporter = Reporter::at(events, cancel, None, None);
        let stop = CancellationToken::new();
        reporter.set_stop(stop.clone());
        abort.send(AbortedBy::Client).unwrap();
        let work = async {
            stop.cancelled().await;
            Err::<(), Error>(fault("one".into()).into())
        };
        let ended = reporter
            .run(&Watch::new(), work, |_| std::future::pending())
            .await;
        let told = ended.unwrap_err().to_string();
        assert_eq!(told, fault("one".into()).to_string());
    }
}

/// The node's question is faster than the end of the client's control connection.
#[tokio::test(start_paused = true)]
async fn a_publication_needs_a_client_that_is_still_there() {
    for leaves in [false, true] {
        let (events, _told) = mpsc::channel(64);
        let (abort, cancel) = oneshot::channel();
        let mut reporter = Reporter::at(events, cancel, None, None);
        reporter.set_stop(CancellationToken::new());
        let consent = reporter.take_publications();
        let mut abort = Some(abort);
        let work = async {
            let (agree, agreed) = oneshot::channel();
            consent.send(agree).await.unwrap();
            if leaves {
                abort.take().unwrap().send(AbortedBy::Client).unwrap();
            }
            Ok::<_, Error>(agreed.await.is_ok())
        };
        let watch = Watch::new();
        let running = reporter.run(&watch, work, |_| std::future::pending());
        let ended = time::timeout(Duration::from_secs(60), running).await;
        assert_eq!(ended.expect("an end").unwrap(), !leaves);
    }
}

/// Receives `rate` bytes a second for this time, in pieces of a tenth of a second.
async fn receive(watch: &Watch, rate: u64, lasting: Duration) -> Result<(), Error> {
    let tenth = Duration::from_millis(100);
    let piece = rate / 10;
    for n in 0..u64::try_from(lasting.as_millis() / tenth.as_millis()).unwrap() {
        let piece = byte_ranges::Range64::from_len(n * piece, piece);
        watch.record(&piece.into_iter().collect()).unwrap();
        time::sleep(tenth).await;
    }
    Ok(())
}

/// Markers keep their interval meanwhile.
#[tokio::test(start_paused = true)]
async fn a_kill_costs_the_data_of_a_second_or_64_mib() {
    const MIB: u64 = 1 << 20;
    for (rate, records) in [(MIB, 3), (40 * MIB, 17), (1024 * MIB, 17)] {
        let (events, mut told) = mpsc::channel(64);
        let (_never, cancel) = oneshot::channel();
        let every = Some(Duration::from_secs(5));
        let mut reporter = Reporter::at(events, cancel, None, every);
        reporter.record_between_markers();
        let watch = Watch::new();
        watch.open(false);
        let (mut recorded, mut lost, mut times) = (0, 0, 0);
        let kept = |new: RangeSet| {
            lost = lost.max(watch.received().total() - recorded);
            recorded += new.total();
            times += 1;
            std::future::ready(Ok(()))
        };
        let work = receive(&watch, rate, Duration::from_millis(17_500));
        reporter.run(&watch, work, kept).await.unwrap();
        drop(reporter);
        lost = lost.max(watch.received().total() - recorded);
        // The pieces before and behind a second.
        let most = (64 * MIB).max(rate + 2 * (rate / 10));
        assert!(lost <= most, "{lost} of {rate} a second");
        assert_eq!(times, records, "{rate} a second");
        let mut markers = RangeSet::new();
        let mut count = 0;
        while let Some(event) = told.recv().await {
            if let Event::Received(ranges) = event {
                markers.extend(&ranges);
                count += 1;
            }
        }
        assert_eq!(count, 3, "{rate} a second");
        assert!(markers.total() <= recorded && markers.total() >= 14 * rate);
    }
}

/// One record at a time, with a pause behind it, while data and signs of life go on.
#[tokio::test(start_paused = true)]
async fn a_slow_disk_holds_up_nothing() {
    // Also where each record has a marker.
    for markers in [60, 1].map(Duration::from_secs) {
        record_slowly(markers).await;
    }
}

async fn record_slowly(markers: Duration) {
    let takes = Duration::from_secs(3);
    let (events, mut told) = mpsc::channel(128);
    let (_never, cancel) = oneshot::channel();
    let second = Some(Duration::from_secs(1));
    let mut reporter = Reporter::at(events, cancel, second, Some(markers));
    reporter.record_between_markers();
    let watch = Watch::new();
    watch.open(false);
    let begun = Instant::now();
    let begins = std::sync::Mutex::new(Vec::new());
    let kept = |_| {
        begins.lock().unwrap().push(begun.elapsed());
        async move {
            time::sleep(takes).await;
            Ok(())
        }
    };
    let work = receive(&watch, 1 << 30, Duration::from_millis(15_500));
    reporter.run(&watch, work, kept).await.unwrap();
    drop(reporter);
    assert!(begun.elapsed() <= Duration::from_millis(15_500) + takes);
    let begins = begins.into_inner().unwrap();
    assert_eq!(begins.len(), 4, "{begins:?}");
    for pair in begins.windows(2) {
        assert!(
            pair[1] - pair[0] >= takes + Duration::from_secs(1),
            "{begins:?}"
        );
    }
    let mut signs = 0;
    while let Some(event) = told.recv().await {
        signs += u32::from(matches!(event, Event::Moved { .. }));
    }
    assert!(signs >= 15, "{signs}");
}

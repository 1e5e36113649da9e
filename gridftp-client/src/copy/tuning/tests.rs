//! A copy that is measured: its channels, its connections, and the memory of its path.

use std::num::NonZero;

use super::*;
use crate::copy::engine::Task;
use crate::copy::job::{FileJob, Item};
use crate::copy::state::CopyState;
use crate::progress::{Event, Observer, Totals};

const FAR: Route = Route {
    round_trip: Duration::from_millis(50),
    mode: Mode::Extended,
    is_between: false,
    tells: true,
    limits: true,
    files: 4,
    connections: None,
    over_udt: false,
};

/// The texts of the warnings of a copy.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Observer for Warnings {
    fn event(&self, event: &Event<'_>) {
        if let Event::Warning(text) = event {
            lock(&self.0).push((*text).to_owned());
        }
    }
}

fn width(streams: u32) -> Option<Width> {
    Some(Width::of_streams(streams))
}

fn wait_in(shared: &CopyState) {
    let job = FileJob::new(b"/a".to_vec(), b"/b".to_vec());
    shared.queue.push(Item::File(Box::new(job)));
}

/// Runs a copy of large files for so many periods, over a path that gives each stream and each file
/// so many bytes a second, up to its capacity.
async fn run(shared: &CopyState, periods: u32, [stream, file, capacity]: [u64; 3]) {
    let tuning = &shared.tuning;
    let mut channels = vec![(tuning.channel(width(tuning.streams())), tuning.streams())];
    for _ in 0..periods {
        tokio::time::sleep(PERIOD.0).await;
        let files = tuning.files().unwrap_or(1) as usize;
        channels.truncate(files);
        channels.retain(|(_, streams)| *streams == tuning.streams());
        while channels.len() < files {
            channels.push((tuning.channel(width(tuning.streams())), tuning.streams()));
        }
        let rate = |streams: u32| file.min(stream * u64::from(streams));
        let all: u64 = channels.iter().map(|(_, streams)| rate(*streams)).sum();
        shared.totals.moved(all.min(capacity));
    }
}

async fn tuned(shared: &CopyState, route: Route, path: [u64; 3]) {
    shared.begin_tuning(route).await;
    wait_in(shared);
    tokio::select! {
        biased;
        never = shared.tune(route) => match never {},
        () = run(shared, 200, path) => {}
    }
    shared.end_tuning(route).await;
}

#[tokio::test(start_paused = true)]
async fn what_served_best_is_the_start_of_the_next_copy() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = CopyState::plain();
    first.options.memory = Some(dir.path().join("paths"));
    tuned(&first, FAR, [5_000_000, u64::MAX, 60_000_000]).await;
    let told = lock(&first.totals.tuned).unwrap();
    let streams = told.streams.unwrap();
    let all = streams * told.files;
    assert!((11..=16).contains(&all), "{told:?}");
    assert!(told.rate >= 54_000_000, "{told:?}");
    for (memory, parallel, expected) in [
        (first.options.memory.clone(), None, streams),
        (None, None, STREAMS),
        (first.options.memory.clone(), Some(3), 3),
    ] {
        let mut next = CopyState::plain();
        (next.options.memory, next.options.parallel) = (memory, parallel);
        next.begin_tuning(FAR).await;
        assert_eq!(next.tuning.streams(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bound_holds_the_memory_and_leaves_it_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = [5_000_000, u64::MAX, 60_000_000];
    let of = |streams, files| {
        let mut shared = CopyState::plain();
        shared.options.memory = Some(dir.path().join("paths"));
        shared.options.max_parallel = NonZero::new(streams);
        shared.options.max_concurrency = NonZero::new(files);
        shared
    };
    let start = async |streams, files| {
        let next = of(streams, files);
        next.begin_tuning(FAR).await;
        next.tuning.streams()
    };
    let free = of(0, 0);
    tuned(&free, FAR, path).await;
    let best = lock(&free.totals.tuned).unwrap().streams.unwrap();
    assert!(best > 6, "{best} streams");
    let held = of(2, 3);
    tuned(&held, FAR, path).await;
    let told = lock(&held.totals.tuned).unwrap();
    assert!(told.streams.unwrap() <= 2 && told.files <= 3, "{told:?}");
    let reached = [&free, &held].map(|shared| shared.totals.samples.reached()[1]);
    assert_eq!(reached, [false, true]);
    // Of its own bounds, of none, and of others.
    assert_eq!(start(2, 3).await, told.streams.unwrap());
    assert_eq!(start(0, 0).await, best);
    assert_eq!(start(6, 0).await, 6);
}

#[test]
fn the_bounds_of_the_caller_hold_exact_numbers_and_those_of_the_rules() {
    let mut options = CopyOptions::default()
        .max_parallel(NonZero::new(3_u32))
        .max_concurrency(NonZero::new(2_u32));
    let most = Setting {
        streams: 3,
        files: 2,
    };
    assert_eq!(bounds(&options, FAR).most, most);
    (options.parallel, options.concurrency) = (Some(8), Some(8));
    let exact = bounds(&options, FAR);
    assert_eq!((exact.least, exact.most), (most, most));
}

#[tokio::test(start_paused = true)]
async fn files_at_once_follow_their_rate_and_the_caller() {
    let path = [u64::MAX >> 8, 10_000_000, 60_000_000];
    let shared = CopyState::plain();
    tuned(&shared, FAR, path).await;
    let told = lock(&shared.totals.tuned).unwrap();
    assert!((6..=8).contains(&told.files), "{told:?}");
    let mut fixed = CopyState::plain();
    fixed.options.concurrency = Some(1);
    tuned(&fixed, FAR, path).await;
    assert_eq!(lock(&fixed.totals.tuned).unwrap().files, 1);
    assert_eq!(fixed.tuning.files(), None);
}

#[tokio::test(start_paused = true)]
async fn a_near_path_is_left_to_the_rules() {
    let shared = CopyState::plain();
    let near = Route {
        round_trip: Duration::from_millis(1),
        ..FAR
    };
    tuned(&shared, near, [1_000_000, u64::MAX, u64::MAX]).await;
    assert_eq!(*lock(&shared.totals.tuned), None);
    assert_eq!(
        (shared.tuning.files(), shared.tuning.streams()),
        (None, STREAMS)
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_few_connections_is_tried_with_no_more() {
    let few = Route {
        connections: Some(5),
        ..FAR
    };
    let shared = CopyState::plain();
    // Each stream is worth as much as the one before.
    tuned(&shared, few, [1_000_000, u64::MAX, u64::MAX]).await;
    assert!(shared.tuning.streams() <= 5);
    let bounds = bounds(&shared.options, few);
    assert_eq!((bounds.least.streams, bounds.most.streams), (1, 5));
}

#[tokio::test]
async fn connections_come_and_go_with_the_files_at_once() {
    let shared = Arc::new(CopyState::plain());
    shared.begin_tuning(FAR).await;
    let tuning = &shared.tuning;
    let mut workers = [(); 3].map(|()| Some(working(&shared)));
    let leaves = |worker: &Option<Worker>| worker.as_ref().unwrap().leaves();
    assert!(!tuning.drains() && !workers.iter().any(leaves));
    tuning.state().files = Some(1);
    // As many pipelines end as are too many, and the workers of others may leave in their place.
    assert_eq!([(); 3].map(|()| tuning.drains()), [true, true, false]);
    assert_eq!(workers.each_ref().map(leaves), [true, true, false]);
    assert!(!tuning.drains());
    assert!(workers[0].take().unwrap().has_left());
    assert_eq!(tuning.state().workers(), 1);
    tuning.state().files = Some(4);
    wait_in(&shared);
    tuning.lacks(&shared.queue).await;
    // A server takes no more.
    tuning.note_refused();
    assert_eq!(tuning.files(), Some(1));
    let lacks = tuning.lacks(&shared.queue);
    let waited = tokio::time::timeout(Duration::from_millis(1), lacks).await;
    assert!(waited.is_err());
}

fn working(shared: &Arc<CopyState>) -> Worker {
    let worker = Worker::of(Arc::clone(shared), Task::Copy);
    worker.begin();
    worker
}

#[tokio::test]
async fn the_last_worker_stays_when_another_fails_while_one_leaves() {
    let shared = Arc::new(CopyState::plain());
    shared.tuning.state().files = Some(1);
    let [first, second, third] = [(); 3].map(|()| working(&shared));
    assert!(first.leaves());
    drop(second);
    assert!(!third.leaves());
    drop(first);
    assert!(!third.leaves() && !shared.tuning.drains());
}

#[tokio::test]
async fn a_worker_without_a_session_leaves_before_those_with_one() {
    let shared = Arc::new(CopyState::plain());
    let [first, second] = [(); 2].map(|()| working(&shared));
    let refused = Worker::of(Arc::clone(&shared), Task::Copy);
    let lister = Worker::of(Arc::clone(&shared), Task::List);
    shared.tuning.state().files = Some(2);
    assert!(!first.leaves() && !lister.leaves() && !shared.tuning.drains());
    // One that tries again may never have a session again.
    second.end();
    shared.tuning.state().files = Some(1);
    assert!(!first.leaves());
    assert!(refused.leaves() && second.leaves() && !first.leaves());
}

#[tokio::test(start_paused = true)]
async fn a_file_of_the_memory_that_is_none_is_told_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("paths");
    std::fs::write(&path, "not this").unwrap();
    let options = CopyOptions::default().memory(path);
    let (warnings, totals) = (Arc::new(Warnings::default()), Arc::new(Totals::default()));
    let observer = Arc::clone(&warnings) as Arc<dyn Observer>;
    let shared = CopyState::new(options, observer, totals, None, None, None);
    shared.begin_tuning(FAR).await;
    assert_eq!(lock(&warnings.0).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_polite_copy_tells_where_nobody_tells_the_round_trips() {
    for (polite, tells, expected) in [(true, true, 0), (false, false, 0), (true, false, 1)] {
        let warnings = Arc::new(Warnings::default());
        let mut shared = CopyState::plain();
        shared.observer = Arc::clone(&warnings) as Arc<dyn Observer>;
        shared.options.polite = polite;
        let between = Route {
            is_between: true,
            tells,
            ..FAR
        };
        shared.begin_tuning(between).await;
        assert_eq!(lock(&warnings.0).len(), expected, "{polite} {tells}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_polite_copy_gives_up_its_rate_where_somebody_bounds_it() {
    for (is_between, limits, expected) in [
        (false, true, true),
        (true, true, true),
        (true, false, false),
    ] {
        let limit = RateLimit::of_polite_copy_alone();
        let mut shared = CopyState::plain();
        shared.options.polite = true;
        let route = Route {
            is_between,
            limits,
            ..FAR
        };
        shared.begin_tuning(route).await;
        let (short, long) = (Duration::from_millis(50), Duration::from_millis(80));
        let one = Setting {
            streams: 1,
            files: 1,
        };
        let mut state = shared.tuning.state();
        let run = state.run.as_mut().unwrap();
        for round_trip in [short, long, long, long, long] {
            run.be_polite(&[(round_trip, short)], 1e6, one, Some(&limit));
        }
        assert_eq!(limit.least().is_some(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_polite_copy_gives_up_its_numbers_and_its_rate() {
    let limit = RateLimit::new(None).of_polite_copy();
    let mut shared = CopyState::plain();
    shared.options.polite = true;
    shared.options.connect.rate_limit = Some(limit.clone());
    shared.begin_tuning(FAR).await;
    let (short, long) = (Duration::from_millis(50), Duration::from_millis(80));
    let now = Setting {
        streams: 4,
        files: 4,
    };
    {
        let mut state = shared.tuning.state();
        let run = state.run.as_mut().unwrap();
        assert_eq!(
            run.be_polite(&[(short, short)], 1e6, now, Some(&limit)),
            None
        );
        let mut yields = None;
        for _ in 0..20 {
            yields = run.be_polite(&[(long, short)], 1e6, now, Some(&limit));
        }
        assert_eq!(yields, Some(1));
        assert_eq!(run.climber.asked().streams, 1);
    }
    assert!(limit.least() < Some(1_000_000) && limit.least().is_some());
    shared.end_tuning(FAR).await;
    assert_eq!(limit.least(), None);
}

#[tokio::test(start_paused = true)]
async fn a_yield_leaves_the_files_to_the_rules_again() {
    let mut shared = CopyState::plain();
    shared.options.polite = true;
    shared.begin_tuning(FAR).await;
    let (short, long) = (Duration::from_millis(50), Duration::from_millis(80));
    let now = Setting {
        streams: 1,
        files: 4,
    };
    let channels = [(); 4].map(|()| shared.tuning.channel(width(STREAMS)));
    let after = |round_trip: Duration, periods| {
        let mut state = shared.tuning.state();
        let polite = state.run.as_mut().unwrap().polite.as_mut().unwrap();
        for _ in 0..periods {
            polite.handle(&[(round_trip, short)], 1e6, now);
        }
        let polite = polite.bounds().most.files;
        // No setting was measured.
        state.take(PERIOD.0, Moved::default(), true, &shared.options);
        (state.files, polite)
    };
    assert_eq!(after(short, 1), (None, MOST_FILES.0));
    assert_eq!(after(long, 1), (Some(2), 2));
    assert_eq!(after(short, 10), (Some(4), 4));
    assert_eq!(after(short, 30), (None, MOST_FILES.0));
    drop(channels);
}

#[tokio::test(start_paused = true)]
async fn a_polite_copy_of_small_files_has_the_rate_of_its_bytes() {
    let limit = RateLimit::new(None).of_polite_copy();
    let mut shared = CopyState::plain();
    shared.options.polite = true;
    shared.options.connect.rate_limit = Some(limit.clone());
    shared.begin_tuning(FAR).await;
    let mut state = shared.tuning.state();
    let now = Setting {
        streams: 1,
        files: 1,
    };
    let (short, long) = (Duration::from_millis(50), Duration::from_millis(80));
    let run = state.run.as_mut().unwrap();
    for _ in 0..20 {
        run.be_polite(&[(long, short)], 1e6, now, Some(&limit));
    }
    assert!(limit.least().is_some());
    let moved = Moved {
        bytes: 100_000,
        files: 1000,
    };
    for _ in 0..40 {
        state.take(PERIOD.0, moved, true, &shared.options);
    }
    // It holds so few bytes back no longer.
    assert_eq!(limit.least(), None);
}

#[test]
fn the_bounds_hold_the_numbers_of_the_caller_and_of_the_rules() {
    for (parallel, concurrency, streams, files) in [
        (None, Some(16), STREAMS, 16),
        (Some(16), None, 16, FAR.files),
        (Some(16), Some(16), 16, 16),
        (None, None, STREAMS, FAR.files),
    ] {
        let mut options = CopyOptions::default();
        (options.parallel, options.concurrency) = (parallel, concurrency);
        let setting = Setting { streams, files };
        assert_eq!(bounds(&options, FAR).hold(setting), setting);
    }
}

#[tokio::test]
async fn a_polite_copy_keeps_to_the_sessions_that_a_server_takes() {
    let mut shared = CopyState::plain();
    shared.options.polite = true;
    shared.begin_tuning(FAR).await;
    let (short, long) = (Duration::from_millis(50), Duration::from_millis(80));
    let now = Setting {
        streams: 1,
        files: 8,
    };
    let mut state = shared.tuning.state();
    let run = state.run.as_mut().unwrap();
    run.refuse(2);
    for round_trip in [[long; 20], [short; 20]].concat() {
        run.be_polite(&[(round_trip, short)], 1e6, now, None);
        run.climber.bound(run.polite.as_ref().unwrap().bounds());
    }
    let bounds = run.polite.as_ref().unwrap().bounds();
    assert!(bounds.most.files <= 2, "{bounds:?}");
    let most = run.bounds.hold(Setting {
        streams: 1,
        files: 99,
    });
    assert_eq!(most.files, 2);
}

#[tokio::test(start_paused = true)]
async fn a_bounded_copy_is_not_remembered() {
    for (polite, rate_limit) in [(true, None), (false, Some(RateLimit::new(Some(1 << 40))))] {
        let dir = tempfile::tempdir().unwrap();
        let mut shared = CopyState::plain();
        shared.options.memory = Some(dir.path().join("paths"));
        (shared.options.polite, shared.options.connect.rate_limit) = (polite, rate_limit);
        tuned(&shared, FAR, [5_000_000, u64::MAX, 60_000_000]).await;
        assert!(lock(&shared.totals.tuned).is_some());
        assert!(!dir.path().join("paths").exists());
    }
}

//! Shares of simulated samples and of the waits that servers tell.

use super::*;

fn watch(moving: bool) -> Arc<Watch> {
    let watch = Arc::new(Watch::new());
    if moving {
        watch.open(false);
    }
    watch
}

fn shares(samples: &Samples) -> Vec<(Cause, f64)> {
    for _ in 0..LEAST {
        samples.take(0, false);
    }
    samples.explanation().unwrap().shares
}

#[test]
fn transfers_share_a_sample_and_those_that_open_count_where_none_moves() {
    let samples = Samples::default();
    for _ in 0..LEAST {
        samples.take(0, false);
    }
    assert!(samples.explanation().is_none());
    let (opening, up) = (watch(false), watch(true));
    let samples = Samples::default();
    samples.begin(&opening, Way::Upload);
    samples.begin(&up, Way::Upload);
    assert_eq!(shares(&samples), [(Cause::Network, 1.0)]);
    let (down, samples) = (watch(true), Samples::default());
    samples.begin(&down, Way::Download);
    samples.begin(&up, Way::Upload);
    let mut both = shares(&samples);
    both.sort_by_key(|(cause, _)| cause.name());
    assert_eq!(both, [(Cause::Network, 0.5), (Cause::Sender, 0.5)]);
    drop((down, up));
    let samples = Samples::default();
    samples.begin(&opening, Way::Download);
    drop(opening);
    assert_eq!(shares(&samples), [(Cause::Idle, 1.0)]);
    assert!(samples.state().running.is_empty());
    for _ in 0..LEAST {
        samples.take(0, true);
    }
    assert_eq!(shares(&samples).len(), 2);
    assert_eq!(samples.explanation().unwrap().first(), Some(Cause::Idle));
}

#[test]
fn the_remedy_names_the_bound_that_was_reached() {
    let remedy = |cause, reached| {
        let samples = Samples::default();
        samples.begin(&watch(true), Way::Upload);
        samples.reach(reached);
        samples.reach([false, false]);
        shares(&samples);
        let mut explanation = samples.explanation().unwrap();
        explanation.shares = vec![(cause, 1.0)];
        explanation.remedy().unwrap()
    };
    for (cause, exact, bound) in [
        (Cause::Path, "(--parallel)", "(--max-parallel)"),
        (Cause::Buffer, "(--parallel)", "(--max-parallel)"),
        (Cause::Idle, "(--concurrency)", "(--max-concurrency)"),
        (
            Cause::SourceStorage,
            "(--concurrency)",
            "(--max-concurrency)",
        ),
    ] {
        assert!(remedy(cause, [false, false]).contains(exact));
        let is_of_files = exact == "(--concurrency)";
        assert!(remedy(cause, [!is_of_files, is_of_files]).contains(bound));
        assert!(remedy(cause, [is_of_files, !is_of_files]).contains(exact));
    }
}

/// The shares of an upload that waited for a second, with these times of its connection in ms.
fn upload(busy: u64, receiver: u64, buffer: u64, limit: Option<u64>) -> Explanation {
    let (up, samples) = (watch(true), Samples::default());
    samples.begin(&up, Way::Upload);
    samples.limit(limit.map(|limit| RateLimit::new(Some(limit))));
    let mut path = PathStats::new();
    let time = |ms| Some(Duration::from_millis(ms));
    (path.busy, path.receiver_full, path.buffer_full) = (time(busy), time(receiver), time(buffer));
    (path.sent, path.retransmitted) = (Some(100), Some(1));
    samples.state().path = Some(path);
    for n in 1..=LEAST {
        samples.take(20 * n, false);
    }
    samples.explanation().unwrap()
}

#[test]
fn the_times_of_the_sender_divide_the_wait() {
    for (times, expected) in [
        (
            (1000, 500, 100),
            &[
                (Cause::Receiver, 0.5),
                (Cause::Path, 0.4),
                (Cause::Buffer, 0.1),
            ][..],
        ),
        ((300, 0, 0), &[(Cause::Machine, 0.7), (Cause::Path, 0.3)]),
        ((0, 0, 0), &[(Cause::Network, 1.0)]),
    ] {
        let shares = upload(times.0, times.1, times.2, None).shares;
        assert_eq!(shares.len(), expected.len(), "{shares:?}");
        for ((cause, share), (expected, part)) in shares.iter().zip(expected) {
            let is_near = (share - part).abs() < 1e-9;
            assert!(cause == expected && is_near, "{shares:?}");
        }
    }
    let explanation = upload(1000, 500, 100, None);
    assert!(explanation.remedy().unwrap().contains("tcp_rmem"));
    let text = explanation.to_string();
    assert!(
        text.contains("\n   50 %  waiting for the receiver"),
        "{text}"
    );
    assert!(text.contains("1.000 % of the segments"), "{text}");
}

/// Waits of a session with so many ms of data, storage, sending, and full buffers.
fn told(times: [u64; 5]) -> Waits {
    let mut waits = Waits::default();
    let [moving, storage, busy, receiver, buffer] = times.map(Duration::from_millis);
    (waits.moving, waits.storage, waits.busy) = (moving, storage, busy);
    (waits.receiver_full, waits.buffer_full) = (receiver, buffer);
    (waits.sent, waits.retransmitted) = (200, 1);
    waits
}

#[test]
fn the_waits_of_servers_divide_the_rest() {
    let down = watch(true);
    let samples = Samples::default();
    samples.begin(&down, Way::Download);
    samples.told(Role::Sender, told([2000, 500, 1000, 200, 0]));
    let near = |shares: &[(Cause, f64)], expected: &[(Cause, f64)]| {
        assert_eq!(shares.len(), expected.len(), "{shares:?}");
        for ((cause, share), (expected, part)) in shares.iter().zip(expected) {
            let is_near = (share - part).abs() < 1e-9;
            assert!(cause == expected && is_near, "{shares:?}");
        }
    };
    let expected = [
        (Cause::Path, 0.6),
        (Cause::ServerReading, 0.25),
        (Cause::Receiver, 0.15),
    ];
    near(&shares(&samples), &expected);
    assert_eq!(samples.explanation().unwrap().loss(), Some(0.005));

    // Between two servers, half of the time.
    let samples = Samples::default();
    let between = watch(true);
    samples.begin(&between, Way::Between);
    samples.told(Role::Sender, told([500, 0, 500, 250, 0]));
    samples.told(Role::Receiver, told([400, 100, 0, 0, 0]));
    let expected = [
        (Cause::Idle, 0.5),
        (Cause::Path, 0.25),
        (Cause::ServerWriting, 0.125),
        (Cause::Receiver, 0.125),
    ];
    near(&shares(&samples), &expected);
    // A server that tells nothing leaves it at that.
    let samples = Samples::default();
    samples.begin(&down, Way::Download);
    samples.told(Role::Sender, Waits::default());
    near(&shares(&samples), &[(Cause::Sender, 1.0)]);
}

#[test]
fn digests_of_passing_bytes_and_a_slow_server_explain_the_rest() {
    let explain = |way, role, waits: Waits| {
        let (data, samples) = (watch(true), Samples::default());
        samples.begin(&data, way);
        samples.told(role, waits);
        shares(&samples);
        samples.explanation().unwrap()
    };
    // A sender that hashes for half of the time, and has nothing ready for half of the rest.
    let mut waits = told([1000, 100, 200, 0, 0]);
    (waits.digests, waits.unready) = (Duration::from_millis(500), Duration::from_millis(200));
    let expected = [
        (Cause::ServerDigests, 0.5),
        (Cause::Path, 0.2),
        (Cause::Server, 0.2),
        (Cause::ServerReading, 0.1),
    ];
    for way in [Way::Download, Way::Between] {
        let explanation = explain(way, Role::Sender, waits);
        for (cause, part) in expected {
            let found = explanation.shares.iter().find(|(known, _)| *known == cause);
            assert!((found.unwrap().1 - part).abs() < 1e-9, "{explanation:?}");
        }
        assert!(explanation.remedy().unwrap().contains("--no-verify"));
    }
    let explanation = explain(Way::Upload, Role::Receiver, waits);
    let shares = [Cause::ServerDigests, Cause::Network, Cause::ServerWriting];
    assert!(
        explanation
            .shares
            .iter()
            .map(|(cause, _)| *cause)
            .eq(shares)
    );
}

#[test]
fn a_limit_that_is_reached_explains_the_wait() {
    assert_eq!(upload(1000, 500, 0, Some(1050)).first(), Some(Cause::Limit));
    assert_eq!(
        upload(1000, 900, 0, Some(1200)).first(),
        Some(Cause::Receiver)
    );
}

/// Their markers come every few seconds.
#[test]
fn a_limit_between_servers_explains_the_wait() {
    for (limit, expected) in [(1000, Cause::Limit), (4000, Cause::Path)] {
        let (between, samples) = (watch(true), Samples::default());
        samples.begin(&between, Way::Between);
        samples.limit(Some(RateLimit::new(Some(limit))));
        samples.told(Role::Sender, told([10_000, 0, 9000, 0, 0]));
        for second in 0..10 {
            for _ in 0..LEAST {
                samples.take(second / 5 * 5000, false);
            }
        }
        samples.take(10_000, false);
        assert_eq!(samples.explanation().unwrap().first(), Some(expected));
    }
}

#[test]
fn sessions_that_move_data_at_once_are_idle_at_once() {
    let samples = Samples::default();
    let both = [watch(true), watch(true)];
    for data in &both {
        samples.begin(data, Way::Between);
        samples.told(Role::Sender, told([500, 0, 500, 0, 0]));
    }
    for _ in 0..LEAST / 2 {
        samples.take(0, false);
    }
    drop(both);
    for _ in 0..LEAST / 2 {
        samples.take(0, false);
    }
    let mut shares = samples.explanation().unwrap().shares;
    shares.sort_by_key(|(cause, _)| cause.name());
    assert_eq!(shares, [(Cause::Idle, 0.5), (Cause::Path, 0.5)]);
}

#[test]
fn each_second_is_held_back_by_its_own_bound() {
    let (up, samples) = (watch(true), Samples::default());
    let limit = RateLimit::new(Some(1000)).of_polite_copy();
    samples.begin(&up, Way::Upload);
    samples.limit(Some(limit.clone()));
    let mut bytes = 0;
    for (bound, yielded, rate) in [
        (Some(1000), None, 1000),
        (Some(1000), Some(500), 500),
        (None, Some(500), 450),
        (None, None, 500),
        (Some(1000), None, 800),
    ] {
        limit.set(bound);
        limit.yield_to(yielded);
        for _ in 0..LEAST {
            bytes += rate / LEAST;
            samples.take(bytes, false);
        }
    }
    let mut shares = samples.explanation().unwrap().shares;
    shares.sort_by_key(|(cause, _)| cause.name());
    let causes = shares.iter().map(|(cause, _)| *cause);
    assert!(causes.eq([Cause::Limit, Cause::Network, Cause::Polite]));
    for ((_, share), expected) in shares.iter().zip([0.2, 0.4, 0.4]) {
        assert!((share - expected).abs() < 1e-9, "{shares:?}");
    }
}

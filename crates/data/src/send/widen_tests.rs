//! The search on simulated paths: capped connections, shared links, slow ends, lost packets.

use super::*;

/// Most periods until the number is final: eight changes, and the patience behind them.
const SOON: u32 = PATIENCE + 8 * (WARM + MEASURED);

/// Runs the search on a path of these rates, until the number is final; returns the numbers in
/// force, each once.
fn run(start: u32, most: u32, path: impl Fn(u32, u32) -> (u64, Option<Limit>)) -> Vec<u32> {
    run_losing(start, most, |n, at| {
        let (bytes, limit) = path(n, at);
        (bytes, limit, 0.0)
    })
}

/// The same on a path where this part of the packets is sent again.
fn run_losing(
    start: u32,
    most: u32,
    path: impl Fn(u32, u32) -> (u64, Option<Limit>, f64),
) -> Vec<u32> {
    let mut widening = Widening::new(start, most);
    let mut numbers = vec![widening.active()];
    for at in 0..SOON {
        if widening.is_final() {
            return numbers;
        }
        let (bytes, limit, resent) = path(widening.active(), at);
        let took = Duration::from_secs(1);
        widening.handle(&Period {
            took,
            bytes,
            limit,
            resent,
        });
        if numbers.last() != Some(&widening.active()) {
            numbers.push(widening.active());
        }
    }
    panic!("not final after {SOON} periods: {numbers:?}");
}

#[test]
fn capped_connections_widen_to_the_most() {
    let capped = |n, _| (u64::from(n) * 10_000_000, Some(Limit::Path));
    assert_eq!(run(4, 16, capped), [4, 8, 16]);
    assert_eq!(run(1, 6, capped), [1, 2, 4, 6]);
    assert_eq!(run(4, 4, capped), [4]);
    // Where the kernel tells no times the rate alone decides.
    assert_eq!(run(4, 16, |n, at| (capped(n, at).0, None)), [4, 8, 16]);
}

#[test]
fn a_full_link_stays_at_its_start() {
    assert_eq!(
        run(4, 16, |_, _| (100_000_000, Some(Limit::Path))),
        [4, 8, 4]
    );
    // A gain within the noise is none.
    let noisy = |n, at| {
        (
            100_000_000 + u64::from(n) * 500_000 + u64::from(at % 2),
            None,
        )
    };
    assert_eq!(run(4, 16, noisy), [4, 8, 4]);
}

#[test]
fn a_gain_up_to_eight_ends_at_eight() {
    let shared = |n: u32, _| (u64::from(n.min(8)) * 10_000_000, Some(Limit::Buffer));
    assert_eq!(run(4, 16, shared), [4, 8, 16, 8]);
    assert_eq!(run(2, 16, shared), [2, 4, 8, 16, 8]);
}

#[test]
fn a_slow_end_is_not_widened_for() {
    for limit in [Limit::Receiver, Limit::Source] {
        let slow = |n, _| (u64::from(n) * 10_000_000, Some(limit));
        assert_eq!(run(4, 16, slow), [4], "{limit:?}");
    }
    // One that was slow at first only, as while a file is fetched from tape.
    let late = |n, at| match at {
        0..8 => (0, None),
        8..16 => (1000, Some(Limit::Source)),
        _ => (u64::from(n) * 10_000_000, Some(Limit::Path)),
    };
    assert_eq!(run(4, 16, late), [4, 8, 16]);
}

/// Connections that lose packets share the loss, until they change to BBR and fill the link.
#[test]
fn connections_that_crowd_each_other_are_given_up() {
    let changed = |n: u32, at: u32| match at {
        0..7 => (u64::from(n) * 10_000_000, None, 0.001),
        _ => (200_000_000, None, 0.0075 * f64::from(n)),
    };
    assert_eq!(run_losing(4, 16, changed), [4, 8, 16, 8, 4, 2, 4, 2]);
    assert_eq!(run_losing(4, 16, |n, at| changed(n, at + 7)), [4, 2, 4, 2]);
    // As many as the rate needs.
    let needed = |n: u32, _| (u64::from(n.min(4)) * 50_000_000, None, 0.05);
    assert_eq!(run_losing(8, 9, needed), [8, 4, 2, 4]);
    // Others crowd them for a while, which takes from their rate, too.
    let crowded_until = |end: u32| {
        run_losing(4, 16, move |n, at| match at < end {
            true => (u64::from(n) * 5_000_000, None, 0.1),
            false => (u64::from(n) * 10_000_000, None, 0.0),
        })
    };
    assert_eq!(crowded_until(3), [4, 8, 16]);
    assert_eq!(crowded_until(6), [4, 2, 4, 8, 16]);
}

#[test]
fn more_connections_share_the_loss_of_the_path_itself() {
    let lossy = |n: u32, _| (u64::from(n) * 10_000_000, None, 0.05);
    assert_eq!(run_losing(4, 16, lossy), [4, 2, 4, 8, 16]);
    // A gain that is sent again is none.
    let again = |n: u32, _| (u64::from(n) * 10_000_000, None, 0.009 * f64::from(n / 8));
    assert_eq!(run_losing(4, 16, again), [4, 8, 16]);
    let more = |n: u32, _| {
        (
            95_000_000 + u64::from(n) * 1_500_000,
            None,
            [0.0, 0.015][usize::from(n > 4)],
        )
    };
    assert_eq!(run_losing(4, 16, more), [4, 8, 4]);
}

/// A source that stands still once, on a link that loses more with more connections.
#[test]
fn a_search_that_is_led_astray_ends() {
    let mut since = (0, 0);
    let mut widening = Widening::new(4, 16);
    for _ in 0..10 * SOON {
        let n = widening.active();
        since = if since.0 == n {
            (n, since.1 + 1)
        } else {
            (n, 0)
        };
        let (bytes, resent, limit) = match since {
            (4, _) => (100, 0.025, Limit::Path),
            (_, 0..=2) => (100, 0.0, Limit::Source),
            _ => (70, 0.0, Limit::Path),
        };
        widening.handle(&Period {
            took: Duration::from_secs(1),
            bytes: bytes * 1_000_000,
            limit: Some(limit),
            resent,
        });
    }
    assert!(widening.is_final());
}

/// New connections send too much at first.
#[test]
fn packets_sent_again_in_slow_start_do_not_end_the_search() {
    let mut since = (0, 0);
    let mut widening = Widening::new(4, 16);
    while !widening.is_final() {
        let n = widening.active();
        since = if since.0 == n {
            (n, since.1 + 1)
        } else {
            (n, 0)
        };
        widening.handle(&Period {
            took: Duration::from_secs(1),
            bytes: u64::from(n) * 10_000_000,
            limit: None,
            resent: if since.1 < 2 { 0.1 } else { 0.0 },
        });
    }
    assert_eq!(widening.active(), 16);
}

#[test]
fn periods_in_slow_start_do_not_count() {
    let mut seen = 0;
    let mut widening = Widening::new(4, 16);
    while !widening.is_final() {
        // The first period behind each change brings nothing.
        let warm = std::mem::replace(&mut seen, widening.active()) != widening.active();
        let bytes = if warm { 0 } else { u64::from(seen) * 1_000_000 };
        let took = Duration::from_secs(1);
        widening.handle(&Period {
            took,
            bytes,
            limit: None,
            resent: 0.0,
        });
    }
    assert_eq!(widening.active(), 16);
}

#[test]
fn a_period_has_ten_round_trips_within_bounds() {
    for (ms, seconds) in [(0, 1), (90, 1), (300, 3), (60_000, 10)] {
        let period = Widening::period(Some(Duration::from_millis(ms)));
        assert_eq!(period, Duration::from_secs(seconds));
    }
    assert_eq!(Widening::period(None), PERIOD);
}

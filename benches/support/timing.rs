//! Times one small thing: repeats it until the clock can see it, and prints the best of several rounds.

use std::hint::black_box;
use std::time::{Duration, Instant};

const ROUND: Duration = Duration::from_millis(200);
const ROUNDS: usize = 5;

/// Returns the nanoseconds of one call of `work`, the best of several rounds.
pub fn nanoseconds<T>(mut work: impl FnMut() -> T) -> f64 {
    let mut calls = 1_u32;
    // Long enough rounds first, so that reading the clock does not count.
    while round(&mut work, calls) < ROUND && calls < u32::MAX / 2 {
        calls *= 2;
    }
    let best = (0..ROUNDS)
        .map(|_| round(&mut work, calls))
        .min()
        .unwrap_or_default();
    best.as_secs_f64() * 1e9 / f64::from(calls)
}

fn round<T>(work: &mut impl FnMut() -> T, calls: u32) -> Duration {
    let started = Instant::now();
    for _ in 0..calls {
        black_box(work());
    }
    started.elapsed()
}

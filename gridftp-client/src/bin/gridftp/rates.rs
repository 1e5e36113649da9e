//! Rates over the time of a measurement, and their picture.

use std::time::Duration;

/// Steps of a picture.
const STEPS: u32 = 16;

/// The rates in equal parts of the time, in bytes a second.
pub(crate) fn samples(marks: &[(Duration, u64)], took: Duration) -> Vec<u64> {
    let part = took / STEPS;
    let mut before = 0;
    let rates = (1..=STEPS).map(|step| {
        // The number of bytes at the end of the part lies on the line between two marks.
        let at = part * step;
        let behind = marks.iter().find(|(time, _)| *time >= at);
        let ahead = marks.iter().rev().find(|(time, _)| *time < at);
        let (from, low) = ahead.copied().unwrap_or_default();
        let (to, high) = behind.or_else(|| marks.last()).copied().unwrap_or_default();
        let span = (to.saturating_sub(from)).as_nanos().max(1);
        let share = u128::from(high - low) * at.saturating_sub(from).as_nanos().min(span) / span;
        let bytes = low + u64::try_from(share).unwrap_or(0);
        let rate = per_second(bytes.saturating_sub(before), part);
        before = bytes;
        rate
    });
    rates.collect()
}

/// The rate of so many bytes, a second.
pub(crate) fn per_second(bytes: u64, took: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / took.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// The part of `steps` that `rate` is of the highest, at least one for any.
pub(crate) fn share(rate: u64, highest: u64, steps: usize) -> usize {
    let all = u128::from(rate) * steps as u128;
    let part = all.div_ceil(u128::from(highest.max(1)));
    usize::try_from(part).unwrap_or(steps).min(steps)
}

/// The course of a rate in blocks of eight heights.
pub(crate) fn picture(samples: &[u64]) -> String {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = samples.iter().copied().max().unwrap_or(0);
    let height = |rate| HEIGHTS.get(share(rate, highest, HEIGHTS.len() - 1));
    samples.iter().filter_map(|rate| height(*rate)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_lie_between_marks() {
        let second = Duration::from_secs(1);
        let steady = samples(&[(second * 8, 800), (second * 16, 1600)], second * 16);
        assert_eq!(steady, [100; 16]);
        let late = samples(&[(second * 8, 0), (second * 16, 1600)], second * 16);
        assert_eq!(late.split_at(8), (&[0; 8][..], &[200; 8][..]));
        assert_eq!(picture(&late), "        ████████");
        assert_eq!(samples(&[(Duration::ZERO, 0)], Duration::ZERO), [0; 16]);
    }

    #[test]
    fn a_small_rate_shows() {
        assert_eq!(
            [share(1, 1000, 16), share(1000, 1000, 16), share(0, 0, 16)],
            [1, 16, 0]
        );
    }
}

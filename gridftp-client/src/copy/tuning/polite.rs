//! `Polite`: yields a path to others while its round trip is longer than half above the least one.
//!
//! A queue grows before a router of it loses packets, so that this works on paths that lose none. The
//! streams of a file are halved first, then the files at once, then the rate, and rise again when the
//! queue is gone. It knows no clock: each period is an input.

use std::time::Duration;

use super::bounds::{Bounds, Setting};
use super::distance::RoundTrip;

/// Parts of the least round trip, in percent, above which a path is left to others, and up to which
/// it has room.
const LONG: u32 = 150;
const SHORT: u32 = 125;
/// What a round trip must be longer by in any case: a receiver's is of whole milliseconds.
const SLACK: Duration = Duration::from_millis(2);
/// Part of the rate that is left, and that a period with room adds to it.
const LESS: f64 = 0.7;
const MORE: f64 = 1.1;
/// Least bound on the rate, in bytes a second, so that a copy never starves.
const FLOOR: f64 = 65_536.0;
/// Bound that is given up, as a multiple of the rate: it holds nothing back.
const LOOSE: f64 = 2.0;
/// Periods between two reductions, and with room before a number rises again.
const PAUSE: u32 = 2;
const CALM: u32 = 10;

/// The bounds that a path has room for.
#[derive(Debug)]
pub(crate) struct Polite {
    /// Those without any other traffic.
    own: Bounds,
    now: Bounds,
    /// Bytes a second.
    rate: Option<f64>,
    /// Whether there is one to bound.
    has_rate: bool,
    since: u32,
    calm: u32,
}

impl Polite {
    pub(crate) fn new(own: Bounds) -> Self {
        Self {
            own,
            now: own,
            rate: None,
            has_rate: true,
            since: PAUSE,
            calm: 0,
        }
    }

    /// Leaves out the rate, which nobody bounds between servers without `SITE RATE`.
    pub(crate) fn without_rate(self) -> Self {
        let has_rate = false;
        Self { has_rate, ..self }
    }

    /// The bounds of streams and files.
    pub(crate) fn bounds(&self) -> Bounds {
        self.now
    }

    /// Lowers the files at once to the most that a server takes, which no room raises again.
    pub(crate) fn refuse(&mut self, most: u32) {
        self.own.refuse(most);
        self.now.refuse(most);
    }

    /// The bound on the rate in bytes a second; `None` for none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above 0, and a float saturates"
    )]
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate.map(|rate| rate as u64)
    }

    /// Takes a period with its smoothed round trips, and the least ones of the same peers, in which
    /// `rate` bytes a second moved with the numbers of `setting`. Data that nothing measures has room
    /// after some periods: small files may end too soon to be measured at all.
    pub(super) fn handle(&mut self, round_trips: &[RoundTrip], rate: f64, setting: Setting) {
        self.since = self.since.saturating_add(1);
        if round_trips.is_empty() {
            self.calm = self.calm.saturating_add(u32::from(rate > 0.0));
            if rate > 0.0 && self.calm >= CALM {
                self.raise(rate);
            }
            return;
        }
        let is_long = |parts| {
            let exceeds = |(now, least): &RoundTrip| {
                *now * 100 > *least * parts && *now > *least + SLACK * (parts - 100) / (LONG - 100)
            };
            round_trips.iter().any(exceeds)
        };
        if is_long(LONG) {
            self.calm = 0;
            if self.since >= PAUSE {
                self.since = 0;
                self.reduce(rate, setting);
            }
        } else if !is_long(SHORT) {
            self.calm = self.calm.saturating_add(1);
            self.raise(rate);
        }
    }

    fn reduce(&mut self, rate: f64, setting: Setting) {
        let half = |now: u32, used: u32, least: u32| (now.min(used) / 2).max(least);
        let (most, least) = (self.now.most, self.now.least);
        let streams = half(most.streams, setting.streams, least.streams);
        let files = half(most.files, setting.files, least.files);
        if streams < most.streams.min(setting.streams) {
            self.now.most.streams = streams;
        } else if files < most.files.min(setting.files) {
            self.now.most.files = files;
        } else if self.has_rate {
            let now = self.rate.map_or(rate, |bound| bound.min(rate));
            self.rate = Some((now * LESS).max(FLOOR));
        }
    }

    fn raise(&mut self, rate: f64) {
        if let Some(bound) = self.rate {
            self.rate = Some(bound * MORE).filter(|_| bound <= LOOSE * rate);
        } else if self.calm >= CALM {
            self.calm = 0;
            let (now, own) = (&mut self.now.most, self.own.most);
            let more = |now: u32, own: u32| now.saturating_mul(2).min(own);
            match now.files < own.files {
                true => now.files = more(now.files, own.files),
                false => now.streams = more(now.streams, own.streams),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Bounds = Bounds {
        least: Setting {
            streams: 1,
            files: 1,
        },
        most: Setting {
            streams: 16,
            files: 8,
        },
        connections: 32,
    };

    const SHORTEST: Duration = Duration::from_millis(40);

    /// A path of 40 ms with a deep buffer that loses nothing: the queue takes what exceeds its rate.
    struct Path {
        capacity: f64,
        /// Rate of the others.
        others: f64,
        queue: f64,
    }

    impl Path {
        /// Moves a second of the copy, which sends as much as it may; gives its round trip and rate.
        fn period(&mut self, polite: &Polite, streams: u32) -> (Duration, f64) {
            let wants = f64::from(streams) * self.capacity / 4.0;
            let sent = polite.rate.map_or(wants, |bound| bound.min(wants));
            let room = self.capacity - self.others;
            // Windows bound the queue to half a second.
            let most = self.capacity / 2.0;
            self.queue = (self.queue + sent - room).clamp(0.0, most);
            let round_trip = 0.040 + self.queue / self.capacity;
            (Duration::from_secs_f64(round_trip), sent.min(room))
        }
    }

    fn run(polite: &mut Polite, path: &mut Path, periods: u32) -> Vec<(Duration, f64)> {
        let mut told = Vec::new();
        for _ in 0..periods {
            let setting = OWN.hold(Setting {
                streams: polite.bounds().most.streams.min(8),
                files: polite.bounds().most.files.min(2),
            });
            let streams = setting.streams * setting.files;
            let (round_trip, rate) = path.period(polite, streams);
            polite.handle(&[(round_trip, SHORTEST)], rate, setting);
            told.push((round_trip, rate));
        }
        told
    }

    #[test]
    fn streams_go_first_then_files_then_the_rate() {
        let mut polite = Polite::new(OWN);
        let (short, long) = (Duration::from_millis(40), Duration::from_millis(61));
        let setting = Setting {
            streams: 4,
            files: 2,
        };
        polite.handle(&[(short, short)], 1e6, setting);
        let mut seen = Vec::new();
        for _ in 0..4 * PAUSE {
            polite.handle(&[(long, short)], 1e6, setting);
            let now = (polite.now.most, polite.rate());
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        let most = |streams, files| Setting { streams, files };
        let rate = Some(700_000);
        let expected = [
            (most(2, 8), None),
            (most(1, 8), None),
            (most(1, 1), None),
            (most(1, 1), rate),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn numbers_alone_are_reduced_where_there_is_no_rate_to_bound() {
        let mut polite = Polite::new(OWN).without_rate();
        let (short, long) = (Duration::from_millis(40), Duration::from_millis(61));
        for _ in 0..20 * PAUSE {
            polite.handle(&[(long, short)], 1e6, OWN.most);
        }
        assert_eq!((polite.bounds().most, polite.rate()), (OWN.least, None));
        for _ in 0..8 * CALM {
            polite.handle(&[(short, short)], 1e6, OWN.least);
        }
        assert_eq!(polite.bounds(), OWN);
    }

    #[test]
    fn half_above_the_least_round_trip_is_the_limit() {
        let mut polite = Polite::new(OWN);
        let setting = OWN.most;
        let least = Duration::from_millis(40);
        for ms in [50, 60, 60, 60, 60] {
            polite.handle(&[(Duration::from_millis(ms), least)], 1e6, setting);
        }
        assert_eq!(polite.bounds(), OWN);
        polite.handle(&[(Duration::from_millis(61), least)], 1e6, setting);
        assert_ne!(polite.bounds(), OWN);
    }

    #[test]
    fn a_path_without_loss_is_left_to_others_and_taken_again() {
        let mut polite = Polite::new(OWN);
        let mut path = Path {
            capacity: 1e8,
            others: 0.0,
            queue: 0.0,
        };
        polite.handle(&[(SHORTEST, SHORTEST)], 0.0, OWN.most);
        path.others = 6e7;
        run(&mut polite, &mut path, 200);
        let told = run(&mut polite, &mut path, 200);
        let long = told
            .iter()
            .filter(|(round_trip, _)| *round_trip > Duration::from_millis(100));
        assert!(long.count() < 20, "{told:?}");
        let mean = told.iter().map(|(_, rate)| rate).sum::<f64>() / 200.0;
        assert!(mean > 0.5 * 4e7, "{mean}");
        path.others = 0.0;
        let told = run(&mut polite, &mut path, 300);
        let last: f64 = told
            .iter()
            .rev()
            .take(100)
            .map(|(_, rate)| rate)
            .sum::<f64>()
            / 100.0;
        assert!(last > 0.6e8, "{last}");
    }

    #[test]
    fn a_copy_never_starves() {
        let mut polite = Polite::new(OWN);
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(9));
        polite.handle(&[(short, short)], 1e6, OWN.least);
        for _ in 0..1000 {
            polite.handle(&[(long, short)], 0.0, OWN.least);
        }
        assert_eq!(polite.rate(), Some(65_536));
    }

    #[test]
    fn data_that_nothing_measures_takes_its_rate_again() {
        let mut polite = Polite::new(OWN);
        let (short, long) = (Duration::from_millis(10), Duration::from_millis(90));
        for _ in 0..100 {
            polite.handle(&[(long, short)], 1e6, OWN.least);
        }
        let low = polite.rate();
        assert!(low < Some(1_000_000));
        for _ in 0..100 {
            polite.handle(&[], 0.0, OWN.least);
        }
        assert_eq!(polite.rate(), low, "nothing moved");
        for _ in 1..CALM {
            polite.handle(&[], 1e6, OWN.least);
        }
        assert_eq!(polite.rate(), low, "too soon");
        for _ in 0..200 {
            polite.handle(&[], 1e6, OWN.least);
        }
        assert_eq!((polite.bounds(), polite.rate()), (OWN, None));
    }

    #[test]
    fn each_path_is_compared_with_itself() {
        let mut polite = Polite::new(OWN);
        let ms = Duration::from_millis;
        let mut run = |now: [Duration; 2]| {
            let [download, upload] = now;
            for _ in 0..20 {
                polite.handle(&[(download, ms(10)), (upload, ms(100))], 1e6, OWN.most);
            }
            polite.bounds() == OWN && polite.rate().is_none()
        };
        assert!(run([ms(14), ms(110)]));
        assert!(!run([ms(10), ms(160)]));
    }

    #[test]
    fn a_coarse_measurement_of_a_short_path_is_no_queue() {
        let mut polite = Polite::new(OWN);
        let least = Duration::from_micros(200);
        for _ in 0..20 {
            polite.handle(&[(Duration::from_millis(2), least)], 1e6, OWN.most);
        }
        assert_eq!((polite.bounds(), polite.rate()), (OWN, None));
        polite.handle(&[(Duration::from_millis(3), least)], 1e6, OWN.most);
        assert_ne!(polite.bounds(), OWN);
    }
}

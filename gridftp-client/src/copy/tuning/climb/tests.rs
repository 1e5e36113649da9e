//! The climber on simulated paths: it finds nearly the best setting, keeps its bounds, and rests.

use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds {
    least: Setting {
        streams: 1,
        files: 1,
    },
    most: Setting {
        streams: 16,
        files: 16,
    },
    connections: 32,
};

/// A simulated path, in MB a second.
#[derive(Debug, Clone, Copy)]
struct Path {
    capacity: f64,
    /// Rate of one stream.
    window: f64,
    /// Rate of one file, that of a disk or a core at one end.
    file: f64,
    /// Connections beyond which each costs 3 % of the rate, and loses segments.
    crowd: u32,
    /// Sessions that the server allows.
    sessions: u32,
    limit: Option<Limit>,
}

const PLAIN: Path = Path {
    capacity: 100.0,
    window: 1000.0,
    file: 1000.0,
    crowd: 1000,
    sessions: 64,
    limit: None,
};

impl Path {
    fn rate(&self, setting: Setting) -> f64 {
        let files = setting.files.min(self.sessions);
        let connections = setting.streams * files;
        let excess = f64::from(connections.saturating_sub(self.crowd));
        let file = self.file.min(f64::from(setting.streams) * self.window);
        self.capacity.min(f64::from(files) * file) * (1.0 - 0.03 * excess).max(0.1)
    }

    /// The rate less the cost of the connections.
    fn score(&self, setting: Setting) -> f64 {
        let connections = setting.streams * setting.files.min(self.sessions);
        self.rate(setting) / COST.powf(f64::from(connections))
    }

    /// A period of a second, with so much noise in percent.
    fn period(&self, asked: Setting, noise: f64) -> Period {
        let in_force = Setting {
            files: asked.files.min(self.sessions),
            ..asked
        };
        let excess = (in_force.connections()).saturating_sub(self.crowd);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is small"
        )]
        let bytes = (self.rate(in_force) * (1.0 + noise / 100.0) * 1e6) as u64;
        Period {
            took: Duration::from_secs(1),
            bytes,
            in_force,
            has_streams: true,
            waits: true,
            sender: self.limit.map(|limit| Sender {
                limit: Some(limit),
                loss: f64::from(excess) * 1e-3,
            }),
        }
    }
}

/// The best of all settings.
fn best(of: impl Fn(Setting) -> f64) -> f64 {
    let settings = (1..=BOUNDS.most.streams)
        .flat_map(|streams| (1..=BOUNDS.most.files).map(move |files| Setting { streams, files }));
    let allowed = settings.filter(|setting| BOUNDS.hold(*setting) == *setting);
    allowed.map(of).fold(0.0, f64::max)
}

/// Runs a copy of so many periods with noise of up to 2 %; gives the settings that were asked for.
fn run(climber: &mut Climber, path: &Path, periods: u32, seed: u32) -> Vec<Setting> {
    let mut random = seed | 1;
    let mut asked = Vec::new();
    for _ in 0..periods {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let noise = f64::from(random % 401) / 100.0 - 2.0;
        climber.handle(&path.period(climber.asked(), noise));
        asked.push(climber.asked());
    }
    asked
}

fn start(streams: u32, files: u32) -> Climber {
    Climber::new(Setting { streams, files }, BOUNDS)
}

#[test]
fn nearly_the_best_setting_is_found_on_each_kind_of_path() {
    let (window, file, sessions, crowd) = (7.0, 30.0, 3, 6);
    for path in [
        PLAIN,
        Path { window, ..PLAIN },
        Path { file, ..PLAIN },
        Path {
            window,
            file,
            ..PLAIN
        },
        Path {
            file,
            sessions,
            ..PLAIN
        },
        Path {
            window: 20.0,
            crowd,
            ..PLAIN
        },
        Path {
            window,
            limit: Some(Limit::Path),
            ..PLAIN
        },
        Path {
            window,
            limit: Some(Limit::Buffer),
            ..PLAIN
        },
    ] {
        for streams in [1, 4, 16] {
            let mut climber = start(streams, 1);
            run(&mut climber, &path, 300, streams);
            let (asked, best) = (climber.asked(), best(|setting| path.rate(setting)));
            let rate = path.rate(asked);
            assert!(rate >= 0.9 * best, "{path:?}: {asked:?}: {rate} of {best}");
        }
    }
}

#[test]
fn one_stream_of_one_file_is_left_where_it_is_enough() {
    for streams in [1, 4, 16] {
        let mut climber = start(streams, 1);
        run(&mut climber, &PLAIN, 300, 7);
        let connections = climber.asked().connections();
        assert!(connections <= 2, "{streams}: {:?}", climber.asked());
    }
}

#[test]
fn a_sender_that_others_hold_up_opens_no_more_streams() {
    for limit in [Limit::Receiver, Limit::Source] {
        let path = Path {
            window: 7.0,
            limit: Some(limit),
            ..PLAIN
        };
        let mut climber = start(2, 1);
        let asked = run(&mut climber, &path, 200, 3);
        assert!(asked.iter().all(|asked| asked.streams <= 2), "{limit:?}");
    }
}

#[test]
fn numbers_that_the_caller_gave_stay() {
    let fixed = Setting {
        streams: 3,
        files: 2,
    };
    for (streams, files) in [(true, false), (false, true), (true, true)] {
        let mut bounds = BOUNDS;
        if streams {
            (bounds.least.streams, bounds.most.streams) = (fixed.streams, fixed.streams);
        }
        if files {
            (bounds.least.files, bounds.most.files) = (fixed.files, fixed.files);
        }
        let mut climber = Climber::new(fixed, bounds);
        let path = Path {
            window: 7.0,
            ..PLAIN
        };
        for asked in run(&mut climber, &path, 200, 5) {
            assert!(!streams || asked.streams == fixed.streams, "{asked:?}");
            assert!(!files || asked.files == fixed.files, "{asked:?}");
        }
    }
}

#[test]
fn a_server_that_takes_no_more_sessions_is_not_asked_again() {
    let path = Path {
        file: 10.0,
        sessions: 2,
        ..PLAIN
    };
    let mut climber = start(1, 1);
    run(&mut climber, &path, 200, 11);
    let later = run(&mut climber, &path, 200, 12);
    assert!(later.iter().all(|asked| asked.files <= 2), "{later:?}");
}

#[test]
fn files_of_a_number_of_streams_end_before_the_next_is_judged() {
    let mut climber = start(4, 1);
    let mut old = PLAIN.period(
        Setting {
            streams: 4,
            files: 1,
        },
        0.0,
    );
    for _ in 0..=WARM + MEASURED {
        climber.handle(&old);
    }
    let asked = climber.asked();
    assert_eq!(asked.streams, 8);
    old.bytes *= 10;
    for _ in 0..100 {
        climber.handle(&old);
        assert_eq!(climber.asked(), asked);
    }
}

#[test]
fn another_path_is_searched_anew() {
    let wide = Path {
        window: 7.0,
        ..PLAIN
    };
    let mut climber = start(1, 1);
    let narrow = Path {
        capacity: 7.0,
        ..wide
    };
    run(&mut climber, &narrow, 300, 17);
    assert!(climber.asked().connections() <= 2, "{:?}", climber.asked());
    run(
        &mut climber,
        &Path {
            window: 30.0,
            ..wide
        },
        300,
        18,
    );
    assert!(climber.asked().connections() >= 3, "{:?}", climber.asked());
}

#[test]
fn periods_without_a_byte_count_for_nothing() {
    let mut climber = start(4, 1);
    for _ in 0..100 {
        let mut stalled = PLAIN.period(climber.asked(), 0.0);
        stalled.bytes = 0;
        climber.handle(&stalled);
    }
    let first = Setting {
        streams: 4,
        files: 1,
    };
    assert_eq!(climber.asked(), first);
    assert!(climber.best().is_none());
}

#[test]
fn the_streams_of_large_files_do_not_bound_small_ones() {
    let path = Path {
        file: 10.0,
        ..PLAIN
    };
    let mut climber = start(16, 2);
    for _ in 0..300 {
        let mut period = path.period(climber.asked(), 0.0);
        period.has_streams = false;
        climber.handle(&period);
    }
    let Setting { streams, files } = climber.asked();
    assert!(streams == 16 && files >= 8, "{:?}", climber.asked());
    // A large one among them has no more than the connections allow.
    assert_eq!(climber.streams(), BOUNDS.connections / files);
}

#[test]
fn a_settled_setting_is_kept_in_mind_once() {
    let mut climber = start(1, 1);
    run(&mut climber, &PLAIN, 3000, 7);
    let most = usize::try_from(BOUNDS.connections).unwrap();
    assert!(climber.tried.len() < most, "{}", climber.tried.len());
}

proptest! {
    #[test]
    fn bounds_hold_and_it_rests_near_the_best(
        capacity in 5.0..500.0_f64,
        window in 2.0..100.0_f64,
        crowd in 4_u32..32,
        sessions in 1_u32..20,
        streams in 1_u32..=16,
        files in 1_u32..=8,
        seed in any::<u32>(),
    ) {
        let path = Path { capacity, window, crowd, sessions, ..PLAIN };
        let mut climber = start(streams, files);
        let asked = run(&mut climber, &path, 300, seed);
        for asked in &asked {
            prop_assert!(BOUNDS.hold(*asked) == *asked, "{:?}", asked);
        }
        let changes = asked.windows(2).filter(|pair| pair[0] != pair[1]).count();
        prop_assert!(changes <= 40, "{} changes", changes);
        let score = path.score(climber.asked());
        let best = best(|setting| path.score(setting));
        prop_assert!(score >= 0.7 * best, "{:?}: {} of {}", climber.asked(), score, best);
        let later = run(&mut climber, &path, 300, seed ^ 1);
        let rests = later.windows(2).all(|pair| pair[0] == pair[1]);
        prop_assert!(rests, "{:?}", later);
    }
}

#[test]
fn periods_in_which_channels_come_and_go_refuse_nothing() {
    let mut climber = start(4, 1);
    run(&mut climber, &PLAIN, 100, 7);
    let (before, bounds) = (climber.asked(), climber.bounds);
    for _ in 0..4 * PATIENCE {
        let mut stirred = PLAIN.period(climber.asked(), 0.0);
        stirred.in_force.files = 0;
        assert_eq!(climber.handle(&stirred), None);
    }
    assert_eq!((climber.asked(), climber.bounds), (before, bounds));
}

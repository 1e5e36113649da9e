//! `Plan`: the random choices of one round, which follow from its seed.

use std::time::Duration;

use workspace_tests::Noise;

use super::server::Program;

/// Bytes a second of the copy of a large file.
pub(super) const RATE: u64 = 20_000_000;
/// Bytes a second of half of the copies of a single file, so that faults meet them midway.
const SLOW: u64 = 40_000_000;
/// Size of a file that is worth continuing.
pub(super) const LARGE: u64 = (200 << 20) + 4099;
/// Bytes of a large file that are stored before an end is killed, and more of them at random.
pub(super) const STORED: u64 = 180 << 20;
const STORED_MORE: u64 = 8 << 20;
/// Largest size of the other files.
const BIG: u64 = 12 << 20;
/// Files of a tree.
const FILES: u64 = 40;
/// The directory of both ends that all files are below: vsftpd serves no root that it may write.
pub(super) const TOP: &str = "top";

/// Forms of names with a number N; a client or a server might trim, expand or refuse them.
const ODD: [&str; 8] = [
    "file N",
    "file N",
    "file N",
    " before N",
    "after N ",
    "bell\u{7} N",
    "*N?[]",
    "\u{202e}N",
];

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    Up,
    Down,
    ThirdParty,
}

impl Direction {
    const ALL: [Self; 3] = [Self::Up, Self::Down, Self::ThirdParty];

    /// The ends that have a process: the client, and one or two servers.
    fn ends(self) -> &'static [End] {
        match self {
            Self::Up => &[End::Client, End::Destination],
            Self::Down => &[End::Client, End::Source],
            Self::ThirdParty => &[End::Client, End::Source, End::Destination],
        }
    }
}

/// A process of a copy: the client, or the server of the source or of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Client,
    Source,
    Destination,
}

/// The files of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    File,
    Tree,
    /// A single file that is worth continuing.
    Large,
}

impl Shape {
    /// The path of the source below its end, and of the copy below the other.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::File | Self::Large => "top/file",
            Self::Tree => "top/tree/",
        }
    }
}

/// A fault during a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    None,
    Kill(End),
    Stall(End),
    ResetData,
    ResetEverything,
    /// The destination has directories under some of the file names.
    Refuse,
}

impl Fault {
    fn draw(direction: Direction, noise: &mut Noise) -> Self {
        let end = *noise.pick(direction.ends());
        match noise.below(8) {
            0 => Self::None,
            1 => Self::Stall(end),
            2 => Self::ResetData,
            3 => Self::ResetEverything,
            4 => Self::Refuse,
            _ => Self::Kill(end),
        }
    }

    /// Says whether it kills a server.
    fn kills_a_server(self) -> bool {
        matches!(self, Self::Kill(End::Source | End::Destination))
    }
}

/// The moment of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// A time after the start of the copy.
    After(Duration),
    /// Payload bytes on their way or through.
    Passed(u64),
    /// Bytes of the partial file at the destination.
    Stored(u64),
}

/// The object that has the name of a file at the destination before the copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    Nothing,
    File {
        size: u64,
        seed: u64,
    },
    /// A directory, which no file replaces.
    Directory,
}

/// A file of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// Its path below both ends.
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) seed: u64,
    pub(super) there: There,
}

/// The random choices of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) direction: Direction,
    pub(super) shape: Shape,
    /// The program of all servers.
    pub(super) program: Program,
    pub(super) fault: Fault,
    /// The moment of a kill or a stall.
    pub(super) moment: Moment,
    /// Duration of the outage of an end that comes back during the first copy.
    pub(super) lasts: Duration,
    /// Whether the first copy gives up with the server, which is back only behind it.
    pub(super) gives_up: bool,
    /// Payload bytes before a reset.
    pub(super) budget: u64,
    /// Whether the name of the copy exists at the destination.
    pub(super) exists: bool,
    mode: Option<&'static str>,
    streams: u64,
    concurrency: u64,
    verifies: bool,
    resumes: bool,
    /// Bytes a second of a slow copy.
    rate: Option<u64>,
}

impl Plan {
    pub(super) fn draw(noise: &mut Noise) -> Self {
        let direction = *noise.pick(&Direction::ALL);
        let shape = *noise.pick(&[Shape::File, Shape::Tree]);
        let mut fault = Fault::draw(direction, noise);
        if (shape, fault) == (Shape::File, Fault::Refuse) {
            // A single file goes into the directory that has its name.
            fault = Fault::Kill(End::Client);
        }
        let by_bytes = noise.below(2) == 0;
        let (time, bytes) = (noise.below(400_000), noise.below(BIG));
        let is_slow = noise.below(2) == 0;
        Self {
            direction,
            shape,
            program: Program::Ours,
            fault,
            moment: match by_bytes {
                true => Moment::Passed(bytes),
                false => Moment::After(Duration::from_micros(time)),
            },
            lasts: Duration::from_millis(noise.below(1500)),
            gives_up: noise.below(2) == 0 && fault.kills_a_server(),
            budget: noise.below(8 << 20),
            exists: noise.below(2) == 0 || fault == Fault::Refuse,
            mode: *noise.pick(&[None, Some("stream"), Some("extended")]),
            streams: 1 + noise.below(4),
            concurrency: 1 + noise.below(4),
            verifies: noise.below(3) == 0,
            resumes: noise.below(4) == 0,
            rate: (is_slow && shape == Shape::File).then_some(SLOW),
        }
    }

    /// The same round with servers of this program.
    pub(super) fn with(mut self, program: Program) -> Self {
        self.program = program;
        if program == Program::Vsftpd {
            // It has no digests and no MODE E.
            self.verifies = false;
            self.mode = self.mode.filter(|mode| *mode == "stream");
            if let Fault::Stall(end @ (End::Source | End::Destination)) = self.fault {
                // Its privileged process takes a child that stops for one that ends, and waits for
                // that for ever.
                self.fault = Fault::Kill(end);
            }
        }
        self
    }

    /// A kill late in a large file: all bytes but the last ones are safe by then.
    pub(super) fn large(
        (program, direction, end): (Program, Direction, End),
        noise: &mut Noise,
    ) -> Self {
        let (plan, fault) = (Self::draw(noise), Fault::Kill(end));
        let plan = Self {
            direction,
            fault,
            shape: Shape::Large,
            moment: Moment::Stored(STORED + noise.below(STORED_MORE)),
            gives_up: noise.below(4) > 0 && fault.kills_a_server(),
            rate: Some(RATE),
            // Each stream has bytes on their way that count as sent again.
            streams: 1 + noise.below(2),
            ..plan
        };
        match program {
            Program::Ours => plan,
            // In MODE E it tells of its ranges every five seconds, and a later run takes no others.
            Program::Globus if direction != Direction::Down => Self {
                mode: Some("stream"),
                verifies: false,
                ..plan.with(program)
            },
            Program::Globus | Program::Vsftpd => Self {
                verifies: false,
                ..plan.with(program)
            },
        }
    }

    /// The flags of both copies.
    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags = vec![
            format!("-j{}", self.concurrency),
            format!("-p{}", self.streams),
        ];
        flags.extend(self.mode.map(|mode| format!("--mode={mode}")));
        let rate = self
            .rate
            .filter(|_| self.direction != Direction::ThirdParty);
        flags.extend(rate.map(|rate| format!("--bwlimit={rate}")));
        for (flag, is_set) in [
            ("-r", self.shape == Shape::Tree),
            ("--verify", self.verifies),
            ("--resume", self.resumes),
        ] {
            flags.extend(is_set.then(|| flag.to_owned()));
        }
        flags
    }

    /// Bytes a second of each data connection between two servers, which no client limits; 0 is
    /// unlimited.
    pub(super) fn pace(&self) -> u64 {
        let connections = match self.mode {
            Some("stream") => 1,
            _ => self.streams,
        };
        match (self.direction, self.shape) {
            (Direction::ThirdParty, Shape::Large) => RATE / connections,
            _ => 0,
        }
    }

    /// The files of the source and of the destination before the copy.
    pub(super) fn files(&self, noise: &mut Noise) -> Vec<Planned> {
        let sizes = [0, 1, 70_001, 1 << 20, BIG, BIG, BIG, BIG];
        match self.shape {
            Shape::Tree => (0..FILES).map(|n| self.member(n, noise)).collect(),
            Shape::File => vec![self.single(*noise.pick(&sizes), noise)],
            Shape::Large => vec![self.single(LARGE, noise)],
        }
    }

    fn single(&self, size: u64, noise: &mut Noise) -> Planned {
        let seed = noise.below(u64::MAX);
        // Half of the old files have the size of the new one, so that only the content differs.
        let there = There::File {
            size: *noise.pick(&[size.min(BIG), 1000]),
            seed: noise.below(u64::MAX),
        };
        Planned {
            name: Shape::File.path().to_owned(),
            size,
            seed,
            there: if self.exists { there } else { There::Nothing },
        }
    }

    /// The file with the number `n` of a tree.
    fn member(&self, n: u64, noise: &mut Noise) -> Planned {
        // Half of the files have equal sizes, so that only the content differs.
        let size = *noise.pick(&[0, 1, 1000, 1000, 1000, 1000, 70_001, 1 << 20]);
        let odd = match self.program {
            Program::Ours => noise.pick(&ODD),
            // No command to it carries the other names.
            Program::Globus | Program::Vsftpd => noise.pick(&ODD[..5]),
        };
        let name = odd.replace('N', &n.to_string());
        let (seed, old) = (noise.below(u64::MAX), noise.below(u64::MAX));
        let there = match noise.below(8) {
            0 | 1 if self.exists => There::File {
                size: 1000,
                seed: old,
            },
            2 if self.fault == Fault::Refuse => There::Directory,
            _ => There::Nothing,
        };
        Planned {
            name: format!("{}d{}/{name}", Shape::Tree.path(), n % 3),
            size: if n == 0 { BIG } else { size },
            seed,
            there,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SEEDS: u64 = 60_000;

    fn plans() -> impl Iterator<Item = Plan> {
        (0..SEEDS).flat_map(|seed| {
            let plan = Plan::draw(&mut Noise::new(seed));
            Program::ALL.map(|program| plan.clone().with(program))
        })
    }

    #[test]
    fn a_seed_gives_one_round() {
        let round = |seed| {
            let mut noise = Noise::new(seed);
            let plan = Plan::draw(&mut noise);
            let files = plan.files(&mut noise);
            (plan, files)
        };
        for seed in 0..100 {
            assert_eq!(round(seed), round(seed));
            assert_ne!(round(seed), round(seed + 1));
        }
    }

    #[test]
    fn every_end_is_killed_in_every_kind_of_copy() {
        let mut met = BTreeSet::new();
        for plan in plans().filter(|plan| plan.program == Program::Ours) {
            if let Fault::Kill(end) = plan.fault {
                let (direction, shape) = (plan.direction, plan.shape);
                let choices = (plan.mode, plan.streams, plan.exists, plan.gives_up);
                met.insert(format!("{direction:?} {shape:?} {end:?} {choices:?}"));
            }
        }
        // 7 ends of 3 directions, 2 shapes, 3 modes, 4 streams, a name that exists or not; the 4
        // servers among the ends are waited for or not.
        assert_eq!(met.len(), (7 + 4) * 2 * 3 * 4 * 2);
    }

    #[test]
    fn plans_hold_what_is_possible_alone() {
        for plan in plans() {
            if let Fault::Kill(end) | Fault::Stall(end) = plan.fault {
                assert!(plan.direction.ends().contains(&end), "{plan:?}");
            }
            assert!(
                !plan.gives_up || plan.fault.kills_a_server(),
                "a client gives up though no server is killed: {plan:?}"
            );
            if plan.fault == Fault::Refuse {
                assert!(plan.exists && plan.shape == Shape::Tree, "{plan:?}");
            }
            if plan.program == Program::Vsftpd {
                let flags = plan.flags();
                for flag in ["--verify", "--mode=extended"] {
                    assert!(!flags.iter().any(|one| one == flag), "{flags:?}");
                }
            }
        }
    }

    #[test]
    fn a_fresh_name_has_nothing_and_names_differ() {
        for seed in 0..500 {
            let mut noise = Noise::new(seed);
            let plan = Plan::draw(&mut noise);
            let files = plan.files(&mut noise);
            let names: BTreeSet<_> = files.iter().map(|file| &file.name).collect();
            assert_eq!(names.len(), files.len(), "{files:?}");
            let is_below = |file: &Planned| file.name.starts_with(plan.shape.path());
            assert!(files.iter().all(is_below), "{files:?}");
            let is_new = files.iter().all(|file| file.there == There::Nothing);
            assert!(plan.exists || is_new, "{files:?}");
        }
    }

    #[test]
    fn a_large_file_is_still_on_its_way_at_the_kill() {
        for seed in 0..500 {
            for program in [Program::Ours, Program::Globus] {
                for direction in Direction::ALL {
                    for end in direction.ends() {
                        let round = (program, direction, *end);
                        let plan = Plan::large(round, &mut Noise::new(seed));
                        assert_eq!(plan.fault, Fault::Kill(*end));
                        let Moment::Stored(bytes) = plan.moment else {
                            panic!("{plan:?}");
                        };
                        assert!((STORED..LARGE).contains(&bytes), "{plan:?}");
                        let is_limited = plan.flags().contains(&format!("--bwlimit={RATE}"));
                        assert_ne!(is_limited, plan.pace() > 0, "{plan:?}");
                    }
                }
            }
        }
    }
}

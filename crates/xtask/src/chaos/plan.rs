//! `Plan`: the random choices of one round.

use std::time::Duration;

use workspace_tests::Noise;

use super::server::Program;

/// Bytes a second of the copy of a large file.
pub(super) const RATE: u64 = 20_000_000;

/// The direction of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    Up,
    Down,
    ThirdParty,
}

/// A fault during a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    None,
    KillClient,
    KillServer,
    StallClient,
    StallServer,
    ResetData,
    ResetEverything,
    /// The destination has directories under some of the file names.
    Refuse,
}

impl Fault {
    const ALL: [Self; 8] = [
        Self::None,
        Self::KillClient,
        Self::KillServer,
        Self::StallClient,
        Self::StallServer,
        Self::ResetData,
        Self::ResetEverything,
        Self::Refuse,
    ];
}

/// The random choices of one round.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) direction: Direction,
    /// The program of all servers.
    pub(super) program: Program,
    pub(super) fault: Fault,
    pub(super) flags: Vec<String>,
    /// Time of the fault after the start of the copy, and its duration.
    pub(super) after: Duration,
    pub(super) lasts: Duration,
    /// Payload bytes before a reset.
    pub(super) budget: u64,
    /// Whether one file is large.
    pub(super) large: bool,
}

impl Plan {
    pub(super) fn draw(noise: &mut Noise) -> Self {
        let directions = [Direction::Up, Direction::Down, Direction::ThirdParty];
        let direction = *noise.pick(&directions);
        let mut fault = *noise.pick(&Fault::ALL);
        if matches!(
            (direction, fault),
            (
                Direction::ThirdParty,
                Fault::ResetData | Fault::ResetEverything
            )
        ) {
            // A relay works between the client and a server only.
            fault = Fault::KillServer;
        }
        let mut flags = vec!["-r".to_owned()];
        if noise.below(3) == 0 {
            flags.extend(["--mode", "stream"].map(str::to_owned));
        }
        flags.push(format!("-j{}", 1 + noise.below(4)));
        flags.push(format!("-p{}", 1 + noise.below(4)));
        if noise.below(3) == 0 {
            flags.push("--verify".to_owned());
        }
        if noise.below(4) == 0 {
            flags.push("--resume".to_owned());
        }
        Self {
            direction,
            program: Program::Ours,
            fault,
            flags,
            after: Duration::from_micros(noise.below(400_000)),
            lasts: Duration::from_millis(noise.below(1500)),
            budget: noise.below(8 << 20),
            large: false,
        }
    }

    /// The same round with servers of this program.
    pub(super) fn with(mut self, program: Program) -> Self {
        self.program = program;
        match program {
            Program::Ours => {}
            Program::Globus if self.fault == Fault::KillServer => {
                // It does not take its port again at once.
                self.fault = Fault::StallServer;
            }
            Program::Globus => {}
            Program::Vsftpd => {
                // It has no digests.
                self.flags.retain(|flag| flag != "--verify");
                if self.fault == Fault::StallServer {
                    // Its privileged process takes a child that stops for one that ends, and waits for
                    // that for ever.
                    self.fault = Fault::KillServer;
                }
            }
        }
        self
    }

    /// A kill of the client late in a large file: all bytes but the last ones are safe by then.
    pub(super) fn large(direction: Direction, noise: &mut Noise) -> Self {
        let mut plan = Self::draw(noise);
        plan.flags.push(format!("--bwlimit={RATE}"));
        Self {
            direction,
            fault: Fault::KillClient,
            large: true,
            ..plan
        }
    }
}

//! `Way`: where two processes talk to each other, over a link of two namespaces or within this machine.

use std::path::Path;
use std::process::Command;

use crate::link::Link;

/// Where two processes talk to each other.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "benches say what each of them means for a measurement"
)]
pub enum Way {
    /// Between two namespaces.
    Link(Link),
    /// Within this machine.
    Loopback,
}

impl Way {
    /// A command at the near end.
    #[must_use]
    pub fn near(&self, program: &Path) -> Command {
        match self {
            Self::Link(link) => link.near(program),
            Self::Loopback => Command::new(program),
        }
    }

    /// A command at the far end.
    #[must_use]
    pub fn far(&self, program: &Path) -> Command {
        match self {
            Self::Link(link) => link.far(program),
            Self::Loopback => Command::new(program),
        }
    }

    /// Where the far end is for the near one.
    #[must_use]
    pub fn far_addr(&self) -> String {
        match self {
            Self::Link(link) => link.far_addr().to_string(),
            Self::Loopback => "127.0.0.1".into(),
        }
    }
}

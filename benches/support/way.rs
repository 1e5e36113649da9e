//! `Way`: the network between two processes, an emulated link or the loopback interface.

use std::path::Path;
use std::process::Command;

use crate::link::Link;

/// The network between two processes.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "benches handle each variant")]
pub enum Way {
    /// Between two namespaces.
    Link(Link),
    /// Over loopback.
    Loopback,
}

impl Way {
    /// Returns a command at the near end.
    #[must_use]
    pub fn near(&self, program: &Path) -> Command {
        match self {
            Self::Link(link) => link.near(program),
            Self::Loopback => Command::new(program),
        }
    }

    /// Returns a command at the far end.
    #[must_use]
    pub fn far(&self, program: &Path) -> Command {
        match self {
            Self::Link(link) => link.far(program),
            Self::Loopback => Command::new(program),
        }
    }

    /// Returns the far end's address as seen from the near end.
    #[must_use]
    pub fn far_addr(&self) -> String {
        match self {
            Self::Link(link) => link.far_addr().to_string(),
            Self::Loopback => "127.0.0.1".into(),
        }
    }
}

//! `Report`: capacity and use of a node, which it tells every second, and versions.

use std::fmt;

use crate::message::{Malformed, check, text};
use crate::proto;

/// The version of the service that this program speaks.
pub const VERSION: (u32, u32) = (1, 0);

/// Capacity and use of a node.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[expect(clippy::exhaustive_structs, reason = "servers make it")]
pub struct Report {
    /// Transfers that it is meant to run at the same time; 0 for none.
    pub capacity: u32,
    /// Transfers that run.
    pub running: u32,
    /// Load average of the last minute.
    pub load: f64,
    /// Free bytes of its storage; `None` where there is no bound, or none is known.
    pub free_space: Option<u64>,
    /// Whether it takes no new sessions.
    pub draining: bool,
}

/// The version of the service that a member speaks, and of its program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Version {
    /// Members with another one are refused.
    pub major: u32,
    /// Raised by additions.
    pub minor: u32,
    /// Name and version of the program.
    pub program: String,
}

impl Version {
    pub(crate) fn of_program(program: impl Into<String>) -> Self {
        Self {
            major: VERSION.0,
            minor: VERSION.1,
            program: program.into(),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}.{})", self.program, self.major, self.minor)
    }
}

impl From<Version> for proto::Version {
    fn from(version: Version) -> Self {
        Self {
            major: version.major,
            minor: version.minor,
            program: version.program,
        }
    }
}

impl TryFrom<Option<proto::Version>> for Version {
    type Error = Malformed;

    fn try_from(version: Option<proto::Version>) -> Result<Self, Malformed> {
        let version = version.ok_or(Malformed::new("version"))?;
        Ok(Self {
            major: version.major,
            minor: version.minor,
            program: text(version.program, "version.program")?,
        })
    }
}

impl Report {
    /// Says whether new sessions may be placed on the node.
    pub(crate) const fn takes_sessions(&self) -> bool {
        self.capacity > 0 && !self.draining
    }

    /// The message of a node with this name.
    pub(crate) fn into_message(self, name: &str) -> proto::Report {
        proto::Report {
            name: name.into(),
            version: None,
            process: 0,
            capacity: self.capacity,
            running: self.running,
            load: self.load,
            free_space: self.free_space,
            draining: self.draining,
            storage: None,
        }
    }

    /// Reads the message of a node with this name.
    pub(crate) fn of_message(message: &proto::Report, name: &str) -> Result<Self, Malformed> {
        check((), message.name == name, "report.name")?;
        let load = check(message.load, message.load.is_finite(), "report.load")?;
        Ok(Self {
            capacity: message.capacity,
            running: message.running,
            load,
            free_space: message.free_space,
            draining: message.draining,
        })
    }
}

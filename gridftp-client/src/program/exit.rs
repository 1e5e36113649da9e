//! Exit statuses, named; `--help` prints this very table.

use std::process::ExitCode;

use crate::error::Class;

/// The exit status of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// All was done.
    Done = 0,
    /// Some files were not copied.
    Failed = 1,
    /// The command line or a URL is wrong.
    Usage = 2,
    /// A server cannot be reached.
    Connect = 3,
    /// A server refused the login.
    Login = 4,
    /// A copy differs from its source.
    Verify = 5,
    /// Stopped by a signal.
    Interrupted = 130,
}

impl Status {
    /// The status for a class of failure.
    pub fn of(class: Class) -> Self {
        match class {
            Class::Usage => Self::Usage,
            Class::Connect => Self::Connect,
            Class::Login => Self::Login,
            Class::Verify => Self::Verify,
            _ => Self::Failed,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

//! Exit statuses, named; `--help` prints this very table.

use std::process::ExitCode;

use gridftp_client::error::Class;

/// The exit status of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
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

/// The table of `--help` and of the man page.
pub(crate) const TABLE: &str = "\
Exit status:
  0    all was done
  1    some files or operations failed; each is named on standard error
  2    the command line or a URL is wrong
  3    a server cannot be reached, or the connection to it was lost for good
  4    a server refused the login
  5    verification found a copy that differs from its source
  130  stopped by a signal; no name here holds a file that is not whole, but for
       one of which --offset or --length replaced a part; what is written in
       order, as standard output or a FIFO, has got the beginning";

impl Status {
    /// The status for a class of failure.
    pub(crate) fn of(class: Class) -> Self {
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

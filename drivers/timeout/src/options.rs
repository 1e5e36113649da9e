//! `TimeoutOptions`: the longest time without progress, for each operation.

use std::time::Duration;

use crate::Timeout;

xio_core::options! {
    /// Longest time without progress for each operation; unlimited where `None`.
    #[derive(Copy)]
    pub struct TimeoutOptions for "timeout" [impl<T> Timeout<T>] {
        /// Longest wait for a peer to connect.
        accept: Option<Duration> = None, "accept";
        /// The time for each of open, read, write and close without an own time; not for accept,
        /// since the absence of a peer is no fault.
        all: Option<Duration> = None, "all";
        /// Longest time for a clean end.
        close: Option<Duration> = None, "close";
        /// Longest time to connect, or for the handshakes of an accepted peer, as a whole.
        open: Option<Duration> = None, "open";
        /// Longest wait of a read for bytes.
        read: Option<Duration> = None, "read";
        /// Longest wait of a write, a flush or a send-file for room.
        write: Option<Duration> = None, "write";
    }
}

impl TimeoutOptions {
    /// The time of an operation, or the one for all.
    pub(crate) fn or_all(&self, own: Option<Duration>) -> Option<Duration> {
        own.or(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_excludes_accept_and_yields_to_own_times() {
        let options: TimeoutOptions = "read=5;all=30".parse().unwrap();
        let time = |s| Some(Duration::from_secs(s));
        assert_eq!(options.or_all(options.read), time(5));
        for rest in [options.open, options.write, options.close] {
            assert_eq!(options.or_all(rest), time(30));
        }
        assert_eq!(options.accept, None);
    }

    #[test]
    fn zero_is_refused() {
        let error = "read=0".parse::<TimeoutOptions>().unwrap_err().to_string();
        assert!(error.contains("option read"), "{error}");
    }
}

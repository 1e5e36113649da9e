//! `RemoteSend`: the sending of a transfer at another host, as that tells of it.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use xio_core::PathStats;

use super::Watch;

/// The sending of a transfer at another host so far, as that tells of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteSend {
    /// The path of its data, all connections together.
    pub path: PathStats,
    /// Time in which data moved.
    pub moving: Duration,
    /// Data connections that carry payload.
    pub connections: u32,
}

impl Watch {
    /// Follows the sender at another host, of data that this end receives or that does not pass it.
    pub fn follow_sender(&self, now: RemoteSend) {
        if let Some(round_trip) = now.path.round_trip {
            self.note_round_trip(None, round_trip);
        }
        *self.lock_remote() = Some(now);
    }

    /// The sender at another host, as it told last; `None` of one that tells nothing.
    pub fn remote_sender(&self) -> Option<RemoteSend> {
        *self.lock_remote()
    }

    fn lock_remote(&self) -> MutexGuard<'_, Option<RemoteSend>> {
        self.remote.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_at_another_host_is_known_as_it_told_last() {
        let watch = Watch::new();
        assert_eq!(watch.remote_sender(), None);
        let mut now = RemoteSend::default();
        for ms in [20, 90] {
            now.path.round_trip = Some(Duration::from_millis(ms));
            watch.follow_sender(now);
        }
        assert_eq!(watch.remote_sender(), Some(now));
        let round_trip = Duration::from_millis(90);
        assert_eq!(watch.take_round_trips(), [(None, round_trip)]);
        // It is no path of this end.
        assert_eq!(watch.path(), None);
    }
}

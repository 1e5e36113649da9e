//! `Limit`: the part of the way that bounds a sender, by the times of the kernel.

use std::time::Duration;

use xio_core::PathStats;

/// Part of the time that names the limit of a sender.
const MAINLY: f64 = 0.5;

/// The limit of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// The receiver has no room.
    Receiver,
    /// The socket buffer of the sender has no room.
    Buffer,
    /// The connections have nothing to send.
    Source,
    /// The congestion window.
    Path,
}

impl Limit {
    /// The limit of a sender; `time` is the sum of the times of its connections. `None` without the
    /// times of the kernel.
    pub fn of(path: &PathStats, time: Duration) -> Option<Self> {
        let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
        let (busy, time) = (seconds(path.busy), time.as_secs_f64());
        let sent = path.sent.unwrap_or(0);
        if path.busy.is_none() || sent == 0 || time <= 0.0 {
            None
        } else if busy < MAINLY * time {
            Some(Self::Source)
        } else if seconds(path.receiver_full) > MAINLY * busy {
            Some(Self::Receiver)
        } else if seconds(path.buffer_full) > MAINLY * busy {
            Some(Self::Buffer)
        } else {
            Some(Self::Path)
        }
    }

    /// Whether more connections of the same file cannot raise its rate.
    pub const fn is_at_an_end(self) -> bool {
        matches!(self, Self::Receiver | Self::Source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_the_sender_name_its_limit() {
        let time = |ms| Some(Duration::from_millis(ms));
        for (busy, receiver, buffer, limit) in [
            (2000, 1500, 100, Limit::Receiver),
            (2000, 100, 1500, Limit::Buffer),
            (2000, 100, 100, Limit::Path),
            (500, 400, 0, Limit::Source),
        ] {
            let mut path = PathStats::new();
            (path.busy, path.receiver_full) = (time(busy), time(receiver));
            (path.buffer_full, path.sent) = (time(buffer), Some(1000));
            assert_eq!(Limit::of(&path, Duration::from_secs(2)), Some(limit));
        }
        assert_eq!(Limit::of(&PathStats::new(), Duration::from_secs(2)), None);
    }
}

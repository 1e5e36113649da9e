//! `Waits`: where the time of a session's transfers went at the server, in the text of the reply to
//! `SITE WAITS`, and that of a running one, in its markers.

use std::fmt;
use std::time::Duration;

/// The waits of all transfers of a session together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waits {
    /// Time in which data moved.
    pub moving: Duration,
    /// Part of it in which the server's storage worked.
    pub storage: Duration,
    /// Part of it in which the server hashed bytes that passed.
    pub digests: Duration,
    /// Part of it in which a sender had no data ready for any connection, beside both.
    pub unready: Duration,
    /// Time in which the TCP connections of sent data had data to send or on its way, their sum.
    pub busy: Duration,
    /// Part of that in which the receiver had no room.
    pub receiver_full: Duration,
    /// Part of it in which the server's socket buffer had no room for more.
    pub buffer_full: Duration,
    /// The longest smoothed round trip of these connections.
    pub round_trip: Duration,
    /// Segments that they sent, those sent again included.
    pub sent: u64,
    /// Segments that they sent again.
    pub retransmitted: u64,
    /// The data connections that carry payload; the most of them of several transfers.
    pub connections: u32,
    /// Whether a sender found that its path loses packets and cannot change its congestion control.
    pub is_lossy: bool,
}

impl Waits {
    /// Names and values: times in microseconds, and numbers of segments and of connections.
    fn items(&self) -> [(&'static str, u64); 12] {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        [
            ("Moving", micros(self.moving)),
            ("Storage", micros(self.storage)),
            ("Digests", micros(self.digests)),
            ("Unready", micros(self.unready)),
            ("Busy", micros(self.busy)),
            ("ReceiverFull", micros(self.receiver_full)),
            ("BufferFull", micros(self.buffer_full)),
            ("RoundTrip", micros(self.round_trip)),
            ("Sent", self.sent),
            ("Retransmitted", self.retransmitted),
            ("Connections", self.connections.into()),
            ("Lossy", self.is_lossy.into()),
        ]
    }

    /// Finds waits in the text of a reply; `None` without `Moving`. An absent field is zero.
    pub fn parse(text: &str) -> Option<Self> {
        let mut waits = Self::default();
        let mut is_told = false;
        for item in text.split_ascii_whitespace().last()?.split(';') {
            let Some((name, value)) = item.split_once('=') else {
                continue;
            };
            let value = value.parse().ok()?;
            let time = Duration::from_micros(value);
            match name {
                "Moving" => (waits.moving, is_told) = (time, true),
                "Storage" => waits.storage = time,
                "Digests" => waits.digests = time,
                "Unready" => waits.unready = time,
                "Busy" => waits.busy = time,
                "ReceiverFull" => waits.receiver_full = time,
                "BufferFull" => waits.buffer_full = time,
                "RoundTrip" => waits.round_trip = time,
                "Sent" => waits.sent = value,
                "Retransmitted" => waits.retransmitted = value,
                "Connections" => waits.connections = u32::try_from(value).unwrap_or(u32::MAX),
                "Lossy" => waits.is_lossy = value > 0,
                _ => {}
            }
        }
        is_told.then_some(waits)
    }

    /// Those of two sessions or transfers together: the sums, the longer round trip, and the more
    /// connections.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            moving: self.moving.saturating_add(other.moving),
            storage: self.storage.saturating_add(other.storage),
            digests: self.digests.saturating_add(other.digests),
            unready: self.unready.saturating_add(other.unready),
            busy: self.busy.saturating_add(other.busy),
            receiver_full: self.receiver_full.saturating_add(other.receiver_full),
            buffer_full: self.buffer_full.saturating_add(other.buffer_full),
            round_trip: self.round_trip.max(other.round_trip),
            sent: self.sent.saturating_add(other.sent),
            retransmitted: self.retransmitted.saturating_add(other.retransmitted),
            connections: self.connections.max(other.connections),
            is_lossy: self.is_lossy || other.is_lossy,
        }
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut items = self.items().into_iter();
        items.try_for_each(|(name, value)| write!(f, "{name}={value};"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_read_as_they_were_written() {
        let one = Waits {
            moving: Duration::from_micros(8),
            storage: Duration::from_micros(1),
            digests: Duration::from_micros(9),
            unready: Duration::from_micros(10),
            busy: Duration::from_micros(2),
            receiver_full: Duration::from_micros(3),
            buffer_full: Duration::from_micros(4),
            round_trip: Duration::from_micros(5),
            sent: 6,
            retransmitted: 7,
            connections: 8,
            is_lossy: true,
        };
        for waits in [one, Waits::default(), one.and(one)] {
            assert_eq!(Waits::parse(&format!("Waits: {waits}")), Some(waits));
        }
        assert_eq!(one.and(one).round_trip, one.round_trip);
        assert_eq!(one.and(one).sent, 12);
        assert_eq!(one.and(Waits::default()).connections, 8);
        assert!(Waits::default().and(one).is_lossy);
        assert_eq!(
            Waits::parse("Moving=8;New=1;"),
            Some(Waits {
                moving: one.moving,
                ..Waits::default()
            })
        );
    }

    #[test]
    fn other_texts_hold_no_waits() {
        for text in [
            "",
            "OK.",
            "Moving=;",
            "Moving=-1;",
            "Storage=1;",
            "Moving=1;Sent=x;",
        ] {
            assert_eq!(Waits::parse(text), None, "{text}");
        }
    }
}

//! `Info`: the description of an open handle or a listener, layer by layer.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::target::Target;

/// Measurements of the path to the peer, as an extra of [`Info`]; `None` for unknown.
///
/// Packets are counted since the handle was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStats {
    /// Smoothed round-trip time.
    pub round_trip: Option<Duration>,
    /// Least round-trip time measured, which has the least waiting in queues.
    pub least_round_trip: Option<Duration>,
    /// Variation of the round-trip time.
    pub round_trip_variation: Option<Duration>,
    /// Data packets sent, those sent again included.
    pub sent: Option<u64>,
    /// Data packets sent again.
    pub retransmitted: Option<u64>,
    /// Data packets that the peer reported lost.
    pub lost: Option<u64>,
    /// Time with data to send or on its way.
    pub busy: Option<Duration>,
    /// Part of [`busy`](Self::busy) in which the receiver had no room.
    pub receiver_full: Option<Duration>,
    /// Part of [`busy`](Self::busy) in which the sender's socket buffer had no room for more.
    pub buffer_full: Option<Duration>,
    /// Data packets received.
    pub received: Option<u64>,
    /// Those of them that arrived before an earlier one, which was lost or late.
    pub out_of_order: Option<u64>,
    /// Largest packet that the path is known to carry, in bytes, with all headers.
    pub path_mtu: Option<u32>,
    /// Largest payload of a packet that is sent, in bytes.
    pub segment: Option<u32>,
    /// Whether the path loses packets by itself, as a receiver has found, or a sender with an
    /// unchangeable congestion control.
    pub is_lossy: bool,
}

impl PathStats {
    /// Statistics without any value.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            round_trip: None,
            least_round_trip: None,
            round_trip_variation: None,
            sent: None,
            retransmitted: None,
            lost: None,
            busy: None,
            receiver_full: None,
            buffer_full: None,
            received: None,
            out_of_order: None,
            path_mtu: None,
            segment: None,
            is_lossy: false,
        }
    }

    /// Part of the data packets that were sent again, at most 1; `None` where none was sent, or it is
    /// not known.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn resent(&self) -> Option<f64> {
        let sent = self.sent.filter(|sent| *sent > 0)?;
        Some((self.retransmitted? as f64 / sent as f64).min(1.0))
    }

    /// Those of two connections together: the sums, the longer round trip, and the smaller packets.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        fn sum<T>(one: Option<T>, other: Option<T>, add: fn(T, T) -> T) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(add(one, other)),
                (one, other) => one.or(other),
            }
        }
        fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        let count = |one, other| sum(one, other, u64::saturating_add);
        let time = |one, other| sum(one, other, Duration::saturating_add);
        Self {
            round_trip: self.round_trip.max(other.round_trip),
            least_round_trip: least(self.least_round_trip, other.least_round_trip),
            round_trip_variation: self.round_trip_variation.max(other.round_trip_variation),
            sent: count(self.sent, other.sent),
            retransmitted: count(self.retransmitted, other.retransmitted),
            lost: count(self.lost, other.lost),
            busy: time(self.busy, other.busy),
            receiver_full: time(self.receiver_full, other.receiver_full),
            buffer_full: time(self.buffer_full, other.buffer_full),
            received: count(self.received, other.received),
            out_of_order: count(self.out_of_order, other.out_of_order),
            path_mtu: least(self.path_mtu, other.path_mtu),
            segment: least(self.segment, other.segment),
            is_lossy: self.is_lossy || other.is_lossy,
        }
    }

    /// Those of a connection since `earlier` ones of it; the round trip is that of now.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let count = |now: Option<u64>, then: Option<u64>| {
            now.map(|now| now.saturating_sub(then.unwrap_or_default()))
        };
        let time = |now: Option<Duration>, then: Option<Duration>| {
            now.map(|now| now.saturating_sub(then.unwrap_or_default()))
        };
        Self {
            sent: count(self.sent, earlier.sent),
            retransmitted: count(self.retransmitted, earlier.retransmitted),
            lost: count(self.lost, earlier.lost),
            busy: time(self.busy, earlier.busy),
            receiver_full: time(self.receiver_full, earlier.receiver_full),
            buffer_full: time(self.buffer_full, earlier.buffer_full),
            received: count(self.received, earlier.received),
            out_of_order: count(self.out_of_order, earlier.out_of_order),
            ..self
        }
    }
}

/// The description of a handle, filled by each layer in turn, the lowest first.
#[derive(Default, Clone)]
#[non_exhaustive]
pub struct Info {
    /// Names of the layers, the lowest first.
    pub chain: Vec<Cow<'static, str>>,
    /// Address of this end, where the lowest layer has one.
    pub local: Option<SocketAddr>,
    /// Address of the other end.
    pub peer: Option<SocketAddr>,
    /// The negotiated protection of the bytes; `None` in the clear.
    pub security: Option<String>,
    /// Largest payload in bytes that travels in one piece, where a layer knows it.
    pub mtu: Option<usize>,
    /// Whether ending one direction ends the other too, because a protocol has no half-close or the
    /// stream only one direction.
    pub ends_together: bool,
    /// Whether the received bytes ended without the end mark of a layer of protection, so that they
    /// may have been cut off on the way.
    pub ended_unmarked: bool,
    extras: Vec<Arc<dyn Any + Send + Sync>>,
}

impl Info {
    /// Adds the name of a layer above those named so far.
    pub fn layer(&mut self, name: impl Into<Cow<'static, str>>) {
        self.chain.push(name.into());
    }

    /// The target by which a peer reaches this end: the [`Target`] that a layer added, else the
    /// local address.
    #[must_use]
    pub fn contact(&self) -> Option<Target> {
        self.get().cloned().or_else(|| self.local.map(Target::from))
    }

    /// The local socket address.
    ///
    /// # Errors
    /// A stack on a bottom without one, such as `unix` or `file`.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.local.ok_or_else(|| {
            let fact = format!("{} has no socket address", self.chain.join(","));
            Error::new(ErrorKind::Unsupported, "xio", Operation::Listen, fact)
        })
    }

    /// Adds a fact of a type that some callers know.
    pub fn insert<T: Any + Send + Sync>(&mut self, extra: T) {
        self.extras.push(Arc::new(extra));
    }

    /// The fact of type `T` of the highest layer that gave one.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.extras
            .iter()
            .rev()
            .find_map(|extra| extra.downcast_ref())
    }

    /// Every fact of type `T`, the lowest layer first.
    pub fn all<T: Any + Send + Sync>(&self) -> impl Iterator<Item = &T> {
        self.extras.iter().filter_map(|extra| extra.downcast_ref())
    }
}

/// Prints `tcp, count 127.0.0.1:4000 -> 127.0.0.1:2811`.
impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain.join(", "))?;
        if let Some(local) = self.local {
            write!(f, " {local}")?;
        }
        if let Some(peer) = self.peer {
            write!(f, " -> {peer}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Info")
            .field("chain", &self.chain)
            .field("local", &self.local)
            .field("peer", &self.peer)
            .field("security", &self.security)
            .field("mtu", &self.mtu)
            .field("ends_together", &self.ends_together)
            .field("extras", &self.extras.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_added_and_counted_from_a_moment_on() {
        let path = |sent, busy, round_trip| {
            let mut path = PathStats::new();
            (path.sent, path.busy) = (Some(sent), Some(Duration::from_secs(busy)));
            path.round_trip = Some(Duration::from_millis(round_trip));
            path
        };
        let (one, other) = (path(3, 4, 50), path(10, 6, 20));
        assert_eq!(one.and(other), path(13, 10, 50));
        assert_eq!(other.since(one), path(7, 2, 20));
        assert_eq!(one.and(PathStats::new()), one);
        // Those of another host may be any.
        let mut most = PathStats::new();
        (most.sent, most.busy) = (Some(u64::MAX), Some(Duration::MAX));
        assert_eq!(most.and(most), most);
        let (mut wide, mut narrow) = (one, one);
        (wide.path_mtu, narrow.path_mtu) = (Some(9000), Some(1500));
        narrow.segment = Some(1448);
        let both = wide.and(narrow);
        assert_eq!((both.path_mtu, both.segment), (Some(1500), Some(1448)));
        assert_eq!(wide.since(narrow).path_mtu, Some(9000));
        let mut lossy = PathStats::new();
        (lossy.received, lossy.out_of_order) = (Some(9), Some(4));
        lossy.is_lossy = true;
        // A lossy path stays one.
        assert!(one.and(lossy).is_lossy && lossy.since(lossy).is_lossy);
        assert_eq!(lossy.since(lossy).out_of_order, Some(0));
    }

    #[test]
    fn extras_accumulate_and_the_highest_wins() {
        let mut info = Info::default();
        info.layer("tcp");
        info.insert(1_u32);
        info.layer("count");
        info.insert(2_u32);
        assert_eq!(info.get::<u32>(), Some(&2));
        assert_eq!(info.all::<u32>().copied().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(info.get::<u64>(), None);
        assert_eq!(info.to_string(), "tcp, count");
        assert_eq!(info.contact(), None);
        info.insert(Target::file("/run/it"));
        assert_eq!(info.contact(), Some(Target::file("/run/it")));
    }
}

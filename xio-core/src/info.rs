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
    /// Variation of the round-trip time.
    pub round_trip_variation: Option<Duration>,
    /// Data packets sent, those sent again included.
    pub sent: Option<u64>,
    /// Data packets sent again.
    pub retransmitted: Option<u64>,
    /// Data packets that the peer reported lost.
    pub lost: Option<u64>,
}

impl PathStats {
    /// Statistics without any value.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            round_trip: None,
            round_trip_variation: None,
            sent: None,
            retransmitted: None,
            lost: None,
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

//! `Gather`: counts end-of-data marks over all connections, and tracks the received ranges.

use std::fmt;
use std::num::NonZero;

use byte_ranges::{Range64, RangeSet};

use crate::Limits;

/// The state of one transfer over all connections of one listener.
///
/// A transfer is complete when the number of end-of-data marks is the one that the end-of-file
/// block announced. With several stripes, each listener has its own `Gather`, or one listener for
/// all counts the [`senders`](Self::with_senders), of which each announces its own marks.
#[derive(Debug, Clone)]
pub struct Gather {
    limits: Limits,
    /// Open connections.
    open: u32,
    /// Connections with a header of this transfer.
    begun: u32,
    eods: u32,
    /// Senders that have not announced their marks.
    silent: u32,
    /// Whether each sender announces the marks of its own connections.
    several: bool,
    /// The announced marks.
    expected: Option<u64>,
    received: RangeSet,
    /// Ranges received since the last [`take_new`](Self::take_new).
    fresh: RangeSet,
    bytes: u64,
}

impl Gather {
    /// A transfer without any received block.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: 0,
            begun: 0,
            eods: 0,
            silent: 1,
            several: false,
            expected: None,
            received: RangeSet::new(),
            fresh: RangeSet::new(),
            bytes: 0,
        }
    }

    /// Expects as many end-of-file blocks as there are senders, and the sum of their marks.
    #[must_use]
    pub const fn with_senders(mut self, senders: NonZero<u32>) -> Self {
        self.silent = senders.get();
        self.several = self.silent > 1;
        self
    }

    /// Counts an open connection: a new one, or one kept from the transfer before.
    ///
    /// # Errors
    ///
    /// [`GatherError::TooManyConnections`].
    pub fn opened(&mut self) -> Result<(), GatherError> {
        if self.open >= self.limits.max_connections {
            return Err(GatherError::TooManyConnections {
                limit: self.limits.max_connections,
            });
        }
        self.open += 1;
        Ok(())
    }

    /// Counts a connection at its first header of this transfer.
    ///
    /// # Errors
    ///
    /// [`GatherError::TooManyConnections`], also when few are open at a time;
    /// [`GatherError::CountTooLow`] when all announced marks have arrived before.
    pub fn begun(&mut self) -> Result<(), GatherError> {
        if self.begun >= self.limits.max_connections {
            return Err(GatherError::TooManyConnections {
                limit: self.limits.max_connections,
            });
        }
        self.begun += 1;
        self.judge()
    }

    /// Records `len` received bytes at `offset`; ranges may overlap.
    ///
    /// # Errors
    ///
    /// [`GatherError::TooManyRanges`] when the received ranges are more than the limit.
    pub fn record(&mut self, offset: u64, len: u64) -> Result<(), GatherError> {
        let Some(range) = Range64::from_len(offset, len) else {
            return Ok(());
        };
        self.bytes = self.bytes.saturating_add(len);
        self.received.insert(range);
        self.fresh.insert(range);
        if self.received.len().max(self.fresh.len()) > self.limits.max_ranges {
            return Err(GatherError::TooManyRanges {
                limit: self.limits.max_ranges,
            });
        }
        Ok(())
    }

    /// Records the announced number of end-of-data marks. One sender may announce the same number
    /// again; the numbers of several are added.
    ///
    /// # Errors
    ///
    /// [`GatherError::Contradiction`] with an earlier announcement, [`GatherError::CountTooLow`],
    /// [`GatherError::AbsurdCount`].
    pub fn eof(&mut self, connections: u64) -> Result<(), GatherError> {
        let limit = self.limits.max_connections;
        let before = self.expected.filter(|_| self.several).unwrap_or(0);
        let connections = connections.saturating_add(before);
        if connections == before || connections > u64::from(limit) {
            return Err(GatherError::AbsurdCount {
                announced: connections,
                limit,
            });
        }
        let settled = self.expected.filter(|_| self.silent == 0);
        if let Some(first) = settled.filter(|first| *first != connections) {
            return Err(GatherError::Contradiction {
                first,
                second: connections,
            });
        }
        self.silent = self.silent.saturating_sub(1);
        self.expected = Some(connections);
        self.judge()
    }

    /// Counts an end-of-data mark.
    ///
    /// # Errors
    ///
    /// [`GatherError::CountTooLow`] when there are more than announced.
    pub fn eod(&mut self) -> Result<(), GatherError> {
        self.eods = self.eods.saturating_add(1);
        self.judge()
    }

    /// Checks the number of marks: not above the announced count, and no connection may be in the
    /// middle of its blocks once it is reached, or their data would be lost silently.
    fn judge(&self) -> Result<(), GatherError> {
        let Some(announced) = self.expected.filter(|_| self.silent == 0) else {
            return Ok(());
        };
        let eods = u64::from(self.eods);
        if eods > announced || (eods == announced && self.begun > self.eods) {
            let connections = self.begun.max(self.eods);
            return Err(GatherError::CountTooLow {
                announced,
                connections,
            });
        }
        Ok(())
    }

    /// Counts an [`opened`](Self::opened) connection as closed.
    /// [`Deframer::at_end`](crate::Deframer::at_end) checks that it may close here.
    ///
    /// # Errors
    ///
    /// [`GatherError::Short`] if it was the last one, a header had arrived, and marks are missing.
    pub fn closed(&mut self) -> Result<(), GatherError> {
        self.open = self.open.saturating_sub(1);
        // A connection without any header, of a port scanner perhaps, must not end a transfer.
        if self.open == 0 && self.begun > 0 && !self.is_complete() {
            return Err(GatherError::Short {
                marks: self.eods,
                announced: self.expected,
            });
        }
        Ok(())
    }

    /// Says whether all announced end-of-data marks have arrived.
    pub fn is_complete(&self) -> bool {
        self.silent == 0 && self.expected == Some(u64::from(self.eods))
    }

    /// The received ranges, in wire offsets.
    pub fn received(&self) -> &RangeSet {
        &self.received
    }

    /// The ranges received since the last call, for a 111 marker.
    pub fn take_new(&mut self) -> RangeSet {
        std::mem::take(&mut self.fresh)
    }

    /// Number of payload bytes received, repeated ones counted again.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of end-of-data marks received.
    pub fn eods(&self) -> u32 {
        self.eods
    }

    /// Number of announced end-of-data marks; `None` before any end-of-file block.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Number of open connections.
    pub fn open(&self) -> u32 {
        self.open
    }
}

/// An inconsistent or unbounded set of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GatherError {
    /// More connections than the limit.
    TooManyConnections {
        /// The limit.
        limit: u32,
    },
    /// More separate received ranges than the limit.
    TooManyRanges {
        /// The limit.
        limit: usize,
    },
    /// The end-of-file block announces no mark, or more than there may be connections.
    AbsurdCount {
        /// The announced marks.
        announced: u64,
        /// The limit.
        limit: u32,
    },
    /// Two end-of-file blocks announce different numbers.
    Contradiction {
        /// The first number.
        first: u64,
        /// The other.
        second: u64,
    },
    /// More connections take part than marks were announced.
    CountTooLow {
        /// The announced marks.
        announced: u64,
        /// Connections with blocks of this transfer.
        connections: u32,
    },
    /// All connections are closed, and marks are missing.
    Short {
        /// Received marks.
        marks: u32,
        /// Announced marks; `None` when there was no end-of-file block.
        announced: Option<u64>,
    },
}

impl fmt::Display for GatherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mode e: ")?;
        match self {
            Self::TooManyConnections { limit } => write!(f, "more than {limit} connections"),
            Self::TooManyRanges { limit } => {
                write!(f, "peer sent more than {limit} separate ranges")
            }
            Self::AbsurdCount { announced, limit } => write!(
                f,
                "peer announced {announced} end-of-data marks, allowed are 1 to {limit}"
            ),
            Self::Contradiction { first, second } => {
                write!(f, "peer announced {first} end-of-data marks, then {second}")
            }
            Self::CountTooLow {
                announced,
                connections,
            } => write!(
                f,
                "peer announced {announced} end-of-data marks, but {connections} connections take part"
            ),
            Self::Short {
                marks,
                announced: Some(announced),
            } => write!(
                f,
                "all connections ended after {marks} of {announced} end-of-data marks"
            ),
            Self::Short {
                marks,
                announced: None,
            } => write!(
                f,
                "all connections ended after {marks} end-of-data marks and no end-of-file mark"
            ),
        }
    }
}

impl std::error::Error for GatherError {}

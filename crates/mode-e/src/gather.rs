//! `Gather`: across connections; counts EODs against the announced EOF count, tracks received ranges.

use std::fmt;

use byte_ranges::{Range64, RangeSet};

use crate::Limits;

/// What the connections of one listener have brought in one transfer.
///
/// A transfer is complete when as many end-of-data marks have come as the end-of-file block
/// announced. With several stripes, each listener has a `Gather` of its own.
#[derive(Debug, Clone)]
pub struct Gather {
    limits: Limits,
    /// Connections that can bring something.
    open: u32,
    /// Connections that have brought a header.
    begun: u32,
    eods: u32,
    expected: Option<u64>,
    received: RangeSet,
    /// What came since the caller last asked.
    fresh: RangeSet,
    bytes: u64,
}

impl Gather {
    /// A transfer of which nothing has come.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: 0,
            begun: 0,
            eods: 0,
            expected: None,
            received: RangeSet::new(),
            fresh: RangeSet::new(),
            bytes: 0,
        }
    }

    /// Counts a connection that can bring something: a new one, or one kept from the transfer before.
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

    /// Counts a connection whose first header of this transfer has come.
    ///
    /// # Errors
    ///
    /// [`GatherError::TooManyConnections`], when connections come, bring something and go again
    /// without end; [`GatherError::CountTooLow`] when all announced marks have come already.
    pub fn begun(&mut self) -> Result<(), GatherError> {
        if self.begun >= self.limits.max_connections {
            return Err(GatherError::TooManyConnections {
                limit: self.limits.max_connections,
            });
        }
        self.begun += 1;
        self.judge()
    }

    /// Records that `len` bytes at `offset` have been taken; of overlaps, the later one counts.
    ///
    /// # Errors
    ///
    /// [`GatherError::TooManyRanges`] when what has come is scattered beyond the limit.
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

    /// Takes the announced number of end-of-data marks; the same number may come again.
    ///
    /// # Errors
    ///
    /// [`GatherError::Contradiction`] with an earlier announcement, [`GatherError::CountTooLow`],
    /// [`GatherError::AbsurdCount`].
    pub fn eof(&mut self, connections: u64) -> Result<(), GatherError> {
        let limit = self.limits.max_connections;
        if connections == 0 || connections > u64::from(limit) {
            return Err(GatherError::AbsurdCount {
                announced: connections,
                limit,
            });
        }
        if let Some(first) = self.expected.filter(|first| *first != connections) {
            return Err(GatherError::Contradiction {
                first,
                second: connections,
            });
        }
        self.expected = Some(connections);
        self.judge()
    }

    /// Counts an end-of-data mark.
    ///
    /// # Errors
    ///
    /// [`GatherError::CountTooLow`] when more come than were announced.
    pub fn eod(&mut self) -> Result<(), GatherError> {
        self.eods = self.eods.saturating_add(1);
        self.judge()
    }

    /// The announced count must leave room for every mark seen, and once it is reached no connection
    /// may be in the middle of its part: its data would be lost in silence.
    fn judge(&self) -> Result<(), GatherError> {
        let Some(announced) = self.expected else {
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

    /// Counts a connection, once [`opened`](Self::opened), that is gone. Whether it might go is
    /// [`Deframer::at_end`](crate::Deframer::at_end)'s matter.
    ///
    /// # Errors
    ///
    /// [`GatherError::Short`] when it was the last one, something had come, and marks are missing.
    pub fn closed(&mut self) -> Result<(), GatherError> {
        self.open = self.open.saturating_sub(1);
        // A stranger who comes and goes without a word must not end a transfer.
        if self.open == 0 && self.begun > 0 && !self.is_complete() {
            return Err(GatherError::Short {
                marks: self.eods,
                announced: self.expected,
            });
        }
        Ok(())
    }

    /// Says whether all has come.
    pub fn is_complete(&self) -> bool {
        self.expected == Some(u64::from(self.eods))
    }

    /// What has come, in wire offsets.
    pub fn received(&self) -> &RangeSet {
        &self.received
    }

    /// What has come since the last call: what a 111 marker names.
    pub fn take_new(&mut self) -> RangeSet {
        std::mem::take(&mut self.fresh)
    }

    /// Payload bytes that have come, repeated ones counted again.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// End-of-data marks that have come.
    pub fn eods(&self) -> u32 {
        self.eods
    }

    /// Announced end-of-data marks; `None` until the end-of-file block has come.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Connections that can bring something now.
    pub fn open(&self) -> u32 {
        self.open
    }
}

/// Connections that do not add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GatherError {
    /// More connections than are taken.
    TooManyConnections {
        /// The most that are taken.
        limit: u32,
    },
    /// What has come is in more pieces than are taken.
    TooManyRanges {
        /// The most that are taken.
        limit: usize,
    },
    /// The end-of-file block announces no mark, or more than there may be connections.
    AbsurdCount {
        /// The announced marks.
        announced: u64,
        /// The most that are taken.
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
        /// Connections that have brought something.
        connections: u32,
    },
    /// All connections are gone, and marks are missing.
    Short {
        /// Marks that have come.
        marks: u32,
        /// Announced marks; `None` when no end-of-file block came.
        announced: Option<u64>,
    },
}

impl fmt::Display for GatherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mode e: ")?;
        match self {
            Self::TooManyConnections { limit } => write!(f, "more than {limit} connections"),
            Self::TooManyRanges { limit } => {
                write!(f, "what the peer sent is in more than {limit} pieces")
            }
            Self::AbsurdCount { announced, limit } => write!(
                f,
                "peer announced {announced} end-of-data marks, 1 to {limit} are possible"
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

//! `Scheduler`: hands out blocks of a range set to N connections, smallest offset first.

use byte_ranges::{Range64, RangeSet};

use crate::Header;

/// The connections of one transfer: as many to each destination address.
///
/// Connection `i` leads to destination `i / per_destination`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    destinations: usize,
    per_destination: usize,
}

impl Streams {
    /// `per_destination` connections to each of `destinations`; `None` if either is 0 or their product
    /// is absurd.
    pub fn new(destinations: usize, per_destination: usize) -> Option<Self> {
        let product = destinations.checked_mul(per_destination)?;
        (1..=1 << 20).contains(&product).then_some(Self {
            destinations,
            per_destination,
        })
    }

    /// One connection.
    pub const ONE: Self = Self {
        destinations: 1,
        per_destination: 1,
    };

    /// Number of connections in all.
    pub const fn connections(self) -> usize {
        self.destinations * self.per_destination
    }

    /// Number of destination addresses.
    pub const fn destinations(self) -> usize {
        self.destinations
    }

    /// The destination of a connection.
    pub const fn destination_of(self, connection: usize) -> usize {
        connection / self.per_destination
    }
}

/// What a connection that can take a block should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// Send this header and the bytes it names.
    Data(Header),
    /// Send this header, which is the last of this connection for this transfer.
    End(Header),
    /// Ask again: more may be pushed.
    Wait,
    /// Nothing; the last header has been handed out before.
    Finished,
}

/// Deals the blocks of one transfer to whichever connection asks, then ends each of them.
///
/// GFD.20 §4: every connection but one of each destination gets a lone end-of-data mark; that one
/// gets the mark together with the end-of-file mark and the count. All connections are ended, so all
/// must be opened, for the smallest file and for none.
#[derive(Debug, Clone)]
pub struct Scheduler {
    streams: Streams,
    block: u64,
    queue: RangeSet,
    growing: bool,
    ended: Vec<bool>,
    announced: Vec<bool>,
}

impl Scheduler {
    /// Sends the ranges of `what`, in wire offsets, in blocks of at most `block` bytes (at least 1).
    pub fn new(what: &RangeSet, block: u64, streams: Streams) -> Self {
        Self {
            streams,
            block: block.max(1),
            queue: what.clone(),
            growing: false,
            ended: vec![false; streams.connections()],
            announced: vec![false; streams.destinations()],
        }
    }

    /// Sends what is [pushed](Self::push) until [closed](Self::close): for data whose size is not known before.
    pub fn growing(block: u64, streams: Streams) -> Self {
        Self {
            growing: true,
            ..Self::new(&RangeSet::new(), block, streams)
        }
    }

    /// Adds a range to send.
    pub fn push(&mut self, range: Range64) {
        self.queue.insert(range);
    }

    /// Takes back what was not handed out: the transfer ends with the blocks that are on their way.
    pub fn clear(&mut self) {
        self.queue = RangeSet::new();
    }

    /// Says that nothing more will be pushed.
    pub fn close(&mut self) {
        self.growing = false;
    }

    /// Says what `connection` should do now that it can take a block.
    ///
    /// A block handed out is the connection's to deliver: if it fails, the transfer has failed.
    pub fn next(&mut self, connection: usize) -> Next {
        let Some(ended) = self.ended.get_mut(connection) else {
            return Next::Finished;
        };
        if *ended {
            return Next::Finished;
        }
        if let Some(block) = self.queue.take_first(self.block) {
            return Next::Data(Header::data(block.start(), block.len()));
        }
        if self.growing {
            return Next::Wait;
        }
        *ended = true;
        // The first to end carries the count: the sooner the receiver knows it, the better.
        match self
            .announced
            .get_mut(self.streams.destination_of(connection))
        {
            Some(announced) if !*announced => {
                *announced = true;
                Next::End(Header::eof(self.streams.per_destination as u64))
            }
            _ => Next::End(Header::eod()),
        }
    }

    /// Says whether every connection has been ended.
    pub fn is_finished(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    /// Number of connections to open.
    pub fn connections(&self) -> usize {
        self.streams.connections()
    }

    /// Bytes not yet handed out.
    pub fn left(&self) -> u64 {
        self.queue.total()
    }
}

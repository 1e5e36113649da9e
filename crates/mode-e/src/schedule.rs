//! `Scheduler`: assigns the blocks of a range set to N connections, smallest offset first.

use byte_ranges::{Range64, RangeSet, Share, Stripe};

use crate::Header;

/// The connections of one transfer: the same number to each destination address.
///
/// Connection `i` leads to destination `i / per_destination`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    destinations: usize,
    per_destination: usize,
}

impl Streams {
    /// Creates `per_destination` connections to each of `destinations`; `None` if either is 0 or
    /// their product is above 2^20.
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

/// The next action of a writable connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// Send this header and its payload.
    Data(Header),
    /// Send this header, the last of this connection for this transfer.
    End(Header),
    /// Nothing yet: more may be pushed.
    Wait,
    /// Nothing; the last header was returned before.
    Finished,
}

/// Assigns the blocks of one transfer to writable connections, then ends each connection.
///
/// GFD.20 §4: one connection of each destination gets the end-of-data mark together with the
/// end-of-file mark and the count; every other gets an end-of-data mark alone. Every connection is
/// ended, so all must be opened, even for an empty file.
#[derive(Debug, Clone)]
pub struct Scheduler {
    streams: Streams,
    block: u64,
    queue: Share,
    /// Destinations that get data; the others get the end marks alone.
    receivers: usize,
    growing: bool,
    ended: Vec<bool>,
    announced: Vec<bool>,
}

impl Scheduler {
    /// Sends `ranges`, in wire offsets, in blocks of at most `block` bytes (at least 1).
    pub fn new(ranges: &RangeSet, block: u64, streams: Streams) -> Self {
        Self::of(Stripe::ONLY.share(ranges), block, streams)
    }

    /// Sends the share of one stripe, in wire offsets, in blocks of at most `block` bytes.
    pub fn of(share: Share, block: u64, streams: Streams) -> Self {
        Self {
            streams,
            block: block.max(1),
            queue: share,
            receivers: streams.destinations(),
            growing: false,
            ended: vec![false; streams.connections()],
            announced: vec![false; streams.destinations()],
        }
    }

    /// Sends data to the first `receivers` destinations alone, at least to one.
    #[must_use]
    pub fn with_receivers(mut self, receivers: usize) -> Self {
        self.receivers = receivers.max(1);
        self
    }

    /// Sends [pushed](Self::push) ranges until [closed](Self::close), for data of unknown size.
    pub fn growing(block: u64, streams: Streams) -> Self {
        Self {
            growing: true,
            ..Self::new(&RangeSet::new(), block, streams)
        }
    }

    /// Adds a range to send.
    pub fn push(&mut self, range: Range64) {
        self.queue.push(range);
    }

    /// Drops the unassigned ranges: the transfer ends with the blocks in flight.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// Ends the pushing of ranges.
    pub fn close(&mut self) {
        self.growing = false;
    }

    /// Returns the next action of `connection`, which is writable.
    ///
    /// An assigned block is not assigned again: if its connection fails, the transfer has failed.
    pub fn next(&mut self, connection: usize) -> Next {
        self.next_within(connection, u64::MAX)
    }

    /// As [`next`](Self::next), with a block of at most `most` bytes (at least 1), for a slow
    /// connection: the end of the transfer waits for the last block of each.
    pub fn next_within(&mut self, connection: usize, most: u64) -> Next {
        let Some(ended) = self.ended.get_mut(connection) else {
            return Next::Finished;
        };
        if *ended {
            return Next::Finished;
        }
        let receives = self.streams.destination_of(connection) < self.receivers;
        if receives && let Some(block) = self.queue.take_first(self.block.min(most.max(1))) {
            return Next::Data(Header::data(block.start(), block.len()));
        }
        if self.growing && receives {
            return Next::Wait;
        }
        *ended = true;
        // The first connection to end carries the count, so that the receiver knows it early.
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

    /// Ends `connection` ahead of the others, without the count, which another connection of its
    /// destination carries; `None` where it has ended, or no other is left to carry that.
    pub fn end_early(&mut self, connection: usize) -> Option<Header> {
        let ended = *self.ended.get(connection)?;
        let destination = self.streams.destination_of(connection);
        let others = self.ended.iter().enumerate();
        let mut others = others
            .filter(|(at, _)| *at != connection && self.streams.destination_of(*at) == destination);
        let is_announced = self.announced.get(destination).is_some_and(|yes| *yes);
        if ended || !(is_announced || others.any(|(_, ended)| !ended)) {
            return None;
        }
        *self.ended.get_mut(connection)? = true;
        Some(Header::eod())
    }

    /// Says whether every connection has been ended.
    pub fn is_finished(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    /// Number of connections to open.
    pub fn connections(&self) -> usize {
        self.streams.connections()
    }

    /// Bytes not yet assigned.
    pub fn left(&self) -> u64 {
        self.queue.total()
    }
}

//! `Ends`, `Event`: the end of each direction, and pending events.

use std::task::Poll;

use crate::ConnectionError;

/// Event of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is over: data can be written and read.
    Connected,
    /// Reading may succeed where it was pending.
    Readable,
    /// Writing may succeed where it was pending.
    Writable,
    /// The peer has acknowledged all written data.
    Drained,
    /// The connection has ended, with an error unless it was closed in order. Data that arrived
    /// before can still be read, and shutdown packets still have to be transmitted.
    Closed(Option<ConnectionError>),
}

/// End of each direction, and pending events.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// End of reading: in order, or with an error.
    read: Option<Result<(), ConnectionError>>,
    write: Option<ConnectionError>,
    /// Whether a write waits for room.
    pub(super) wants_room: bool,
    is_connected: bool,
    is_readable: bool,
    is_writable: bool,
    is_drained: bool,
    closed: Option<Option<ConnectionError>>,
    is_closed: bool,
}

impl Ends {
    pub(super) fn on_connected(&mut self) {
        self.is_connected = true;
        self.is_writable = true;
    }

    pub(super) fn on_readable(&mut self) {
        self.is_readable = true;
    }

    pub(super) fn on_room(&mut self) {
        self.is_writable |= std::mem::take(&mut self.wants_room);
    }

    pub(super) fn on_drained(&mut self) {
        self.is_drained = true;
    }

    /// Ends both directions, unless they have ended before.
    pub(super) fn end(&mut self, read: Result<(), ConnectionError>, write: ConnectionError) {
        self.read.get_or_insert(read);
        self.write.get_or_insert(write);
    }

    /// Ends writing only.
    pub(super) fn end_write(&mut self, why: ConnectionError) {
        self.write.get_or_insert(why);
    }

    /// Queues the event of the end, once.
    pub(super) fn close(&mut self, why: Option<ConnectionError>) {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.closed = Some(why);
        }
    }

    pub(super) fn check_write(&self) -> Result<(), ConnectionError> {
        self.write.map_or(Ok(()), Err)
    }

    pub(super) fn poll_end(&self) -> Poll<Result<(), ConnectionError>> {
        self.read.map_or(Poll::Pending, Poll::Ready)
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        let mut take = |flag: fn(&mut Self) -> &mut bool| std::mem::take(flag(self));
        if take(|ends| &mut ends.is_connected) {
            Some(Event::Connected)
        } else if take(|ends| &mut ends.is_readable) {
            Some(Event::Readable)
        } else if take(|ends| &mut ends.is_writable) {
            Some(Event::Writable)
        } else if take(|ends| &mut ends.is_drained) {
            Some(Event::Drained)
        } else {
            self.closed.take().map(Event::Closed)
        }
    }
}

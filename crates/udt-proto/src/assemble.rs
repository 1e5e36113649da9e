//! `Assembler`: finds whole messages, in any order of their packets.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::packet::Message;
use crate::receive_buffer::ReceiveBuffer;

/// A message with at least one packet.
#[derive(Debug, Clone, Copy, Default)]
struct Partial {
    packets: u64,
    first: Option<u64>,
    last: Option<u64>,
}

/// A whole message.
#[derive(Debug, Clone, Copy)]
struct Whole {
    end: u64,
    in_order: bool,
}

/// Messages with packets in the buffer.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    partial: HashMap<u32, Partial>,
    /// By first packet.
    whole: BTreeMap<u64, Whole>,
    /// First packets of whole messages that may be read out of order.
    loose: BTreeSet<u64>,
    /// Whether the sender has dropped packets, so that messages may never be whole.
    has_holes: bool,
}

impl Assembler {
    /// Notes a packet that was stored.
    pub(crate) fn on_packet(&mut self, index: u64, message: Message) {
        let partial = self.partial.entry(message.number()).or_default();
        partial.packets += 1;
        if message.is_first() {
            partial.first = Some(index);
        }
        if message.is_last() {
            partial.last = Some(index);
        }
        if let Some((first, last)) = partial.first.zip(partial.last)
            && last.checked_sub(first) == Some(partial.packets - 1)
        {
            self.partial.remove(&message.number());
            let whole = Whole {
                end: last + 1,
                in_order: message.in_order(),
            };
            if !whole.in_order {
                self.loose.insert(first);
            }
            self.whole.insert(first, whole);
        }
    }

    /// Returns the packets of the first readable message, given that all before `next` have
    /// arrived.
    pub(crate) fn readable(&self, next: u64) -> Option<(u64, u64)> {
        let (first, whole) = self.whole.first_key_value()?;
        if whole.end <= next {
            return Some((*first, whole.end));
        }
        // Messages behind it wait for it.
        let first = self.loose.first()?;
        Some((*first, self.whole.get(first)?.end))
    }

    /// Removes a message that was read.
    pub(crate) fn on_read(&mut self, first: u64) {
        self.whole.remove(&first);
        self.loose.remove(&first);
    }

    /// Drops the missing packets of a message, which the sender will not send again.
    pub(crate) fn give_up(
        &mut self,
        buffer: &mut ReceiveBuffer,
        start: u64,
        end: u64,
        number: u32,
    ) {
        self.has_holes = true;
        self.partial.remove(&number);
        for index in start.max(buffer.read())..end.min(buffer.limit()) {
            let is_whole = || {
                let before = self.whole.range(..=index).next_back();
                before.is_some_and(|(_, whole)| index < whole.end)
            };
            match buffer.message(index) {
                None => buffer.discard(index),
                // A sender may name one packet too many, which belongs to the next message.
                Some(message) if message.number() == number && !is_whole() => buffer.discard(index),
                Some(_) => {}
            }
        }
    }

    /// Discards messages before `next` that can never be whole, to free their room.
    pub(crate) fn tidy(&mut self, buffer: &mut ReceiveBuffer, next: u64) {
        buffer.pass_done(next);
        if !self.has_holes {
            return;
        }
        while buffer.read() < next && !self.whole.contains_key(&buffer.read()) {
            let Some(message) = buffer.message(buffer.read()) else {
                return;
            };
            let number = message.number();
            let mut end = buffer.read();
            while end < next && buffer.message(end).is_some_and(|m| m.number() == number) {
                end += 1;
            }
            if message.is_first() && end == next {
                // The rest of the message may still arrive.
                return;
            }
            self.partial.remove(&number);
            (buffer.read()..end).for_each(|index| buffer.discard(index));
            buffer.pass_done(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what it costs is what is tested")]
    fn messages_that_wait_for_their_turn_are_not_all_looked_at() {
        let begun = Instant::now();
        let mut assembler = Assembler::default();
        // The first packet is missing, so only messages out of order can be read.
        for index in 1..=100_000 {
            let number = u32::try_from(index).unwrap();
            assembler.on_packet(index, Message::new(number, true, true, true));
            assert_eq!(assembler.readable(0), None);
        }
        assembler.on_packet(100_001, Message::new(100_001, true, true, false));
        assert_eq!(assembler.readable(0), Some((100_001, 100_002)));
        assembler.on_read(100_001);
        assert_eq!(assembler.readable(0), None);
        assert_eq!(assembler.readable(2), Some((1, 2)));
        assembler.on_read(1);
        assert_eq!(assembler.readable(2), None);
        assert_eq!(assembler.readable(100_001), Some((2, 3)));
        // It takes a hundredth of that, and many times that if each packet visits all others.
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}

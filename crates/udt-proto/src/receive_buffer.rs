//! `ReceiveBuffer`: payload in the order of its packets, with holes, until it is read.

use std::collections::VecDeque;
use std::fmt;

use crate::packet::Message;

/// Packets of a block of memory.
const PER_BLOCK: usize = 16;
/// Emptied blocks kept for the next packets.
const SPARE_BLOCKS: usize = 8;
/// Lengths that no packet has: not arrived, and removed.
const ABSENT: u16 = u16::MAX;
const DONE: u16 = u16::MAX - 1;

/// Slots of consecutive packets.
struct Block {
    bytes: Box<[u8]>,
    lens: [u16; PER_BLOCK],
    messages: [Message; PER_BLOCK],
}

/// Omits the payload.
impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lens.fmt(f)
    }
}

/// Packets from the first unread one on.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    /// Bytes of a full packet.
    payload: usize,
    blocks: VecDeque<Option<Block>>,
    spare: Vec<Block>,
    /// Index of the first packet of the first block.
    base: u64,
    /// The first unread packet, and its bytes that are read.
    read: u64,
    offset: usize,
    capacity: u64,
}

impl ReceiveBuffer {
    pub(crate) fn new(payload: usize, capacity: u32) -> Self {
        Self {
            payload,
            blocks: VecDeque::new(),
            spare: Vec::new(),
            base: 0,
            read: 0,
            offset: 0,
            capacity: capacity.into(),
        }
    }

    /// Raises the capacity to a number of packets.
    pub(crate) fn widen(&mut self, capacity: u32) {
        self.capacity = self.capacity.max(capacity.into());
    }

    /// The first unread packet.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// One past the last packet with room.
    pub(crate) fn limit(&self) -> u64 {
        self.read + self.capacity
    }

    /// Free slots once everything before `next` has arrived; at least two, so that a sender goes
    /// on.
    pub(crate) fn room(&self, next: u64) -> u64 {
        let unread = next.saturating_sub(self.read);
        self.capacity.saturating_sub(unread + 1).max(2)
    }

    fn place(&self, index: u64) -> Option<(usize, usize)> {
        let offset = usize::try_from(index.checked_sub(self.base)?).ok()?;
        Some((offset / PER_BLOCK, offset % PER_BLOCK))
    }

    fn block(&self, index: u64) -> Option<(&Block, usize)> {
        let (number, slot) = self.place(index)?;
        Some((self.blocks.get(number)?.as_ref()?, slot))
    }

    fn len(&self, index: u64) -> u16 {
        let len = |(block, slot): (&Block, usize)| block.lens.get(slot).copied();
        self.block(index).and_then(len).unwrap_or(ABSENT)
    }

    /// Whether a packet has arrived and is not removed.
    pub(crate) fn has(&self, index: u64) -> bool {
        self.len(index) < DONE
    }

    /// Message number and part of a packet, if it has arrived.
    pub(crate) fn message(&self, index: u64) -> Option<Message> {
        let (block, slot) = self.block(index).filter(|_| self.has(index))?;
        block.messages.get(slot).copied()
    }

    /// Stores a packet; returns whether there was a slot for it.
    pub(crate) fn store(&mut self, index: u64, payload: &[u8], message: Message) -> bool {
        if index < self.read || index >= self.limit() || payload.len() > self.payload {
            return false;
        }
        let size = self.payload;
        self.with_block(index, |block, slot| {
            if let Some(place) = block.bytes.get_mut(slot * size..)
                && let Some(place) = place.get_mut(..payload.len())
                && let Some(len) = block.lens.get_mut(slot)
                && let Some(word) = block.messages.get_mut(slot)
            {
                place.copy_from_slice(payload);
                *len = u16::try_from(payload.len()).unwrap_or(DONE);
                *word = message;
            }
        });
        true
    }

    /// Removes a packet that is of no use any more, or will never arrive.
    pub(crate) fn discard(&mut self, index: u64) {
        if index < self.read || index >= self.limit() {
            return;
        }
        self.with_block(index, |block, slot| {
            if let Some(len) = block.lens.get_mut(slot) {
                *len = DONE;
            }
        });
    }

    fn with_block(&mut self, index: u64, act: impl FnOnce(&mut Block, usize)) {
        let Some((number, slot)) = self.place(index) else {
            return;
        };
        if number >= self.blocks.len() {
            self.blocks.resize_with(number + 1, || None);
        }
        let Some(place) = self.blocks.get_mut(number) else {
            return;
        };
        let (size, spare) = (self.payload, &mut self.spare);
        let block = place.get_or_insert_with(|| {
            spare.pop().unwrap_or_else(|| Block {
                bytes: vec![0; PER_BLOCK * size].into(),
                lens: [ABSENT; PER_BLOCK],
                messages: [Message::default(); PER_BLOCK],
            })
        });
        act(block, slot);
    }

    /// Copies bytes of a stream out, from packets before `end`, which have all arrived.
    pub(crate) fn copy(&mut self, end: u64, mut into: &mut [u8]) -> usize {
        let wanted = into.len();
        while !into.is_empty() && self.read < end {
            let run = self.run(end, into.len());
            let (now, rest) = std::mem::take(&mut into).split_at_mut(run.len());
            now.copy_from_slice(run);
            into = rest;
            self.skip(now.len());
        }
        wanted - into.len()
    }

    /// Contiguous unread bytes, `most` of them at most.
    fn run(&self, end: u64, most: usize) -> &[u8] {
        let Some((block, slot)) = self.block(self.read) else {
            return &[];
        };
        let packets = usize::try_from(end - self.read).unwrap_or(usize::MAX);
        let mut bytes = 0;
        for len in block.lens.iter().skip(slot).take(packets) {
            if *len >= DONE {
                break;
            }
            bytes += usize::from(*len);
            if usize::from(*len) < self.payload || bytes - self.offset >= most {
                break;
            }
        }
        let start = slot * self.payload;
        let bytes = bytes.min(self.offset.saturating_add(most));
        block
            .bytes
            .get(start + self.offset..start + bytes)
            .unwrap_or_default()
    }

    /// Advances by copied bytes, and past packets that are read.
    fn skip(&mut self, mut bytes: usize) {
        loop {
            let len = self.len(self.read);
            let len = if len >= DONE { 0 } else { usize::from(len) };
            let left = len.saturating_sub(self.offset);
            if bytes < left {
                self.offset += bytes;
                return;
            }
            bytes -= left;
            self.offset = 0;
            self.pass();
            if bytes == 0 {
                return;
            }
        }
    }

    /// Advances by one packet and frees the memory behind it.
    fn pass(&mut self) {
        self.read += 1;
        while self.read >= self.base + PER_BLOCK as u64 {
            self.base += PER_BLOCK as u64;
            if let Some(Some(mut block)) = self.blocks.pop_front()
                && self.spare.len() < SPARE_BLOCKS
            {
                block.lens = [ABSENT; PER_BLOCK];
                self.spare.push(block);
            }
        }
    }

    /// Advances past removed packets before `end`.
    pub(crate) fn pass_done(&mut self, end: u64) {
        while self.read < end && self.len(self.read) == DONE {
            self.pass();
        }
    }

    /// Copies packets out as one message; returns its whole length, even if `into` is shorter.
    pub(crate) fn take_message(&mut self, first: u64, end: u64, mut into: &mut [u8]) -> usize {
        let mut total = 0;
        for index in first..end {
            let len = usize::from(self.len(index));
            if let Some((block, slot)) = self.block(index).filter(|_| self.has(index)) {
                let start = slot * self.payload;
                let bytes = block.bytes.get(start..start + len).unwrap_or_default();
                total += bytes.len();
                let room = bytes.len().min(into.len());
                let (now, rest) = std::mem::take(&mut into).split_at_mut(room);
                for (to, from) in now.iter_mut().zip(bytes) {
                    *to = *from;
                }
                into = rest;
            }
            self.discard(index);
        }
        total
    }

    /// Frees unused memory.
    pub(crate) fn shrink(&mut self) {
        self.spare = Vec::new();
        let mut first = self.base;
        for place in &mut self.blocks {
            let read = usize::try_from(self.read.saturating_sub(first)).unwrap_or(usize::MAX);
            let is_empty = |block: &Block| block.lens.iter().skip(read).all(|len| *len == ABSENT);
            place.take_if(|block| is_empty(block));
            first += PER_BLOCK as u64;
        }
        while self.blocks.back().is_some_and(Option::is_none) {
            self.blocks.pop_back();
        }
    }

    /// Bytes of memory held.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn memory(&self) -> usize {
        let blocks = self.blocks.iter().flatten().count() + self.spare.len();
        blocks * (PER_BLOCK * (self.payload + 6)) + self.blocks.len() * size_of::<Option<Block>>()
    }
}

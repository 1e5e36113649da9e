//! `SendBuffer`: packets in wire format, contiguous, so that a burst of them is one slice.
//!
//! A block of memory holds as many packets as the kernel takes in one call. Payload is copied once,
//! when it is written; a retransmission is the same packet at the same place.

use std::collections::VecDeque;
use std::fmt;

use crate::options::HEADER;
use crate::packet::{Message, timestamp, write_data_header, write_timestamp};
use crate::seq::{Numbering, next_message};

/// Most bytes of a burst: the limit of a datagram socket's call, over IPv6 too.
const MAX_BURST_BYTES: usize = 65_487;
/// Most packets of a burst, and bits of a block's map.
const MOST_SEGMENTS: usize = 64;
/// Emptied blocks kept for the next write.
const SPARE_BLOCKS: usize = 4;

/// Consecutive packets, sent as one slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Burst {
    pub(crate) first: u64,
    pub(crate) packets: usize,
    pub(crate) is_resent: bool,
    /// Whether pacing and windows do not hold it.
    pub(crate) is_probe: bool,
}

impl Burst {
    /// Creates a burst of packets that are sent for the first time.
    pub(crate) fn new(first: u64, packets: usize) -> Self {
        Self {
            first,
            packets,
            is_resent: false,
            is_probe: false,
        }
    }
}

/// Consecutive packets in memory.
struct Block {
    bytes: Box<[u8]>,
    /// Payload bytes of each packet.
    lens: Box<[u16]>,
    /// A bit for each packet that was reported as lost.
    lost: u64,
}

/// Omits the payload.
impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x} of {:?}", self.lost, self.lens)
    }
}

/// Packets from the first not acknowledged to the last written.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    numbers: Numbering,
    /// Socket id of the peer, in every packet.
    to: u32,
    /// Payload bytes of a full packet.
    payload: usize,
    /// Packets of a block.
    per_block: usize,
    blocks: VecDeque<Block>,
    spare: Vec<Block>,
    /// Index of the first packet in the first block.
    base: u64,
    acked: u64,
    next: u64,
    end: u64,
    capacity: u64,
    /// Number of the last packet's message.
    message: u32,
}

impl SendBuffer {
    pub(crate) fn new(numbers: Numbering, to: u32, payload: usize, capacity: u32) -> Self {
        Self {
            numbers,
            to,
            payload,
            per_block: (MAX_BURST_BYTES / (payload + HEADER)).clamp(1, MOST_SEGMENTS),
            blocks: VecDeque::new(),
            spare: Vec::new(),
            base: 0,
            acked: 0,
            next: 0,
            end: 0,
            capacity: capacity.into(),
            message: 0,
        }
    }

    /// The first packet not acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// The first packet never sent.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// One past the last packet written.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.acked == self.end
    }

    /// Largest message that ever fits, in bytes.
    pub(crate) fn largest_message(&self) -> usize {
        usize::try_from(self.capacity)
            .unwrap_or(usize::MAX)
            .saturating_mul(self.payload)
    }

    /// Bytes never sent, in whole packets.
    pub(crate) fn unsent(&self) -> usize {
        let packets = self.end.saturating_sub(self.next);
        usize::try_from(packets)
            .unwrap_or(usize::MAX)
            .saturating_mul(self.payload)
    }

    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.end - self.acked)
    }

    /// Takes as many bytes of a stream as there is room for; an unsent short packet is filled
    /// first.
    pub(crate) fn write(&mut self, mut data: &[u8]) -> usize {
        let before = data.len();
        let mut begins = true;
        if self.end > self.next
            && let Some(last) = self.end.checked_sub(1)
            && self.len(last) < self.payload
        {
            data = self.fill(last, data);
            begins = false;
        }
        while !data.is_empty() && self.free() > 0 {
            let (now, rest) = data.split_at(self.payload.min(data.len()));
            let ends = rest.is_empty() || self.free() == 1;
            self.push(now, begins, ends, false);
            begins = false;
            data = rest;
        }
        before - data.len()
    }

    /// Takes a whole message, if there is room for it; returns the range of its packets.
    pub(crate) fn write_message(&mut self, data: &[u8], in_order: bool) -> Option<(u64, u64)> {
        let packets = data.len().div_ceil(self.payload).max(1);
        if self.free() < packets as u64 {
            return None;
        }
        let first = self.end;
        let mut rest = data;
        for number in 1..=packets {
            let (now, after) = rest.split_at(self.payload.min(rest.len()));
            self.push(now, number == 1, number == packets, in_order);
            rest = after;
        }
        Some((first, self.end))
    }

    /// Number of the last message.
    pub(crate) fn message(&self) -> u32 {
        self.message
    }

    /// Fills a short packet at the end; returns the bytes that did not fit.
    fn fill<'d>(&mut self, index: u64, data: &'d [u8]) -> &'d [u8] {
        let stride = self.payload + HEADER;
        let (payload, slot) = (self.payload, self.slot(index));
        let Some((block, slot)) = self.block_mut(index).zip(slot) else {
            return data;
        };
        let Some((len, place)) = block.lens.get_mut(slot).zip(
            block
                .bytes
                .get_mut(slot * stride + HEADER..(slot + 1) * stride),
        ) else {
            return data;
        };
        let had = usize::from(*len);
        let (now, rest) = data.split_at((payload - had).min(data.len()));
        if let Some(place) = place.get_mut(had..had + now.len()) {
            place.copy_from_slice(now);
            *len += u16_of(now.len());
        }
        rest
    }

    fn push(&mut self, payload: &[u8], first: bool, last: bool, in_order: bool) {
        if first {
            self.message = next_message(self.message);
        }
        let index = self.end;
        if self.block_mut(index).is_none() {
            self.add_block();
        }
        let stride = self.payload + HEADER;
        let message = Message::new(self.message, first, last, in_order);
        let (sequence, to) = (self.numbers.sequence(index), self.to);
        let Some((block, slot)) = self
            .slot(index)
            .and_then(|s| Some((self.block_mut(index)?, s)))
        else {
            return;
        };
        if let Some(place) = block.bytes.get_mut(slot * stride..(slot + 1) * stride)
            && let Some((header, place)) = place.split_at_mut_checked(HEADER)
            && let Some(place) = place.get_mut(..payload.len())
            && let Some(len) = block.lens.get_mut(slot)
        {
            write_data_header(header, sequence, message, to);
            place.copy_from_slice(payload);
            *len = u16_of(payload.len());
        }
        self.end += 1;
    }

    fn add_block(&mut self) {
        let block = self.spare.pop().unwrap_or_else(|| Block {
            bytes: vec![0; self.per_block * (self.payload + HEADER)].into(),
            lens: vec![0; self.per_block].into(),
            lost: 0,
        });
        if self.blocks.is_empty() {
            self.base = self.end;
        }
        self.blocks.push_back(block);
    }

    /// Slot of a packet in its block.
    fn slot(&self, index: u64) -> Option<usize> {
        let offset = usize::try_from(index.checked_sub(self.base)?).ok()?;
        Some(offset % self.per_block)
    }

    fn number(&self, index: u64) -> Option<usize> {
        let offset = usize::try_from(index.checked_sub(self.base)?).ok()?;
        Some(offset / self.per_block)
    }

    fn block(&self, index: u64) -> Option<&Block> {
        self.blocks.get(self.number(index)?)
    }

    fn block_mut(&mut self, index: u64) -> Option<&mut Block> {
        let number = self.number(index)?;
        self.blocks.get_mut(number)
    }

    /// Payload bytes of a packet.
    fn len(&self, index: u64) -> usize {
        self.block(index)
            .zip(self.slot(index))
            .and_then(|(block, slot)| block.lens.get(slot))
            .map_or(0, |len| usize::from(*len))
    }

    /// Packets of a burst from `first` on, at most `most` and before `end`; only the last may be
    /// short.
    pub(crate) fn burst(&self, first: u64, end: u64, most: usize) -> usize {
        let Some((block, slot)) = self.block(first).zip(self.slot(first)) else {
            return 0;
        };
        let end = usize::try_from(end.min(self.end).saturating_sub(first)).unwrap_or(usize::MAX);
        let lens = block.lens.iter().skip(slot).take(end.min(most));
        let mut packets = 0;
        for len in lens {
            packets += 1;
            if usize::from(*len) < self.payload {
                break;
            }
        }
        packets
    }

    /// Bytes of a burst.
    pub(crate) fn contents(&self, first: u64, packets: usize) -> Option<&[u8]> {
        let stride = self.payload + HEADER;
        let (block, slot) = self.block(first).zip(self.slot(first))?;
        let last = slot + packets.checked_sub(1)?;
        let end = last * stride + HEADER + usize::from(*block.lens.get(last)?);
        block.bytes.get(slot * stride..end)
    }

    /// Writes the time into the packets of a burst.
    pub(crate) fn stamp(&mut self, first: u64, packets: usize, micros: u32) {
        let stride = self.payload + HEADER;
        let Some(slot) = self.slot(first) else { return };
        if let Some(block) = self.block_mut(first) {
            let packets = block
                .bytes
                .chunks_exact_mut(stride)
                .skip(slot)
                .take(packets);
            packets.for_each(|packet| write_timestamp(packet, micros));
        }
    }

    /// Time at which a packet was sent last, in microseconds.
    pub(crate) fn stamped(&self, index: u64) -> Option<u32> {
        let (block, slot) = self.block(index).zip(self.slot(index))?;
        timestamp(block.bytes.get(slot * (self.payload + HEADER)..)?)
    }

    /// Notes that packets were sent for the first time, or never will be.
    pub(crate) fn sent(&mut self, end: u64) {
        self.next = self.next.max(end.min(self.end));
    }

    /// Notes that a packet was reported as lost; returns whether it was before.
    pub(crate) fn mark_lost(&mut self, index: u64) -> bool {
        let Some(slot) = self.slot(index) else {
            return false;
        };
        let Some(block) = self.block_mut(index) else {
            return false;
        };
        let bit = 1 << slot;
        let was = block.lost & bit != 0;
        block.lost |= bit;
        was
    }

    /// Frees the packets before `upto`; returns the number of those that were reported as lost.
    pub(crate) fn ack(&mut self, upto: u64) -> u64 {
        let mut lost = 0;
        self.acked = upto.clamp(self.acked, self.end);
        self.next = self.next.max(self.acked);
        while let Some(block) = self.blocks.front_mut() {
            let in_block = self.acked.saturating_sub(self.base);
            let whole = in_block >= self.per_block as u64;
            let mask = if whole || in_block >= 64 {
                u64::MAX
            } else {
                (1 << in_block) - 1
            };
            lost += u64::from((block.lost & mask).count_ones());
            block.lost &= !mask;
            if !whole {
                break;
            }
            self.base += self.per_block as u64;
            if let Some(block) = self.blocks.pop_front()
                && self.spare.len() < SPARE_BLOCKS
            {
                self.spare.push(block);
            }
        }
        lost
    }

    /// Frees unused memory, and all of it when nothing will be sent any more.
    pub(crate) fn shrink(&mut self, is_over: bool) {
        self.spare = Vec::new();
        if is_over || self.is_empty() {
            self.blocks = VecDeque::new();
            self.base = self.end;
        }
    }

    /// Bytes of memory held.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn memory(&self) -> usize {
        (self.blocks.len() + self.spare.len()) * self.per_block * (self.payload + HEADER + 2)
    }
}

fn u16_of(len: usize) -> u16 {
    u16::try_from(len).expect("no packet has more than 64 KiB of payload")
}

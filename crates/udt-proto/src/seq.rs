//! Sequence, acknowledgement and message numbers: 31 and 29 bits on the wire, never-wrapping
//! indices inside.

/// The largest sequence or acknowledgement number; 0 follows it.
pub(crate) const MAX_SEQUENCE: u32 = 0x7fff_ffff;
/// Bound of message numbers, which 1 follows.
const LAST_MESSAGE: u32 = 0x1fff_fffe;

/// Translates between packet indices, which count from 0, and sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbering {
    initial: u32,
}

impl Numbering {
    pub(crate) const fn new(initial: u32) -> Self {
        Self {
            initial: initial & MAX_SEQUENCE,
        }
    }

    /// The sequence number of a packet.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low 31 bits are what is wanted"
    )]
    pub(crate) const fn sequence(self, index: u64) -> u32 {
        (index as u32).wrapping_add(self.initial) & MAX_SEQUENCE
    }

    /// The packet nearest to `near` with this sequence number; none if it is before the first.
    pub(crate) fn index(self, sequence: u32, near: u64) -> Option<u64> {
        let away = distance(self.sequence(near), sequence & MAX_SEQUENCE);
        near.checked_add_signed(i64::from(away))
    }
}

/// Signed 31-bit difference `to - from`.
pub(crate) const fn distance(from: u32, to: u32) -> i32 {
    ((to.wrapping_sub(from) << 1).cast_signed()) >> 1
}

/// The acknowledgement number after this one.
pub(crate) const fn next_ack(number: u32) -> u32 {
    number.wrapping_add(1) & MAX_SEQUENCE
}

/// The message number after this one: 0 and the largest are never used.
pub(crate) const fn next_message(number: u32) -> u32 {
    if number >= LAST_MESSAGE {
        1
    } else {
        number + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_follows_the_largest() {
        let numbers = Numbering::new(MAX_SEQUENCE - 1);
        assert_eq!(numbers.sequence(0), MAX_SEQUENCE - 1);
        assert_eq!(numbers.sequence(1), MAX_SEQUENCE);
        assert_eq!(numbers.sequence(2), 0);
        assert_eq!(numbers.index(0, 0), Some(2));
        assert_eq!(numbers.index(MAX_SEQUENCE, 5), Some(1));
        assert_eq!(numbers.index(MAX_SEQUENCE - 2, 5), None);
    }

    #[test]
    fn indices_outlive_many_wraps() {
        let numbers = Numbering::new(2_147_483_000);
        for index in [0_u64, 5, 1 << 30, 1 << 31, (1 << 33) + 7, 1 << 60] {
            for near in [index, index.saturating_sub(25_600), index + 25_600] {
                assert_eq!(numbers.index(numbers.sequence(index), near), Some(index));
            }
        }
    }

    #[test]
    fn distances_have_a_sign() {
        assert_eq!(distance(5, 7), 2);
        assert_eq!(distance(7, 5), -2);
        assert_eq!(distance(MAX_SEQUENCE, 0), 1);
        assert_eq!(distance(0, MAX_SEQUENCE), -1);
        assert_eq!(distance(0, 0x3fff_ffff), 0x3fff_ffff);
    }

    #[test]
    fn other_numbers_wrap_in_their_own_way() {
        assert_eq!(next_ack(MAX_SEQUENCE), 0);
        assert_eq!(next_message(1), 2);
        assert_eq!(next_message(0x1fff_fffd), 0x1fff_fffe);
        assert_eq!(next_message(0x1fff_fffe), 1);
    }
}

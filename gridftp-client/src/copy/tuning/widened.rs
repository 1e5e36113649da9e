//! `Widened`: the connections that a file which was widened had in the end, and its rate with them.

use std::time::Duration;

use super::{Moved, per_second};

/// A file that was widened, from the last change of its connections on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Widened {
    pub(super) streams: u32,
    bytes: u64,
    took: Duration,
}

impl Widened {
    /// Takes a period of `all` with so many connections.
    pub(super) fn note(all: &mut Option<Self>, streams: u32, took: Duration, moved: Moved) {
        // In the first and the last period there is less to move.
        if moved.bytes == 0 || moved.files > 0 {
            return;
        }
        let same = all.filter(|all| all.streams == streams);
        let (bytes, before) = same.map_or_else(Default::default, |all| (all.bytes, all.took));
        *all = Some(Self {
            streams,
            bytes: bytes.saturating_add(moved.bytes),
            took: before.saturating_add(took),
        });
    }

    /// Bytes a second.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not below 0, and far below 2^52"
    )]
    pub(super) fn rate(&self) -> u64 {
        per_second(self.bytes, self.took) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_number_of_connections() {
        let mut all = None;
        for (streams, bytes, files) in [
            (4, 100, 0),
            (8, 150, 0),
            (4, 0, 0),
            (16, 200, 0),
            (16, 220, 0),
            (3, 10, 1),
        ] {
            let moved = Moved { bytes, files };
            Widened::note(&mut all, streams, Duration::from_secs(1), moved);
        }
        let all = all.unwrap();
        assert_eq!((all.streams, all.rate()), (16, 210));
    }
}

//! `LossWatch`: a sender on a long path that loses packets changes its congestion control.
//!
//! Most kernels take each lost packet for a full link, and send half as fast behind it. On a long
//! path the rate needs minutes to recover, so that a few packets in ten thousand, lost by a bad cable
//! or a radio link, cost most of the link. BBR measures the link instead.

use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::net::TcpStream;
use xio_core::PathStats;

use crate::path;

/// Bytes between two looks at the kernel's counts.
const STEP: usize = 256 << 10;

/// Least round trip of a long path.
const LONG: Duration = Duration::from_millis(20);

/// Least length of a period, which is ten round trips else: packets that a full queue loses are lost
/// in one or two.
const PERIOD: Duration = Duration::from_secs(1);

/// Periods with loss, one behind the other, of a path that loses packets by itself: a full link loses
/// some every few seconds.
const LOSSY: u32 = 2;

/// The watch over a connection on which much is sent.
#[derive(Debug)]
pub(crate) struct LossWatch {
    /// The congestion control for a path that loses packets.
    congestion: String,
    /// Bytes since the last look.
    written: usize,
    judge: Judge,
}

impl LossWatch {
    pub(crate) fn new(congestion: String) -> Self {
        Self {
            congestion,
            written: 0,
            judge: Judge::default(),
        }
    }

    /// Takes note of written bytes; returns whether the watch has ended, for the congestion control is
    /// changed, or the kernel has not this one.
    pub(crate) fn wrote(&mut self, socket: &TcpStream, bytes: usize) -> bool {
        self.written = self.written.saturating_add(bytes);
        if self.written < STEP {
            return false;
        }
        self.written = 0;
        let Some(stats) = path::stats(socket) else {
            return true;
        };
        let is_lossy = self.judge.look(Instant::now(), &stats);
        if is_lossy {
            self.change(socket);
        }
        is_lossy
    }

    /// A kernel without this congestion control goes on as before.
    fn change(&self, socket: &TcpStream) {
        let _ = SockRef::from(socket).set_tcp_congestion(self.congestion.as_bytes());
    }
}

/// Decides from the kernel's counts whether a path is long and loses packets.
#[derive(Debug, Default)]
struct Judge {
    /// Begin of the period, and the packets that were sent again by then.
    period: Option<(Instant, u64)>,
    /// Periods with loss, one behind the other.
    lossy: u32,
}

impl Judge {
    fn look(&mut self, now: Instant, stats: &PathStats) -> bool {
        let (Some(round_trip), Some(again)) = (stats.round_trip, stats.retransmitted) else {
            return false;
        };
        if round_trip < LONG {
            *self = Self::default();
            return false;
        }
        let (begun, before) = *self.period.get_or_insert((now, again));
        if now.duration_since(begun) < PERIOD.max(round_trip * 10) {
            return false;
        }
        self.period = Some((now, again));
        self.lossy = if again > before { self.lossy + 1 } else { 0 };
        self.lossy >= LOSSY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds after which a path with these packets sent again, second by second, is lossy.
    fn lossy_after(round_trip: Duration, again: &[u64]) -> Option<usize> {
        let (mut judge, begun) = (Judge::default(), Instant::now());
        again.iter().enumerate().position(|(second, again)| {
            let mut stats = PathStats::new();
            stats.round_trip = Some(round_trip);
            stats.retransmitted = Some(*again);
            judge.look(begun + Duration::from_secs(second as u64), &stats)
        })
    }

    #[test]
    fn a_long_path_with_loss_in_each_second_is_lossy() {
        let far = Duration::from_millis(100);
        assert_eq!(lossy_after(far, &[0, 3, 5, 9]), Some(2));
        // A full queue, once and again.
        assert_eq!(lossy_after(far, &[0, 90, 90, 90, 90, 95, 95]), None);
        assert_eq!(lossy_after(far, &[0, 90, 90, 91, 92]), Some(4));
        // Periods of ten round trips.
        let farther = Duration::from_millis(300);
        assert_eq!(lossy_after(farther, &[0, 1, 2, 3, 4, 5, 6, 7]), Some(6));
        let near = Duration::from_millis(19);
        assert_eq!(lossy_after(near, &[0, 3, 5, 9, 12]), None);
    }

    #[test]
    fn a_path_without_measurements_is_not_judged() {
        let stats = PathStats::new();
        assert!(!Judge::default().look(Instant::now(), &stats));
    }

    #[tokio::test]
    async fn a_lossy_connection_changes_its_congestion_control() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await;
        let socket = socket.unwrap();
        let cc = || {
            let name = SockRef::from(&socket).tcp_congestion().unwrap();
            String::from_utf8_lossy(&name)
                .trim_end_matches('\0')
                .to_owned()
        };
        let before = cc();
        let other = if before == "reno" { "cubic" } else { "reno" };
        let mut watch = LossWatch::new(other.to_owned());
        // On loopback no packet is lost.
        assert!(!watch.wrote(&socket, STEP - 1) && !watch.wrote(&socket, STEP));
        assert_eq!(cc(), before);
        watch.change(&socket);
        assert_eq!(cc(), other);
        LossWatch::new("no_such_name".to_owned()).change(&socket);
        assert_eq!(cc(), other);
    }
}

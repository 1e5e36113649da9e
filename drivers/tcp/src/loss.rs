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

/// Least length of a period. On longer paths it is ten round trips.
const PERIOD: Duration = Duration::from_secs(1);

/// Consecutive periods with loss on a path that loses packets by itself. A full queue loses packets
/// every few seconds, within two periods at most.
const LOSSY: u32 = 3;

/// Least part of the packets that is sent again in a period with loss: one in so many.
const ONE_IN: u64 = 10_000;

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

    /// Counts written bytes. Returns whether the watch has ended, since the path is lossy or the kernel
    /// measures none.
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
    /// Begin of the period, and the packets that were sent and retransmitted by then.
    period: Option<(Instant, u64, u64)>,
    /// Consecutive periods with loss.
    lossy: u32,
}

impl Judge {
    fn look(&mut self, now: Instant, stats: &PathStats) -> bool {
        let (Some(round_trip), Some(sent), Some(again)) =
            (stats.round_trip, stats.sent, stats.retransmitted)
        else {
            return false;
        };
        let length = PERIOD.max(round_trip * 10);
        let (begun, sent_before, again_before) = *self.period.get_or_insert((now, sent, again));
        let lasted = now.duration_since(begun);
        if lasted < length {
            return false;
        }
        self.period = Some((now, sent, again));
        let again = again.saturating_sub(again_before);
        let has_loss = again > 0 && again * ONE_IN >= sent.saturating_sub(sent_before);
        // A connection that was idle meanwhile is judged anew.
        let is_lossy = has_loss && round_trip >= LONG && lasted < length * 4;
        self.lossy = if is_lossy { self.lossy + 1 } else { 0 };
        self.lossy >= LOSSY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second in which a path of 10,000 packets a second, with these retransmitted by the end of
    /// each, is found lossy; looked at twice a second.
    fn lossy_after(round_trip: Duration, again: &[u64]) -> Option<usize> {
        let (mut judge, begun) = (Judge::default(), Instant::now());
        again.iter().enumerate().position(|(second, again)| {
            let at = second as u64;
            let mut stats = PathStats::new();
            stats.round_trip = Some(round_trip);
            stats.retransmitted = Some(*again);
            stats.sent = Some(at * 10_000);
            let half = Duration::from_millis(500);
            let now = begun + Duration::from_secs(at);
            judge.look(now, &stats) || judge.look(now + half, &stats)
        })
    }

    #[test]
    fn a_long_path_with_loss_in_each_second_is_lossy() {
        let far = Duration::from_millis(100);
        assert_eq!(lossy_after(far, &[0, 3, 5, 9]), Some(3));
        // A full queue, once and again, also over the end of a period.
        assert_eq!(lossy_after(far, &[0, 90, 95, 95, 95, 99, 120, 120]), None);
        // Less than one in ten thousand.
        assert_eq!(lossy_after(far, &[0, 1, 1, 2, 2, 3]), None);
        // Periods of ten round trips.
        let farther = Duration::from_millis(300);
        let steady: Vec<u64> = (0..12).map(|second| second * 3).collect();
        assert_eq!(lossy_after(farther, &steady), Some(9));
        let near = Duration::from_millis(19);
        assert_eq!(lossy_after(near, &steady), None);
    }

    #[test]
    fn the_time_of_an_idle_connection_does_not_count() {
        let (mut judge, begun) = (Judge::default(), Instant::now());
        for minute in 0..9 {
            let mut stats = PathStats::new();
            stats.round_trip = Some(Duration::from_millis(100));
            (stats.sent, stats.retransmitted) = (Some(minute * 100), Some(minute));
            assert!(!judge.look(begun + Duration::from_secs(minute * 60), &stats));
        }
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

//! `LossWatch`: a sender on a long path that loses packets changes its congestion control; `Arrival`: a
//! receiver tells of the loss.
//!
//! Most kernels take each lost packet for a full link, and send half as fast behind it. On a long
//! path the rate needs minutes to recover, so that a few packets in ten thousand, lost by a bad cable
//! or a radio link, cost most of the link. BBR measures the link instead.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::TcpStream;
use xio_core::PathStats;

use crate::path;

/// Bytes between two looks at the kernel's counts.
const STEP: usize = 64 << 10;

/// Least round trip of a long path.
const LONG: Duration = Duration::from_millis(20);

/// Consecutive periods with loss on a path that loses packets by itself. A full queue loses packets
/// every few seconds, within two periods at most.
const LOSSY: u32 = 3;

/// The periods that find heavy loss soon.
const HEAVY: Periods = Periods::new(Duration::from_millis(500), 5, 1_000);

/// Those that find rare loss, of which a short one may have none.
const RARE: Periods = Periods::new(Duration::from_secs(1), 10, 10_000);

/// Most bytes that wait unsent in the kernel on a lossy path. Connections that share it differ much in
/// speed there, and what a slow one holds at the end of a file is waited for.
const UNSENT: u32 = 128 << 10;

/// Lifetime of a shared finding of loss.
const SHARED: Duration = Duration::from_secs(60);

/// Most peers with shared measurements.
const PEERS: usize = 64;

/// The peers of a transport, the latest first. Where many connections share a path, most of them lose
/// too few packets for a finding of their own.
#[derive(Debug, Default)]
pub(crate) struct LossyPeers(Mutex<VecDeque<Peer>>);

/// The measurements of all watched connections to a peer.
#[derive(Debug)]
struct Peer {
    ip: IpAddr,
    /// Packets, and those that were sent again.
    counts: (u64, u64),
    periods: Periods,
    /// Time of the latest finding of loss.
    found: Option<Instant>,
}

/// The watch over a connection on which much is sent.
#[derive(Debug)]
pub(crate) struct LossWatch {
    /// The congestion control for a path that loses packets.
    congestion: String,
    peer: Option<IpAddr>,
    lossy: Arc<LossyPeers>,
    /// Packets by the last look, and those that were sent again.
    counts: (u64, u64),
    /// Bytes since the last look.
    bytes: usize,
    /// End of the period.
    due: Option<Instant>,
    judge: Judge,
}

/// The judgement over the path of received data, made where somebody asks for measurements.
#[derive(Debug, Default)]
pub(crate) struct Arrival(Mutex<Arrived>);

#[derive(Debug, Default)]
struct Arrived {
    judge: Judge,
    is_lossy: bool,
}

/// The state of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// The watch goes on.
    Watched,
    /// It has ended: the kernel measures nothing, or has changed the congestion control.
    Settled,
    /// It has ended: the path is lossy, and the kernel has refused the change.
    Lossy,
}

/// Whether this process may give its sockets this congestion control, as the kernel says of a new
/// one.
#[must_use]
pub fn may_change_to(congestion: &str) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
    socket.is_ok_and(|socket| socket.set_tcp_congestion(congestion.as_bytes()).is_ok())
}

impl LossWatch {
    pub(crate) fn new(congestion: String, peer: Option<IpAddr>, lossy: Arc<LossyPeers>) -> Self {
        Self {
            congestion,
            peer,
            lossy,
            counts: (0, 0),
            bytes: 0,
            due: None,
            judge: Judge::default(),
        }
    }

    /// Counts written bytes, and asks the kernel for its counts at the end of a period.
    pub(crate) fn wrote(&mut self, socket: &TcpStream, bytes: usize) -> Path {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes < STEP {
            return Path::Watched;
        }
        self.bytes = 0;
        let now = Instant::now();
        if self.due.is_some_and(|due| now < due) {
            return Path::Watched;
        }
        let Some(stats) = path::stats(socket) else {
            return Path::Settled;
        };
        let is_lossy = self.is_lossy(now, &stats);
        self.due = Some(now + self.judge.left(now, stats.round_trip));
        match is_lossy {
            true => self.change(socket),
            false => Path::Watched,
        }
    }

    /// Whether the connection has found its path lossy, or has loss itself and those to the peer have
    /// found it together.
    fn is_lossy(&mut self, now: Instant, stats: &PathStats) -> bool {
        let (Some(round_trip), Some(sent), Some(again)) =
            (stats.round_trip, stats.sent, stats.retransmitted)
        else {
            return false;
        };
        let is_found = self.judge.look(now, round_trip, (sent, again));
        let (before, again_before) = std::mem::replace(&mut self.counts, (sent, again));
        let more = (
            sent.saturating_sub(before),
            again.saturating_sub(again_before),
        );
        let Some(peer) = self.peer else {
            return is_found;
        };
        let is_known = self.lossy.is_known(peer, is_found, (now, round_trip), more);
        is_known && self.judge.has_loss
    }

    /// A kernel that refuses this congestion control goes on as before.
    fn change(&self, socket: &TcpStream) -> Path {
        let socket = SockRef::from(socket);
        // Without it the connection only holds more.
        let _ = socket.set_tcp_notsent_lowat(UNSENT);
        match socket.set_tcp_congestion(self.congestion.as_bytes()) {
            Ok(()) => Path::Settled,
            Err(_) => Path::Lossy,
        }
    }
}

impl LossyPeers {
    /// Adds the packets that a connection has sent, and sent again; says whether the path to the peer
    /// is lossy, as one connection has found or the packets of all tell, now or a moment ago.
    fn is_known(
        &self,
        ip: IpAddr,
        is_found: bool,
        (now, round_trip): (Instant, Duration),
        (sent, again): (u64, u64),
    ) -> bool {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = peers.iter().position(|peer| peer.ip == ip);
        let mut peer = at.and_then(|at| peers.remove(at)).unwrap_or(Peer {
            ip,
            counts: (0, 0),
            periods: HEAVY,
            found: None,
        });
        peer.counts.0 += sent;
        peer.counts.1 += again;
        peer.periods.look(now, round_trip, peer.counts);
        if is_found || peer.periods.lossy >= LOSSY {
            peer.found = Some(now);
        }
        let is_known = peer.found.is_some_and(|at| now.duration_since(at) < SHARED);
        peers.push_front(peer);
        peers.truncate(PEERS);
        is_known
    }
}

impl Arrival {
    /// Takes the kernel's counts; says whether the path was found lossy. Behind each lost segment
    /// some arrive out of order.
    pub(crate) fn is_lossy(&self, stats: &PathStats) -> bool {
        self.is_lossy_at(Instant::now(), stats)
    }

    fn is_lossy_at(&self, now: Instant, stats: &PathStats) -> bool {
        let mut arrived = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(round_trip), Some(all), Some(late)) =
            (stats.round_trip, stats.received, stats.out_of_order)
        {
            arrived.is_lossy |= arrived.judge.look(now, round_trip, (all, late));
        }
        arrived.is_lossy
    }
}

/// Decides from the kernel's counts whether a path is long and loses packets.
#[derive(Debug)]
struct Judge {
    periods: [Periods; 2],
    /// Whether there was any period with loss on a long path.
    has_loss: bool,
}

/// Consecutive periods of a connection.
#[derive(Debug)]
struct Periods {
    /// Least length of a period.
    least: Duration,
    /// Least length of a period in round trips.
    round_trips: u32,
    /// Least part of the packets that is sent again in a period with loss: one in so many.
    one_in: u64,
    /// Begin of the period, and by then the packets and those of them that tell of a loss.
    begun: Option<(Instant, u64, u64)>,
    /// Consecutive periods with loss, up to the present one.
    lossy: u32,
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            periods: [HEAVY, RARE],
            has_loss: false,
        }
    }
}

impl Judge {
    fn look(&mut self, now: Instant, round_trip: Duration, counts: (u64, u64)) -> bool {
        let mut is_lossy = false;
        for periods in &mut self.periods {
            periods.look(now, round_trip, counts);
            self.has_loss |= periods.lossy > 0;
            is_lossy |= periods.lossy >= LOSSY;
        }
        is_lossy
    }

    /// The time until the next period ends on a path of this length.
    fn left(&self, now: Instant, round_trip: Option<Duration>) -> Duration {
        let round_trip = round_trip.unwrap_or_default();
        let left = self.periods.iter().map(|periods| {
            let begun = periods.begun.map_or(now, |(begun, ..)| begun);
            (begun + periods.length(round_trip)).saturating_duration_since(now)
        });
        left.min().unwrap_or(RARE.least)
    }
}

impl Periods {
    const fn new(least: Duration, round_trips: u32, one_in: u64) -> Self {
        Self {
            least,
            round_trips,
            one_in,
            begun: None,
            lossy: 0,
        }
    }

    fn look(&mut self, now: Instant, round_trip: Duration, (all, lost): (u64, u64)) {
        let length = self.length(round_trip);
        let (begun, all_before, lost_before) = *self.begun.get_or_insert((now, all, lost));
        let lasted = now.duration_since(begun);
        if lasted < length {
            return;
        }
        self.begun = Some((now, all, lost));
        let lost = lost.saturating_sub(lost_before);
        let has_loss = lost > 0 && lost * self.one_in >= all.saturating_sub(all_before);
        // A connection that was idle meanwhile is judged anew.
        let is_lossy = has_loss && round_trip >= LONG && lasted < length * 4;
        self.lossy = if is_lossy { self.lossy + 1 } else { 0 };
    }

    /// The length of a period.
    fn length(&self, round_trip: Duration) -> Duration {
        self.least.max(round_trip * self.round_trips)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The half second in which a path of 10,000 packets in each, with these retransmitted by the end
    /// of each, is found lossy.
    fn lossy_after(round_trip: Duration, again: &[u64]) -> Option<usize> {
        let (mut judge, begun) = (Judge::default(), Instant::now());
        again.iter().enumerate().position(|(half, again)| {
            let at = half as u64;
            let now = begun + Duration::from_millis(at * 500);
            judge.look(now, round_trip, (at * 10_000, *again))
        })
    }

    /// The totals of a path that loses these packets in each half second.
    fn each(lost: u64) -> Vec<u64> {
        (0..24).map(|half| half * lost).collect()
    }

    #[test]
    fn a_long_path_with_rare_loss_in_each_second_is_lossy() {
        let far = Duration::from_millis(100);
        assert_eq!(lossy_after(far, &each(2)), Some(6));
        // Less than one in ten thousand.
        let rarer: Vec<u64> = (0..24).map(|half| half / 2).collect();
        assert_eq!(lossy_after(far, &rarer), None);
        // Periods of ten round trips.
        let farther = Duration::from_millis(300);
        assert_eq!(lossy_after(farther, &each(2)), Some(18));
        let near = Duration::from_millis(19);
        assert_eq!(lossy_after(near, &each(2)), None);
    }

    #[test]
    fn heavy_loss_is_found_in_half_the_time() {
        let far = Duration::from_millis(100);
        assert_eq!(lossy_after(far, &each(10)), Some(3));
        assert_eq!(lossy_after(far, &each(9)), Some(6));
        // Periods of five round trips.
        let farther = Duration::from_millis(200);
        assert_eq!(lossy_after(farther, &each(10)), Some(6));
    }

    #[test]
    fn a_full_queue_is_no_lossy_path() {
        let far = Duration::from_millis(100);
        // Once and again, also over the end of a period.
        let queue = [0, 50, 90, 90, 90, 90, 140, 190, 190, 190, 190, 190, 240];
        assert_eq!(lossy_after(far, &queue), None);
    }

    #[test]
    fn the_time_of_an_idle_connection_does_not_count() {
        let (mut judge, begun) = (Judge::default(), Instant::now());
        for minute in 0..9 {
            let far = Duration::from_millis(100);
            let now = begun + Duration::from_secs(minute * 60);
            assert!(!judge.look(now, far, (minute * 100, minute)));
        }
    }

    #[test]
    fn a_receiver_tells_of_its_path_as_long_as_it_is_asked() {
        let (arrival, begun) = (Arrival::default(), Instant::now());
        let is_lossy = |second, out_of_order| {
            let mut stats = PathStats::new();
            stats.round_trip = Some(Duration::from_millis(100));
            stats.received = Some(second * 10_000);
            stats.out_of_order = Some(out_of_order);
            arrival.is_lossy_at(begun + Duration::from_secs(second), &stats)
        };
        assert_eq!(
            [0, 1, 2].map(|second| is_lossy(second, second * 2)),
            [false; 3]
        );
        assert!(is_lossy(3, 6));
        // It stays so.
        assert!(is_lossy(4, 6) && is_lossy(9, 6));
    }

    #[test]
    fn connections_to_a_peer_share_a_finding_of_one() {
        let peers = LossyPeers::default();
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let begun = Instant::now();
        let is_known = |peer: IpAddr, is_found, second| {
            let now = begun + Duration::from_secs(second);
            peers.is_known(peer, is_found, (now, Duration::from_millis(100)), (0, 0))
        };
        assert!(!is_known(one, false, 0));
        assert!(is_known(one, true, 1));
        assert!(is_known(one, false, 2));
        assert!(!is_known(other, false, 2));
        // It was found again.
        assert!(is_known(one, true, 50));
        assert!(is_known(one, false, 109));
        assert!(!is_known(one, false, 110));
        for host in 0..=u8::MAX {
            assert!(is_known([10, 0, 1, host].into(), true, 120));
        }
        assert_eq!(peers.0.lock().unwrap().len(), PEERS);
    }

    #[test]
    fn connections_to_a_peer_find_heavy_loss_together() {
        let (peers, begun) = (Arc::<LossyPeers>::default(), Instant::now());
        let peer = Some([10, 0, 0, 1].into());
        let mut watches =
            [(); 4].map(|()| LossWatch::new("bbr".to_owned(), peer, Arc::clone(&peers)));
        // Of each connection one packet in five periods is lost, one in four hundred.
        let found = (0..8_u64).position(|half| {
            let now = begun + Duration::from_millis(half * 500);
            let mut is_lossy = |(at, watch): (u64, &mut LossWatch)| {
                let mut stats = PathStats::new();
                stats.round_trip = Some(Duration::from_millis(100));
                stats.sent = Some(half * 80);
                stats.retransmitted = Some((half + at) / 5);
                watch.is_lossy(now, &stats)
            };
            (0..)
                .zip(&mut watches)
                .map(&mut is_lossy)
                .filter(|yes| *yes)
                .count()
                > 0
        });
        assert_eq!(found, Some(5));
    }

    /// The second in which the second of two connections is found lossy, of which the first loses
    /// packets in each second, and the other with these totals.
    fn joins_after(peers: [[u8; 4]; 2], again: &[u64]) -> Option<usize> {
        let (known, begun) = (Arc::<LossyPeers>::default(), Instant::now());
        let watch =
            |peer: [u8; 4]| LossWatch::new("bbr".to_owned(), Some(peer.into()), Arc::clone(&known));
        let [mut first, mut second] = peers.map(watch);
        again.iter().enumerate().position(|(at, again)| {
            let (at, now) = (at as u64, begun + Duration::from_secs(at as u64));
            let stats = |again| {
                let mut stats = PathStats::new();
                stats.round_trip = Some(Duration::from_millis(100));
                (stats.sent, stats.retransmitted) = (Some(at * 1000), Some(again));
                stats
            };
            first.is_lossy(now, &stats(at));
            second.is_lossy(now, &stats(*again))
        })
    }

    #[test]
    fn a_connection_with_some_loss_joins_the_finding_of_another() {
        let (one, other) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let rare = [0, 1, 1, 1, 1, 1, 1, 1];
        assert_eq!(joins_after([one, one], &rare), Some(3));
        assert_eq!(joins_after([one, other], &rare), None);
        // Behind the same address another path may begin.
        assert_eq!(joins_after([one, one], &[0; 8]), None);
    }

    #[test]
    fn a_path_without_measurements_is_not_judged() {
        let mut watch = LossWatch::new("bbr".to_owned(), None, Arc::default());
        assert!(!watch.is_lossy(Instant::now(), &PathStats::new()));
        assert!(!Arrival::default().is_lossy(&PathStats::new()));
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
        let watch = |name: &str| LossWatch::new(name.to_owned(), None, Arc::default());
        let mut watch_of_other = watch(other);
        // On loopback no packet is lost.
        assert_eq!(watch_of_other.wrote(&socket, STEP - 1), Path::Watched);
        assert_eq!(watch_of_other.wrote(&socket, STEP), Path::Watched);
        // The kernel is asked once a period.
        let due = watch_of_other.due.unwrap();
        assert!(due > Instant::now());
        assert_eq!(watch_of_other.wrote(&socket, STEP), Path::Watched);
        assert_eq!(watch_of_other.due, Some(due));
        assert_eq!(cc(), before);
        assert_eq!(watch_of_other.change(&socket), Path::Settled);
        assert_eq!(cc(), other);
        let unsent = SockRef::from(&socket).tcp_notsent_lowat().unwrap();
        assert_eq!(unsent, UNSENT);
        let absent = watch("no_such_name");
        assert_eq!(absent.change(&socket), Path::Lossy);
        assert_eq!(cc(), other);
        assert!(may_change_to(&before) && !may_change_to("no_such_name"));
    }
}

//! `LossWatch`: a sender on a long path that loses packets changes its congestion control; `Arrival`: a
//! receiver tells of the loss.
//!
//! Most kernels take each lost packet for a full link, and send half as fast behind it. On a long
//! path the rate needs minutes to recover, so that a few packets in ten thousand, lost by a bad cable
//! or a radio link, cost most of the link. BBR measures the link instead.
//!
//! Many connections lose as many packets at a full queue, and have to slow down for it; but there the
//! round trip is longer than the least one.

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

/// The same for all connections to a peer: each tells of its packets up to a period late.
const LOSSY_PEER: u32 = LOSSY + 1;

/// Periods of a tally, behind which it begins anew.
const TALLIED: u32 = 16;

/// A lossy path loses at least one packet in so many. At a short queue 16 connections with CUBIC lose one
/// in 7,000 on a path that holds 2.5 MB.
const LOST: u64 = 2_500;

/// A full queue loses at least one packet in so many of a period, and more than [`FEW`].
const BURST: u64 = 250;

/// Most lost packets that a period of few packets counts.
const FEW: u64 = 4;

/// The periods that find heavy loss soon.
const HEAVY: Periods = Periods::new(Duration::from_millis(500), 5, 1_000);

/// Those that find rare loss, of which a short one may have none.
const RARE: Periods = Periods::new(Duration::from_secs(1), 10, 10_000);

/// Most bytes that wait unsent in the kernel on a lossy path. Connections that share it differ much in
/// speed there, and the end of a file waits for the bytes of a slow one.
const UNSENT: u32 = 256 << 10;

/// Lifetime of a shared finding of loss.
const SHARED: Duration = Duration::from_secs(60);

/// Most peers with shared measurements. Behind it connections go by their own.
const PEERS: usize = 256;

/// The peers of a transport on long paths, the latest first. Where many connections share a path, most
/// of them lose too few packets for a finding of their own.
#[derive(Debug, Default)]
pub(crate) struct LossyPeers(Mutex<VecDeque<Peer>>);

/// The measurements of all watched connections to a peer.
#[derive(Debug)]
struct Peer {
    ip: IpAddr,
    /// Packets, and those that were sent again.
    counts: (u64, u64),
    periods: Periods,
    tally: Tally,
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

/// The losses of all connections to a peer over several periods: a short one has too few packets to tell
/// rare losses from none, and long ones take long.
#[derive(Debug, Default)]
struct Tally {
    /// Periods that count.
    periods: u32,
    /// Those with a loss.
    lossy: u32,
    /// Packets.
    sent: u64,
    /// Lost ones: of a period at most four, or twice [`LOST`] of its packets where that is more.
    lost: u64,
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
        let (Some(trip), Some(sent), Some(again)) =
            (Trip::of(stats), stats.sent, stats.retransmitted)
        else {
            return false;
        };
        let is_found = self.judge.look(now, trip, (sent, again));
        let (before, again_before) = std::mem::replace(&mut self.counts, (sent, again));
        let more = (
            sent.saturating_sub(before),
            again.saturating_sub(again_before),
        );
        let Some(peer) = self.peer.filter(|_| trip.time >= LONG) else {
            return is_found;
        };
        let is_known = self.lossy.is_known(peer, is_found, (now, trip), more);
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
        (now, mut trip): (Instant, Trip),
        (sent, again): (u64, u64),
    ) -> bool {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = peers.iter().position(|peer| peer.ip == ip);
        let new = || Peer {
            ip,
            counts: (0, 0),
            periods: HEAVY,
            tally: Tally::default(),
            found: None,
        };
        let known = at.and_then(|at| peers.remove(at));
        let mut peer = known.unwrap_or_else(new);
        peer.counts.0 += sent;
        peer.counts.1 += again;
        // Many connections with BBR fill the queue of a lossy path too.
        trip.is_queued &= peer.found.is_none();
        if let Some(period) = peer.periods.look(now, trip, peer.counts) {
            peer.tally.add(&period);
        }
        if is_found || peer.periods.lossy >= LOSSY_PEER || peer.tally.is_lossy() {
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
        if let (Some(trip), Some(all), Some(late)) =
            (Trip::of(stats), stats.received, stats.out_of_order)
        {
            arrived.is_lossy |= arrived.judge.look(now, trip, (all, late));
        }
        arrived.is_lossy
    }
}

/// The round trip of a path.
#[derive(Debug, Clone, Copy)]
struct Trip {
    time: Duration,
    /// Whether it is half as long again as the least one, so that packets wait in a queue, which may
    /// have lost some.
    is_queued: bool,
}

/// Decides from the kernel's counts whether a path is long and loses packets.
#[derive(Debug)]
struct Judge {
    periods: [Periods; 2],
    /// Whether there was any period with loss on a long path.
    has_loss: bool,
}

/// A period that has ended.
#[derive(Debug, Clone, Copy)]
struct Period {
    /// Whether the path is long, and was used all the time.
    is_busy: bool,
    is_queued: bool,
    sent: u64,
    lost: u64,
    /// Whether the part of lost packets is that of a lossy path.
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
    /// Those without a queue of the consecutive periods with loss up to the present one.
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

impl Trip {
    fn of(stats: &PathStats) -> Option<Self> {
        let time = stats.round_trip?;
        let least = stats.least_round_trip;
        let is_queued = least.is_some_and(|least| time * 2 >= least * 3);
        Some(Self { time, is_queued })
    }
}

impl Tally {
    fn add(&mut self, period: &Period) {
        let is_burst = period.lost > FEW && period.lost.saturating_mul(BURST) >= period.sent;
        if !period.is_busy || is_burst || self.periods >= TALLIED {
            *self = Self::default();
        }
        if !period.is_busy || is_burst || period.is_queued {
            return;
        }
        self.periods += 1;
        self.lossy += u32::from(period.lost > 0);
        self.sent += period.sent;
        self.lost += period.lost.min(FEW.max(period.sent / LOST * 2));
    }

    /// Whether the path loses packets by itself: a full queue loses some every few seconds, and not in
    /// two of three periods.
    fn is_lossy(&self) -> bool {
        let is_often = self.lossy >= LOSSY_PEER && self.lossy * 3 >= self.periods * 2;
        is_often && self.lost * LOST >= self.sent
    }
}

impl Judge {
    fn look(&mut self, now: Instant, trip: Trip, counts: (u64, u64)) -> bool {
        let mut is_lossy = false;
        for periods in &mut self.periods {
            let ended = periods.look(now, trip, counts);
            self.has_loss |= ended.is_some_and(|period| period.has_loss);
            is_lossy |= periods.lossy >= LOSSY;
        }
        is_lossy
    }

    /// The time until the next period ends on a path of this length.
    fn left(&self, now: Instant, round_trip: Option<Duration>) -> Duration {
        let end = round_trip.and_then(|round_trip| {
            let ends = self.periods.iter().map(|periods| {
                let begun = periods.begun.map_or(now, |(begun, ..)| begun);
                begun + periods.length(round_trip)
            });
            ends.min()
        });
        end.map_or(RARE.least, |end| end.saturating_duration_since(now))
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

    /// Gives the period that ends.
    fn look(&mut self, now: Instant, trip: Trip, (all, lost): (u64, u64)) -> Option<Period> {
        let length = self.length(trip.time);
        let (begun, all_before, lost_before) = *self.begun.get_or_insert((now, all, lost));
        let lasted = now.duration_since(begun);
        if lasted < length {
            return None;
        }
        self.begun = Some((now, all, lost));
        let sent = all.saturating_sub(all_before);
        let lost = lost.saturating_sub(lost_before);
        // A connection that was idle meanwhile is judged anew.
        let is_busy = trip.time >= LONG && lasted < length * 4;
        let has_loss = is_busy && lost > 0 && lost * self.one_in >= sent;
        self.lossy = match has_loss {
            true => self.lossy + u32::from(!trip.is_queued),
            false => 0,
        };
        Some(Period {
            is_busy,
            is_queued: trip.is_queued,
            sent,
            lost,
            has_loss,
        })
    }

    /// The length of a period.
    fn length(&self, round_trip: Duration) -> Duration {
        self.least.max(round_trip * self.round_trips)
    }
}

#[cfg(test)]
mod tests;

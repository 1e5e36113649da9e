//! The kernel's measurements of a connection's path: round-trip time, size of packets, segments sent,
//! resent and out of order, and the times of a sender.

use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::LazyLock;
use std::time::Duration;

use libc::tcp_info;
use nix::sys::socket::GetSockOpt;
use nix::{getsockopt_impl, sockopt_impl};
use xio_core::PathStats;

/// Which word of `tcp_info` a field is.
const fn word(offset: usize) -> usize {
    offset / size_of::<u32>()
}

const SEGMENT: usize = word(offset_of!(tcp_info, tcpi_snd_mss));
const PATH_MTU: usize = word(offset_of!(tcp_info, tcpi_pmtu));
const ROUND_TRIP: usize = word(offset_of!(tcp_info, tcpi_rtt));
const LEAST_ROUND_TRIP: usize = word(offset_of!(tcp_info, tcpi_min_rtt));
const RECEIVE_ROUND_TRIP: usize = word(offset_of!(tcp_info, tcpi_rcv_rtt));
const RECEIVED: usize = word(offset_of!(tcp_info, tcpi_data_segs_in));
const VARIATION: usize = word(offset_of!(tcp_info, tcpi_rttvar));
const SENT_AGAIN: usize = word(offset_of!(tcp_info, tcpi_total_retrans));
const SENT: usize = word(offset_of!(tcp_info, tcpi_data_segs_out));
const BUSY: usize = word(offset_of!(tcp_info, tcpi_busy_time));
const RECEIVER_FULL: usize = word(offset_of!(tcp_info, tcpi_rwnd_limited));
const BUFFER_FULL: usize = word(offset_of!(tcp_info, tcpi_sndbuf_limited));
const OUT_OF_ORDER: usize = word(offset_of!(tcp_info, tcpi_rcv_ooopack));

sockopt_impl!(
    /// The words of `TCP_INFO` up to the times of a sender, which are there since Linux 4.10; newer
    /// kernels know more, and write as much as they are asked for. An older one would write less,
    /// which the macro takes for a bug, and panics.
    TcpInfo,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    [u32; BUFFER_FULL + 2]
);

sockopt_impl!(
    /// The words of `TCP_INFO` up to the segments out of order, which are there since Linux 5.4.
    LongTcpInfo,
    GetOnly,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    [u32; OUT_OF_ORDER + 1]
);

/// How much a kernel writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    /// Less than is read here.
    Nothing,
    /// Up to the times of a sender.
    Times,
    /// Up to the segments out of order.
    Order,
}

/// How much a kernel of this release writes.
fn tells(release: &str) -> Tells {
    let mut numbers = release.split(['.', '-']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (5, 4) => Tells::Order,
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (4, 10) => Tells::Times,
        _ => Tells::Nothing,
    }
}

/// The words that the kernel writes of a connection.
fn words(socket: &impl AsFd) -> Option<[u32; OUT_OF_ORDER + 1]> {
    static TELLS: LazyLock<Tells> =
        LazyLock::new(|| tells(&rustix::system::uname().release().to_string_lossy()));
    match *TELLS {
        Tells::Nothing => None,
        Tells::Times => {
            let mut words = [0; OUT_OF_ORDER + 1];
            let told = TcpInfo.get(socket).ok()?;
            words
                .iter_mut()
                .zip(told)
                .for_each(|(word, told)| *word = told);
            Some(words)
        }
        Tells::Order => LongTcpInfo.get(socket).ok(),
    }
}

/// Asks the kernel; `None` where it does not say.
pub(crate) fn stats(socket: &impl AsFd) -> Option<PathStats> {
    let words = words(socket)?;
    let at = |word: usize| words.get(word).copied();
    let micros = |count: u32| Duration::from_micros(count.into());
    let mut stats = PathStats::new();
    // An end that only receives measures by the echoes of its acknowledgements, later and more
    // coarsely; its other round trip is that of the handshake, and would seem a shorter path.
    let receives = at(RECEIVED) > at(SENT);
    let measure = match receives {
        true => RECEIVE_ROUND_TRIP,
        false => ROUND_TRIP,
    };
    // It is 0 until the peer has answered.
    stats.round_trip = at(measure).filter(|&time| time > 0).map(micros);
    // All bits are set until then.
    let least = at(LEAST_ROUND_TRIP).filter(|&time| time != u32::MAX);
    stats.least_round_trip = least.map(micros);
    let varies = at(VARIATION).map(micros);
    stats.round_trip_variation = varies.filter(|_| stats.round_trip.is_some());
    stats.sent = at(SENT).map(u64::from);
    stats.retransmitted = at(SENT_AGAIN).map(u64::from);
    // Microseconds in two words.
    let time = |word: usize| {
        let halves = [at(word)?, at(word + 1)?].map(u32::to_ne_bytes);
        let whole = u64::from_ne_bytes(halves.concat().try_into().ok()?);
        Some(Duration::from_micros(whole))
    };
    stats.busy = time(BUSY);
    stats.receiver_full = time(RECEIVER_FULL);
    stats.buffer_full = time(BUFFER_FULL);
    stats.received = at(RECEIVED).map(u64::from);
    // An older kernel counts none, as a path without loss has.
    stats.out_of_order = at(OUT_OF_ORDER).map(u64::from);
    stats.path_mtu = at(PATH_MTU).filter(|&bytes| bytes > 0);
    stats.segment = at(SEGMENT).filter(|&bytes| bytes > 0);
    Some(stats)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn sent_bytes_are_counted_in_segments() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        for _ in 0..3 {
            near.write_all(b"word").unwrap();
            far.read_exact(&mut [0; 4]).unwrap();
        }
        let (sender, receiver) = (stats(&near).unwrap(), stats(&far).unwrap());
        assert_eq!(sender.sent, Some(3));
        assert_eq!(receiver.sent, Some(0));
        assert_eq!(receiver.received, Some(3));
        assert_eq!(receiver.out_of_order, Some(0));
        assert!(sender.retransmitted.is_some());
        assert!(sender.least_round_trip.unwrap() <= sender.round_trip.unwrap());
        // A segment and its headers are a packet.
        assert!(sender.segment > Some(500), "{sender:?}");
        assert!(sender.segment < sender.path_mtu, "{sender:?}");
        // So little data is no measurement, and the round trip of the handshake is none of it.
        assert_eq!(receiver.round_trip, None);
        let round_trip = sender.round_trip.unwrap();
        assert!(Duration::ZERO < round_trip && round_trip < Duration::from_secs(10));
    }

    #[test]
    fn a_sender_is_told_how_long_its_receiver_had_no_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 1 << 16]).is_ok() {}
        let begun = std::time::Instant::now();
        loop {
            let stats = stats(&near).unwrap();
            if stats.receiver_full > Some(Duration::from_millis(10)) {
                assert!(stats.receiver_full <= stats.busy, "{stats:?}");
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{stats:?}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn old_kernels_are_not_asked() {
        for (release, expected) in [
            ("6.12.48+deb13-amd64", Tells::Order),
            ("5.4.0", Tells::Order),
            ("5.3.18-lp152", Tells::Times),
            ("4.10.0", Tells::Times),
            ("4.9.337-1", Tells::Nothing),
            ("3.10.0-1160.el7.x86_64", Tells::Nothing),
            ("unknown", Tells::Nothing),
        ] {
            assert_eq!(tells(release), expected, "{release}");
        }
    }

    #[test]
    fn other_sockets_have_none() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(stats(&socket), None);
    }
}

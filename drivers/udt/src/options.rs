//! `UdtOptions`: the settings of a UDT connection.

use std::time::Duration;

use udt_proto::{Congestion, Options, Service};
use xio_core::{BadValue, Bind, ByteSize, Setting, SocketHints, Value};

use crate::{Carrier, Udt};

/// Socket buffers, for datagrams that arrive while this program is busy; the reference's size for
/// receiving.
const SOCKET_RECEIVE: ByteSize = ByteSize::new(12_288_000);
const SOCKET_SEND: ByteSize = ByteSize::new(1 << 20);
/// Largest buffer of this program, in bytes: 20 Gbit/s over 100 ms.
const MAX_BUFFER: u64 = 256 << 20;
/// Largest flow window, in packets.
const MAX_WINDOW: u32 = 1 << 18;

const RATE: &str = "bytes a second, as 100M, or bits, as 800Mbit";
const BUFFER: &str = "bytes up to 256M, as 16M";

/// Names of the congestion controls.
const CONTROLS: [(&str, Congestion); 3] = [
    ("bbr", Congestion::Model),
    ("cubic", Congestion::Cubic),
    ("udt", Congestion::Native),
];

fn congestion(value: Value<'_>) -> Result<Congestion, BadValue> {
    let mut named = CONTROLS.iter().filter(|(name, _)| *name == value.text());
    named.next().map(|(_, control)| *control).ok_or(BadValue)
}

fn name_of(congestion: &Congestion) -> Option<String> {
    let mut named = CONTROLS.iter().filter(|(_, control)| control == congestion);
    named.next().map(|(name, _)| (*name).to_owned())
}

xio_core::options! {
    /// Settings of a UDT connection.
    pub struct UdtOptions for "udt" [impl<B: Bind, H: Carrier> Udt<B, H>] {
        /// Number of connections that may wait to be accepted.
        backlog: u32 = 128, "backlog", Setting::new().local();
        /// Congestion control of the sent data; `cubic` (RFC 9438) for links shared with TCP.
        congestion: Congestion = Congestion::Model, "cc",
            Setting::with("bbr, cubic or udt", &["bbr", "cubic", "udt"], congestion, name_of);
        /// Longest time to connect; 3 s by default, and 30 s for a rendezvous.
        connect_timeout: Option<Duration> = None, "conntimeo", Setting::new().local();
        /// Most packets in flight to this end; 25,600 by default.
        flow_window: Option<u32> = None, "fc",
            Setting::new()
                .takes("a number of packets, 1 to 262144", &["1", "25600"])
                .only(|window| window.is_some_and(|n| (1..=MAX_WINDOW).contains(&n)));
        /// Longest wait of a shutdown for the peer to acknowledge all data.
        linger: Duration = Duration::from_secs(180), "linger", Setting::new().local();
        /// Highest rate to send at, in bytes a second with headers; unlimited by default.
        max_bandwidth: Option<ByteSize> = None, "maxbw",
            Setting::new().takes(RATE, &["100M", "800Mbit"]);
        /// Largest packet in bytes with IP and UDP headers; 1500 by default, and 1480 over IPv6.
        mss: Option<u16> = None, "mss",
            Setting::new()
                .takes("bytes from 76 to 65535", &["76", "9000"])
                .only(|mss| mss.is_some_and(|mss| mss >= 76));
        /// Local port for targets that name none; any by default.
        port: Option<u16> = None, "port", Setting::new().local();
        /// Most bytes that wait to be read; as many packets as the flow window by default.
        receive_buffer: Option<ByteSize> = None, "rcvbuf",
            Setting::new().takes(BUFFER, &["16M", "1"]).only(is_buffer);
        /// Whether the peer connects to this end as well.
        rendezvous: bool = false, "rendezvous";
        /// Whether connections that are opened from here share a socket.
        reuse: bool = false, "reuseaddr", Setting::new().local();
        /// Most bytes that wait to be acknowledged; 25,600 packets by default.
        send_buffer: Option<ByteSize> = None, "sndbuf",
            Setting::new().takes(BUFFER, &["16M", "1"]).only(is_buffer);
        /// Receive buffer of the socket in bytes, which the kernel caps; 12,288,000 by default.
        socket_receive_buffer: Option<ByteSize> = None, "udp_rcvbuf";
        /// Send buffer of the socket in bytes, which the kernel caps; 1 MiB by default.
        socket_send_buffer: Option<ByteSize> = None, "udp_sndbuf";
    }
}

/// Bounds a buffer of this program: a peer's stack string may request it.
fn is_buffer(size: &Option<ByteSize>) -> bool {
    size.is_some_and(|size| size.bytes() <= MAX_BUFFER)
}

impl UdtOptions {
    /// Returns options of the protocol machine; the hints of one open come first.
    pub(crate) fn machine(&self, service: Service, hints: Option<&SocketHints>) -> Options {
        let mut options = Options::default();
        options.service = service;
        options.congestion = self.congestion;
        options.linger = self.linger;
        options.max_bandwidth = self.max_bandwidth.map(ByteSize::bytes);
        if let Some(mss) = self.mss {
            options.mss = mss;
            options.mss_over_ipv6 = mss;
        }
        if let Some(window) = self.flow_window {
            options.flow_window = window;
        }
        // As in the reference, a packet counts without its IP and UDP headers.
        let packets = |size: ByteSize| {
            let one = u64::from(options.mss) - 28;
            u32::try_from(size.bytes().div_ceil(one)).unwrap_or(u32::MAX)
        };
        let (send, receive) = (
            self.send_buffer.map(packets),
            self.receive_buffer.map(packets),
        );
        options.send_buffer = send.unwrap_or(options.send_buffer);
        options.receive_buffer = receive.unwrap_or(options.flow_window);
        // A requested buffer needs a window as large.
        if self.flow_window.is_none() {
            options.flow_window = options.flow_window.max(options.receive_buffer);
        }
        let hinted = hints.and_then(|hints| hints.connect_timeout);
        if let Some(time) = hinted.or(self.connect_timeout) {
            options.connect_timeout = time;
            options.rendezvous_timeout = time;
        }
        options
    }

    /// Returns hints for the socket below.
    pub(crate) fn socket(&self, hints: Option<&SocketHints>) -> SocketHints {
        let hints = hints.copied().unwrap_or_default();
        let or = |hint: Option<ByteSize>, ours: Option<ByteSize>, plain: ByteSize| {
            Some(hint.or(ours).unwrap_or(plain))
        };
        hints.buffers(
            or(hints.send_buffer, self.socket_send_buffer, SOCKET_SEND),
            or(
                hints.receive_buffer,
                self.socket_receive_buffer,
                SOCKET_RECEIVE,
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use xio_core::ErrorKind;

    use super::*;

    #[test]
    fn any_options_make_a_machine() {
        for options in xio_testkit::option_suite::mixes::<UdtOptions>() {
            let machine = options.machine(Service::Stream, None);
            assert!(machine.receive_buffer > 0 && machine.send_buffer > 0);
        }
    }

    #[test]
    fn buffers_are_counted_in_packets() {
        let options: UdtOptions = "mss=1028;sndbuf=10000;rcvbuf=20001".parse().unwrap();
        let machine = options.machine(Service::Stream, None);
        assert_eq!((machine.send_buffer, machine.receive_buffer), (10, 21));
        // A window that is smaller than the buffer was asked for; a larger one was not refused.
        let options: UdtOptions = "rcvbuf=100M".parse().unwrap();
        let machine = options.machine(Service::Stream, None);
        assert!(machine.flow_window >= machine.receive_buffer);
        assert!(machine.receive_buffer > 70_000);
    }

    #[test]
    fn hints_of_one_open_go_first() {
        let options: UdtOptions = "conntimeo=9;udp_sndbuf=5".parse().unwrap();
        let hints = SocketHints::new()
            .connect_timeout(Duration::from_secs(1))
            .buffers(None, Some(ByteSize::new(7)));
        let machine = options.machine(Service::Stream, Some(&hints));
        assert_eq!(machine.connect_timeout, Duration::from_secs(1));
        let socket = options.socket(Some(&hints));
        assert_eq!(socket.send_buffer, Some(ByteSize::new(5)));
        assert_eq!(socket.receive_buffer, Some(ByteSize::new(7)));
    }

    #[test]
    fn invalid_options_are_refused() {
        for bad in [
            "mss=75",
            "mss=65536",
            "cc=reno",
            "linger=0",
            "sndbuf=0",
            "sndsyn=1",
        ] {
            let error = bad.parse::<UdtOptions>().unwrap_err();
            assert_eq!(
                (error.kind(), error.layer()),
                (ErrorKind::BadOption, "udt"),
                "{bad}"
            );
        }
    }
}

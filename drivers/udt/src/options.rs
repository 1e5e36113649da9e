//! `UdtOptions`: what a stack string can ask of a connection, with defaults and units.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use udt_proto::{Congestion, Options, Service};
use xio_core::{
    BadValue, ByteSize, Entry, Error, Opt, OptionText, Result, SocketHints, Value, seconds,
};

/// The options, as the registry lists them.
pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new(
        "backlog",
        "a number of peers",
        "how many may wait to be accepted",
    )
    .local(),
    Opt::new("cc", "bbr or udt", "congestion control of what is sent"),
    Opt::new(
        "conntimeo",
        "seconds, as 2.5",
        "how long connecting may take",
    )
    .local(),
    Opt::new(
        "fc",
        "a number of packets, 1 to 262144",
        "most packets on the way to us",
    ),
    Opt::new(
        "linger",
        "seconds, as 2.5",
        "how long shutdown waits for the peer",
    )
    .local(),
    Opt::new(
        "maxbw",
        "bytes a second, as 100M, or bits, as 800m",
        "fastest rate to send at",
    ),
    Opt::new(
        "mss",
        "bytes from 76 to 65535",
        "largest packet, IP and UDP headers included",
    ),
    Opt::new("port", "a port", "local port when none is named").local(),
    Opt::new(
        "rcvbuf",
        "bytes up to 256M, as 16M",
        "most that waits to be read",
    ),
    Opt::new(
        "rendezvous",
        "yes or no",
        "connect to a peer that connects to us",
    ),
    Opt::new("reuseaddr", "yes or no", "let connections share a socket").local(),
    Opt::new(
        "sndbuf",
        "bytes up to 256M, as 16M",
        "most that waits to be acknowledged",
    ),
    Opt::new("udp_rcvbuf", "bytes, as 4M", "receive buffer of the socket"),
    Opt::new("udp_sndbuf", "bytes, as 1M", "send buffer of the socket"),
];

/// Room in the socket for what arrives while this program is busy elsewhere; the reference's size.
const SOCKET_RECEIVE: ByteSize = ByteSize::new(12_288_000);
const SOCKET_SEND: ByteSize = ByteSize::new(1 << 20);
/// Most bytes of a buffer of our own: 20 Gbit/s over 100 ms.
const MAX_BUFFER: u64 = 256 << 20;
/// Most packets on the way to us.
const MAX_WINDOW: u32 = 1 << 18;

/// What a connection is set to. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdtOptions {
    /// How many peers may wait to be accepted; 128 by default.
    pub backlog: u32,
    /// Congestion control of what is sent; by a model of the path by default.
    pub congestion: Congestion,
    /// How long connecting may take; 3 s by default, and 30 s for a rendezvous.
    pub connect_timeout: Option<Duration>,
    /// Most packets on the way to us; 25,600 by default.
    pub flow_window: Option<u32>,
    /// How long shutdown waits for the peer to acknowledge all; 180 s by default.
    pub linger: Duration,
    /// Fastest rate to send at, in bytes per second with headers; unlimited by default.
    pub max_bandwidth: Option<ByteSize>,
    /// Largest packet in bytes with IP and UDP headers; 1500 by default, and 1480 over IPv6.
    pub mss: Option<u16>,
    /// Local port for targets that name none; any by default.
    pub port: Option<u16>,
    /// Most that waits to be read, in bytes; as many packets as the flow window by default.
    pub receive_buffer: Option<ByteSize>,
    /// Whether the peer connects to us as well; off by default.
    pub rendezvous: bool,
    /// Whether connections that are opened from here share a socket; off by default.
    pub reuse: bool,
    /// Most that waits to be acknowledged, in bytes; 25,600 packets by default.
    pub send_buffer: Option<ByteSize>,
    /// Receive buffer of the socket in bytes, which the kernel caps; 12,288,000 by default.
    pub socket_receive_buffer: Option<ByteSize>,
    /// Send buffer of the socket in bytes, which the kernel caps; 1 MiB by default.
    pub socket_send_buffer: Option<ByteSize>,
    /// The first sequence number, for tests of what happens when numbers begin anew.
    #[doc(hidden)]
    pub initial_sequence: Option<u32>,
}

impl Default for UdtOptions {
    fn default() -> Self {
        Self {
            backlog: 128,
            congestion: Congestion::Model,
            connect_timeout: None,
            flow_window: None,
            linger: Duration::from_secs(180),
            max_bandwidth: None,
            mss: None,
            port: None,
            receive_buffer: None,
            rendezvous: false,
            reuse: false,
            send_buffer: None,
            socket_receive_buffer: None,
            socket_send_buffer: None,
            initial_sequence: None,
        }
    }
}

impl UdtOptions {
    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An option that is unknown or whose value is not accepted.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        let mut options = Self::default();
        entry.apply(OPTIONS, &mut options, Self::set)?;
        Ok(options)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), BadValue> {
        match key {
            "backlog" => self.backlog = value.parse()?,
            "cc" => self.congestion = congestion(value.text())?,
            "conntimeo" => self.connect_timeout = Some(value.seconds()?),
            "fc" => {
                let window = value.parse().ok().filter(|n| (1..=MAX_WINDOW).contains(n));
                self.flow_window = Some(window.ok_or(BadValue)?);
            }
            "linger" => self.linger = value.seconds()?,
            "maxbw" => self.max_bandwidth = Some(value.size_above_zero()?),
            "mss" => {
                self.mss = Some(
                    value
                        .parse()
                        .ok()
                        .filter(|mss| *mss >= 76)
                        .ok_or(BadValue)?,
                )
            }
            "port" => self.port = Some(value.parse()?),
            "rcvbuf" => self.receive_buffer = Some(buffer(value)?),
            "rendezvous" => self.rendezvous = value.bool()?,
            "reuseaddr" => self.reuse = value.bool()?,
            "sndbuf" => self.send_buffer = Some(buffer(value)?),
            "udp_rcvbuf" => self.socket_receive_buffer = Some(value.size_above_zero()?),
            "udp_sndbuf" => self.socket_send_buffer = Some(value.size_above_zero()?),
            _ => return Err(BadValue),
        }
        Ok(())
    }

    /// What the machine is told, with what one open asks for put before it.
    pub(crate) fn machine(&self, service: Service, hints: Option<&SocketHints>) -> Options {
        let mut options = Options::default();
        options.service = service;
        options.congestion = self.congestion;
        options.linger = self.linger;
        options.max_bandwidth = self.max_bandwidth.map(ByteSize::bytes);
        options.initial_sequence = self.initial_sequence;
        if let Some(mss) = self.mss {
            options.mss = mss;
            options.mss_over_ipv6 = mss;
        }
        if let Some(window) = self.flow_window {
            options.flow_window = window;
        }
        // Of a packet, all but its IP and UDP headers counts, as it does in the reference.
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
        // A buffer that was asked for needs a window as large.
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

    /// What is asked of the socket below.
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

/// The size of a buffer of our own, which a peer's string may have asked for.
fn buffer(value: Value<'_>) -> Result<ByteSize, BadValue> {
    match value.size_above_zero()? {
        size if size.bytes() > MAX_BUFFER => Err(BadValue),
        size => Ok(size),
    }
}

fn congestion(name: &str) -> Result<Congestion, BadValue> {
    match name {
        "bbr" => Ok(Congestion::Model),
        "udt" => Ok(Congestion::Native),
        _ => Err(BadValue),
    }
}

/// Reads `mss=9000;linger=10`; the empty string gives the defaults.
impl FromStr for UdtOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new("udt")?.with_options(text)?)
    }
}

/// Prints what differs from the defaults, in the form that `FromStr` reads.
impl fmt::Display for UdtOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::default();
        let flag = |value: bool| value.then_some(1);
        OptionText::new()
            .add(
                "backlog",
                (self.backlog != plain.backlog).then_some(self.backlog),
            )
            .add(
                "cc",
                (self.congestion == Congestion::Native).then_some("udt"),
            )
            .add("conntimeo", self.connect_timeout.map(seconds))
            .add("fc", self.flow_window)
            .add(
                "linger",
                (self.linger != plain.linger).then(|| seconds(self.linger)),
            )
            .add("maxbw", self.max_bandwidth)
            .add("mss", self.mss)
            .add("port", self.port)
            .add("rcvbuf", self.receive_buffer)
            .add("rendezvous", flag(self.rendezvous))
            .add("reuseaddr", flag(self.reuse))
            .add("sndbuf", self.send_buffer)
            .add("udp_rcvbuf", self.socket_receive_buffer)
            .add("udp_sndbuf", self.socket_send_buffer)
            .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use xio_core::ErrorKind;

    use super::*;

    fn size(most: u64) -> impl Strategy<Value = Option<ByteSize>> {
        prop::option::of((1..=most).prop_map(ByteSize::new))
    }

    fn options() -> impl Strategy<Value = UdtOptions> {
        (
            any::<[bool; 3]>(),
            (
                any::<u32>(),
                prop::option::of(1..=MAX_WINDOW),
                any::<Option<u16>>(),
            ),
            prop::option::of(76..=u16::MAX),
            (1..1_000_000_000_u64, prop::option::of(1..1_000_000_000_u64)),
            [u64::MAX, MAX_BUFFER, MAX_BUFFER, u64::MAX, u64::MAX].map(size),
        )
            .prop_map(|(flags, plain, mss, times, sizes)| UdtOptions {
                backlog: plain.0,
                congestion: if flags[0] {
                    Congestion::Native
                } else {
                    Congestion::Model
                },
                connect_timeout: times.1.map(Duration::from_millis),
                flow_window: plain.1,
                linger: Duration::from_millis(times.0),
                max_bandwidth: sizes[0],
                mss,
                port: plain.2,
                receive_buffer: sizes[1],
                rendezvous: flags[1],
                reuse: flags[2],
                send_buffer: sizes[2],
                socket_receive_buffer: sizes[3],
                socket_send_buffer: sizes[4],
                initial_sequence: None,
            })
    }

    proptest! {
        #[test]
        fn display_round_trips(options in options()) {
            prop_assert_eq!(options.to_string().parse::<UdtOptions>().unwrap(), options);
        }

        #[test]
        fn any_options_make_a_machine(options in options()) {
            let machine = options.machine(Service::Stream, None);
            prop_assert!(machine.receive_buffer > 0 && machine.send_buffer > 0);
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
    fn what_makes_no_sense_is_refused() {
        for bad in [
            "mss=75",
            "mss=65536",
            "cc=cubic",
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

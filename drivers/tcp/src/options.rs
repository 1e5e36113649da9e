//! `TcpOptions`: what a stack string can ask of a socket, with defaults and units.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use xio_core::{
    BadValue, ByteSize, Entry, Error, Opt, OptionText, PortRange, Result, SocketHints, Value,
    seconds,
};

/// The options, as the registry lists them.
pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new(
        "backlog",
        "a number of peers",
        "how many may wait to be accepted",
    )
    .local(),
    Opt::new(
        "cc",
        "a name, as bbr",
        "congestion control, where the kernel has it",
    ),
    Opt::new(
        "connect_range",
        "ports, as 50000-51000",
        "local ports to connect from",
    )
    .local(),
    Opt::new(
        "connect_timeout",
        "seconds, as 2.5",
        "how long connecting may take",
    )
    .local(),
    Opt::new(
        "iface",
        "an IP address",
        "local address to listen at and connect from",
    )
    .local(),
    Opt::new("keepalive", "yes or no", "probe an idle peer"),
    Opt::new(
        "keepidle",
        "seconds, as 60",
        "silence after which an idle peer is probed",
    ),
    Opt::new(
        "listen_range",
        "ports, as 50000-51000",
        "ports to listen at when none is named",
    )
    .local(),
    Opt::new("nodelay", "yes or no", "send small writes at once"),
    Opt::new("noipv6", "yes or no", "use IPv4 addresses only"),
    Opt::new(
        "pacing",
        "bytes a second, as 100M, or bits, as 800m",
        "fastest rate to send at",
    ),
    Opt::new(
        "port",
        "a port",
        "port to listen at or connect to when none is named",
    )
    .local(),
    Opt::new("rcvbuf", "bytes, as 4M", "receive buffer of the socket"),
    Opt::new(
        "reuse",
        "yes or no",
        "listen although old connections hold the port",
    )
    .local(),
    Opt::new("sndbuf", "bytes, as 4M", "send buffer of the socket"),
];

/// What a TCP socket is set to. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpOptions {
    /// How many peers may wait to be accepted; 1024 by default, and the kernel has a limit too.
    pub backlog: u32,
    /// Congestion control by its kernel name; the system's choice by default.
    pub congestion: Option<String>,
    /// Local ports to connect from; any by default.
    pub connect_range: Option<PortRange>,
    /// How long connecting may take, all addresses of a name together; 60 s by default.
    pub connect_timeout: Duration,
    /// Local address to listen at and connect from; any by default.
    pub interface: Option<IpAddr>,
    /// Whether an idle peer is probed; off by default.
    pub keepalive: bool,
    /// Silence after which an idle peer is probed; asks for `keepalive`. A peer that is silent for three times
    /// as long is taken for gone. The system's times, of hours, by default.
    pub keep_idle: Option<Duration>,
    /// Ports to listen at when the target names none; any by default.
    pub listen_range: Option<PortRange>,
    /// Whether small writes are sent at once; on by default, since blocks are written whole.
    pub nodelay: bool,
    /// Whether IPv6 addresses are left out; off by default.
    pub no_ipv6: bool,
    /// Fastest rate to send at, in bytes per second; unlimited by default.
    pub pacing: Option<ByteSize>,
    /// Port for targets that name none; 0, any, when listening by default.
    pub port: Option<u16>,
    /// Receive buffer of the socket in bytes; grows by itself by default.
    pub receive_buffer: Option<ByteSize>,
    /// Whether a listener takes a port that ended connections still hold; on by default.
    pub reuse: bool,
    /// Send buffer of the socket in bytes; grows by itself by default.
    pub send_buffer: Option<ByteSize>,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            backlog: 1024,
            congestion: None,
            connect_range: None,
            connect_timeout: Duration::from_secs(60),
            interface: None,
            keepalive: false,
            keep_idle: None,
            listen_range: None,
            nodelay: true,
            no_ipv6: false,
            pacing: None,
            port: None,
            receive_buffer: None,
            reuse: true,
            send_buffer: None,
        }
    }
}

impl TcpOptions {
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
            "cc" => self.congestion = Some(congestion_name(value.text())?),
            "connect_range" => self.connect_range = Some(value.parse()?),
            "connect_timeout" => self.connect_timeout = value.seconds()?,
            "iface" => self.interface = Some(value.ip()?),
            "keepalive" => self.keepalive = value.bool()?,
            "keepidle" => self.keep_idle = Some(value.seconds()?),
            "listen_range" => self.listen_range = Some(value.parse()?),
            "nodelay" => self.nodelay = value.bool()?,
            "noipv6" => self.no_ipv6 = value.bool()?,
            "pacing" => self.pacing = Some(value.size_above_zero()?),
            "port" => self.port = Some(value.parse()?),
            "rcvbuf" => self.receive_buffer = Some(value.size_above_zero()?),
            "reuse" => self.reuse = value.bool()?,
            "sndbuf" => self.send_buffer = Some(value.size_above_zero()?),
            _ => return Err(BadValue),
        }
        Ok(())
    }

    /// These options with what one open asks for put before them.
    pub(crate) fn hinted(&self, hints: Option<&SocketHints>) -> Self {
        let mut options = self.clone();
        if let Some(hints) = hints {
            options.send_buffer = hints.send_buffer.or(options.send_buffer);
            options.receive_buffer = hints.receive_buffer.or(options.receive_buffer);
            options.listen_range = hints.ports.or(options.listen_range);
            options.connect_range = hints.ports.or(options.connect_range);
            options.interface = hints.source.or(options.interface);
            options.connect_timeout = hints.connect_timeout.unwrap_or(options.connect_timeout);
            options.backlog = hints.backlog.unwrap_or(options.backlog);
        }
        options
    }
}

/// A kernel name: at most 15 bytes, and nothing that could end the string early.
fn congestion_name(text: &str) -> Result<String, BadValue> {
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    if text.is_empty() || text.len() > 15 || !text.bytes().all(word) {
        return Err(BadValue);
    }
    Ok(text.to_owned())
}

/// Reads `nodelay=1;sndbuf=4M`; the empty string gives the defaults.
impl FromStr for TcpOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new("tcp")?.with_options(text)?)
    }
}

/// Prints what differs from the defaults, in the form that `FromStr` reads.
impl fmt::Display for TcpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::default();
        let flag = |value: bool, default: bool| (value != default).then_some(u8::from(value));
        OptionText::new()
            .add(
                "backlog",
                (self.backlog != plain.backlog).then_some(self.backlog),
            )
            .add("cc", self.congestion.as_deref())
            .add("connect_range", self.connect_range)
            .add(
                "connect_timeout",
                (self.connect_timeout != plain.connect_timeout)
                    .then(|| seconds(self.connect_timeout)),
            )
            .add("iface", self.interface)
            .add("keepalive", flag(self.keepalive, plain.keepalive))
            .add("keepidle", self.keep_idle.map(seconds))
            .add("listen_range", self.listen_range)
            .add("nodelay", flag(self.nodelay, plain.nodelay))
            .add("noipv6", flag(self.no_ipv6, plain.no_ipv6))
            .add("pacing", self.pacing)
            .add("port", self.port)
            .add("rcvbuf", self.receive_buffer)
            .add("reuse", flag(self.reuse, plain.reuse))
            .add("sndbuf", self.send_buffer)
            .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};
    use xio_core::ErrorKind;

    use super::*;

    fn ports() -> impl Strategy<Value = Option<PortRange>> {
        any::<(u16, u16)>().prop_map(|(a, b)| PortRange::new(a.min(b), a.max(b)))
    }

    fn size() -> impl Strategy<Value = Option<ByteSize>> {
        prop::option::of((1..u64::MAX).prop_map(ByteSize::new))
    }

    fn options() -> impl Strategy<Value = TcpOptions> {
        let sizes = (size(), size(), size());
        let flags = any::<[bool; 4]>();
        let rest = (
            any::<u32>(),
            prop::option::of("[a-z][a-z0-9_-]{0,14}"),
            (ports(), ports()),
            (1..1_000_000_000_u64, prop::option::of(1..1_000_000_u64)),
            any::<Option<IpAddr>>(),
            any::<Option<u16>>(),
        );
        (sizes, flags, rest).prop_map(|(sizes, flags, rest)| TcpOptions {
            backlog: rest.0,
            congestion: rest.1,
            connect_range: rest.2.0,
            listen_range: rest.2.1,
            connect_timeout: Duration::from_millis(rest.3.0),
            keep_idle: rest.3.1.map(Duration::from_millis),
            interface: rest.4,
            port: rest.5,
            keepalive: flags[0],
            nodelay: flags[1],
            no_ipv6: flags[2],
            reuse: flags[3],
            pacing: sizes.0,
            receive_buffer: sizes.1,
            send_buffer: sizes.2,
        })
    }

    proptest! {
        #[test]
        fn display_round_trips(options in options()) {
            prop_assert_eq!(options.to_string().parse::<TcpOptions>().unwrap(), options);
        }
    }

    #[test]
    fn reads_what_globus_xio_writes() {
        let options: TcpOptions =
            "port=2811;listen_range=50000%2C51000;sndbuf=4M;rcvbuf=8k;nodelay=no"
                .parse()
                .unwrap();
        assert_eq!(options.port, Some(2811));
        assert_eq!(options.listen_range, PortRange::new(50_000, 51_000));
        assert_eq!(options.send_buffer, Some(ByteSize::new(4 << 20)));
        assert_eq!(options.receive_buffer, Some(ByteSize::new(1024)));
        assert!(!options.nodelay);
    }

    #[test]
    fn an_error_names_driver_option_and_what_it_accepts() {
        let error = "sndbuf=big".parse::<TcpOptions>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadOption);
        assert_eq!(
            error.to_string(),
            "tcp: plan: option sndbuf does not accept \"big\"; it takes bytes, as 4M"
        );
        let error = "sendbuf=1M".parse::<TcpOptions>().unwrap_err().to_string();
        assert!(
            error.starts_with("tcp: plan: no option `sendbuf`; accepted are backlog, cc,"),
            "{error}"
        );
        for bad in [
            "cc=",
            "cc=a/b",
            "port=70000",
            "listen_range=9-5",
            "iface=host",
            "pacing=0",
            "nodelay=maybe",
            "connect_timeout=0",
        ] {
            assert!(bad.parse::<TcpOptions>().is_err(), "{bad}");
        }
    }

    #[test]
    fn hints_go_first() {
        let options: TcpOptions = "sndbuf=4M;rcvbuf=1M".parse().unwrap();
        let hints = SocketHints::new().buffers(Some(ByteSize::new(9)), None);
        let hinted = options.hinted(Some(&hints));
        assert_eq!(hinted.send_buffer, Some(ByteSize::new(9)));
        assert_eq!(hinted.receive_buffer, Some(ByteSize::new(1 << 20)));
        assert_eq!(options.hinted(None), options);
    }
}

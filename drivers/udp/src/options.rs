//! `UdpOptions`: what a stack string can ask of a socket, with defaults and units.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use xio_core::{
    BadValue, ByteSize, Entry, Error, Opt, OptionText, PortRange, Result, SocketHints, Value,
};

/// The options, as the registry lists them.
pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new(
        "dontfrag",
        "yes or no",
        "refuse what the path cannot take whole",
    ),
    Opt::new("iface", "an IP address", "local address to bind to").local(),
    Opt::new(
        "listen_range",
        "ports, as 50000-51000",
        "local ports to take one of when none is named",
    )
    .local(),
    Opt::new("multicast", "an IP address", "group to join").local(),
    Opt::new(
        "multicast_ttl",
        "a number from 0 to 255",
        "how many routers a message to a group may pass",
    )
    .local(),
    Opt::new("noipv6", "yes or no", "use IPv4 addresses only"),
    Opt::new(
        "offload",
        "yes or no",
        "let the kernel cut up and join batches",
    ),
    Opt::new("port", "a port", "local port when none is named").local(),
    Opt::new("rcvbuf", "bytes, as 4M", "receive buffer of the socket"),
    Opt::new(
        "reuse",
        "yes or no",
        "bind although other sockets have the port",
    )
    .local(),
    Opt::new("sndbuf", "bytes, as 4M", "send buffer of the socket"),
];

/// What a UDP socket is set to. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpOptions {
    /// Whether a message larger than the path takes is refused; off by default, so it is cut up.
    pub dont_fragment: bool,
    /// Local address to bind to, or whose interface a group is joined at; any by default.
    pub interface: Option<IpAddr>,
    /// Group to join; none by default.
    pub multicast: Option<IpAddr>,
    /// How many routers a message to a group may pass; the kernel's 1 by default.
    pub multicast_ttl: Option<u8>,
    /// Whether IPv6 addresses are left out; off by default.
    pub no_ipv6: bool,
    /// Whether the kernel cuts up and joins batches; on by default.
    pub offload: bool,
    /// Local port when none is named; any by default.
    pub port: Option<u16>,
    /// Local ports to take one of when none is named; any by default.
    pub ports: Option<PortRange>,
    /// Receive buffer of the socket in bytes; the system's by default.
    pub receive_buffer: Option<ByteSize>,
    /// Whether several sockets may have the port; off by default.
    pub reuse: bool,
    /// Send buffer of the socket in bytes; the system's by default.
    pub send_buffer: Option<ByteSize>,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            dont_fragment: false,
            interface: None,
            multicast: None,
            multicast_ttl: None,
            no_ipv6: false,
            offload: true,
            port: None,
            ports: None,
            receive_buffer: None,
            reuse: false,
            send_buffer: None,
        }
    }
}

impl UdpOptions {
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
            "dontfrag" => self.dont_fragment = value.bool()?,
            "iface" => self.interface = Some(value.ip()?),
            "listen_range" => self.ports = Some(value.parse()?),
            "multicast" => self.multicast = Some(group(value)?),
            "multicast_ttl" => self.multicast_ttl = Some(value.parse()?),
            "noipv6" => self.no_ipv6 = value.bool()?,
            "offload" => self.offload = value.bool()?,
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
            options.ports = hints.ports.or(options.ports);
            options.interface = hints.source.or(options.interface);
        }
        options
    }
}

fn group(value: Value<'_>) -> Result<IpAddr, BadValue> {
    match value.ip()? {
        ip if ip.is_multicast() => Ok(ip),
        _ => Err(BadValue),
    }
}

/// Reads `port=5000;rcvbuf=4M`; the empty string gives the defaults.
impl FromStr for UdpOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new("udp")?.with_options(text)?)
    }
}

/// Prints what differs from the defaults, in the form that `FromStr` reads.
impl fmt::Display for UdpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::default();
        let flag = |value: bool, default: bool| (value != default).then_some(u8::from(value));
        OptionText::new()
            .add("dontfrag", flag(self.dont_fragment, plain.dont_fragment))
            .add("iface", self.interface)
            .add("listen_range", self.ports)
            .add("multicast", self.multicast)
            .add("multicast_ttl", self.multicast_ttl)
            .add("noipv6", flag(self.no_ipv6, plain.no_ipv6))
            .add("offload", flag(self.offload, plain.offload))
            .add("port", self.port)
            .add("rcvbuf", self.receive_buffer)
            .add("reuse", flag(self.reuse, plain.reuse))
            .add("sndbuf", self.send_buffer)
            .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use xio_core::ErrorKind;

    use super::*;

    fn size() -> impl Strategy<Value = Option<ByteSize>> {
        prop::option::of((1..u64::MAX).prop_map(ByteSize::new))
    }

    fn options() -> impl Strategy<Value = UdpOptions> {
        (
            any::<[bool; 4]>(),
            any::<(Option<IpAddr>, Option<u8>, Option<u16>)>(),
            prop::option::of(prop_oneof![
                any::<[u8; 3]>().prop_map(|[a, b, c]| IpAddr::from([239, a, b, c])),
                any::<u16>().prop_map(|a| IpAddr::from([0xff02, 0, 0, 0, 0, 0, 0, a])),
            ]),
            any::<(u16, u16)>().prop_map(|(a, b)| PortRange::new(a.min(b), a.max(b))),
            (size(), size()),
        )
            .prop_map(|(flags, plain, multicast, ports, sizes)| UdpOptions {
                dont_fragment: flags[0],
                no_ipv6: flags[1],
                offload: flags[2],
                reuse: flags[3],
                interface: plain.0,
                multicast,
                multicast_ttl: plain.1,
                port: plain.2,
                ports,
                receive_buffer: sizes.0,
                send_buffer: sizes.1,
            })
    }

    proptest! {
        #[test]
        fn display_round_trips(options in options()) {
            prop_assert_eq!(options.to_string().parse::<UdpOptions>().unwrap(), options);
        }
    }

    #[test]
    fn reads_what_globus_xio_writes() {
        let text = "port=2811;listen_range=50000%2C51000;sndbuf=4M;rcvbuf=8k;reuse=y;noipv6=1";
        let options: UdpOptions = text.parse().unwrap();
        assert_eq!(options.port, Some(2811));
        assert_eq!(options.ports, PortRange::new(50_000, 51_000));
        assert_eq!(options.send_buffer, Some(ByteSize::new(4 << 20)));
        assert_eq!(options.receive_buffer, Some(ByteSize::new(1024)));
        assert!(options.reuse && options.no_ipv6);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            "multicast=10.0.0.1",
            "multicast_ttl=256",
            "iface=host",
            "rcvbuf=0",
            "port=70000",
            "listen_range=9-5",
            "offload=maybe",
        ] {
            let error = bad.parse::<UdpOptions>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadOption, "{bad}");
            assert_eq!(error.layer(), "udp", "{bad}");
        }
    }
}

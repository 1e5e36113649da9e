//! `UdpOptions`: settings of a UDP socket.

use std::net::IpAddr;

use xio_core::{ByteSize, PortRange, Setting, SocketHints};

use crate::Udp;

xio_core::options! {
    /// Settings of a UDP socket.
    pub struct UdpOptions for "udp" [impl Udp] {
        /// Whether a message larger than the path takes is refused; fragmented by default.
        dont_fragment: bool = false, "dontfrag";
        /// Local address to bind to, or whose interface joins a group; any by default.
        interface: Option<IpAddr> = None, "iface", Setting::new().local();
        /// Local ports to take one of when none is named; any by default.
        ports: Option<PortRange> = None, "listen_range", Setting::new().local();
        /// Multicast group to join; none by default.
        multicast: Option<IpAddr> = None, "multicast",
            Setting::new()
                .takes("an IP address", &["239.1.2.3", "ff02::1"])
                .only(|group: &Option<IpAddr>| group.is_some_and(|group| group.is_multicast()))
                .local();
        /// Number of routers that a message to a group may pass; the kernel's 1 by default.
        multicast_ttl: Option<u8> = None, "multicast_ttl", Setting::new().local();
        /// Whether IPv6 addresses are left out.
        no_ipv6: bool = false, "noipv6";
        /// Whether the kernel segments and coalesces batches.
        offload: bool = true, "offload";
        /// Local port when none is named; any by default.
        port: Option<u16> = None, "port", Setting::new().local();
        /// Receive buffer of the socket in bytes; the system's by default.
        receive_buffer: Option<ByteSize> = None, "rcvbuf";
        /// Whether several sockets may have the port.
        reuse: bool = false, "reuse", Setting::new().local();
        /// Send buffer of the socket in bytes; the system's by default.
        send_buffer: Option<ByteSize> = None, "sndbuf";
    }
}

impl UdpOptions {
    /// Returns these options, with the hints of one open first.
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

#[cfg(test)]
mod tests {
    use xio_core::ErrorKind;

    use super::*;

    #[test]
    fn reads_strings_of_globus_xio() {
        let text = "port=2811;listen_range=50000%2C51000;sndbuf=4M;rcvbuf=8k;reuse=y;noipv6=1";
        let options: UdpOptions = text.parse().unwrap();
        assert_eq!(options.port, Some(2811));
        assert_eq!(options.ports, PortRange::new(50_000, 51_000));
        assert_eq!(options.send_buffer, Some(ByteSize::new(4 << 20)));
        assert_eq!(options.receive_buffer, Some(ByteSize::new(8192)));
        assert!(options.reuse && options.no_ipv6);
    }

    #[test]
    fn invalid_options_are_refused() {
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

//! `TcpOptions`: the settings of a TCP socket.

use std::net::IpAddr;
use std::time::Duration;

use xio_core::{BadValue, ByteSize, PortRange, Setting, SocketHints, Value};

use crate::Tcp;

/// Congestion control of senders of much data on a path that loses packets.
const LOSSY: &str = "bbr";

const RATE: &str = "bytes a second, as 100M, or bits, as 800Mbit";

xio_core::options! {
    /// Settings of a TCP socket.
    pub struct TcpOptions for "tcp" [impl Tcp] {
        /// Longest time that sent bytes wait for their acknowledgement, or for room at the peer,
        /// before the connection fails; the system's time, of minutes, by default.
        ack_timeout: Option<Duration> = None, "ack_timeout", Setting::new().local();
        /// Number of connections that may wait to be accepted; the kernel has a limit of its own.
        backlog: u32 = 1024, "backlog", Setting::new().local();
        /// Congestion control by its kernel name; the system's choice by default.
        congestion: Option<String> = None, "cc",
            Setting::new().takes("a name, as bbr", &["bbr", "cubic"]).read_by(congestion_name);
        /// Local ports to connect from; any by default.
        connect_range: Option<PortRange> = None, "connect_range", Setting::new().local();
        /// Longest time to connect, for all addresses of a name together.
        connect_timeout: Duration = Duration::from_secs(60), "connect_timeout", Setting::new().local();
        /// Local address to listen at and connect from; any by default.
        interface: Option<IpAddr> = None, "iface", Setting::new().local();
        /// Whether an idle peer is probed.
        keepalive: bool = false, "keepalive";
        /// Silence after which an idle peer is probed; includes `keepalive`. After three times as
        /// long the peer is taken for gone. The system's times, of hours, by default.
        keep_idle: Option<Duration> = None, "keepidle";
        /// Ports to listen at when the target names none; any by default.
        listen_range: Option<PortRange> = None, "listen_range", Setting::new().local();
        /// Congestion control that a sender changes to on a long path that loses packets, as `bbr`;
        /// none by default. It is not changed where `cc` names one.
        lossy: Option<String> = None, "lossy",
            Setting::new().takes("a name, as bbr", &["bbr"]).read_by(congestion_name);
        /// Whether small writes are sent at once; on by default, since blocks are written whole.
        nodelay: bool = true, "nodelay";
        /// Whether IPv6 addresses are left out.
        no_ipv6: bool = false, "noipv6";
        /// Highest rate to send at, in bytes a second; unlimited by default.
        pacing: Option<ByteSize> = None, "pacing", Setting::new().takes(RATE, &["100M", "800Mbit"]);
        /// Port for targets that name none; any, when listening, by default.
        port: Option<u16> = None, "port", Setting::new().local();
        /// Receive buffer of the socket in bytes; the kernel caps it, and sizes it itself by
        /// default.
        receive_buffer: Option<ByteSize> = None, "rcvbuf";
        /// Whether a listener takes a port that ended connections still hold.
        reuse: bool = true, "reuse", Setting::new().local();
        /// Send buffer of the socket in bytes; the kernel caps it, and sizes it itself by default.
        send_buffer: Option<ByteSize> = None, "sndbuf";
    }
}

impl TcpOptions {
    /// These options with the hints of one open put before them.
    pub(crate) fn hinted(&self, hints: Option<&SocketHints>) -> Self {
        let mut options = self.clone();
        if let Some(hints) = hints {
            options.send_buffer = hints.send_buffer.or(options.send_buffer);
            options.receive_buffer = hints.receive_buffer.or(options.receive_buffer);
            options.listen_range = hints.ports.or(options.listen_range);
            options.connect_range = hints.ports.or(options.connect_range);
            options.interface = hints.source.or(options.interface);
            options.connect_timeout = hints.connect_timeout.unwrap_or(options.connect_timeout);
            options.ack_timeout = hints.ack_timeout.or(options.ack_timeout);
            options.backlog = hints.backlog.unwrap_or(options.backlog);
            if hints.bulk {
                options.lossy.get_or_insert_with(|| LOSSY.to_owned());
            }
        }
        options
    }
}

/// A kernel name: at most 15 bytes, and nothing that could end the string early.
fn congestion_name(value: Value<'_>) -> Result<Option<String>, BadValue> {
    let name = value.word()?;
    let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    if name.len() > 15 || !name.bytes().all(word) {
        return Err(BadValue);
    }
    Ok(Some(name))
}

#[cfg(test)]
mod tests {
    use xio_core::ErrorKind;

    use super::*;

    #[test]
    fn reads_what_globus_xio_writes() {
        let options: TcpOptions =
            "port=2811;listen_range=50000%2C51000;sndbuf=4M;rcvbuf=8k;nodelay=no"
                .parse()
                .unwrap();
        assert_eq!(options.port, Some(2811));
        assert_eq!(options.listen_range, PortRange::new(50_000, 51_000));
        assert_eq!(options.send_buffer, Some(ByteSize::new(4 << 20)));
        assert_eq!(options.receive_buffer, Some(ByteSize::new(8192)));
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
            error.starts_with(
                "tcp: plan: no option `sendbuf`; accepted are ack_timeout, backlog, cc,"
            ),
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
        let minute = Duration::from_secs(60);
        let hints = SocketHints::new()
            .buffers(Some(ByteSize::new(9)), None)
            .ack_timeout(minute);
        let hinted = options.hinted(Some(&hints));
        assert_eq!(hinted.send_buffer, Some(ByteSize::new(9)));
        assert_eq!(hinted.receive_buffer, Some(ByteSize::new(1 << 20)));
        assert_eq!(hinted.ack_timeout, Some(minute));
        assert_eq!(options.hinted(None), options);
    }
}

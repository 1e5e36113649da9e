//! Ports: those that are listened at, and those of data connections.

use std::io::{self, ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use gsi::finding::Finding;
use socket2::{Domain, Socket, Type};
use xio::PortRange;

use super::Site;
use crate::config::Config;

const TOPIC: &str = "ports";

/// Longest wait for a connection to a port that is taken, and for its greeting.
const GREETING: Duration = Duration::from_secs(2);

impl Site<'_> {
    pub(super) fn ports(&mut self, config: &Config) {
        let control = listening("control connections", &config.listen, true);
        self.add(control);
        if !config.listen_tls.is_empty() {
            self.add(listening("TLS", &config.listen_tls, false));
        }
        let at = self
            .options
            .bind
            .unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        self.add(match config.data_ports {
            Some(range) => data(range, at, config),
            None => Finding::ok(
                TOPIC,
                "data connections: any free port, all of which a firewall must let through",
            ),
        });
        if let Some(advertise) = config.advertise {
            let fact = format!("data connections: clients are told the address {advertise}");
            let is_far = |at: &SocketAddr| !at.ip().is_loopback();
            self.add(
                match advertise.is_loopback() && config.listen.iter().any(is_far) {
                    true => Finding::warn(
                        TOPIC,
                        format!("{fact}, which only this host has"),
                        "--advertise the address by which clients reach this host",
                    ),
                    false => Finding::ok(TOPIC, fact),
                },
            );
        }
    }
}

/// Binds the first possible address, as the server does.
fn listening(what: &str, addresses: &[SocketAddr], greets: bool) -> Finding {
    let mut refused = None;
    for address in addresses {
        match bind(*address) {
            Ok(()) if address.port() == 0 => {
                return Finding::ok(TOPIC, format!("{what}: any free port of {}", address.ip()));
            }
            Ok(()) => return Finding::ok(TOPIC, format!("{what}: {address} is free")),
            Err(error) => refused = Some((*address, error)),
        }
    }
    let Some((address, error)) = refused else {
        return Finding::skip(TOPIC, format!("{what}: none"));
    };
    let port = address.port();
    match error.kind() {
        ErrorKind::AddrInUse => taken(what, address, greets),
        ErrorKind::PermissionDenied => {
            let fact = format!("{what}: only root may listen at port {port}");
            let remedy = "choose a port above 1023, or give the program CAP_NET_BIND_SERVICE";
            Finding::fail(TOPIC, fact, remedy)
        }
        ErrorKind::AddrNotAvailable => {
            let fact = format!("{what}: {} is no address of this host", address.ip());
            Finding::fail(TOPIC, fact, "correct --bind, or leave it out")
        }
        _ => Finding::fail(
            TOPIC,
            format!("{what}: {address}: {error}"),
            "correct --bind",
        ),
    }
}

/// Tells the program that listens already, if it is a server.
fn taken(what: &str, address: SocketAddr, greets: bool) -> Finding {
    let fact = format!("{what}: port {} is taken", address.port());
    let remedy = "stop the program that listens there, or choose another --port or --tls-port";
    let at = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    match greeting(SocketAddr::new(at, address.port())) {
        Ok(Some(line)) if line.starts_with("220") && greets => {
            let fact = format!("{fact} by a server that greets `{line}`");
            match is_own(&line) {
                true => Finding::ok(TOPIC, fact),
                false => Finding::fail(TOPIC, fact, remedy),
            }
        }
        // A server of TLS waits for the client.
        Ok(None) if !greets => {
            let fact =
                format!("{fact} by a program that waits for its clients, as this server does");
            Finding::ok(TOPIC, fact)
        }
        Ok(Some(line)) => Finding::fail(
            TOPIC,
            format!("{fact} by a program that says `{line}`"),
            remedy,
        ),
        Ok(None) => Finding::fail(
            TOPIC,
            format!("{fact} by a program without a greeting"),
            remedy,
        ),
        Err(error) => Finding::fail(
            TOPIC,
            format!("{fact} by a program that answers nobody: {error}"),
            remedy,
        ),
    }
}

/// Says whether a greeting is of this server, of any version: that of a Globus server goes on.
fn is_own(greeting: &str) -> bool {
    let rest = greeting.split_once("GridFTP Server ").map(|(_, rest)| rest);
    let version = rest.and_then(|rest| rest.strip_suffix(" ready."));
    version.is_some_and(|version| !version.contains(' '))
}

/// The first line that a program says to its clients.
fn greeting(at: SocketAddr) -> io::Result<Option<String>> {
    let mut stream = TcpStream::connect_timeout(&at, GREETING)?;
    stream.set_read_timeout(Some(GREETING))?;
    let mut bytes = [0; 512];
    let length = match stream.read(&mut bytes) {
        Ok(0) => return Ok(None),
        Ok(length) => length,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned();
    Ok(text.lines().next().map(|line| line.trim().to_owned()))
}

/// Counts the free ports of a range.
fn data(range: PortRange, at: IpAddr, config: &Config) -> Finding {
    let ports = range.low()..=range.high();
    let all = u32::from(range.high() - range.low()) + 1;
    let free = ports
        .filter(|port| bind(SocketAddr::new(at, *port)).is_ok())
        .count();
    let fact = format!(
        "data connections: {free} of {all} ports {}-{} are free; each session that waits for data \
         needs one",
        range.low(),
        range.high()
    );
    let mut listens = config.listen.iter().chain(&config.listen_tls);
    if let Some(own) = listens.find(|own| range.contains(own.port())) {
        let fact = format!(
            "{fact}; port {} among them is that of a listener",
            own.port()
        );
        return Finding::warn(TOPIC, fact, "leave it out of --data-ports");
    }
    match free {
        0 => Finding::fail(TOPIC, fact, "choose other --data-ports"),
        free if free < 10 && all >= 10 => Finding::warn(TOPIC, fact, "choose more --data-ports"),
        _ => Finding::ok(TOPIC, fact),
    }
}

/// Binds a socket to an address as the listener is, and closes it.
fn bind(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.ip().is_unspecified() && address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use gsi::finding::Verdict;

    use super::*;

    /// A listener that sends these bytes to its clients.
    fn listener(words: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                stream.unwrap().write_all(words).unwrap();
            }
        });
        address
    }

    #[test]
    fn a_port_that_is_taken_tells_by_whom() {
        let of = |words, greets| {
            let finding = listening("control connections", &[listener(words)], greets);
            (finding.verdict, finding.fact)
        };
        let (verdict, fact) = of(b"220 dtn GridFTP Server 1.2 ready.\r\n", true);
        assert_eq!(verdict, Verdict::Ok, "{fact}");
        let (verdict, fact) = of(b"220 dtn GridFTP Server 13.20 (gcc64, 1) ready.\r\n", true);
        assert_eq!(verdict, Verdict::Fail, "{fact}");
        let (verdict, fact) = of(b"SSH-2.0-x\r\n", true);
        assert_eq!(verdict, Verdict::Fail);
        assert!(
            fact.ends_with("is taken by a program that says `SSH-2.0-x`"),
            "{fact}"
        );
        let (verdict, fact) = of(b"", true);
        assert_eq!(verdict, Verdict::Fail, "{fact}");
        let (verdict, fact) = of(b"", false);
        assert_eq!(verdict, Verdict::Ok, "{fact}");
    }

    #[test]
    fn a_free_port_and_a_strange_address_are_told() {
        let free = listening("TLS", &["127.0.0.1:0".parse().unwrap()], false);
        assert_eq!(free.verdict, Verdict::Ok);
        // For documentation (RFC 5737 §3).
        let strange = listening("TLS", &["192.0.2.1:1".parse().unwrap()], false);
        assert!(
            strange.fact.contains("no address of this host"),
            "{strange}"
        );
    }
}

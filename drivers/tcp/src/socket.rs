//! Sockets made to order: resolved, bound, set to the options, connected or listening.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::socket::SetSockOpt;
use nix::{setsockopt_impl, sockopt_impl};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use xio_core::{ByteSize, Error, ErrorKind, Operation, Result, Target, resolve};

use crate::options::TcpOptions;
use crate::ports;

sockopt_impl!(
    /// Fastest rate to send at, in bytes per second (`SO_MAX_PACING_RATE`).
    MaxPacingRate,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    u64
);

sockopt_impl!(
    /// Whether binding to port 0 leaves the choice to connecting (`IP_BIND_ADDRESS_NO_PORT`).
    BindAddressNoPort,
    SetOnly,
    libc::SOL_IP,
    libc::IP_BIND_ADDRESS_NO_PORT,
    bool
);

/// Longest time that the kernel waits for an acknowledgement.
const LONGEST: Duration = Duration::from_millis(i32::MAX as u64);

pub(crate) fn fail(error: io::Error, op: Operation, what: &str) -> Error {
    Error::from_io(error, "tcp", op).about(what)
}

/// Sets the options of a socket that are not set before connecting or listening.
pub(crate) fn configure(socket: &impl AsFd, options: &TcpOptions, op: Operation) -> Result<()> {
    let keys = ["nodelay", "keepalive", "cc", "pacing", "ack_timeout"];
    keys.iter()
        .try_for_each(|key| set(socket, key, options, op))
}

/// Sets one option, by its key, to its value among `options`.
pub(crate) fn set(
    socket: &impl AsFd,
    key: &str,
    options: &TcpOptions,
    op: Operation,
) -> Result<()> {
    let sock = SockRef::from(socket);
    // The kernel takes an `int` and cuts the size down to its own limit.
    let size = |size: ByteSize| size.in_memory().min(i32::MAX as usize);
    let done = match key {
        "nodelay" => sock.set_tcp_nodelay(options.nodelay),
        "keepalive" | "keepidle" => match options.keep_idle {
            Some(idle) => keep_alive(socket, idle),
            // New sockets send no probes.
            None if options.keepalive || op == Operation::Control => {
                sock.set_keepalive(options.keepalive)
            }
            None => Ok(()),
        },
        "cc" => match &options.congestion {
            Some(name) => return set_congestion(&sock, name, op),
            None => Ok(()),
        },
        "pacing" => match options.pacing {
            Some(rate) => MaxPacingRate.set(socket, &rate.bytes()).map_err(Into::into),
            None => Ok(()),
        },
        "ack_timeout" => match options.ack_timeout {
            // The kernel takes an `int` of milliseconds.
            Some(time) => sock.set_tcp_user_timeout(Some(time.min(LONGEST))),
            None => Ok(()),
        },
        "sndbuf" => (options.send_buffer).map_or(Ok(()), |n| sock.set_send_buffer_size(size(n))),
        "rcvbuf" => (options.receive_buffer).map_or(Ok(()), |n| sock.set_recv_buffer_size(size(n))),
        _ => Ok(()),
    };
    done.map_err(|e| fail(e, op, &format!("cannot set {key}")))
}

fn set_congestion(sock: &SockRef<'_>, name: &str, op: Operation) -> Result<()> {
    sock.set_tcp_congestion(name.as_bytes()).map_err(|e| {
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        let known = known.unwrap_or_default();
        let fact = format!(
            "option cc: the kernel does not offer `{name}`; available are: {}",
            known.trim()
        );
        Error::new(ErrorKind::BadOption, "tcp", op, fact).with_source(e)
    })
}

/// Probes a peer that was silent for `idle`, and gives it up after three times as long.
pub(crate) fn keep_alive(socket: &impl AsFd, idle: Duration) -> io::Result<()> {
    // Whole seconds, within the range of the kernel.
    let idle = Duration::from_secs(idle.as_secs().clamp(1, 32_767));
    let between = Duration::from_secs((idle.as_secs() / 3).max(1));
    let probes = TcpKeepalive::new()
        .with_time(idle)
        .with_interval(between)
        .with_retries(6);
    SockRef::from(socket).set_tcp_keepalive(&probes)
}

fn socket_for(address: SocketAddr, options: &TcpOptions, op: Operation) -> Result<TcpSocket> {
    let made = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    };
    let socket = made.map_err(|e| fail(e, op, "no socket"))?;
    set(&socket, "sndbuf", options, op)?;
    set(&socket, "rcvbuf", options, op)?;
    configure(&socket, options, op)?;
    Ok(socket)
}

/// The addresses that a target stands for, in the resolver's order.
async fn addresses(
    to: &Target,
    port: Option<u16>,
    options: &TcpOptions,
    op: Operation,
) -> Result<Vec<SocketAddr>> {
    let lookup = |host, port| async move { lookup_host((host as String, port)).await };
    resolve(to, port, options.no_ipv6, ("tcp", op), lookup).await
}

/// Connects to the first address that answers, within the time of the options.
pub(crate) async fn connect(to: &Target, options: &TcpOptions) -> Result<TcpStream> {
    let attempt = async {
        let mut last = None;
        for address in addresses(to, to.port.or(options.port), options, Operation::Connect).await? {
            match connect_one(address, options).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("resolving gives at least one address"))
    };
    match tokio::time::timeout(options.connect_timeout, attempt).await {
        Ok(done) => done,
        Err(_) => Err(Error::new(
            ErrorKind::TimedOut,
            "tcp",
            Operation::Connect,
            format!(
                "{to:?}: no answer in {} s",
                options.connect_timeout.as_secs_f64()
            ),
        )),
    }
}

async fn connect_one(to: SocketAddr, options: &TcpOptions) -> Result<TcpStream> {
    let op = Operation::Connect;
    let blame = |e| fail(e, op, &to.to_string());
    let source = match options.interface {
        Some(ip) if ip.is_ipv4() != to.is_ipv4() => {
            let fact = format!("{to} cannot be reached from {ip}: different address families");
            return Err(Error::new(ErrorKind::BadTarget, "tcp", op, fact));
        }
        Some(ip) => ip,
        None if to.is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
        None => Ipv6Addr::UNSPECIFIED.into(),
    };
    let Some(range) = options.connect_range else {
        let socket = socket_for(to, options, op)?;
        if options.interface.is_some() {
            // The port comes with the peer's address, and may be one that leads elsewhere already;
            // a kernel that does not know this chooses now.
            let _ = BindAddressNoPort.set(&socket, &true);
            socket.bind((source, 0).into()).map_err(blame)?;
        }
        return socket.connect(to).await.map_err(blame);
    };
    for port in range.spread() {
        let socket = socket_for(to, options, op)?;
        // A port that an ended connection holds will do, towards another peer.
        socket.set_reuseaddr(true).map_err(blame)?;
        let tried = match socket.bind((source, port).into()) {
            Ok(()) => socket.connect(to).await,
            Err(error) => Err(error),
        };
        match tried {
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable
                ) => {}
            done => return done.map_err(blame),
        }
    }
    Err(exhausted(op, "connect_range", range))
}

fn exhausted(op: Operation, option: &str, range: xio_core::PortRange) -> Error {
    let fact = format!("every port of {option} {range} is in use; widen the range or wait");
    Error::new(ErrorKind::AddressInUse, "tcp", op, fact)
}

/// Listens at the target's address, or at the interface of the options, or everywhere.
pub(crate) async fn listen(at: &Target, options: &TcpOptions) -> Result<TcpListener> {
    let port = at.port.or(options.port).unwrap_or(0);
    let everywhere: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
    let places: Vec<SocketAddr> = match (&at.host, options.interface) {
        (Some(_), _) => addresses(at, Some(port), options, Operation::Listen).await?,
        (None, Some(ip)) => vec![(ip, port).into()],
        (None, None) => everywhere
            .into_iter()
            .filter(|ip| ip.is_ipv4() || !options.no_ipv6)
            .map(|ip| (ip, port).into())
            .collect(),
    };
    // A host without IPv6 refuses the first place; the second is then the right one.
    let mut last = None;
    for place in places {
        match listen_one(place, options) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("there is at least one place"))
}

fn listen_one(at: SocketAddr, options: &TcpOptions) -> Result<TcpListener> {
    let op = Operation::Listen;
    let attempt = |at: SocketAddr| {
        let socket = socket_for(at, options, op)?;
        let blame = |e| fail(e, op, &at.to_string());
        socket.set_reuseaddr(options.reuse).map_err(blame)?;
        socket.bind(at).map_err(blame)?;
        socket.listen(options.backlog).map_err(blame)
    };
    if at.port() != 0 {
        return attempt(at);
    }
    let (range, option) = match (options.listen_range, ports::of_kernel()) {
        (Some(range), _) => (range, "listen_range"),
        // Left to itself, the kernel takes none that an ended connection holds, and searches long
        // for another when many have ended.
        (None, Some(range)) => (range, "the kernel's ip_local_port_range"),
        (None, None) => return attempt(at),
    };
    let is_open = |port: &u16| options.listen_range.is_some() || !ports::is_reserved(*port);
    let mut at = at;
    for port in range.spread().filter(is_open) {
        at.set_port(port);
        match attempt(at) {
            Err(error) if error.kind() == ErrorKind::AddressInUse => {}
            done => return done,
        }
    }
    Err(exhausted(op, option, range))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel has but four ports here, and leaves each to an ended connection for a minute.
    #[test]
    fn ended_connections_do_not_use_up_the_ports() {
        let inside = "ip link set lo up \
            && echo 40000 40003 > /proc/sys/net/ipv4/ip_local_port_range \
            && exec \"$0\" \"$@\"";
        let child = std::process::Command::new("unshare")
            .args(["--map-root-user", "--net", "sh", "-c", inside])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "socket::tests::inside_a_network_of_four_ports"])
            .args(["--ignored", "--nocapture"])
            .output();
        let text = child.as_ref().map_or_else(ToString::to_string, |child| {
            let streams = [child.stdout.as_slice(), &child.stderr].concat();
            String::from_utf8_lossy(&streams).into_owned()
        });
        if child.is_ok_and(|child| child.status.success()) {
            assert!(text.contains("1 passed"), "{text}");
            return;
        }
        assert!(!text.contains("running 1 test"), "{text}");
        let needed = std::env::var("REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!needed, "{text}");
        eprintln!("SKIPPED: no network namespace can be made here: {text}");
    }

    #[tokio::test]
    #[ignore = "run by the test above"]
    async fn inside_a_network_of_four_ports() {
        let options = TcpOptions::default();
        let at = Target::from(SocketAddr::from(([127, 0, 0, 1], 0)));
        for round in 0..40 {
            let listener = listen(&at, &options).await;
            let listener = listener.unwrap_or_else(|e| panic!("round {round}: {e}"));
            let place = listener.local_addr().unwrap();
            // From a port of its own, so that the four are the listener's.
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuseaddr(true).unwrap();
            let source = SocketAddr::from(([127, 0, 0, 1], 50_000 + round));
            socket.bind(source).unwrap();
            let (near, far) = tokio::join!(socket.connect(place), listener.accept());
            // Closed here first: this end is the one that waits for late segments.
            drop(far.unwrap());
            drop(near.unwrap());
        }
        let mut all = Vec::new();
        let full = loop {
            match listen(&at, &options).await {
                Ok(listener) => all.push(listener),
                Err(error) => break error,
            }
            assert!(all.len() <= 4, "more listeners than ports");
        };
        assert_eq!((all.len(), full.kind()), (4, ErrorKind::AddressInUse));
        assert!(full.to_string().contains("ip_local_port_range"), "{full}");
    }
}

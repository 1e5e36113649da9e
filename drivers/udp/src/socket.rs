//! Creates sockets: resolves, binds, sets options, joins groups, connects.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, SetSockOpt, SockaddrLike};
use nix::{setsockopt_impl, sockopt_impl};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use tokio::net::{UdpSocket, lookup_host};
use xio_core::{Error, ErrorKind, Operation, Result, Target, resolve};

use crate::handle::UdpHandle;
use crate::options::UdpOptions;

sockopt_impl!(
    /// Handling of IPv4 messages larger than the path MTU.
    Ip4MtuDiscover,
    SetOnly,
    libc::IPPROTO_IP,
    libc::IP_MTU_DISCOVER,
    libc::c_int
);
sockopt_impl!(
    /// Handling of IPv6 messages larger than the path MTU.
    Ip6MtuDiscover,
    SetOnly,
    libc::IPPROTO_IPV6,
    libc::IPV6_MTU_DISCOVER,
    libc::c_int
);
sockopt_impl!(
    /// Whether this host does not fragment IPv6 messages.
    Ip6DontFragment,
    SetOnly,
    libc::IPPROTO_IPV6,
    libc::IPV6_DONTFRAG,
    bool
);
sockopt_impl!(
    /// Whether the kernel coalesces received messages.
    Join,
    SetOnly,
    libc::SOL_UDP,
    libc::UDP_GRO,
    bool
);

pub(crate) fn fail(error: io::Error, op: Operation, what: &str) -> Error {
    Error::from_io(error, "udp", op).about(what)
}

/// Resolves the addresses of a target, in the resolver's order.
pub(crate) async fn addresses(
    to: &Target,
    port: Option<u16>,
    options: &UdpOptions,
    op: Operation,
) -> Result<Vec<SocketAddr>> {
    let lookup = |host, port| async move { lookup_host((host as String, port)).await };
    resolve(to, port, options.no_ipv6, ("udp", op), lookup).await
}

/// Opens a socket at the target's address, or at the interface of the options, or everywhere.
pub(crate) async fn open(at: &Target, options: &UdpOptions) -> Result<UdpHandle> {
    let op = Operation::Listen;
    let port = at.port.or(options.port).unwrap_or(0);
    let everywhere = |v4: bool| match v4 {
        true => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        false => Ipv6Addr::UNSPECIFIED.into(),
    };
    let ips = match (options.multicast, options.interface) {
        _ if at.host.is_some() => addresses(at, Some(port), options, op).await?,
        // A socket bound to an address of this host receives no messages for a group.
        (Some(group), _) => vec![(everywhere(group.is_ipv4()), port).into()],
        (None, Some(ip)) => vec![local(ip, port).map_err(|e| fail(e, op, "iface"))?],
        (None, None) if options.no_ipv6 => vec![(everywhere(true), port).into()],
        (None, None) => vec![
            (everywhere(false), port).into(),
            (everywhere(true), port).into(),
        ],
    };
    // A host without IPv6 refuses the first address, and takes the second.
    let mut last = None;
    for place in ips {
        match bind(place, options, op) {
            Ok(handle) => return Ok(handle),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("there is at least one place"))
}

/// Returns a local address with a port; a link-local one needs the scope id of its link.
fn local(ip: IpAddr, port: u16) -> io::Result<SocketAddr> {
    Ok(match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, index_of(ip)?).into()
        }
        _ => (ip, port).into(),
    })
}

/// Opens a socket for one peer, from the interface and a port of the options.
pub(crate) fn open_for(peer: SocketAddr, options: &UdpOptions) -> Result<UdpHandle> {
    let op = Operation::Connect;
    let source = match options.interface {
        Some(ip) if ip.is_ipv4() != peer.is_ipv4() && !peer.ip().is_multicast() => {
            let fact = format!("{peer} cannot be reached from {ip}: different address families");
            return Err(Error::new(ErrorKind::BadTarget, "udp", op, fact));
        }
        Some(ip) if ip.is_ipv4() == peer.is_ipv4() => ip,
        _ if peer.is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    };
    let at = local(source, options.port.unwrap_or(0)).map_err(|e| fail(e, op, "iface"))?;
    let handle = bind(at, options, op)?;
    if peer.ip().is_multicast() {
        send_from(handle.socket(), peer.is_ipv4(), options)
            .map_err(|e| fail(e, op, "cannot set up multicast"))?;
    }
    handle.connected(peer, op)
}

/// Binds to an address; without a port, to one of the range.
fn bind(at: SocketAddr, options: &UdpOptions, op: Operation) -> Result<UdpHandle> {
    let range = match options.ports {
        Some(range) if at.port() == 0 => range,
        _ => return bind_one(at, options, op),
    };
    for port in range.spread() {
        let mut one = at;
        one.set_port(port);
        match bind_one(one, options, op) {
            Err(error) if error.kind() == ErrorKind::AddressInUse => {}
            done => return done,
        }
    }
    let fact = format!("every port of listen_range {range} is in use; widen the range or wait");
    Err(Error::new(ErrorKind::AddressInUse, "udp", op, fact))
}

fn bind_one(at: SocketAddr, options: &UdpOptions, op: Operation) -> Result<UdpHandle> {
    let blame = |e| fail(e, op, &at.to_string());
    let socket = Socket::new(
        Domain::for_address(at),
        Type::DGRAM.nonblocking().cloexec(),
        Some(Protocol::UDP),
    )
    .map_err(blame)?;
    // The kernel takes an `int` and caps the size itself.
    let most = i32::MAX as usize;
    if let Some(size) = options.send_buffer {
        let done = socket.set_send_buffer_size(size.in_memory().min(most));
        done.map_err(|e| fail(e, op, "cannot set sndbuf"))?;
    }
    if let Some(size) = options.receive_buffer {
        let done = socket.set_recv_buffer_size(size.in_memory().min(most));
        done.map_err(|e| fail(e, op, "cannot set rcvbuf"))?;
    }
    // An unspecified IPv6 address serves IPv4 as well, whatever the system's default is.
    if at.is_ipv6() && at.ip().is_unspecified() {
        let done = socket.set_only_v6(options.no_ipv6);
        done.map_err(blame)?;
    }
    socket.set_reuse_address(options.reuse).map_err(blame)?;
    socket.bind(&at.into()).map_err(blame)?;
    let socket = UdpSocket::from_std(socket.into()).map_err(blame)?;
    group(&socket, at.is_ipv4(), options).map_err(|e| fail(e, op, "cannot set up multicast"))?;
    let handle = UdpHandle::new(socket, options.offload).map_err(blame)?;
    // `UdpSocketState` forbids fragments, so this comes after the handle was created.
    fragments(handle.socket(), at.is_ipv4(), options.dont_fragment)
        .map_err(|e| fail(e, op, "cannot set dontfrag"))?;
    if !options.offload {
        // A kernel without the option does not coalesce.
        let _ = Join.set(handle.socket(), &false);
    }
    Ok(handle)
}

/// Sets the handling of messages larger than the path MTU.
///
/// Unless it is refused, IPv4 routers may fragment: a narrow path that reports nothing would drop
/// such messages for good otherwise.
fn fragments(socket: &impl AsFd, ipv4: bool, refuse: bool) -> io::Result<()> {
    let (v4, v6) = match refuse {
        true => (libc::IP_PMTUDISC_DO, libc::IPV6_PMTUDISC_DO),
        false => (libc::IP_PMTUDISC_DONT, libc::IPV6_PMTUDISC_WANT),
    };
    // An IPv6 socket may carry IPv4 as well.
    Ip4MtuDiscover.set(socket, &v4)?;
    if !ipv4 {
        Ip6MtuDiscover.set(socket, &v6)?;
        Ip6DontFragment.set(socket, &refuse)?;
    }
    Ok(())
}

/// Joins the group of the options, and sets the hop limit of messages to groups.
fn group(socket: &UdpSocket, ipv4: bool, options: &UdpOptions) -> io::Result<()> {
    let sock = SockRef::from(socket);
    if let Some(ttl) = options.multicast_ttl {
        match ipv4 {
            true => sock.set_multicast_ttl_v4(ttl.into())?,
            false => sock.set_multicast_hops_v6(ttl.into())?,
        }
    }
    // Interface 0 leaves the choice to the system.
    let face = || options.interface.map_or(Ok(0), index_of);
    match options.multicast {
        None => return Ok(()),
        Some(IpAddr::V4(group)) if ipv4 => {
            sock.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(face()?))?;
        }
        Some(IpAddr::V6(group)) if !ipv4 => sock.join_multicast_v6(&group, face()?)?,
        Some(_) => {
            let fact = "the group and the local address are of different families";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, fact));
        }
    }
    send_from(socket, ipv4, options)
}

/// Sets the interface for messages to groups.
fn send_from(socket: &UdpSocket, ipv4: bool, options: &UdpOptions) -> io::Result<()> {
    let sock = SockRef::from(socket);
    match options.interface {
        Some(IpAddr::V4(ip)) if ipv4 => sock.set_multicast_if_v4(&ip),
        Some(ip) if !ipv4 => sock.set_multicast_if_v6(index_of(ip)?),
        _ => Ok(()),
    }
}

/// Returns the index of the interface with this address.
fn index_of(ip: IpAddr) -> io::Result<u32> {
    let has = |address: &nix::sys::socket::SockaddrStorage| match address.family() {
        Some(AddressFamily::Inet) => address.as_sockaddr_in().map(|a| IpAddr::from(a.ip())),
        Some(AddressFamily::Inet6) => address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())),
        _ => None,
    };
    let found = getifaddrs()?.find(|face| face.address.as_ref().and_then(has) == Some(ip));
    let missing = || io::Error::other(format!("no interface has the address {ip}"));
    Ok(if_nametoindex(
        found.ok_or_else(missing)?.interface_name.as_str(),
    )?)
}

//! Listening sockets, and connections that are accepted or refused.

use std::io;
use std::net::{IpAddr, SocketAddr};

use ftp_proto::security::Mechanism;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: u32 = 1024;

/// Accepts a connection, and says which handshake precedes its greeting.
pub(crate) async fn accept(
    listener: &TcpListener,
    tls: Option<&TcpListener>,
) -> (io::Result<(TcpStream, SocketAddr)>, Option<Mechanism>) {
    let Some(tls) = tls else {
        return (listener.accept().await, None);
    };
    tokio::select! {
        accepted = listener.accept() => (accepted, None),
        accepted = tls.accept() => (accepted, Some(Mechanism::Tls)),
    }
}

/// Listens at the first of these addresses that can be bound.
pub(crate) fn listen_at_one(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut result = Err(io::ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        result = listen(*address);
        if result.is_ok() {
            break;
        }
    }
    result
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    if let IpAddr::V6(ip) = address.ip()
        && ip.is_unspecified()
    {
        SockRef::from(&socket).set_only_v6(false)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Sends 421 without waiting: a refused connection gets no session, and the runtime may not have
/// registered the socket yet.
pub(crate) fn refuse_connection(stream: &TcpStream) {
    const WORDS: &[u8] = b"421 Service busy: Connection limit exceeded. Please try again later. Closing control connection.\r\n";
    drop(SockRef::from(stream).send(WORDS));
}

/// Says whether an error of `accept` concerns one connection only.
pub(crate) fn is_about_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

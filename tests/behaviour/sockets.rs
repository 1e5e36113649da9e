//! Effects of TCP options on the socket, read back from the kernel.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{
    ByteSize, ErrorKind, Incoming as _, Listener as _, Passive as _, PortRange, SocketHints,
    Stream as _, Target, Transport as _,
};
use xio_tcp::{Tcp, TcpHandle, TcpOptions};

fn tcp(options: &str) -> Tcp {
    Tcp::new().with_options(options.parse::<TcpOptions>().unwrap())
}

async fn pair(tcp: &Tcp) -> (TcpHandle, TcpHandle) {
    let mut listener = tcp.listen(&crate::loopback()).await.unwrap();
    let to = Target::from(listener.info().local.unwrap());
    let (near, far) = tokio::join!(tcp.connect(&to), listener.accept());
    (near.unwrap(), far.unwrap().open().await.unwrap())
}

/// Returns a range of free ports below the kernel's ephemeral ports, which are not assigned to
/// other sockets meanwhile.
pub(crate) fn some_ports(count: u16) -> PortRange {
    let free = |port| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    loop {
        // The standard library seeds each state randomly.
        let drawn = RandomState::new().hash_one(count) % 20_000;
        let low = 10_000 + u16::try_from(drawn).expect("it is below 20,000");
        let range = PortRange::new(low, low + count - 1).expect("low is above 0");
        if (range.low()..=range.high()).all(free) {
            return range;
        }
    }
}

#[tokio::test]
async fn socket_options_are_applied_at_both_ends() {
    let (near, far) = pair(&tcp("nodelay=0;keepalive=1;sndbuf=100K;rcvbuf=50K")).await;
    for end in [near.socket(), far.socket()] {
        assert!(!sockopt::tcp_nodelay(end).unwrap());
        assert!(sockopt::socket_keepalive(end).unwrap());
        // The kernel doubles the requested size, for its own bookkeeping.
        assert_eq!(sockopt::socket_send_buffer_size(end).unwrap(), 200 * 1024);
        assert_eq!(sockopt::socket_recv_buffer_size(end).unwrap(), 100 * 1024);
    }
    let (near, far) = pair(&tcp("keepidle=60")).await;
    for end in [near.socket(), far.socket()] {
        assert!(sockopt::socket_keepalive(end).unwrap());
        assert_eq!(sockopt::tcp_keepidle(end).unwrap(), Duration::from_secs(60));
        assert_eq!(
            sockopt::tcp_keepintvl(end).unwrap(),
            Duration::from_secs(20)
        );
        assert_eq!(sockopt::tcp_keepcnt(end).unwrap(), 6);
    }
    let (near, far) = pair(&Tcp::default()).await;
    for end in [near.socket(), far.socket()] {
        assert!(sockopt::tcp_nodelay(end).unwrap());
        assert!(!sockopt::socket_keepalive(end).unwrap());
    }
}

#[tokio::test]
async fn hints_override_the_options() {
    let tcp = tcp("sndbuf=100K");
    let mut listener = tcp.listen(&crate::loopback()).await.unwrap();
    let hints = SocketHints::new().buffers(
        Some(ByteSize::new(30 * 1024)),
        Some(ByteSize::new(20 * 1024)),
    );
    let to = Target::from(listener.info().local.unwrap()).with(hints);
    let near = tcp.connect(&to).await.unwrap();
    assert_eq!(
        sockopt::socket_send_buffer_size(near.socket()).unwrap(),
        60 * 1024
    );
    assert_eq!(
        sockopt::socket_recv_buffer_size(near.socket()).unwrap(),
        40 * 1024
    );
    drop(listener.accept().await.unwrap());
}

#[tokio::test]
async fn congestion_control_is_set_or_an_error() {
    let known =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    for name in known.split_whitespace() {
        let (near, far) = pair(&tcp(&format!("cc={name}"))).await;
        for end in [near.socket(), far.socket()] {
            assert_eq!(sockopt::tcp_congestion(end).unwrap(), name);
        }
    }
    let error = tcp("cc=sluggish")
        .listen(&crate::loopback())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadOption);
    let text = error.to_string();
    assert!(
        text.contains("`sluggish`") && text.contains(known.trim()),
        "{text}"
    );
}

#[tokio::test]
async fn pacing_limits_the_rate() {
    // 4 MiB at 16 MiB a second take about a quarter of a second; the kernel lets a little through.
    let (mut near, mut far) = pair(&tcp("pacing=16M;sndbuf=64K")).await;
    let began = std::time::Instant::now();
    let sending = async {
        near.write_all(&vec![0; 4 << 20]).await.unwrap();
        near.shutdown().await.unwrap();
    };
    let mut sink = Vec::new();
    let ((), n) = tokio::join!(sending, far.read_to_end(&mut sink));
    assert_eq!(n.unwrap(), 4 << 20);
    assert!(
        began.elapsed().as_millis() > 100,
        "took only {:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn listeners_stay_in_their_port_range() {
    let range = some_ports(3);
    let tcp = tcp(&format!("listen_range={range}"));
    let mut listeners = Vec::new();
    for _ in 0..3 {
        let listener = tcp.listen(&crate::loopback()).await.unwrap();
        assert!(range.contains(listener.info().local.unwrap().port()));
        listeners.push(listener);
    }
    let error = tcp.listen(&crate::loopback()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    assert!(error.is_transient());
    assert!(
        error.to_string().contains(&format!("listen_range {range}")),
        "{error}"
    );
    listeners.pop();
    tcp.listen(&crate::loopback()).await.unwrap();
}

#[tokio::test]
async fn a_range_of_one_port_can_be_reused() {
    let range = some_ports(1);
    let hints = SocketHints::new().ports(range);
    for _ in 0..5 {
        let tcp = Tcp::default();
        let mut listener = tcp.listen(&crate::loopback().with(hints)).await.unwrap();
        let addr = listener.info().local.unwrap();
        assert_eq!(addr.port(), range.low());
        let to = Target::from(addr);
        let (near, far) = tokio::join!(tcp.connect(&to), listener.accept());
        let mut far = far.unwrap().open().await.unwrap();
        // The listening end closes first, so that its port is in TIME_WAIT.
        far.shutdown().await.unwrap();
        let mut near = near.unwrap();
        near.read_to_end(&mut Vec::new()).await.unwrap();
        near.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn connections_use_the_requested_port_and_address() {
    let range = some_ports(4);
    let tcp = tcp(&format!("connect_range={range};iface=127.0.0.1"));
    let mut listener = tcp.listen(&crate::loopback()).await.unwrap();
    let to = Target::from(listener.info().local.unwrap());
    let mut held = Vec::new();
    for _ in 0..4 {
        let near = tcp.connect(&to).await.unwrap();
        let local = near.info().local.unwrap();
        assert!(range.contains(local.port()), "{local} of {range}");
        held.push((near, listener.accept().await.unwrap()));
    }
    let error = tcp.connect(&to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);

    let other: IpAddr = Ipv4Addr::new(127, 0, 0, 9).into();
    let from_other = to.clone().with(SocketHints::new().source(other));
    let near = Tcp::default().connect(&from_other).await.unwrap();
    assert_eq!(near.info().local.unwrap().ip(), other);
}

#[tokio::test]
async fn a_port_in_use_is_an_error() {
    let tcp = Tcp::default();
    let listener = tcp.listen(&crate::loopback()).await.unwrap();
    let addr = Target::from(listener.info().local.unwrap());
    let error = tcp.listen(&addr).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
}

#[tokio::test]
async fn a_listener_for_all_addresses_reports_ipv4_peers_as_ipv4() {
    let tcp = Tcp::default();
    let everywhere: Target = ":0".parse().unwrap();
    let mut listener = tcp.listen(&everywhere).await.unwrap();
    let port = listener.info().local.unwrap().port();
    let to = Target::host("127.0.0.1", port);
    let (near, far) = tokio::join!(tcp.connect(&to), listener.accept());
    near.unwrap();
    assert!(far.unwrap().info().peer.unwrap().is_ipv4());
}

#[tokio::test]
async fn host_names_are_resolved() {
    let tcp = tcp("noipv6=1");
    let mut listener = tcp.listen(&crate::loopback()).await.unwrap();
    let port = listener.info().local.unwrap().port();
    tcp.connect(&Target::host("localhost", port)).await.unwrap();
    drop(listener.accept().await.unwrap());
    let error = tcp
        .connect(&Target::host("no.such.host.invalid", 1))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(
        error.to_string().contains("no.such.host.invalid"),
        "{error}"
    );
}

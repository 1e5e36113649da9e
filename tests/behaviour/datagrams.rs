//! UDP sockets through the datagram suite, and the effects of UDP options.

use std::future::poll_fn;
use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use rustix::net::sockopt;
use xio_core::{
    Bind as _, ByteSize, Datagram as _, DynBind, ErrorKind, PortRange, SocketHints, Target,
    Transmit, Transport as _,
};
use xio_testkit::datagram_suite::{self, Subject};
use xio_udp::{Udp, UdpHandle, UdpOptions};

use crate::sockets::some_ports;

fn udp(options: &str) -> Udp {
    Udp::new().with_options(options.parse::<UdpOptions>().unwrap())
}

async fn run_suite_at(at: &str) {
    for options in [
        "",
        "offload=0",
        "sndbuf=300K;rcvbuf=300K",
        "dontfrag=1",
        "noipv6=0",
    ] {
        let bind = DynBind::new(udp(options), &format!("udp:{options}"));
        datagram_suite::run(&Subject::new(bind, at.parse().unwrap(), "udp")).await;
    }
}

#[tokio::test]
async fn every_socket_passes_the_datagram_suite() {
    run_suite_at("127.0.0.1:0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_socket_passes_the_datagram_suite_with_two_threads() {
    run_suite_at("127.0.0.1:0").await;
}

#[tokio::test]
async fn sockets_over_ipv6_pass_the_datagram_suite() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    run_suite_at("[::1]:0").await;
}

fn address(socket: &UdpHandle) -> SocketAddr {
    socket.info().local.unwrap()
}

async fn send(socket: &UdpHandle, message: Transmit<'_>) {
    poll_fn(|cx| socket.poll_send(cx, &message)).await.unwrap();
}

/// Receives a message; returns it with its sender and its destination address.
async fn receive(socket: &UdpHandle) -> (Vec<u8>, SocketAddr, Option<IpAddr>) {
    let (mut room, mut met) = ([0; 2048], [None]);
    let mut bufs = [IoSliceMut::new(&mut room)];
    poll_fn(|cx| socket.poll_recv(cx, &mut bufs, &mut met))
        .await
        .unwrap();
    let met = met[0].unwrap();
    (room[..met.len].to_vec(), met.from, met.to)
}

#[tokio::test]
async fn socket_options_are_applied() {
    let socket = udp("sndbuf=100K;rcvbuf=50K")
        .bind(&crate::loopback())
        .await
        .unwrap();
    // The kernel doubles the requested size, for its own bookkeeping.
    let sizes = |socket: &UdpHandle| {
        let send = sockopt::socket_send_buffer_size(socket.socket()).unwrap();
        (
            send,
            sockopt::socket_recv_buffer_size(socket.socket()).unwrap(),
        )
    };
    assert_eq!(sizes(&socket), (200 * 1024, 100 * 1024));
    let hints = SocketHints::new().buffers(Some(ByteSize::new(30 << 10)), None);
    let at = crate::loopback().with(hints);
    let socket = udp("sndbuf=100K;rcvbuf=50K").bind(&at).await.unwrap();
    assert_eq!(sizes(&socket), (60 * 1024, 100 * 1024));
    // Without offload a batch is one message, in both directions.
    let (alone, far) = (
        udp("offload=no").bind(&crate::loopback()).await.unwrap(),
        Udp::default().bind(&crate::loopback()).await.unwrap(),
    );
    assert_eq!(alone.max_batch(), 1);
    if far.max_batch() > 1 {
        send(
            &far,
            Transmit::new(b"onetwo").to(address(&alone)).segmented(3),
        )
        .await;
        assert_eq!(receive(&alone).await.0, b"one");
        assert_eq!(receive(&alone).await.0, b"two");
    }
}

#[tokio::test]
async fn ports_come_from_the_range_or_the_option() {
    let range = some_ports(3);
    let udp = udp(&format!("listen_range={range};iface=127.0.0.1"));
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(udp.bind(&Target::default()).await.unwrap());
    }
    // A connected socket takes its port from the range too.
    held.push(udp.connect(&Target::from(address(&held[0]))).await.unwrap());
    for socket in &held {
        assert!(range.contains(address(socket).port()) && address(socket).ip().is_loopback());
    }
    let error = udp.bind(&Target::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddressInUse);
    assert!(
        error.to_string().contains(&format!("listen_range {range}")),
        "{error}"
    );
    held.clear();

    let port = range.low();
    let fixed = self::udp(&format!("port={port}"));
    let socket = fixed.bind(&Target::default()).await.unwrap();
    assert_eq!(address(&socket).port(), port);
    drop(socket);
    let peer = SocketHints::new().peer(([127, 0, 0, 1], 9).into());
    let socket = fixed.bind(&Target::default().with(peer)).await.unwrap();
    assert_eq!(address(&socket), SocketAddr::from(([127, 0, 0, 1], port)));
    // The caller's range overrides the option's.
    let hinted = SocketHints::new().ports(PortRange::new(range.high(), range.high()).unwrap());
    let socket = udp.bind(&Target::default().with(hinted)).await.unwrap();
    assert_eq!(address(&socket).port(), range.high());
}

#[tokio::test]
async fn a_socket_for_all_addresses_reports_ipv4_peers_as_ipv4() {
    let everywhere = Udp::default().bind(&":0".parse().unwrap()).await.unwrap();
    let to = Target::host("127.0.0.1", address(&everywhere).port());
    let near = Udp::default().connect(&to).await.unwrap();
    send(&near, Transmit::new(b"question")).await;
    let (bytes, from, to) = receive(&everywhere).await;
    assert_eq!((bytes.as_slice(), from), (&b"question"[..], address(&near)));
    assert_eq!(to, Some(IpAddr::from([127, 0, 0, 1])));
    let batch = Transmit::new(b"ananswer").to(from).from(to.unwrap());
    send(&everywhere, batch.segmented(2)).await;
    let mut arrived = Vec::new();
    while arrived.len() < 8 {
        arrived.extend(receive(&near).await.0);
    }
    assert_eq!(arrived, b"ananswer");
}

/// Checks that two receivers of a group on one port get the same messages.
async fn receive_from_group(group: &str, iface: &str) {
    let options = format!("multicast={group};iface={iface};reuse=1");
    let first = udp(&options).bind(&Target::default()).await.unwrap();
    let port = address(&first).port();
    let at: Target = format!(":{port}").parse().unwrap();
    let second = udp(&options).bind(&at).await.unwrap();
    let to = Target::host(group, port);
    let sender = udp(&format!("iface={iface};multicast_ttl=0"))
        .connect(&to)
        .await
        .unwrap();
    for round in 0..3_u8 {
        send(&sender, Transmit::new(&[round; 5])).await;
        for socket in [&first, &second] {
            let (bytes, from, to) = receive(socket).await;
            assert_eq!(
                (bytes, from.port()),
                (vec![round; 5], address(&sender).port())
            );
            assert_eq!(to, Some(group.parse().unwrap()));
        }
    }
}

#[tokio::test]
async fn multicast_groups_work_over_ipv4() {
    receive_from_group("239.255.77.1", "127.0.0.1").await;
}

/// Returns an IPv6 address of this host; the loopback interface has no route to groups.
fn ipv6_of_this_host() -> Option<Ipv6Addr> {
    let table = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    let line = table.lines().find(|line| !line.ends_with(" lo"))?;
    let digits = u128::from_str_radix(line.split_whitespace().next()?, 16).ok()?;
    Some(Ipv6Addr::from(digits))
}

#[tokio::test]
async fn multicast_groups_work_over_ipv6() {
    let Some(ip) = ipv6_of_this_host() else {
        eprintln!("skipped: this machine has IPv6 on loopback only");
        return;
    };
    receive_from_group("ff11::77", &ip.to_string()).await;
}

#[tokio::test]
async fn conflicting_options_are_explained() {
    let error = udp("multicast=ff11::77").bind(&crate::loopback()).await;
    let error = error.unwrap_err();
    assert!(error.to_string().contains("multicast"), "{error}");
    let error = udp("iface=::1")
        .connect(&Target::host("127.0.0.1", 9))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadTarget, "{error}");
    let error = udp("noipv6=1")
        .connect(&Target::host("::1", 9))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    let error = Udp::default()
        .connect(&Target::default())
        .await
        .unwrap_err();
    assert_eq!((error.kind(), error.layer()), (ErrorKind::BadTarget, "udp"));
}

//! Connections over a network in memory, in paused time.

mod ended;
mod net;
mod wake;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use xio_core::{ErrorKind, Incoming, Listener, Passive, PathStats, Stream, Target, Transport};
use xio_testkit::Random;

use self::net::Net;
use crate::{MessageOptions, Stats, Udt, UdtHandle, UdtListener, UdtMessages};

fn udt(net: &Net, options: &str) -> Udt<Net> {
    Udt::over(net.clone()).with_options(options.parse().unwrap())
}

async fn listen(udt: &Udt<Net>) -> (UdtListener<UdtHandle>, Target) {
    let listener = udt.listen(&Target::default()).await.unwrap();
    let to = Target::from(listener.info().local.unwrap());
    (listener, to)
}

async fn pair(net: &Net, options: &str) -> (UdtHandle, UdtHandle) {
    let udt = udt(net, options);
    let (mut listener, to) = listen(&udt).await;
    let (near, far) = tokio::join!(udt.connect(&to), async {
        listener.accept().await?.open().await
    });
    (near.unwrap(), far.unwrap())
}

/// Sends and closes; the other end reads the same and the end.
async fn transfer(mut from: UdtHandle, mut to: UdtHandle, bytes: &[u8]) {
    let sending = async {
        from.write_all(bytes).await.unwrap();
        from.shutdown().await.unwrap();
    };
    let mut arrived = Vec::new();
    let ((), read) = tokio::join!(sending, to.read_to_end(&mut arrived));
    read.unwrap();
    assert!(
        arrived == bytes,
        "{} bytes of {}",
        arrived.len(),
        bytes.len()
    );
}

fn kind(error: &std::io::Error) -> ErrorKind {
    let error = xio_core::Error::layer_of(error).expect("an error of a layer");
    assert_eq!(error.layer(), "udt");
    error.kind()
}

#[tokio::test(start_paused = true)]
async fn bytes_arrive_whole_however_many_are_lost() {
    for (seed, percent) in [(1, 0), (2, 1), (3, 10), (4, 30)] {
        let net = Net::new(seed);
        net.delay(Duration::from_millis(20));
        net.lose(percent);
        let bytes = Random::new(seed).bytes(700_000);
        for cc in ["cc=bbr;conntimeo=60", "cc=udt;conntimeo=60"] {
            let (near, far) = pair(&net, cc).await;
            transfer(near, far, &bytes).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_serves_all_on_one_socket_and_goes_when_they_are_gone() {
    let net = Net::new(5);
    let udt = udt(&net, "reuseaddr=1");
    let (mut listener, to) = listen(&udt).await;
    let mut transfers = tokio::task::JoinSet::new();
    let mut locals = Vec::new();
    for seed in 0..20 {
        let (near, far) = tokio::join!(udt.connect(&to), async {
            listener.accept().await?.open().await
        });
        let (near, far) = (near.unwrap(), far.unwrap());
        locals.push(near.info().local);
        transfers.spawn(async move {
            let bytes = Random::new(seed).bytes(100_000);
            transfer(near, far, &bytes).await;
        });
    }
    // All clients share one socket as well, by their option.
    assert_eq!(net.sockets(), 2);
    assert!(locals.iter().all(|local| *local == locals[0]));
    drop(listener);
    while let Some(done) = transfers.join_next().await {
        done.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(net.sockets(), 0);
    // The next connection opens a new one.
    let (mut listener, to) = listen(&udt).await;
    let (near, far) = tokio::join!(udt.connect(&to), async {
        listener.accept().await?.open().await
    });
    transfer(near.unwrap(), far.unwrap(), b"again").await;
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_a_reader_that_does_not_read() {
    let net = Net::new(6);
    let (mut near, mut far) = pair(&net, "sndbuf=100K;rcvbuf=100K").await;
    let mut sent = 0;
    let block = vec![7; 10_000];
    // In paused time the timeout expires when no task can go on.
    while let Ok(n) = tokio::time::timeout(Duration::from_secs(1), near.write(&block)).await {
        sent += n.unwrap();
        assert!(sent < 400_000, "nothing holds the writer back");
    }
    assert!(
        sent > 150_000,
        "both buffers are filled first, not {sent} bytes"
    );
    // And the shutdown waits until the reader has made room for the rest.
    let closing = near.shutdown();
    tokio::pin!(closing);
    let early = tokio::time::timeout(Duration::from_secs(5), closing.as_mut()).await;
    assert!(early.is_err(), "not everything can be acknowledged");
    let mut arrived = Vec::new();
    let (closed, read) = tokio::join!(closing, far.read_to_end(&mut arrived));
    closed.unwrap();
    read.unwrap();
    assert_eq!(arrived.len(), sent);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_reader_does_not_hinder_others() {
    let net = Net::new(24);
    let udt = udt(&net, "reuseaddr=1;sndbuf=100K;rcvbuf=100K");
    let (mut listener, to) = listen(&udt).await;
    let mut pairs = Vec::new();
    for _ in 0..4 {
        let (near, far) = tokio::join!(udt.connect(&to), async {
            listener.accept().await?.open().await
        });
        pairs.push((near.unwrap(), far.unwrap()));
    }
    let (mut near, _lazy) = pairs.remove(0);
    let stuck = tokio::spawn(async move { near.write_all(&[1; 1_000_000]).await });
    // All over the same two sockets.
    for (number, (near, far)) in (0..).zip(pairs) {
        let bytes = Random::new(number).bytes(1_000_000);
        let limit = Duration::from_secs(60);
        let done = tokio::time::timeout(limit, transfer(far, near, &bytes)).await;
        assert!(done.is_ok(), "transfer {number}");
    }
    assert!(!stuck.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_is_full_is_waited_for() {
    let net = Net::new(15);
    net.delay(Duration::from_millis(5));
    let (mut near, mut far) = pair(&net, "").await;
    let bytes = Random::new(15).bytes(300_000);
    for _ in 0..3 {
        net.block(Duration::from_millis(300));
        let mut arrived = vec![0; bytes.len()];
        let (wrote, read) = tokio::join!(near.write_all(&bytes), far.read_exact(&mut arrived));
        wrote.unwrap();
        read.unwrap();
        assert!(arrived == bytes);
    }
    // Each is asked when it has something new to send, and now and then.
    assert!((3..500).contains(&net.asked()), "{} times", net.asked());
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_fails_for_good_ends_its_connections() {
    let net = Net::new(16);
    let (mut near, mut far) = pair(&net, "").await;
    net.spoil();
    for handle in [&mut near, &mut far] {
        let error = handle.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(kind(&error), ErrorKind::Io, "{error}");
    }
    drop((near, far));
    assert_eq!(net.sockets(), 0);
    assert!(net.tried() < 1_000, "{} times", net.tried());
}

#[tokio::test(start_paused = true)]
async fn nobody_there_is_known_at_once_where_the_network_says_so() {
    let net = Net::new(19);
    net.refuse();
    let begun = Instant::now();
    let nobody = Target::from(SocketAddr::from(([10, 0, 0, 1], 9)));
    let error = udt(&net, "").connect(&nobody).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(begun.elapsed() < Duration::from_millis(10));
    // The peer of a rendezvous may still start.
    let error = udt(&net, "rendezvous=1")
        .connect(&nobody)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
}

#[tokio::test(start_paused = true)]
async fn connecting_leaves_nothing_behind_when_it_is_dropped() {
    let net = Net::new(21);
    net.delay(Duration::from_millis(20));
    let udt = udt(&net, "");
    let (mut listener, to) = listen(&udt).await;
    for time in (0..120).step_by(7) {
        let brief = Duration::from_millis(time);
        let _ = tokio::time::timeout(brief, udt.connect(&to)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(net.sockets(), 1, "after {time} ms");
    }
    // Visible connections are aborted, and none hinders the others.
    let late = async {
        loop {
            let Ok(accepted) =
                tokio::time::timeout(Duration::from_millis(1), listener.accept()).await
            else {
                break;
            };
            let mut far = accepted.unwrap().open().await.unwrap();
            far.read(&mut [0; 1]).await.unwrap_err();
        }
    };
    late.await;
    let (near, far) = tokio::join!(udt.connect(&to), async {
        listener.accept().await?.open().await
    });
    transfer(near.unwrap(), far.unwrap(), b"here").await;
}

#[tokio::test(start_paused = true)]
async fn an_address_in_the_clothes_of_another_is_the_same() {
    let net = Net::new(18);
    let udt = udt(&net, "");
    let (mut listener, to) = listen(&udt).await;
    let mapped = Target::host("::ffff:10.0.0.1", to.port.unwrap());
    let (near, far) = tokio::join!(udt.connect(&mapped), async {
        listener.accept().await?.open().await
    });
    transfer(near.unwrap(), far.unwrap(), b"here").await;
}

#[tokio::test(start_paused = true)]
async fn connections_that_end_unaccepted_count_in_the_backlog() {
    let net = Net::new(17);
    let udt = udt(&net, "backlog=3");
    let (mut listener, to) = listen(&udt).await;
    for _ in 0..3 {
        drop(udt.connect(&to).await.unwrap());
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let error = udt.connect(&to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    for _ in 0..3 {
        drop(listener.accept().await.unwrap());
    }
    let (near, far) = tokio::join!(udt.connect(&to), async {
        listener.accept().await?.open().await
    });
    transfer(near.unwrap(), far.unwrap(), b"here").await;
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_learns_that_the_peer_left() {
    let net = Net::new(14);
    for seed in 0..20 {
        let (mut near, far) = pair(&net, "").await;
        let leaving = async {
            for _ in 0..seed {
                tokio::task::yield_now().await;
            }
            drop(far);
        };
        let writing = async {
            loop {
                if let Err(error) = near.write_all(&[0; 70_000]).await {
                    return error;
                }
            }
        };
        let (error, ()) = tokio::join!(writing, leaving);
        assert_eq!(kind(&error), ErrorKind::Reset, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_waited_for_no_longer_than_asked() {
    let net = Net::new(7);
    let nobody = Target::from(SocketAddr::from(([10, 0, 0, 1], 9)));
    for (options, seconds) in [("", 3), ("conntimeo=7", 7), ("rendezvous=1", 30)] {
        let begun = Instant::now();
        let error = udt(&net, options).connect(&nobody).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert_eq!(begun.elapsed().as_secs(), seconds, "{options}");
    }
    // A peer that vanishes is noticed, also during the handshake.
    for linger in ["linger=5", "linger=180"] {
        let (mut near, mut far) = pair(&net, linger).await;
        far.write_all(b"before").await.unwrap();
        let mut six = [0; 6];
        near.read_exact(&mut six).await.unwrap();
        net.cut(true);
        let begun = Instant::now();
        near.write_all(b"never arrives").await.unwrap();
        let error = near.shutdown().await.unwrap_err();
        assert_eq!(kind(&error), ErrorKind::TimedOut, "{error}");
        let took = begun.elapsed().as_secs();
        match linger {
            "linger=5" => assert_eq!(took, 5),
            _ => assert!((20..60).contains(&took), "{took} s"),
        }
        let error = far.read(&mut six).await.unwrap_err();
        assert_eq!(kind(&error), ErrorKind::TimedOut, "{error}");
        net.cut(false);
    }
}

#[tokio::test(start_paused = true)]
async fn two_that_meet_are_connected() {
    let net = Net::new(8);
    net.delay(Duration::from_millis(30));
    net.lose(10);
    for round in 0..10 {
        let at = |port| Target::from(SocketAddr::from(([10, 0, 0, 1], port)));
        let (first, second) = (
            udt(&net, "rendezvous=1;port=1001"),
            udt(&net, "rendezvous=1;port=1002"),
        );
        let late = async {
            tokio::time::sleep(Duration::from_millis(100 * round)).await;
            second.connect(&at(1001)).await
        };
        let to = at(1002);
        let (first, second) = tokio::join!(first.connect(&to), late);
        let bytes = Random::new(round).bytes(50_000);
        transfer(first.unwrap(), second.unwrap(), &bytes).await;
        // The shutdown packets end before the ports are used again.
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(net.sockets(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_backlog_are_refused() {
    let net = Net::new(9);
    let udt = udt(&net, "backlog=2");
    let (mut listener, to) = listen(&udt).await;
    let first = udt.connect(&to).await.unwrap();
    let second = udt.connect(&to).await.unwrap();
    let error = udt.connect(&to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    // One is accepted, so there is room in the backlog again.
    let far = listener.accept().await.unwrap().open().await.unwrap();
    let third = udt.connect(&to).await.unwrap();
    drop((first, second, third, far));
}

async fn message_pair(net: &Net, options: &str) -> (UdtMessages, UdtMessages) {
    let udt = udt(net, options).messages();
    let mut listener = udt.listen(&Target::default()).await.unwrap();
    let to = Target::from(listener.info().local.unwrap());
    let (near, far) = tokio::join!(udt.connect(&to), async {
        listener.accept().await?.open().await
    });
    (near.unwrap(), far.unwrap())
}

#[tokio::test(start_paused = true)]
async fn messages_arrive_whole_and_in_order_where_asked() {
    let net = Net::new(10);
    net.delay(Duration::from_millis(10));
    net.lose(5);
    for in_order in [true, false] {
        let (mut near, mut far) = message_pair(&net, "conntimeo=60").await;
        let options = MessageOptions::default().with_order(in_order);
        let message = |number: usize| Random::new(number as u64).bytes(1 + number * 37);
        let sending = async {
            for number in 0..200 {
                near.send(&message(number), options).await.unwrap();
            }
            near.shutdown().await.unwrap();
        };
        let receiving = async {
            let mut room = vec![0; 10_000];
            let mut arrived = Vec::new();
            while let Some(len) = far.receive(&mut room).await.unwrap() {
                let number = (len - 1) / 37;
                assert!(
                    room[..len] == message(number),
                    "message {number} of {len} bytes"
                );
                arrived.push(number);
            }
            arrived
        };
        let ((), mut arrived) = tokio::join!(sending, receiving);
        if !in_order {
            arrived.sort_unstable();
        }
        assert!(arrived.iter().copied().eq(0..200), "{arrived:?}");
    }
    let (mut near, _far) = message_pair(&net, "sndbuf=50K;conntimeo=60").await;
    let long = vec![0; 1 << 20];
    let error = near
        .send(&long, MessageOptions::default())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("at most"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn bytes_and_messages_do_not_mix() {
    let net = Net::new(11);
    let bytes = udt(&net, "");
    let (_listener, to) = listen(&bytes).await;
    let error = udt(&net, "").messages().connect(&to).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_handle_returns_its_measurements() {
    let net = Net::new(12);
    net.delay(Duration::from_millis(25));
    let (mut near, mut far) = pair(&net, "mss=1000").await;
    let block = vec![0; 300_000];
    let (wrote, read) = tokio::join!(near.write_all(&block), async {
        far.read_exact(&mut vec![0; 300_000]).await
    });
    wrote.unwrap();
    read.unwrap();
    near.shutdown().await.unwrap();
    let info = near.info();
    assert_eq!(info.chain, ["net", "udt"]);
    assert_eq!(info.mtu, Some(1000 - 44));
    let path = info.get::<PathStats>().unwrap();
    let trip = path.round_trip.unwrap().as_millis();
    assert!((50..70).contains(&trip), "{trip} ms");
    assert!(path.sent.unwrap() >= 314);
    assert_eq!(info.get::<Stats>().unwrap().sent, path.sent.unwrap());
}

#[test]
fn a_runtime_that_ends_leaves_nobody_waiting() {
    let runtime = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap()
    };
    let net = Net::new(13);
    let first = runtime();
    let (mut near, _far) = first.block_on(pair(&net, ""));
    drop(first);
    let error = runtime().block_on(near.read(&mut [0; 1])).unwrap_err();
    assert_eq!(kind(&error), ErrorKind::Io, "{error}");
    let error = runtime().block_on(near.shutdown()).unwrap_err();
    assert_eq!(kind(&error), ErrorKind::Io, "{error}");
    assert_eq!(net.sockets(), 0);
}

//! The other end's view of a program that ends, with connections open or just closed.

use tokio::runtime::{Builder, Runtime};

use super::*;

/// The runtime of the program that ends.
fn theirs() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

/// Runs our part in real time.
fn block_on(part: impl Future<Output = ()>) {
    let mut ours = Builder::new_current_thread();
    ours.enable_all().build().unwrap().block_on(part);
}

/// Both handles of a connection.
async fn pair_with(net: &Net, theirs: &Runtime) -> (UdtHandle, UdtHandle) {
    let there = udt(net, "");
    let listening = theirs.spawn(async move { listen(&there).await });
    let (mut listener, to) = listening.await.unwrap();
    let accepting = theirs.spawn(async move { listener.accept().await?.open().await });
    let near = udt(net, "").connect(&to).await.unwrap();
    (near, accepting.await.unwrap().unwrap())
}

/// Ends the program, and waits until its socket is closed.
async fn end(theirs: Runtime, net: &Net) {
    theirs.shutdown_background();
    let is_gone = async {
        while net.sockets() > 1 {
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, is_gone).await.unwrap();
}

#[test]
fn a_peer_with_a_closed_port_is_given_up_soon() {
    block_on(async {
        let (net, theirs) = (Net::new(20), theirs());
        let (mut near, far) = pair_with(&net, &theirs).await;
        // The peer and its port vanish without a packet.
        net.cut(true);
        end(theirs, &net).await;
        net.cut(false);
        net.refuse();
        tokio::time::pause();
        let begun = Instant::now();
        near.write_all(b"is anybody there?").await.unwrap();
        let error = near.shutdown().await.unwrap_err();
        assert!(error.to_string().contains("port is closed"), "{error}");
        assert_eq!(kind(&error), ErrorKind::Reset, "{error}");
        assert!(
            begun.elapsed() < Duration::from_secs(4),
            "{:?}",
            begun.elapsed()
        );
        drop(far);
    });
}

#[test]
fn a_writer_in_full_swing_hears_that_the_port_is_closed() {
    for seed in 30..40 {
        block_on(async {
            let (net, theirs) = (Net::new(seed), theirs());
            let (mut near, far) = pair_with(&net, &theirs).await;
            net.cut(true);
            end(theirs, &net).await;
            net.cut(false);
            net.refuse();
            tokio::time::pause();
            let begun = Instant::now();
            let error = loop {
                if let Err(error) = near.write_all(&[7; 100_000]).await {
                    break error;
                }
            };
            assert_eq!(kind(&error), ErrorKind::Reset, "{error}");
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(3), "seed {seed}: {took:?}");
            drop(far);
        });
    }
}

#[test]
fn a_program_that_ends_gives_up_its_connections() {
    block_on(async {
        let (net, theirs) = (Net::new(22), theirs());
        let (mut near, far) = pair_with(&net, &theirs).await;
        end(theirs, &net).await;
        tokio::time::pause();
        let begun = Instant::now();
        let error = near.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(kind(&error), ErrorKind::Reset, "{error}");
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
        drop(far);
    });
}

#[test]
fn a_program_that_has_closed_its_connections_may_end_at_once() {
    block_on(async {
        let (net, theirs) = (Net::new(23), theirs());
        let (mut near, mut far) = pair_with(&net, &theirs).await;
        net.lose_ends(1);
        let sending = theirs.spawn(async move {
            far.write_all(b"all there is").await.unwrap();
            far.shutdown().await.unwrap();
        });
        let mut arrived = vec![0; 12];
        near.read_exact(&mut arrived).await.unwrap();
        sending.await.unwrap();
        end(theirs, &net).await;
        tokio::time::pause();
        let begun = Instant::now();
        assert_eq!(near.read(&mut arrived).await.unwrap(), 0);
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
    });
}

//! Multicast: the head of a sender and the reports of receivers are bounded, and their bytes are
//! not taken for the stream's.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_core::{Incoming, Listener, Passive, Transport};
use xio_multicast::Multicast;
use xio_testkit::{Mem, MemHandle};

async fn say(mut rogue: MemHandle, data: &[u8]) {
    // A refused peer cannot send more.
    if rogue.write_all(data).await.is_ok() && rogue.shutdown().await.is_ok() {
        let _ = rogue.read_to_end(&mut Vec::new()).await;
    }
}

/// Sends these bytes to a receiver.
async fn receive(data: &[u8]) {
    let net = Mem::new();
    let at = "host:1".parse().unwrap();
    let stack = Multicast::over(net.clone());
    let mut listener = stack.listen(&at).await.unwrap();
    let rogue = net.connect(&at).await.unwrap();
    let receiving = async {
        let mut read = Vec::new();
        if let Ok(mut far) = listener.accept().await.unwrap().open().await {
            far.read_to_end(&mut read).await.unwrap();
            far.shutdown().await.unwrap();
        }
        assert!(data.ends_with(&read));
    };
    tokio::join!(say(rogue, data), receiving);
}

/// Answers these bytes to a sender.
async fn send(data: &[u8]) {
    let net = Mem::new();
    let at = "host:1".parse().unwrap();
    let mut listener = net.listen(&at).await.unwrap();
    let mut near = Multicast::over(net).connect(&at).await.unwrap();
    let rogue = listener.accept().await.unwrap().open().await.unwrap();
    let sending = async {
        let mut read = Vec::new();
        let ended = near.read_to_end(&mut read).await;
        assert!(read.len() < data.len().max(1));
        let failures = near.failures().count();
        assert_eq!((ended.is_err(), failures), (failures > 0, failures.min(1)));
        drop(near);
    };
    tokio::join!(say(rogue, data), sending);
}

pub(crate) fn check(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        receive(data).await;
        send(data).await;
    });
}

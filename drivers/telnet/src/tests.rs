//! Data, options and commands, as a Telnet peer sends and sees them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Waker};

use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use xio_testkit::{Mem, MemHandle};

use super::*;

async fn pair() -> (TelnetHandle<MemHandle>, MemHandle) {
    let (near, peer) = Mem::new().pair();
    (Telnet::new().respond(near).await.unwrap(), peer)
}

/// Returns the bytes that `near` reads when the peer sends `sent`, and the answers to the peer.
async fn talk(sent: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut near, mut peer) = pair().await;
    peer.write_all(sent).await.unwrap();
    peer.shutdown().await.unwrap();
    let mut read = Vec::new();
    near.read_to_end(&mut read).await.unwrap();
    near.shutdown().await.unwrap();
    let mut answers = Vec::new();
    peer.read_to_end(&mut answers).await.unwrap();
    (read, answers)
}

proptest! {
    #[test]
    fn any_bytes_come_back_however_cut(
        data in proptest::collection::vec(proptest::sample::select(vec![0, 10, 13, 65, 240, 250, 255]), 0..60),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..5),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(data.len() + 1)).collect();
        cuts.extend([0, data.len()]);
        cuts.sort_unstable();
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let (mut back, mut answers) = (Vec::new(), Vec::new());
        for piece in cuts.windows(2) {
            let mut wire = Vec::new();
            encoder.encode(&data[piece[0]..piece[1]], &mut wire);
            // A command of our own may come between any two pieces.
            let at = wire.len();
            wire.extend([255, 241]);
            encoder.interrupt(&mut wire, at);
            let kept = decoder.decode(&mut wire, &mut answers).unwrap();
            back.extend_from_slice(&wire[..kept]);
        }
        prop_assert_eq!(back, data);
        prop_assert!(answers.is_empty() && !decoder.is_within());
    }
}

#[tokio::test]
async fn data_is_written_as_rfc_854_has_it() {
    let (mut near, mut peer) = pair().await;
    near.write_all(b"a\xff\r\nb\rc\r").await.unwrap();
    near.write_all(b"\n\r").await.unwrap();
    near.shutdown().await.unwrap();
    let mut wire = Vec::new();
    peer.read_to_end(&mut wire).await.unwrap();
    assert_eq!(wire, b"a\xff\xff\r\nb\r\0c\r\n\r\0");
}

#[tokio::test]
async fn options_are_refused_and_commands_read_over() {
    // WILL 1, DO 3, WONT 5, DONT 6, NOP, AYT, a subnegotiation with a doubled IAC.
    let sent = b"x\xff\xfb\x01\xff\xfd\x03\xff\xfc\x05\xff\xfe\x06\xff\xf1\xff\xf6\xff\xfa\x18\xff\xff\x01\xff\xf0y\xff\xff";
    let (read, answers) = talk(sent).await;
    assert_eq!(read, b"xy\xff");
    assert_eq!(answers, b"\xff\xfe\x01\xff\xfc\x03");
}

#[tokio::test]
async fn an_end_within_a_command_is_truncation() {
    for cut in [
        &b"data\xff"[..],
        b"\xff\xfb",
        b"\xff\xfa\x01",
        b"\xff\xfa\x01\xff",
    ] {
        let (mut near, mut peer) = pair().await;
        peer.write_all(cut).await.unwrap();
        peer.shutdown().await.unwrap();
        let error = near.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{cut:?}");
        assert!(error.to_string().starts_with("telnet: read: "), "{error}");
    }
}

#[tokio::test]
async fn an_endless_subnegotiation_is_an_error() {
    let (mut near, mut peer) = pair().await;
    peer.write_all(b"\xff\xfa").await.unwrap();
    peer.write_all(&[7; 5000]).await.unwrap();
    let error = near.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_asks_and_does_not_read_is_held_up() {
    let (near, mut peer) = Mem::new().capacity(1000).pair();
    let mut near = Telnet::new().respond(near).await.unwrap();
    let asking = async {
        loop {
            peer.write_all(b"\xff\xfb\x01").await.unwrap();
        }
    };
    let reading = near.read_u8();
    let waited = tokio::time::timeout(std::time::Duration::from_millis(50), async {
        tokio::select! { () = asking => {}, _ = reading => {} }
    });
    assert!(waited.await.is_err());
    // One read of the peer's bytes at most comes on top of the bound.
    let most = TelnetHandle::<MemHandle>::MAX_WAITING;
    assert!(near.waiting() <= most + 1000, "{}", near.waiting());
}

#[derive(Default)]
struct Woken(std::sync::atomic::AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Both wait for room below, which wakes only the last of them.
#[tokio::test]
async fn a_reader_that_waits_to_answer_is_woken_when_a_writer_made_room() {
    let (near, mut peer) = Mem::new().capacity(1000).pair();
    let mut near = Telnet::new().respond(near).await.unwrap();
    let reader = std::sync::Arc::<Woken>::default();
    let waker = Waker::from(std::sync::Arc::clone(&reader));
    let mut reading = Context::from_waker(&waker);
    let mut byte = [0];
    for _ in 0..60 {
        peer.write_all(&b"\xff\xfb\x01".repeat(100)).await.unwrap();
        let mut buf = ReadBuf::new(&mut byte);
        let read = Pin::new(&mut near).poll_read(&mut reading, &mut buf);
        assert!(read.is_pending());
    }
    let most = TelnetHandle::<MemHandle>::MAX_WAITING;
    assert!(near.waiting() >= most, "{}", near.waiting());
    reader.0.store(false, std::sync::atomic::Ordering::SeqCst);
    let writing = near.write_all(b"x");
    let mut answers = vec![0; 17_000];
    let (written, read) = tokio::join!(writing, peer.read_exact(&mut answers));
    written.unwrap();
    read.unwrap();
    let woken = reader.0.load(std::sync::atomic::Ordering::SeqCst);
    assert!(woken, "there is more to read, and room to answer");
}

/// The layer below keeps the waker of a write, which is given up before there is room.
#[tokio::test]
async fn a_write_that_is_given_up_leaves_the_reader_its_wake_up() {
    let (near, mut peer) = Mem::new().capacity(1000).pair();
    let mut near = Telnet::new().respond(near).await.unwrap();
    let reader = std::sync::Arc::<Woken>::default();
    let waker = Waker::from(std::sync::Arc::clone(&reader));
    let mut byte = [0];
    for _ in 0..4 {
        peer.write_all(&b"\xff\xfb\x01".repeat(333)).await.unwrap();
        let mut buf = ReadBuf::new(&mut byte);
        let read = Pin::new(&mut near).poll_read(&mut Context::from_waker(&waker), &mut buf);
        assert!(read.is_pending());
    }
    assert!(near.waiting() > 0, "answers wait for room");
    let mut gone = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut near).poll_write(&mut gone, b"x").is_pending());
    reader.0.store(false, std::sync::atomic::Ordering::SeqCst);
    peer.read_exact(&mut [0; 1000]).await.unwrap();
    let woken = reader.0.load(std::sync::atomic::Ordering::SeqCst);
    assert!(woken, "there is room to answer");
}

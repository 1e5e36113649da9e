//! The watch and the party at fault when the local storage is slow.

use mode_e::Header;
use tokio::io::AsyncWriteExt as _;

use super::*;
use crate::{Chunks, ErrorKind, Wait};

/// A file with reads that never end.
struct Hangs;

impl Source for Hangs {
    fn size(&self) -> u64 {
        10
    }

    async fn read_at(&self, _: u64, _: BytesMut) -> Result<BytesMut, StorageError> {
        std::future::pending().await
    }
}

/// A receiving channel, and a connection to it that has sent `wire` and stays open.
async fn one_peer(wire: &[u8]) -> (DataChannel, TcpStream) {
    let (to, mut streams) = bare(1).await;
    let mut stream = streams.pop().unwrap();
    stream.write_all(wire).await.unwrap();
    (to, stream)
}

fn block(content: &[u8], end: &[Header]) -> Vec<u8> {
    let mut wire = Header::data(0, content.len() as u64).to_bytes().to_vec();
    wire.extend(content);
    for header in end {
        wire.extend(header.to_bytes());
    }
    wire
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_hangs_is_reported_and_its_bytes_are_not_claimed() {
    for (sequential, ty) in [
        (false, Type::Image),
        (true, Type::Image),
        (true, Type::Ascii),
    ] {
        let (mut to, _open) = one_peer(&block(b"ab\r\n", &[Header::eof(1)])).await;
        let (sink, watch) = (
            Kept {
                sequential,
                hangs: true,
                ..Kept::default()
            },
            Watch::new(),
        );
        let plan = ReceivePlan::new(Mode::Extended, ty);
        let receiving = to.receive(&sink, &plan, &watch);
        let ended = tokio::time::timeout(Duration::from_secs(3600), receiving).await;
        let error = ended.expect("no deadline holds").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout(Wait::Storage), "{error}");
        assert!(
            watch.received().is_empty() && watch.take_received().is_empty(),
            "a marker would name bytes that are not written"
        );
    }
}

#[tokio::test]
async fn bytes_in_order_are_claimed_once_they_are_consumed() {
    let (mut to, _open) = one_peer(&block(b"abcd", &[Header::eof(1)])).await;
    let (sink, watch) = (
        Kept {
            sequential: true,
            ..Kept::default()
        },
        Watch::new(),
    );
    let got = to
        .receive(&sink, &incoming(Mode::Extended), &watch)
        .await
        .unwrap();
    assert_eq!((got.bytes, got.end), (4, 4));
    assert_eq!(got.ranges, RangeSet::up_to(4));
    assert_eq!(watch.received(), got.ranges);
    assert_eq!(sink.data(), b"abcd");
}

#[tokio::test]
async fn text_has_no_ranges_even_when_it_is_cut_off() {
    for cut in [false, true] {
        let end = if cut { vec![] } else { vec![Header::eof(1)] };
        let (mut to, open) = one_peer(&block(b"one\r\ntwo\r\n", &end)).await;
        drop(open);
        let (sink, watch) = (Kept::default(), Watch::new());
        let plan = ReceivePlan::new(Mode::Extended, Type::Ascii);
        let got = to.receive(&sink, &plan, &watch).await;
        assert_eq!(got.is_err(), cut);
        // Its wire offsets are not offsets in the file, so they must not be recorded.
        assert!(watch.received().is_empty());
        if let Ok(got) = got {
            assert_eq!((got.bytes, got.end), (10, 8));
            assert!(got.ranges.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_leaves_out_the_first_byte_is_at_fault() {
    let (mut to, mut streams) = bare(1).await;
    let mut stream = streams.pop().unwrap();
    // More than the queue holds while the first byte is missing.
    let content = bytes(9 << 20);
    let header = Header::data(1, content.len() as u64).to_bytes();
    let sending = async {
        stream.write_all(&header).await.unwrap();
        // Ends when the receiver gives up.
        let _ = stream.write_all(&content).await;
    };
    let (sink, watch) = (
        Kept {
            sequential: true,
            ..Kept::default()
        },
        Watch::new(),
    );
    let plan = incoming(Mode::Extended);
    let (got, ()) = tokio::join!(to.receive(&sink, &plan, &watch), sending);
    let error = got.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Wait::Receive), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_is_not_blamed_on_the_peer() {
    for (mode, ty) in [
        (Mode::Stream, Type::Image),
        (Mode::Extended, Type::Image),
        (Mode::Stream, Type::Ascii),
        (Mode::Extended, Type::Ascii),
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut from = channel();
        from.connect_to(tcp(), vec![listener.local_addr().unwrap()]);
        let plan = SendPlan::new(mode, ty, RangeSet::up_to(10));
        let watch = Watch::new();
        let sending = from.send(&Hangs, &plan, &watch);
        let ended = tokio::time::timeout(Duration::from_secs(3600), sending).await;
        let error = ended.expect("no deadline holds").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout(Wait::Storage), "{error}");
    }
}

/// Chunks of a backend, for which the stall deadline holds.
struct Backend;

impl Chunks for Backend {
    async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        std::future::pending().await
    }

    fn is_patient(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn chunks_that_are_not_patient_have_a_deadline() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut from = channel();
    from.connect_to(tcp(), vec![listener.local_addr().unwrap()]);
    let (mut backend, plan, watch) = (Backend, whole(Mode::Stream, 0), Watch::new());
    let sending = from.send_chunks(&mut backend, &plan, &watch);
    let ended = tokio::time::timeout(Duration::from_secs(3600), sending).await;
    let error = ended.expect("no deadline holds").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Wait::Storage), "{error}");
}

//! Bytes of unknown length: listings, standard input and output.

use super::*;
use crate::{Chunks, Consumer, ErrorKind};

struct Lines(std::vec::IntoIter<Bytes>);

impl Chunks for Lines {
    async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        tokio::task::yield_now().await;
        Ok(self.0.next())
    }
}

#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    ended: bool,
}

impl Consumer for Text {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        tokio::task::yield_now().await;
        self.bytes.extend(bytes);
        Ok(())
    }

    async fn end(&mut self) -> Result<(), StorageError> {
        self.ended = true;
        Ok(())
    }
}

/// A consumer that keeps its pieces, and stalls at the last of `room`.
struct Kept {
    pieces: Vec<Bytes>,
    room: usize,
}

impl Consumer for Kept {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        self.pieces.push(bytes);
        match self.pieces.len() < self.room {
            true => Ok(()),
            false => std::future::pending().await,
        }
    }
}

/// A file that is read slowly, or not at all, must not stop the transfers beside it.
#[tokio::test(start_paused = true)]
async fn a_patient_consumer_holds_no_block_of_the_pool() {
    for mode in [Mode::Stream, Mode::Extended] {
        let pool = Pool::new(64 << 10, 16);
        let (mut from, mut to) = (channel(), with_pool(pool.clone()));
        let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
        from.connect_to(tcp(), vec![address]);
        let watches = (Watch::new(), Watch::new());
        let mut kept = Kept {
            pieces: Vec::new(),
            room: 2,
        };
        let bytes = vec![Bytes::from(vec![7; pool.block_size()]); 16];
        let mut chunks = Lines(bytes.into_iter());
        let (send, receive) = (
            SendPlan::new(mode, Type::Image, RangeSet::new()),
            incoming(mode),
        );
        {
            let sending = from.send_chunks(&mut chunks, &send, &watches.0);
            let receiving = to.receive_chunks(&mut kept, &receive, &watches.1);
            let both = std::pin::pin!(async { tokio::join!(sending, receiving) });
            // Time passes once nothing moves any more.
            let ended = tokio::time::timeout(Duration::from_secs(30), both).await;
            assert!(ended.is_err(), "the consumer took all");
            assert_eq!(pool.available(), pool.blocks(), "{mode:?}");
        }
        assert_eq!(kept.pieces.len(), 2);
    }
}

fn lines(n: usize) -> Vec<Bytes> {
    (0..n)
        .map(|n| Bytes::from(format!("type=file;size={n}; name {n}\r\n")))
        .collect()
}

#[tokio::test]
async fn listings_arrive_in_both_modes_and_keep_the_connection_in_one() {
    for mode in [Mode::Stream, Mode::Extended] {
        for streams in [1, 3] {
            let (mut from, mut to) = pair().await;
            for n in [0, 1, 2, 5000] {
                if mode == Mode::Stream && n != 0 {
                    let address = to.listen(&tcp(), &here(), Peers::Any).await.unwrap();
                    from.connect_to(tcp(), vec![address]);
                }
                let mut text = Text::default();
                let mut chunks = lines(n);
                chunks.insert(n / 2, Bytes::new());
                let expected = chunks.concat();
                let mut chunks = Lines(chunks.into_iter());
                let send = SendPlan::new(mode, Type::Ascii, RangeSet::new()).parallelism(streams);
                let (receive, watches) = (incoming(mode), (Watch::new(), Watch::new()));
                let (sent, got) = tokio::try_join!(
                    from.send_chunks(&mut chunks, &send, &watches.0),
                    to.receive_chunks(&mut text, &receive, &watches.1)
                )
                .unwrap();
                assert_eq!(text.bytes, expected);
                assert!(text.ended);
                assert_eq!(
                    (sent.bytes, got.bytes),
                    (expected.len() as u64, expected.len() as u64)
                );
                assert_eq!(to.is_cached(), mode == Mode::Extended);
            }
        }
    }
}

#[tokio::test]
async fn dealt_chunks_use_every_connection_and_arrive_in_order() {
    for n in [0, 1, 20_000] {
        let (mut from, mut to) = pair().await;
        let chunks = lines(n);
        let expected = chunks.concat();
        let mut chunks = Lines(chunks.into_iter());
        let send = SendPlan::new(Mode::Extended, Type::Image, RangeSet::new())
            .parallelism(3)
            .dealt();
        let (mut text, receive) = (Text::default(), incoming(Mode::Extended));
        let watches = (Watch::new(), Watch::new());
        let (sent, got) = tokio::try_join!(
            from.send_chunks(&mut chunks, &send, &watches.0),
            to.receive_chunks(&mut text, &receive, &watches.1)
        )
        .unwrap();
        assert!(text.bytes == expected && text.ended);
        assert_eq!((sent.connections, got.connections), (3, 3));
        assert_eq!(sent.bytes, expected.len() as u64);
    }
}

#[tokio::test]
async fn a_file_over_many_streams_arrives_in_order() {
    let (mut from, mut to) = pair().await;
    let content = bytes(20_000_000);
    let plan = whole(Mode::Extended, 20_000_000).parallelism(4);
    let (mut text, receive) = (Text::default(), incoming(Mode::Extended));
    let (source, watches) = (Disk::new(&content), (Watch::new(), Watch::new()));
    tokio::try_join!(
        from.send(&source, &plan, &watches.0),
        to.receive_chunks(&mut text, &receive, &watches.1)
    )
    .unwrap();
    assert!(text.bytes == content);
}

#[tokio::test]
async fn a_gap_is_an_error_where_order_matters() {
    use mode_e::Header;
    use tokio::io::AsyncWriteExt as _;
    let (mut to, mut streams) = bare(1).await;
    let mut wire = Header::data(0, 2).to_bytes().to_vec();
    wire.extend(b"ab");
    wire.extend(Header::data(3, 1).to_bytes());
    wire.extend(b"d");
    wire.extend(Header::eof(1).to_bytes());
    streams[0].write_all(&wire).await.unwrap();
    let mut text = Text::default();
    let error = to
        .receive_chunks(&mut text, &incoming(Mode::Extended), &Watch::new())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert_eq!(text.bytes, b"ab");
    assert!(!text.ended);
}

#[tokio::test(start_paused = true)]
async fn a_slow_producer_is_no_stall() {
    struct Slow(u32);
    impl Chunks for Slow {
        async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
            tokio::time::sleep(Duration::from_secs(600)).await;
            self.0 -= 1;
            Ok((self.0 > 0).then(|| Bytes::from_static(b"line\r\n")))
        }
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut from = channel();
    from.connect_to(tcp(), vec![listener.local_addr().unwrap()]);
    let (plan, watch) = (whole(Mode::Stream, 0), Watch::new());
    assert_eq!(
        from.send_chunks(&mut Slow(3), &plan, &watch)
            .await
            .unwrap()
            .bytes,
        12
    );
}

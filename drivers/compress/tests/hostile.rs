//! Malformed streams: each is an error with its position, and none costs memory or hangs.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that fails says where by itself"
)]

use std::future::{Future as _, poll_fn};
use std::io::ErrorKind;
use std::pin::pin;
use std::task::Poll;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_compress::frame::{Head, MAX_BLOCK, Preamble};
use xio_compress::{Algorithm, Compress, codec};
use xio_core::{Error, Transform};
use xio_testkit::{Mem, Random};

/// Reads a stream of these bytes, after which the peer shuts its side down.
async fn read(wire: &[u8], options: &str) -> (Vec<u8>, std::io::Result<()>) {
    read_by(&layer(options), wire).await
}

fn layer(options: &str) -> Compress {
    Compress::new().with_options(options.parse().unwrap())
}

async fn read_by(layer: &Compress, wire: &[u8]) -> (Vec<u8>, std::io::Result<()>) {
    let (mut peer, inner) = Mem::new().capacity(wire.len() + 1).pair();
    peer.write_all(wire).await.unwrap();
    peer.shutdown().await.unwrap();
    let mut stream = layer.respond(inner).await.unwrap();
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).await.map(|_| ());
    if let Err(first) = &ended {
        // It stays an error, and is never taken for an end later on.
        let again = stream.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(again.kind(), first.kind());
        assert_eq!(Error::layer_of(&again).unwrap().layer(), "compress");
    }
    (bytes, ended)
}

/// The stream of this data.
async fn wire(options: &str, data: &[u8]) -> Vec<u8> {
    let (mut peer, inner) = Mem::new().capacity(data.len() * 2 + 1000).pair();
    let mut stream = layer(options).respond(inner).await.unwrap();
    stream.write_all(data).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut bytes = Vec::new();
    peer.read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// Compressible and incompressible parts.
fn sample() -> Vec<u8> {
    let mut random = Random::new(3);
    [
        random.bytes(900),
        vec![b'a'; 1000],
        random.bytes(300),
        b"hello ".repeat(50),
    ]
    .concat()
}

/// Every place at both ends, and every seventh in between.
fn places(len: usize) -> impl Iterator<Item = usize> {
    (0..len).filter(move |at| *at < 40 || at % 7 == 0 || len - at < 20)
}

const CODECS: &[&str] = &[
    "codec=stored",
    "codec=zlib",
    "codec=zstd",
    "codec=lz4",
    "codec=zlib;threads=3",
];

#[tokio::test]
async fn every_beginning_is_a_truncation() {
    let reader = layer("");
    for codec in CODECS {
        for block in ["block=700", "block=64K"] {
            let options = format!("{codec};{block}");
            let (data, whole) = (sample(), wire(&options, &sample()).await);
            for cut in places(whole.len()) {
                let (bytes, ended) = read_by(&reader, &whole[..cut]).await;
                let error = ended.unwrap_err();
                assert_eq!(
                    error.kind(),
                    ErrorKind::UnexpectedEof,
                    "{options} cut at {cut}: {error}"
                );
                assert!(
                    error
                        .to_string()
                        .starts_with("compress: read: the stream below ended in block ")
                );
                assert!(data.starts_with(&bytes), "{options} cut at {cut}");
            }
            let (bytes, ended) = read(&whole, "").await;
            ended.unwrap();
            assert!(bytes == data);
        }
    }
}

#[tokio::test]
async fn no_altered_byte_goes_unnoticed() {
    let reader = layer("threads=2");
    for codec in CODECS {
        let options = format!("{codec};block=500");
        let (data, whole) = (sample(), wire(&options, &sample()).await);
        for at in places(whole.len()) {
            for flip in [0x01, 0x80, 0xFF] {
                let mut altered = whole.clone();
                altered[at] ^= flip;
                let (bytes, ended) = read_by(&reader, &altered).await;
                match ended {
                    // A larger announcement, or a bit that only fills up a byte, changes nothing.
                    Ok(()) => assert!(bytes == data, "{options}: byte {at} ^ {flip:#x}"),
                    Err(error) => assert!(
                        matches!(
                            error.kind(),
                            ErrorKind::InvalidData | ErrorKind::UnexpectedEof
                        ),
                        "{error}"
                    ),
                }
            }
        }
    }
}

/// A caller keeps the bytes it has read when the stream breaks, and goes on from there.
#[tokio::test]
async fn nothing_of_a_damaged_block_is_handed_out() {
    let reader = layer("");
    let data = Random::new(4).bytes(200_000);
    for (codec, block) in [("codec=stored", 65_536), ("codec=zlib;block=8K", 8192)] {
        let whole = wire(codec, &data).await;
        for at in (30..whole.len() - 20).step_by(9973) {
            let mut altered = whole.clone();
            altered[at] ^= 0x10;
            let (bytes, ended) = read_by(&reader, &altered).await;
            assert_eq!(ended.unwrap_err().kind(), ErrorKind::InvalidData);
            assert!(data.starts_with(&bytes), "{codec}: byte {at}");
            assert_eq!(bytes.len() % block, 0, "{codec}: byte {at}");
        }
    }
}

#[tokio::test]
async fn blocks_cannot_be_lost_doubled_or_moved() {
    let whole = wire("codec=stored;block=300", &Random::new(1).bytes(900)).await;
    let (head, len) = (8, 300 + 7);
    let block = |n: usize| &whole[head + n * len..head + (n + 1) * len];
    let end = &whole[head + 3 * len..];
    for (blocks, number) in [
        (vec![block(0), block(2)], 1),
        (vec![block(0), block(0), block(1), block(2)], 1),
        (vec![block(1), block(0), block(2)], 0),
        (vec![block(0), block(1)], 2),
    ] {
        let (_, ended) = read(&[&whole[..head], &blocks.concat(), end].concat(), "").await;
        let error = ended.unwrap_err();
        let found = Error::layer_of(&error).unwrap().fact();
        assert!(
            found.starts_with(&format!("block {number} at byte ")),
            "{found}"
        );
        assert!(found.ends_with("its checksum does not agree"), "{found}");
    }
}

fn stream(announced: usize, rest: &[u8]) -> Vec<u8> {
    [&Preamble::new(announced).write()[..], rest].concat()
}

fn pack(algorithm: Algorithm, data: &[u8]) -> Vec<u8> {
    let mut room = vec![0; codec::room_for(data.len())];
    let n = codec::make(algorithm, algorithm.default_level())
        .compress(data, &mut room)
        .unwrap();
    room.truncate(n);
    room
}

#[tokio::test]
async fn a_bomb_is_stopped_at_the_announced_length() {
    for algorithm in Algorithm::ALL.into_iter().filter(|one| one.is_built()) {
        // Those two unpack to any length in the header.
        if [Algorithm::Stored, Algorithm::Fill].contains(&algorithm) {
            continue;
        }
        // A megabyte of zeros under a header of 1000 bytes, and of one less or more.
        for said in [1000, MAX_BLOCK - 1, MAX_BLOCK + 1] {
            let bomb = pack(algorithm, &vec![0; MAX_BLOCK]);
            let head = Head::new(0, algorithm, &vec![0; said], bomb.len().min(said - 1));
            let bytes = stream(MAX_BLOCK, &[head.bytes(), &bomb].concat());
            let (bytes, ended) = read(&bytes, "").await;
            let text = ended.unwrap_err().to_string();
            assert!(
                text.starts_with("compress: read: block 0 at byte 8: "),
                "{algorithm}: {text}"
            );
            assert_eq!(bytes, b"");
        }
    }
}

#[tokio::test]
async fn a_bad_frame_names_its_block() {
    let good = Head::new(0, Algorithm::Stored, b"good", 4);
    let good = [good.bytes(), b"good"].concat();
    for (rest, why) in [
        (&[0x90][..], "tag 0x90 has a bit without a meaning"),
        (&[0x0F], "no codec has the number 15"),
        (&[0, 0], "it is empty"),
        (
            &[0, 0xFF, 0x7F],
            "it unpacks to 16383 bytes, more than the announced 4096",
        ),
        (&[3, 10, 10], "it is no smaller packed than unpacked"),
        (
            &[0, 0xFF, 0xFF, 0xFF],
            "a length is not written in its shortest form",
        ),
        (&[0x80, 0, 0, 0, 0], "its checksum does not agree"),
    ] {
        let (bytes, ended) = read(&stream(4096, &[&good, rest].concat()), "").await;
        let error = ended.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let found = Error::layer_of(&error).unwrap();
        assert_eq!(found.fact(), format!("block 1 at byte 18: {why}"));
        assert_eq!(bytes, b"good", "what was before it is handed out");
    }
}

#[tokio::test]
async fn a_peer_without_the_layer_is_told_apart() {
    for text in ["220 ready\r\n", "GET / HTTP/1.1\r\n\r\n"] {
        let text = read(text.as_bytes(), "").await.1.unwrap_err().to_string();
        assert!(
            text.ends_with("does the peer's stack have `compress` too?"),
            "{text}"
        );
    }
    let (_, ended) = read(b"XIOZ\x09\0\0\x01", "").await;
    let text = ended.unwrap_err().to_string();
    assert!(text.contains("speaks version 9, this end 1"), "{text}");
    let (_, ended) = read(b"XIOZ\x01\xFF\xFF\xFF", "").await;
    let text = ended.unwrap_err().to_string();
    assert!(
        text.contains("blocks of 16777215 bytes were announced"),
        "{text}"
    );
}

#[tokio::test]
async fn lzo_without_the_library_says_how_to_get_it() {
    let packed = [2, 100, 10, 0, 0, 0, 0];
    let (_, ended) = read(&stream(4096, &packed), "").await;
    let error = ended.unwrap_err();
    if Algorithm::Lzo.is_built() {
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    } else {
        assert!(error.to_string().contains("--features lzo"), "{error}");
    }
}

#[tokio::test]
async fn noise_is_refused_by_every_codec() {
    let mut random = Random::new(9);
    for algorithm in Algorithm::ALL.into_iter().filter(|one| one.is_built()) {
        let mut codec = codec::make(algorithm, algorithm.default_level());
        for _ in 0..3000 {
            let packed = random.bytes(random.clone().up_to(200));
            let mut block = vec![0; random.up_to(5000)];
            if packed.len() != block.len() {
                // It must return and stay within the block, failed or not.
                let _ = codec.decompress(&packed, &mut block);
            }
        }
        // It still works afterwards.
        if algorithm != Algorithm::Stored {
            let mut block = vec![1; 1000];
            codec
                .decompress(&pack(algorithm, &[7; 1000]), &mut block)
                .unwrap();
            assert_eq!(block, [7; 1000]);
        }
    }
}

/// The end marks of the layers below must not stay unread in a socket.
#[tokio::test]
async fn the_end_of_the_stream_below_is_read_as_well() {
    let (data, mut whole) = (sample(), wire("", &sample()).await);
    let (mut peer, inner) = Mem::new().pair();
    let mut stream = layer("").respond(inner).await.unwrap();
    peer.write_all(&whole).await.unwrap();
    let mut bytes = vec![0; data.len()];
    stream.read_exact(&mut bytes).await.unwrap();
    assert!(bytes == data);
    let mut byte = [0];
    let mut ended = pin!(stream.read(&mut byte));
    let waits = poll_fn(|cx| Poll::Ready(ended.as_mut().poll(cx).is_pending()));
    assert!(waits.await);
    peer.shutdown().await.unwrap();
    assert_eq!(ended.await.unwrap(), 0);

    whole.push(b'x');
    let (bytes, ended) = read(&whole, "").await;
    assert!(bytes == data);
    let text = ended.unwrap_err().to_string();
    assert!(text.ends_with("bytes follow the end mark"), "{text}");
}

#[tokio::test]
async fn writing_after_the_end_mark_is_refused() {
    let (_peer, inner) = Mem::new().pair();
    let mut stream = Compress::default().respond(inner).await.unwrap();
    stream.shutdown().await.unwrap();
    let text = stream.write_all(b"more").await.unwrap_err().to_string();
    assert_eq!(text, "compress: write: the end mark was sent already");
}

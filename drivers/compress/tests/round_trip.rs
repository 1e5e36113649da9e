//! Any data arrives intact, by every codec, block size, number of threads and size of calls.

#![allow(clippy::unwrap_used, reason = "a test that fails says where by itself")]

use proptest::prelude::{
    Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::test_runner::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_compress::{Compress, CompressHandle, Compression};
use xio_core::{Stream, Transform};
use xio_testkit::{Mem, MemHandle, Random};

/// The two ends of a connection in memory with the layer on both.
async fn pair(mem: &Mem, near: &str, far: &str) -> [CompressHandle<MemHandle>; 2] {
    let (a, b) = mem.pair();
    let layer = |options: &str| Compress::new().with_options(options.parse().unwrap());
    [
        layer(near).respond(a).await.unwrap(),
        layer(far).respond(b).await.unwrap(),
    ]
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Runs of noise, text and one byte, so that blocks come out stored and packed in turn.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (any::<u64>(), 1..20_000_usize).prop_map(|(seed, len)| Random::new(seed).bytes(len)),
        (any::<u8>(), 1..100_000_usize).prop_map(|(byte, len)| vec![byte; len]),
        (1..3000_usize).prop_map(|n| (0..n)
            .flat_map(|i| format!("line {i}\n").into_bytes())
            .collect()),
        prop::collection::vec(any::<u8>(), 1..50),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn options() -> impl Strategy<Value = String> {
    let codecs = [
        "stored",
        "zlib",
        "zlib;level=1",
        "zlib;level=9",
        "zstd",
        "zstd;level=-7",
        "lz4",
    ];
    let mut codecs: Vec<_> = codecs
        .into_iter()
        .map(|codec| format!("codec={codec}"))
        .collect();
    if xio_compress::Algorithm::Lzo.is_built() {
        codecs.extend(["codec=lzo".into(), "codec=lzo;level=9".into()]);
    }
    codecs.push("strategy=auto".into());
    let block = prop_oneof![
        Just(256),
        Just(4096),
        Just(65_536),
        Just(1 << 20),
        256..200_000_usize
    ];
    let rules = prop_oneof![
        Just(""),
        Just(";smallest=0;gain=0"),
        Just(";smallest=3K;gain=60")
    ];
    (prop::sample::select(codecs), block, 1..5_usize, rules).prop_map(
        |(codec, block, threads, rules)| format!("{codec};block={block};threads={threads}{rules}"),
    )
}

proptest! {
    #![proptest_config(Config { cases: 150, ..Config::default() })]

    #[test]
    fn any_data_arrives_intact(
        data in data(), options in options(), seed: u64, chunk in 1..70_000_usize, capacity in 1..200_000_usize,
    ) {
        let mem = Mem::new().chunks(chunk).capacity(capacity).seed(seed | 1);
        let sent = data.clone();
        let (arrived, moved) = runtime().block_on(async {
            let [mut near, mut far] = pair(&mem, &options, "").await;
            let writing = async {
                let mut random = Random::new(seed);
                let mut left = &sent[..];
                while !left.is_empty() {
                    let (now, rest) = left.split_at(random.up_to(left.len().min(150_000)));
                    near.write_all(now).await.unwrap();
                    if random.percent(20) {
                        near.flush().await.unwrap();
                    }
                    left = rest;
                }
                near.shutdown().await.unwrap();
            };
            let reading = async {
                let mut random = Random::new(seed ^ 1);
                let mut arrived = Vec::new();
                let mut buf = vec![0; 100_000];
                loop {
                    let room = random.up_to(buf.len());
                    match far.read(buf.get_mut(..room).unwrap()).await.unwrap() {
                        0 => break arrived,
                        n => arrived.extend_from_slice(buf.get(..n).unwrap()),
                    }
                }
            };
            let ((), arrived) = tokio::join!(writing, reading);
            (arrived, [near.info(), far.info()].map(|info| *info.get::<Compression>().unwrap()))
        });
        prop_assert!(arrived == data, "{} bytes became {}", data.len(), arrived.len());
        let [near, far] = moved;
        prop_assert_eq!((near.written, far.read), (data.len() as u64, data.len() as u64));
        prop_assert_eq!(near.sent, far.received);
    }
}

#[test]
fn a_flush_sends_waiting_bytes() {
    runtime().block_on(async {
        for options in [
            "",
            "codec=zlib;threads=4",
            "codec=stored;block=1M",
            "strategy=auto",
        ] {
            let [mut near, mut far] = pair(&Mem::new(), options, options).await;
            for question in 0..20_u32 {
                near.write_u32(question).await.unwrap();
                near.flush().await.unwrap();
                assert_eq!(far.read_u32().await.unwrap(), question);
                far.write_u32(!question).await.unwrap();
                far.flush().await.unwrap();
                assert_eq!(near.read_u32().await.unwrap(), !question);
            }
        }
    });
}

#[test]
fn full_blocks_leave_without_a_flush() {
    runtime().block_on(async {
        let [mut near, mut far] =
            pair(&Mem::new().capacity(1 << 20), "codec=stored;block=8K", "").await;
        near.write_all(&[1; 100_000]).await.unwrap();
        let mut arrived = vec![0; 90_000];
        far.read_exact(&mut arrived).await.unwrap();
    });
}

#[test]
fn wire_lengths_are_those_of_the_documentation() {
    runtime().block_on(async {
        let sent = async |options: &str, data: &[u8]| {
            let [mut near, mut far] = pair(&Mem::new(), options, "").await;
            let mut arrived = Vec::new();
            let (wrote, read) = tokio::join!(
                async {
                    near.write_all(data).await?;
                    near.shutdown().await
                },
                far.read_to_end(&mut arrived)
            );
            wrote.unwrap();
            read.unwrap();
            near.info().get::<Compression>().unwrap().sent
        };
        assert_eq!(sent("", b"").await, 8 + 5);
        let noise = Random::new(1).bytes(1 << 20);
        for (options, blocks, head) in [
            ("codec=stored;block=1K", 1024, 7),
            ("codec=zlib;block=16K", 64, 8),
            ("codec=lz4;block=64K", 16, 8),
            ("codec=zstd;block=4K", 256, 7),
        ] {
            assert_eq!(
                sent(options, &noise).await,
                (1 << 20) + 13 + blocks * head,
                "{options}"
            );
        }
        assert!(sent("codec=zlib;block=16K", &[0; 1 << 20]).await < 64 * 50);
    });
}

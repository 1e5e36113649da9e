//! Codecs by block size, and one layer of a stack.

use criterion::{BenchmarkId, Criterion, Throughput};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Builder;
use xio_compress::Algorithm;
use xio_compress::codec::{make, room_for};
use xio_core::{Incoming as _, Listener as _, Passive, Transport};
use xio_count::Count;
use xio_testkit::{Mem, Random};

/// Bytes that go through a stack.
const AMOUNT: usize = 1 << 20;

/// Returns text of which half repeats, so that codecs compress it.
fn text(len: usize) -> Vec<u8> {
    let noise = Random::new(1).bytes(len);
    let letters = noise.iter().map(|byte| {
        if byte % 2 == 0 {
            b'e'
        } else {
            b'a' + byte % 26
        }
    });
    letters.collect()
}

/// Measures the throughput of each codec in both directions.
pub(crate) fn codecs(criterion: &mut Criterion) {
    for algorithm in [
        Algorithm::Zlib,
        Algorithm::Lzo,
        Algorithm::Zstd,
        Algorithm::Lz4,
    ] {
        let mut group = criterion.benchmark_group(format!("codec/{algorithm}"));
        for size in [4 << 10, 64 << 10, 1 << 20] {
            let block = text(size);
            group.throughput(Throughput::Bytes(size as u64));
            let mut codec = make(algorithm, algorithm.default_level());
            let mut packed = vec![0; room_for(size)];
            let mut len = 0;
            group.bench_function(BenchmarkId::new("compress", size), |b| {
                b.iter(|| len = codec.compress(&block, &mut packed).expect("there is room"));
            });
            packed.truncate(len);
            let mut original = vec![0; size];
            group.bench_function(BenchmarkId::new("decompress", size), |b| {
                b.iter(|| {
                    codec
                        .decompress(&packed, &mut original)
                        .expect("a compressed block decompresses")
                });
            });
        }
        group.finish();
    }
}

/// Measures the throughput of a stack in memory, without and with a layer.
pub(crate) fn stack(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("stack");
    group.throughput(Throughput::Bytes(AMOUNT as u64));
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let data = vec![7; AMOUNT];
    group.bench_function("mem", |b| {
        b.iter(|| runtime.block_on(carry(Mem::new(), &data)));
    });
    group.bench_function("mem,count", |b| {
        b.iter(|| runtime.block_on(carry(Mem::new().push(Count::new()), &data)));
    });
    group.finish();
}

async fn carry<T: Passive<Handle: xio_core::Stream>>(stack: T, data: &[u8]) {
    let at = "somewhere:1".parse().expect("a target");
    let mut listener = stack.listen(&at).await.expect("it listens");
    let (near, far) = tokio::join!(stack.connect(&at), listener.accept());
    let mut near = near.expect("it connects");
    let mut far = far.expect("it accepts").open().await.expect("it opens");
    let mut room = vec![0; data.len()];
    let (wrote, read) = tokio::join!(near.write_all(data), far.read_exact(&mut room));
    wrote.expect("it writes");
    read.expect("it reads");
}

//! Commands, replies, MODE E framing and range sets.

use byte_ranges::{Range64, RangeSet};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use ftp_wire::command::Command;
use ftp_wire::line::LineSplitter;
use ftp_wire::reply::{Code, Reply};
use mode_e::{Deframer, Gather, Header, Limits, Next, Scheduler, Step, Streams};

const LINES: [&str; 7] = [
    "TYPE I",
    "PASV",
    "OPTS RETR Parallelism=4,4,4;",
    "REST 0-1048576,2097152-3145728",
    "ERET P 1000 5000 /some/path with blanks",
    "STOR /a/rather/long/path/such/as/they/are/in/practice/file-000123.dat",
    "SITE CLIENTINFO scheme=ftp;appname=\"x\";appver=\"1\";",
];
/// Bytes of a block, and number of blocks of a transfer.
const BLOCK: u64 = 256 << 10;
const BLOCKS: u64 = 4096;

/// Measures parsing of commands and splitting of lines.
pub(crate) fn commands(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("commands");
    group.throughput(Throughput::Elements(1));
    for line in LINES {
        let verb = line.split(' ').next().unwrap_or_default();
        group.bench_function(BenchmarkId::new("parse", verb), |b| {
            b.iter(|| Command::parse(line.as_bytes()));
        });
    }
    let many = "STOR /folder/file\r\n".repeat(1000);
    group.throughput(Throughput::Elements(1000));
    group.bench_function("split 1,000 lines", |b| {
        b.iter(|| {
            let mut splitter = LineSplitter::new();
            splitter.push(many.as_bytes());
            (0..).take_while(|_| splitter.next_line().is_some()).count()
        });
    });
    group.finish();
}

/// Measures writing of replies.
pub(crate) fn replies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replies");
    group.throughput(Throughput::Elements(1));
    let lines = ["GlobusError: v=1 c=PATH_NOT_FOUND", "End."];
    let reply = Reply::coded(Code::of::<550>(), lines);
    group.bench_function("write two lines", |b| {
        b.iter_batched_ref(
            || Vec::with_capacity(256),
            |out| reply.write_to(out),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// Measures parsing and scheduling of MODE E blocks without payload.
pub(crate) fn framing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mode_e");
    group.throughput(Throughput::Elements(BLOCKS));
    let headers: Vec<_> = (0..BLOCKS)
        .map(|n| Header::data(n * BLOCK, BLOCK).to_bytes())
        .collect();
    group.bench_function("receive 4,096 blocks", |b| b.iter(|| receive(&headers)));
    let whole = RangeSet::up_to(BLOCK * BLOCKS);
    let streams = Streams::new(1, 4).expect("four streams are allowed");
    group.bench_function("schedule 4,096 blocks", |b| {
        b.iter(|| {
            let mut scheduler = Scheduler::new(&whole, BLOCK, streams);
            (0..)
                .take_while(|n| matches!(scheduler.next(n % 4), Next::Data(_)))
                .count()
        });
    });
    group.finish();
}

fn receive(headers: &[impl AsRef<[u8]>]) -> Gather {
    let mut deframer = Deframer::new(Limits::default());
    let mut gather = Gather::new(Limits::default());
    gather.opened().expect("the first connection");
    for header in headers {
        assert!(
            matches!(deframer.poll(), Ok(Step::Header { .. })),
            "a header is next"
        );
        deframer.feed(header.as_ref());
        if deframer.just_begun() {
            gather.begun().expect("the first block");
        }
        let Ok(Step::Payload { offset, len }) = deframer.poll() else {
            panic!("a header is followed by its payload");
        };
        deframer.moved(len);
        gather.record(offset, len).expect("blocks do not overlap");
    }
    assert_eq!(gather.bytes(), BLOCK * BLOCKS, "every block is recorded");
    gather
}

/// Measures insertion of blocks into a range set: in order, and in its worst case, with holes.
pub(crate) fn ranges(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ranges");
    for count in [100, 10_000_u64] {
        group.throughput(Throughput::Elements(count));
        let in_order = |n| n;
        let with_holes = |n| 2 * n;
        let backwards = |n| 2 * (count - n);
        let cases: [(&str, &dyn Fn(u64) -> u64); 3] = [
            ("in order", &in_order),
            ("with holes", &with_holes),
            ("backwards", &backwards),
        ];
        for (name, place) in cases {
            group.bench_function(BenchmarkId::new(name, count), |b| {
                b.iter(|| {
                    (0..count)
                        .map(place)
                        .fold(RangeSet::new(), |mut set, block| {
                            set.insert(
                                Range64::new(block * BLOCK, (block + 1) * BLOCK).expect("a block"),
                            );
                            set
                        })
                });
            });
        }
    }
    group.finish();
}

//! Measures transfers of files over loopback beside a bare copy from socket to socket.
//!
//! `cargo run --release -p gridftp-data --example throughput [DIR] [MIB] [ROUNDS] [BLOCK_KIB]`
//! creates one file in DIR (default `/dev/shm`) and moves it in turn: bare (blocking send-file,
//! then read and write in 256 KiB pieces), in MODE S, and in MODE E over 1 and 4 streams. Sender and
//! receiver run on one thread each. It prints medians, and CPU seconds of both ends together.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use byte_ranges::RangeSet;
use bytes::{Bytes, BytesMut};
use ftp_wire::command::{Mode, Type};
use gridftp_data::{DataChannel, Options, Peers, ReceivePlan, SendPlan, Watch};
use gridftp_dsi::{Error, ErrorKind, Finish, Sink, Source, Stat};
use tokio::runtime::Runtime;
use xio_core::{DynStack, Pool, Target};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A file that is read and written where it stands, without a hop to another thread.
#[derive(Debug)]
struct Plain(File);

fn failed(op: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::new(ErrorKind::Io, op).because(error)
}

impl Source for Plain {
    fn size(&self) -> u64 {
        self.0.metadata().map_or(0, |m| m.len())
    }

    async fn read_at(&self, offset: u64, mut into: BytesMut) -> Result<BytesMut, Error> {
        let at = into.len();
        into.resize(into.capacity(), 0);
        let free = into.get_mut(at..).unwrap_or_default();
        let n = self.0.read_at(free, offset).map_err(failed("read"))?;
        into.truncate(at + n);
        Ok(into)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

impl Sink for Plain {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        self.0.write_all_at(&data, offset).map_err(failed("write"))
    }

    async fn checkpoint(&self, _: &RangeSet, _: bool) -> Result<(), Error> {
        Ok(())
    }

    fn held(&self) -> RangeSet {
        RangeSet::new()
    }

    async fn finish(self, _: Finish) -> Result<Stat, Error> {
        Err(Error::new(ErrorKind::Unsupported, "finish"))
    }
}

fn stack() -> DynStack {
    DynStack::new(xio_tcp::Tcp::default(), "tcp")
}

fn runtime() -> Result<Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

/// CPU time of the calling thread.
fn thread_cpu() -> Duration {
    let time = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = time.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

struct Run {
    wall: Duration,
    send: Duration,
    receive: Duration,
}

fn bare(from: &Path, to: &Path) -> Result<Run, Failure> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let source = File::open(from)?;
    let sink = File::create(to)?;
    let begin = Instant::now();
    let sender = std::thread::spawn(move || -> std::io::Result<Duration> {
        let socket = std::net::TcpStream::connect(address)?;
        while rustix::fs::sendfile(&socket, &source, None, 1 << 30)? > 0 {}
        Ok(thread_cpu())
    });
    let before = thread_cpu();
    let (mut socket, _) = listener.accept()?;
    let mut block = vec![0; 256 << 10];
    let mut at = 0;
    loop {
        let n = socket.read(&mut block)?;
        if n == 0 {
            break;
        }
        sink.write_all_at(block.get(..n).unwrap_or_default(), at)?;
        at += n as u64;
    }
    let wall = begin.elapsed();
    let receive = thread_cpu() - before;
    let send = sender.join().map_err(|_| "the sender panicked")??;
    Ok(Run {
        wall,
        send,
        receive,
    })
}

fn ours(from: &Path, to: &Path, mode: Mode, streams: u32, block: usize) -> Result<Run, Failure> {
    let receiver = runtime()?;
    let pool = Pool::new(block, 64);
    let mut taking = DataChannel::new(Options::default(), pool.clone());
    let address = receiver.block_on(async {
        taking
            .listen(&stack(), &Target::host("127.0.0.1", 0), Peers::Any)
            .await
    })?;
    let source = Plain(File::open(from)?);
    let sink = Plain(File::create(to)?);
    let begin = Instant::now();
    let sender = std::thread::spawn(move || -> Result<Duration, Failure> {
        let mut sending = DataChannel::new(Options::default(), pool);
        sending.connect_to(stack(), vec![address]);
        let plan =
            SendPlan::new(mode, Type::Image, RangeSet::up_to(source.size())).parallelism(streams);
        runtime()?.block_on(sending.send(&source, &plan, &Watch::new()))?;
        Ok(thread_cpu())
    });
    let before = thread_cpu();
    let plan = ReceivePlan::new(mode, Type::Image);
    receiver.block_on(taking.receive(&sink, &plan, &Watch::new()))?;
    let wall = begin.elapsed();
    let receive = thread_cpu() - before;
    let send = sender.join().map_err(|_| "the sender panicked")??;
    Ok(Run {
        wall,
        send,
        receive,
    })
}

/// Seconds for `files` files of 1 kB, one behind the other over kept connections.
fn small(from: &Path, to: &Path, files: u32) -> Result<f64, Failure> {
    let receiver = runtime()?;
    let pool = Pool::new(256 << 10, 64);
    let mut taking = DataChannel::new(Options::default(), pool.clone());
    let address = receiver.block_on(async {
        taking
            .listen(&stack(), &Target::host("127.0.0.1", 0), Peers::Any)
            .await
    })?;
    let source = Plain(File::open(from)?);
    let sink = Plain(File::create(to)?);
    let begin = Instant::now();
    let sender = std::thread::spawn(move || -> Result<(), Failure> {
        let mut sending = DataChannel::new(Options::default(), pool);
        sending.connect_to(stack(), vec![address]);
        let plan = SendPlan::new(Mode::Extended, Type::Image, RangeSet::up_to(1000));
        runtime()?.block_on(async {
            for _ in 0..files {
                sending.send(&source, &plan, &Watch::new()).await?;
            }
            Ok(())
        })
    });
    let plan = ReceivePlan::new(Mode::Extended, Type::Image);
    receiver.block_on(async {
        for _ in 0..files {
            taking.receive(&sink, &plan, &Watch::new()).await?;
        }
        Ok::<_, Failure>(())
    })?;
    sender.join().map_err(|_| "the sender panicked")??;
    Ok(begin.elapsed().as_secs_f64())
}

fn median(mut all: Vec<Duration>) -> f64 {
    all.sort_unstable();
    all.get(all.len() / 2)
        .copied()
        .unwrap_or_default()
        .as_secs_f64()
}

#[expect(
    clippy::print_stdout,
    reason = "the measurement is the program's product"
)]
fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_else(|| "/dev/shm".into()));
    let mib: usize = args.next().map_or(Ok(1024), |n| n.parse())?;
    let rounds: usize = args.next().map_or(Ok(5), |n| n.parse())?;
    let block: usize = args.next().map_or(Ok(256), |n| n.parse())?;
    let scratch = tempfile::tempdir_in(folder)?;
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    std::fs::write(&from, vec![7; mib << 20])?;
    let seconds = small(&from, &to, 20_000)?;
    println!(
        "20,000 files of 1 kB over a kept connection: {:.1} us each",
        seconds * 50.0
    );
    let names = ["bare", "mode s", "mode e, 1 stream", "mode e, 4 streams"];
    let mut runs: [Vec<Run>; 4] = Default::default();
    for _ in 0..=rounds {
        for (n, of) in runs.iter_mut().enumerate() {
            of.push(match n {
                0 => bare(&from, &to)?,
                1 => ours(&from, &to, Mode::Stream, 1, block << 10)?,
                2 => ours(&from, &to, Mode::Extended, 1, block << 10)?,
                _ => ours(&from, &to, Mode::Extended, 4, block << 10)?,
            });
            if std::fs::metadata(&to)?.len() != (mib << 20) as u64 {
                return Err("the copy is not whole".into());
            }
            std::fs::remove_file(&to)?;
        }
    }
    println!(
        "{:18} {:>8} {:>8} {:>8} {:>8}",
        "", "MiB/s", "wall s", "send s", "recv s"
    );
    for (name, of) in names.iter().zip(&mut runs) {
        // The first round warms up.
        let of = of.get(1..).unwrap_or_default();
        let wall = median(of.iter().map(|r| r.wall).collect());
        let send = median(of.iter().map(|r| r.send).collect());
        let receive = median(of.iter().map(|r| r.receive).collect());
        println!(
            "{name:18} {:8.0} {wall:8.3} {send:8.3} {receive:8.3}",
            mib as f64 / wall
        );
    }
    Ok(())
}

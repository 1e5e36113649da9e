//! Cost of a layer: blocking sockets, bare tokio, typed stacks and boxed stacks, side by side in one run.
//!
//! Each variant holds one connection over loopback to an echo in a thread of its own. For every
//! size the variants take turns in short slices, in an order that rotates, and each slice is set
//! against the slice of the bare tokio socket in the same turn. A second bare socket takes part as
//! well: how far it is from the first is what this machine's noise does to every other column.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a bench talks to the person who runs it"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use xio_core::{Error, Incoming, Info, Listener, Operation, Passive, Result, Target, Transport};
use xio_count::Count;
use xio_tcp::Tcp;

/// What both ends do next.
#[derive(Clone, Copy)]
enum Order {
    /// A message of so many bytes goes there and comes back, so often.
    PingPong { size: usize, times: u32 },
    /// So many blocks go there, and one byte comes back.
    Bulk { block: usize, times: u32 },
}

impl Order {
    const fn size(self) -> usize {
        match self {
            Self::PingPong { size, .. } => size,
            Self::Bulk { block, .. } => block,
        }
    }
}

/// The near end of a variant: carries an order out together with its echo and gives the time.
struct Variant {
    name: &'static str,
    run: Box<dyn FnMut(Order) -> Duration>,
}

/// The near end's part of an order.
async fn call<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, order: Order, buf: &mut [u8]) {
    match order {
        Order::PingPong { times, .. } => {
            for _ in 0..times {
                stream.write_all(buf).await.expect("the echo reads");
                stream.read_exact(buf).await.expect("the echo answers");
            }
        }
        Order::Bulk { times, .. } => {
            for _ in 0..times {
                stream.write_all(buf).await.expect("the echo reads");
            }
            stream.read_u8().await.expect("the echo answers");
        }
    }
}

/// The far end's part of an order.
async fn echo<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, order: Order, buf: &mut [u8]) {
    match order {
        Order::PingPong { times, .. } => {
            for _ in 0..times {
                stream.read_exact(buf).await.expect("the near end writes");
                stream.write_all(buf).await.expect("the near end reads");
            }
        }
        Order::Bulk { block, times } => {
            let mut left = block * times as usize;
            while left > 0 {
                left -= stream.read(buf).await.expect("the near end writes");
            }
            stream.write_u8(1).await.expect("the near end reads");
        }
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// A variant over any transport; both ends have a runtime and a thread of their own.
fn variant<T>(name: &'static str, make: impl Fn() -> T) -> Variant
where
    T: Passive<Handle: AsyncRead + AsyncWrite + Unpin>,
{
    let (near, far) = (make(), make());
    let (orders, inbox) = mpsc::channel::<Order>();
    let (place, found) = mpsc::channel();
    thread::spawn(move || {
        let runtime = runtime();
        let mut stream = runtime.block_on(async {
            let at = Target::host("127.0.0.1", 0);
            let mut listener = far.listen(&at).await.expect("listening");
            place
                .send(listener.info().local.expect("an address"))
                .expect("it waits");
            listener
                .accept()
                .await
                .expect("accepting")
                .open()
                .await
                .expect("opening")
        });
        for order in inbox {
            let mut buf = vec![0; order.size()];
            runtime.block_on(echo(&mut stream, order, &mut buf));
        }
    });
    let runtime = runtime();
    let to = Target::from(found.recv().expect("the echo listens"));
    let mut stream = runtime.block_on(near.connect(&to)).expect("connecting");
    let run = Box::new(move |order: Order| {
        let mut buf = vec![1; order.size()];
        orders.send(order).expect("the echo is there");
        let began = Instant::now();
        runtime.block_on(call(&mut stream, order, &mut buf));
        began.elapsed()
    });
    Variant { name, run }
}

/// Blocking sockets, a thread at each end.
fn blocking(name: &'static str) -> Variant {
    let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listening");
    let place = listener.local_addr().expect("an address");
    let (orders, inbox) = mpsc::channel::<Order>();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accepting");
        stream.set_nodelay(true).expect("nodelay");
        for order in inbox {
            let mut buf = vec![0; order.size()];
            match order {
                Order::PingPong { times, .. } => {
                    for _ in 0..times {
                        stream.read_exact(&mut buf).expect("the near end writes");
                        stream.write_all(&buf).expect("the near end reads");
                    }
                }
                Order::Bulk { block, times } => {
                    let mut left = block * times as usize;
                    while left > 0 {
                        left -= stream.read(&mut buf).expect("the near end writes");
                    }
                    stream.write_all(&[1]).expect("the near end reads");
                }
            }
        }
    });
    let mut stream = StdStream::connect(place).expect("connecting");
    stream.set_nodelay(true).expect("nodelay");
    let run = Box::new(move |order: Order| {
        let mut buf = vec![1; order.size()];
        orders.send(order).expect("the echo is there");
        let began = Instant::now();
        match order {
            Order::PingPong { times, .. } => {
                for _ in 0..times {
                    stream.write_all(&buf).expect("the echo reads");
                    stream.read_exact(&mut buf).expect("the echo answers");
                }
            }
            Order::Bulk { times, .. } => {
                for _ in 0..times {
                    stream.write_all(&buf).expect("the echo reads");
                }
                stream.read_exact(&mut [0]).expect("the echo answers");
            }
        }
        began.elapsed()
    });
    Variant { name, run }
}

/// Tokio's socket with nothing around it.
struct Bare;

impl Transport for Bare {
    type Handle = TcpStream;

    async fn connect(&self, to: &Target) -> Result<TcpStream> {
        let place = to.address().expect("the bench connects to an address");
        let stream = TcpStream::connect(place).await;
        let stream = stream.map_err(|e| Error::from_io(e, "bare", Operation::Connect))?;
        stream.set_nodelay(true).expect("nodelay");
        Ok(stream)
    }
}

impl Passive for Bare {
    type Listener = BareListener;

    async fn listen(&self, at: &Target) -> Result<BareListener> {
        let place = at.address().expect("the bench listens at an address");
        let listener = TcpListener::bind(place).await;
        Ok(BareListener(listener.map_err(|e| {
            Error::from_io(e, "bare", Operation::Listen)
        })?))
    }
}

struct BareListener(TcpListener);

impl Listener for BareListener {
    type Handle = TcpStream;
    type Incoming = BareIncoming;

    async fn accept(&mut self) -> Result<BareIncoming> {
        let accepted = self.0.accept().await;
        let (stream, _) = accepted.map_err(|e| Error::from_io(e, "bare", Operation::Accept))?;
        stream.set_nodelay(true).expect("nodelay");
        Ok(BareIncoming(stream))
    }

    fn describe(&self, info: &mut Info) {
        info.local = self.0.local_addr().ok();
    }
}

struct BareIncoming(TcpStream);

impl Incoming for BareIncoming {
    type Handle = TcpStream;

    fn describe(&self, info: &mut Info) {
        info.peer = self.0.peer_addr().ok();
    }

    async fn open(self) -> Result<TcpStream> {
        Ok(self.0)
    }
}

/// Every variant; the first is what the others are set against.
fn variants() -> Vec<Variant> {
    let boxed = |text: &'static str| move || xio::registry().stack(text).expect("a stack");
    vec![
        variant("bare tokio", || Bare),
        variant("bare again", || Bare),
        blocking("blocking"),
        variant("typed", Tcp::default),
        variant("boxed", boxed("tcp")),
        variant("typed + 3", || {
            let one = Tcp::default().push(Count::new());
            one.push(Count::new()).push(Count::new())
        }),
        variant("boxed + 3", boxed("tcp,count,count,count")),
    ]
}

/// What is measured: a name, one slice, and how many bytes or messages that is.
fn questions(slice: Duration, sample: &mut Variant) -> Vec<(String, Order)> {
    let sizes = [
        ("1 B", 1),
        ("1 KiB", 1 << 10),
        ("16 KiB", 16 << 10),
        ("64 KiB", 64 << 10),
        ("1 MiB", 1 << 20),
        ("10 MB", 10_000_000),
    ];
    let ping = sizes.map(|(name, size)| {
        (
            format!("ping-pong, {name}"),
            Order::PingPong { size, times: 1 },
        )
    });
    let bulk = [("64 KiB", 64 << 10), ("1 MiB", 1 << 20)].map(|(name, block)| {
        (
            format!("bulk, blocks of {name}"),
            Order::Bulk { block, times: 1 },
        )
    });
    ping.into_iter()
        .chain(bulk)
        .map(|(name, order)| (name, fit(order, slice, sample)))
        .collect()
}

/// Repeats an order until it fills a slice.
fn fit(order: Order, slice: Duration, sample: &mut Variant) -> Order {
    let mut times = 1_u32;
    loop {
        let order = match order {
            Order::PingPong { size, .. } => Order::PingPong { size, times },
            Order::Bulk { block, .. } => Order::Bulk { block, times },
        };
        if (sample.run)(order) >= slice || times > 1 << 20 {
            return order;
        }
        times *= 2;
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    // Cargo passes `--bench` when it measures; as a test, one short turn shows that all works.
    let measure = std::env::args().any(|arg| arg == "--bench");
    let turns = std::env::var("TURNS")
        .ok()
        .and_then(|turns| turns.parse().ok());
    let (turns, slice) = match measure {
        true => (turns.unwrap_or(101), Duration::from_millis(8)),
        false => (1, Duration::from_micros(100)),
    };
    let mut all = variants();
    let questions = {
        let first = all.first_mut().expect("the list is not empty");
        questions(slice, first)
    };
    let names: Vec<_> = all.iter().skip(1).map(|variant| variant.name).collect();
    println!(
        "Time relative to a bare tokio socket, medians of {turns} turns; in brackets by the fastest turns.\n"
    );
    println!("| What | {} |", names.join(" | "));
    println!("| --- |{}", " ---: |".repeat(names.len()));
    for (name, order) in questions {
        let mut times = vec![Vec::new(); all.len()];
        for turn in 0..turns {
            for step in 0..all.len() {
                let at = (turn + step) % all.len();
                if let (Some(variant), Some(times)) = (all.get_mut(at), times.get_mut(at)) {
                    times.push((variant.run)(order).as_secs_f64());
                }
            }
        }
        let (bare, others) = times.split_first().expect("the list is not empty");
        let cells: Vec<_> = others
            .iter()
            .map(|these| {
                let ratios = these
                    .iter()
                    .zip(bare)
                    .map(|(this, bare)| this / bare)
                    .collect();
                format!(
                    "{:.3} ({:.3})",
                    median(ratios),
                    fastest(these) / fastest(bare)
                )
            })
            .collect();
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// The mean of the fastest tenth: what the code costs when the machine leaves it alone.
fn fastest(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let tenth = times.len().div_ceil(10);
    times.iter().take(tenth).sum::<f64>() / f64::from(u32::try_from(tenth).unwrap_or(u32::MAX))
}

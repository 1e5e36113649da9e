//! Cost of a layer: blocking sockets, bare tokio, typed stacks and boxed stacks in one run.
//!
//! All variants share one loopback connection, two threads, two runtimes and two buffers, so that
//! they differ only in the layers around the socket: each turn wraps the same connection again.
//! Both ends run on one processor, so that the time includes every instruction of both and no
//! migration or wake-up elsewhere. The socket buffers are fixed, since they would grow during a
//! measurement otherwise, and the congestion control does not pace by timers.
//!
//! In each turn every variant runs one short slice, in random order, and is compared with the
//! slice of the bare tokio socket in the same turn. The output is the median of these ratios and
//! its 95 % interval. The bare socket runs twice: its second column shows the noise.
//!
//! `--alone` keeps the other processors busy meanwhile, so that no other program runs there: two
//! processors of a machine may share a core, and nearly always share a cache.
//!
//! `--instructions` counts the user-space instructions of both ends for one round trip of a
//! message, by valgrind; they depend little on the load of the machine.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a bench prints its results")]

mod exchange;
mod instructions;
mod wrap;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use workspace_benches::machine;
use workspace_benches::paired::{Median, Shuffle};

use crate::exchange::Exchange;
use crate::wrap::{End, LARGEST, Role, Wrap};

/// Requested size of the socket buffers in bytes, the initial size of a receive buffer. The kernel
/// doubles it for its own needs.
const BUFFER: usize = 128 << 10;

/// Turns of a measurement, unless `TURNS` is set, and the duration of one slice.
const TURNS: usize = 401;
const SLICE: Duration = Duration::from_millis(3);

/// The near end, and a channel to the far end.
pub(crate) struct Bench {
    near: End,
    exchanges: mpsc::Sender<(Wrap, Exchange)>,
}

impl Bench {
    /// Connects two threads.
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listening");
        // An accepted connection inherits the buffers of its listener.
        fix(&SockRef::from(&listener));
        let addr = listener.local_addr().expect("an address");
        let near = TcpStream::connect(addr).expect("connecting");
        let (far, _) = listener.accept().expect("accepting");
        for socket in [&near, &far] {
            socket.set_nodelay(true).expect("nodelay");
            fix(&SockRef::from(socket));
        }
        let (exchanges, inbox) = mpsc::channel::<(Wrap, Exchange)>();
        thread::spawn(move || {
            let mut far = End::new(Role::Far, far);
            for (wrap, exchange) in inbox {
                far.run(wrap, exchange);
            }
        });
        Self {
            near: End::new(Role::Near, near),
            exchanges,
        }
    }

    /// Runs an exchange at both ends.
    pub(crate) fn run(&mut self, wrap: Wrap, exchange: Exchange) -> Duration {
        self.exchanges
            .send((wrap, exchange))
            .expect("the far end runs");
        self.near.run(wrap, exchange)
    }

    /// Doubles the number of messages until an exchange fills a slice.
    fn fit(&mut self, exchange: Exchange, slice: Duration) -> Exchange {
        let mut times = 1;
        while times < 1 << 20 && self.run(Wrap::Bare, exchange.times(times)) < slice {
            times *= 2;
        }
        exchange.times(times)
    }
}

fn fix(socket: &SockRef<'_>) {
    socket.set_send_buffer_size(BUFFER).expect("a send buffer");
    socket
        .set_recv_buffer_size(BUFFER)
        .expect("a receive buffer");
    // Every kernel has Reno. Where a sandbox refuses it, all variants share the default.
    let _ = socket.set_tcp_congestion(b"reno");
}

/// Returns the measured exchanges with their names.
fn exchanges() -> Vec<(&'static str, Exchange)> {
    let ping = [
        ("ping-pong, 1 B", 1),
        ("ping-pong, 1 KiB", 1 << 10),
        ("ping-pong, 16 KiB", 16 << 10),
        ("ping-pong, 64 KiB", 64 << 10),
        ("ping-pong, 1 MiB", 1 << 20),
        ("ping-pong, 10 MB", LARGEST),
    ]
    .map(|(name, size)| (name, Exchange::PingPong { size, times: 1 }));
    let bulk = [
        ("bulk, blocks of 64 KiB", 64 << 10),
        ("bulk, blocks of 1 MiB", 1 << 20),
    ]
    .map(|(name, block)| (name, Exchange::Bulk { block, times: 1 }));
    ping.into_iter().chain(bulk).collect()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is = |word: &str| words.iter().any(|given| given == word);
    if let Some(at) = words.iter().position(|word| word == instructions::CHILD) {
        return instructions::child(words.get(at + 1..).unwrap_or_default());
    }
    // Cargo passes `--bench` when it measures; a test runs one short turn.
    let measure = is("--bench");
    if is("--instructions") {
        return instructions::count();
    }
    let turns = std::env::var("TURNS").ok().and_then(|n| n.parse().ok());
    let (turns, slice) = match measure {
        true => (turns.unwrap_or(TURNS), SLICE),
        false => (1, Duration::from_micros(100)),
    };
    println!("{}", machine::caption());
    let _others = is("--alone").then(machine::Occupied::others);
    let pinned = machine::pin_to_last_processor();
    if is("--priority") && !machine::raise_priority() {
        println!("without raised priority, which needs root");
    }
    if !pinned {
        println!("not pinned to one processor: expect noise");
    }
    println!(
        "time relative to a bare tokio socket: medians of {turns} turns, and the 95 % interval of each, in percent\n"
    );
    let [_, others @ ..] = Wrap::ALL;
    let names = others.map(Wrap::name);
    println!("| Exchange | bare, µs | {} |", names.join(" | "));
    println!("| --- | ---: |{}", " ---: |".repeat(names.len()));
    let mut bench = Bench::new();
    let mut shuffle = Shuffle::default();
    for (name, exchange) in exchanges() {
        let exchange = bench.fit(exchange, slice);
        let mut times = Wrap::ALL.map(|_| Vec::with_capacity(turns));
        for _ in 0..turns {
            for at in shuffle.shuffled::<{ Wrap::ALL.len() }>() {
                if let (Some(wrap), Some(times)) = (Wrap::ALL.get(at), times.get_mut(at)) {
                    times.push(bench.run(*wrap, exchange).as_secs_f64());
                }
            }
        }
        let [bare, others @ ..] = &times;
        let cells = others
            .each_ref()
            .map(|these| Median::of(these, bare).percent());
        let (Exchange::PingPong { times, .. } | Exchange::Bulk { times, .. }) = exchange;
        let micros = Median::of(bare, &vec![f64::from(times) * 1e-6; turns]).value;
        println!("| {name} | {micros:.1} | {} |", cells.join(" | "));
    }
}

//! Cost of a layer: blocking sockets, bare tokio, typed stacks and boxed stacks, side by side in one run.
//!
//! One loopback connection, two threads, two runtimes and two buffers serve all variants, so that
//! they differ in nothing but what is put around the socket: for each turn the same connection is
//! wrapped anew. All of it stays on one processor, where every instruction of either end counts, and
//! nothing is moved or woken elsewhere. The socket buffers are fixed, since they would grow in the
//! middle of a measurement otherwise, and congestion control is one that does not pace by timers.
//!
//! In each turn every variant has one short slice, in an order by lot, and is set against the slice
//! of the bare tokio socket in the same turn. What is printed is the median of these ratios and the
//! interval that holds it with 95 %. The bare socket takes part twice: its second column shows how
//! far to trust the others.
//!
//! `--alone` keeps the other processors busy meanwhile, so that no other program runs there: two
//! processors of a machine may share a core, and nearly always share a cache.
//!
//! `--instructions` counts the instructions that both ends execute outside the kernel for one
//! message there and back, by valgrind; they depend little on what else the machine does.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a bench talks to the person who runs it"
)]

mod instructions;
mod talk;
mod wrap;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use socket2::SockRef;
use workspace_benches::machine;
use workspace_benches::middle::{Lot, Middle};

use crate::talk::Order;
use crate::wrap::{End, LARGEST, Role, Wrap};

/// What the socket buffers are asked to hold, in bytes: what a receiver begins with by default. The
/// kernel doubles it for its own needs.
const BUFFER: usize = 128 << 10;

/// Turns of a measurement, unless `TURNS` says otherwise, and the length of one slice.
const TURNS: usize = 401;
const SLICE: Duration = Duration::from_millis(3);

/// The near end, and the way to tell the far end what comes next.
pub(crate) struct Bench {
    near: End,
    orders: mpsc::Sender<(Wrap, Order)>,
}

impl Bench {
    /// Connects two threads.
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("listening");
        // A connection has the buffers of the listener it came through.
        fix(&SockRef::from(&listener));
        let place = listener.local_addr().expect("an address");
        let near = TcpStream::connect(place).expect("connecting");
        let (far, _) = listener.accept().expect("accepting");
        for socket in [&near, &far] {
            socket.set_nodelay(true).expect("nodelay");
            fix(&SockRef::from(socket));
        }
        let (orders, inbox) = mpsc::channel::<(Wrap, Order)>();
        thread::spawn(move || {
            let mut far = End::new(Role::Far, far);
            for (wrap, order) in inbox {
                far.play(wrap, order);
            }
        });
        Self {
            near: End::new(Role::Near, near),
            orders,
        }
    }

    /// Has both ends carry an order out.
    pub(crate) fn run(&mut self, wrap: Wrap, order: Order) -> Duration {
        self.orders
            .send((wrap, order))
            .expect("the far end is there");
        self.near.play(wrap, order)
    }

    /// Repeats an order until it fills a slice.
    fn fit(&mut self, order: Order, slice: Duration) -> Order {
        let mut times = 1;
        while times < 1 << 20 && self.run(Wrap::Bare, order.times(times)) < slice {
            times *= 2;
        }
        order.times(times)
    }
}

fn fix(socket: &SockRef<'_>) {
    socket.set_send_buffer_size(BUFFER).expect("a send buffer");
    socket
        .set_recv_buffer_size(BUFFER)
        .expect("a receive buffer");
    // Every kernel has this one; where a sandbox refuses, all variants share what there is.
    let _ = socket.set_tcp_congestion(b"reno");
}

/// What is measured.
fn questions() -> Vec<(&'static str, Order)> {
    let ping = [
        ("ping-pong, 1 B", 1),
        ("ping-pong, 1 KiB", 1 << 10),
        ("ping-pong, 16 KiB", 16 << 10),
        ("ping-pong, 64 KiB", 64 << 10),
        ("ping-pong, 1 MiB", 1 << 20),
        ("ping-pong, 10 MB", LARGEST),
    ]
    .map(|(name, size)| (name, Order::PingPong { size, times: 1 }));
    let bulk = [
        ("bulk, blocks of 64 KiB", 64 << 10),
        ("bulk, blocks of 1 MiB", 1 << 20),
    ]
    .map(|(name, block)| (name, Order::Bulk { block, times: 1 }));
    ping.into_iter().chain(bulk).collect()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is = |word: &str| words.iter().any(|said| said == word);
    if let Some(at) = words.iter().position(|word| word == instructions::CHILD) {
        return instructions::child(words.get(at + 1..).unwrap_or_default());
    }
    // Cargo passes `--bench` when it measures; as a test, one short turn shows that all works.
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
    let pinned = machine::stay_on_one();
    if is("--priority") && !machine::weigh_more() {
        println!("without priority over other work, which needs root");
    }
    if !pinned {
        println!("not on one processor: expect noise");
    }
    println!(
        "time relative to a bare tokio socket: medians of {turns} turns, and the 95 % interval of each, in percent\n"
    );
    let [_, others @ ..] = Wrap::ALL;
    let names = others.map(Wrap::name);
    println!("| What | bare, µs | {} |", names.join(" | "));
    println!("| --- | ---: |{}", " ---: |".repeat(names.len()));
    let mut bench = Bench::new();
    let mut lot = Lot::default();
    for (name, order) in questions() {
        let order = bench.fit(order, slice);
        let mut times = Wrap::ALL.map(|_| Vec::with_capacity(turns));
        for _ in 0..turns {
            for at in lot.order::<{ Wrap::ALL.len() }>() {
                if let (Some(wrap), Some(times)) = (Wrap::ALL.get(at), times.get_mut(at)) {
                    times.push(bench.run(*wrap, order).as_secs_f64());
                }
            }
        }
        let [bare, others @ ..] = &times;
        let cells = others
            .each_ref()
            .map(|these| Middle::of(these, bare).percent());
        let (Order::PingPong { times, .. } | Order::Bulk { times, .. }) = order;
        let micros = Middle::of(bare, &vec![f64::from(times) * 1e-6; turns]).value;
        println!("| {name} | {micros:.1} | {} |", cells.join(" | "));
    }
}

//! The UDT machine: data from one connection to another, without sockets.

use std::net::SocketAddr;
use std::task::Poll;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use udt_proto::{Connection, Endpoint, Options, Routed};

/// Bytes of one exchange.
const AMOUNT: usize = 4 << 20;
/// Most packets of one call.
const SEGMENTS: usize = 40;

/// Measures the throughput of two machines in one thread: packets built, parsed and acknowledged.
pub(crate) fn machine(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("udt");
    group.throughput(Throughput::Bytes(AMOUNT as u64));
    let mut pair = Pair::connected();
    let data = vec![7; AMOUNT];
    let mut room = vec![0; AMOUNT];
    group.bench_function("4 MiB through the machine", |b| {
        b.iter(|| pair.carry(&data, &mut room))
    });
    group.finish();
}

/// Two connections, and their current time.
struct Pair {
    near: Connection,
    far: Connection,
    now: Instant,
}

impl Pair {
    fn connected() -> Self {
        let now = Instant::now();
        let [here, there] = [1, 2].map(|n| SocketAddr::from(([192, 0, 2, n], 5000)));
        let mut ours = Endpoint::new(now, [1; 16]);
        let mut theirs = Endpoint::new(now, [2; 16]);
        theirs.listen(Options::default(), 10);
        let mut near = ours.connect(now, there, Options::default());
        let mut far = None;
        while !near.is_connected() {
            let mut answers = Vec::new();
            for datagram in datagrams(&mut near, now) {
                match theirs.route(now, here, &datagram, datagram.len()).0 {
                    Routed::Reply(bytes) => answers.push(bytes.to_vec()),
                    Routed::Incoming(connection) => {
                        answers.extend(datagrams(far.insert(*connection), now));
                    }
                    _ => {}
                }
            }
            for answer in answers {
                near.handle_datagrams(now, &answer, answer.len());
            }
        }
        let far = far.expect("the listener has accepted");
        Self { near, far, now }
    }

    /// Transfers `data`, in steps of 100 µs.
    fn carry(&mut self, data: &[u8], room: &mut [u8]) {
        let (mut written, mut read) = (0, 0);
        while read < data.len() {
            self.now += Duration::from_micros(100);
            for connection in [&mut self.near, &mut self.far] {
                connection.handle_timeout(self.now);
            }
            if let Poll::Ready(Ok(n)) = self
                .near
                .write(self.now, data.get(written..).unwrap_or_default())
            {
                written += n;
            }
            pass(&mut self.near, &mut self.far, self.now);
            if let Poll::Ready(Ok(n)) = self
                .far
                .read(self.now, room.get_mut(read..).unwrap_or_default())
            {
                read += n;
            }
            pass(&mut self.far, &mut self.near, self.now);
        }
        assert_eq!(room, data, "the data arrives");
    }
}

/// Delivers the packets of one end to the other.
fn pass(from: &mut Connection, to: &mut Connection, now: Instant) {
    while let Some(transmit) = from.poll_transmit(now, SEGMENTS) {
        let stride = transmit.segment_size.unwrap_or(transmit.contents.len());
        to.handle_datagrams(now, transmit.contents, stride);
        from.on_transmitted(now);
    }
}

fn datagrams(connection: &mut Connection, now: Instant) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    while let Some(transmit) = connection.poll_transmit(now, 1) {
        datagrams.push(transmit.contents.to_vec());
        connection.on_transmitted(now);
    }
    datagrams
}

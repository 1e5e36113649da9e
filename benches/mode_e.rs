//! Framing without I/O: what a block of MODE E costs beside the bytes it carries.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a bench talks to the person who runs it"
)]

use byte_ranges::RangeSet;
use mode_e::{Deframer, Gather, Header, Limits, Next, Scheduler, Step, Streams};
use workspace_benches::timing::nanoseconds;

const BLOCK: u64 = 256 << 10;
const BLOCKS: u64 = 4096;

fn main() {
    let headers: Vec<_> = (0..BLOCKS)
        .map(|n| Header::data(n * BLOCK, BLOCK).to_bytes())
        .collect();
    let receive = nanoseconds(|| {
        let (mut deframer, mut gather) = (
            Deframer::new(Limits::default()),
            Gather::new(Limits::default()),
        );
        let mut good = gather.opened().is_ok();
        for header in &headers {
            good &= matches!(deframer.poll(), Ok(Step::Header { .. }));
            deframer.feed(header);
            if deframer.just_begun() {
                good &= gather.begun().is_ok();
            }
            if let Ok(Step::Payload { offset, len }) = deframer.poll() {
                deframer.moved(len);
                good &= gather.record(offset, len).is_ok();
            }
        }
        assert!(
            good && gather.bytes() == BLOCK * BLOCKS,
            "the bench does not drive the machine"
        );
        gather
    });
    println!("receive a block: {:.0} ns", receive / per(BLOCKS));
    let whole = RangeSet::up_to(BLOCK * BLOCKS);
    let send = nanoseconds(|| {
        let streams = Streams::new(1, 4).expect("four streams are allowed");
        let mut scheduler = Scheduler::new(&whole, BLOCK, streams);
        let mut count = 0;
        while let Next::Data(_) = scheduler.next(count % 4) {
            count += 1;
        }
        count
    });
    println!("schedule a block: {:.0} ns", send / per(BLOCKS));
}

#[expect(clippy::cast_precision_loss, reason = "a small count")]
fn per(count: u64) -> f64 {
    count as f64
}

//! Loss reports of the peer, as the sender takes them in.

use std::time::{Duration, Instant};

use super::Sender;
use crate::error::PeerMisbehaved;
use crate::packet::LossReport;
use crate::rtt::RoundTrip;

/// Time for which the allowance of packets in loss reports has to last.
const REPORT_TIME: Duration = Duration::from_millis(10);

impl Sender {
    /// Takes in a loss report.
    pub(crate) fn on_nak(
        &mut self,
        now: Instant,
        report: LossReport<'_>,
        rtt: RoundTrip,
    ) -> Result<(), PeerMisbehaved> {
        let now_micros = self.micros(now);
        // A retransmission cannot be reported as lost within a round trip.
        let recent = rtt.smoothed() / 4 * 3;
        // Bounds the processor time that a peer can take with its reports.
        if now >= self.looks_again {
            self.look_at = 2 * (self.buffer.next() - self.buffer.acked()) + 64;
            self.looks_again = now + REPORT_TIME;
        }
        let mut reported = None;
        let mut behind = None;
        for range in report {
            let (first, last) = range.map_err(|_| PeerMisbehaved::BadLossReport)?;
            let near = self.buffer.next();
            let (first, last) = (
                self.numbers.index(first, near),
                self.numbers.index(last, near),
            );
            if first > last || last.is_some_and(|last| last >= near) {
                return Err(PeerMisbehaved::BadLossReport);
            }
            let Some(last) = last else { continue };
            let first = first.unwrap_or_default();
            reported = reported.or(Some(first));
            let first = first.max(self.buffer.acked());
            let count = (last + 1).saturating_sub(first);
            if count == 0 {
                continue;
            }
            if count > self.look_at {
                break;
            }
            self.look_at -= count;
            let lost = self.lost;
            self.mark_lost(first, last + 1, now_micros, recent);
            if self.lost > lost {
                let stamp = (last + 1 < near).then(|| self.buffer.stamped(last + 1));
                behind = stamp
                    .flatten()
                    .map(|at| Duration::from_micros(now_micros.wrapping_sub(at).into()));
            }
            // The packet behind the hole has arrived, or the peer would not see a hole.
            self.delivery.reach(now, (last + 2).min(self.buffer.next()));
        }
        if let Some(first) = reported {
            self.blind = None;
            self.on_news(now);
            let mut progress = self.progress(now, rtt, false);
            progress.behind_loss = behind;
            self.controller.on_loss(now, first, &progress);
        }
        Ok(())
    }

    fn mark_lost(&mut self, first: u64, end: u64, now: u32, recent: u32) {
        let mut run = first;
        for index in first..end {
            if !self.buffer.mark_lost(index) {
                self.delivery.on_hole();
                self.lost += 1;
                continue;
            }
            let age = self.buffer.stamped(index).map(|at| now.wrapping_sub(at));
            if age.is_some_and(|age| age >= recent) {
                self.lost += u64::from(!self.loss.contains(index));
                continue;
            }
            self.lose(run, index);
            run = index + 1;
        }
        self.lose(run, end);
    }
}

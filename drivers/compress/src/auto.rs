//! `Auto`: which codec the next block gets, from measured gain, cost and link rate; time is an argument.
//!
//! # How it decides
//!
//! A block that takes `cost` seconds a byte to pack and leaves the share `left` of its length can
//! move no faster than packing does, nor than the link moves what is left:
//!
//! ```text
//! rate = min(threads / cost, link / left)          without a codec: rate = link
//! ```
//!
//! *Cost* and *left* are averages over the blocks that a codec packed. The *link* is measured
//! between two moments at which the layer below took no more: what it took in between, it moved.
//! While that never happens the link is no bottleneck, no codec can help, and none is tried; so a
//! fast link costs nothing. When it does happen, a few kilobytes of a block are packed as a
//! sample. If there is nothing to gain the next sample is taken after twice as many blocks, else
//! each codec that could win gets a block to show what it does.
//!
//! A receiver that unpacks too slowly looks like a slow link. So when the layer below moves fewer
//! bytes of a codec than it moved bare ones, the rate of that codec is capped by what came through,
//! and the cap is lifted after a time that doubles whenever it proves right.

use std::time::{Duration, Instant};

use crate::codec::Algorithm;
use crate::shop::{Choice, Outcome};

/// Shortest time between two moments of a full link that gives a rate.
const SPAN: Duration = Duration::from_millis(20);
/// A pause of this length, not caused by the link, makes what was measured before it worthless.
const IDLE: Duration = Duration::from_millis(5);
/// How long the rate of the link holds without being seen again, at first and at most.
const TRUST: Duration = Duration::from_secs(5);
const LONGEST_TRUST: Duration = Duration::from_secs(120);
/// How long a cap holds, at first and at most.
const CAP: Duration = Duration::from_secs(2);
const LONGEST_CAP: Duration = Duration::from_secs(120);
/// A codec is taken only when it is expected to be better than none by this factor,
const WORTH: f64 = 1.03;
/// and another one when it is expected to be better than the one in use by this.
const CHANGE: f64 = 1.05;
/// Blocks between two samples, or two trials of a codec, at most.
const LONGEST_GAP: u64 = 256;
/// Blocks that a codec packs to show what it does; the first, which makes its tables, does not count.
const TRIAL: u32 = 2;
/// Blocks without gain in a row after which a codec is no longer believed in.
const NO_GAIN: u32 = 3;

/// What the stream does next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Next {
    /// Packs the block so.
    Pack(Choice),
    /// Packs a sample of the block so, and says what was left to [`Auto::sampled`].
    Sample(Choice),
}

/// A codec and what is known of it.
#[derive(Debug)]
struct Candidate {
    choice: Choice,
    /// Bytes per second that it hardly exceeds on any machine.
    hope: f64,
    /// Seconds per byte, once it was tried.
    cost: Option<f64>,
    /// Share of the length that is left.
    left: f64,
    /// Blocks that it has still to pack before it is judged.
    trial: u32,
    next_trial: u64,
    trial_gap: u64,
    without_gain: u32,
    /// Rate that the receiver bears, until when that holds, and for how long it did.
    cap: Option<(f64, Instant)>,
    cap_time: Duration,
}

/// The codecs that take part, the cheapest first, and the bytes per second that each hardly exceeds.
const FIELD: &[(Algorithm, i32, f64)] = &[
    (Algorithm::Lz4, 0, 4e9),
    (Algorithm::Lzo, 3, 3e9),
    (Algorithm::Zstd, 1, 2e9),
    (Algorithm::Zstd, 3, 1.5e9),
    (Algorithm::Zlib, 6, 3e8),
    (Algorithm::Zstd, 9, 3e8),
    (Algorithm::Zstd, 15, 4e7),
];
/// What a sample is packed with: cheap, and better than a search for repeats alone.
const SAMPLER: Choice = Choice {
    algorithm: Algorithm::Zstd,
    level: 1,
};

/// The rate of the link, and how long it holds.
#[derive(Debug, Clone, Copy)]
struct Link {
    rate: f64,
    until: Instant,
}

/// What was measured since the link was full for the last time.
#[derive(Debug, Clone, Copy)]
struct Span {
    began: Instant,
    wire: u64,
    original: u64,
    /// Time that the link was full for.
    blocked: Duration,
    /// The one choice of all its blocks, or none if there were several.
    choice: Option<Choice>,
}

/// The decision machine of one stream.
#[derive(Debug)]
pub(crate) struct Auto {
    candidates: Vec<Candidate>,
    current: Choice,
    threads: f64,
    /// Share of its length that a block may have left to count as compressible.
    most: f64,
    link: Option<Link>,
    trust: Duration,
    span: Option<Span>,
    /// The one choice of the span before.
    before: Option<Choice>,
    /// When it last heard of anything, and whether the link was full then.
    heard: Option<(Instant, bool)>,
    wire: u64,
    original: u64,
    blocks: u64,
    next_sample: u64,
    sample_gap: u64,
    /// What the last sample left; a guess at what codecs that are not yet tried leave.
    sample: f64,
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-9)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a rate needs no more than 52 bits"
)]
fn amount(bytes: u64) -> f64 {
    bytes as f64
}

impl Auto {
    /// A stream that packs on so many threads, and takes blocks for compressible that leave `most`.
    pub(crate) fn new(threads: usize, most: f64) -> Self {
        let candidates = FIELD
            .iter()
            .filter(|(algorithm, ..)| algorithm.is_built())
            .map(|&(algorithm, level, hope)| Candidate::new(Choice { algorithm, level }, hope));
        Self {
            candidates: candidates.collect(),
            current: Choice::STORED,
            threads: amount(threads as u64),
            most,
            link: None,
            trust: TRUST,
            span: None,
            before: Some(Choice::STORED),
            heard: None,
            wire: 0,
            original: 0,
            blocks: 0,
            next_sample: 0,
            sample_gap: 1,
            sample: 1.0,
        }
    }

    /// What most blocks get now.
    pub(crate) const fn current(&self) -> Choice {
        self.current
    }

    /// Says how the next block is packed.
    pub(crate) fn choose(&mut self, now: Instant) -> Next {
        self.hear(now, false);
        self.blocks += 1;
        let Some(link) = self.link.filter(|link| now < link.until) else {
            self.link = None;
            self.current = Choice::STORED;
            return self.take(Choice::STORED);
        };
        for candidate in &mut self.candidates {
            if candidate.cap.is_some_and(|(_, until)| now >= until) {
                candidate.cap = None;
            }
        }
        let could_help = |c: &Candidate| c.limit(self.threads * c.hope) > link.rate * WORTH;
        if !self.candidates.iter().any(could_help) {
            self.current = Choice::STORED;
            return self.take(Choice::STORED);
        }
        if self.sample >= self.most {
            self.current = Choice::STORED;
            if self.blocks >= self.next_sample {
                return Next::Sample(SAMPLER);
            }
            return self.take(Choice::STORED);
        }
        let choice = self.best(link.rate);
        self.take(choice)
    }

    /// Takes note of what was left of a sample, and says how the block is packed.
    pub(crate) fn sampled(&mut self, left: f64) -> Choice {
        self.sample = left;
        if left >= self.most {
            self.sample_gap = (self.sample_gap * 2).min(LONGEST_GAP);
            self.next_sample = self.blocks + self.sample_gap;
            self.take(Choice::STORED);
            return Choice::STORED;
        }
        self.sample_gap = 1;
        for candidate in &mut self.candidates {
            candidate.forget(self.blocks);
        }
        let rate = self.link.map_or(f64::INFINITY, |link| link.rate);
        let choice = self.best(rate);
        self.take(choice);
        choice
    }

    /// Takes note of what a block came to.
    pub(crate) fn packed(&mut self, now: Instant, outcome: &Outcome) {
        self.hear(now, false);
        if outcome.time.is_zero() || outcome.original == 0 {
            return;
        }
        let Some(candidate) = self
            .candidates
            .iter_mut()
            .find(|c| c.choice == outcome.choice)
        else {
            return;
        };
        let original = amount(outcome.original as u64);
        let cost = seconds(outcome.time) / original;
        let left = (amount(outcome.packed as u64) / original).min(1.0);
        candidate.learn(cost, left);
        if left >= self.most {
            candidate.without_gain += 1;
        } else {
            candidate.without_gain = 0;
        }
        // Data that cannot be compressed any more are found out of by samples from here on.
        if candidate.without_gain >= NO_GAIN {
            candidate.without_gain = 0;
            self.sample = 1.0;
            self.sample_gap = 1;
            self.next_sample = self.blocks + 1;
        }
    }

    /// Takes note of all that was taken by the layer below, and of all that was written above.
    pub(crate) fn moved(&mut self, wire: u64, original: u64) {
        self.wire = wire;
        self.original = original;
    }

    /// Takes note that the layer below takes no more for now.
    pub(crate) fn full(&mut self, now: Instant) {
        self.hear(now, true);
        let Some(span) = self.span else {
            self.begin_span(now);
            return;
        };
        let time = now.saturating_duration_since(span.began);
        if time < SPAN {
            return;
        }
        let rate = amount(self.wire - span.wire) / seconds(time);
        let through = amount(self.original - span.original) / seconds(time);
        let blocked = span.blocked * 2 >= time;
        // What the span moved is in part what was queued before it.
        let choice = span.choice.filter(|_| span.choice == self.before);
        self.before = span.choice;
        self.measure(now, rate, through, blocked, choice);
        self.begin_span(now);
    }

    /// Whether it waits for the layer below to take bytes again.
    pub(crate) fn is_full(&self) -> bool {
        self.heard.is_some_and(|(_, full)| full)
    }

    /// Takes note that the layer below takes bytes again.
    pub(crate) fn free(&mut self, now: Instant) {
        self.hear(now, false);
    }

    fn begin_span(&mut self, now: Instant) {
        self.span = Some(Span {
            began: now,
            wire: self.wire,
            original: self.original,
            blocked: Duration::ZERO,
            choice: Some(self.current),
        });
    }

    /// Learns from a span: about the link, or about what the receiver bears.
    fn measure(
        &mut self,
        now: Instant,
        rate: f64,
        through: f64,
        blocked: bool,
        choice: Option<Choice>,
    ) {
        let bare = choice == Some(Choice::STORED) && blocked;
        let known = self.link.map(|link| link.rate);
        if known.is_none() && !bare {
            return;
        }
        if let Some(known) = known.filter(|known| !bare && rate < *known) {
            // It was the receiver, or packing, that held this span up, and no news of the link.
            if blocked && rate < 0.8 * known {
                self.cap(now, through, choice);
            } else if let Some(link) = &mut self.link {
                link.until = link.until.max(now + TRUST.min(self.trust));
            }
            return;
        }
        // What is confirmed is trusted for longer, since measuring it again costs bare blocks.
        self.trust = match known {
            Some(known) if (rate / known - 1.0).abs() < 0.25 => (self.trust * 2).min(LONGEST_TRUST),
            _ => TRUST,
        };
        self.link = Some(Link {
            rate,
            until: now + self.trust,
        });
    }

    fn cap(&mut self, now: Instant, through: f64, choice: Option<Choice>) {
        let slow = self
            .candidates
            .iter_mut()
            .find(|c| Some(c.choice) == choice);
        if let Some(candidate) = slow {
            candidate.cap = Some((through, now + candidate.cap_time));
            candidate.cap_time = (candidate.cap_time * 2).min(LONGEST_CAP);
        }
    }

    /// Keeps account of pauses: those of the link belong to the span, others end it.
    fn hear(&mut self, now: Instant, full: bool) {
        if let Some((before, was_full)) = self.heard.replace((now, full)) {
            let pause = now.saturating_duration_since(before);
            match &mut self.span {
                Some(span) if was_full => span.blocked += pause,
                Some(_) if pause > IDLE => self.span = None,
                _ => {}
            }
        }
    }

    /// Notes in the span what a block gets.
    fn take(&mut self, choice: Choice) -> Next {
        if let Some(span) = &mut self.span
            && span.choice != Some(choice)
        {
            span.choice = None;
        }
        Next::Pack(choice)
    }

    /// The choice that moves most over a link of this rate, or one that has yet to show what it does.
    fn best(&mut self, link: f64) -> Choice {
        let (threads, blocks, sample) = (self.threads, self.blocks, self.sample);
        let rate_now = self
            .candidates
            .iter()
            .find(|c| c.choice == self.current)
            .map_or(link, |c| c.rate(threads, link));
        let mut best = (Choice::STORED, link * WORTH);
        for candidate in &self.candidates {
            let mut rate = candidate.rate(threads, link);
            if candidate.choice == self.current {
                rate *= CHANGE;
            }
            if rate > best.1 {
                best = (candidate.choice, rate);
            }
        }
        self.current = best.0;
        let bar = rate_now.max(link) * CHANGE;
        let on_trial = self.candidates.iter_mut().find(|c| {
            c.trial > 0
                || (c.choice != best.0
                    && blocks >= c.next_trial
                    && c.promise(threads, link, sample) > bar)
        });
        match on_trial {
            Some(candidate) => {
                candidate.try_now(blocks);
                candidate.choice
            }
            None => best.0,
        }
    }
}

impl Candidate {
    fn new(choice: Choice, hope: f64) -> Self {
        Self {
            choice,
            hope,
            cost: None,
            left: 1.0,
            trial: 0,
            next_trial: 0,
            trial_gap: 8,
            without_gain: 0,
            cap: None,
            cap_time: CAP,
        }
    }

    fn limit(&self, rate: f64) -> f64 {
        self.cap.map_or(rate, |(cap, _)| rate.min(cap))
    }

    /// The rate at which original bytes are expected to move; 0 while nothing is known.
    fn rate(&self, threads: f64, link: f64) -> f64 {
        self.cost.map_or(0.0, |cost| {
            self.limit((threads / cost).min(link / self.left))
        })
    }

    /// The rate that is thought possible, so that it is worth a trial.
    fn promise(&self, threads: f64, link: f64, sample: f64) -> f64 {
        let possible = match self.cost {
            None => (threads * self.hope).min(link / (sample * 0.6)),
            // What was measured may have been a moment's bad luck, or other data.
            Some(cost) => 1.1 * (threads / cost).min(link / self.left),
        };
        self.limit(possible)
    }

    fn try_now(&mut self, blocks: u64) {
        if self.trial == 0 {
            self.trial = TRIAL;
            self.next_trial = blocks + self.trial_gap;
            self.trial_gap = (self.trial_gap * 2).min(LONGEST_GAP);
        }
        self.trial -= 1;
    }

    fn learn(&mut self, cost: f64, left: f64) {
        let new = match self.cost {
            None => (cost, left),
            // A trial judges by its better blocks: the others were held up by something else.
            Some(old) if self.trial > 0 => (old.min(cost), self.left * 0.5 + left * 0.5),
            Some(old) => (old * 0.75 + cost * 0.25, self.left * 0.75 + left * 0.25),
        };
        self.cost = Some(new.0);
        self.left = new.1.max(1e-4);
    }

    /// Forgets what other data taught.
    fn forget(&mut self, blocks: u64) {
        self.cost = None;
        self.left = 1.0;
        self.trial = 0;
        self.next_trial = blocks;
        self.trial_gap = 8;
        self.without_gain = 0;
    }
}

#[cfg(test)]
mod tests;

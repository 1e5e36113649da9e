//! `Auto`: chooses the codec of each block from measured gain, cost and link rate; has no clock.
//!
//! # How it decides
//!
//! A block that takes `cost` seconds a byte to pack, to the share `left` of its length, moves no
//! faster than packing, nor than the link moves the packed bytes:
//!
//! ```text
//! rate = min(threads / cost, link / left)          without a codec: rate = link
//! ```
//!
//! *Cost* and *left* come from packed blocks; see below. The *link* is measured between two moments
//! at which the layer below took no more: it moved the bytes that it took in between. While that
//! never happens the link is no bottleneck, no codec can help, and none is tried; so a fast link
//! costs nothing. When it does happen, a few kilobytes of a block are packed as a sample. If there
//! is no gain, the next sample is taken after twice as many blocks. Else all codecs that could win
//! pack the same block in a contest, the next one after twice as many blocks. Different blocks do
//! not compare codecs, so a contest compares each with the reference, the codec of samples; and
//! every sent block updates the cost and gain of the reference on the present data and machine.
//!
//! A receiver that unpacks too slowly looks like a slow link. So when a codec moves fewer original
//! bytes than the bare link did, that rate caps the codec, for a time that doubles whenever the cap
//! proves right.

mod candidate;

use std::time::{Duration, Instant};

use self::candidate::{Candidate, FIELD, LONGEST_CAP, Measure, SAMPLER, amount, seconds};
use crate::codec_cache::{Choice, Outcome};

/// Shortest time between two moments of a full link that gives a rate.
const SPAN: Duration = Duration::from_millis(20);
/// A pause of this length, not caused by the link, ends a measurement.
const IDLE: Duration = Duration::from_millis(5);
/// Time that a measured rate of the link holds, at first and at most.
const TRUST: Duration = Duration::from_secs(5);
const LONGEST_TRUST: Duration = Duration::from_secs(120);
/// A codec is taken only when it is expected to be better than none by this factor,
const WORTH: f64 = 1.03;
/// and another one when it is expected to be better than the one in use by this.
const CHANGE: f64 = 1.05;
/// Blocks between two samples, or two contests, at most.
const LONGEST_GAP: u64 = 256;
/// A wait of this length shows that the link is slow before its rate is known.
const SLOW: Duration = Duration::from_millis(5);
/// Blocks without gain in a row after which a codec is dropped.
const NO_GAIN: u32 = 3;

/// The next action of the stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    /// Packs the block by this choice.
    Pack(Choice),
    /// Packs a sample of the block, and passes the result to [`Auto::sampled`].
    Sample(Choice),
    /// Packs the block by each choice, and sends the smallest result.
    Contest(Vec<Choice>),
}

/// The rate of the link, and the time that it holds.
#[derive(Debug, Clone, Copy)]
struct Link {
    rate: f64,
    until: Instant,
    /// Whether it is a first guess.
    guess: bool,
}

/// Measurements since the link was last full.
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
    /// Largest share of its length that a compressible block may have left.
    most: f64,
    link: Option<Link>,
    trust: Duration,
    span: Option<Span>,
    /// The one choice of the span before.
    before: Option<Choice>,
    /// Time of the last event, and whether the link was full then.
    heard: Option<(Instant, bool)>,
    wire: u64,
    original: u64,
    blocks: u64,
    next_sample: u64,
    sample_gap: u64,
    next_contest: u64,
    contest_gap: u64,
    without_gain: u32,
    /// Expected cost and gain of the reference now.
    base: Option<Measure>,
    /// Time of the first block.
    began: Option<Instant>,
    /// Share left of the last sample; the guess for untried codecs.
    sample: f64,
}

impl Auto {
    /// A stream that packs on `threads` threads, and counts blocks as compressible up to the share
    /// `most`.
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
            next_contest: 0,
            contest_gap: 1,
            without_gain: 0,
            base: None,
            began: None,
            sample: 1.0,
        }
    }

    /// The choice of most blocks now.
    pub(crate) const fn current(&self) -> Choice {
        self.current
    }

    /// Returns the choice for the next block.
    pub(crate) fn choose(&mut self, now: Instant) -> Next {
        self.began.get_or_insert(now);
        self.hear(now, false);
        self.blocks += 1;
        let Some(link) = self.link.filter(|link| now < link.until) else {
            self.link = None;
            return self.take(Choice::STORED);
        };
        for candidate in &mut self.candidates {
            if candidate.cap.is_some_and(|(_, until)| now >= until) {
                candidate.cap = None;
            }
        }
        let could_help = |c: &Candidate| c.limit(self.threads * c.hope) > link.rate * WORTH;
        if !self.candidates.iter().any(could_help) {
            return self.take(Choice::STORED);
        }
        if self.sample < self.most {
            return self.pick(link.rate);
        }
        if self.blocks >= self.next_sample {
            return Next::Sample(SAMPLER);
        }
        self.take(Choice::STORED)
    }

    /// Records the share left of a sample, and returns the choice for the block.
    pub(crate) fn sampled(&mut self, left: f64) -> Next {
        self.sample = left;
        if left >= self.most {
            self.sample_gap = (self.sample_gap * 2).min(LONGEST_GAP);
            self.next_sample = self.blocks + self.sample_gap;
            return self.take(Choice::STORED);
        }
        self.sample_gap = 1;
        self.contest_gap = 1;
        self.next_contest = self.blocks;
        self.base = None;
        for candidate in &mut self.candidates {
            candidate.contests = 0;
        }
        self.pick(self.link.map_or(f64::INFINITY, |link| link.rate))
    }

    /// Records the results of a block, of one codec or of all in a contest.
    pub(crate) fn packed(&mut self, now: Instant, outcomes: &[Outcome]) {
        self.hear(now, false);
        let measured: Vec<_> = outcomes.iter().filter_map(Outcome::measure).collect();
        let least = measured.iter().map(|(_, m)| m.left).fold(1.0, f64::min);
        match measured.as_slice() {
            [] => return,
            [(choice, measure)] => self.learn(*choice, *measure),
            all => self.judge(all),
        }
        self.without_gain = if least < self.most {
            0
        } else {
            self.without_gain + 1
        };
        // From here on samples find out when data can be compressed again.
        if self.without_gain >= NO_GAIN {
            self.without_gain = 0;
            self.sample = 1.0;
            self.sample_gap = 1;
            self.next_sample = self.blocks + 1;
        }
    }

    /// Updates the reference from a block that one codec packed.
    fn learn(&mut self, choice: Choice, measure: Measure) {
        let found = self
            .candidates
            .iter()
            .find(|c| c.choice == choice && c.contests > 0);
        let (Some(candidate), Some(base)) = (found, &mut self.base) else {
            return;
        };
        let now = measure.times(candidate.reference, candidate.own);
        *base = base.mix(now, 0.125);
    }

    /// Updates the candidates from a contest.
    fn judge(&mut self, all: &[(Choice, Measure)]) {
        let Some((_, reference)) = all.iter().find(|(choice, _)| *choice == SAMPLER) else {
            return;
        };
        self.base = Some(
            self.base
                .map_or(*reference, |base| base.mix(*reference, 0.25)),
        );
        for (choice, own) in all {
            if let Some(candidate) = self.candidates.iter_mut().find(|c| c.choice == *choice) {
                candidate.compare(*own, *reference);
            }
        }
    }

    /// Records the bytes taken by the layer below, and those written above.
    pub(crate) fn moved(&mut self, wire: u64, original: u64) {
        self.wire = wire;
        self.original = original;
    }

    /// Records that the layer below takes no more for now.
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
        // The span moved bytes that were queued before it.
        let choice = span.choice.filter(|_| span.choice == self.before);
        self.before = span.choice;
        self.measure(now, rate, through, blocked, choice);
        self.begin_span(now);
    }

    /// Whether it waits for the layer below to take bytes again.
    pub(crate) fn is_full(&self) -> bool {
        self.heard.is_some_and(|(_, full)| full)
    }

    /// Records that the layer below takes bytes again.
    pub(crate) fn free(&mut self, now: Instant) {
        let wait = self
            .heard
            .map(|(before, _)| now.saturating_duration_since(before));
        self.hear(now, false);
        let Some(began) = self.began else { return };
        // The bytes taken since the beginning are more than the link has moved.
        if self.link.is_none() && self.trust == TRUST && wait.is_some_and(|wait| wait >= SLOW) {
            let time = now.saturating_duration_since(began);
            let rate = amount(self.wire) / seconds(time);
            self.link = Some(Link {
                rate,
                until: now + TRUST,
                guess: true,
            });
        }
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

    /// Updates the rate of the link, or the cap of a codec, from a span.
    fn measure(
        &mut self,
        now: Instant,
        rate: f64,
        through: f64,
        blocked: bool,
        choice: Option<Choice>,
    ) {
        let bare = choice == Some(Choice::STORED) && blocked;
        let Some(link) = &mut self.link else {
            if bare {
                self.link = Some(Link {
                    rate,
                    until: now + self.trust,
                    guess: false,
                });
            }
            return;
        };
        if link.guess {
            if blocked {
                link.rate = rate;
            }
            if bare {
                link.guess = false;
            }
            return;
        }
        if bare || rate > link.rate {
            // A confirmed rate holds for longer, since measuring it again costs bare blocks.
            let confirmed = (rate / link.rate - 1.0).abs() < 0.25;
            self.trust = if confirmed {
                (self.trust * 2).min(LONGEST_TRUST)
            } else {
                TRUST
            };
            link.until = link.until.max(now + self.trust);
            link.rate = if bare {
                (link.rate + rate) / 2.0
            } else {
                link.rate * 0.75 + rate * 0.25
            };
        } else if blocked && rate > 0.8 * link.rate {
            link.until = link.until.max(now + self.trust);
        } else if blocked && through < link.rate {
            self.cap(now, through, choice);
        }
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

    /// Records pauses: those of the link belong to the span, others end it.
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

    /// Records the choice of a block in the span.
    fn take(&mut self, choice: Choice) -> Next {
        self.current = choice;
        if let Some(span) = &mut self.span
            && span.choice != Some(choice)
        {
            span.choice = None;
        }
        Next::Pack(choice)
    }

    /// The choice that moves most over a link of this rate, or a contest when one is due.
    fn pick(&mut self, link: f64) -> Next {
        let (threads, sample, base) = (self.threads, self.sample, self.base);
        let rate = |c: &Candidate| {
            c.measure(base)
                .map(|m| c.limit((threads / m.cost).min(link / m.left)))
        };
        let mut best = (Choice::STORED, link * WORTH);
        for candidate in &self.candidates {
            let rate = rate(candidate).unwrap_or(0.0);
            let rate = if candidate.choice == self.current {
                rate * CHANGE
            } else {
                rate
            };
            if rate > best.1 {
                best = (candidate.choice, rate);
            }
        }
        if self.blocks < self.next_contest {
            return self.take(best.0);
        }
        self.next_contest = self.blocks + self.contest_gap;
        self.contest_gap = (self.contest_gap * 2).min(LONGEST_GAP);
        // A bad measurement may be chance, and an untried codec may be good.
        let promise = |c: &Candidate| match rate(c) {
            Some(rate) => rate * 1.2,
            None => c.limit((threads * c.hope).min(link / (sample * 0.6))),
        };
        let takes_part =
            |c: &&Candidate| c.choice == SAMPLER || c.choice == best.0 || promise(c) > best.1;
        let contest: Vec<_> = self
            .candidates
            .iter()
            .filter(takes_part)
            .map(|c| c.choice)
            .collect();
        if contest.len() < 2 {
            return self.take(best.0);
        }
        // The span's blocks then count for no choice.
        if let Some(span) = &mut self.span {
            span.choice = None;
        }
        self.current = best.0;
        Next::Contest(contest)
    }
}

#[cfg(test)]
mod tests;

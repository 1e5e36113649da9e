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
//! *Cost* and *left* come from blocks that were packed; see below. The *link* is measured
//! between two moments at which the layer below took no more: what it took in between, it moved.
//! While that never happens the link is no bottleneck, no codec can help, and none is tried; so a
//! fast link costs nothing. When it does happen, a few kilobytes of a block are packed as a
//! sample. If there is nothing to gain the next sample is taken after twice as many blocks, else
//! all codecs that could win pack the same block in a contest, the next one after twice as many
//! blocks. Different blocks say nothing about codecs, so a contest tells how each compares with the
//! one that samples are packed with; and every block that is sent tells what that one would now
//! cost and leave, as data and machine are.
//!
//! A receiver that unpacks too slowly looks like a slow link. So when fewer original bytes come
//! through by a codec than the link moved bare ones, the rate of that codec is capped by that, and
//! the cap is lifted after a time that doubles whenever it proves right.

mod candidate;

use std::time::{Duration, Instant};

use self::candidate::{Candidate, FIELD, LONGEST_CAP, Measure, SAMPLER, amount, seconds};
use crate::codec_cache::{Choice, Outcome};

/// Shortest time between two moments of a full link that gives a rate.
const SPAN: Duration = Duration::from_millis(20);
/// A pause of this length, not caused by the link, makes what was measured before it worthless.
const IDLE: Duration = Duration::from_millis(5);
/// How long the rate of the link holds without being seen again, at first and at most.
const TRUST: Duration = Duration::from_secs(5);
const LONGEST_TRUST: Duration = Duration::from_secs(120);
/// A codec is taken only when it is expected to be better than none by this factor,
const WORTH: f64 = 1.03;
/// and another one when it is expected to be better than the one in use by this.
const CHANGE: f64 = 1.05;
/// Blocks between two samples, or two contests, at most.
const LONGEST_GAP: u64 = 256;
/// A wait of this length says that the link is slow before its rate is known.
const SLOW: Duration = Duration::from_millis(5);
/// Blocks without gain in a row after which a codec is no longer believed in.
const NO_GAIN: u32 = 3;

/// What the stream does next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    /// Packs the block so.
    Pack(Choice),
    /// Packs a sample of the block so, and says what was left to [`Auto::sampled`].
    Sample(Choice),
    /// Packs the block in each of these ways, and sends the smallest.
    Contest(Vec<Choice>),
}

/// The rate of the link, and how long it holds.
#[derive(Debug, Clone, Copy)]
struct Link {
    rate: f64,
    until: Instant,
    /// Whether it is no more than a first guess.
    guess: bool,
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
    next_contest: u64,
    contest_gap: u64,
    without_gain: u32,
    /// What the reference would take and leave now.
    base: Option<Measure>,
    /// When the first block came.
    began: Option<Instant>,
    /// What the last sample left; a guess at what codecs that are not yet tried leave.
    sample: f64,
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
            next_contest: 0,
            contest_gap: 1,
            without_gain: 0,
            base: None,
            began: None,
            sample: 1.0,
        }
    }

    /// What most blocks get now.
    pub(crate) const fn current(&self) -> Choice {
        self.current
    }

    /// Says how the next block is packed.
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

    /// Takes note of what was left of a sample, and says how the block is packed.
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

    /// Takes note of what a block came to, by the codec that packed it or by all of a contest.
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

    /// Learns from a block that one codec packed how data and machine are now.
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

    /// Learns from a contest how codecs compare.
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
        let wait = self
            .heard
            .map(|(before, _)| now.saturating_duration_since(before));
        self.hear(now, false);
        let Some(began) = self.began else { return };
        // All that was taken since the beginning is more than the link has moved.
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
            // What is confirmed is trusted for longer, since measuring it again costs bare blocks.
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
        // What was measured may have been bad luck, and what was not may be good.
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
        // The span's blocks are nobody's then.
        if let Some(span) = &mut self.span {
            span.choice = None;
        }
        self.current = best.0;
        Next::Contest(contest)
    }
}

#[cfg(test)]
mod tests;

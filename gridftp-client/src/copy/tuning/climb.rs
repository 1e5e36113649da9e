//! `Climber`: finds the streams of a file and the number of files at once by hill-climbing.
//!
//! Each period of a copy is an input, so that it needs no clock. The score of a setting is that of
//! Falcon (Arifuzzaman and Arslan, 2021): the rate, less a part for each connection, and less a part
//! for lost segments. A step is gated by the measurements of the sender, at this end or as its server
//! tells them.

use std::time::Duration;

use gridftp_data::Limit;

use super::bounds::{Bounds, Knob, Setting};

/// Part of the rate by which one more connection has to pay.
const COST: f64 = 1.02;
/// Weight of the part of the segments that are sent again.
const LOSS: f64 = 10.0;
/// Most that loss takes from a score, so that more is still better than less.
const MOST_LOSS: f64 = 0.5;
/// Periods after a change that count for nothing: connections open, and windows grow.
const WARM: u32 = 2;
/// Periods of one measurement.
const MEASURED: u32 = 3;
/// Score that a larger setting needs, as a part of the smaller one's.
const GAIN: f64 = 1.03;
/// Periods in which a number of files at once is waited for.
const PATIENCE: u32 = 15;
/// Scores, as parts of the settled one, beyond which the path is another.
const SAME: std::ops::RangeInclusive<f64> = 0.7..=1.4;
/// Measurements of a settled setting before it may be searched for anew, at first and at most.
const SETTLED: (u32, u32) = (4, 256);

/// The measurements of the sender in a period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) limit: Option<Limit>,
    /// Part of the segments that were sent again.
    pub(crate) loss: f64,
}

/// One period of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    pub(crate) took: Duration,
    /// Bytes moved, with the cost of small files in bytes.
    pub(crate) bytes: u64,
    /// The setting in force in all of it.
    pub(crate) in_force: Setting,
    /// Whether files are under way whose streams can be chosen.
    pub(crate) has_streams: bool,
    /// Whether more files wait.
    pub(crate) waits: bool,
    pub(crate) sender: Option<Sender>,
}

/// A direction that is searched in steps, which double while they gain and halve when they do not.
#[derive(Debug, Clone, Copy)]
struct Search {
    knob: Knob,
    up: bool,
    /// The next step; `None` for the value of the knob, or half of it downward.
    step: Option<u32>,
    is_over: bool,
}

/// The searches of both directions of both numbers, in their order.
const SEARCHES: [Search; 4] = [
    Search::new(Knob::Streams, true),
    Search::new(Knob::Files, true),
    Search::new(Knob::Streams, false),
    Search::new(Knob::Files, false),
];

impl Search {
    const fn new(knob: Knob, up: bool) -> Self {
        let (step, is_over) = (None, false);
        Self {
            knob,
            up,
            step,
            is_over,
        }
    }

    /// Whether the measurements of the sender speak against it.
    fn is_gated(&self, period: &Period) -> bool {
        let limit = period.sender.and_then(|sender| sender.limit);
        match (self.knob, self.up, limit) {
            (Knob::Streams, true, Some(limit)) if limit.is_at_an_end() => true,
            (Knob::Files, true, Some(Limit::Receiver)) => true,
            (Knob::Streams, ..) => !period.has_streams,
            // Connections for small files wait most of the time, and cost little.
            (Knob::Files, up, _) => !if up { period.waits } else { period.has_streams },
        }
    }

    /// The next setting; ends the search where there is none.
    fn next(&mut self, base: Setting, bounds: &Bounds, tried: &[Setting]) -> Option<Setting> {
        let now = base.of(self.knob);
        let first = if self.up { now } else { now / 2 };
        let mut step = self.step.unwrap_or(first);
        while !self.is_over {
            let value = match self.up {
                true => now.saturating_add(step),
                false => now.saturating_sub(step),
            };
            let next = base.with(self.knob, value.max(1));
            // The other number stays.
            let held = bounds.hold(next).of(self.knob);
            let next = base.with(self.knob, held);
            let is_within = bounds.hold(next) == next;
            if step > 0 && next != base && is_within && !tried.contains(&next) {
                self.step = Some(step);
                return Some(next);
            }
            step = self.halve(step, now);
        }
        None
    }

    /// Halves the step; one below half of the number, or a quarter downward, ends the search.
    fn halve(&mut self, step: u32, now: u32) -> u32 {
        let half = step / 2;
        let least = if self.up { now / 2 } else { now / 4 };
        self.is_over = half < least.max(1);
        self.step = Some(half);
        half
    }
}

/// The sums of a measurement.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    periods: u32,
    bytes: u64,
    took: Duration,
    loss: f64,
}

/// A setting with its measurement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) setting: Setting,
    /// Bytes a second.
    pub(crate) rate: u64,
    score: f64,
}

impl Sum {
    fn add(&mut self, period: &Period) {
        self.periods += 1;
        self.bytes = self.bytes.saturating_add(period.bytes);
        self.took += period.took;
        self.loss += period.sender.map_or(0.0, |sender| sender.loss);
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not below 0, and far below 2^52"
    )]
    fn measured(self, setting: Setting, has_streams: bool) -> Measured {
        let rate = self.bytes as f64 / self.took.as_secs_f64().max(1e-3);
        let loss = self.loss / f64::from(self.periods.max(1));
        let connections = match has_streams {
            true => setting.connections(),
            false => setting.files,
        };
        let connections = i32::try_from(connections).unwrap_or(i32::MAX);
        let worth = COST.powi(-connections) - (LOSS * loss).clamp(0.0, MOST_LOSS);
        Measured {
            setting,
            rate: rate as u64,
            score: rate * worth.max(1e-6),
        }
    }
}

/// Hill-climbing over both numbers.
#[derive(Debug)]
pub(crate) struct Climber {
    bounds: Bounds,
    /// The setting that is to be in force.
    asked: Setting,
    /// The best setting so far.
    best: Option<Measured>,
    /// The search that `asked` is a step of.
    trial: Option<usize>,
    searches: [Search; 4],
    tried: Vec<Setting>,
    has_streams: bool,
    warm: u32,
    sum: Sum,
    /// Periods in which the files that were asked for were not under way.
    unmet: u32,
    /// Measurements since the last search ended, and those needed before the next.
    settled: u32,
    hold: u32,
}

impl Climber {
    pub(crate) fn new(start: Setting, bounds: Bounds) -> Self {
        Self {
            bounds,
            asked: bounds.hold(start),
            best: None,
            trial: None,
            searches: SEARCHES,
            tried: Vec::new(),
            has_streams: false,
            warm: WARM,
            sum: Sum::default(),
            unmet: 0,
            settled: 0,
            hold: SETTLED.0,
        }
    }

    /// The setting that is to be in force.
    pub(crate) fn asked(&self) -> Setting {
        self.asked
    }

    /// The streams of the next large file, which may be the first among small ones.
    pub(crate) fn streams(&self) -> u32 {
        let most = self.bounds.connections / self.asked.files.max(1);
        let most = most.max(self.bounds.least.streams);
        self.asked.streams.min(most).max(1)
    }

    /// The bounds of the files under way; small ones have a connection each.
    fn in_use(&self) -> Bounds {
        let connections = match self.has_streams {
            true => self.bounds.connections,
            false => u32::MAX,
        };
        Bounds {
            connections,
            ..self.bounds
        }
    }

    fn held(&self, setting: Setting) -> Setting {
        self.in_use().hold(setting)
    }

    /// Whether the files under way have streams to choose.
    pub(crate) fn has_streams(&self) -> bool {
        self.has_streams
    }

    /// The best setting that was measured.
    pub(crate) fn best(&self) -> Option<Measured> {
        self.best
    }

    /// Changes the bounds; a setting beyond them is left.
    pub(crate) fn bound(&mut self, bounds: Bounds) {
        if std::mem::replace(&mut self.bounds, bounds) != bounds {
            self.searches = SEARCHES;
        }
        let held = self.held(self.asked);
        if held != self.asked {
            self.trial = None;
            let best = self.best;
            self.best = best.filter(|best| self.held(best.setting) == best.setting);
            self.ask(held);
        }
    }

    /// Takes a period; gives the most files at once that the servers take, where it shows that they
    /// take no more.
    pub(crate) fn handle(&mut self, period: &Period) -> Option<u32> {
        if self.has_streams != period.has_streams {
            // Other files: their scores do not compare.
            self.has_streams = period.has_streams;
            let back = self.best.map_or(self.asked, |best| best.setting);
            self.restart();
            self.ask(self.held(back));
        }
        // The number of files before the first measurement is that of the rules.
        if self.best.is_none() && period.in_force.files > self.asked.files {
            self.ask(self.held(Setting {
                files: period.in_force.files,
                ..self.asked
            }));
        }
        if !self.is_in_force(period) {
            return self.wait(period);
        }
        self.unmet = 0;
        if self.warm > 0 {
            self.warm -= 1;
            return None;
        }
        // No setting moves a file that is fetched from tape, nor markers that are late.
        if period.bytes == 0 {
            return None;
        }
        self.sum.add(period);
        if self.sum.periods >= MEASURED {
            let measured = std::mem::take(&mut self.sum).measured(self.asked, self.has_streams);
            self.judge(measured);
            self.step(period);
        }
        None
    }

    fn is_in_force(&self, period: &Period) -> bool {
        let streams = !self.has_streams || period.in_force.streams == self.asked.streams;
        streams && period.in_force.files == self.asked.files
    }

    /// A setting is not in force: the last files are under way, a file of another number of streams
    /// goes on, or a server takes no more sessions.
    fn wait(&mut self, period: &Period) -> Option<u32> {
        self.sum = Sum::default();
        // Channels came or went: the period tells nothing of what a server takes.
        if period.in_force.files == 0 {
            return None;
        }
        if period.in_force.files >= self.asked.files || !period.waits {
            self.unmet = 0;
            return None;
        }
        self.unmet += 1;
        if self.unmet < PATIENCE {
            return None;
        }
        self.unmet = 0;
        self.bounds.refuse(period.in_force.files.max(1));
        self.trial = None;
        let back = self.best.map_or(self.asked, |best| best.setting);
        self.ask(self.held(back));
        Some(self.bounds.most.files)
    }

    fn judge(&mut self, measured: Measured) {
        // A settled one is measured again and again.
        if !self.tried.contains(&measured.setting) {
            self.tried.push(measured.setting);
        }
        let search = self.trial.take().and_then(|at| self.searches.get_mut(at));
        let (Some(search), Some(best)) = (search, self.best) else {
            if let Some(best) = self.best {
                self.settle(best, measured);
            } else {
                self.best = Some(measured);
            }
            return;
        };
        let step = search.step.unwrap_or(1);
        let needed = if search.up { GAIN } else { 1.0 };
        if measured.score >= needed * best.score {
            let (before, now) = (
                best.setting.of(search.knob),
                measured.setting.of(search.knob),
            );
            self.best = Some(measured);
            // A step that was halved before has a larger one beyond it that did not gain.
            let is_whole = if search.up {
                step >= before
            } else {
                step >= before / 2
            };
            if is_whole {
                search.step = None;
            } else {
                search.halve(step, now);
            }
            // The other number is searched from here; what was tried is not tried again.
            let knob = search.knob;
            for (search, fresh) in self.searches.iter_mut().zip(SEARCHES) {
                if search.knob != knob {
                    *search = fresh;
                }
            }
        } else {
            search.halve(step, best.setting.of(search.knob));
        }
    }

    /// Compares a settled setting with its first measurement; begins anew on another path.
    fn settle(&mut self, best: Measured, now: Measured) {
        self.settled += 1;
        let ratio = now.score / best.score.max(1e-6);
        if SAME.contains(&ratio) {
            return;
        }
        if self.settled >= self.hold {
            self.hold = (2 * self.hold).min(SETTLED.1);
            self.restart();
            self.tried.push(now.setting);
            self.best = Some(now);
        }
    }

    /// Takes the next step that is open, or stays at the best setting.
    fn step(&mut self, period: &Period) {
        let Some(best) = self.best else { return };
        let bounds = self.in_use();
        for (at, search) in self.searches.iter_mut().enumerate() {
            if search.is_over || search.is_gated(period) {
                continue;
            }
            if let Some(next) = search.next(best.setting, &bounds, &self.tried) {
                self.trial = Some(at);
                self.settled = 0;
                return self.ask(next);
            }
        }
        self.ask(self.held(best.setting));
    }

    fn ask(&mut self, setting: Setting) {
        if setting != self.asked {
            self.asked = setting;
            self.warm = WARM;
        }
        self.sum = Sum::default();
        self.unmet = 0;
    }

    /// Forgets all measurements.
    fn restart(&mut self) {
        self.searches = SEARCHES;
        self.tried.clear();
        self.best = None;
        self.trial = None;
        self.settled = 0;
        self.warm = WARM;
        self.sum = Sum::default();
    }
}

#[cfg(test)]
mod tests;

//! Measures a copy from its begin to its end, and keeps what served best.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use ftp_wire::command::Mode;
use tokio::time::Instant;

use super::bounds::Setting;
use super::climb::Climber;
use super::measure::Meter;
use super::memory::{self, Ends};
use super::polite::Polite;
use super::udt::{Look, Step, UdtStep};
use super::widened::Widened;
use super::{Moved, PERIOD, Route, Run, STREAMS, bounds, per_second};
use crate::copy::lock;
use crate::copy::state::CopyState;
use crate::copy::widths::NEAR;
use crate::explain::Tuned;
use crate::options::CopyOptions;
use crate::text::counted;
use crate::url::Site;

impl CopyState {
    /// The ends and the way of the data of large files, or of small ones.
    fn ends(&self, route: Route, large: bool) -> Ends {
        let name = |site: &Option<Site>| {
            let named = site.as_ref().map(ToString::to_string);
            named.unwrap_or_else(|| "-".to_owned())
        };
        let mode = match route.mode {
            Mode::Extended => "extended",
            _ => "stream",
        };
        let files = if large { "large" } else { "small" };
        let stack = &self.options.connect.stack;
        Ends {
            source: name(&self.source),
            destination: name(&self.destination),
            way: format!("{mode},{files},{stack}"),
        }
    }

    /// The same ends, under the bounds of the caller where there are any: what serves best within
    /// them is no start for runs without.
    fn bounded(&self, mut ends: Ends) -> Ends {
        let CopyOptions {
            max_parallel,
            max_concurrency,
            ..
        } = self.options;
        for (name, most) in [("streams", max_parallel), ("files", max_concurrency)] {
            if let Some(most) = most {
                ends.way.push_str(&format!(",{name}<={most}"));
            }
        }
        ends
    }

    /// The file of what served best, of a copy that chooses its numbers itself.
    fn memory(&self) -> Option<&PathBuf> {
        let CopyOptions {
            memory,
            parallel,
            concurrency,
            ..
        } = &self.options;
        let is_free = parallel.is_none() && concurrency.is_none();
        memory.as_ref().filter(|_| is_free)
    }

    /// What served best in earlier runs, for small files and for large ones.
    async fn known(&self, route: Route) -> [Option<Setting>; 2] {
        let mut known = [None, None];
        let Some(path) = self.memory() else {
            return known;
        };
        for (known, large) in known.iter_mut().zip([false, true]) {
            let ends = self.ends(route, large);
            let recalled = match memory::recall(path, &self.bounded(ends.clone())).await {
                Ok(None) => memory::recall(path, &ends).await,
                recalled => recalled,
            };
            match recalled {
                Ok(setting) => *known = setting,
                Err(warning) => {
                    self.warn(&warning);
                    break;
                }
            }
        }
        known
    }

    /// Begins to measure a copy where that can help, with the settings of earlier runs.
    pub(in crate::copy) async fn begin_tuning(&self, route: Route) {
        let climbs = route.round_trip >= NEAR;
        if !climbs && !self.options.polite {
            return;
        }
        if self.options.polite && !route.tells {
            self.warn(
                "--polite: the source does not tell the round trips of its data, so that the copy \
                 yields to nobody; --relay always has it pass this machine",
            );
        }
        let bounds = bounds(&self.options, route);
        let known = match climbs {
            true => self.known(route).await,
            false => [None, None],
        };
        let polite = self.options.polite.then(|| match route.limits {
            true => Polite::new(bounds),
            false => Polite::new(bounds).without_rate(),
        });
        let [_, large] = known;
        let streams = large.map_or(STREAMS, |known| known.streams);
        let first = Setting { streams, files: 1 };
        self.tuning.state().run = Some(Run {
            climber: Climber::new(first, bounds),
            widened: Widened::over(route.round_trip),
            polite,
            meter: Meter::default(),
            bounds,
            climbs,
            udt: match route.over_udt {
                true => UdtStep::new(),
                false => UdtStep::default(),
            },
            is_lossy: false,
            moving: 0,
            is_over_one_stack: true,
            is_known: false,
            known,
        });
    }

    /// Measures each period and chooses the setting of the next, for ever.
    pub(in crate::copy) async fn tune(&self, route: Route) -> Infallible {
        let period = match route.is_between {
            true => PERIOD.1,
            false => PERIOD.0,
        };
        let mut since = Instant::now();
        let mut moved = self.moved();
        loop {
            tokio::time::sleep(period).await;
            let (took, now) = (since.elapsed(), self.moved());
            let new = now.since(moved);
            let step = self.take_period(route, took, new);
            let channels = self.tuning.channels().max(1);
            let rate = per_second(new.bytes, took) / f64::from(channels);
            self.tuning.under_way.fit(rate, route.round_trip);
            self.tuning.changed.notify_waiters();
            if step == Step::Stay {
                (since, moved) = (Instant::now(), now);
            } else {
                // Its time belongs to no period, and transfers that are left count their last bytes.
                self.step(step).await;
                tokio::time::sleep(period).await;
                (since, moved) = (Instant::now(), self.moved());
            }
        }
    }

    fn moved(&self) -> Moved {
        let counts = self.totals.counts();
        Moved {
            bytes: counts.bytes_moved,
            files: counts.files_done,
        }
    }

    /// Takes a period, in which so much moved.
    fn take_period(&self, route: Route, took: Duration, moved: Moved) -> Step {
        let waits = self.queue.has_files();
        // Lists of a copy between servers come here, and UDT is proven between the servers alone.
        let is_listing = route.is_between && self.queue.finds();
        let (left, hashes) = (self.totals.left(), self.totals.take_hashing());
        let mut state = self.tuning.state();
        let changed = state.take(took, moved, waits, &self.options);
        let step = state.run.as_mut().map_or(Step::Stay, |run| {
            run.udt.handle(&Look {
                took,
                bytes: moved.bytes,
                moving: run.moving,
                left,
                is_lossy: run.is_lossy && !is_listing,
                hashes,
            })
        });
        drop(state);
        if let Some(Setting { streams, files }) = changed {
            let streams = counted(streams.into(), "stream", "streams");
            let files = counted(self.hold_files(files).into(), "file", "files");
            self.note(&format!("tuning: {streams}, {files} at once"));
        }
        step
    }

    /// Keeps the setting that served best for the next run, and tells it.
    pub(in crate::copy) async fn end_tuning(&self, route: Route) {
        let Some(run) = self.tuning.state().run.take() else {
            return;
        };
        if let Some(limit) = self
            .options
            .connect
            .rate_limit
            .as_ref()
            .filter(|_| run.polite.is_some())
        {
            limit.yield_to(None);
        }
        // The numbers of one stack are none for another.
        let best = run.best().filter(|_| run.is_over_one_stack);
        let Some((best, rate, has_streams)) = best else {
            return;
        };
        let Setting { streams, files } = best;
        let tuned = Tuned {
            streams: has_streams.then_some(streams),
            files,
            rate,
        };
        *lock(&self.totals.tuned) = Some(tuned);
        // A bound on the rate, or a path left to others, hides what others would be served by.
        let is_bounded = self.options.polite || self.options.connect.rate_limit.is_some();
        if let Some(path) = self.memory().filter(|_| !is_bounded) {
            let ends = self.bounded(self.ends(route, has_streams));
            memory::keep(path, &ends, best, rate).await;
        }
    }
}

impl Run {
    /// The setting that served best, its rate, and whether its files had streams to choose.
    fn best(&self) -> Option<(Setting, u64, bool)> {
        match (self.climber.best(), self.widened.proven()) {
            // Several files were compared.
            (Some(best), _) => Some((best.setting, best.rate, self.climber.has_streams())),
            (None, Some(widened)) => {
                let setting = Setting {
                    streams: widened.streams,
                    files: 1,
                };
                Some((setting, widened.rate(), true))
            }
            (None, None) => None,
        }
    }
}

//! `Cubic`: reacts to loss alone.

use std::time::Instant;

use super::{Control, Heard};

/// Congestion control as in RFC 9438, without its refinements.
#[derive(Debug)]
pub(in super::super) struct Cubic {
    window: f64,
    threshold: f64,
    /// Window before the last decrease, and the time of that.
    most: f64,
    since: Option<Instant>,
}

impl Cubic {
    pub(in super::super) fn new() -> Self {
        Self {
            window: 10.0,
            threshold: f64::INFINITY,
            most: 0.0,
            since: None,
        }
    }
}

impl Control for Cubic {
    fn on_ack(&mut self, heard: &Heard) {
        if heard.is_new_loss {
            self.most = self.window;
            self.window *= 0.7;
            self.threshold = self.window;
            self.since = Some(heard.now);
        }
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let since = *self.since.get_or_insert(heard.now);
        let time = (heard.now - since).as_secs_f64();
        let rtt = heard.average.as_secs_f64();
        let back = (self.most * 0.3 / 0.4).cbrt();
        let cubic = 0.4 * (time + rtt - back).powi(3) + self.most;
        // No slower than additive increase of the same average.
        let friendly = self.most * 0.7 + 0.53 * time / rtt;
        let target = cubic.max(friendly).min(self.window * 1.5);
        self.window += ((target - self.window) / self.window).max(0.01 / self.window);
    }

    fn on_timeout(&mut self) {
        self.threshold = self.window / 2.0;
        self.window = 1.0;
    }

    fn window(&self) -> f64 {
        self.window
    }
}

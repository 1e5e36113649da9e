//! The report of a session, as text or JSON.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use xio::Info;

use crate::flags::Shape;
use crate::tally::{Tally, cpu_time};

/// Reports progress and result of one session.
pub(crate) struct Report {
    end: &'static str,
    stack: String,
    ends: Option<Info>,
    json: bool,
    cpu: Duration,
    ticks: Option<Interval>,
    /// Bytes and time of the last progress line.
    printed: (u64, Instant),
}

impl Report {
    /// Starts the report of a session.
    pub(crate) fn begin(
        end: &'static str,
        shape: &Shape,
        ends: Option<Info>,
        tally: &Tally,
    ) -> Self {
        let begun = tally.begun();
        let ticks = shape.interval.map(|period| {
            let mut ticks = interval_at(begun + period, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            ticks
        });
        Self {
            end,
            stack: shape.stack.clone(),
            ends,
            json: shape.json,
            cpu: cpu_time(),
            ticks,
            printed: (0, begun),
        }
    }

    /// Waits for `event`, and prints progress meanwhile.
    ///
    /// # Cancel safety
    /// That of `event`.
    pub(crate) async fn watch<T>(&mut self, tally: &Tally, event: impl Future<Output = T>) -> T {
        let mut event = pin!(event);
        loop {
            let Some(ticks) = &mut self.ticks else {
                return event.await;
            };
            tokio::select! {
                biased;
                happened = &mut event => return happened,
                now = ticks.tick() => self.print_progress(tally, now),
            }
        }
    }

    fn print_progress(&mut self, tally: &Tally, now: Instant) {
        let bytes = tally.sent() + tally.received();
        let (before, then) = std::mem::replace(&mut self.printed, (bytes, now));
        let begun = tally.begun();
        let rate = per_second(bytes - before, now - then.max(begun));
        let at = (now - begun).as_secs_f64();
        if self.json {
            println!(
                "{}",
                json!({ "at": at, "bytes": bytes - before, "bytes_per_second": rate })
            );
        } else {
            println!(
                "{at:8.2} s  {:>10}  {}",
                amount(bytes - before),
                speed(rate)
            );
        }
    }

    /// Prints the result of the session.
    pub(crate) fn end(&self, tally: &Tally, outcome: &anyhow::Result<()>) {
        let seconds = tally.over() - tally.begun();
        let cpu = cpu_time().saturating_sub(self.cpu);
        if self.json {
            println!("{}", self.object(tally, seconds, cpu, outcome));
        } else {
            self.print_text(tally, seconds, cpu);
        }
    }

    fn object(
        &self,
        tally: &Tally,
        seconds: Duration,
        cpu: Duration,
        outcome: &anyhow::Result<()>,
    ) -> Value {
        let (sent, received) = (tally.sent(), tally.received());
        // The receiver's count is exact; a sender has its own only.
        let bytes = if received > 0 { received } else { sent };
        let mut object = json!({
            "end": self.end,
            "stack": self.stack,
            "bytes": bytes,
            "seconds": seconds.as_secs_f64(),
            "bytes_per_second": per_second(bytes, seconds),
            "sent": sent,
            "received": received,
            "streams": tally.streams(),
            "cpu_seconds": cpu.as_secs_f64(),
        });
        let mut add = |key: &str, value: Value| {
            if let Some(map) = object.as_object_mut() {
                map.insert(key.to_owned(), value);
            }
        };
        if let Some(info) = &self.ends {
            if let Some(local) = info.local {
                add("local", json!(local.to_string()));
            }
            if let Some(peer) = info.peer {
                add("peer", json!(peer.to_string()));
            }
        }
        let turns = tally.turns();
        if !turns.is_empty() {
            let of = |quantile| seconds_of(turns.value_at_quantile(quantile));
            add(
                "latency_seconds",
                json!({
                    "turns": turns.len(),
                    "min": seconds_of(turns.min()),
                    "mean": turns.mean() / 1e9,
                    "p50": of(0.5),
                    "p90": of(0.9),
                    "p99": of(0.99),
                    "p999": of(0.999),
                    "max": seconds_of(turns.max()),
                }),
            );
        }
        let path = tally.path();
        if let Some(time) = path.round_trip {
            add("round_trip_seconds", json!(time.as_secs_f64()));
        }
        for (key, count) in [
            ("packets_sent", path.sent),
            ("packets_retransmitted", path.retransmitted),
            ("packets_lost", path.lost),
        ] {
            if let Some(count) = count {
                add(key, json!(count));
            }
        }
        if let Err(error) = outcome {
            add("error", json!(chain(error)));
        }
        object
    }

    fn print_text(&self, tally: &Tally, seconds: Duration, cpu: Duration) {
        let ends = self
            .ends
            .as_ref()
            .map(|info| format!(" {info}"))
            .unwrap_or_default();
        println!(
            "{} {}:{ends}, {} connections",
            self.end,
            self.stack,
            tally.streams()
        );
        for (what, bytes) in [("sent", tally.sent()), ("received", tally.received())] {
            if bytes > 0 {
                let rate = per_second(bytes, seconds);
                println!(
                    "  {what} {} in {:.3} s: {}",
                    amount(bytes),
                    seconds.as_secs_f64(),
                    speed(rate)
                );
            }
        }
        let share = 100.0 * cpu.as_secs_f64() / seconds.as_secs_f64().max(1e-9);
        println!(
            "  processor time of this end {:.3} s, {share:.0} % of a core",
            cpu.as_secs_f64()
        );
        let turns = tally.turns();
        if !turns.is_empty() {
            println!("  {} turns, latency in µs:", turns.len());
            let us = |nanoseconds: u64| seconds_of(nanoseconds) * 1e6;
            println!(
                "  min {:.1}, median {:.1}, 90 % {:.1}, 99 % {:.1}, 99.9 % {:.1}, max {:.1}",
                us(turns.min()),
                us(turns.value_at_quantile(0.5)),
                us(turns.value_at_quantile(0.9)),
                us(turns.value_at_quantile(0.99)),
                us(turns.value_at_quantile(0.999)),
                us(turns.max()),
            );
        }
        let path = tally.path();
        if let Some(time) = path.round_trip {
            println!("  round trip {:.3} ms", time.as_secs_f64() * 1e3);
        }
        // A receiver sends no data packets.
        if let (Some(sent @ 1..), Some(again)) = (path.sent, path.retransmitted) {
            let lost = path
                .lost
                .map(|lost| format!(", {lost} reported lost"))
                .unwrap_or_default();
            println!("  {sent} packets sent, {again} of them retransmissions{lost}");
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a rate is approximate")]
fn per_second(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64().max(1e-9)
}

#[allow(clippy::cast_precision_loss, reason = "three digits are printed")]
fn seconds_of(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Returns an error and its causes, without causes that the text contains already.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Formats an amount with a decimal unit prefix.
#[allow(clippy::cast_precision_loss, reason = "two decimals are printed")]
fn amount(bytes: u64) -> String {
    scaled(bytes as f64, "B")
}

fn speed(bytes_per_second: f64) -> String {
    let bytes = scaled(bytes_per_second, "B/s");
    let bits = scaled(bytes_per_second * 8.0, "bit/s");
    format!("{bytes} ({bits})")
}

fn scaled(value: f64, unit: &str) -> String {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match steps.iter().find(|(size, _)| value >= *size) {
        Some((size, prefix)) => format!("{:.2} {prefix}{unit}", value / size),
        None => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_speeds_have_units() {
        assert_eq!(amount(999), "999 B");
        assert_eq!(amount(1_500_000), "1.50 MB");
        assert_eq!(speed(125e6), "125.00 MB/s (1.00 Gbit/s)");
    }
}

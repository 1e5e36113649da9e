//! Tickers that may be absent.

use std::time::Duration;

use tokio::time::{self, Instant, Interval, MissedTickBehavior};

/// A ticker whose first tick comes after one period.
pub(crate) fn every(period: Duration) -> Interval {
    let period = period.max(Duration::from_millis(100));
    let mut ticker = time::interval_at(Instant::now() + period, period);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticker
}

/// The next tick; never, without a ticker.
pub(crate) async fn tick(ticker: &mut Option<Interval>) {
    match ticker {
        Some(ticker) => {
            ticker.tick().await;
        }
        None => std::future::pending().await,
    }
}

//! The bar of a copy, and the text behind it.

use std::time::Duration;

use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};

use crate::progress::Counts;

pub(super) fn draw(bar: &ProgressBar, counts: Counts) {
    let known = counts.complete || counts.bytes_found > 0;
    if known && bar.length() != Some(counts.bytes_found) {
        bar.set_style(style(true));
        bar.set_length(counts.bytes_found);
    }
    let there = counts.bytes_moved.saturating_add(counts.bytes_held);
    bar.set_position(there.min(counts.bytes_found.max(counts.bytes_moved)));
    bar.set_message(state(counts, bar.per_sec()));
}

/// The text behind the bar at `rate` bytes a second: an estimate only where there is one.
pub(super) fn state(counts: Counts, rate: f64) -> String {
    let mut text = format!("{}/{} files", counts.files_done, counts.files_found);
    let hashed = counts.bytes_hashed.saturating_mul(100);
    if let Some(percent) = hashed.checked_div(counts.bytes_hashing) {
        text.push_str(&format!(", verifying {percent} %"));
    }
    if counts.bytes_moved == 0 || rate < 1.0 {
        return text;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate for people"
    )]
    let whole = rate as u64;
    text.insert_str(0, &format!("{}/s, ", HumanBytes(whole)));
    let there = counts.bytes_moved.saturating_add(counts.bytes_held);
    let left = counts.bytes_found.saturating_sub(there) / whole;
    let left = HumanDuration(Duration::from_secs(left));
    // Files that are not found yet take longer.
    match (counts.complete, counts.bytes_found > there) {
        (true, _) => text.push_str(&format!(", {left} left")),
        (false, true) => text.push_str(&format!(", at least {left} left")),
        (false, false) => {}
    }
    if let Some(cause) = counts.mostly {
        text.push_str(&format!(", most of the time {}", cause.text()));
    }
    text
}

pub(super) fn style(known: bool) -> ProgressStyle {
    let template = if known {
        "{wide_bar} {bytes}/{total_bytes} {msg}"
    } else {
        "{spinner} {bytes} {msg}"
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Counts` is made by the library alone.
    fn state_of(found: u64, bytes: u64, moved: u64, complete: bool, rate: f64) -> String {
        let mut counts = Counts::default();
        (counts.files_found, counts.bytes_found) = (found, bytes);
        (counts.bytes_moved, counts.complete) = (moved, complete);
        state(counts, rate)
    }

    #[test]
    fn nothing_is_estimated_before_there_is_an_estimate() {
        assert_eq!(state_of(3, 1000, 0, true, 0.0), "0/3 files");
        assert_eq!(state_of(3, 1000, 0, true, 9.0), "0/3 files");
        assert_eq!(state_of(3, 1000, 10, true, 0.2), "0/3 files");
        let text = state_of(3, 10_000, 1000, true, 100.0);
        assert_eq!(text, "100 B/s, 0/3 files, 2 minutes left");
        let text = state_of(3, 10_000, 1000, false, 100.0);
        assert_eq!(text, "100 B/s, 0/3 files, at least 2 minutes left");
        assert_eq!(state_of(3, 1000, 1000, false, 100.0), "100 B/s, 0/3 files");
    }
}

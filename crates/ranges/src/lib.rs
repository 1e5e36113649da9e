//! Byte-range arithmetic for restart markers, resume and holes: received and missing ranges, and
//! their [shares](Stripe) of several senders.
//!
//! Offsets are `u64`, and ranges are half-open and never empty. A [`RangeSet`] keeps them sorted
//! and merged, so two sets with the same members are equal.
//!
//! ```
//! use byte_ranges::{Range64, RangeSet};
//!
//! let mut held: RangeSet = "0-100,200-300".parse()?;
//! held.extend(Range64::new(100, 150));
//! assert_eq!(held.to_string(), "0-150,200-300");
//! assert_eq!(held.complement(400).to_string(), "150-200,300-400");
//! assert_eq!(held.first_hole(), 150);
//! # Ok::<(), byte_ranges::text::BadRanges>(())
//! ```
#![forbid(unsafe_code)]

mod layout;
mod range;
mod set;
#[cfg(test)]
mod tests;
pub mod text;

pub use layout::{Layout, Share, Stripe};
pub use range::Range64;
pub use set::{Iter, RangeSet};

//! How copies work, a chapter each.

pub mod options;
pub mod restart;
pub mod tuning;
pub mod verification;
pub mod web;

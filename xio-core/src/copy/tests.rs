//! Tests of `copy`.

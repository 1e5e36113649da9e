//! Tests of `target`.

//! Tests of `registry`.

//! Grid Security Infrastructure (GSI) without I/O and without a clock.
#![forbid(unsafe_code)]

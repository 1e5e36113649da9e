//! RFC 2389: FEAT and OPTS.

mod section_3;
mod section_4;

//! RFC 2428: data connections over IPv6 and through translators.

mod section_2;
mod section_3;
mod section_4;

//! RFC 1123 §4.1: what the requirements for hosts change in RFC 959.

mod section_4_1_2;
mod section_4_1_3;

//! RFC 1123 §4.1: changes of RFC 959 by the requirements for hosts.

mod section_4_1_2;
mod section_4_1_3;

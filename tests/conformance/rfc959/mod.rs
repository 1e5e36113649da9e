//! RFC 959: the File Transfer Protocol.

mod section_4_1;
mod section_4_2;
mod section_5_1;
mod section_5_4;

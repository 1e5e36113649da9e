//! Fuzzes the server's session machine by operations; `ftp_proto::fuzzing` says how they are written.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ftp_proto::fuzzing::server(bytes));

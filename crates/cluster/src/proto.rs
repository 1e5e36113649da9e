//! The generated messages, clients and servers of `proto/cluster.proto`.
#![allow(
    missing_docs,
    unnameable_types,
    unused_qualifications,
    unreachable_pub,
    clippy::all,
    clippy::cast_possible_truncation,
    clippy::doc_markdown,
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    clippy::missing_errors_doc,
    clippy::or_fun_call,
    clippy::too_many_lines,
    clippy::use_self,
    reason = "generated code"
)]

use std::fmt;

tonic::include_proto!("gridftp.cluster");

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protection(…)")
    }
}

impl fmt::Debug for JoinRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinRequest(…)")
    }
}

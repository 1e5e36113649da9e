//! The generated messages, client and server of `proto/storage.proto`.
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

tonic::include_proto!("gridftp.storage.v1");

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

use zeroize::{Zeroize as _, ZeroizeOnDrop};

tonic::include_proto!("gridftp.cluster");

impl Drop for Open {
    fn drop(&mut self) {
        self.credential.zeroize();
    }
}

impl ZeroizeOnDrop for Open {}

impl Drop for Protection {
    fn drop(&mut self) {
        self.credential.zeroize();
    }
}

impl ZeroizeOnDrop for Protection {}

impl Drop for JoinRequest {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

impl ZeroizeOnDrop for JoinRequest {}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Open").field(&self.task).finish()
    }
}

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

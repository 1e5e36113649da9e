//! The service between a front end and its data nodes: membership, placement and sessions.
//!
//! Only control crosses it. File data flows between clients and nodes.
//!
//! ```text
//!  client ══ control channel ══ front end                      node ══ data connections ══ client
//!                               Nodes                          Node<Serve>
//!                                 │◀──────── TCP, TLS ─────────────│   a node dials front ends,
//!                                 │───────── TCP, TLS ────────────▶│   or a front end dials nodes
//!                                 │                                │
//!                                 │── Register ───────────────────▶│   reports every second
//!                                 │── Session (one per client) ───▶│   requests and replies
//!                                 │── Drain, Refuse ──────────────▶│
//!
//!  a program without a certificate, or a member ── Join, Renew ───▶ front end with the authority
//! ```
//!
//! Whichever end dials, the front end calls and the node serves, over HTTP/2 (gRPC). A node keeps a
//! connection to every front end that it is told of, and dials again for ever. Its membership is
//! the open stream of its reports: [`Nodes::list`] shows those that are connected now.
//!
//! A node serves the calls of its storage on the same connection, but for those that move bytes.
//! [`Nodes`] are the [`Peers`](gridftp_dsi_rpc::Peers) of a
//! [`Remote`](gridftp_dsi_rpc::Remote), by which a front end needs no storage of its own.
//!
//! # Failures
//!
//! A heartbeat passes every second on each open stream, both ways. After 3.5 s of silence the other
//! end counts as frozen and the session fails with [`Error::Silent`]; a connection that breaks
//! fails its sessions at once. On the node the future of [`Serve::session`] is then dropped.
//!
//! # Trust
//!
//! Both ends authenticate by certificates of the cluster's own authority, in TLS 1.3. A certificate
//! names cluster, role and member (`gridftp-cluster://CLUSTER/ROLE/NAME`), which both ends check on
//! every connection and at each call. There is no host name in it: a member may move.
//!
//! Under TLS 1.3 the end that dials finishes its handshake before its certificate is examined, so
//! one that is refused learns it at its first call.
//!
//! | File | Contents |
//! | --- | --- |
//! | `ca.pem` | the authorities to trust |
//! | `ca.key` | the key of the first of them, on one front end only |
//! | `cert.pem` | the member's certificate, and the rest of its chain |
//! | `key.pem` | its key |
//! | `tokens/` | digests of the tokens to join that are still valid |
//! | `revoked` | revoked members, with the times of their revocation |
//!
//! [`init`] makes a cluster and its first front end. A further member needs a token, made by
//! [`create_token`] on that front end and used once by [`join()`]: it carries the digest of the
//! authority, so that the new member knows the front end, and a secret, by which the front end knows
//! the member. This call is the only one without a certificate, bounded in size, and in number by
//! address. [`Member::keep_renewed`] gets new certificates in time, on every member; connections
//! with an old one are replaced, and end with their last session. [`rotate`] and [`retire`] replace
//! the authority while the cluster runs.
//!
//! A stolen key is of no use after [`revoke`]: handshakes and calls with the certificates of that
//! member are refused from then on, and its connections end within a second.
//!
//! A member with another major version of the service is refused, and both ends log it.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use gridftp_cluster::{FromNode, Member, Node, Open, Replies, Report, Requests, Serve};
//!
//! struct Server;
//!
//! impl Serve for Server {
//!     async fn session(&self, open: Open, mut requests: Requests, replies: Replies) {
//!         while let Some(request) = requests.recv().await {
//!             // Listen, connect, transfer for the user of `open`, and answer.
//!             replies.send(FromNode::Done).await;
//!         }
//!     }
//!
//!     fn report(&self) -> Report {
//!         Report { capacity: 16, ..Report::default() }
//!     }
//!
//!     fn drain(&self, _draining: bool) {}
//! }
//!
//! async fn run() -> gridftp_cluster::Result<()> {
//!     let node = Node::new(Member::load("/etc/gridftp/cluster")?, Arc::new(Server), "example 1.0")?;
//!     node.dial("front.example.org:2812").await;
//!     Ok(())
//! }
//! ```
#![forbid(unsafe_code)]
#![expect(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "both ends match every message and fill every field, so the compiler names what a \
              new one touches"
)]

mod authority;
mod choice;
mod connections;
mod error;
mod folder;
mod front;
mod handshakes;
mod identity;
mod issue;
mod join;
mod link;
mod member;
mod message;
mod node;
mod nodes;
mod proto;
mod registration;
mod report;
mod revocations;
mod services;
mod session;
mod storage;
#[cfg(test)]
mod tests;
mod tls;
mod token;

pub use authority::{init, retire, rotate};
pub use error::{Error, Result};
pub use identity::{BadIdentity, Identity, Role};
pub use join::join;
pub use member::Member;
pub use message::{
    Connect, Credential, DataIdentity, Failed, Fault, FromNode, Listen, Malformed, NodeTag, Open,
    PeerRule, SessionLimits, StoreRules, ToNode, Told, Transfer, TransferKind, Transferred, Whole,
};
pub use node::{Node, Replies, Requests, Serve};
pub use nodes::{NodeHandle, NodeInfo, Nodes};
pub use report::{Report, VERSION, Version};
pub use revocations::revoke;
pub use session::NodeSession;
pub use token::{JoinToken, create_token};

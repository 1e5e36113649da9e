//! Composable transports: every enabled driver behind one name, and stacks from strings.
//!
//! A stack reads bottom first, in types and in strings alike. The two lines below make the same
//! layers, and both open handles of one trait, [`Stream`]:
//!
//! ```
//! use xio::{Transport, count::Count, tcp::Tcp};
//!
//! let typed = Tcp::default().push(Count::new());
//! let named = xio::registry().stack("tcp,count")?;
//! # Ok::<(), xio::Error>(())
//! ```
//!
//! | Part | For |
//! | --- | --- |
//! | [`registry`] | strings into stacks; [`Registry::restrict`] it for a string from a peer |
//! | [`blocking`] | programs without a runtime |
//! | [`tutorial`] | a layer of your own, in 60 lines |
//! | the modules named as the drivers | typed stacks |
//! | everything of `xio-core`, re-exported | writing drivers, and using streams |
//!
//! A feature adds a driver's name to the registry and its module here, and changes nothing else.
//!
//! # What the compiler refuses
//!
//! A layer for byte streams on a datagram socket; the message says that the socket "is not a byte
//! stream":
//!
//! ```compile_fail,E0277
//! use xio::{Result, Target, Transport, count::Count};
//!
//! struct Udp;
//! impl Transport for Udp {
//!     type Handle = std::net::UdpSocket;
//!     async fn connect(&self, _: &Target) -> Result<std::net::UdpSocket> { todo!() }
//! }
//! fn opens(_: impl Transport) {}
//! opens(Udp.push(Count::new()));
//! ```
//!
//! The same with a byte stream compiles:
//!
//! ```
//! use xio::{BoxStream, Result, Target, Transport, count::Count};
//!
//! struct Pipe;
//! impl Transport for Pipe {
//!     type Handle = BoxStream;
//!     async fn connect(&self, _: &Target) -> Result<BoxStream> { todo!() }
//! }
//! fn opens(_: impl Transport) {}
//! opens(Pipe.push(Count::new()));
//! ```
//!
//! Waiting for peers at a file, with layers or without:
//!
//! ```compile_fail,E0277
//! use xio::{Passive, Transport, count::Count, file::File};
//!
//! fn waits(_: impl Passive) {}
//! waits(File::default().push(Count::new()));
//! ```
//!
//! ```
//! use xio::{Passive, Transport, count::Count, tcp::Tcp};
//!
//! fn waits(_: impl Passive) {}
//! waits(Tcp::default().push(Count::new()));
//! ```
//!
//! Opening a peer twice:
//!
//! ```compile_fail,E0382
//! use xio::Incoming;
//!
//! async fn twice(peer: xio::BoxIncoming) {
//!     let first = peer.open().await;
//!     let second = peer.open().await;
//! }
//! ```

#![forbid(unsafe_code)]

pub mod blocking;
mod drivers;
pub mod tutorial;

pub use drivers::registry;
pub use xio_core::*;

#[cfg(feature = "count")]
pub use xio_count as count;
#[cfg(feature = "file")]
pub use xio_file as file;
#[cfg(feature = "gsi")]
pub use xio_gsi as gsi;
#[cfg(feature = "http")]
pub use xio_http as http;
#[cfg(feature = "log")]
pub use xio_log as log;
#[cfg(feature = "mode-e")]
pub use xio_mode_e as mode_e;
#[cfg(feature = "multicast")]
pub use xio_multicast as multicast;
#[cfg(feature = "ordering")]
pub use xio_ordering as ordering;
#[cfg(feature = "pipe")]
pub use xio_pipe as pipe;
#[cfg(feature = "popen")]
pub use xio_popen as popen;
#[cfg(feature = "queue")]
pub use xio_queue as queue;
#[cfg(feature = "rate")]
pub use xio_rate as rate;
#[cfg(feature = "tcp")]
pub use xio_tcp as tcp;
#[cfg(feature = "telnet")]
pub use xio_telnet as telnet;
#[cfg(feature = "timeout")]
pub use xio_timeout as timeout;
#[cfg(feature = "tls")]
pub use xio_tls as tls;
#[cfg(feature = "udp")]
pub use xio_udp as udp;
#[cfg(feature = "udt")]
pub use xio_udt as udt;
#[cfg(feature = "unix")]
pub use xio_unix as unix;
#[cfg(feature = "verify")]
pub use xio_verify as verify;

/// The examples of the workspace's README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

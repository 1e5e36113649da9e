//! The storage interface between the server and its backends.
//!
//! A [`Dsi`] opens objects as [`Source`], [`Sink`] and [`Listing`] and changes names. The
//! conformance suite of the testkit proves these promises for every backend:
//!
//! - **Positional, shared by `&self`.** Many connections read or write one open object at once, in
//!   any order that [`Sink::order`] allows, without a lock.
//! - **Whole or nothing.** An upload appears under its name when [`Sink::finish`] succeeds, and
//!   then holds the written bytes. Until then, and after a failure, the name is unchanged.
//! - **Restart by record.** Ranges recorded by [`Sink::checkpoint`] are held by the sink that a
//!   later [`Create::Resume`] opens, or that sink reports none of them.
//! - **One writer.** Of two uploads to one name, one wins whole; they never mix.
//! - **One owner.** Other processes may write to an upload that its owner shares ([`Sink::share`],
//!   [`Dsi::join`]); only the owner records and publishes, and the others end with it.
//! - **Every error has a kind** that an operator recognises: [`ErrorKind`].
//!
//! [`Memory`] is a complete backend and serves as the example. [`DynDsi`] is the boxed twin, for
//! programs that choose their backend at run time, as `gridftp-server` does; [`Mounts`] joins several
//! into one tree.
//!
//! ```
//! # use std::future::Future;
//! # fn block_on<T>(work: impl Future<Output = T>) -> T {
//! #     let mut work = std::pin::pin!(work);
//! #     let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
//! #     match work.as_mut().poll(&mut cx) {
//! #         std::task::Poll::Ready(done) => done,
//! #         std::task::Poll::Pending => unreachable!("memory never waits"),
//! #     }
//! # }
//! # block_on(async {
//! use bytes::{Bytes, BytesMut};
//! use gridftp_dsi::{Create, Dsi, DsiPath, Finish, Memory, Sink, Source, User};
//!
//! let store = Memory::new();
//! let user = User::new("ann", DsiPath::root(), true);
//! let path = DsiPath::new(b"/report").ok_or("not a path")?;
//!
//! let sink = store.write(&user, &path, Create::Whole { size: None }).await?;
//! sink.write_at(6, Bytes::from_static(b"world")).await?;
//! sink.write_at(0, Bytes::from_static(b"hello ")).await?;
//! assert!(store.stat(&user, &path).await.is_err(), "not published yet");
//! sink.finish(Finish::whole(11)).await?;
//!
//! let source = store.read(&user, &path).await?;
//! assert_eq!(source.read_at(0, BytesMut::with_capacity(64)).await?, "hello world");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
#![forbid(unsafe_code)]

pub mod capability;
pub mod dsi;
pub mod erased;
pub mod error;
pub mod file;
#[cfg(feature = "hasher")]
pub mod hasher;
pub mod memory;
pub mod mounts;
pub mod shares;
pub mod types;

pub use dsi::Dsi;
pub use erased::{BoxListing, BoxSink, BoxSource, DynDsi};
pub use error::{Error, ErrorKind, Result};
pub use file::{Finish, GroupValue, Listing, Sink, Source, Version};
pub use memory::Memory;
pub use mounts::{Mount, Mounts};
pub use shares::{Budget, Place, Shares};
pub use types::{
    Attribute, Capabilities, ChecksumAlgorithm, Create, Delegated, DsiPath, Kind, Meta, Partial,
    Progress, Staging, Stat, User, WriteModel,
};

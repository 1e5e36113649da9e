//! Traits and stacks: transports and transforms that compose, in types and from strings.
//!
//! # The idea
//!
//! A **stack** is a transport with layers on it, read bottom first, in types and strings alike:
//!
//! ```text
//! Tcp::default().push(Count::new()).push(Log::new())
//! registry.stack("tcp,count,log")
//! ```
//!
//! A stack is a value and is itself a transport, so a stack can be put wherever a socket can.
//!
//! There are two planes, because they have opposite needs:
//!
//! | Plane | Traits | Shape | Why |
//! | --- | --- | --- | --- |
//! | Data, per byte | [`Stream`], [`BlockRead`], [`Datagram`] | poll-based, object-safe | no allocation, cancel-safe, the same trait boxed and typed |
//! | Set-up, per connection | [`Transport`], [`Passive`], [`Listener`], [`Incoming`], [`Transform`] | `async fn` | clear to write; erased once, by [`DynStack`] |
//!
//! A driver is one of three kinds: a **base** opens handles by itself (`tcp`, `file`); a **layer**
//! is a [`Transform`] of the handle below; an **over** is a transport that opens handles of its
//! own in the stack below. [`Registry`] knows drivers by name, [`Plan`] is a stack string.
//!
//! A layer that leaves bytes as they are is an [`Observer`] in a [`Tap`], and one that changes
//! single bytes a [`ByteMap`] in a [`Mapped`]; every other one implements [`Stream`].
//!
//! # The contract of a driver
//!
//! The rules for end of file, shutdown and cancellation are one table, in [`stream`], and one
//! suite (`xio_testkit::driver_suite`) that runs over every driver.
//!
//! # Left for later
//!
//! Completion-based I/O (`io_uring`) wants buffers that are owned by the operation. This crate
//! takes tokio's readiness-based traits instead, for their reach; the data plane would need a
//! second handle trait for the other kind.

#![forbid(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("xio needs Linux: its drivers use system calls that other platforms do not have");

mod control;
mod copy;
mod datagram;
mod end;
mod erased;
mod error;
mod info;
mod kernel;
mod mapped;
mod option_value;
mod options;
mod outbox;
mod percent;
mod plan;
mod pool;
mod registry;
mod resolve;
mod stack;
pub mod stream;
mod tap;
mod target;
mod transform;
mod transport;
mod value;
mod wake;

pub use control::Control;
pub use copy::{Positional, copy, copy_file};
pub use datagram::{BATCH_BYTES, Bind, BoxDatagram, Datagram, Received, Transmit};
pub use end::poll_end;
pub use erased::{BoxIncoming, BoxListener, DynBind, DynLayer, DynStack};
pub use error::{Error, ErrorKind, Operation, Result, at_layer, shut_down};
pub use info::{Info, PathStats};
pub use kernel::{KernelTransfer, KernelTransfers};
pub use mapped::{ByteMap, Mapped};
pub use option_value::{OptionValue, print_list, read_value};
pub use options::{NoOptions, Options, Setting, write_driver};
pub use outbox::Outbox;
pub use plan::{Entry, Opt, OptionText, Plan};
pub use pool::{Block, Pool};
pub use registry::{Driver, Registry};
pub use resolve::resolve;
pub use stack::{Stack, StackIncoming, StackListener};
pub use stream::{BlockRead, BoxStream, Stream};
pub use tap::{Observer, Tap};
pub use target::{SocketHints, Target};
pub use transform::Transform;
pub use transport::{Incoming, Listener, Passive, Transport};
pub use value::{BadValue, ByteSize, PortRange, Value, parse_duration, seconds};
pub use wake::wake_both;

//! Extended-block framing (MODE E, GFD.20 §4) and its end-of-data bookkeeping, without I/O.
//!
//! A file crosses any number of connections in blocks that say where they belong:
//!
//! ```text
//!  0        1                       9                      17
//!  +--------+-----------------------+-----------------------+-----------------
//!  | flags  | count, big-endian     | offset, big-endian    | count bytes of payload
//!  +--------+-----------------------+-----------------------+-----------------
//!    0x80 EOR   ignored                 0x10 RESTART  refused: its payload is no file data
//!    0x40 EOF   offset is the number    0x08 EOD      nothing more on this connection
//!               of EODs to expect       0x04 CLOSE    the sender closes this connection
//!    0x20 ERROR ignored                 0x03          reserved: an error
//! ```
//!
//! A sender may start the next file before the receiver has confirmed the last. Then the first
//! block of each file on each connection has the descriptor 0x01, no payload, and the tag of the
//! file in its offset field; tags rise from file to file. Ahead of an end-of-data mark two blocks
//! with the descriptor 0x02 may hold the digest of the file, 16 bytes each, in their count and offset
//! fields, and further ones at most 2,048 hints: values that show where the bytes of a receiver with
//! another digest differ. This extension is ours and needs the consent of both ends.
//!
//! The receiving half is one [`Deframer`] a connection and one [`Gather`] a listener; the sending
//! half is one [`Scheduler`] a transfer. None of them ever sees payload: they give the offset of
//! the next bytes, and the caller moves the bytes by its cheapest means.
//!
//! ```
//! use mode_e::{Deframer, Gather, Header, Limits, Step};
//!
//! let mut wire = Header::data(4096, 3).to_bytes().to_vec();
//! wire.extend(b"abc");
//! wire.extend(Header::eof(1).to_bytes());
//!
//! let mut deframer = Deframer::new(Limits::default());
//! let mut gather = Gather::new(Limits::default());
//! gather.opened()?;
//! let mut rest = wire.as_slice();
//! while !gather.is_complete() {
//!     let step = deframer.poll()?;
//!     if deframer.just_begun() {
//!         gather.begun()?;
//!     }
//!     match step {
//!         Step::Header { .. } => {
//!             let taken = deframer.feed(rest);
//!             rest = &rest[taken..];
//!         }
//!         Step::Payload { offset, len } => {
//!             // write_at(offset, the next len bytes), in any number of pieces
//!             rest = &rest[len as usize..];
//!             deframer.moved(len);
//!             gather.record(offset, len)?;
//!         }
//!         Step::Eof { connections } => gather.eof(connections)?,
//!         Step::Eod { .. } => gather.eod()?,
//!         other => unreachable!("{other:?}"),
//!     }
//! }
//! assert_eq!(gather.received().to_string(), "4096-4099");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod deframe;
mod gather;
mod header;
mod limits;
mod schedule;
#[cfg(test)]
mod tests;

pub use deframe::{Deframer, Step};
pub use gather::{Gather, GatherError};
pub use header::{BadBlock, BadBlockKind, Flags, HEADER_LEN, Header, Hint, MAX_HINTS};
pub use limits::Limits;
pub use schedule::{Next, Scheduler, Streams};

//! Carries bytes through the Telnet protocol (RFC 854).
//!
//! # What it does
//!
//! Any byte can be written and read: 255 is doubled, a carriage return that no line feed follows
//! gets a NUL behind it, and both are taken off at the other end. To a Telnet peer this end is a
//! plain network virtual terminal: every option that it offers or asks for is refused, which RFC
//! 854 allows any end to do, and its commands and subnegotiations are skipped. Both ends behave
//! alike.
//!
//! # When not to use it
//!
//! Between two ends that are both ours: Telnet has neither length nor checksum nor an end mark, so
//! the end of the layer below is the end.
//!
//! # String form
//!
//! `telnet`, without options.
//!
//! # Cost
//!
//! One pass over the bytes, and one copy of written bytes. Reading decodes in place.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use xio_core::Transform;
//! use xio_telnet::Telnet;
//! use xio_testkit::Mem;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (near, mut peer) = Mem::new().pair();
//! let mut near = Telnet::new().respond(near).await?;
//!
//! // The peer offers to echo (WILL ECHO), and says hello.
//! peer.write_all(b"\xff\xfb\x01hello\r\n").await?;
//! let mut line = [0; 7];
//! near.read_exact(&mut line).await?;
//! assert_eq!(&line, b"hello\r\n");
//!
//! // It was refused (DONT ECHO).
//! let mut answer = [0; 3];
//! peer.read_exact(&mut answer).await?;
//! assert_eq!(&answer, b"\xff\xfe\x01");
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod codec;

use std::fmt;

use xio_core::{
    ByteMap, Driver, DynLayer, Error, ErrorKind, Info, Mapped, NoOptions, Operation, Result,
    Stream, Transform,
};

pub use codec::{Decoder, Encoder, TooLong};

const LAYER: &str = "telnet";

/// The layer.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Telnet;

impl Telnet {
    /// A layer that speaks Telnet.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl fmt::Debug for Telnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LAYER)
    }
}

impl<S: Stream> Transform<S> for Telnet {
    type Handle = TelnetHandle<S>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        Ok(Mapped::new(inner, Nvt::default()))
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

/// A stream through Telnet.
pub type TelnetHandle<S> = Mapped<S, Nvt>;

/// A network virtual terminal that refuses every option.
#[derive(Debug, Default)]
pub struct Nvt {
    decoder: Decoder,
    encoder: Encoder,
}

impl ByteMap for Nvt {
    const LAYER: &'static str = LAYER;

    fn encode(&mut self, data: &[u8], out: &mut Vec<u8>) {
        self.encoder.encode(data, out);
    }

    fn decode(&mut self, bytes: &mut [u8], answers: &mut Vec<u8>) -> Result<usize> {
        let before = answers.len();
        let kept = self.decoder.decode(bytes, answers).map_err(|error| {
            let fact = error.to_string();
            Error::new(ErrorKind::Protocol, LAYER, Operation::Read, fact)
        })?;
        if answers.len() > before {
            self.encoder.interrupt(answers, before);
        }
        Ok(kept)
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        self.encoder.finish(out);
    }

    fn end(&self) -> Result<()> {
        if !self.decoder.is_within() {
            return Ok(());
        }
        let fact = "the stream ended within a command";
        let (kind, op) = (ErrorKind::UnexpectedEof, Operation::Read);
        Err(Error::new(kind, LAYER, op, fact))
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer(LAYER, "the Telnet protocol", |_: NoOptions, _| {
        Ok(DynLayer::new(Telnet::new()))
    })
}

#[cfg(test)]
mod tests;

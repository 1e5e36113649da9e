//! `UdtMessages`: a connection that carries messages, each whole or not at all.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

use udt_proto::MessageOptions;
use xio_core::{Info, Operation, Result};

use crate::connection::ConnectionRef;

/// An open UDT connection that carries messages.
///
/// Each message arrives whole and once, or not at all; in order where that was requested.
/// It ends as [`UdtHandle`](crate::UdtHandle) does.
pub struct UdtMessages {
    pub(crate) connection: ConnectionRef,
}

impl UdtMessages {
    /// Sends a message, as soon as there is room for it.
    ///
    /// # Errors
    /// When the message is too long, or the connection has ended.
    ///
    /// # Cancel safety
    /// Dropping the future sends nothing.
    pub async fn send(&mut self, message: &[u8], options: MessageOptions) -> Result<()> {
        poll_fn(|cx| self.poll_send(cx, message, options)).await
    }

    /// Sends a message, if there is room for it now.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &[u8],
        options: MessageOptions,
    ) -> Poll<Result<()>> {
        let op = Operation::Write;
        self.connection.0.with(|state, now| match state.check(op) {
            Some(lost) => Poll::Ready(Err(lost)),
            None => match state.machine.send_message(now, message, options) {
                Poll::Ready(done) => Poll::Ready(done.map_err(|why| state.error(why, op))),
                Poll::Pending => state.wait_to_write(cx, op),
            },
        })
    }

    /// Waits for the next message and returns its length; none when the peer has closed the
    /// connection.
    ///
    /// A message longer than `into` is truncated; the length is that of the whole message.
    ///
    /// # Errors
    /// When the connection has ended in any other way.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn receive(&mut self, into: &mut [u8]) -> Result<Option<usize>> {
        poll_fn(|cx| self.poll_receive(cx, into)).await
    }

    /// Returns the length of the next message, if it has arrived.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<Option<usize>>> {
        self.connection.0.with(
            |state, now| match state.machine.receive_message(now, into) {
                Poll::Ready(done) => {
                    Poll::Ready(done.map_err(|why| state.error(why, Operation::Read)))
                }
                Poll::Pending => state.wait_to_read(cx),
            },
        )
    }

    /// Closes the connection: waits until the peer has acknowledged every message and was told.
    ///
    /// # Errors
    /// When the peer ended the connection before.
    ///
    /// # Cancel safety
    /// The close has begun and goes on; call `shutdown` again to wait for it.
    pub async fn shutdown(&mut self) -> Result<()> {
        poll_fn(|cx| self.connection.0.poll_close(cx)).await
    }

    /// Describes the connection and its path.
    #[must_use]
    pub fn info(&self) -> Info {
        let mut info = Info::default();
        self.connection.0.describe(&mut info);
        info
    }
}

impl fmt::Debug for UdtMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

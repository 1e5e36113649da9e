//! `UdtMessages`: a connection that carries messages, whole or not at all.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

use udt_proto::MessageOptions;
use xio_core::{Info, Operation, Result};

use crate::connection::ConnectionRef;

/// An open UDT connection that carries messages.
///
/// Each arrives whole, once, or not at all; in order where that was asked for, else as it comes.
/// Ending it is as with [`UdtHandle`](crate::UdtHandle).
pub struct UdtMessages {
    pub(crate) connection: ConnectionRef,
}

impl UdtMessages {
    /// Sends a message, as soon as there is room for it.
    ///
    /// # Errors
    /// When it is too long to be sent ever, or the connection is over.
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

    /// Waits for the next message and gives its length; nothing when the peer has ended in good order.
    ///
    /// A message longer than `into` is cut off; the length is that of the whole.
    ///
    /// # Errors
    /// When the connection ended in any other way.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn receive(&mut self, into: &mut [u8]) -> Result<Option<usize>> {
        poll_fn(|cx| self.poll_receive(cx, into)).await
    }

    /// Gives the next message, if it is there.
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

    /// Waits until the peer has acknowledged every message, and tells it that this is the end.
    ///
    /// # Errors
    /// When the peer went before.
    ///
    /// # Cancel safety
    /// The end has begun and goes on; call it again to wait for it.
    pub async fn shutdown(&mut self) -> Result<()> {
        poll_fn(|cx| self.connection.0.poll_close(cx)).await
    }

    /// What this connection says about itself.
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

//! `UdtListener` and `UdtIncoming`: a listening socket, and a connection accepted from it.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use xio_core::{Error, ErrorKind, Incoming, Info, Listener, Operation, Result};

use crate::connection::{ConnectionRef, Order, TaskQueue, describe};

/// Form of an open connection: a byte stream, or a stream of messages.
pub trait Carrier: Send + Sized + 'static {
    #[doc(hidden)]
    const SERVICE: udt_proto::Service;

    #[doc(hidden)]
    fn carry(connection: Held) -> Self;
}

/// A connection on its way to its user.
#[derive(Debug)]
pub struct Held(pub(crate) ConnectionRef);

impl fmt::Debug for ConnectionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut info = Info::default();
        self.0.describe(&mut info);
        write!(f, "{info}")
    }
}

/// A listening socket.
pub struct UdtListener<H> {
    pub(crate) to_task: Arc<TaskQueue>,
    /// Connections to accept. The machine bounds them by the backlog, ended ones included.
    pub(crate) queue: UnboundedReceiver<ConnectionRef>,
    pub(crate) below: Arc<Info>,
    pub(crate) kind: std::marker::PhantomData<fn() -> H>,
}

impl<H: Carrier> Listener for UdtListener<H> {
    type Handle = H;
    type Incoming = UdtIncoming<H>;

    async fn accept(&mut self) -> Result<UdtIncoming<H>> {
        let Some(connection) = self.queue.recv().await else {
            let fact = "the socket can receive no more";
            return Err(Error::new(ErrorKind::Io, "udt", Operation::Accept, fact));
        };
        // A task that has ended has no backlog.
        let _ = self.to_task.order(Order::Taken(connection.0.id));
        Ok(UdtIncoming {
            connection,
            kind: std::marker::PhantomData,
        })
    }

    fn describe(&self, info: &mut Info) {
        describe(&self.below, info);
    }
}

impl<H> Drop for UdtListener<H> {
    fn drop(&mut self) {
        let _ = self.to_task.order(Order::StopListening);
    }
}

impl<H: Carrier> fmt::Debug for UdtListener<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// An accepted connection; dropping it aborts the connection.
pub struct UdtIncoming<H> {
    connection: ConnectionRef,
    kind: std::marker::PhantomData<fn() -> H>,
}

impl<H: Carrier> Incoming for UdtIncoming<H> {
    type Handle = H;

    fn describe(&self, info: &mut Info) {
        self.connection.0.describe(info);
    }

    async fn open(self) -> Result<H> {
        poll_fn(|cx| self.connection.0.poll_connected(cx, Operation::Open)).await?;
        Ok(H::carry(Held(self.connection)))
    }
}

impl<H: Carrier> fmt::Debug for UdtIncoming<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

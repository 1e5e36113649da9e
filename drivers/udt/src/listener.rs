//! `UdtListener` and `UdtIncoming`: waiting for peers, and a peer that came.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use xio_core::{Error, ErrorKind, Incoming, Info, Listener, Operation, Result};

use crate::connection::{ConnectionRef, Order, TaskQueue};

/// What a connection is in the hands of its user: a byte stream, or one of messages.
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

/// A socket that waits for peers.
pub struct UdtListener<H> {
    pub(crate) to_task: Arc<TaskQueue>,
    /// At most as many as the backlog, which the machine keeps to: those that are over count as well.
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
        // A task that is over has no backlog.
        let _ = self.to_task.order(Order::Taken(connection.0.id));
        Ok(UdtIncoming {
            connection,
            kind: std::marker::PhantomData,
        })
    }

    fn describe(&self, info: &mut Info) {
        self.below
            .chain
            .iter()
            .for_each(|name| info.layer(name.clone()));
        info.layer("udt");
        info.local = self.below.local;
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

/// A peer that was accepted; dropping it gives the connection up.
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

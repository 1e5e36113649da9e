//! `TcpPassive` and `TcpIncoming`: waiting for peers, and a peer that came.

use std::fmt;
use std::sync::Arc;

use tokio::net::TcpListener;
use xio_core::{Error, Incoming, Info, Listener, Operation, Result, Stream};

use crate::loss::LossyPeers;
use crate::options::TcpOptions;
use crate::socket;
use crate::stream::TcpHandle;

/// A socket that waits for peers.
pub struct TcpPassive {
    pub(crate) socket: TcpListener,
    pub(crate) options: TcpOptions,
    pub(crate) lossy: Arc<LossyPeers>,
}

impl Listener for TcpPassive {
    type Handle = TcpHandle;
    type Incoming = TcpIncoming;

    async fn accept(&mut self) -> Result<TcpIncoming> {
        let (socket, peer) = self
            .socket
            .accept()
            .await
            .map_err(|e| Error::from_io(e, "tcp", Operation::Accept))?;
        Ok(TcpIncoming {
            handle: TcpHandle::new(socket, Some(peer)),
            options: self.options.clone(),
            lossy: Arc::clone(&self.lossy),
        })
    }

    fn describe(&self, info: &mut Info) {
        info.layer("tcp");
        info.local = self.socket.local_addr().ok();
    }
}

impl fmt::Debug for TcpPassive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// A peer that was accepted; dropping it resets the connection.
pub struct TcpIncoming {
    handle: TcpHandle,
    options: TcpOptions,
    lossy: Arc<LossyPeers>,
}

impl Incoming for TcpIncoming {
    type Handle = TcpHandle;

    fn describe(&self, info: &mut Info) {
        self.handle.describe(info);
    }

    async fn open(self) -> Result<TcpHandle> {
        socket::configure(self.handle.socket(), &self.options, Operation::Open)?;
        Ok(self.handle.with_lossy(&self.options, &self.lossy))
    }
}

impl fmt::Debug for TcpIncoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.handle)
    }
}

//! The connections of a front end: nodes and programs that dial it, and nodes that it dials.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::{LazyConfigAcceptor, TlsConnector};
use tracing::warn;

use crate::error::{Error, Result};
use crate::handshakes::{Handshakes, Permit};
use crate::link::{Io, OPENING};
use crate::node::{PAUSES, jittered, peer};
use crate::nodes::Nodes;
use crate::tls::{self, AUTHORITY};

impl Nodes {
    /// Accepts nodes, and programs that join or renew, for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends the connections that it accepted, with their sessions.
    pub async fn listen(&self, listener: TcpListener) {
        let handshakes = Handshakes::default();
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "no connection accepted");
                    // Descriptors are used up; a loop without a pause would take a processor too.
                    sleep(PAUSES.0).await;
                    continue;
                }
            };
            let Some(permit) = handshakes.begin(address.ip()) else {
                continue;
            };
            let nodes = self.clone();
            connections.spawn(async move {
                // A hint; without it, small messages are late.
                let _ = stream.set_nodelay(true);
                if let Err(error) = nodes.accept(stream, address, permit).await {
                    warn!(%address, %error, "connection ended");
                }
            });
        }
    }

    /// Shakes hands with a peer that dialled, and attends to it until it ends.
    pub(crate) async fn accept(
        &self,
        stream: impl Io,
        address: SocketAddr,
        permit: Permit,
    ) -> Result<()> {
        let member = &self.shared.member;
        let broken = |error: std::io::Error| Error::connection(address.to_string(), error);
        let handshake = async {
            let hello = LazyConfigAcceptor::new(Acceptor::default(), stream)
                .await
                .map_err(broken)?;
            let authority = hello
                .client_hello()
                .alpn()
                .is_some_and(|mut protocols| protocols.any(|protocol| protocol == AUTHORITY));
            let current = member.current();
            let config = match authority {
                true => &current.issue,
                false => &current.accept,
            };
            let stream = hello
                .into_stream(Arc::clone(config))
                .await
                .map_err(broken)?;
            Ok::<_, Error>((stream, authority))
        };
        let (stream, authority) = timeout(OPENING, handshake)
            .await
            .map_err(|elapsed| Error::connection(address.to_string(), elapsed))??;
        if authority {
            return self.issue(stream, address, permit).await;
        }
        drop(permit);
        let peer = peer(stream.get_ref().1.peer_certificates())?;
        self.attend(stream, peer, &address.to_string()).await
    }

    /// Keeps a connection to the node that listens at `address` (`HOST:PORT`), dialled again for
    /// ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends the membership of the node, and the sessions on it.
    pub async fn dial(&self, address: &str) {
        let mut pause = PAUSES.0;
        loop {
            let begun = tokio::time::Instant::now();
            let error = match self.dial_once(address).await {
                Ok(()) => "the node closed it".to_owned(),
                Err(error) => error.to_string(),
            };
            if begun.elapsed() > PAUSES.1 {
                pause = PAUSES.0;
            }
            warn!(node = address, %error, "connection to the node ended; dialled again");
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Makes one connection and attends to it until it ends.
    async fn dial_once(&self, address: &str) -> Result<()> {
        let connect = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let connector = TlsConnector::from(Arc::clone(&self.shared.member.current().dial));
            connector.connect(tls::server_name(), stream).await
        };
        let stream = timeout(OPENING, connect)
            .await
            .map_err(|elapsed| Error::connection(address, elapsed))?
            .map_err(|error| Error::connection(address, error))?;
        let peer = peer(stream.get_ref().1.peer_certificates())?;
        self.attend(stream, peer, address).await
    }

    async fn issue(&self, _stream: impl Io, _address: SocketAddr, _permit: Permit) -> Result<()> {
        Ok(())
    }
}

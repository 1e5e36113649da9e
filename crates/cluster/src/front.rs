//! The connections of a front end: nodes and programs that dial it, and nodes that it dials.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::server::Acceptor;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;

use crate::connections::{self, State, connect};
use crate::error::{Error, Result};
use crate::handshakes::Permit;
use crate::identity::Peer;
use crate::issue;
use crate::link::{Io, OPENING};
use crate::nodes::Nodes;
use crate::tls::AUTHORITY;

impl Nodes {
    /// Accepts nodes, and programs that join or renew, for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends the connections that it accepted, with their sessions.
    pub async fn listen(&self, listener: TcpListener) {
        connections::accept(listener, |stream, address, permit| {
            let nodes = self.clone();
            async move { nodes.accept(stream, address, permit).await }
        })
        .await;
    }

    /// Keeps a connection to the node that listens at `address` (`HOST:PORT`), dialled again for
    /// ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends the membership of the node, and the sessions on it.
    pub async fn dial(&self, address: &str) {
        connections::dial(address, |state| {
            let (nodes, address) = (self.clone(), address.to_owned());
            async move {
                let current = nodes.shared.member.for_handshake().await;
                let stream = connect(&address, Arc::clone(&current.dial)).await?;
                let peer = Peer::of_certificates(stream.get_ref().1.peer_certificates())?;
                nodes.attend(stream, peer, &address, state).await
            }
        })
        .await;
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
            let current = member.for_handshake().await;
            let config = match authority {
                true => &current.issue,
                false => &current.accept,
            };
            let stream = hello
                .into_stream(Arc::clone(config))
                .await
                .map_err(broken)?;
            Ok((stream, authority))
        };
        let (stream, authority) = timeout(OPENING, handshake)
            .await
            .map_err(|elapsed| Error::connection(address.to_string(), elapsed))??;
        if authority {
            return issue::serve(self.clone(), stream, address, permit).await;
        }
        drop(permit);
        let peer = Peer::of_certificates(stream.get_ref().1.peer_certificates())?;
        let address = address.to_string();
        self.attend(stream, peer, &address, State::default()).await
    }
}

//! `DataLayer`: protection of data connections; TLS, whose session is that of the control connection,
//! or Grid security.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use xio::tls::{TlsHandle, TlsSession};
use xio::{BoxStream, DynLayer, Entry, Info, Result, Stream as _, Target, Transform};

use xio_gsi::Gsi;

use super::DataSide;
use crate::config::SessionReuse;

/// The longest handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// Wait for a connection that resumes, beside the first one that does not, on a network without
/// delay: `curl` takes up to 0.2 s from the reply to `PASV` to its connection.
const GRACE: Duration = Duration::from_millis(300);

/// The longest such wait.
const MOST_GRACE: Duration = Duration::from_secs(3);

/// The wait for a client whose control connection took this long for its handshake, two round trips:
/// a data connection takes three.
fn grace(handshake: Duration) -> Duration {
    handshake
        .saturating_mul(2)
        .saturating_add(GRACE)
        .min(MOST_GRACE)
}

/// The layer of data connections behind `AUTH TLS` and `PROT P` (RFC 4217 §9).
///
/// This end is the server of the handshake, whichever end connected. The client proves itself by
/// resuming the session of its control connection. Some clients cannot, or run out of tickets:
/// unless one has shown that it can, or the administrator demands it, its host is enough, as on a
/// clear channel. The first such connection waits for one that resumes.
pub(crate) struct DataTls {
    session: Arc<TlsSession>,
    reuse: SessionReuse,
    /// Whether the client has not yet shown whether it resumes.
    first: bool,
    /// The client's host.
    peer: IpAddr,
}

impl DataTls {
    pub(crate) fn new(session: Arc<TlsSession>, reuse: SessionReuse, peer: IpAddr) -> Self {
        Self {
            first: session.begin(),
            session,
            reuse,
            peer,
        }
    }

    async fn open(&self, inner: BoxStream) -> Result<TlsHandle<BoxStream>> {
        let from = inner.info().peer;
        let own_host = from.is_some_and(|from| from.ip().to_canonical() == self.peer);
        let required = self.reuse == SessionReuse::Required;
        let must_resume = required || !own_host || self.session.can_resume();
        let stream = self.session.data(inner, HANDSHAKE, must_resume).await?;
        if self.first && !stream.tls_info().resumed {
            let wait = grace(self.session.handshake_time());
            self.session.give_way(wait).await?;
        }
        Ok(stream)
    }
}

impl Transform<BoxStream> for DataTls {
    type Handle = TlsHandle<BoxStream>;

    async fn initiate(&self, inner: BoxStream, _: &Target) -> Result<Self::Handle> {
        self.open(inner).await
    }

    async fn respond(&self, inner: BoxStream) -> Result<Self::Handle> {
        self.open(inner).await
    }

    fn describe(&self, info: &mut Info) {
        info.layer("tls");
    }
}

impl fmt::Debug for DataTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tls")
    }
}

/// The protection of data connections.
pub(crate) enum DataLayer {
    /// That of FTP over TLS.
    Tls(DataTls),
    /// That of Grid security.
    Grid(Box<Gsi>),
}

impl DataSide {
    /// The stack of the next data connections, with the client's bound, and a layer of protection on
    /// top.
    pub(super) fn protected(&self, layer: Option<DataLayer>) -> xio::DynStack {
        let net = self.net.clone();
        let net = match &self.bound {
            Some(bound) => bound.over(net),
            None => net,
        };
        let (name, layer) = match layer {
            Some(DataLayer::Tls(layer)) => ("tls", DynLayer::new(layer)),
            Some(DataLayer::Grid(layer)) => ("gsi", DynLayer::new(*layer)),
            None => return net,
        };
        let entry = Entry::new(name).expect("the driver has this name");
        net.layer(layer, &entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_connection_that_resumes_follows_the_round_trip() {
        for (round_trip, wait) in [(0, 300), (1, 304), (200, 1100), (5000, 3000)] {
            let handshake = Duration::from_millis(2 * round_trip);
            assert_eq!(grace(handshake), Duration::from_millis(wait));
        }
    }
}

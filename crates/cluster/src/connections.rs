//! Connections of either end: dialled again for ever, or accepted for ever, and their registration.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tracing::{info, warn};

use crate::error::{Error, Result};
use crate::handshakes::{Handshakes, Permit};
use crate::link::OPENING;
use crate::tls;

/// Pauses between attempts to reach the other end.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Pause after the front end refused the node.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// The registration of a node by one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Registration {
    /// Not yet.
    #[default]
    Begun,
    /// The node is registered.
    Registered,
    /// The front end does not use the node.
    Refused,
    /// The connection serves its sessions to their end, and another one is to be dialled.
    Released,
}

impl Registration {
    /// Ends the registration, if there is one.
    pub(crate) fn release(state: &watch::Sender<Self>) {
        state.send_if_modified(|state| {
            let registered = *state == Self::Registered;
            if registered {
                *state = Self::Released;
            }
            registered
        });
    }
}

/// The registration of a connection, shared by its calls.
pub(crate) type State = Arc<watch::Sender<Registration>>;

/// Keeps a connection to the peer at `address`, for ever: dials again when it ends, and beside it
/// when it is released. `connect` makes and serves one connection.
pub(crate) async fn dial<F>(address: &str, connect: impl Fn(State) -> F)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut pause = PAUSES.0;
    // Released connections go on until their sessions end.
    let mut connections = JoinSet::new();
    loop {
        let begun = Instant::now();
        let state = State::default();
        let mut states = state.subscribe();
        let newest = connections.spawn(connect(Arc::clone(&state))).id();
        let end = loop {
            tokio::select! {
                _ = states.wait_for(|state| *state == Registration::Released) => break None,
                Some(end) = connections.join_next_with_id() => match end {
                    Ok((id, end)) if id == newest => break Some(end),
                    Err(error) if error.id() == newest => break None,
                    _ => {}
                },
            }
        };
        if *state.borrow() == Registration::Refused {
            pause = REFUSED_PAUSE;
        } else if begun.elapsed() > PAUSES.1 {
            // One that was short is no reason for haste: another node may have the same name.
            pause = PAUSES.0;
        }
        match end {
            None => info!(address, "registration ended; dialled again"),
            Some(Ok(())) => warn!(address, "connection closed; dialled again"),
            Some(Err(error)) => warn!(address, %error, "connection ended; dialled again"),
        }
        sleep(jittered(pause)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Half the pause, and a random part of the other half.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let mut random = [0];
    let random = match aws_lc_rs::rand::fill(&mut random) {
        Ok(()) => random[0],
        Err(_) => u8::MAX,
    };
    pause / 2 + pause * u32::from(random) / 512
}

/// Opens a connection, and shakes hands on it.
pub(crate) async fn connect(
    address: &str,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>> {
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(config)
            .connect(tls::server_name(), stream)
            .await
    };
    timeout(OPENING, connect)
        .await
        .map_err(|elapsed| Error::connection(address, elapsed))?
        .map_err(|error| Error::connection(address, error))
}

/// Accepts connections for ever, as many at the same time as the limits on handshakes allow.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    serve: impl Fn(TcpStream, SocketAddr, Permit) -> F,
) where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let handshakes = Handshakes::default();
    let mut connections = JoinSet::new();
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
        // A hint; without it, small messages are late.
        let _ = stream.set_nodelay(true);
        let served = serve(stream, address, permit);
        connections.spawn(async move {
            if let Err(error) = served.await {
                warn!(%address, %error, "connection ended");
            }
        });
    }
}

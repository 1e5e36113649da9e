//! UDT between two servers: whether they offer it, and the proof that it gets through.

use std::sync::Arc;

use ftp_wire::command::{Command, Eret, Esto, Mode};
use ftp_wire::memory::MemoryLimits;

use super::protect::protect;
use super::set_up;
use crate::client::Client;
use crate::copy::Stop;
use crate::error::TransferError;
use crate::options::ConnectOptions;
use crate::stripes::Width;
use crate::url::Site;

/// The bytes of the proof, and its longest time in seconds.
const PROOF: MemoryLimits = MemoryLimits::new(64 << 10, 5);

/// Says whether data between these servers may go over UDT: neither end has to begin anew, the source
/// cannot change its congestion control, and both have memory to prove the way with.
pub(in crate::copy) fn is_offered(source: &Client, destination: &Client) -> bool {
    let (from, to) = (&source.abilities, &destination.abilities);
    let both = from.udt && to.udt && from.memory.is_some() && to.memory.is_some();
    both && !from.adapts && to.held
}

/// Moves bytes of memory from one server to the other, with the stack and the protection of `options`;
/// gives the sessions, which count at the servers until their end.
///
/// # Errors
/// They do not get through, or a server refuses them.
pub(in crate::copy) async fn prove(
    source: &Site,
    destination: &Site,
    options: &Arc<ConnectOptions>,
) -> Result<[Client; 2], TransferError> {
    let connect = |site| Box::pin(Client::connect(site, Arc::clone(options)));
    let (source, destination) = tokio::join!(connect(source), connect(destination));
    let (mut source, mut destination) = (source?, destination?);
    match protect(&mut source, &mut destination).await {
        Err(Stop::Lost(error) | Stop::Fatal(error)) => return Err(error),
        Err(_) => {
            return Err(TransferError::request(
                "the servers do not know each other",
                "",
            ));
        }
        Ok(()) => {}
    }
    let mode = match source.is_extended() && destination.is_extended() {
        true => Mode::Extended,
        false => Mode::Stream,
    };
    let width = Width::of_streams(1);
    Box::pin(set_up(&mut source, &mut destination, mode, width, None)).await?;
    let most = [&source, &destination].map(|client| client.abilities.memory);
    let most = most.into_iter().flatten().fold(PROOF, MemoryLimits::within);
    let store = Esto::Module(most.call());
    let store = Command::Esto(store, destination.path(b".")?);
    let mut store = destination.control.send(store);
    // Before a handshake of Grid security it has to be there first.
    destination.control.flush().await;
    let retrieve = Eret::Module(most.call());
    let retrieve = Command::Eret(retrieve, source.path(b".")?);
    let mut retrieve = source.control.send(retrieve);
    tokio::try_join!(retrieve.ended(), store.ended())?;
    Ok([source, destination])
}

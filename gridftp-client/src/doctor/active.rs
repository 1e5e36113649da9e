//! Data connections in the active direction: the server connects to this host, as downloads in
//! MODE E have it.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ftp_proto::client::FailureKind;
use ftp_wire::command::{Mode, Type};
use gridftp_data::{ErrorKind, ReceivePlan, Wait, Watch};
use gsi::finding::{Finding, Verdict};
use xio_core::PortRange;

use super::data::{LOG, SLOW, STALLED, is_stalled};
use super::{Visit, bare};
use crate::client::Client;
use crate::copy::Lines;
use crate::error::TransferError;
use crate::ls::Form;
use crate::setup::{Ahead, active};
use crate::transfer::Transfer;
use crate::url::show;

const TOPIC: &str = "data";

/// The way without connections to this host.
const STREAM: &str = "--mode stream downloads by connections to the server alone";

impl Visit<'_> {
    /// Has the server list the directory through a connection that it makes to this host.
    pub(super) async fn active(&mut self, client: &mut Client, directory: &[u8]) {
        if !client.is_extended() {
            let fact = "active: not tried, as only MODE E has servers connect to this host";
            return self.tell(Finding::skip(TOPIC, fact));
        }
        let (ports, limit) = (self.options.data_ports, self.transfer_limit());
        let finding = connected_to(client, directory, ports, limit).await;
        let is_reached = finding.verdict == Verdict::Ok;
        self.tell(finding);
        let (local, peer) = (client.control.local(), client.control.peer());
        let is_told_another = self.options.data_address.is_some();
        if !is_reached && !is_told_another && is_translated(local, peer) {
            let fact = format!(
                "this host has the private address {local}, and the server the public one {peer}: \
                 behind address translation (NAT) a server cannot connect to this host"
            );
            let remedy = "use --mode stream, or copy from a host with a public address; uploads \
                          need no such connections";
            self.tell(Finding::warn(TOPIC, fact, remedy));
        }
    }
}

/// The finding about a listing through a connection of the server to this host, at one of `ports`.
async fn connected_to(
    client: &mut Client,
    directory: &[u8],
    ports: Option<PortRange>,
    limit: Duration,
) -> Finding {
    let begun = Instant::now();
    let late = format!("not done within {} s", limit.as_secs());
    let at = match tokio::time::timeout(limit, Box::pin(listen(client))).await {
        Ok(Ok(at)) => at,
        Ok(Err(error)) => return not_asked(ports, &error),
        Err(_) => {
            let fact = format!("active: opening a port here and telling the server: {late}");
            return Finding::warn(TOPIC, fact, STREAM);
        }
    };
    let watch = Watch::new();
    let pulling = Box::pin(pull(client, directory, &watch));
    let pulled = tokio::time::timeout(limit, pulling).await;
    let peer = client.control.peer();
    let connects = format!(
        "active: the server connects to port {} of this host",
        at.port()
    );
    let name = show(directory);
    match pulled {
        Ok(Ok(())) => {
            let fact = format!("{connects}: listing of {name} in {:.1?}", begun.elapsed());
            Finding::ok(TOPIC, fact)
        }
        Ok(Err(error)) if !watch.is_open() => failed(at, ports, peer, &error),
        Err(_) if !watch.is_open() => unreached(at, ports, peer, &late),
        Ok(Err(error)) => {
            let told = error.to_string();
            let why = bare(&told, error.fields().remedy.unwrap_or_default());
            let fact = format!("{connects}, and the listing of {name} fails: {why}");
            match is_stalled(&error) {
                true => Finding::fail(TOPIC, fact, STALLED),
                false => Finding::fail(TOPIC, fact, LOG),
            }
        }
        Err(_) => {
            let fact = format!("{connects}, and the listing of {name} is {late}");
            Finding::warn(TOPIC, fact, SLOW)
        }
    }
}

/// Listens as for a download in MODE E, and tells the server the port.
async fn listen(client: &mut Client) -> Result<SocketAddr, TransferError> {
    let mut ahead = Ahead::default();
    client.send_mode(Mode::Stream, &mut ahead);
    let peers = client.senders().await?;
    let at = client.listen(peers).await?;
    ahead.must(client.control.send(active(at)));
    ahead.settle().await?;
    Ok(at)
}

/// Has the server list a directory through the port that it was told.
async fn pull(client: &mut Client, directory: &[u8], watch: &Watch) -> Result<(), TransferError> {
    let path = client.path(directory)?;
    // Every server has it.
    let replies = client.control.send(Form::Plain.command(path));
    let mut transfer = Transfer::download(replies, directory);
    let mut lines = Lines::new(|_: &[u8]| ());
    let plan = ReceivePlan::new(Mode::Stream, Type::Image);
    let data = client.channel.get();
    let data = data.receive_chunks(&mut lines, &plan, watch);
    let pulled = transfer.run(watch, data).await;
    pulled.map(drop).map_err(|failure| failure.error)
}

/// The finding about a port that could not be opened, or that the server does not take.
fn not_asked(ports: Option<PortRange>, error: &TransferError) -> Finding {
    let told = error.to_string();
    let fact = bare(&told, error.fields().remedy.unwrap_or_default());
    let fact = format!("active: {fact}");
    match (error, ports) {
        (TransferError::Data { .. }, Some(ports)) => {
            let remedy = format!(
                "free a port of {ports}, or name others by --data-ports LOW-HIGH \
                 (GLOBUS_TCP_PORT_RANGE); {STREAM}"
            );
            Finding::fail(TOPIC, fact, remedy)
        }
        (TransferError::Data { .. }, None) => {
            let remedy = format!(
                "this host must have a free port at the address that the server sees of it; {STREAM}"
            );
            Finding::fail(TOPIC, fact, remedy)
        }
        _ => Finding::warn(TOPIC, fact, STREAM),
    }
}

/// The finding about a listing that failed without a connection.
fn failed(
    at: SocketAddr,
    ports: Option<PortRange>,
    peer: IpAddr,
    error: &TransferError,
) -> Finding {
    let told = error.to_string();
    let why = bare(&told, error.fields().remedy.unwrap_or_default());
    let fact = format!("active: {why}");
    match error {
        TransferError::Data { cause, .. } => match cause.kind() {
            ErrorKind::Timeout(Wait::Accept) => unreached(at, ports, peer, why),
            _ => Finding::fail(TOPIC, fact, LOG),
        },
        TransferError::Control(refused) if refused.kind() == Some(FailureKind::DataChannel) => {
            unreached(at, ports, peer, why)
        }
        _ => Finding::warn(TOPIC, fact, STREAM),
    }
}

/// The finding about a server that does not connect.
fn unreached(at: SocketAddr, ports: Option<PortRange>, peer: IpAddr, why: &str) -> Finding {
    let range = match ports {
        Some(ports) => format!("of the data ports {ports}"),
        None => "of any, as no data ports are named".to_owned(),
    };
    let fact = format!(
        "active: no connection from the server to {at}, a port {range}, although downloads in \
         MODE E connect to this host: {why}"
    );
    let remedy = match ports {
        Some(ports) => format!(
            "firewalls here must let TCP connections from {peer} to ports {ports} through; {STREAM}"
        ),
        None => format!(
            "name ports by --data-ports LOW-HIGH (GLOBUS_TCP_PORT_RANGE), and have firewalls here \
             let TCP connections from {peer} to them through; {STREAM}"
        ),
    };
    Finding::fail(TOPIC, fact, remedy)
}

/// Says whether an address translator stands between these ends of a connection.
fn is_translated(local: IpAddr, peer: IpAddr) -> bool {
    is_private(local) && !is_private(peer) && !peer.is_loopback() && !peer.is_unspecified()
}

/// Says whether an address has a meaning within one site only (RFC 1918, 3927, 4193 and 6598).
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            address.is_private() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            let [first, ..] = address.segments();
            first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80
        }
    }
}

#[cfg(test)]
mod tests {
    use ftp_wire::reply::Reply;

    use super::*;
    use crate::error::ControlError;

    #[test]
    fn a_private_address_and_a_public_peer_are_translated() {
        let is =
            |local: &str, peer: &str| is_translated(local.parse().unwrap(), peer.parse().unwrap());
        for local in [
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.2",
            "169.254.0.9",
            "100.64.0.1",
            "100.127.255.1",
            "::ffff:192.168.1.2",
            "fd00::1",
        ] {
            assert!(is(local, "198.51.100.7"), "{local}");
            assert!(!is(local, "10.0.0.1"), "{local}");
            assert!(!is(local, "127.0.0.1"), "{local}");
        }
        for local in ["198.51.100.9", "172.32.0.1", "100.128.0.1", "2001:db8::1"] {
            assert!(!is(local, "198.51.100.7"), "{local}");
        }
        assert!(is("fd00::1", "2001:db8::1"));
    }

    #[test]
    fn a_firewall_is_told_the_ports_and_the_server() {
        let (at, peer) = ("192.0.2.1:50007", "192.0.2.9".parse().unwrap());
        let of = |ports| unreached(at.parse().unwrap(), ports, peer, "late");
        let named = of(PortRange::new(50000, 50010));
        assert!(
            named
                .fact
                .contains("192.0.2.1:50007, a port of the data ports 50000-50010")
        );
        assert!(named.fact.contains("MODE E") && named.fact.ends_with("late"));
        let remedy = named.remedy.unwrap();
        assert!(remedy.contains("from 192.0.2.9 to ports 50000-50010"));
        assert!(remedy.contains("--mode stream"));
        let any = of(None).remedy.unwrap();
        assert!(any.contains("--data-ports LOW-HIGH") && any.contains("--mode stream"));
    }

    #[test]
    fn a_listing_that_is_refused_is_not_the_firewall() {
        let (at, peer) = (
            "192.0.2.1:5000".parse().unwrap(),
            "192.0.2.9".parse().unwrap(),
        );
        let of = |reply| {
            let error = ControlError::Refused {
                site: "h:1".to_owned(),
                command: "LIST".to_owned(),
                reply,
            };
            failed(at, None, peer, &error.into())
        };
        let lost = of(Reply::of::<425>("no connection"));
        assert_eq!(lost.verdict, Verdict::Fail);
        assert!(lost.fact.contains("to 192.0.2.1:5000"), "{lost}");
        let denied = of(Reply::of::<550>("permission denied"));
        assert_eq!(denied.verdict, Verdict::Warn);
        assert!(!denied.to_string().contains("firewall"), "{denied}");
    }
}

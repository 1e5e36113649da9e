//! Stripes: the files that are worth several hosts of a server, and the set-up of their channels.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use byte_ranges::Layout;
use ftp_wire::command::{Command, Family};
use ftp_wire::marker::Perf;
use ftp_wire::opts::{Opts, Parallelism};
use gridftp_data::{Network, Peers};

use crate::client::Client;
use crate::error::{ControlError, TransferError};
use crate::setup::Ahead;

/// Most stripes of which the bytes are told.
const MOST: usize = 256;

/// Seconds between the markers of a source with stripes, which tell their bytes.
const MARKERS: u32 = 5;

/// The data connections of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Width {
    /// Connections to each address that carry data from the start.
    pub(crate) streams: u32,
    /// Connections that may carry data of a file later, where there is one address.
    pub(crate) most: u32,
    /// Most addresses.
    pub(crate) stripes: NonZero<u32>,
}

impl Width {
    /// Connections to a single address.
    pub(crate) const fn of_streams(streams: u32) -> Self {
        Self {
            streams,
            most: streams,
            stripes: NonZero::<u32>::MIN,
        }
    }

    /// The same connections to a single address.
    pub(crate) const fn to_one(self) -> Self {
        Self {
            stripes: NonZero::<u32>::MIN,
            ..self
        }
    }

    /// The numbers of connections to each address.
    pub(crate) const fn parallelism(self) -> Parallelism {
        Parallelism::up_to(self.streams, self.most)
    }

    /// Whether connections may be added within a file.
    pub(crate) const fn widens(self) -> bool {
        self.most > self.streams
    }

    /// Says whether there may be several addresses.
    pub(crate) const fn is_striped(self) -> bool {
        self.stripes.get() > 1
    }
}

/// The facts of a session that decide the data connections of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathFacts {
    pub(crate) round_trip: Duration,
    /// Whether the server may have stripes.
    pub(crate) may_stripe: bool,
    /// Whether data connections lead to other hosts than the control connection.
    pub(crate) nodes: bool,
    /// Whether the stripes of the source send a part of a file as well as the whole: those of
    /// Globus servers leave bytes out after `REST`, and send others than `ERET` asks for.
    pub(crate) parts: bool,
    /// The most connections of a file, the sender of which adds some while it runs. A Globus server
    /// does not tell: it takes the starting number alone, and is told no other.
    pub(crate) connections: Option<u32>,
}

/// The bytes of each stripe of a file, as servers tell them.
#[derive(Debug, Default)]
pub(crate) struct StripeBytes {
    /// Those of earlier attempts.
    before: Vec<u64>,
    now: Vec<u64>,
}

impl StripeBytes {
    /// Notes a marker, and gives the bytes that all stripes have moved in this attempt.
    pub(crate) fn note(&mut self, perf: &Perf) -> u64 {
        let index = usize::try_from(perf.stripe).unwrap_or(usize::MAX);
        if index < MOST {
            if self.now.len() <= index {
                self.now.resize(index + 1, 0);
            }
            if let Some(bytes) = self.now.get_mut(index) {
                *bytes = perf.bytes.max(*bytes);
            }
        }
        self.now.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Begins an attempt, in which servers count anew.
    pub(crate) fn begin(&mut self) {
        self.before = self.all();
        self.now.clear();
    }

    /// The bytes of each stripe; empty unless there are several.
    pub(crate) fn told(&self) -> Vec<u64> {
        let all = self.all();
        if all.len() > 1 { all } else { Vec::new() }
    }

    fn all(&self) -> Vec<u64> {
        let stripes = self.before.len().max(self.now.len());
        let of = |bytes: &[u64], index| bytes.get(index).copied().unwrap_or(0);
        (0..stripes)
            .map(|index| of(&self.before, index).saturating_add(of(&self.now, index)))
            .collect()
    }
}

/// The scope of an address, the widest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Global,
    Private,
    Link,
    Loopback,
}

fn scope(ip: IpAddr) -> Scope {
    let (private, link) = match ip {
        IpAddr::V4(ip) => (ip.is_private(), ip.is_link_local()),
        IpAddr::V6(ip) => (ip.is_unique_local(), ip.is_unicast_link_local()),
    };
    match ip.is_loopback() || ip.is_unspecified() {
        true => Scope::Loopback,
        false if link => Scope::Link,
        false if private => Scope::Private,
        false => Scope::Global,
    }
}

/// Whether a server at `peer` may have a stripe at `at`: it must not aim us at services that trust
/// this host or its network, which it could not reach itself.
fn is_plausible(peer: IpAddr, at: SocketAddr) -> bool {
    let (peer, ip) = (peer.to_canonical(), at.ip().to_canonical());
    ip == peer || (at.port() >= 1024 && scope(ip) <= scope(peer))
}

/// The addresses of `nodes` that a server at `peer` may have.
fn plausible(peer: IpAddr, mut nodes: Vec<SocketAddr>) -> Vec<SocketAddr> {
    nodes.retain(|node| is_plausible(peer, *node));
    nodes
}

/// The hosts of these addresses.
fn networks(nodes: &[SocketAddr]) -> Arc<[Network]> {
    let hosts = nodes.iter().map(|node| Network::from(node.ip()));
    hosts.collect()
}

impl Client {
    /// The facts that decide the data connections of a file that this server sends.
    pub(crate) fn path_facts(&self) -> PathFacts {
        PathFacts {
            round_trip: self.round_trip(),
            // Our own server, which alone has this, knows the ranges of each stripe.
            parts: self.abilities.held,
            connections: self.abilities.connections,
            may_stripe: self.may_stripe(self.state.senders.as_deref()),
            nodes: self.abilities.nodes,
        }
    }

    /// The facts that decide the data connections of a file that we send.
    pub(crate) fn path_facts_to(&self) -> PathFacts {
        PathFacts {
            parts: true,
            may_stripe: self.may_stripe(self.state.receivers.as_deref()),
            ..self.path_facts()
        }
    }

    /// The facts that decide the data connections of a file that this server sends to `destination`,
    /// where `both` have MODE E or not.
    pub(crate) fn path_facts_between(&self, destination: &Self, both: bool) -> PathFacts {
        let (from, to) = (self.path_facts(), destination.path_facts_to());
        PathFacts {
            round_trip: from.round_trip.max(to.round_trip),
            parts: from.parts,
            connections: match both {
                true => from.connections.zip(to.connections).map(|(a, b)| a.min(b)),
                false => None,
            },
            nodes: from.nodes || to.nodes,
            may_stripe: both && self.abilities.stripes && to.may_stripe,
        }
    }

    fn may_stripe(&self, nodes: Option<&[SocketAddr]>) -> bool {
        let stripes = self.abilities.stripes && self.is_extended();
        stripes && nodes.is_none_or(|nodes| nodes.len() > 1)
    }

    /// Tells our own server, which alone has the option, the most stripes that are to listen.
    pub(crate) fn limit_stripes(&mut self, most: NonZero<u32>) {
        let told = self.state.most_stripes.unwrap_or(NonZero::<u32>::MAX);
        if most != told && self.abilities.held {
            self.state.most_stripes = Some(most);
            drop(self.control.send(Command::Opts(Opts::Stripes { most })));
        }
    }

    /// Has the server listen on its stripes that store; none if it refuses.
    pub(crate) async fn ask_receivers(&mut self) -> Result<Vec<SocketAddr>, TransferError> {
        let told = self.ask_stripes(false).await?;
        Ok(self.state.receivers.insert(told).clone())
    }

    /// The stripes of the server that send, as they listen; none if it refuses.
    async fn ask_senders(&mut self) -> Result<Vec<SocketAddr>, TransferError> {
        let told = self.ask_stripes(true).await?;
        Ok(self.state.senders.insert(told).clone())
    }

    async fn ask_stripes(&mut self, retrieve: bool) -> Result<Vec<SocketAddr>, TransferError> {
        // Only a front end of ours may have other nodes for the one use than for the other.
        if self.abilities.nodes && self.state.lists_senders != retrieve {
            self.state.lists_senders = retrieve;
            drop(
                self.control
                    .send(Command::Opts(Opts::SpasCommand { retrieve })),
            );
        }
        let family = self.control.peer().is_ipv6().then_some(Family::V6);
        let mut replies = self.control.send(Command::Spas(family));
        match self.listening(&mut replies).await {
            Err(TransferError::Control(ControlError::Refused { .. })) => Ok(Vec::new()),
            told => told,
        }
    }

    /// The addresses of the stripes that listen for us, or the one of a server without; `None` where
    /// `PASV` is to be used.
    pub(crate) async fn stripes_to_us(&mut self) -> Result<Option<Vec<SocketAddr>>, TransferError> {
        let nodes = self.ask_receivers().await?;
        if nodes.len() < 2 {
            return Ok(Some(self.at_its_host(nodes)).filter(|nodes| !nodes.is_empty()));
        }
        let peer = self.control.peer();
        let odd = nodes.iter().find(|at| !is_plausible(peer, **at));
        let Some(odd) = odd.filter(|_| !self.options.trust_pasv) else {
            return Ok(Some(nodes));
        };
        self.note(&format!(
            "{}: gives data address {odd} for a stripe; using one connection, see \
             --trust-pasv-address",
            self.site()
        ));
        self.state.receivers = Some(Vec::new());
        Ok(None)
    }

    /// Says whether a data connection may lead to this address.
    pub(crate) fn may_listen_at(&self, at: SocketAddr) -> bool {
        let peer = self.control.peer();
        at.ip().to_canonical() == peer
            || self.options.trust_pasv
            || (self.abilities.nodes && is_plausible(peer, at))
    }

    /// The hosts that may connect to us, where there are no stripes.
    pub(crate) async fn senders(&mut self) -> Result<Peers, TransferError> {
        let peer = self.control.peer();
        let has_nodes = self.abilities.stripes && self.options.trust_pasv;
        if !has_nodes && !self.abilities.nodes {
            return Ok(Peers::Only(peer));
        }
        let nodes = match self.state.senders.clone() {
            Some(nodes) => nodes,
            None => self.ask_senders().await?,
        };
        Ok(self.among(nodes))
    }

    /// The server and those of its nodes that it may have.
    fn among(&self, nodes: Vec<SocketAddr>) -> Peers {
        let peer = self.control.peer();
        let nodes = match self.options.trust_pasv {
            true => nodes,
            false => plausible(peer, nodes),
        };
        Peers::Among(peer, networks(&nodes))
    }

    /// Has the stripes of the server connect to us, as many as the width and the most connections
    /// allow; says whether it does.
    pub(crate) async fn listen_for_stripes(&mut self, width: Width) -> Result<bool, TransferError> {
        let known = self.state.senders.clone().filter(|nodes| nodes.len() > 1);
        let nodes = match known {
            Some(nodes) => nodes,
            None => self.ask_senders().await?,
        };
        if nodes.len() < 2 {
            return Ok(false);
        }
        let at = self.listen(self.among(nodes.clone())).await?;
        let connections = self.channel.get().options_mut().connections;
        let most = (connections / width.streams.max(1)).clamp(1, width.stripes.get());
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        // Each stripe ends its connections by itself, so all may have one port.
        let to = vec![at; nodes.len().min(most)];
        let stripes = u32::try_from(to.len()).unwrap_or(u32::MAX);
        match self.ask(Command::Spor(to)).await {
            Ok(_) => {
                self.state.sending = NonZero::new(stripes);
                Ok(true)
            }
            Err(ControlError::Refused { .. }) => {
                self.state.senders = Some(Vec::new());
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Tells a source with stripes the layout, and asks it for markers.
    pub(crate) fn send_layout(&mut self, layout: Option<Layout>, ahead: &mut Ahead) {
        if std::mem::replace(&mut self.state.laid_out, true) {
            return;
        }
        let opts = |stripe_block, markers| {
            Command::Opts(Opts::Retr {
                parallelism: None,
                stripe_block,
                markers,
            })
        };
        if let Some(layout) = layout {
            let block = match layout {
                Layout::Partitioned => 0,
                Layout::Blocked(block) => block.get(),
            };
            ahead.must(self.control.send(opts(Some(block), None)));
        }
        // The copy does without them.
        drop(self.control.send(opts(None, Some(MARKERS))));
    }
}

#[cfg(test)]
mod tests;

//! `DataSide`: one session's data channel, its listeners and the hosts it may deal with.

mod disk;
mod files;
mod keep;
mod measurements;
mod memory;
mod modules;
mod mover;
mod protect;
mod reporter;
mod retrieve;
mod sent;
mod side;
mod stacks;
mod store;
mod ticker;
mod told;
mod waits;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use ftp_proto::types::Channel;
use ftp_wire::command::{Family, StackSide};
use gridftp_data::{DataChannel, Descriptors, Options, PartMemory, Peers};
use xio::rate::Bound;
use xio::{DynStack, Pool, Target};

use self::disk::DiskStack;
pub(crate) use self::measurements::Measurements;
pub(crate) use self::modules::Digest;
pub(crate) use self::mover::{Context, FILE, Moved, Mover, take_file};
pub(crate) use self::protect::{DataLayer, DataTls};
pub(crate) use self::reporter::{Consent, Reporter, StripeBytes, tenths};
pub(crate) use self::sent::SentGroups;
pub(crate) use self::side::Side;
pub(crate) use self::stacks::{Stacks, offers_udt};
#[cfg(test)]
pub(crate) use self::store::tests as store_tests;
pub(crate) use self::store::{Store, Verdict};
pub(crate) use self::ticker::{every, tick};
pub(crate) use self::waits::waits_of;
use crate::error::{Error, Forbidden};

/// Time for a client to send the rest of a file that was answered 552: most read the reply after
/// that.
const DRAINING: Duration = Duration::from_secs(30);

/// TCP buffers in bytes; 0 for the kernel's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Buffers {
    pub(crate) send: u64,
    pub(crate) receive: u64,
}

impl From<&Channel> for Buffers {
    fn from(channel: &Channel) -> Self {
        Self::new(channel.send_buffer, channel.receive_buffer)
    }
}

impl Buffers {
    /// Accepted connections inherit the buffers of the listening socket.
    pub(crate) fn new(send: u64, receive: u64) -> Self {
        Self { send, receive }
    }
}

/// The addresses of the control connection for the data side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// Our address.
    pub(crate) local: IpAddr,
    /// The client's address.
    pub(crate) peer: IpAddr,
    /// The link of a connection between link-local addresses; else 0.
    pub(crate) link: u32,
    /// The address for clients instead of ours.
    pub(crate) advertise: Option<IpAddr>,
}

impl Ends {
    /// Those of a node, for a client whose control connection is elsewhere: our address is the one
    /// that the kernel uses towards the client.
    pub(crate) fn towards(peer: IpAddr, own: Option<IpAddr>, advertise: Option<IpAddr>) -> Self {
        let peer = peer.to_canonical();
        let any: IpAddr = match peer {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        Self {
            local: own
                .or_else(|| route(any, SocketAddr::new(peer, 9)))
                .unwrap_or(any),
            peer,
            link: 0,
            advertise,
        }
    }

    /// Completes an address of a client: a link-local one is on the client's link, since commands
    /// cannot name another (RFC 4007 §6).
    fn on_link(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
                SocketAddrV6::new(*v6.ip(), v6.port(), 0, self.link).into()
            }
            other => other,
        }
    }

    /// The local address for connections to the client, where the kernel would choose another: data
    /// comes from the address of the control connection (RFC 1123 §4.1.2.12), as firewalls expect.
    ///
    /// Where the kernel's choice is right it stands, since the kernel then has more ports to choose
    /// from.
    fn source(&self) -> Option<IpAddr> {
        let any: IpAddr = match self.peer {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let chosen = route(any, self.on_link(SocketAddr::new(self.peer, 9)))?;
        (chosen != self.local).then_some(self.local)
    }
}

/// Bounds the bytes a second of a session's data connections; `None` for any number. The layer of the
/// bound is under no connection of a client that never asks.
pub(crate) fn limit(bound: &mut Option<Bound>, rate: Option<NonZero<u64>>) {
    let bound = bound.get_or_insert_with(|| Bound::new(None));
    bound.set(rate.map(NonZero::get));
}

/// The address that the kernel uses towards another one.
fn route(any: IpAddr, to: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Nothing is sent: connecting a UDP socket only selects the route.
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// One session's data channel.
#[derive(Debug)]
pub(crate) struct DataSide {
    pub(crate) channel: DataChannel,
    stacks: Arc<Stacks>,
    /// The stack of data connections.
    net: DynStack,
    /// The bound of the client on the bytes a second of the connections that are set up next.
    pub(crate) bound: Option<Bound>,
    /// The client's layers over files.
    disk: Option<DiskStack>,
    /// Whether the last set-up was a passive one.
    listens: bool,
    /// The local address for connections, where it is not the kernel's choice.
    source: Option<IpAddr>,
}

impl DataSide {
    pub(crate) fn new(
        stacks: Arc<Stacks>,
        options: Options,
        (pool, parts): (Pool, PartMemory),
        descriptors: Descriptors,
    ) -> Self {
        let channel = DataChannel::new(options, pool).with_part_memory(parts);
        Self {
            channel: channel.with_descriptors(descriptors),
            net: stacks.default_net(),
            stacks,
            bound: None,
            disk: None,
            listens: false,
            source: None,
        }
    }

    /// Listens for data connections of these hosts and returns the address for the client.
    pub(crate) async fn listen(
        &mut self,
        ends: Ends,
        family: Option<Family>,
        buffers: Buffers,
        (peers, protection): (Peers, Option<DataLayer>),
    ) -> Result<SocketAddr, Error> {
        let told = ends
            .advertise
            .filter(|ip| is_of(*ip, family))
            .unwrap_or(ends.local);
        if !is_of(told, family) {
            return Err(Forbidden::Family(if told.is_ipv4() { 1 } else { 2 }).into());
        }
        self.listens = false;
        let at = ends.on_link(SocketAddr::new(ends.local, 0));
        let at = Target::from(at).with(self.stacks.hints(buffers));
        let stack = self.protected(protection);
        let bound = self.channel.listen(&stack, &at, peers).await?;
        self.listens = true;
        Ok(SocketAddr::new(told, bound.port()))
    }

    /// Remembers the addresses to connect to, which must be of these hosts.
    pub(crate) fn connect_to(
        &mut self,
        to: Vec<SocketAddr>,
        ends: Ends,
        (peers, protection): (Peers, Option<DataLayer>),
    ) -> Result<(), Error> {
        admit(&peers, &to)?;
        self.drop_data();
        self.source = if to.iter().all(|address| address.ip() == ends.peer) {
            ends.source()
        } else {
            None
        };
        let to = to.into_iter().map(|address| ends.on_link(address));
        let stack = self.protected(protection);
        self.channel.connect_to(stack, to.collect());
        Ok(())
    }

    /// Builds data connections or files with this stack from now on; `None` for our own choice.
    pub(crate) fn set_stack(&mut self, side: StackSide, text: Option<&str>) -> Result<(), Error> {
        match side {
            StackSide::Net => {
                let chosen = text.map(|text| self.stacks.net(text)).transpose()?;
                self.net = chosen.unwrap_or_else(|| self.stacks.default_net());
                self.drop_data();
            }
            StackSide::Disk => {
                let chosen = text.map(|text| self.stacks.disk(text)).transpose()?;
                self.disk = chosen.flatten();
            }
        }
        Ok(())
    }

    /// Chooses between reading the rest of a refused upload and resetting its connection.
    pub(crate) fn set_draining(&mut self, drains: bool) {
        self.channel.options_mut().draining = if drains { DRAINING } else { Duration::ZERO };
    }

    /// Sets the buffers of later connections.
    pub(crate) fn settle(&mut self, buffers: Buffers) {
        // The listener chooses ports.
        let mut hints = self.stacks.hints(buffers);
        hints.ports = None;
        hints.source = self.source;
        self.channel.options_mut().socket = hints;
    }

    /// Closes everything.
    pub(crate) fn drop_data(&mut self) {
        self.listens = false;
        self.channel.reset();
    }

    /// Says whether a port is open without a connection.
    pub(crate) fn has_unused_port(&self) -> bool {
        self.listens && !self.channel.is_cached()
    }
}

/// Checks that data may go to these addresses.
///
/// # Errors
/// A port below 1024, or a host that the policy does not admit.
pub(crate) fn admit(peers: &Peers, to: &[SocketAddr]) -> Result<(), Forbidden> {
    for address in to {
        if address.port() < 1024 {
            return Err(Forbidden::LowPort);
        }
        if !peers.admits(*address) {
            return Err(Forbidden::ThirdParty);
        }
    }
    Ok(())
}

/// Says whether an address is of the requested family, if any.
fn is_of(ip: IpAddr, family: Option<Family>) -> bool {
    match family {
        Some(Family::V4) => ip.is_ipv4(),
        Some(Family::V6) => ip.is_ipv6(),
        None => true,
    }
}

//! `DataSide`: one session's data channel, its listeners and the hosts it may deal with.

mod marks;
mod retrieve;
mod store;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use ftp_proto::types::Channel;
use ftp_wire::command::Family;
use gridftp_data::{DataChannel, Options, Peers};
use xio::{DynStack, Pool, Registry, Target};

pub(crate) use self::marks::{Onlooker, every, tenths, tick};
pub(crate) use self::retrieve::{list, retrieve};
pub(crate) use self::store::{Store, store};
use crate::config::{Config, PortRange};
use crate::error::{Error, Forbidden};

/// Stacks for data connections, made from strings once for each choice of buffers.
#[derive(Debug)]
pub(crate) struct Stacks {
    registry: Registry,
    ports: Option<PortRange>,
    made: Mutex<HashMap<Buffers, DynStack>>,
}

/// TCP buffers in bytes; 0 for the kernel's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Buffers {
    send: u64,
    receive: u64,
}

/// Different choices of buffers whose stacks are kept; a client picks the numbers, so they are bounded.
const KEPT: usize = 64;

impl Stacks {
    /// Makes the source of data stacks.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            registry: xio::registry(),
            ports: config.data_ports,
            made: Mutex::new(HashMap::new()),
        }
    }

    /// The stack for these buffers.
    fn get(&self, buffers: Buffers) -> Result<DynStack, Error> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stack) = made.get(&buffers) {
            return Ok(stack.clone());
        }
        let mut options = vec!["nodelay=1".to_owned()];
        if let Some(ports) = self.ports {
            options.push(format!("listen_range={ports}"));
        }
        if buffers.send > 0 {
            options.push(format!("sndbuf={}", buffers.send));
        }
        if buffers.receive > 0 {
            options.push(format!("rcvbuf={}", buffers.receive));
        }
        let stack = self
            .registry
            .stack(&format!("tcp:{}", options.join(";")))
            .map_err(Error::Listen)?;
        if made.len() < KEPT {
            made.insert(buffers, stack.clone());
        }
        Ok(stack)
    }
}

impl From<&Channel> for Buffers {
    fn from(channel: &Channel) -> Self {
        Self {
            send: channel.send_buffer,
            receive: channel.receive_buffer,
        }
    }
}

impl Buffers {
    /// Only a receive buffer, as a listening socket needs it.
    pub(crate) fn receiving(receive: u64) -> Self {
        Self { send: 0, receive }
    }
}

/// The two ends of the control connection, as far as the data side must know them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    /// Our address.
    pub(crate) local: IpAddr,
    /// The client's address.
    pub(crate) peer: IpAddr,
    /// The address to tell clients instead of ours.
    pub(crate) advertise: Option<IpAddr>,
}

/// One session's data channel.
#[derive(Debug)]
pub(crate) struct DataSide {
    pub(crate) channel: DataChannel,
    stacks: Arc<Stacks>,
    /// Addresses of `PORT` or `SPOR` that no transfer has used yet: their stack depends on the buffers in force then.
    pending: Option<Vec<SocketAddr>>,
    /// Whether a port of ours was told to the client last.
    listens: bool,
}

impl DataSide {
    pub(crate) fn new(stacks: Arc<Stacks>, options: Options, pool: Pool) -> Self {
        Self {
            channel: DataChannel::new(options, pool),
            stacks,
            pending: None,
            listens: false,
        }
    }

    /// Listens for data connections and gives the address to tell the client.
    pub(crate) async fn listen(
        &mut self,
        ends: Ends,
        family: Option<Family>,
        buffers: Buffers,
        third_party: bool,
    ) -> Result<SocketAddr, Error> {
        let told = ends
            .advertise
            .filter(|ip| is_of(*ip, family))
            .unwrap_or(ends.local);
        if !is_of(told, family) {
            return Err(Forbidden::Family.into());
        }
        (self.pending, self.listens) = (None, false);
        let peers = if third_party {
            Peers::Any
        } else {
            Peers::Only(ends.peer)
        };
        let at = Target::from(SocketAddr::new(ends.local, 0));
        let bound = self
            .channel
            .listen(&self.stacks.get(buffers)?, &at, peers)
            .await?;
        self.listens = true;
        Ok(SocketAddr::new(told, bound.port()))
    }

    /// Remembers where to connect to.
    pub(crate) fn connect_to(
        &mut self,
        to: Vec<SocketAddr>,
        peer: IpAddr,
        third_party: bool,
    ) -> Result<(), Error> {
        for address in &to {
            if address.port() < 1024 {
                return Err(Forbidden::LowPort.into());
            }
            if !third_party && address.ip().to_canonical() != peer {
                return Err(Forbidden::ThirdParty.into());
            }
        }
        self.drop_data();
        self.pending = Some(to);
        Ok(())
    }

    /// Sets up what `connect_to` remembered, with the buffers now in force.
    fn settle(&mut self, buffers: Buffers) -> Result<(), Error> {
        if let Some(to) = self.pending.take() {
            self.channel.connect_to(self.stacks.get(buffers)?, to);
        }
        Ok(())
    }

    /// Closes everything.
    pub(crate) fn drop_data(&mut self) {
        (self.pending, self.listens) = (None, false);
        self.channel.reset();
    }

    /// Says whether a port is held that nobody has connected to.
    pub(crate) fn has_unused_port(&self) -> bool {
        self.listens && !self.channel.is_cached()
    }
}

/// Says whether an address is of the family asked for; any is when none was.
fn is_of(ip: IpAddr, family: Option<Family>) -> bool {
    match family {
        Some(Family::V4) => ip.is_ipv4(),
        Some(Family::V6) => ip.is_ipv6(),
        _ => true,
    }
}

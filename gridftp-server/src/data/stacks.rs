//! `Stacks`: which stacks data connections and files are built with, and what clients may choose.

use xio::{ByteSize, DynStack, Entry, PortRange, Registry, SocketHints};

use super::Buffers;
use super::disk::DiskStack;
use crate::config::Config;
use crate::error::Error;

/// Data connections unless the client chose another stack.
const DEFAULT: &str = "tcp:nodelay=1";

/// The server's own stack, and the drivers that a client's may name.
#[derive(Debug)]
pub(crate) struct Stacks {
    default: DynStack,
    net: Registry,
    disk: Registry,
    ports: Option<PortRange>,
}

impl Stacks {
    /// Makes the source of stacks.
    pub(crate) fn new(config: &Config) -> Self {
        let all = xio::registry();
        Self {
            default: all.stack(DEFAULT).expect("the driver is built in"),
            net: allowed(&all, &config.net_stacks),
            disk: allowed(&all, &config.disk_stacks),
            ports: config.data_ports,
        }
    }

    /// The stack of data connections that this server takes itself.
    pub(super) fn default_net(&self) -> DynStack {
        self.default.clone()
    }

    /// The stack of data connections that a client asks for.
    ///
    /// # Errors
    /// One that names a driver or an option which it may not, or that makes no sense.
    pub(super) fn net(&self, text: &str) -> Result<DynStack, Error> {
        Ok(self.net.stack(text)?)
    }

    /// The stack of files that a client asks for; `None` for plain files.
    ///
    /// # Errors
    /// As [`net`](Self::net).
    pub(super) fn disk(&self, text: &str) -> Result<Option<DiskStack>, Error> {
        Ok(DiskStack::new(&self.disk, text)?)
    }

    /// What the sockets of data connections are asked for.
    pub(super) fn hints(&self, buffers: Buffers) -> SocketHints {
        let size = |bytes| (bytes > 0).then(|| ByteSize::new(bytes));
        let mut hints = SocketHints::new().buffers(size(buffers.send), size(buffers.receive));
        hints.ports = self.ports;
        hints
    }
}

/// A registry for strings of clients: these drivers, with the options that the administrator set.
fn allowed(all: &Registry, entries: &[Entry]) -> Registry {
    let names: Vec<&str> = entries.iter().map(Entry::driver).collect();
    let mut registry = all.restrict(&names);
    for entry in entries {
        registry.fix(entry.clone());
    }
    registry
}

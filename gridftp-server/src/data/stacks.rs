//! `Stacks`: the stacks of data connections and files, and the choices of clients.

use xio::{ByteSize, DynStack, Entry, PortRange, Registry, SocketHints, tcp};

use super::Buffers;
use super::disk::DiskStack;
use crate::config::Config;
use crate::error::Error;

/// Data connections unless the client chose another stack.
const DEFAULT: &str = "tcp";
/// Congestion control for paths that lose packets, unless the administrator named another.
const LOSSY: &str = "bbr";

/// The server's own stack, and the drivers for clients' stacks.
#[derive(Debug)]
pub(crate) struct Stacks {
    default: DynStack,
    net: Registry,
    disk: Registry,
    ports: Option<PortRange>,
    adapts: bool,
}

impl Stacks {
    /// Makes the source of stacks.
    pub(crate) fn new(config: &Config) -> Self {
        let all = xio::registry();
        let net = allowed(&all, &config.net_stacks);
        // With the options of the administrator, where clients may name the driver.
        let is_listed = names(&config.net_stacks, DEFAULT);
        let own = if is_listed { &net } else { &all };
        let own = own.stack(DEFAULT);
        Self {
            default: own.expect("the driver is built in, and its options are checked"),
            net,
            disk: allowed(&all, &config.disk_stacks),
            ports: config.data_ports,
            adapts: offers_udt(&config.net_stacks) && adapts(&config.net_stacks),
        }
    }

    /// Whether senders change their congestion control on a path that loses packets, where clients
    /// may choose UDT.
    pub(crate) fn adapts(&self) -> bool {
        self.adapts
    }

    /// The server's own stack of data connections.
    pub(super) fn default_net(&self) -> DynStack {
        self.default.clone()
    }

    /// Parses a client's stack of data connections.
    ///
    /// # Errors
    /// A stack that does not parse, or names a driver or an option that clients may not.
    pub(crate) fn net(&self, text: &str) -> Result<DynStack, Error> {
        Ok(self.net.stack(text)?)
    }

    /// Parses a client's stack of files; `None` for plain files.
    ///
    /// # Errors
    /// As [`net`](Self::net).
    pub(crate) fn disk(&self, text: &str) -> Result<Option<DiskStack>, Error> {
        Ok(DiskStack::new(&self.disk, text)?)
    }

    /// The options of the sockets of data connections.
    pub(super) fn hints(&self, buffers: Buffers) -> SocketHints {
        let size = |bytes| (bytes > 0).then(|| ByteSize::new(bytes));
        let hints = SocketHints::new().bulk();
        let mut hints = hints.buffers(size(buffers.send), size(buffers.receive));
        hints.ports = self.ports;
        hints
    }
}

/// Whether clients may choose UDT with these drivers.
pub(crate) fn offers_udt(entries: &[Entry]) -> bool {
    names(entries, "udt")
}

fn names(entries: &[Entry], driver: &str) -> bool {
    entries.iter().any(|entry| entry.driver() == driver)
}

/// Whether senders with the options of these drivers, and without any, change their congestion
/// control on a path that loses packets, as far as the kernel lets this process.
fn adapts(entries: &[Entry]) -> bool {
    let option = |name: &str| {
        // Of a driver that is named twice, the last options are in force.
        let tcp = entries.iter().rev().find(|entry| entry.driver() == "tcp")?;
        let (_, value) = tcp.options().find(|(key, _)| *key == name)?;
        Some(value.to_owned())
    };
    match (option("cc"), option("lossy")) {
        (Some(fixed), _) => fixed == LOSSY,
        (None, named) => tcp::may_change_to(named.as_deref().unwrap_or(LOSSY)),
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

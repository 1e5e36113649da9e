//! `Side`: the data connections of one session, on this host or on data nodes.

use std::net::IpAddr;

use ftp_wire::command::StackSide;

use super::DataSide;
use crate::error::Error;
use crate::nodes::NodeSide;

/// The data connections of one session.
#[derive(Debug)]
pub(crate) enum Side {
    /// On this host.
    Here(Box<DataSide>),
    /// On data nodes.
    Nodes(Box<NodeSide>),
}

impl Side {
    /// Builds data connections or files with this stack from now on; `None` for our own choice.
    ///
    /// # Errors
    /// A stack that this server does not allow.
    pub(crate) fn set_stack(&mut self, of: StackSide, text: Option<&str>) -> Result<(), Error> {
        match self {
            Self::Here(side) => side.set_stack(of, text),
            Self::Nodes(side) => side.set_stack(of, text),
        }
    }

    /// Closes everything.
    pub(crate) fn drop_data(&mut self) {
        match self {
            Self::Here(side) => side.drop_data(),
            Self::Nodes(side) => side.drop_data(),
        }
    }

    /// Says whether a port is open without a connection.
    pub(crate) fn has_unused_port(&self) -> bool {
        match self {
            Self::Here(side) => side.has_unused_port(),
            Self::Nodes(side) => side.has_unused_port(),
        }
    }

    /// The hosts that the data port has refused; nodes tell theirs themselves.
    pub(crate) fn refused(&self) -> Vec<IpAddr> {
        match self {
            Self::Here(side) => side.channel.refused(),
            Self::Nodes(_) => Vec::new(),
        }
    }

    /// Says whether connections of an earlier transfer will serve the next one.
    pub(crate) fn is_cached(&self) -> bool {
        match self {
            Self::Here(side) => side.channel.is_cached(),
            Self::Nodes(side) => side.is_cached,
        }
    }
}

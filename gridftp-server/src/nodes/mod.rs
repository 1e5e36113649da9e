//! Data nodes: the front end that places transfers on them, and the node that runs them.

mod follow;
mod joined;
mod mover;
mod node;
mod rate;
mod receipt;
mod served;
mod side;
mod whole;

use std::sync::Arc;

use gridftp_cluster::Nodes;
use gridftp_dsi::DynDsi;
use gridftp_dsi_rpc::Remote;

pub(crate) use self::mover::NodeMover;
pub use self::node::DataNode;
pub(crate) use self::rate::AskedRate;
pub(crate) use self::side::{NodeRule, NodeSide};

/// The data nodes of a front end, and the rules for their use.
#[derive(Debug, Clone)]
pub struct Front {
    /// The connected nodes.
    pub(crate) nodes: Arc<Nodes>,
    /// Most nodes of one transfer.
    pub(crate) stripes: u32,
    /// Whether a client that asks for a single address is served by the front end itself.
    pub(crate) hybrid: bool,
}

impl Front {
    /// Uses at most `stripes` of these nodes for one transfer.
    pub fn new(nodes: Arc<Nodes>, stripes: u32) -> Self {
        Self {
            nodes,
            stripes: stripes.max(1),
            hybrid: false,
        }
    }

    /// The storage of the nodes, for a front end that has none.
    pub(crate) fn storage(&self) -> Arc<dyn DynDsi> {
        Arc::new(Remote::new(Nodes::clone(&self.nodes)))
    }

    /// Uses the nodes only for clients that ask for stripes (`SPAS`, `SPOR`).
    #[must_use]
    pub fn hybrid(mut self) -> Self {
        self.hybrid = true;
        self
    }
}

//! `AskedRate`: the rate that the client of a session asks for, as its nodes are told it.

use std::num::NonZero;

use gridftp_cluster::ToNode;
use tokio::sync::watch;
use xio::rate::Bound;

/// The rate that the client of a session asks for, which may change at any time.
#[derive(Debug, Clone)]
pub(crate) struct AskedRate(watch::Receiver<Option<Bound>>);

impl AskedRate {
    /// Follows the bound of a session, which it has once its client has asked for a rate.
    pub(crate) fn of(session: &watch::Sender<Option<Bound>>) -> Self {
        Self(session.subscribe())
    }

    /// The request that tells each of so many nodes its share; `None` of a client that never asked.
    pub(super) fn share(&mut self, nodes: usize) -> Option<ToNode> {
        let asked = self.0.borrow_and_update().as_ref().map(Bound::get)?;
        let nodes = u64::try_from(nodes).unwrap_or(u64::MAX).max(1);
        let share = asked.map(|rate| NonZero::new(rate / nodes).unwrap_or(NonZero::<u64>::MIN));
        Some(ToNode::Rate(share))
    }

    /// Waits until the client asks for a rate after the last look at the [share](Self::share); for
    /// ever once the session has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

//! A node's part of an upload that several nodes share.

use byte_ranges::RangeSet;
use gridftp_data::{ReceivePlan, Received};
use gridftp_dsi::{Dsi, DsiPath, Sink as _};
use std::time::Duration;
use tokio::time::timeout;

use crate::data::{Buffers, Mover};
use crate::error::Error;

/// Time for the storage to make the last bytes of a failed part durable.
const SALVAGE: Duration = Duration::from_secs(2);

/// An upload that the front end has opened and will publish.
pub(super) struct Joined<'a> {
    pub(super) path: &'a DsiPath,
    /// The token of the shared upload.
    pub(super) upload: &'a [u8],
    /// Offset in the file of wire offset 0.
    pub(super) base: u64,
    /// Wire offset at which a MODE S transfer begins.
    pub(super) start: u64,
}

impl<D: Dsi> Mover<'_, D> {
    /// Receives this node's part of an upload, and has the storage of all nodes hold it: durable, by
    /// the rules of the front end.
    ///
    /// # Errors
    /// The cause of the end; the received bytes are held and reported where the storage can.
    pub(super) async fn join(&mut self, joined: &Joined<'_>) -> Result<Received, Error> {
        let context = &mut self.context;
        let durable = context.rules.durable;
        let joining = context
            .shared
            .dsi
            .join(context.user, joined.path, joined.upload);
        let sink = context.reporter.run_quietly(joining).await?;
        self.side.settle(Buffers::from(context.channel));
        let plan = ReceivePlan::new(context.channel.mode, context.channel.ty)
            .base(joined.base)
            .start(joined.start)
            .tag(context.tag);
        let receiving = self.side.channel.receive(&sink, &plan, context.watch);
        let mut total = RangeSet::new();
        let recorded = |new: RangeSet| {
            total.extend(&new);
            let here = total.shift_up(joined.base).unwrap_or_default();
            let sink = &sink;
            async move { sink.checkpoint(&here, durable).await }
        };
        let received = context
            .reporter
            .run(context.watch, receiving, recorded)
            .await;
        let all = context.watch.received();
        let all = all.shift_up(joined.base).unwrap_or_default();
        let saving = sink.checkpoint(&all, durable);
        match received {
            Ok(received) => {
                context.reporter.complete(context.watch, saving).await?;
                context.reporter.last_marks(context.watch).await;
                Ok(received)
            }
            Err(error) => {
                if let Ok(Ok(())) = timeout(SALVAGE, saving).await {
                    context.reporter.last_marks(context.watch).await;
                }
                Err(error)
            }
        }
    }
}

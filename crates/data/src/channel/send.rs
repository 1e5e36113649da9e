//! Sends over the connections of a channel: a file, or a sequence of chunks.

use ftp_wire::command::{Mode, Type};
use ftp_wire::opts::Parallelism;
use gridftp_dsi::Source;

use super::DataChannel;
use crate::conn::Conn;
use crate::error::{Result, Wait};
use crate::options::Options;
use crate::plan::{SendPlan, Sent};
use crate::send::{self, Chunks, Feed, TextOf};
use crate::setup::{Direction, Used};
use crate::wait::{Sample, Stall};
use crate::watch::Watch;

impl DataChannel {
    /// Sends a file.
    ///
    /// # Errors
    /// Errors of the peer, the storage or a deadline; see [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// As the type says.
    pub async fn send<S: Source>(
        &mut self,
        source: &S,
        plan: &SendPlan,
        watch: &Watch,
    ) -> Result<Sent> {
        let pool = self.pool.clone();
        let feed = Feed {
            source,
            pool: &pool,
            watch,
        };
        if plan.ty == Type::Ascii {
            return self
                .send_chunks(&mut TextOf::new(feed, &plan.ranges), plan, watch)
                .await;
        }
        let parallelism = plan.number();
        if parallelism.start < parallelism.most && plan.mode == Mode::Extended {
            // The search for the number of connections needs it.
            watch.measure();
        }
        let mut used = self.open_to_send(plan, parallelism, watch).await?;
        let Options { stall, block, .. } = self.options;
        let sample = || Sample::At(watch.bytes(), watch.sending());
        if plan.mode == Mode::Extended {
            let streams = used.streams();
            let conns = &mut used.idle.conns;
            let work = send::extended(&feed, conns, streams, plan, block);
            Stall::new(stall).run(sample, work).await?;
        } else {
            let conn = used.only()?;
            let mut sent = Stall::new(stall)
                .run(sample, send::plain(&feed, conn, plan))
                .await?;
            watch.end(|| sent.path());
            sent.linger(self.options.linger).await;
        }
        Ok(self.sent(used, plan.mode, watch))
    }

    /// Sends a sequence of bytes of unknown length: a listing, standard input.
    ///
    /// The ranges and the base of the plan are ignored; its type tells whether a trailer may follow.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Cancel safety
    /// As the type says.
    pub async fn send_chunks<C: Chunks>(
        &mut self,
        chunks: &mut C,
        plan: &SendPlan,
        watch: &Watch,
    ) -> Result<Sent> {
        // All chunks go over the same connections.
        let parallelism = Parallelism::of(plan.parallelism.start);
        let mut used = self.open_to_send(plan, parallelism, watch).await?;
        let stall = self.options.stall;
        let sample = || match watch.is_local() {
            true => Sample::Local,
            false => Sample::At(watch.bytes(), Wait::Send),
        };
        if plan.mode == Mode::Extended {
            let streams = used.streams();
            let conns = &mut used.idle.conns;
            Stall::new(stall)
                .run(sample, send::name(conns, plan))
                .await?;
            if plan.dealt {
                let work = Box::pin(send::dealt_chunks(conns, streams, chunks, stall, watch));
                Stall::new(stall).run(sample, work).await?;
            } else {
                let work = send::extended_chunks(conns, streams, chunks, stall, watch);
                Stall::new(stall).run(sample, work).await?;
            }
        } else {
            let conn = used.only()?;
            let sent = Stall::new(stall)
                .run(
                    sample,
                    Box::pin(send::plain_chunks(conn, chunks, plan, stall, watch)),
                )
                .await?;
            sent.linger(self.options.linger).await;
        }
        Ok(self.sent(used, plan.mode, watch))
    }

    async fn open_to_send(
        &mut self,
        plan: &SendPlan,
        parallelism: Parallelism,
        watch: &Watch,
    ) -> Result<Used> {
        watch.prove(plan.tag, plan.start(), plan.base);
        // One closed connection makes the whole set useless: marks are counted by connection.
        let sending = self.idle.served != Some(Direction::Receive);
        if sending && !self.idle.conns.iter_mut().all(Conn::is_quiet) {
            std::mem::take(&mut self.idle).retire();
        }
        let idle = self.ready(plan.mode, parallelism, Direction::Send).await?;
        Ok(self.take(idle, watch).await)
    }

    fn sent(&mut self, mut used: Used, mode: Mode, watch: &Watch) -> Sent {
        if mode == Mode::Extended {
            watch.end(|| used.idle.path());
        }
        self.keep(used, mode, Direction::Send);
        Sent {
            bytes: watch.bytes(),
            connections: watch.connections(),
        }
    }
}

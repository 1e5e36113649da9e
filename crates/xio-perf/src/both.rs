//! Sending and receiving at once, with and without half-close.

use std::io;
use std::pin::pin;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::budget::Budget;
use crate::flow::{Ended, LINGER, STALL, Work, is_gone, leave, stalled};

impl Work {
    /// Sends its budget while it receives the peer's data. An end without a budget stops
    /// when the peer does.
    pub(crate) async fn both<R, W>(&self, reader: &mut R, writer: &mut W) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let pushing = async {
            if self.is_endless() {
                tokio::select! {
                    biased;
                    _ = stopped => {}
                    pushed = self.push(writer) => pushed?,
                }
            } else {
                self.push(writer).await?;
            }
            stalled(writer.shutdown()).await
        };
        let pulling = async {
            let pulled = self.pull_rest(reader).await;
            drop(stop);
            pulled
        };
        tokio::try_join!(pushing, pulling).map(|_| ())
    }

    /// Does the same where shutting down ends both directions: only silence shows that the peer has
    /// sent everything, and the end that notices it first shuts down.
    pub(crate) async fn both_until_quiet<R, W>(
        &self,
        reader: &mut R,
        writer: &mut W,
    ) -> io::Result<()>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        {
            let mut pushing = pin!(async {
                if self.is_endless() {
                    tokio::select! {
                        biased;
                        () = self.quiet() => {}
                        pushed = self.push(writer) => match pushed {
                            Err(error) if is_gone(&error) => {}
                            other => other?,
                        },
                    }
                } else {
                    self.push(writer).await?;
                }
                // The peer must get everything before this end shuts down.
                stalled(writer.flush()).await?;
                self.quiet().await;
                Ok::<_, io::Error>(())
            });
            tokio::select! {
                biased;
                pushed = &mut pushing => pushed?,
                pulled = self.pull_rest(reader) => {
                    pulled?;
                    pushing.await?;
                }
            }
        }
        self.tally.end_at(self.tally.arrived());
        leave(writer).await
    }

    /// Waits until no data has arrived for a while.
    async fn quiet(&self) {
        // A peer may start late.
        let begins = Instant::now() + STALL;
        loop {
            let until = match self.tally.received() {
                0 => begins,
                _ => self.tally.arrived() + LINGER,
            };
            if Instant::now() >= until {
                return;
            }
            sleep_until(until.min(Instant::now() + LINGER)).await;
        }
    }

    async fn pull_rest<R: AsyncRead + Unpin>(&self, reader: &mut R) -> io::Result<Ended> {
        // Data in flight when the time is over still counts, within a limit.
        let until = self.budget.until().map(|until| until + STALL);
        let time = until.map(|until| until - Instant::now());
        self.pull(reader, &Budget::new(None, time)).await
    }

    fn is_endless(&self) -> bool {
        self.budget.is_endless() && self.source.is_none()
    }
}

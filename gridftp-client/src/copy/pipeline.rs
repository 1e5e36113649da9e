//! `Pipeline`: the transfers of one data channel, asked for ahead and moved in their order.

use std::convert::Infallible;

use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;

use super::Stop;
use super::job::Item;
use super::queue::{Kind, Taken};
use super::state::CopyState;
use super::window::{COMMANDS, Window};
use crate::stripes::{PathFacts, Width};

/// How far transfers are asked for ahead of the one that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// There is one transfer.
    One,
    /// The next is asked for when the last has been passed on, as in MODE S.
    InStep,
    /// As far as the window has room.
    Window,
}

/// A way of transfers over one data channel: from the queue to the end of their jobs.
///
/// `ask` and `pass` run beside each other and in order, so each has a state of its own; `confirm`
/// runs behind them.
pub(crate) trait Route: Sync {
    /// A transfer that was asked for.
    type Asked: Send;
    /// A transfer with its data passed on.
    type Passed: Send;
    /// State of asking.
    type Asking: Send;
    /// State of passing.
    type Passing: Send;

    /// Asks for a transfer; `None` when its job has ended or goes back.
    fn ask(
        &self,
        state: &mut Self::Asking,
        taken: Taken,
    ) -> impl Future<Output = Result<Option<Self::Asked>, Stop>> + Send;

    /// Passes the data of a transfer on; `None` when its job has ended or goes back.
    fn pass(
        &self,
        state: &mut Self::Passing,
        asked: Self::Asked,
    ) -> impl Future<Output = Result<Option<Self::Passed>, Stop>> + Send;

    /// Watches the idle channel, between two transfers and until all are confirmed.
    fn watch(&self, _: &mut Self::Passing) -> impl Future<Output = Infallible> + Send {
        std::future::pending()
    }

    /// Ends the jobs of all transfers that were passed on; cancels `broken` as soon as no more can
    /// be passed on, and returns the reason.
    fn confirm(
        &self,
        passed: mpsc::Receiver<Self::Passed>,
        broken: &CancellationToken,
    ) -> impl Future<Output = Result<(), Stop>> + Send;
}

/// The settings of the transfers of one data channel.
pub(crate) struct Pipeline<'a> {
    pub(crate) shared: &'a CopyState,
    pub(crate) window: &'a Window,
    pub(crate) depth: Depth,
    /// Items to take.
    pub(crate) kind: Kind,
    /// Connections of the channel, which the items have to fit; `None` where each has its own.
    pub(crate) width: Option<Width>,
    pub(crate) path: PathFacts,
    /// Transfers at most that wait for their confirmation.
    pub(crate) backlog: usize,
}

/// A request on its way from asking to passing on; the permit is free again behind it.
type Step<'a, T> = (T, SemaphorePermit<'a>);

impl<'a> Pipeline<'a> {
    /// Makes settings for items of any kind, one at a time, each with connections of its own.
    pub(crate) const fn new(shared: &'a CopyState, window: &'a Window, path: PathFacts) -> Self {
        Self {
            shared,
            window,
            depth: Depth::InStep,
            kind: Kind::Any,
            width: None,
            path,
            backlog: COMMANDS,
        }
    }

    /// Copies `first` and then from the queue, as long as the next item fits the channel. Nothing
    /// is passed on before the channel is `ready`.
    pub(crate) async fn run<R: Route>(
        &self,
        route: &R,
        (asking, passing): (&mut R::Asking, &mut R::Passing),
        ready: impl Future<Output = Result<(), Stop>>,
        first: Taken,
    ) -> Result<(), Stop> {
        let ahead = match self.depth {
            Depth::One | Depth::InStep => 1,
            Depth::Window => COMMANDS,
        };
        let tuned = self.shared.is_tuned(first.item(), self.path);
        let _channel = self.shared.tuning.channel(self.width.filter(|_| tuned));
        let permits = Semaphore::new(ahead);
        let (asked, mut waiting) = mpsc::unbounded_channel::<Step<'_, R::Asked>>();
        let (passed, confirming) = mpsc::channel(self.backlog);
        let (broken, over) = (CancellationToken::new(), CancellationToken::new());
        let feed = self.feed(route, asking, (first, &permits), asked);
        let pass = async {
            ready.await?;
            loop {
                let next = tokio::select! {
                    biased;
                    next = waiting.recv() => next,
                    never = route.watch(passing) => match never {},
                };
                let Some((request, permit)) = next else {
                    break;
                };
                if let Some(next) = route.pass(passing, request).await? {
                    // The other end is gone only when this whole future is.
                    let _gone = passed.send(next).await;
                }
                drop(permit);
            }
            drop(passed);
            over.run_until_cancelled(route.watch(passing)).await;
            Ok(())
        };
        let moved = async {
            tokio::pin!(feed, pass);
            let mut fed = None;
            loop {
                tokio::select! {
                    ended = &mut pass => return ended.and(fed.unwrap_or(Ok(()))),
                    // The confirmation has the reason.
                    () = broken.cancelled() => return Ok(()),
                    ended = &mut feed, if fed.is_none() => fed = Some(ended),
                }
            }
        };
        // `moved` owns the sending end, so that the confirmation ends after it.
        let confirm = async {
            let _over = over.clone().drop_guard();
            route.confirm(confirming, &broken).await
        };
        match tokio::join!(moved, confirm) {
            // The confirmation may have found that the session serves no next channel either. Where no
            // channel was ready, it had nothing to confirm.
            (Err(Stop::Channel), Err(stop)) => Err(stop),
            (moved, confirmed) => moved.and(confirmed),
        }
    }

    async fn feed<'p, R: Route>(
        &self,
        route: &R,
        asking: &mut R::Asking,
        (first, permits): (Taken, &'p Semaphore),
        asked: mpsc::UnboundedSender<Step<'p, R::Asked>>,
    ) -> Result<(), Stop> {
        let mut next = Some(first);
        loop {
            self.window.room().await;
            let Ok(permit) = permits.acquire().await else {
                return Ok(());
            };
            let taken = match next.take() {
                Some(taken) => taken,
                None if self.depth == Depth::One => return Ok(()),
                None if self.shared.tuning.drains() => return Ok(()),
                None => {
                    let fits = |item: &Item| self.fits(item);
                    let Some(taken) = self.shared.queue.next_of(self.kind, fits).await else {
                        return Ok(());
                    };
                    taken
                }
            };
            if let Some(request) = route.ask(asking, taken).await? {
                let _gone = asked.send((request, permit));
            }
        }
    }

    fn fits(&self, item: &Item) -> bool {
        let fits = |width| self.shared.fits(item, width, self.path);
        // A transfer of its own comes before it.
        !item.is_due() && self.width.is_none_or(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::job::FileJob;

    /// A channel that breaks with the second transfer, while one end says nothing of the first.
    struct Breaks;

    impl Route for Breaks {
        type Asked = Taken;
        type Passed = Taken;
        type Asking = ();
        type Passing = u32;

        async fn ask(&self, (): &mut (), taken: Taken) -> Result<Option<Taken>, Stop> {
            Ok(Some(taken))
        }

        async fn pass(&self, number: &mut u32, asked: Taken) -> Result<Option<Taken>, Stop> {
            *number += 1;
            match number {
                1 => Ok(Some(asked)),
                _ => Err(Stop::Channel),
            }
        }

        async fn confirm(
            &self,
            mut passed: mpsc::Receiver<Taken>,
            _: &CancellationToken,
        ) -> Result<(), Stop> {
            while passed.recv().await.is_some() {}
            Err(Stop::Replace)
        }
    }

    /// The server still waits for the data of the first, so that it takes no next command.
    #[tokio::test]
    async fn a_session_that_owes_a_reply_is_replaced_though_its_channel_broke_first() {
        let (shared, window) = (CopyState::plain(), Window::default());
        for name in [b"/one", b"/two"] {
            let job = FileJob::new(name.to_vec(), name.to_vec());
            shared.queue.push(Item::File(Box::new(job)));
        }
        let first = shared.queue.next(|_| true).await.unwrap();
        let path = PathFacts {
            round_trip: std::time::Duration::ZERO,
            may_stripe: false,
            nodes: false,
            parts: false,
            connections: None,
        };
        let pipeline = Pipeline::new(&shared, &window, path);
        let states = (&mut (), &mut 0);
        let ended = pipeline.run(&Breaks, states, async { Ok(()) }, first);
        let ended = ended.await;
        assert!(matches!(ended, Err(Stop::Replace)), "{ended:?}");
    }
}

//! The bound on the bytes a second between two servers, which one of them keeps to (`SITE RATE`).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use ftp_wire::command::{Command, SiteCommand};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::Client;
use crate::control::{Control, Replies};
use crate::copy::Stop;
use crate::copy::state::CopyState;
use crate::error::{RELAY, TransferError};
use crate::options::RateLimit;

/// Time between two looks at the bound, and from one change of a session to the next that gives it
/// more.
const LOOK: Duration = Duration::from_secs(1);
/// Part of a share by which another one differs enough to be told.
const ENOUGH: u64 = 20;
/// Pause behind one unanswered change, and times the square of their number behind several: those of
/// a transfer of a day stay below 300, and a session may have 500 commands on the way.
const PAUSE: Duration = Duration::from_millis(16);

/// The sessions that move files under the bound of a copy, each with an equal share.
#[derive(Debug, Default)]
pub(crate) struct Sharers(watch::Sender<u32>);

/// A session among them.
pub(super) struct Share(Arc<CopyState>);

impl Share {
    fn of(shared: &Arc<CopyState>) -> Self {
        shared.sharers.0.send_modify(|count| *count += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let sharers = &self.0.sharers;
        sharers
            .0
            .send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Says whether one of the servers bounds the data between them.
pub(in crate::copy) fn is_offered(source: &Client, destination: &Client) -> bool {
    source.abilities.rate || destination.abilities.rate
}

/// Checks that data which goes from one of these servers to the other keeps to a bound that the caller
/// asked for.
///
/// # Errors
/// Neither of them bounds it.
pub(in crate::copy) fn check(
    shared: &CopyState,
    source: &Client,
    destination: &Client,
) -> Result<(), TransferError> {
    let limit = shared.options.connect.rate_limit.as_ref();
    let is_asked = limit.is_some_and(RateLimit::is_asked);
    if !is_asked || is_offered(source, destination) {
        return Ok(());
    }
    let (from, to) = (source.site(), destination.site());
    let what = format!("rate: neither {from} nor {to} bounds the rate of its data (SITE RATE)");
    Err(TransferError::request(what, RELAY))
}

/// The session of a pair that keeps to the share of the pair.
pub(super) struct Rated {
    shared: Arc<CopyState>,
    limit: RateLimit,
    control: Control,
    /// The share that the server was told last, and when.
    told: Option<(Option<NonZero<u64>>, Instant)>,
    /// Changes without a reply: one in the middle of a transfer is answered behind it.
    unanswered: VecDeque<Replies>,
}

impl Rated {
    /// The session of the sender, or else of the receiver; `None` where there is no bound, or no
    /// server keeps to it.
    pub(super) fn of(
        shared: &Arc<CopyState>,
        source: &Client,
        destination: &Client,
    ) -> Option<Self> {
        let mut ends = [source, destination].into_iter();
        let able = ends.find(|client| client.abilities.rate);
        let limit = shared.options.connect.rate_limit.clone();
        able.zip(limit).map(|(client, limit)| Self {
            shared: Arc::clone(shared),
            limit,
            control: client.control.clone(),
            told: None,
            unanswered: VecDeque::new(),
        })
    }

    /// Counts the session among those that move files, and tells the server its share, before its
    /// data connections are set up.
    ///
    /// # Errors
    /// The server refuses to keep to the bound that the caller asked for.
    async fn begin(&mut self) -> Result<Share, Stop> {
        let share = Share::of(&self.shared);
        let is_first = self.told.is_none();
        if self
            .told
            .is_none_or(|(told, _)| differs(told, self.share()))
        {
            self.tell();
        }
        if is_first && let Some(first) = self.unanswered.front_mut() {
            let refused = first.finish().await.err().map(TransferError::from);
            self.unanswered.pop_front();
            match refused {
                Some(error) if error.is_gone() => return Err(Stop::Lost(error)),
                Some(error) if self.limit.is_asked() => {
                    let error = TransferError::request(error.to_string(), RELAY);
                    return Err(Stop::Fatal(error));
                }
                _ => {}
            }
        }
        Ok(share)
    }

    /// Tells the server each change of its share, for ever. One that has taken the first takes all.
    async fn keep(&mut self) -> Infallible {
        let mut count = self.shared.sharers.0.subscribe();
        loop {
            if self.is_due() {
                self.tell();
            }
            tokio::select! {
                // The copy has the other end.
                _ = count.changed() => {}
                () = answered(&mut self.unanswered) => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// The bytes a second of this session; `None` for no bound.
    fn share(&self) -> Option<NonZero<u64>> {
        let sessions = u64::from(*self.shared.sharers.0.borrow()).max(1);
        let each = self.limit.least()? / sessions;
        Some(NonZero::new(each).unwrap_or(NonZero::<u64>::MIN))
    }

    fn is_due(&self) -> bool {
        let Some((told, at)) = self.told else {
            return true;
        };
        let now = self.share();
        differs(told, now) && at.elapsed() >= pause(told, now, self.unanswered.len())
    }

    fn tell(&mut self) {
        let share = self.share();
        self.told = Some((share, Instant::now()));
        let command = Command::Site(SiteCommand::Rate(share));
        self.unanswered.push_back(self.control.send(command));
    }
}

/// Waits for the reply to the oldest change; for ever where there is none.
async fn answered(unanswered: &mut VecDeque<Replies>) {
    match unanswered.front_mut() {
        Some(oldest) => {
            // The end of the session is told to its transfers.
            let _replied = oldest.finish().await;
            unanswered.pop_front();
        }
        None => pending().await,
    }
}

/// Says whether a share is another than the server was told, by more than a small part.
fn differs(told: Option<NonZero<u64>>, now: Option<NonZero<u64>>) -> bool {
    let [told, now] = [told, now].map(|share| share.map_or(u64::MAX, NonZero::get));
    told.abs_diff(now) > told / ENOUGH
}

/// The least time from a change to the next. Less is told at once, as a session that begins has its
/// share; and the more changes wait behind a transfer, the rarer they are.
fn pause(told: Option<NonZero<u64>>, now: Option<NonZero<u64>>, unanswered: usize) -> Duration {
    let is_less = now.is_some_and(|now| told.is_none_or(|told| now < told));
    let least = if is_less { Duration::ZERO } else { LOOK };
    let unanswered = u32::try_from(unanswered).unwrap_or(u32::MAX);
    PAUSE
        .saturating_mul(unanswered.saturating_mul(unanswered))
        .max(least)
}

/// As [`Rated::begin`], of a session that may have no bound.
pub(super) async fn begin(rated: &mut Option<Rated>) -> Result<Option<Share>, Stop> {
    match rated {
        Some(rated) => rated.begin().await.map(Some),
        None => Ok(None),
    }
}

/// As [`Rated::keep`], of a session that may have no bound.
pub(super) async fn keep(rated: &mut Option<Rated>) -> Infallible {
    match rated {
        Some(rated) => rated.keep().await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests;

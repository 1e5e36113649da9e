//! The change of a copy's data connections to UDT and back: the proof, the sessions that end, the notes.

use std::sync::Arc;
use std::time::Duration;

use ftp_wire::command::{BufferSide, Mode, Type};
use gridftp_data::{ReceivePlan, Watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::bounds::Setting;
use super::climb::Climber;
use super::udt::{LONG, Step, UdtStep};
use super::{Run, STREAMS, Tuning};
use crate::client::Client;
use crate::control::Control;
use crate::copy::lock;
use crate::copy::state::CopyState;
use crate::copy::third::prove_udt;
use crate::error::{ControlError, TransferError, lacks_channel};
use crate::ls::Form;
use crate::options::ConnectOptions;
use crate::progress::Event;
use crate::stacks;
use crate::stripes::Width;
use crate::transfer::{Failure, SessionState, Transfer};
use crate::url::Site;

/// The stack of data connections that loss costs little.
const UDT: &str = "udt";
/// Longest time of the proof, its session included.
const PROOF: Duration = Duration::from_secs(10);
/// Time behind a change in which sessions may still end that a server counts.
const SETTLING: Duration = Duration::from_secs(10);
/// Interval of the looks for the first bytes of the proof.
const LOOK: Duration = Duration::from_millis(20);

/// The stack of new sessions, and the end of the sessions with it.
#[derive(Debug, Default)]
pub(super) struct InForce {
    /// `None` for that of the caller.
    stack: Option<&'static str>,
    left: CancellationToken,
    /// Time of the last change.
    since: Option<Instant>,
}

impl InForce {
    /// Puts another stack in force, and ends the sessions with the one before.
    fn change(&mut self, stack: Option<&'static str>) {
        let next = Self {
            stack,
            left: CancellationToken::new(),
            since: Some(Instant::now()),
        };
        // Within the lock of the copy, so that the sessions over the former stack end at once.
        std::mem::replace(self, next).left.cancel();
    }
}

impl Tuning {
    /// The stack of a new session, where it is not that of the caller; and the token that is cancelled
    /// once another is in force.
    pub(crate) fn stack(&self) -> (Option<&'static str>, CancellationToken) {
        let in_force = lock(&self.in_force);
        (in_force.stack, in_force.left.clone())
    }

    /// Whether the stack has changed a moment ago: a server may still count the sessions before.
    pub(in crate::copy) fn has_new_stack(&self) -> bool {
        let since = lock(&self.in_force).since;
        since.is_some_and(|since| since.elapsed() < SETTLING)
    }

    /// Keeps the stack of the caller, unless another is in force.
    pub(in crate::copy) fn stay(&self) {
        if let Some(run) = &mut self.state().run {
            run.udt.stay();
        }
    }

    /// Puts another stack in force, and ends the sessions with the one before.
    pub(in crate::copy) fn change_stack(&self, stack: Option<&'static str>) {
        lock(&self.in_force).change(stack);
        if let Some(run) = &mut self.state().run {
            run.begin_anew();
        }
    }

    /// Returns to the stack of the caller, for good, where that of the sessions with this token is
    /// another; `tell` is called where no session has returned before. Says whether these sessions
    /// are left.
    fn leave(&self, session: &CancellationToken, tell: impl FnOnce()) -> bool {
        let mut in_force = lock(&self.in_force);
        if session.is_cancelled() {
            return true;
        }
        if in_force.stack.is_none() {
            return false;
        }
        in_force.change(None);
        drop(in_force);
        if let Some(run) = &mut self.state().run {
            run.udt = UdtStep::default();
            run.begin_anew();
        }
        tell();
        true
    }
}

impl Run {
    /// Forgets the numbers that served best over the stack before.
    fn begin_anew(&mut self) {
        let first = Setting {
            streams: STREAMS,
            files: self.climber.asked().files,
        };
        self.climber = Climber::new(first, self.bounds);
        self.is_over_one_stack = false;
    }
}

impl CopyState {
    /// Whether data may go over UDT instead of the stack of the caller, at this distance.
    pub(in crate::copy) fn may_go_over_udt(&self, round_trip: Duration) -> bool {
        let connect = &self.options.connect;
        // A bound on the rate hides the cost of the loss, and the ports are those of TCP.
        let is_bounded = self.options.polite || connect.rate_limit.is_some();
        let has_ports = connect.data_ports.is_some() || connect.source_ports.is_some();
        let is_free = !has_ports && stacks::is_plain_tcp(&connect.stack);
        // Files through layers would begin anew.
        let resumes = !self.through_layers();
        self.options.over_udt && is_free && resumes && !is_bounded && round_trip >= LONG
    }

    /// Takes a step.
    pub(super) async fn step(&self, step: Step) {
        match step {
            Step::Stay => {}
            Step::Prove => {
                let proof = Box::pin(self.prove()).await;
                self.proved(proof.err().map(|error| error.to_string()));
            }
            Step::Return => {
                let (_, session) = self.tuning.stack();
                self.leave_udt(&session, "UDT is no faster here: going back to TCP");
            }
        }
    }

    /// Takes the result of the proof.
    fn proved(&self, failed: Option<String>) {
        let mut state = self.tuning.state();
        let run = state.run.as_mut();
        let goes = run.is_some_and(|run| run.udt.prove(failed.is_none()));
        drop(state);
        let cause = "tuning: the path loses packets and BBR is not allowed here";
        if let Some(why) = failed {
            return self.note(&format!(
                "{cause}: staying with TCP, since the test of UDT failed: {why}"
            ));
        }
        // A file that would begin anew has been met meanwhile.
        if !goes {
            return;
        }
        self.note(&format!("{cause}: going on over UDT"));
        // A session that fails over it at once tells the stack behind it.
        self.observer.event(&Event::Stack { stack: UDT });
        self.tuning.change_stack(Some(UDT));
    }

    /// Moves some bytes over UDT, in sessions of their own.
    async fn prove(&self) -> Result<(), TransferError> {
        let mut options = self.options.connect.clone();
        UDT.clone_into(&mut options.stack);
        let options = Arc::new(options);
        let late = |_| TransferError::request("no data came in time", "");
        let proof = async {
            match (&self.source, &self.destination) {
                (Some(source), Some(destination)) => {
                    let both = Box::pin(prove_udt(source, destination, &options)).await?;
                    Ok::<_, TransferError>(Vec::from(both))
                }
                (Some(site), None) | (None, Some(site)) => {
                    let listed = self.list_over(site, Arc::clone(&options));
                    Ok(vec![Box::pin(listed).await?])
                }
                (None, None) => Ok(Vec::new()),
            }
        };
        // They count at the servers until their end.
        for mut client in timeout(PROOF, Box::pin(proof)).await.map_err(late)?? {
            client.drop_channel();
            client.close().await;
        }
        // The servers may have refused each other's connections meanwhile.
        let is_between = self.source.is_some() && self.destination.is_some();
        match is_between && self.relays() {
            true => Err(TransferError::request("the data passes this machine", "")),
            false => Ok(()),
        }
    }

    /// Lists a directory, as far as its first bytes.
    async fn list_over(
        &self,
        site: &Site,
        options: Arc<ConnectOptions>,
    ) -> Result<Client, TransferError> {
        let mut client = Client::connect(site, options).await?;
        // In MODE E the sender connects, and in MODE S this end does, as for an upload.
        let mode = match self.source {
            Some(_) => self.mode(&client),
            None => Mode::Stream,
        };
        client.list_first_bytes(mode).await?;
        Ok(client)
    }

    /// Returns to TCP where a session is over UDT, unless another has; says whether the session is
    /// left.
    pub(in crate::copy) fn lose_udt(
        &self,
        session: &CancellationToken,
        why: &dyn std::fmt::Display,
    ) -> bool {
        self.leave_udt(session, &format!("going back to TCP: {why}"))
    }

    fn leave_udt(&self, session: &CancellationToken, text: &str) -> bool {
        self.tuning.leave(session, || {
            self.note(&format!("tuning: {text}"));
            let stack = &self.options.connect.stack;
            self.observer.event(&Event::Stack { stack });
        })
    }

    /// Tells the stack of the caller where this copy ends over another: the next begins over it.
    pub(in crate::copy) fn end_stack(&self) {
        if self.tuning.stack().0.is_some() {
            let stack = &self.options.connect.stack;
            self.observer.event(&Event::Stack { stack });
        }
    }

    /// The failure of a transfer, which did not fail by itself where its session is left, or where its
    /// connections broke over UDT: that is not used again then.
    pub(in crate::copy) fn of_stack(&self, control: &Control, failure: Failure) -> Failure {
        let error = &failure.error;
        if matches!(error, TransferError::Local { .. }) || error.is_corrupt() {
            return failure;
        }
        let is_left = match failure.session {
            SessionState::ChannelBroken | SessionState::Unanswered => {
                is_of_data(error) && self.lose_udt(&control.left, error)
            }
            // It may have ended behind its connections, but proves nothing against UDT.
            SessionState::Lost => control.left.is_cancelled(),
            SessionState::Reusable | SessionState::Left => false,
        };
        if is_left { Failure::left() } else { failure }
    }

    /// Waits until a session over UDT is left; for ever over the stack of the caller, of which a
    /// listing goes on behind a change.
    pub(in crate::copy) async fn left_udt(&self, control: &Control) {
        match self.tuning.stack().0 {
            None if !control.left.is_cancelled() => std::future::pending().await,
            _ => control.left.cancelled().await,
        }
    }

    /// Says whether a session is left since its data channel could not be set up: over UDT it is the
    /// stack that fails, unless the session has ended.
    pub(in crate::copy) fn is_left_without_channel(
        &self,
        control: &Control,
        error: &TransferError,
    ) -> bool {
        control.left.is_cancelled() || (!error.is_gone() && self.lose_udt(&control.left, error))
    }
}

/// Says whether a transfer may have failed for its connections: the other replies are refusals of the
/// file, by one of the ends at least.
fn is_of_data(error: &TransferError) -> bool {
    let is_told = |told: &ControlError| told.kind().is_none() || lacks_channel(told);
    match error {
        TransferError::Both {
            source,
            destination,
        } => is_of_data(source) && is_of_data(destination),
        error => error.control().is_none_or(is_told),
    }
}

impl Client {
    /// Lists the first directory of the session until its first bytes are here.
    async fn list_first_bytes(&mut self, mode: Mode) -> Result<(), TransferError> {
        match mode {
            Mode::Extended => {
                let ahead = self.set_up_pull(Width::of_streams(1), None).await?;
                ahead.settle().await?;
            }
            _ => self.set_up_stream(BufferSide::Send).await?,
        }
        let path = self.path(b".")?;
        let form = Form::default().at(&self.abilities);
        let replies = self.control.send(form.command(path.clone()));
        let mut transfer = Transfer::download(replies, path.as_bytes());
        let (watch, plan) = (Watch::new(), ReceivePlan::new(mode, Type::Image));
        let mut lines = crate::copy::Lines::new(|_: &[u8]| ());
        let data = self.channel.get().receive_chunks(&mut lines, &plan, &watch);
        let whole = transfer.run(&watch, data);
        let first = async {
            while watch.bytes() == 0 {
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            done = whole => done.map(drop).map_err(|failure| failure.error),
            () = first => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ftp_proto::client::Settings;

    use super::*;
    use crate::played;

    fn broken() -> Failure {
        let error = TransferError::request("data channel: reset", "");
        Failure::midway(error, SessionState::ChannelBroken)
    }

    #[tokio::test]
    async fn sessions_with_the_stack_before_are_left() {
        let shared = CopyState::plain();
        let (mut control, _banner, _far) = played::connect(Settings::default());
        (_, control.left) = shared.tuning.stack();
        // It is the transfer that fails, not its stack.
        let failed = shared.of_stack(&control, broken());
        assert_eq!(failed.session, SessionState::ChannelBroken);
        shared.tuning.change_stack(Some(UDT));
        let watch = Watch::new();
        let endless = std::future::pending::<Result<(), Failure>>();
        let left = shared.watched(&control, &watch, endless).await;
        assert_eq!(left.unwrap_err().session, SessionState::Left);
        // Its own failures behind that are none of UDT.
        let failed = shared.of_stack(&control, broken());
        assert_eq!(failed.session, SessionState::Left);
        assert_eq!(shared.tuning.stack().0, Some(UDT));
    }

    #[tokio::test]
    async fn a_connection_that_breaks_over_udt_returns_the_copy_to_tcp_once() {
        let shared = CopyState::plain();
        shared.tuning.change_stack(Some(UDT));
        let (mut control, _banner, _far) = played::connect(Settings::default());
        (_, control.left) = shared.tuning.stack();
        let failed = shared.of_stack(&control, broken());
        assert_eq!(failed.session, SessionState::Left);
        assert!(control.left.is_cancelled());
        let (stack, left) = shared.tuning.stack();
        assert_eq!((stack, left.is_cancelled()), (None, false));
        control.left = left;
        let failed = shared.of_stack(&control, broken());
        assert_eq!(failed.session, SessionState::ChannelBroken);
    }

    #[tokio::test]
    async fn all_sessions_over_udt_are_left_when_one_of_them_breaks() {
        let shared = CopyState::plain();
        shared.tuning.change_stack(Some(UDT));
        let (_, first) = shared.tuning.stack();
        let second = first.clone();
        assert!(shared.lose_udt(&first, &"reset"));
        let (_, next) = shared.tuning.stack();
        assert!(shared.lose_udt(&second, &"reset"));
        // The second break is none of the sessions behind the return.
        assert!(!next.is_cancelled());
        assert!(!shared.lose_udt(&next, &"reset"));
    }

    #[tokio::test]
    async fn a_session_that_is_lost_behind_a_change_is_left() {
        let shared = CopyState::plain();
        let (mut control, _banner, _far) = played::connect(Settings::default());
        (_, control.left) = shared.tuning.stack();
        let lost = || Failure {
            session: SessionState::Lost,
            ..broken()
        };
        assert_eq!(
            shared.of_stack(&control, lost()).session,
            SessionState::Lost
        );
        assert!(!shared.tuning.has_new_stack());
        shared.tuning.change_stack(Some(UDT));
        assert_eq!(
            shared.of_stack(&control, lost()).session,
            SessionState::Left
        );
        assert!(shared.tuning.has_new_stack());
        // Over UDT alone it is no failure of that.
        (_, control.left) = shared.tuning.stack();
        assert_eq!(
            shared.of_stack(&control, lost()).session,
            SessionState::Lost
        );
        let local = TransferError::local("write", "/f", std::io::Error::other("full"));
        shared.tuning.change_stack(None);
        let failed = Failure::midway(local, SessionState::Lost);
        let failed = shared.of_stack(&control, failed);
        assert_eq!(failed.session, SessionState::Lost);
    }

    #[tokio::test]
    async fn a_stack_of_the_caller_and_a_bound_on_the_rate_stay() {
        let far = Duration::from_millis(60);
        assert!(CopyState::plain().may_go_over_udt(far));
        assert!(!CopyState::plain().may_go_over_udt(Duration::from_millis(19)));
        let changes: [fn(&mut CopyState); 5] = [
            |shared| shared.options.connect.disk_stack = Some("file,count".to_owned()),
            |shared| shared.options.over_udt = false,
            |shared| shared.options.polite = true,
            |shared| "tcp,count".clone_into(&mut shared.options.connect.stack),
            |shared| {
                shared.options.connect.rate_limit = Some(crate::options::RateLimit::new(None));
            },
        ];
        for change in changes {
            let mut shared = CopyState::plain();
            change(&mut shared);
            assert!(!shared.may_go_over_udt(far));
        }
    }
}

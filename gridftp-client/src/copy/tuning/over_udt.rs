//! The change of a copy's data connections to UDT and back: the proof, the sessions that end, the notes.

use std::sync::Arc;
use std::time::Duration;

use ftp_wire::command::{BufferSide, Mode, Type};
use ftp_wire::reply::Reply;
use gridftp_data::{ReceivePlan, Watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::bounds::Setting;
use super::climb::Climber;
use super::udt::{LONG, Step, UdtStep};
use super::{Run, STREAMS, Tuning};
use crate::client::Client;
use crate::control::Control;
use crate::copy::lock;
use crate::copy::state::CopyState;
use crate::error::TransferError;
use crate::ls::Form;
use crate::stacks;
use crate::stripes::Width;
use crate::transfer::{Failure, SessionState, Transfer};

/// The stack of data connections that loss costs little.
const UDT: &str = "udt";
/// Longest time of the proof, its session included.
const PROOF: Duration = Duration::from_secs(10);
/// Interval of the looks for the first bytes of the proof.
const LOOK: Duration = Duration::from_millis(20);

/// The stack of new sessions, and the end of the sessions with it.
#[derive(Debug, Default)]
pub(super) struct InForce {
    /// `None` for that of the caller.
    stack: Option<&'static str>,
    left: CancellationToken,
}

impl Tuning {
    /// The stack of a new session, where it is not that of the caller; and the token that is cancelled
    /// once another is in force.
    pub(crate) fn stack(&self) -> (Option<&'static str>, CancellationToken) {
        let in_force = lock(&self.in_force);
        (in_force.stack, in_force.left.clone())
    }

    /// Puts another stack in force, and ends the sessions with the one before.
    fn change_stack(&self, stack: Option<&'static str>) {
        let next = InForce {
            stack,
            left: CancellationToken::new(),
        };
        std::mem::replace(&mut *lock(&self.in_force), next)
            .left
            .cancel();
        if let Some(run) = &mut self.state().run {
            run.begin_anew();
        }
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
        let is_free = connect.data_ports.is_none() && stacks::is_plain_tcp(&connect.stack);
        self.options.over_udt && is_free && !is_bounded && round_trip >= LONG
    }

    /// Takes a step.
    pub(super) async fn step(&self, step: Step) {
        match step {
            Step::Stay => {}
            Step::Prove => {
                let proof = timeout(PROOF, Box::pin(self.prove())).await;
                let failed = match proof {
                    Ok(proof) => proof.err().map(|error| error.to_string()),
                    Err(_) => Some("no data came in time".to_owned()),
                };
                self.proved(failed);
            }
            Step::Return => {
                self.note("tuning: UDT is no faster here: going back to TCP");
                self.tuning.change_stack(None);
            }
        }
    }

    /// Takes the result of the proof.
    fn proved(&self, failed: Option<String>) {
        if let Some(run) = &mut self.tuning.state().run {
            run.udt.prove(failed.is_none());
        }
        let cause = "tuning: the path loses packets and BBR is not allowed here";
        if let Some(why) = failed {
            return self.note(&format!(
                "{cause}: staying with TCP, since UDT does not get through: {why}"
            ));
        }
        self.note(&format!("{cause}: going on over UDT"));
        self.tuning.change_stack(Some(UDT));
    }

    /// Lists a directory over UDT, as far as its first bytes, in a session of its own.
    async fn prove(&self) -> Result<(), TransferError> {
        let Some(site) = self.source.as_ref().or(self.destination.as_ref()) else {
            return Ok(());
        };
        let mut options = self.options.connect.clone();
        UDT.clone_into(&mut options.stack);
        let mut client = Box::pin(Client::connect(site, Arc::new(options))).await?;
        // In MODE E the sender connects, and in MODE S this end does, as for an upload.
        let mode = match self.source {
            Some(_) => self.mode(&client),
            None => Mode::Stream,
        };
        client.list_first_bytes(mode).await?;
        client.close().await;
        Ok(())
    }

    /// Returns to TCP where UDT is in force; says whether it was.
    pub(in crate::copy) fn lose_udt(&self, why: &dyn std::fmt::Display) -> bool {
        if self.tuning.stack().0.is_none() {
            return false;
        }
        if let Some(run) = &mut self.tuning.state().run {
            run.udt = UdtStep::default();
        }
        self.note(&format!("tuning: going back to TCP: {why}"));
        self.tuning.change_stack(None);
        true
    }

    /// The failure of a transfer, which did not fail by itself where its session is left, or where its
    /// connections broke over UDT: that is not used again then.
    pub(in crate::copy) fn of_stack(&self, control: &Control, failure: Failure) -> Failure {
        let is_broken = matches!(
            failure.session,
            SessionState::ChannelBroken | SessionState::Unanswered
        );
        let error = &failure.error;
        let is_local = matches!(error, TransferError::Local { .. }) || error.is_corrupt();
        // The others are refusals of the file.
        let is_of_data = |reply: &Reply| reply.code().number() / 10 == 42;
        if !is_broken || is_local || !error.reply().is_none_or(is_of_data) {
            return failure;
        }
        if control.left.is_cancelled() || self.lose_udt(&failure.error) {
            return Failure::left();
        }
        failure
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
    async fn a_stack_of_the_caller_and_a_bound_on_the_rate_stay() {
        let far = Duration::from_millis(60);
        assert!(CopyState::plain().may_go_over_udt(far));
        assert!(!CopyState::plain().may_go_over_udt(Duration::from_millis(19)));
        let changes: [fn(&mut CopyState); 4] = [
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

//! `Executor`: runs each `Action` of a session against the storage or the data channel.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use ftp_proto::types::{
    Action, Event, ListForm, Names, Outcome, Placement, Ticket, Transfer, TransferKind,
};
use ftp_wire::command::Secret;
use ftp_wire::path::FtpPath;
use gridftp_data::Watch;
use gridftp_dsi::{Dsi, ErrorKind, User};
use tokio::sync::{mpsc, oneshot};

use crate::admission::SessionPermit;
use crate::auth::Admitted;
use crate::config::{Policy, ThirdParty};
use crate::data::{self, Buffers, DataSide, Ends, Reporter, Store};
use crate::error::{AbortedBy, Error, chain};
use crate::log::TransferLine;
use crate::names::{self, dsi_path};
use crate::reply_for::reply_for;
use crate::server::Shared;

/// Most events that wait for the control connection; a slow reader delays the transfer.
const EVENTS: usize = 4;

/// Descriptors of a file in transfer: its own, its directory's and that of its entry in the index.
pub(crate) const FILE: usize = 3;

/// Runs the actions of one session.
pub(crate) struct Executor<D: Dsi> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) ends: Ends,
    /// The account, after login.
    pub(crate) who: Option<Arc<Admitted>>,
    /// Lent to the running action; lost if that is dropped.
    pub(crate) side: Option<Box<DataSide>>,
    /// The value of `SITE TASKID`.
    pub(crate) task: Arc<str>,
    /// Counts this connection.
    pub(crate) permit: SessionPermit,
}

/// The running action.
pub(crate) struct Running {
    pub(crate) ticket: Ticket,
    pub(crate) work: Pin<Box<dyn Future<Output = Finished> + Send>>,
    pub(crate) events: mpsc::Receiver<Event>,
    /// Taken to cancel; the work then ends by itself soon.
    pub(crate) cancel: Option<oneshot::Sender<AbortedBy>>,
}

/// The result of an action.
pub(crate) struct Finished {
    pub(crate) outcome: Outcome,
    pub(crate) side: Option<Box<DataSide>>,
    /// Set by a login.
    pub(crate) who: Option<Arc<Admitted>>,
}

impl<D: Dsi> Executor<D> {
    /// Starts an action; `None` for one without an outcome, which is done at once.
    pub(crate) fn start(&mut self, ticket: Ticket, action: Action) -> Option<Running> {
        // The lines of a listing are large events.
        let ahead = if matches!(action, Action::Names(_)) {
            1
        } else {
            EVENTS
        };
        let (sender, events) = mpsc::channel(ahead);
        let (cancel, cancelled) = oneshot::channel();
        let work = match action {
            Action::Login { user, password } => self.login(user, password),
            Action::Listen {
                family,
                send_buffer,
                receive_buffer,
            } => self.listen(family, Buffers::new(send_buffer, receive_buffer)),
            Action::Connect(to) => {
                let (ends, third_party) = (self.ends, self.may_third_party());
                let mut side = self.side();
                let outcome = outcome(
                    side.connect_to(to, ends, third_party)
                        .map(|()| Outcome::Done),
                );
                let finished = Finished {
                    outcome,
                    side: Some(side),
                    who: None,
                };
                Box::pin(std::future::ready(finished))
            }
            Action::Stack(of, stack) => {
                let mut side = self.side();
                let set = side.set_stack(of, stack.as_deref());
                let finished = Finished {
                    outcome: outcome(set.map(|()| Outcome::Done)),
                    side: Some(side),
                    who: None,
                };
                Box::pin(std::future::ready(finished))
            }
            Action::Transfer(transfer) => {
                let reporter = Reporter::new(sender, cancelled, &transfer);
                self.transfer(*transfer, reporter)
            }
            Action::Names(action) => self.names(action, sender, cancelled),
            Action::DropData => {
                self.drop_data();
                return None;
            }
            Action::NoLinks => {
                if let Some(who) = &mut self.who {
                    Arc::make_mut(who).user.follows_links = false;
                }
                return None;
            }
            Action::Annotate { key, value } => {
                if key == "taskid" {
                    self.task = value.as_str().into();
                }
                tracing::debug!(peer = %self.ends.peer, key, value = ?value, "client says");
                return None;
            }
            // The session cancels the running action itself.
            Action::Abort(_) => return None,
        };
        Some(Running {
            ticket,
            work,
            events,
            cancel: Some(cancel),
        })
    }

    /// Closes the data side, listener included.
    pub(crate) fn drop_data(&mut self) {
        if let Some(side) = &mut self.side {
            side.drop_data();
        }
    }

    /// Takes the data side; makes one on first use or after a loss.
    fn side(&mut self) -> Box<DataSide> {
        self.side
            .take()
            .unwrap_or_else(|| Box::new(self.shared.data_side(&self.policy)))
    }

    /// Says whether this user may exchange data with hosts other than the client's.
    fn may_third_party(&self) -> bool {
        match self.shared.config.third_party {
            ThirdParty::Off => false,
            ThirdParty::Users => self.who.as_ref().is_some_and(|who| who.by_password),
            ThirdParty::All => true,
        }
    }

    fn login(
        &self,
        name: String,
        password: Secret,
    ) -> Pin<Box<dyn Future<Output = Finished> + Send>> {
        let (shared, policy, peer) = (
            Arc::clone(&self.shared),
            Arc::clone(&self.policy),
            self.ends.peer,
        );
        let reservation = self.permit.reserve();
        Box::pin(async move {
            match shared
                .authenticator
                .login(policy, name, password, peer, reservation)
                .await
            {
                Ok(who) => {
                    let home = FtpPath::new(who.user.home.as_bytes()).unwrap_or_else(FtpPath::root);
                    let message = Vec::new();
                    let outcome = Outcome::LoggedIn { home, message };
                    Finished {
                        outcome,
                        side: None,
                        who: Some(Arc::new(who)),
                    }
                }
                Err(refused) => {
                    let outcome = Outcome::Failed(reply_for(&Error::Login(refused)));
                    Finished {
                        outcome,
                        side: None,
                        who: None,
                    }
                }
            }
        })
    }

    fn listen(
        &mut self,
        family: Option<ftp_wire::command::Family>,
        buffers: Buffers,
    ) -> Pin<Box<dyn Future<Output = Finished> + Send>> {
        let (ends, third_party) = (self.ends, self.may_third_party());
        let mut side = self.side();
        Box::pin(async move {
            let result = side.listen(ends, family, buffers, third_party).await;
            let outcome = outcome(result.map(|address| Outcome::Listening(vec![address])));
            Finished {
                outcome,
                side: Some(side),
                who: None,
            }
        })
    }

    fn names(
        &self,
        action: Names,
        events: mpsc::Sender<Event>,
        cancelled: oneshot::Receiver<AbortedBy>,
    ) -> Pin<Box<dyn Future<Output = Finished> + Send>> {
        let shared = Arc::clone(&self.shared);
        let who = self.who.clone();
        Box::pin(async move {
            let result = match &who {
                None => Err(Error::NotLoggedIn),
                Some(who) => tokio::select! {
                    biased;
                    result = names::run(&shared.dsi, &who.user, &shared.owners, action, &events) => result,
                    // The end of a session drops this future; only an abort is sent.
                    Ok(by) = cancelled => Err(Error::Aborted(by)),
                },
            };
            Finished {
                outcome: outcome(result),
                side: None,
                who: None,
            }
        })
    }

    fn transfer(
        &mut self,
        transfer: Transfer,
        mut reporter: Reporter,
    ) -> Pin<Box<dyn Future<Output = Finished> + Send>> {
        let shared = Arc::clone(&self.shared);
        let (who, task, peer) = (self.who.clone(), Arc::clone(&self.task), self.ends.peer);
        let own_host = !self.may_third_party();
        let mut side = self.side();
        Box::pin(async move {
            let Some(who) = who else {
                let outcome = Outcome::Failed(reply_for(&Error::NotLoggedIn));
                return Finished {
                    outcome,
                    side: Some(side),
                    who: None,
                };
            };
            let (verb, path) = about(&transfer.kind);
            let mut line = Unfinished {
                user: &who.user.name,
                verb,
                path: path.to_vec(),
                task: &task,
                peer,
                start: Instant::now(),
                watch: Watch::new(),
                written: false,
            };
            let result = move_bytes(
                &shared,
                &who.user,
                &mut side,
                transfer,
                &line.watch,
                &mut reporter,
            )
            .await
            .map_err(|error| if own_host { error.at_own_port() } else { error });
            line.write(&result);
            let receipt = line.watch.receipt();
            let outcome = match outcome(result.map(|bytes| Outcome::Transferred { bytes })) {
                Outcome::Transferred { bytes } => {
                    receipt.map_or(Outcome::Transferred { bytes }, Outcome::Proven)
                }
                // The channel knows whether the next transfer can use it.
                Outcome::Failed(reply) if receipt.is_some() && side.channel.is_cached() => {
                    Outcome::Spared(reply)
                }
                other => other,
            };
            Finished {
                outcome,
                side: Some(side),
                who: None,
            }
        })
    }
}

/// Runs a transfer to its end.
async fn move_bytes<D: Dsi>(
    shared: &Shared<D>,
    user: &User,
    side: &mut DataSide,
    transfer: Transfer,
    watch: &Watch,
    reporter: &mut Reporter,
) -> Result<u64, Error> {
    let how = &transfer.channel;
    let dsi = &shared.dsi;
    let _file = side
        .channel
        .descriptors()
        .take(FILE)
        .map_err(|full| gridftp_dsi::Error::new(ErrorKind::Busy, "open").because(full))?;
    match transfer.kind {
        TransferKind::Retrieve { path, region, held } => {
            let path = dsi_path(&path)?;
            let tag = transfer.tag;
            data::retrieve(
                dsi, user, side, &path, region, &held, tag, how, watch, reporter,
            )
            .await
        }
        TransferKind::List { path, form } => {
            let path = dsi_path(&path)?;
            data::list(
                dsi,
                user,
                &shared.owners,
                side,
                &path,
                form,
                how,
                watch,
                reporter,
            )
            .await
        }
        TransferKind::Store {
            path,
            into,
            held,
            size,
            modified,
            checksum,
        } => {
            let path = dsi_path(&path)?;
            side.set_draining(transfer.drains);
            let store = Store {
                path: &path,
                into,
                held,
                size,
                modified,
                checksum,
                tag: transfer.tag,
                in_place: shared.config.in_place,
                durable: shared.config.sync_writes,
            };
            data::store(dsi, user, side, store, how, watch, reporter).await
        }
    }
}

fn outcome(result: Result<Outcome, Error>) -> Outcome {
    match result {
        Ok(outcome) => outcome,
        Err(error) => {
            tracing::debug!(error = %chain(&error), "refused");
            Outcome::Failed(reply_for(&error))
        }
    }
}

/// The verb and the path of a transfer, for the log.
fn about(kind: &TransferKind) -> (&'static str, &[u8]) {
    let (verb, path) = match kind {
        TransferKind::Retrieve { region, path, .. } => match region {
            None => ("RETR", path),
            Some(_) => ("ERET", path),
        },
        TransferKind::Store { into, path, .. } => match into {
            Placement::Whole => ("STOR", path),
            Placement::End => ("APPE", path),
            Placement::At(_) => ("ESTO", path),
        },
        TransferKind::List { form, path } => match form {
            ListForm::Long => ("LIST", path),
            ListForm::Names { .. } => ("NLST", path),
            ListForm::Facts { .. } => ("MLSD", path),
            ListForm::Tree { .. } => ("MLSR", path),
        },
    };
    (verb, path.as_bytes())
}

/// The log line of a transfer, written at its end or when it is dropped with its session.
struct Unfinished<'a> {
    user: &'a str,
    verb: &'static str,
    path: Vec<u8>,
    task: &'a str,
    peer: std::net::IpAddr,
    start: Instant,
    watch: Watch,
    written: bool,
}

impl Unfinished<'_> {
    fn write(&mut self, result: &Result<u64, Error>) {
        let why;
        let (bytes, result) = match result {
            Ok(bytes) => (*bytes, "ok"),
            Err(error) => {
                why = chain(error);
                (self.watch.bytes(), why.as_str())
            }
        };
        self.line(bytes, result);
    }

    fn line(&mut self, bytes: u64, result: &str) {
        self.written = true;
        TransferLine {
            user: self.user,
            verb: self.verb,
            path: &self.path,
            bytes,
            took: self.start.elapsed(),
            streams: self.watch.connections(),
            peer: self.peer,
            task: self.task,
            result,
        }
        .write();
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.written {
            self.line(self.watch.bytes(), "session ended");
        }
    }
}

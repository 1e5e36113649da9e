//! `Executor`: runs each `Action` of a session against the storage or the data channel.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use ftp_proto::types::{Action, Event, Names, Outcome, Ticket, Transfer};
use ftp_wire::command::{Secret, StackSide};
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Receipt;
use ftp_wire::waits::Waits;
use gridftp_dsi::{Delegated, Dsi};
use tokio::sync::{mpsc, oneshot, watch};
use xio::rate::Bound;
use xio::tls::TlsSession;

use crate::admission::SessionPermit;
use crate::auth::{self, Admitted, Refused};
use crate::config::Policy;
use crate::data::{Buffers, Context, Ends, Mover, Reporter, Side, limit, waits_of};
use crate::error::{AbortedBy, Error, chain};
use crate::grid::GridSession;
use crate::log::Shown;
use crate::names;
use crate::nodes::NodeMover;
use crate::reply_for::reply_for;
use crate::server::Shared;
use crate::transfer_log::{Requester, Unfinished};

/// Most events that wait for the control connection; a slow reader delays the transfer.
const EVENTS: usize = 4;

/// The client of a session, as it says and proves.
#[derive(Default)]
pub(crate) struct Client {
    /// The value of `SITE TASKID`.
    pub(crate) task: Arc<str>,
    /// Whether it is `globus-url-copy`, which ends data connections without close-notify and
    /// announces the length of every upload but an empty one.
    globus: bool,
    /// The verified name, for the log.
    pub(crate) identity: Option<String>,
}

/// Runs the actions of one session.
pub(crate) struct Executor<D: Dsi> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) ends: Ends,
    /// The account of every login, where the control connection belongs to somebody already.
    pub(crate) person: Option<Admitted>,
    /// The account, after login.
    pub(crate) account: Option<Arc<Admitted>>,
    /// Lent to the running action; lost if that is dropped.
    pub(crate) side: Option<Side>,
    /// The stacks that the client chose.
    pub(crate) stacks: Vec<(StackSide, String)>,
    pub(crate) client: Client,
    /// The TLS session of the control connection.
    pub(crate) tls: Option<Arc<TlsSession>>,
    /// Grid security of the control connection and of data connections.
    pub(crate) grid: GridSession,
    /// The waits of the transfers, once the client has asked for them.
    pub(crate) waits: Option<Waits>,
    /// The bound on the bytes a second of the data connections, once the client has asked for one.
    pub(crate) rate: watch::Sender<Option<Bound>>,
    /// Counts this connection.
    pub(crate) permit: SessionPermit,
}

/// The running action.
pub(crate) struct Running {
    pub(crate) ticket: Ticket,
    pub(crate) work: Work,
    pub(crate) events: mpsc::Receiver<Event>,
    /// Taken to cancel; the work then ends by itself soon.
    pub(crate) cancel: Option<oneshot::Sender<AbortedBy>>,
}

pub(crate) type Work = Pin<Box<dyn Future<Output = Finished> + Send>>;

/// The result of an action.
pub(crate) struct Finished {
    pub(crate) outcome: Outcome,
    pub(crate) side: Option<Side>,
    /// Set by a login.
    pub(crate) account: Option<Arc<Admitted>>,
    /// Those of a transfer that was measured.
    pub(crate) waits: Option<Box<Waits>>,
}

impl Finished {
    pub(crate) fn new(result: Result<Outcome, Error>) -> Self {
        let outcome = result.unwrap_or_else(|error| {
            tracing::debug!(error = %chain(&error), "refused");
            Outcome::Failed(reply_for(&error))
        });
        Self {
            outcome,
            side: None,
            account: None,
            waits: None,
        }
    }

    fn of_login(login: Result<Admitted, Refused>) -> Self {
        let account = match login {
            Ok(account) => account,
            Err(refused) => return Self::new(Err(Error::Login(refused))),
        };
        let home = account.user.home.as_bytes();
        let mut finished = Self::new(Ok(Outcome::LoggedIn {
            user: None,
            home: FtpPath::new(home).unwrap_or_else(FtpPath::root),
            message: Vec::new(),
        }));
        finished.account = Some(Arc::new(account));
        finished
    }

    /// Names the user of a login otherwise than the client did.
    fn named(mut self, name: String) -> Self {
        if let Outcome::LoggedIn { user, .. } = &mut self.outcome {
            *user = Some(name);
        }
        self
    }

    /// Tells the receipt of a tagged transfer; the channel knows whether the next one can use it.
    fn proven(mut self, receipt: Option<Receipt>, is_cached: bool) -> Self {
        self.outcome = match self.outcome {
            Outcome::Transferred { bytes } => {
                receipt.map_or(Outcome::Transferred { bytes }, Outcome::Proven)
            }
            Outcome::Failed(reply) if receipt.is_some() && is_cached => Outcome::Spared(reply),
            other => other,
        };
        self
    }

    /// Returns the data side that was lent to the action.
    pub(crate) fn with(mut self, side: Side) -> Self {
        self.side = Some(side);
        self
    }
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
                protection,
                stripes,
            } => {
                let buffers = Buffers::new(send_buffer, receive_buffer);
                self.listen(family, buffers, &protection, stripes)
            }
            Action::Connect(to, protection) => self.connect(to, &protection),
            Action::Stack(of, stack) => {
                let mut side = self.side(None);
                let changed = side.set_stack(of, stack.as_deref());
                if changed.is_ok() {
                    self.stacks.retain(|(other, _)| *other != of);
                    self.stacks.extend(stack.map(|stack| (of, stack)));
                }
                let changed = changed.map(|()| Outcome::Done);
                Box::pin(std::future::ready(Finished::new(changed).with(side)))
            }
            Action::Transfer(transfer) => {
                let reporter = Reporter::new(sender, cancelled, &transfer);
                self.transfer(*transfer, reporter)
            }
            Action::Names(action) => self.names(action, sender, cancelled),
            Action::LoginCertified { user } => {
                let login = auth::certified(&self.policy, &user, self.permit.reserve());
                Box::pin(std::future::ready(Finished::of_login(login)))
            }
            Action::DataCredential(pem) => {
                let taken = self.grid.take_credential(pem.as_ref().map(Secret::reveal));
                let taken = taken.map(|()| Outcome::Done).map_err(Error::from);
                Box::pin(std::future::ready(Finished::new(taken)))
            }
            Action::Waits => {
                let waits = Box::new(*self.waits.get_or_insert_default());
                Box::pin(std::future::ready(Finished::new(Ok(Outcome::Waits(waits)))))
            }
            Action::DropData => {
                self.drop_data();
                return None;
            }
            Action::Rate(rate) => {
                self.rate.send_modify(|bound| limit(bound, rate));
                return None;
            }
            Action::NoLinks => {
                if let Some(account) = &mut self.account {
                    Arc::make_mut(account).user.follows_links = false;
                }
                return None;
            }
            Action::Annotate { key, value } => {
                self.annotate(key, &value);
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

    /// Takes the account of a login, with the credential for a storage that acts for its users.
    pub(crate) fn enter(&mut self, mut account: Arc<Admitted>) {
        if self.shared.dsi.capabilities().acts_for_users
            && let Some(delegated) = self.grid.delegated()
        {
            let pem = delegated.to_pem();
            Arc::make_mut(&mut account).user.credential = Some(Delegated::new(pem.as_bytes()));
        }
        self.account = Some(account);
    }

    /// Closes the data side, listener included.
    pub(crate) fn drop_data(&mut self) {
        if let Some(side) = &mut self.side {
            side.drop_data();
        }
    }

    fn annotate(&mut self, key: &str, value: &str) {
        match key {
            "taskid" => self.client.task = value.into(),
            "clientinfo" => self.client.globus = value.contains("globus-url-copy"),
            _ => {}
        }
        tracing::debug!(peer = %self.ends.peer, key, value = ?value, "client annotation");
    }

    fn login(&self, name: String, password: Secret) -> Work {
        let (shared, policy) = (Arc::clone(&self.shared), Arc::clone(&self.policy));
        let (peer, reservation) = (self.ends.peer, self.permit.reserve());
        let (person, mapped) = (self.person.clone(), self.grid.local_name(&name));
        Box::pin(async move {
            if let Some(mapped) = mapped {
                return match mapped.await {
                    Ok(name) => {
                        let login = auth::mapped(&policy, &name, reservation);
                        Finished::of_login(login).named(name)
                    }
                    Err(unmapped) => {
                        let fact = unmapped.to_string();
                        tracing::warn!(%peer, error = %Shown(fact.as_bytes()), "login refused");
                        Finished::new(Err(Error::Unmapped(unmapped)))
                    }
                };
            }
            let authenticator = &shared.authenticator;
            let login = match person {
                Some(person) => auth::given(person, reservation),
                None => {
                    authenticator
                        .login(policy, name, password, peer, reservation)
                        .await
                }
            };
            Finished::of_login(login)
        })
    }

    fn names(
        &self,
        action: Names,
        events: mpsc::Sender<Event>,
        cancelled: oneshot::Receiver<AbortedBy>,
    ) -> Work {
        let (shared, account) = (Arc::clone(&self.shared), self.account.clone());
        let task = Arc::clone(&self.client.task);
        Box::pin(async move {
            let Some(account) = account else {
                return Finished::new(Err(Error::NotLoggedIn));
            };
            let (dsi, owners) = (&shared.dsi, &shared.owners);
            Finished::new(tokio::select! {
                biased;
                result = names::run(dsi, &account.user, owners, &task, action, &events) => result,
                // The end of a session drops this future; only an abort is sent.
                Ok(by) = cancelled => Err(Error::Aborted(by)),
            })
        })
    }

    fn transfer(&mut self, transfer: Transfer, mut reporter: Reporter) -> Work {
        let (shared, account) = (Arc::clone(&self.shared), self.account.clone());
        let (task, peer) = (Arc::clone(&self.client.task), self.ends.peer);
        let (protection, globus) = (&transfer.channel.protection, self.client.globus);
        let peers = self.peers(protection);
        let measures = self.waits.is_some();
        let mut side = self.side(None);
        let tls = self.tls.clone().filter(|_| protection.is_tls());
        if tls.is_some() {
            reporter.announce(side.is_cached());
        }
        Box::pin(async move {
            let Some(account) = account else {
                return Finished::new(Err(Error::NotLoggedIn)).with(side);
            };
            let sends = transfer.is_sending();
            let files = AtomicUsize::new(0);
            let requester = Requester {
                user: &account.user.name,
                task: &task,
                peer,
                files: &files,
            };
            let mut line = Unfinished::new(requester, &transfer.kind);
            let measures = measures && matches!(side, Side::Here(_));
            if measures {
                line.watch.measure();
                if sends {
                    reporter.tell_waits();
                }
            }
            let context = Context {
                shared: &shared,
                user: &account.user,
                requester,
                channel: &transfer.channel,
                tag: transfer.tag,
                rules: shared.config.store_rules(globus),
                watch: &line.watch,
                reporter: &mut reporter,
            };
            let (kind, drains) = (transfer.kind, transfer.drains);
            let entered = shared.measurements.enter(&kind, &account, peer);
            let result = match (entered, &mut side) {
                (Err(full), _) => Err(full),
                (Ok(_counted), Side::Here(side)) => {
                    Mover::new(context, side).run(kind, drains).await
                }
                (Ok(_), Side::Nodes(side)) => NodeMover::new(context, side).run(kind, drains).await,
            };
            let result = result.map_err(|error| error.at_port(&peers, side.refused()));
            let bytes = result.as_ref().map(|moved| moved.bytes);
            line.write(bytes);
            if let (Some(tls), true, Ok(1..)) = (tls, sends, bytes) {
                tls.delivered();
            }
            let receipt = line.watch.receipt();
            let finished = Finished::new(result.map(Outcome::from));
            let mut finished = finished.proven(receipt, side.is_cached());
            finished.waits = measures.then(|| Box::new(waits_of(&line.watch)));
            finished.with(side)
        })
    }
}

//! `TlsServer` and `TlsSession`: a control connection, and data connections that resume its session.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::StoresServerSessions;
use tokio::sync::watch;
use tokio::time::Instant;
use xio_core::{Error, ErrorKind, Operation, Result, Stream};

use crate::end::TlsEnd;
use crate::error::LAYER;
use crate::handle::TlsHandle;
use crate::named::Named;

/// Tickets of a control connection in TLS 1.3: clients that use each once need one for each of the
/// data connections that they open together.
const TICKETS: usize = 32;

/// Tickets of a data connection, in place of the used one.
const REPLACEMENTS: usize = 1;

/// Tickets that data connections may add, the oldest of which is forgotten.
const MORE_TICKETS: usize = 256;

/// Bound in bytes of the remembered sessions of a control connection, and of its data connections:
/// each session holds the chain of the client's certificate, which has up to 64 KiB.
const MAX_BYTES: usize = 128 * 1024;

/// The server's end of control and data connections; made by
/// [`TlsBuilder::build_server`](crate::TlsBuilder::build_server).
#[derive(Clone)]
pub struct TlsServer(Arc<ServerConfig>);

/// One control connection and its data connections.
///
/// Its sessions are remembered in this value only, so a connection that resumes one of them belongs
/// to the client of this control connection.
pub struct TlsSession {
    config: Arc<ServerConfig>,
    kept: Arc<Mutex<Kept>>,
    shown: watch::Sender<Shown>,
    /// Time of the handshake of the control connection.
    handshake: OnceLock<Duration>,
}

/// The sessions that the client has shown to hold.
///
/// Clients that use a ticket once may keep one alone of those that they got, and read none that
/// comes while they only send: a client is sure to hold the ticket of its control connection, and one
/// of each data connection that it has read, less those that it used.
#[derive(Debug, Default)]
struct Shown {
    /// Data connections that resumed a session.
    resumed: usize,
    /// Whether one session serves any number of connections.
    lasting: bool,
    /// Tickets that the client is sure to hold.
    spare: usize,
    /// The key of the last used session.
    last: Option<Vec<u8>>,
    /// Whether one of the data connections that are set up resumed, and brings a ticket.
    unread: bool,
    /// Whether a connection without a session was taken for the client's.
    took_other: bool,
}

/// A session's key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// The remembered sessions.
#[derive(Default)]
struct Kept {
    of_control: Vec<Entry>,
    of_data: VecDeque<Entry>,
}

/// The view of one connection on the remembered sessions.
struct View {
    kept: Arc<Mutex<Kept>>,
    /// Sessions of a data connection, kept once it has proved to belong here.
    staged: Option<Mutex<Vec<Entry>>>,
    /// The key of the session that the client asked for.
    asked: Mutex<Option<Vec<u8>>>,
}

impl TlsServer {
    /// `config` must remember no session by itself.
    pub(crate) fn new(config: ServerConfig) -> Self {
        Self(Arc::new(config))
    }

    /// Prepares a control connection.
    #[must_use]
    pub fn session(&self) -> TlsSession {
        TlsSession {
            config: Arc::clone(&self.0),
            kept: Arc::default(),
            shown: watch::Sender::default(),
            handshake: OnceLock::new(),
        }
    }
}

impl TlsSession {
    /// Runs the handshake of the control connection on `inner`. A client that asks for a host which
    /// the certificate does not name is refused. Received bytes are overwritten in memory once they
    /// are read.
    ///
    /// # Errors
    /// The peer is refused, refuses this end, speaks no TLS, or takes too long.
    ///
    /// # Cancel safety
    /// Dropping the future drops `inner`, which closes it.
    pub async fn control<S: Stream>(&self, inner: S, within: Duration) -> Result<TlsHandle<S>> {
        let view = View {
            kept: Arc::clone(&self.kept),
            staged: None,
            asked: Mutex::default(),
        };
        let mut config = self.config(Arc::new(view), TICKETS);
        config.cert_resolver = Arc::new(Named(config.cert_resolver));
        let begun = Instant::now();
        let handle = TlsEnd::server(Arc::new(config))
            .handshake_timeout(within)
            .off_reactor()
            .wiped()
            .open(inner, Operation::Open)
            .await?;
        let _ = self.handshake.set(begun.elapsed());
        Ok(handle)
    }

    /// Time that the handshake of the control connection took: two round trips, and the work of both
    /// ends.
    pub fn handshake_time(&self) -> Duration {
        self.handshake.get().copied().unwrap_or_default()
    }

    /// Runs the handshake of a data connection on `inner`, as the server whichever end connected.
    ///
    /// # Errors
    /// As [`control`](Self::control), and [`ErrorKind::Security`] where the connection `must_resume`
    /// and does not.
    ///
    /// # Cancel safety
    /// As [`control`](Self::control).
    pub async fn data<S: Stream>(
        &self,
        inner: S,
        within: Duration,
        must_resume: bool,
    ) -> Result<TlsHandle<S>> {
        let view = Arc::new(View {
            kept: Arc::clone(&self.kept),
            staged: Some(Mutex::default()),
            asked: Mutex::default(),
        });
        let op = Operation::Open;
        let config = self.config(Arc::clone(&view), REPLACEMENTS);
        let end = TlsEnd::server(Arc::new(config)).handshake_timeout(within);
        let handle = end.open(inner, op).await?;
        if handle.tls_info().resumed {
            let lasts = handle.tls_info().version == "TLS 1.2";
            self.shown
                .send_modify(|shown| shown.resume(lasts, view.asked()));
            view.keep_staged();
            return Ok(handle);
        }
        if must_resume {
            return Err(unproven());
        }
        Ok(handle)
    }

    /// Notes that data connections are set up anew; says whether the client has shown neither that it
    /// resumes nor that it does not.
    pub fn begin(&self) -> bool {
        self.shown.send_modify(|shown| shown.unread = false);
        let shown = self.shown.borrow();
        shown.resumed == 0 && !shown.took_other
    }

    /// Notes that the client has read its data connections to the end, and a ticket of them.
    pub fn delivered(&self) {
        self.shown.send_modify(|shown| {
            shown.spare += usize::from(std::mem::take(&mut shown.unread));
        });
    }

    /// Whether the client has shown that its next data connection can resume.
    pub fn can_resume(&self) -> bool {
        let shown = self.shown.borrow();
        shown.resumed > 0 && (shown.lasting || shown.spare > 0)
    }

    /// Waits for a data connection that resumes, beside one that does not.
    ///
    /// # Errors
    /// [`ErrorKind::Security`] when one does: the other is a stranger's, unless the client has used
    /// up all tickets of its control connection.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn give_way(&self, within: Duration) -> Result<()> {
        let mut shown = self.shown.subscribe();
        let resumed = shown.wait_for(|shown| (1..TICKETS).contains(&shown.resumed));
        match tokio::time::timeout(within, resumed).await {
            Ok(Ok(_)) => Err(unproven()),
            _ => {
                self.shown.send_modify(|shown| shown.took_other = true);
                Ok(())
            }
        }
    }

    fn config(&self, view: Arc<View>, tickets: usize) -> ServerConfig {
        let mut config = ServerConfig::clone(&self.config);
        config.send_tls13_tickets = tickets;
        config.session_storage = view;
        config
    }
}

impl Shown {
    /// Notes a data connection that resumed the session with this key, which `lasts` or serves once.
    fn resume(&mut self, lasts: bool, key: Option<Vec<u8>>) {
        if self.resumed == 0 {
            self.spare = 1;
        }
        self.lasting |= lasts || (key.is_some() && key == self.last);
        self.spare = self.spare.saturating_sub(1);
        self.resumed += 1;
        self.unread = true;
        self.last = key;
    }
}

fn unproven() -> Error {
    let fact = "the data connection does not resume the TLS session of its control connection, \
                so it may be a stranger's; use a client that resumes";
    Error::new(ErrorKind::Security, LAYER, Operation::Open, fact)
}

impl View {
    fn asked(&self) -> Option<Vec<u8>> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.take()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the sessions of a data connection that has proved to belong here.
    fn keep_staged(&self) {
        let Some(staged) = &self.staged else { return };
        let staged = std::mem::take(&mut *staged.lock().unwrap_or_else(PoisonError::into_inner));
        let mut kept = self.kept();
        kept.of_data.extend(staged);
        let mut bytes = size(&kept.of_data);
        while kept.of_data.len() > MORE_TICKETS || bytes > MAX_BYTES {
            bytes -= size(&kept.of_data.pop_front());
        }
    }
}

/// The bytes of sessions.
fn size<'a, I: IntoIterator<Item = &'a Entry>>(sessions: I) -> usize {
    let sessions = sessions.into_iter();
    sessions.map(|(key, value)| key.len() + value.len()).sum()
}

impl StoresServerSessions for View {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let entry = (key, value);
        match &self.staged {
            Some(staged) => {
                let mut staged = staged.lock().unwrap_or_else(PoisonError::into_inner);
                staged.push(entry);
            }
            None => {
                let mut kept = self.kept();
                if size(&kept.of_control) + size([&entry]) > MAX_BYTES {
                    return false;
                }
                kept.of_control.push(entry);
            }
        }
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let kept = self.kept();
        let mut all = kept.of_control.iter().chain(&kept.of_data);
        let found = all.find(|entry| entry.0 == key)?;
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.to_owned());
        Some(found.1.clone())
    }

    /// Not removed: FTP clients use the session of the control connection for every data connection.
    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Prints nothing of the sessions, which are secret.
impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("View")
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsServer")
    }
}

impl fmt::Debug for TlsSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsSession(can resume: {})", self.can_resume())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client chooses its chain, and so the size of its sessions.
    #[test]
    fn sessions_take_bounded_memory() {
        for (length, of_control, of_data) in [(60_000, 2, 2), (2_000, 65, 65), (200, 600, 256)] {
            let kept: Arc<Mutex<Kept>> = Arc::default();
            let view = |staged: bool| View {
                kept: Arc::clone(&kept),
                staged: staged.then(Mutex::default),
                asked: Mutex::default(),
            };
            let control = view(false);
            let put =
                |view: &View, number: u32| view.put(number.to_be_bytes().to_vec(), vec![0; length]);
            let stored = (0..600).filter(|number| put(&control, *number)).count();
            assert_eq!(stored, of_control, "{length}");
            for number in 600..1200 {
                let data = view(true);
                put(&data, number);
                data.keep_staged();
            }
            let kept = kept.lock().unwrap();
            assert_eq!(kept.of_data.len(), of_data, "{length}");
            let newest = kept.of_data.back().unwrap();
            assert_eq!(newest.0, 1199_u32.to_be_bytes());
            assert!(size(&kept.of_control) + size(&kept.of_data) <= 2 * MAX_BYTES);
        }
    }
}

//! `TlsServer` and `TlsSession`: a control connection, and data connections that resume its session.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::StoresServerSessions;
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
    resumed: AtomicBool,
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
            resumed: AtomicBool::new(false),
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
        };
        let mut config = self.config(Arc::new(view), TICKETS);
        config.cert_resolver = Arc::new(Named(config.cert_resolver));
        TlsEnd::server(Arc::new(config))
            .handshake_timeout(within)
            .wiped()
            .open(inner, Operation::Open)
            .await
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
        });
        let op = Operation::Open;
        let config = self.config(Arc::clone(&view), REPLACEMENTS);
        let end = TlsEnd::server(Arc::new(config)).handshake_timeout(within);
        let handle = end.open(inner, op).await?;
        if handle.tls_info().resumed {
            // In TLS 1.3 clients of OpenSSL use each ticket once, and read no new one where they only
            // send, so they run out.
            if handle.tls_info().version == "TLS 1.2" {
                self.resumed.store(true, Ordering::Relaxed);
            }
            view.keep_staged();
        } else if must_resume {
            return Err(Error::new(
                ErrorKind::Security,
                LAYER,
                op,
                "the data connection does not resume the TLS session of its control connection, \
                 so it may be a stranger's; use a client that resumes",
            ));
        }
        Ok(handle)
    }

    /// Whether a data connection has resumed a session of TLS 1.2: the client can do it every time.
    pub fn can_resume(&self) -> bool {
        self.resumed.load(Ordering::Relaxed)
    }

    fn config(&self, view: Arc<View>, tickets: usize) -> ServerConfig {
        let mut config = ServerConfig::clone(&self.config);
        config.send_tls13_tickets = tickets;
        config.session_storage = view;
        config
    }
}

impl View {
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
        all.find(|entry| entry.0 == key)
            .map(|entry| entry.1.clone())
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

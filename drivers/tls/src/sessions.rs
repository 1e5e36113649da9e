//! `Sessions` and `Tickets`: the sessions of a client with one server, for its many data connections to resume.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Most tickets kept. Each serves one connection, and as many may be opened at a time.
const TICKETS: usize = 256;

/// A view on the tickets of a client, made by
/// [`TlsBuilder::build_client`](crate::TlsBuilder::build_client).
#[derive(Debug, Clone)]
pub struct Tickets(pub(crate) Arc<Sessions>);

impl Tickets {
    /// Whether the next connection cannot resume although earlier ones could: each ticket of TLS 1.3
    /// serves once, and the server brings no new ones.
    #[must_use]
    pub fn are_spent(&self) -> bool {
        let kept = self.0.kept();
        kept.issued && kept.tickets.is_empty()
    }
}

/// The sessions with one server. rustls's own store keeps eight tickets, fewer than the data
/// connections of one transfer.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    group: Option<NamedGroup>,
    /// The session of TLS 1.2, which serves any number of connections.
    old: Option<Tls12ClientSessionValue>,
    tickets: VecDeque<Tls13ClientSessionValue>,
    /// Whether there has been a ticket.
    issued: bool,
}

impl Sessions {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.kept().old = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().old.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.kept().old = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut kept = self.kept();
        if kept.tickets.len() == TICKETS {
            kept.tickets.pop_front();
        }
        kept.tickets.push_back(value);
        kept.issued = true;
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.kept().tickets.pop_back()
    }
}

/// Prints nothing of the sessions, which are secret.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({} tickets)", self.kept().tickets.len())
    }
}

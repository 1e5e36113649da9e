//! Ends with a fixed role, over configurations of the caller.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{Stream as _, Transform as _};
use xio_testkit::{Authority, Mem};

use super::{HOST, drain, identity, roots, target};
use crate::{Filter, Roots, Tls, TlsEnd, TlsInfo};

/// A client and a server whose sessions can be resumed.
fn ends() -> (TlsEnd, TlsEnd) {
    let authority = Authority::new("test authority");
    let own = authority.issue("server", &[HOST]);
    let both = Tls::both(roots(&authority), identity(&own))
        .build()
        .unwrap();
    let client = both.active.as_ref().unwrap().config().unwrap();
    let name = ServerName::try_from(HOST).unwrap();
    (
        TlsEnd::client(client, name),
        TlsEnd::server(both.passive.unwrap()),
    )
}

/// RFC 4217 §7: the server of the control connection is that of the data connections too, and it
/// can see that a session was resumed there.
#[tokio::test]
async fn the_role_does_not_follow_the_connection() {
    let (client, server) = ends();
    for resumed in [false, true] {
        let (near, far) = Mem::new().pair();
        let to = target();
        let (near, far) = tokio::join!(server.initiate(near, &to), client.respond(far));
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        near.write_all(b"block").await.unwrap();
        near.shutdown().await.unwrap();
        assert_eq!(drain(&mut far).await.0, b"block");
        far.shutdown().await.unwrap();
        drain(&mut near).await.1.unwrap();
        assert_eq!(near.info().get::<TlsInfo>().unwrap().resumed, resumed);
    }
}

#[tokio::test]
async fn close_notify_is_optional_on_demand() {
    for optional in [false, true] {
        let (client, server) = ends();
        let server = match optional {
            true => server.close_notify_optional(),
            false => server,
        };
        let (near, far) = Mem::new().pair();
        let to = target();
        let (near, far) = tokio::join!(client.initiate(near, &to), server.respond(far));
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        near.write_all(b"block").await.unwrap();
        near.flush().await.unwrap();
        near.below_mut().shutdown().await.unwrap();
        let (bytes, ended) = drain(&mut far).await;
        assert_eq!((bytes.as_slice(), ended.is_ok()), (&b"block"[..], optional));
    }
}

/// Notes the calls.
struct Noted {
    seen: Arc<Mutex<Vec<u8>>>,
    scopes: Arc<AtomicUsize>,
}

impl Filter for Noted {
    fn admit(&mut self, incoming: &mut [u8]) {
        self.seen.lock().unwrap().extend_from_slice(incoming);
    }

    fn scope(&self, process: &mut dyn FnMut()) {
        self.scopes.fetch_add(1, Relaxed);
        process();
    }
}

#[tokio::test]
async fn a_filter_sees_the_handshake_and_no_more() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let scopes = Arc::new(AtomicUsize::new(0));
    let (client, server) = ends();
    let server = server.filtered({
        let (seen, scopes) = (Arc::clone(&seen), Arc::clone(&scopes));
        move || Noted {
            seen: Arc::clone(&seen),
            scopes: Arc::clone(&scopes),
        }
    });
    let (near, far) = Mem::new().pair();
    let to = target();
    let (near, far) = tokio::join!(client.initiate(near, &to), server.respond(far));
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    // A record of the handshake, with a `ClientHello` in it.
    let hello = seen.lock().unwrap().clone();
    assert!(matches!(hello.as_slice(), [22, 3, _, _, _, 1, ..]));
    let calls = scopes.load(Relaxed);
    assert!(calls > 0);

    near.write_all(b"block").await.unwrap();
    near.shutdown().await.unwrap();
    assert_eq!(drain(&mut far).await.0, b"block");
    assert_eq!(seen.lock().unwrap().len(), hello.len());
    assert_eq!(scopes.load(Relaxed), calls);
}

/// Tickets of TLS 1.3 serve once, and a data connection on which the server sends nothing brings
/// no new one: those of the control connection have to last.
#[tokio::test]
async fn a_client_keeps_every_ticket_of_its_control_connection() {
    const TICKETS: usize = 40;
    let authority = Authority::new("test authority");
    let own = authority.issue("server", &[HOST]);
    let server = Tls::server(identity(&own)).build().unwrap();
    let mut config = Arc::unwrap_or_clone(server.passive.unwrap());
    config.send_tls13_tickets = TICKETS;
    let server = TlsEnd::server(Arc::new(config));
    let (client, tickets) = Tls::client(roots(&authority)).build_client(HOST).unwrap();
    let mut control = None;
    for at in 0..=TICKETS + 1 {
        let (near, far) = Mem::new().pair();
        let to = target();
        let (near, far) = tokio::join!(client.initiate(near, &to), server.respond(far));
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        let resumed = near.info().get::<TlsInfo>().unwrap().resumed;
        assert_eq!(resumed, (1..=TICKETS).contains(&at), "connection {at}");
        assert_eq!(tickets.are_spent(), at >= TICKETS, "connection {at}");
        if at == 0 {
            far.write_all(b"220").await.unwrap();
            near.read_exact(&mut [0; 3]).await.unwrap();
            control = Some((near, far));
        }
    }
    drop(control);
}

#[test]
fn a_file_that_cannot_be_read_has_its_cause_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none");
    let error = Roots::pem_path(none).unwrap_err();
    let mut told = error.to_string();
    let mut next = std::error::Error::source(&error);
    while let Some(cause) = next {
        told.push_str(&cause.to_string());
        next = cause.source();
    }
    assert_eq!(told.matches("No such file").count(), 1, "{told}");
}

#[test]
fn a_folder_of_authorities_may_hold_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let told = Roots::pem_path(folder.path()).unwrap_err().to_string();
    assert!(told.contains("no authority"), "{told}");
    std::fs::write(folder.path().join("ca.signing_policy"), "access_id_CA").unwrap();
    let one = Authority::new("one").write(folder.path());
    Roots::pem_path(folder.path()).unwrap();
    Roots::pem_path(one).unwrap();
}

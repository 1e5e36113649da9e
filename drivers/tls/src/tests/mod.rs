//! Two ends over memory, and the failures between them.

mod agree;
mod close;
mod ends;
mod hostile;
mod keys;
mod paired;
mod refuse;

use std::future::Future;

use tokio::io::AsyncReadExt as _;
use xio_core::{Result, Stream, Target, Transform as _};
use xio_testkit::{Authority, Credential, Mem, MemHandle};

use crate::{Identity, Roots, Tls, TlsHandle};

pub(super) const HOST: &str = "dtn.example.org";

pub(super) fn roots(authority: &Authority) -> Roots {
    Roots::pem(authority.pem().as_bytes()).unwrap()
}

pub(super) fn identity(credential: &Credential) -> Identity {
    Identity::pem(credential.certificate.as_bytes(), credential.key.as_bytes()).unwrap()
}

/// A layer for both roles, with a certificate for [`HOST`].
pub(super) fn plain() -> Tls {
    let authority = Authority::new("test authority");
    let own = authority.issue("server", &[HOST]);
    Tls::both(roots(&authority), identity(&own))
        .build()
        .unwrap()
}

pub(super) fn target() -> Target {
    Target::host(HOST, 2811)
}

/// Runs the handshake between a client and a server over any two streams.
pub(super) async fn shake<A: Stream, B: Stream>(
    client: &Tls,
    server: &Tls,
    near: A,
    far: B,
) -> (Result<TlsHandle<A>>, Result<TlsHandle<B>>) {
    let to = target();
    tokio::join!(client.initiate(near, &to), server.respond(far))
}

/// Two ends that are open, over memory.
pub(super) async fn open(
    client: &Tls,
    server: &Tls,
) -> (TlsHandle<MemHandle>, TlsHandle<MemHandle>) {
    let (near, far) = Mem::new().pair();
    let (near, far) = shake(client, server, near, far).await;
    (near.unwrap(), far.unwrap())
}

/// Reads to the end, or to the error in its place.
pub(super) async fn drain<S: Stream>(stream: &mut S) -> (Vec<u8>, std::io::Result<()>) {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).await;
    (bytes, ended.map(|_| ()))
}

/// The message of an expected error.
pub(super) async fn message<T>(work: impl Future<Output = Result<T>>) -> String {
    match work.await {
        Ok(_) => "it worked".to_owned(),
        Err(error) => error.to_string(),
    }
}

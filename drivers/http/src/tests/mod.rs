//! Exchanges over memory, between two handles and with scripted peers.

mod ends;
mod exchanges;
mod heads;
mod hostile;
mod persistent;
mod tunnels;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::{Result, Stream, Target, Transform as _};
use xio_testkit::{Mem, MemHandle};

use crate::{Http, HttpHandle};

pub(super) fn http(options: &str) -> Http {
    Http::new().with_options(options.parse().unwrap())
}

pub(super) fn target(path: &str) -> Target {
    format!("http://host.example:8080/{path}").parse().unwrap()
}

/// Two ends of an exchange with these options.
pub(super) async fn open(
    asks: &str,
    answers: &str,
) -> (HttpHandle<MemHandle>, HttpHandle<MemHandle>) {
    let (near, far) = Mem::new().pair();
    let (asks, answers, to) = (http(asks), http(answers), target("a/path"));
    let (near, far) = tokio::join!(asks.initiate(near, &to), answers.respond(far));
    (near.unwrap(), far.unwrap())
}

/// A client, and the stream of a scripted server.
pub(super) async fn asks(options: &str) -> (HttpHandle<MemHandle>, MemHandle) {
    let (near, far) = Mem::new().pair();
    let near = http(options).initiate(near, &target("a/path")).await;
    (near.unwrap(), far)
}

/// A server, with a request from a scripted client.
pub(super) async fn answers(
    options: &str,
    sent: impl AsRef<[u8]>,
) -> (MemHandle, Result<HttpHandle<MemHandle>>) {
    let (mut near, far) = Mem::new().capacity(1 << 20).pair();
    near.write_all(sent.as_ref()).await.unwrap();
    let far = http(options).respond(far).await;
    (near, far)
}

/// Reads to the end, or to the error in its place.
pub(super) async fn drain<S: Stream>(stream: &mut S) -> (Vec<u8>, std::io::Result<()>) {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).await;
    (bytes, ended.map(|_| ()))
}

/// Reads up to a blank line, as text.
pub(super) async fn head_of(stream: &mut MemHandle) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(text).unwrap()
}

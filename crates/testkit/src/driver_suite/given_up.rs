//! A write that is given up, and the bytes that were accepted before it.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use xio_core::Stream;

/// Checks that reading sends the rest of the writes before one that was given up, for which the
/// peer may wait: the layer below keeps the waker of the write that nobody repeats.
///
/// The connection below `near` and `far` holds few bytes, and time is paused.
///
/// # Panics
/// When the peer does not get the accepted bytes, or its answer is lost.
pub async fn accepted_bytes_are_sent_by_a_reader(mut near: impl Stream, mut far: impl Stream) {
    let mut gone = Context::from_waker(Waker::noop());
    let mut accepted = 0;
    while let Poll::Ready(n) = Pin::new(&mut near).poll_write(&mut gone, &[7; 1000]) {
        accepted += n.expect("the connection is open");
    }
    let mut question = vec![0; accepted];
    let far = async {
        far.read_exact(&mut question).await?;
        far.write_all(b"answer").await?;
        far.flush().await
    };
    let mut answer = [0; 6];
    let both = async { tokio::join!(near.read_exact(&mut answer), far) };
    let (read, answered) = tokio::time::timeout(Duration::from_secs(60), both)
        .await
        .expect("the accepted bytes were not sent");
    read.expect("the answer is read");
    answered.expect("the question is read and answered");
    assert_eq!(answer, *b"answer");
}

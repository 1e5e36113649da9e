//! `poll_end`: the end of the layer below, which follows a layer's own end mark.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// Waits for the end of `below` after a layer's own end mark; `false` when a byte follows instead.
///
/// A layer that stopped at its own mark would leave those of the layers below unread. A socket that
/// is closed with unread bytes resets the connection, and the peer loses the bytes in flight. A
/// peer that is gone after its mark, by a reset or a timeout, has said everything, so this is an
/// end too.
///
/// # Errors
/// Those of `below`, but for a peer that is gone.
pub fn poll_end<R>(cx: &mut Context<'_>, below: &mut R) -> Poll<io::Result<bool>>
where
    R: AsyncRead + Unpin + ?Sized,
{
    let mut byte = [0];
    let mut room = ReadBuf::new(&mut byte);
    Pin::new(below)
        .poll_read(cx, &mut room)
        .map(|read| match read {
            Ok(()) => Ok(room.filled().is_empty()),
            Err(error) => match error.kind() {
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::TimedOut
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable => Ok(true),
                _ => Err(error),
            },
        })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    struct Broken(io::ErrorKind);

    impl AsyncRead for Broken {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Ready(Err(self.0.into()))
        }
    }

    #[tokio::test]
    async fn an_end_a_peer_that_is_gone_and_a_byte_are_told_apart() {
        let (near, mut far) = tokio::io::duplex(1);
        let waits = poll_fn(|cx| Poll::Ready(poll_end(cx, &mut far).is_pending()));
        assert!(waits.await, "the end is waited for");
        drop(near);
        assert!(poll_fn(|cx| poll_end(cx, &mut far)).await.unwrap());

        let mut more: &[u8] = b"more";
        assert!(!poll_fn(|cx| poll_end(cx, &mut more)).await.unwrap());

        for how in [
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::TimedOut,
            io::ErrorKind::HostUnreachable,
        ] {
            let mut gone = Broken(how);
            assert!(poll_fn(|cx| poll_end(cx, &mut gone)).await.unwrap());
        }
        let mut corrupt = Broken(io::ErrorKind::InvalidData);
        assert!(poll_fn(|cx| poll_end(cx, &mut corrupt)).await.is_err());
    }
}

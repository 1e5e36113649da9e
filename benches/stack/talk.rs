//! The conversation that is timed: ping-pong or bulk, over streams and over blocking sockets.

use std::io::{Read, Write};
use std::net::TcpStream as StdStream;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What both ends do next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// A message of so many bytes goes there and comes back, so often.
    PingPong { size: usize, times: u32 },
    /// So many blocks go there, and one byte comes back.
    Bulk { block: usize, times: u32 },
}

impl Order {
    /// Returns the same order, so often.
    pub(crate) fn times(self, times: u32) -> Self {
        match self {
            Self::PingPong { size, .. } => Self::PingPong { size, times },
            Self::Bulk { block, .. } => Self::Bulk { block, times },
        }
    }

    /// Returns the part of `buf` that one message fills.
    fn part(self, buf: &mut [u8]) -> &mut [u8] {
        let (Self::PingPong { size, .. } | Self::Bulk { block: size, .. }) = self;
        buf.get_mut(..size).expect("the buffer fits every size")
    }
}

/// The near end's part. The clock starts once a byte went there and back: both ends are ready then.
pub(crate) async fn near<S>(stream: &mut S, order: Order, buf: &mut [u8]) -> Duration
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let buf = order.part(buf);
    stream.write_u8(1).await.expect("the far end reads");
    stream.read_u8().await.expect("the far end answers");
    let began = Instant::now();
    match order {
        Order::PingPong { times, .. } => {
            for _ in 0..times {
                stream.write_all(buf).await.expect("the far end reads");
                stream.read_exact(buf).await.expect("the far end answers");
            }
        }
        Order::Bulk { times, .. } => {
            for _ in 0..times {
                stream.write_all(buf).await.expect("the far end reads");
            }
            stream.read_u8().await.expect("the far end answers");
        }
    }
    began.elapsed()
}

/// The far end's part.
pub(crate) async fn far<S>(stream: &mut S, order: Order, buf: &mut [u8])
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let buf = order.part(buf);
    stream.read_u8().await.expect("the near end writes");
    stream.write_u8(1).await.expect("the near end reads");
    match order {
        Order::PingPong { times, .. } => {
            for _ in 0..times {
                stream.read_exact(buf).await.expect("the near end writes");
                stream.write_all(buf).await.expect("the near end reads");
            }
        }
        Order::Bulk { block, times } => {
            let mut left = block * times as usize;
            while left > 0 {
                left -= stream.read(buf).await.expect("the near end writes");
            }
            stream.write_u8(1).await.expect("the near end reads");
        }
    }
}

/// [`near`] over a blocking socket.
pub(crate) fn blocking_near(mut stream: &StdStream, order: Order, buf: &mut [u8]) -> Duration {
    let buf = order.part(buf);
    stream.write_all(&[1]).expect("the far end reads");
    stream.read_exact(&mut [0]).expect("the far end answers");
    let began = Instant::now();
    match order {
        Order::PingPong { times, .. } => {
            for _ in 0..times {
                stream.write_all(buf).expect("the far end reads");
                stream.read_exact(buf).expect("the far end answers");
            }
        }
        Order::Bulk { times, .. } => {
            for _ in 0..times {
                stream.write_all(buf).expect("the far end reads");
            }
            stream.read_exact(&mut [0]).expect("the far end answers");
        }
    }
    began.elapsed()
}

/// [`far`] over a blocking socket.
pub(crate) fn blocking_far(mut stream: &StdStream, order: Order, buf: &mut [u8]) {
    let buf = order.part(buf);
    stream.read_exact(&mut [0]).expect("the near end writes");
    stream.write_all(&[1]).expect("the near end reads");
    match order {
        Order::PingPong { times, .. } => {
            for _ in 0..times {
                stream.read_exact(buf).expect("the near end writes");
                stream.write_all(buf).expect("the near end reads");
            }
        }
        Order::Bulk { block, times } => {
            let mut left = block * times as usize;
            while left > 0 {
                left -= stream.read(buf).expect("the near end writes");
            }
            stream.write_all(&[1]).expect("the near end reads");
        }
    }
}

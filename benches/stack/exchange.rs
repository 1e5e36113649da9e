//! The timed exchanges: ping-pong or bulk, over streams and over blocking sockets.

use std::io::{Read, Write};
use std::net::TcpStream as StdStream;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Messages between the two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exchange {
    /// Round trips of a message of `size` bytes.
    PingPong { size: usize, times: u32 },
    /// Blocks to the far end, and one byte back.
    Bulk { block: usize, times: u32 },
}

impl Exchange {
    /// Returns the same exchange with another number of messages.
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

/// Runs the near end. The clock starts after the round trip of one byte, when both ends are ready.
pub(crate) async fn near<S>(stream: &mut S, exchange: Exchange, buf: &mut [u8]) -> Duration
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let buf = exchange.part(buf);
    stream.write_u8(1).await.expect("the far end reads");
    stream.read_u8().await.expect("the far end answers");
    let began = Instant::now();
    match exchange {
        Exchange::PingPong { times, .. } => {
            for _ in 0..times {
                stream.write_all(buf).await.expect("the far end reads");
                stream.read_exact(buf).await.expect("the far end answers");
            }
        }
        Exchange::Bulk { times, .. } => {
            for _ in 0..times {
                stream.write_all(buf).await.expect("the far end reads");
            }
            stream.read_u8().await.expect("the far end answers");
        }
    }
    began.elapsed()
}

/// Runs the far end.
pub(crate) async fn far<S>(stream: &mut S, exchange: Exchange, buf: &mut [u8])
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let buf = exchange.part(buf);
    stream.read_u8().await.expect("the near end writes");
    stream.write_u8(1).await.expect("the near end reads");
    match exchange {
        Exchange::PingPong { times, .. } => {
            for _ in 0..times {
                stream.read_exact(buf).await.expect("the near end writes");
                stream.write_all(buf).await.expect("the near end reads");
            }
        }
        Exchange::Bulk { block, times } => {
            let mut left = block * times as usize;
            while left > 0 {
                left -= stream.read(buf).await.expect("the near end writes");
            }
            stream.write_u8(1).await.expect("the near end reads");
        }
    }
}

/// [`near`] over a blocking socket.
pub(crate) fn blocking_near(
    mut stream: &StdStream,
    exchange: Exchange,
    buf: &mut [u8],
) -> Duration {
    let buf = exchange.part(buf);
    stream.write_all(&[1]).expect("the far end reads");
    stream.read_exact(&mut [0]).expect("the far end answers");
    let began = Instant::now();
    match exchange {
        Exchange::PingPong { times, .. } => {
            for _ in 0..times {
                stream.write_all(buf).expect("the far end reads");
                stream.read_exact(buf).expect("the far end answers");
            }
        }
        Exchange::Bulk { times, .. } => {
            for _ in 0..times {
                stream.write_all(buf).expect("the far end reads");
            }
            stream.read_exact(&mut [0]).expect("the far end answers");
        }
    }
    began.elapsed()
}

/// [`far`] over a blocking socket.
pub(crate) fn blocking_far(mut stream: &StdStream, exchange: Exchange, buf: &mut [u8]) {
    let buf = exchange.part(buf);
    stream.read_exact(&mut [0]).expect("the near end writes");
    stream.write_all(&[1]).expect("the near end reads");
    match exchange {
        Exchange::PingPong { times, .. } => {
            for _ in 0..times {
                stream.read_exact(buf).expect("the near end writes");
                stream.write_all(buf).expect("the near end reads");
            }
        }
        Exchange::Bulk { block, times } => {
            let mut left = block * times as usize;
            while left > 0 {
                left -= stream.read(buf).expect("the near end writes");
            }
            stream.write_all(&[1]).expect("the near end reads");
        }
    }
}

//! The set-up of a data channel in clear: one record at a time, so that no byte behind it is taken.

use std::time::Duration;

use gsi::exchange::{DataChannel, ExchangeError, Fault, Party, record_length};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use xio_core::{Error, ErrorKind, Operation, Result, Stream};
use xio_tls::off_reactor;

use crate::LAYER;

/// Bytes of the header of a record.
const HEADER: usize = 5;

/// Runs the handshake and the tail on a stream, and returns the stream with not a byte more read.
pub(super) async fn clear<S: Stream>(
    mut stream: S,
    channel: DataChannel,
    limit: Duration,
    op: Operation,
) -> Result<(S, DataChannel)> {
    match tokio::time::timeout(limit, exchange(&mut stream, channel, op)).await {
        Ok(Ok(channel)) => Ok((stream, channel)),
        Ok(Err(error)) => Err(error),
        Err(_) => {
            let fact = format!(
                "the handshake was not done in {} s; the peer may be without DCAU",
                limit.as_secs_f64()
            );
            Err(Error::new(ErrorKind::TimedOut, LAYER, op, fact))
        }
    }
}

async fn exchange<S: Stream>(
    stream: &mut S,
    mut channel: DataChannel,
    op: Operation,
) -> Result<DataChannel> {
    let broken = |error| Error::from_io(error, LAYER, op);
    let mut record = Vec::new();
    loop {
        let output = channel.take_output();
        if !output.is_empty() {
            stream.write_all(&output).await.map_err(broken)?;
            stream.flush().await.map_err(broken)?;
        }
        if channel.is_open() {
            return Ok(channel);
        }
        read(stream, &mut record, op).await?;
        let mut bytes = std::mem::take(&mut record);
        let received;
        (channel, record, received) = off_reactor(move || {
            let received = channel.receive(&mut bytes);
            (channel, bytes, received)
        })
        .await;
        if let Err(error) = received {
            // The alert, as far as the peer takes it.
            let _ = stream.write_all(&channel.take_output()).await;
            let _ = stream.flush().await;
            return Err(blame(&error, op));
        }
    }
}

/// Reads exactly one record.
async fn read<S: Stream>(stream: &mut S, record: &mut Vec<u8>, op: Operation) -> Result<()> {
    let broken = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            let fact = "the peer ended in the middle of the handshake; \
                        it may refuse the certificate of this end";
            Error::new(ErrorKind::UnexpectedEof, LAYER, op, fact)
        }
        _ => Error::from_io(error, LAYER, op),
    };
    record.clear();
    record.resize(HEADER, 0);
    stream.read_exact(record).await.map_err(broken)?;
    let length = record_length(record).map_err(|bad| blame(&Fault::Tail(bad).into(), op))?;
    record.resize(length.unwrap_or(HEADER), 0);
    let body = record.get_mut(HEADER..).unwrap_or_default();
    stream.read_exact(body).await.map_err(broken)?;
    Ok(())
}

/// Turns a failed exchange into an error of this layer.
#[cold]
pub(super) fn blame(error: &ExchangeError, op: Operation) -> Error {
    let kind = match (error.party(), error.fault()) {
        (Party::Peer, Fault::Tail(_) | Fault::EarlyData | Fault::Truncated) => ErrorKind::Protocol,
        _ => ErrorKind::Security,
    };
    Error::new(kind, LAYER, op, error.to_string())
}

//! `Setup`: opens the connections of a transfer, and keeps idle ones between two transfers.

use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use ftp_wire::command::Mode;
use ftp_wire::opts::Parallelism;
use mode_e::{GatherError, Streams};
use tokio::time::timeout;
use xio_core::{DynStack, PathStats, Target, Transport as _};

use crate::conn::{Conn, Opened};
use crate::descriptors::Descriptors;
use crate::error::{Error, ErrorKind, Result, Wait};
use crate::listener::DataListener;
use crate::options::Options;
use crate::wait;

/// Longest time to open a connection beyond the starting number of a transfer: enough for a SYN that
/// is lost once. A client that waits for the transfer to begin takes five seconds for a firewall.
const EXTRA: Duration = Duration::from_secs(2);

/// The source of data connections.
#[derive(Debug, Default)]
pub(crate) enum Setup {
    #[default]
    None,
    /// The peer connects to us.
    Passive(DataListener),
    /// We connect to these addresses, one a stripe.
    Active(DynStack, Vec<SocketAddr>),
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Send,
    Receive,
}

/// Connections without a transfer.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    pub(crate) conns: Vec<Conn>,
    /// Connections to each address.
    each: usize,
    /// Direction of the transfer they served; `None` when opened ahead of the first.
    pub(crate) served: Option<Direction>,
}

impl Idle {
    /// Closes the connections cleanly: bytes sent on them may still be in flight.
    pub(crate) fn retire(self) {
        for conn in self.conns {
            conn.retire();
        }
    }

    /// The measurements of the paths since the last call, together.
    pub(crate) fn path(&mut self) -> Option<PathStats> {
        let paths = self.conns.iter_mut().filter_map(Conn::path);
        paths.reduce(PathStats::and)
    }

    /// Waits until the peer resets a connection of a send; for ever where it closes them all.
    pub(crate) async fn reset_by_peer(&mut self) {
        let mut closed = vec![self.served != Some(Direction::Send); self.conns.len()];
        std::future::poll_fn(|cx| {
            for (conn, closed) in self.conns.iter_mut().zip(&mut closed) {
                if *closed {
                    continue;
                }
                match conn.poll_reset(cx) {
                    Poll::Ready(true) => return Poll::Ready(()),
                    Poll::Ready(false) => *closed = true,
                    Poll::Pending => {}
                }
            }
            Poll::Pending
        })
        .await;
    }
}

/// The parts of the channel in use by a running transfer.
#[derive(Debug)]
pub(crate) struct Used {
    pub(crate) setup: Setup,
    pub(crate) idle: Idle,
}

impl Setup {
    /// Opens connections: `parallelism` to each address if we connect, the first if we listen.
    /// The most are opened to a single address alone, and as far as it takes them.
    pub(crate) async fn open(
        &mut self,
        mode: Mode,
        parallelism: Parallelism,
        options: &Options,
        descriptors: &Descriptors,
    ) -> Result<Idle> {
        let (streams, each) = match self {
            Self::None => {
                let fact = "no data connection is set up, send PASV or PORT first";
                return Err(Error::new(ErrorKind::NoChannel, "open", fact));
            }
            Self::Passive(listener) => {
                let next = timeout(options.open_within, listener.next()).await;
                let stream =
                    next.map_err(|_| Error::timeout(Wait::Accept, options.open_within))??;
                (vec![stream], 1)
            }
            Self::Active(stack, to) => {
                let each = each_address(mode, parallelism.start, to.len(), options)?;
                let most = match to.len() {
                    1 => each_address(mode, parallelism.most, 1, options)?.max(each),
                    _ => each,
                };
                let to = to.iter().flat_map(|at| std::iter::repeat_n(*at, most));
                let stack = &*stack;
                let opening = to.enumerate().map(|(index, at)| async move {
                    let opening = connect(stack, at, options, descriptors);
                    match most == each || index < each {
                        true => opening.await.map(Some),
                        // The transfer does without it.
                        false => Ok(timeout(EXTRA, opening).await.ok().and_then(Result::ok)),
                    }
                });
                let streams: Vec<_> = wait::all(opening).await?.into_iter().flatten().collect();
                let each = if most == each { each } else { streams.len() };
                (streams, each)
            }
        };
        let limits = options.limits();
        let conns = streams
            .into_iter()
            .map(|stream| Conn::new(stream, limits))
            .collect();
        Ok(Idle {
            conns,
            each,
            served: None,
        })
    }
}

impl Setup {
    /// Drops the errors of connections that failed between two transfers.
    pub(crate) fn forget_failures(&mut self) {
        if let Self::Passive(listener) = self {
            listener.forget_failures();
        }
    }
}

/// Number of connections to each of `addresses`: `parallelism`, within the limit on all.
fn each_address(
    mode: Mode,
    parallelism: u32,
    addresses: usize,
    options: &Options,
) -> Result<usize> {
    let limit = options.connections;
    let most = usize::try_from(limit)
        .unwrap_or(usize::MAX)
        .checked_div(addresses)
        .unwrap_or(0);
    if most == 0 {
        return Err(GatherError::TooManyConnections { limit }.into());
    }
    let asked = if mode == Mode::Extended {
        parallelism.max(1)
    } else {
        1
    };
    Ok(usize::try_from(asked).unwrap_or(usize::MAX).min(most))
}

async fn connect(
    stack: &DynStack,
    to: SocketAddr,
    options: &Options,
    descriptors: &Descriptors,
) -> Result<Opened> {
    let permit = descriptors.take(1)?;
    let target = Target::from(to).with(options.socket);
    match timeout(options.open_within, stack.connect(&target)).await {
        Ok(Ok(stream)) => Ok((stream, permit)),
        Ok(Err(e)) => Err(Error::open(
            "connect",
            "cannot connect to the peer's data port",
            e,
        )),
        Err(_) => Err(Error::timeout(Wait::Connect, options.open_within)),
    }
}

impl Used {
    /// The number of addresses and connections.
    pub(crate) fn streams(&self) -> Streams {
        let each = self.idle.each.max(1);
        Streams::new(self.idle.conns.len() / each, each).unwrap_or(Streams::ONE)
    }

    /// The one connection of a MODE S transfer.
    pub(crate) fn only(&mut self) -> Result<Conn> {
        let conn = self.idle.conns.pop();
        for extra in self.idle.conns.drain(..) {
            extra.retire();
        }
        conn.ok_or_else(|| Error::new(ErrorKind::NoChannel, "open", "no data connection is open"))
    }
}

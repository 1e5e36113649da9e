//! `Wrap`: the layers around a socket, and `End`: one end of the shared connection.

use std::net::TcpStream as StdStream;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use xio_core::{BoxStream, DynLayer, Stream, Transform};
use xio_count::Count;
use xio_tcp::TcpHandle;

use crate::exchange::{self, Exchange};

/// Largest message, in bytes.
pub(crate) const LARGEST: usize = 10_000_000;

/// The layers around the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrap {
    /// The bare tokio socket.
    Bare,
    /// The same again: the difference is the noise of the measurement.
    Again,
    /// A blocking socket.
    Blocking,
    /// The driver.
    Typed,
    /// The boxed driver, as in a stack from a string.
    Boxed,
    /// The driver and three pass-through layers.
    Typed3,
    /// The same with every layer boxed.
    Boxed3,
}

impl Wrap {
    pub(crate) const ALL: [Self; 7] = [
        Self::Bare,
        Self::Again,
        Self::Blocking,
        Self::Typed,
        Self::Boxed,
        Self::Typed3,
        Self::Boxed3,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Again => "bare again",
            Self::Blocking => "blocking",
            Self::Typed => "typed",
            Self::Boxed => "boxed",
            Self::Typed3 => "typed + 3",
            Self::Boxed3 => "boxed + 3",
        }
    }
}

/// The role of an end in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Near,
    Far,
}

/// One end: the socket, runtime and memory that all variants share.
pub(crate) struct End {
    role: Role,
    socket: StdStream,
    runtime: Runtime,
    buf: Vec<u8>,
}

impl End {
    pub(crate) fn new(role: Role, socket: StdStream) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        Self {
            role,
            socket,
            runtime: runtime.expect("a runtime"),
            // Not zero, so that every page is allocated.
            buf: vec![1; LARGEST],
        }
    }

    /// Runs an exchange together with the other end, and returns its duration at the near end.
    pub(crate) fn run(&mut self, wrap: Wrap, exchange: Exchange) -> Duration {
        let Self {
            role,
            socket,
            runtime,
            buf,
        } = self;
        let blocks = wrap == Wrap::Blocking;
        socket.set_nonblocking(!blocks).expect("a socket has both");
        if blocks {
            return match role {
                Role::Near => exchange::blocking_near(socket, exchange, buf),
                Role::Far => {
                    exchange::blocking_far(socket, exchange, buf);
                    Duration::ZERO
                }
            };
        }
        // A duplicate descriptor, so that dropping the variant keeps the connection open.
        let again = socket.try_clone().expect("a descriptor");
        runtime.block_on(async {
            let bare = TcpStream::from_std(again).expect("a socket that does not block");
            match wrap {
                Wrap::Bare | Wrap::Again | Wrap::Blocking => run(*role, bare, exchange, buf).await,
                Wrap::Typed => run(*role, TcpHandle::from(bare), exchange, buf).await,
                Wrap::Boxed => {
                    let boxed: BoxStream = Box::new(TcpHandle::from(bare));
                    run(*role, boxed, exchange, buf).await
                }
                Wrap::Typed3 => {
                    let one = on(&Count::new(), TcpHandle::from(bare)).await;
                    let two = on(&Count::new(), one).await;
                    run(*role, on(&Count::new(), two).await, exchange, buf).await
                }
                Wrap::Boxed3 => {
                    let layer = DynLayer::new(Count::new());
                    let mut boxed: BoxStream = Box::new(TcpHandle::from(bare));
                    for _ in 0..3 {
                        boxed = on(&layer, boxed).await;
                    }
                    run(*role, boxed, exchange, buf).await
                }
            }
        })
    }
}

/// Puts a layer on a stream.
async fn on<S: Stream, L: Transform<S>>(layer: &L, stream: S) -> L::Handle {
    layer.respond(stream).await.expect("a pass-through layer")
}

async fn run<S>(role: Role, mut stream: S, exchange: Exchange, buf: &mut [u8]) -> Duration
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match role {
        Role::Near => exchange::near(&mut stream, exchange, buf).await,
        Role::Far => {
            exchange::far(&mut stream, exchange, buf).await;
            Duration::ZERO
        }
    }
}

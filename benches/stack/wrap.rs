//! `Wrap`: what is put around a socket, and `End`: one end of the connection that all of them share.

use std::net::TcpStream as StdStream;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use xio_core::{BoxStream, DynLayer, Stream, Transform};
use xio_count::Count;
use xio_tcp::TcpHandle;

use crate::talk::{self, Order};

/// Largest message, in bytes.
pub(crate) const LARGEST: usize = 10_000_000;

/// What is put around the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrap {
    /// Tokio's socket with nothing around it.
    Bare,
    /// The same once more: how far the two are apart is what noise does to every other column.
    Again,
    /// A blocking socket.
    Blocking,
    /// The driver.
    Typed,
    /// The driver in a box, as a stack string gives it.
    Boxed,
    /// The driver and three layers that pass everything on.
    Typed3,
    /// The same with every layer in a box of its own.
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

/// Which part of an order an end plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Near,
    Far,
}

/// One end: the socket, runtime and memory that every wrap uses in turn.
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
            // Written to, so that no page of it is missing later.
            buf: vec![1; LARGEST],
        }
    }

    /// Carries an order out together with the other end; at the near end, gives the time it took.
    pub(crate) fn play(&mut self, wrap: Wrap, order: Order) -> Duration {
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
                Role::Near => talk::blocking_near(socket, order, buf),
                Role::Far => {
                    talk::blocking_far(socket, order, buf);
                    Duration::ZERO
                }
            };
        }
        // Another descriptor of the same connection: what goes away with the wrap is only that.
        let again = socket.try_clone().expect("a descriptor");
        runtime.block_on(async {
            let bare = TcpStream::from_std(again).expect("a socket that does not block");
            match wrap {
                Wrap::Bare | Wrap::Again | Wrap::Blocking => talk(*role, bare, order, buf).await,
                Wrap::Typed => talk(*role, TcpHandle::from(bare), order, buf).await,
                Wrap::Boxed => {
                    let boxed: BoxStream = Box::new(TcpHandle::from(bare));
                    talk(*role, boxed, order, buf).await
                }
                Wrap::Typed3 => {
                    let one = on(&Count::new(), TcpHandle::from(bare)).await;
                    let two = on(&Count::new(), one).await;
                    talk(*role, on(&Count::new(), two).await, order, buf).await
                }
                Wrap::Boxed3 => {
                    let layer = DynLayer::new(Count::new());
                    let mut boxed: BoxStream = Box::new(TcpHandle::from(bare));
                    for _ in 0..3 {
                        boxed = on(&layer, boxed).await;
                    }
                    talk(*role, boxed, order, buf).await
                }
            }
        })
    }
}

/// Puts a layer on a stream.
async fn on<S: Stream, L: Transform<S>>(layer: &L, stream: S) -> L::Handle {
    layer
        .respond(stream)
        .await
        .expect("a layer that only counts")
}

async fn talk<S>(role: Role, mut stream: S, order: Order, buf: &mut [u8]) -> Duration
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match role {
        Role::Near => talk::near(&mut stream, order, buf).await,
        Role::Far => {
            talk::far(&mut stream, order, buf).await;
            Duration::ZERO
        }
    }
}

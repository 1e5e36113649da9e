//! Requirements on every driver: end of file, shutdown, abort, vectored writes, cancellation,
//! chain.
//!
//! Each case checks one row of the table in [`xio_core::stream`]. A failed case panics with the
//! stack and its own name, and a hanging one is ended by a deadline.

mod cases;
mod ends;
mod given_up;
mod setup;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use xio_core::{BoxStream, DynStack, Incoming, Listener, Passive, Target, Transport};

pub use self::given_up::accepted_bytes_are_sent_by_a_reader;

/// A stack under test, and its capabilities.
#[derive(Debug, Clone)]
pub struct Subject {
    stack: DynStack,
    at: Target,
    chain: Vec<String>,
    send_file: bool,
    vectored: bool,
    aborts: bool,
    concurrent: bool,
    half_close: bool,
}

impl Subject {
    /// Creates the subject for a stack that listens at `at`, with the layers `chain`, lowest first.
    #[must_use]
    pub fn new(stack: DynStack, at: Target, chain: &[&str]) -> Self {
        Self {
            stack,
            at,
            chain: chain.iter().map(ToString::to_string).collect(),
            send_file: false,
            vectored: false,
            aborts: true,
            concurrent: true,
            half_close: true,
        }
    }

    /// Requires that the stack sends files, as its lowest layer does.
    #[must_use]
    pub fn sends_files(mut self) -> Self {
        self.send_file = true;
        self
    }

    /// Requires vectored writes, as of its lowest layer.
    #[must_use]
    pub fn writes_vectored(mut self) -> Self {
        self.vectored = true;
        self
    }

    /// Allows that the peer of a dropped handle reads a clean end: the lowest layer has no reset,
    /// and no layer has an end mark.
    #[must_use]
    pub fn ends_when_dropped(mut self) -> Self {
        self.aborts = false;
        self
    }

    /// Allows that a listener serves one peer at a time, since the wire does not distinguish them.
    #[must_use]
    pub fn one_peer_at_a_time(mut self) -> Self {
        self.concurrent = false;
        self
    }

    /// Allows a protocol without half-close, where an end closes both directions.
    #[must_use]
    pub fn ends_both_ways(mut self) -> Self {
        self.half_close = false;
        self
    }

    /// Opens a connection, and returns the connecting and the accepting end.
    async fn pair(&self) -> (BoxStream, BoxStream) {
        let mut listener = self.stack.listen(&self.at).await.expect("listening");
        let to = contact(&listener);
        // The handshakes of both ends depend on each other, so they run concurrently.
        let (near, far) = tokio::join!(self.stack.connect(&to), async {
            listener.accept().await.expect("accepting").open().await
        });
        (near.expect("connecting"), far.expect("opening"))
    }
}

type Case = for<'a> fn(&'a Subject) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

const CASES: &[(&str, Case)] = &[
    ("the chain lists the lowest layer first", |s| {
        Box::pin(setup::chain(s))
    }),
    ("listening at port 0 assigns a port", |s| {
        Box::pin(setup::port_zero(s))
    }),
    ("a refused connection is an error of a layer", |s| {
        Box::pin(setup::refused(s))
    }),
    ("dropping accept loses no peer", |s| {
        Box::pin(setup::accept_cancelled(s))
    }),
    ("dropping connect leaves no half-open connection", |s| {
        Box::pin(setup::connect_cancelled(s))
    }),
    ("dropping an incoming peer closes its connection", |s| {
        Box::pin(setup::turned_away(s))
    }),
    ("a slow handshake does not block other peers", |s| {
        Box::pin(setup::no_handshake_in_accept(s))
    }),
    ("bytes arrive unchanged in both directions at once", |s| {
        Box::pin(cases::intact(s))
    }),
    ("vectored writes are forwarded", |s| {
        Box::pin(cases::vectored(s))
    }),
    ("send-file is forwarded", |s| Box::pin(cases::send_file(s))),
    ("splice is forwarded", |s| Box::pin(cases::splice(s))),
    ("dropping a read loses nothing", |s| {
        Box::pin(cases::read_cancelled(s))
    }),
    ("dropping a write loses nothing", |s| {
        Box::pin(cases::write_cancelled(s))
    }),
    ("an empty read is not the end", |s| {
        Box::pin(cases::empty_buffers(s))
    }),
    ("shutdown is a clean end, and stays one", |s| {
        Box::pin(ends::clean_end(s))
    }),
    ("reading continues after shutdown, or fails", |s| {
        Box::pin(ends::half_close(s))
    }),
    ("a second shutdown has no effect", |s| {
        Box::pin(ends::twice(s))
    }),
    ("dropping is an abort", |s| Box::pin(ends::abort(s))),
    ("dropping without a write is an abort", |s| {
        Box::pin(ends::abort_empty(s))
    }),
    ("writing to a closed peer fails", |s| {
        Box::pin(ends::peer_left(s))
    }),
];

/// Runs every case on a stack.
///
/// # Panics
/// When a case fails, or does not end within half a minute.
pub async fn run(subject: &Subject) {
    for (name, case) in CASES {
        let _name = CaseName(&subject.stack, name);
        let ended = tokio::time::timeout(Duration::from_secs(30), case(subject)).await;
        assert!(ended.is_ok(), "the case did not end in time");
    }
}

/// Prints the stack and the case of a failure.
struct CaseName<'a>(&'a DynStack, &'a str);

impl Drop for CaseName<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a failed test prints its case")]
            {
                eprintln!("{}: {}", self.0, self.1);
            }
        }
    }
}

/// Returns the number of cases.
#[must_use]
pub fn case_count() -> usize {
    CASES.len()
}

/// Returns the address of a listener.
fn contact(listener: &impl Listener) -> Target {
    let contact = listener.info().contact();
    contact.expect("a listener knows its address")
}

/// Polls once, and returns the output if it is ready.
async fn once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    })
    .await
}

/// Reads to the end or to an error.
async fn drain(stream: &mut BoxStream) -> (Vec<u8>, io::Result<()>) {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).await;
    (bytes, ended.map(|_| ()))
}

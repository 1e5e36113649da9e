//! What every driver must do: end of file, shutdown, abort, vectored writes, cancellation, chain order.
//!
//! Each case holds a stack to one row of the table in [`xio_core::stream`]. A case that fails panics
//! with the stack and its own name; one that hangs is ended by a deadline.

mod cases;
mod ends;
mod setup;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use xio_core::{BoxStream, DynStack, Incoming, Listener, Passive, Target, Transport};

/// A stack to be held to the rules, and what is known of it.
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
    /// A stack that can listen at `at`, whose layers are called `chain`, the lowest first.
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

    /// Demands that the stack sends files, as its bottom does.
    #[must_use]
    pub fn sends_files(mut self) -> Self {
        self.send_file = true;
        self
    }

    /// Demands that the stack takes several slices in one write, as its bottom does.
    #[must_use]
    pub fn writes_vectored(mut self) -> Self {
        self.vectored = true;
        self
    }

    /// Takes it that a handle which is dropped cannot be told from one that was shut down: the
    /// bottom has no reset, and no layer has an end mark.
    #[must_use]
    pub fn ends_when_dropped(mut self) -> Self {
        self.aborts = false;
        self
    }

    /// Takes it that a listener serves one peer at a time, since the wire cannot tell them apart.
    #[must_use]
    pub fn one_peer_at_a_time(mut self) -> Self {
        self.concurrent = false;
        self
    }

    /// Says that the protocol knows no half-close: whoever ends a stream ends both directions.
    #[must_use]
    pub fn ends_both_ways(mut self) -> Self {
        self.half_close = false;
        self
    }

    /// Opens a connection: the end that connected and the end that accepted.
    async fn pair(&self) -> (BoxStream, BoxStream) {
        let mut listener = self.stack.listen(&self.at).await.expect("listening");
        let to = contact(&listener);
        // Handshakes of both ends need each other, so neither may wait for the other to be done.
        let (near, far) = tokio::join!(self.stack.connect(&to), async {
            listener.accept().await.expect("accepting").open().await
        });
        (near.expect("connecting"), far.expect("opening"))
    }
}

type Case = for<'a> fn(&'a Subject) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

const CASES: &[(&str, Case)] = &[
    ("the chain is named bottom first", |s| {
        Box::pin(setup::chain(s))
    }),
    ("listening at port 0 gives a port", |s| {
        Box::pin(setup::port_zero(s))
    }),
    ("connecting to nobody is an error of a layer", |s| {
        Box::pin(setup::nobody(s))
    }),
    ("dropping accept loses nobody", |s| {
        Box::pin(setup::accept_cancelled(s))
    }),
    ("dropping connect leaves nothing half-made", |s| {
        Box::pin(setup::connect_cancelled(s))
    }),
    ("dropping an incoming peer turns it away", |s| {
        Box::pin(setup::turned_away(s))
    }),
    ("a slow peer does not stop others", |s| {
        Box::pin(setup::no_handshake_in_accept(s))
    }),
    ("bytes arrive whole, both ways at once", |s| {
        Box::pin(cases::intact(s))
    }),
    ("vectored writes are forwarded", |s| {
        Box::pin(cases::vectored(s))
    }),
    ("a file is sent as the bottom sends it", |s| {
        Box::pin(cases::send_file(s))
    }),
    ("what came moves into a pipe as the bottom moves it", |s| {
        Box::pin(cases::splice(s))
    }),
    ("dropping a read loses nothing", |s| {
        Box::pin(cases::read_cancelled(s))
    }),
    ("dropping a write loses nothing", |s| {
        Box::pin(cases::write_cancelled(s))
    }),
    ("an empty read is no end", |s| {
        Box::pin(cases::empty_buffers(s))
    }),
    ("shutdown is a clean end, and stays one", |s| {
        Box::pin(ends::clean_end(s))
    }),
    ("reading goes on after shutdown, or fails", |s| {
        Box::pin(ends::half_close(s))
    }),
    ("shutdown twice is shutdown once", |s| {
        Box::pin(ends::twice(s))
    }),
    ("dropping is an abort", |s| Box::pin(ends::abort(s))),
    ("dropping at once is an abort", |s| {
        Box::pin(ends::abort_empty(s))
    }),
    ("writing to a peer that left fails", |s| {
        Box::pin(ends::peer_left(s))
    }),
];

/// Runs every case on a stack.
///
/// # Panics
/// When the stack breaks a rule, or a case does not end within half a minute.
pub async fn run(subject: &Subject) {
    for (name, case) in CASES {
        let _named = Named(&subject.stack, name);
        let ended = tokio::time::timeout(Duration::from_secs(30), case(subject)).await;
        assert!(ended.is_ok(), "no end");
    }
}

/// Says which case of which stack it was when one fails.
struct Named<'a>(&'a DynStack, &'a str);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a failing test speaks to a person")]
            {
                eprintln!("{}: {}", self.0, self.1);
            }
        }
    }
}

/// How many cases there are.
#[must_use]
pub fn case_count() -> usize {
    CASES.len()
}

/// Where a listener says that it listens.
fn contact(listener: &impl Listener) -> Target {
    let contact = listener.info().contact();
    contact.expect("a listener knows its place")
}

/// Polls once, and gives what came of it.
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

/// Reads to the end, or to the error that takes its place.
async fn drain(stream: &mut BoxStream) -> (Vec<u8>, io::Result<()>) {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes).await;
    (bytes, ended.map(|_| ()))
}

//! What the API promises to the compiler: who is `Send` and `Sync`, what is object-safe, what nests.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test that fails says where by itself"
)]

use std::fmt::Debug;
use std::future::Future;

use xio_compress::frame::BadFrame;
use xio_compress::{Algorithm, Compress, CompressHandle, CompressOptions, Compression};
use xio_core::{
    Block, BoxDatagram, BoxIncoming, BoxListener, BoxStream, DynBind, DynLayer, DynStack, Error,
    Info, Passive, Plan, Pool, Registry, Stack, Stream, Tap, Target, Transport,
};
use xio_count::{Count, Counting, Counts};
use xio_http::{
    BadBody, BadHead, Exchange, Headers, Http, HttpHandle, HttpOptions, Request, Response,
};
use xio_log::Log;
use xio_tcp::{Tcp, TcpHandle, TcpIncoming, TcpPassive};
use xio_timeout::Timeout;
use xio_tls::{Identity, Roots, Tls, TlsHandle, TlsInfo, TlsOptions};

fn is_send<T: Send + 'static>() {}
fn is_shared<T: Send + Sync + 'static>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_stream<T: Stream + ?Sized>() {}
fn is_passive<T: Passive<Handle: Stream>>() {}
fn is_plain<T: Clone + Debug + Send + Sync + 'static>() {}

#[test]
fn values_travel_between_threads() {
    is_plain::<DynStack>();
    is_plain::<DynLayer>();
    is_plain::<DynBind>();
    is_plain::<Registry>();
    is_plain::<Plan>();
    is_plain::<Target>();
    is_plain::<Info>();
    is_plain::<Pool>();
    is_plain::<Counts>();
    is_plain::<Tcp>();
    is_plain::<Compress>();
    is_plain::<CompressOptions>();
    is_plain::<Compression>();
    is_plain::<Algorithm>();
    is_error::<BadFrame>();
    is_plain::<TlsOptions>();
    is_plain::<TlsInfo>();
    is_plain::<Identity>();
    is_plain::<Roots>();
    is_shared::<Tls>();
    is_plain::<Http>();
    is_plain::<HttpOptions>();
    is_plain::<Exchange>();
    is_plain::<Request>();
    is_plain::<Response>();
    is_plain::<Headers>();
    is_error::<BadHead>();
    is_error::<BadBody>();
    is_shared::<Block>();
    is_error::<Error>();
    is_send::<BoxStream>();
    is_send::<BoxListener>();
    is_send::<BoxIncoming>();
    is_shared::<BoxDatagram>();
    is_shared::<TcpHandle>();
    is_send::<TcpPassive>();
    is_send::<TcpIncoming>();
}

#[test]
fn a_boxed_stream_is_a_stream_and_a_stack_a_transport() {
    is_stream::<dyn Stream>();
    is_stream::<BoxStream>();
    is_stream::<Box<BoxStream>>();
    is_stream::<Tap<BoxStream, Counting>>();
    is_passive::<Tcp>();
    is_passive::<DynStack>();
    is_passive::<Stack<Stack<Tcp, Count>, Log>>();
    is_stream::<CompressHandle<BoxStream>>();
    is_passive::<Stack<Stack<Tcp, Compress>, Count>>();
    is_stream::<TlsHandle<BoxStream>>();
    is_stream::<HttpHandle<TlsHandle<TcpHandle>>>();
    is_passive::<Stack<Stack<Stack<Tcp, Tls>, Compress>, Http>>();
    is_passive::<Stack<DynStack, Http>>();
    is_passive::<Timeout<Stack<DynStack, Count>>>();
    is_passive::<Stack<Timeout<Tcp>, Count>>();
}

#[test]
fn futures_travel_too() {
    fn travels<F: Future + Send>(_: F) {}
    let stack = Timeout::over(Tcp::default().push(Count::new()), "all=1".parse().unwrap());
    let target = Target::host("127.0.0.1", 1);
    travels(stack.connect(&target));
    travels(stack.listen(&target));
    let named = xio::registry().stack("tcp,count").unwrap();
    travels(named.connect(&target));
    travels(async {
        let stack = Tcp::default().push(Http::default());
        let mut stream = stack.connect(&target).await.unwrap();
        stream.ask(Request::default()).await.unwrap();
        stream.accept().await.unwrap();
    });
    let pool = Pool::new(1, 1);
    travels(pool.get());
    travels(async {
        let mut stream = named.connect(&target).await.unwrap();
        let mut other = named.connect(&target).await.unwrap();
        xio_core::copy(&mut stream, &mut other, &pool)
            .await
            .unwrap();
    });
}

#[test]
fn a_typed_layer_costs_no_memory() {
    assert_eq!(size_of::<Count>(), 0);
    assert!(
        size_of::<Error>() <= size_of::<usize>(),
        "an error travels in a register"
    );
    assert!(size_of::<BoxStream>() == 2 * size_of::<usize>());
}

//! Compile-time properties of the API: `Send` and `Sync`, object safety, nesting of stacks.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a failed test names its line"
)]

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use xio::gsi::{
    Gsi, GsiInfo, GsiOptions, GssapiAcceptor, GssapiInitiator, GssapiStream, TrustDirectory,
};
use xio::{mode_e, multicast, ordering, pipe, popen, queue, rate, telnet, udp, udt, unix, verify};
use xio_compress::frame::BadFrame;
use xio_compress::{Algorithm, Compress, CompressHandle, CompressOptions, Compression};
use xio_core::{
    Block, BoxDatagram, BoxIncoming, BoxListener, BoxStream, DynBind, DynLayer, DynStack, Error,
    ErrorKind, Info, Options, Passive, Plan, Pool, Registry, Stack, Stream, Tap, Target, Transport,
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
fn is_transport<T: Transport<Handle: Stream>>() {}
fn is_options<O: Options + Send + Sync + 'static>() {
    let unknown = "no_such_option=1".parse::<O>().err().unwrap();
    assert_eq!(unknown.kind(), ErrorKind::BadOption);
    xio_testkit::option_suite::run::<O>();
}
fn is_plain<T: Clone + Debug + Send + Sync + 'static>() {}

#[test]
fn types_are_send_and_sync() {
    is_plain::<DynStack>();
    is_plain::<DynLayer>();
    is_plain::<DynBind>();
    is_plain::<Registry>();
    is_plain::<Plan>();
    is_plain::<Target>();
    is_plain::<Info>();
    is_plain::<Pool>();
    is_plain::<Counts>();
    is_plain::<rate::Bound>();
    is_plain::<Tcp>();
    is_plain::<Compress>();
    is_plain::<CompressOptions>();
    is_plain::<Compression>();
    is_plain::<Algorithm>();
    is_error::<BadFrame>();
    is_plain::<TlsOptions>();
    is_plain::<TlsInfo>();
    is_plain::<Gsi>();
    is_plain::<GsiInfo>();
    is_plain::<GsiOptions>();
    is_plain::<GssapiAcceptor>();
    is_plain::<GssapiInitiator>();
    is_shared::<TrustDirectory>();
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
fn boxed_streams_are_streams_and_stacks_are_transports() {
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
    is_stream::<GssapiStream<BoxStream>>();
    is_passive::<Stack<Tcp, Gsi>>();
    is_stream::<HttpHandle<TlsHandle<TcpHandle>>>();
    is_passive::<Stack<Stack<Stack<Tcp, Tls>, Compress>, Http>>();
    is_passive::<Stack<DynStack, Http>>();
    is_passive::<Timeout<Stack<DynStack, Count>>>();
    is_passive::<Stack<Timeout<Tcp>, Count>>();
}

#[test]
fn futures_are_send() {
    fn send<F: Future + Send>(_: F) {}
    let stack = Timeout::over(Tcp::new().push(Count::new())).all(Duration::from_secs(1));
    let target = Target::host("127.0.0.1", 1);
    send(stack.connect(&target));
    send(stack.listen(&target));
    let named = xio::registry().stack("tcp,count").unwrap();
    send(named.connect(&target));
    send(async {
        let stack = Tcp::default().push(Http::default());
        let mut stream = stack.connect(&target).await.unwrap();
        stream.ask(Request::default()).await.unwrap();
        stream.accept().await.unwrap();
    });
    let pool = Pool::new(1, 1);
    send(pool.get());
    send(async {
        let mut stream = named.connect(&target).await.unwrap();
        let mut other = named.connect(&target).await.unwrap();
        xio_core::copy(&mut stream, &mut other, &pool)
            .await
            .unwrap();
    });
}

#[test]
fn typed_layers_and_handles_are_small() {
    assert_eq!(size_of::<Count>(), 0);
    assert!(
        size_of::<Error>() <= size_of::<usize>(),
        "an error fits into a register"
    );
    assert!(size_of::<BoxStream>() == 2 * size_of::<usize>());
}

#[test]
fn every_driver_stacks_in_types() {
    is_passive::<unix::Unix>();
    is_passive::<udt::Udt<udp::Udp>>();
    is_passive::<mode_e::ModeE<Tcp>>();
    is_passive::<multicast::Multicast<mode_e::ModeE<Tcp>>>();
    is_passive::<Stack<mode_e::ModeE<DynStack>, ordering::Ordering>>();
    is_passive::<Stack<Tcp, rate::Rate>>();
    is_passive::<Stack<Tcp, queue::Queue>>();
    is_passive::<Stack<Tcp, telnet::Telnet>>();
    is_passive::<Stack<Tcp, verify::Verify>>();
    is_passive::<Stack<Stack<udt::Udt<udp::Udp>, Tls>, Http>>();
    is_transport::<Stack<xio::file::File, verify::Verify>>();
    is_transport::<pipe::Pipe>();
    is_transport::<popen::Popen>();
    is_transport::<Stack<xio_gridftp::Gridftp, verify::Verify>>();
}

#[test]
fn handles_are_send_streams() {
    is_stream::<Tap<BoxStream, rate::Pace>>();
    is_stream::<mode_e::ModeEHandle<BoxStream>>();
    is_stream::<multicast::MulticastHandle<BoxStream>>();
    is_stream::<ordering::Ordered<BoxStream>>();
    is_stream::<queue::Queued<BoxStream>>();
    is_stream::<telnet::TelnetHandle<BoxStream>>();
    is_stream::<verify::Verified<BoxStream>>();
    is_stream::<udt::UdtHandle>();
    is_stream::<unix::UnixHandle>();
    is_stream::<pipe::PipeHandle>();
    is_stream::<popen::PopenHandle>();
    is_stream::<xio_gridftp::GridftpHandle>();
    is_send::<unix::UnixPassive>();
    is_send::<unix::UnixIncoming>();
    is_send::<mode_e::ModeEPassive<BoxListener>>();
    is_send::<mode_e::ModeEIncoming<BoxListener>>();
    is_send::<multicast::MulticastIncoming<DynStack>>();
    is_send::<telnet::Encoder>();
    is_send::<telnet::Decoder>();
    is_send::<verify::Sealer>();
    is_send::<verify::Opener>();
    is_error::<telnet::TooLong>();
    is_error::<verify::BadBlock>();
}

/// The error of a build without the codec names the feature `lzo`.
#[test]
fn every_program_can_be_built_with_lzo() {
    for manifest in [
        include_str!("../../crates/xio-perf/Cargo.toml"),
        include_str!("../../gridftp-client/Cargo.toml"),
        include_str!("../../gridftp-server/Cargo.toml"),
    ] {
        assert!(
            manifest.lines().any(|line| line.starts_with("lzo = ")),
            "{manifest}"
        );
    }
}

/// A program that copies with the library builds nothing for command lines and terminals.
#[test]
fn the_client_library_needs_no_crate_of_its_programs() {
    const CLIENT: &str = include_str!("../../gridftp-client/Cargo.toml");
    const CRATES: [&str; 4] = ["anyhow", "clap", "indicatif", "rpassword"];
    for name in CRATES {
        let optional = format!("\n{name} = {{ workspace = true, optional = true }}\n");
        assert!(CLIENT.contains(&optional), "{name}");
        // The feature of the programs alone has it.
        let feature = format!("\n  \"dep:{name}\",\n");
        assert_eq!(CLIENT.matches(&feature).count(), 1, "{name}");
    }
    // Nor do the crates of the workspace that it is built from.
    for manifest in [
        include_str!("../../crates/data/Cargo.toml"),
        include_str!("../../crates/dsi-posix/Cargo.toml"),
        include_str!("../../crates/dsi/Cargo.toml"),
        include_str!("../../crates/ftp-proto/Cargo.toml"),
        include_str!("../../crates/ftp-wire/Cargo.toml"),
        include_str!("../../crates/gsi/Cargo.toml"),
        include_str!("../../crates/ranges/Cargo.toml"),
        include_str!("../../crates/xio/Cargo.toml"),
        include_str!("../../drivers/gsi/Cargo.toml"),
        include_str!("../../xio-core/Cargo.toml"),
    ] {
        let (_, rest) = manifest.split_once("\n[dependencies]\n").unwrap();
        let needed = rest.split("\n[").next().unwrap();
        for name in CRATES {
            assert!(
                !needed.lines().any(|line| line.starts_with(name)),
                "{needed}"
            );
        }
    }
}

#[test]
fn options_have_a_string_form() {
    is_options::<HttpOptions>();
    is_options::<mode_e::ModeEOptions>();
    is_options::<multicast::MulticastOptions>();
    is_options::<ordering::OrderingOptions>();
    is_options::<pipe::PipeOptions>();
    is_options::<popen::PopenOptions>();
    is_options::<queue::QueueOptions>();
    is_options::<rate::RateOptions>();
    is_options::<udp::UdpOptions>();
    is_options::<udt::UdtOptions>();
    is_options::<unix::UnixOptions>();
    is_options::<verify::VerifyOptions>();
    is_options::<xio::file::FileOptions>();
    is_options::<CompressOptions>();
    is_options::<GsiOptions>();
    is_options::<TlsOptions>();
    is_options::<xio_testkit::FaultOptions>();
    is_options::<xio_gridftp::GridftpOptions>();
    is_options::<xio_log::LogOptions>();
    is_options::<xio_tcp::TcpOptions>();
    is_options::<xio_timeout::TimeoutOptions>();
}

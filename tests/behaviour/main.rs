//! Stack strings of every driver through the driver suite, and strings against the registry.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a failed test names its line"
)]

mod catalogue;
mod counting;
mod datagrams;
mod deadlines;
mod example;
mod exchanges;
mod faults;
mod plans;
mod refused;
mod registry;
mod remote;
mod secured;
mod sockets;

use xio_core::{Registry, Target};
use xio_testkit::driver_suite::{self, Subject};

/// Returns a registry of every driver, including the test doubles.
fn everything() -> Registry {
    let mut registry = xio::registry();
    registry
        .register(xio_testkit::mem_driver())
        .register(xio_testkit::fault_driver())
        .register(xio_gridftp::driver());
    registry
}

fn loopback() -> Target {
    "127.0.0.1:0".parse().expect("an address")
}

/// Capabilities of a stack that its layers must forward.
#[derive(Clone, Copy, PartialEq)]
enum Bottom {
    /// Sends files, and writes vectored.
    Tcp,
    /// Writes vectored.
    Mem,
    /// Writes vectored, and ends both directions at once.
    Udt,
    /// Has a layer without vectored writes.
    Plain,
    /// Has such a layer, and ends both directions at once.
    UdtPlain,
    /// Writes vectored, listens at a path, and shows a dropped peer as an end.
    Unix,
}

/// Stacks that can listen, with their chain of layers.
const STACKS: &[(&str, &[&str], Bottom)] = &[
    ("tcp", &["tcp"], Bottom::Tcp),
    ("tcp:nodelay=0;sndbuf=16K;rcvbuf=16K", &["tcp"], Bottom::Tcp),
    (
        "tcp:keepalive=1;pacing=10G;backlog=5;iface=127.0.0.1",
        &["tcp"],
        Bottom::Tcp,
    ),
    ("tcp,count", &["tcp", "count"], Bottom::Tcp),
    ("tcp,log:tag=suite", &["tcp", "log"], Bottom::Tcp),
    ("tcp,timeout:all=60", &["tcp", "timeout"], Bottom::Tcp),
    (
        "tcp,count,log:each=0,timeout:read=60,count",
        &["tcp", "count", "log", "timeout", "count"],
        Bottom::Tcp,
    ),
    ("tcp,tls:OWN", &["tcp", "tls"], Bottom::Mem),
    ("tcp,http:method=POST", &["tcp", "http"], Bottom::Mem),
    // Data that waits for a flush in a lower layer must not delay a handshake or a head.
    (
        "tcp,compress,tls:OWN,compress,http:method=POST",
        &["tcp", "compress", "tls", "compress", "http"],
        Bottom::Mem,
    ),
    (
        "tcp,tls:OWN,http:method=PUT;header=#X: y",
        &["tcp", "tls", "http"],
        Bottom::Mem,
    ),
    (
        "mem:chunk=40;seed=7,fault:short=1;pending=30;seed=8,http:method=PUT",
        &["mem", "fault", "http"],
        Bottom::Mem,
    ),
    (
        "tcp:nodelay=0;sndbuf=16K;rcvbuf=16K,count,tls:OWN;client_cert=required;resume=no,count",
        &["tcp", "count", "tls", "count"],
        Bottom::Mem,
    ),
    (
        "tcp,fault:short=1;pending=30;seed=1",
        &["tcp", "fault"],
        Bottom::Plain,
    ),
    ("tcp,compress", &["tcp", "compress"], Bottom::Plain),
    (
        "tcp,compress:codec=zlib;level=1;block=4K;threads=3",
        &["tcp", "compress"],
        Bottom::Plain,
    ),
    (
        "tcp,compress:codec=lzo",
        &["tcp", "compress"],
        Bottom::Plain,
    ),
    (
        "tcp,compress:codec=lz4;block=256;smallest=0;gain=0",
        &["tcp", "compress"],
        Bottom::Plain,
    ),
    (
        "tcp,compress:codec=stored;block=1M",
        &["tcp", "compress"],
        Bottom::Plain,
    ),
    (
        "tcp,compress:strategy=auto;threads=2",
        &["tcp", "compress"],
        Bottom::Plain,
    ),
    (
        "mem:chunk=3000;seed=5,fault:short=1;pending=40;seed=6,compress:codec=zstd;level=9;threads=4,count",
        &["mem", "fault", "compress", "count"],
        Bottom::Plain,
    ),
    (
        "mem:chunk=70;seed=7;capacity=100,compress:codec=stored;block=5000,compress:block=300",
        &["mem", "compress", "compress"],
        Bottom::Plain,
    ),
    ("tcp,rate:rate=1G", &["tcp", "rate"], Bottom::Tcp),
    ("tcp,rate,count", &["tcp", "rate", "count"], Bottom::Tcp),
    (
        "mem:chunk=5000;seed=5,rate:rate=100M;burst=10K",
        &["mem", "rate"],
        Bottom::Mem,
    ),
    ("unix", &["unix"], Bottom::Unix),
    ("unix:mode=0600,count", &["unix", "count"], Bottom::Unix),
    ("udt", &["udp", "udt"], Bottom::Udt),
    (
        "udp:offload=0,udt:mss=1000;cc=udt;sndbuf=100K;rcvbuf=100K,count",
        &["udp", "udt", "count"],
        Bottom::Udt,
    ),
    (
        "udt,compress:codec=zlib",
        &["udp", "udt", "compress"],
        Bottom::UdtPlain,
    ),
    ("udt,tls:OWN", &["udp", "udt", "tls"], Bottom::Udt),
    ("tcp,gsi:GRID", &["tcp", "gsi"], Bottom::Mem),
    ("tcp,gsi:GRID;protection=none", &["tcp", "gsi"], Bottom::Tcp),
    (
        "tcp,count,gsi:GRID;protection=integrity;auth=none,count",
        &["tcp", "count", "gsi", "count"],
        Bottom::Mem,
    ),
    ("udt,gsi:GRID", &["udp", "udt", "gsi"], Bottom::Udt),
    (
        "udt,gsi:GRID;protection=none",
        &["udp", "udt", "gsi"],
        Bottom::Udt,
    ),
    ("mem", &["mem"], Bottom::Mem),
    ("mem:chunk=50;seed=2;capacity=64", &["mem"], Bottom::Mem),
    (
        "mem:chunk=100;seed=5,tls:OWN,tls:OWN;min=1.3",
        &["mem", "tls", "tls"],
        Bottom::Mem,
    ),
    (
        "tcp,fault:short=1;pending=30;seed=6,tls:OWN",
        &["tcp", "fault", "tls"],
        Bottom::Mem,
    ),
    (
        "mem:capacity=1000,count,timeout:all=60",
        &["mem", "count", "timeout"],
        Bottom::Mem,
    ),
    (
        "mem:chunk=3000;seed=3,fault:short=1;pending=50;seed=4,count",
        &["mem", "fault", "count"],
        Bottom::Plain,
    ),
];

fn subject(text: &str, chain: &[&str], bottom: Bottom) -> Subject {
    let stack = everything()
        .stack(&secured::fill_in(text))
        .expect("the string names known drivers");
    let at = match bottom {
        Bottom::Unix => "unix://".parse().expect("any free name"),
        Bottom::Tcp | Bottom::Mem | Bottom::Plain | Bottom::Udt | Bottom::UdtPlain => loopback(),
    };
    let subject = Subject::new(stack, at, chain);
    match bottom {
        Bottom::Tcp => subject.sends_files().writes_vectored(),
        Bottom::Mem => subject.writes_vectored(),
        Bottom::Udt => subject.writes_vectored().ends_both_ways(),
        Bottom::Plain => subject,
        Bottom::UdtPlain => subject.ends_both_ways(),
        Bottom::Unix => subject.writes_vectored().ends_when_dropped(),
    }
}

#[tokio::test]
async fn every_stack_passes_the_driver_suite() {
    assert!(driver_suite::case_count() >= 20);
    for (text, chain, bottom) in STACKS {
        driver_suite::run(&subject(text, chain, *bottom)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_stack_passes_the_driver_suite_with_two_threads() {
    for (text, chain, bottom) in STACKS {
        driver_suite::run(&subject(text, chain, *bottom)).await;
    }
}

#[tokio::test]
async fn stacks_over_ipv6_pass_the_driver_suite() {
    let target: Target = "[::1]:0".parse().expect("an address");
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    let stack = |text| everything().stack(text).expect("a stack");
    let subject = Subject::new(stack("tcp,count"), target.clone(), &["tcp", "count"])
        .sends_files()
        .writes_vectored();
    driver_suite::run(&subject).await;
    let subject = Subject::new(stack("udt,count"), target, &["udp", "udt", "count"])
        .writes_vectored()
        .ends_both_ways();
    driver_suite::run(&subject).await;
}

#[test]
fn every_driver_is_in_a_table() {
    let everything = everything();
    for driver in everything.drivers() {
        let in_table = STACKS
            .iter()
            .map(|(_, chain, _)| chain)
            .chain(catalogue::STACKS.iter().map(|(_, chain, _)| chain))
            .any(|chain| chain.contains(&driver.name()));
        // Drivers without a listener have tests of their own.
        assert!(
            in_table || ["file", "gridftp", "pipe", "popen"].contains(&driver.name()),
            "{} is not in the table",
            driver.name()
        );
    }
}

#[test]
fn typed_and_boxed_stacks_print_alike() {
    use xio_core::Transport as _;
    let typed = xio_tcp::Tcp::default()
        .push(xio_count::Count::new())
        .push(xio_log::Log::default());
    assert_eq!(format!("{typed:?}"), "tcp, count, log");
    let named = everything().stack("tcp,count,log").expect("a stack");
    assert_eq!(named.text(), "tcp,count,log");
    // A typed layer sits on a stack from a string.
    let mixed = named.push(xio_count::Count::new());
    assert_eq!(format!("{mixed:?}"), "tcp,count,log, count");
}

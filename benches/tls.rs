//! Bulk speed of TLS over loopback: our driver, tokio-rustls and OpenSSL's programs, in one run.
//!
//! Every pair transfers the same number of bytes over one connection, and the pairs take turns. A
//! run is timed from the first sent byte to the `close_notify`. Printed are the wall-clock time,
//! the processor time of both ends together, which depends less on the load of the machine, and
//! that of the receiver alone: a sender is not delayed by waking a slow receiver, and is by waking
//! a fast one.
//!
//! The speed of AES-GCM on one core in records of 16 KiB is measured by `openssl speed`, and by a
//! loop for AWS-LC, the library of our driver. The cost of TLS beyond bare TCP is given in passes
//! of each over the bytes; encrypting and decrypting are two passes.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a bench prints its results")]

use std::fs::File;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aws_lc_rs::aead::AES_256_GCM;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use workspace_benches::machine;
use workspace_benches::paired::Median;
use workspace_benches::records::Speed;
use workspace_benches::usage::{cpu_of_children, cpu_of_thread, cpu_of_tree};
use workspace_tests::{Openssl, Peer};
use xio_core::{BoxStream, DynStack, Incoming, Listener, Passive, Target, Transport};
use xio_testkit::Authority;

const SUITE: &str = "bench: tls";
const LIMIT: Duration = Duration::from_secs(120);
const BLOCK: usize = 128 * 1024;

/// A stream of bytes in both directions.
trait Both: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin + ?Sized> Both for S {}

/// Times of a run, without the handshake where our driver sends.
struct Run {
    wall: Duration,
    /// Processor time of the receiving end.
    receiver: Duration,
}

/// Certificates, and the file sent by `s_client`.
struct Bed {
    folder: tempfile::TempDir,
    ca: String,
    host: String,
    bytes: u64,
}

impl Bed {
    fn new(bytes: u64) -> Result<Self> {
        // In memory, to exclude the disk.
        let folder = tempfile::Builder::new().tempdir_in("/dev/shm")?;
        let authority = Authority::new("bench authority");
        let text = |path: PathBuf| path.display().to_string();
        let ca = text(authority.write(folder.path()));
        let host = authority.issue("host", &["localhost"]);
        let host = text(host.write(folder.path(), "host"));
        File::create(folder.path().join("sent"))?.set_len(bytes)?;
        Ok(Self {
            folder,
            ca,
            host,
            bytes,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn stack(&self, secured: bool, options: &str) -> Result<DynStack> {
        let (ca, host) = (&self.ca, &self.host);
        let text = match secured {
            true => format!("tcp,tls:ca={ca};cert={host};name=localhost{options}"),
            false => "tcp".to_owned(),
        };
        Ok(xio::registry().stack(&text)?)
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Sends `bytes` and `close_notify`, waits for the peer's if `wait` is set, and returns the time
/// of the first write.
async fn send(mut stream: impl Both, bytes: u64, wait: bool) -> Result<Instant> {
    let block = vec![7; BLOCK];
    let began = Instant::now();
    let mut left = bytes;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        stream
            .write_all(block.get(..part).unwrap_or_default())
            .await?;
        left -= part as u64;
    }
    stream.shutdown().await?;
    if wait {
        stream.read_to_end(&mut Vec::new()).await?;
    }
    Ok(began)
}

/// Receives `bytes` to the end, and returns the time of the end and the thread's processor time.
async fn receive(mut stream: impl Both, bytes: u64) -> Result<(Instant, Duration)> {
    let before = cpu_of_thread();
    let mut block = vec![0; BLOCK];
    let mut got = 0;
    loop {
        match stream.read(&mut block).await? {
            0 => break,
            n => got += n as u64,
        }
    }
    ensure!(got == bytes, "{got} bytes arrived of {bytes}");
    let ended = Instant::now();
    let receiver = cpu_of_thread() - before;
    stream.shutdown().await?;
    Ok((ended, receiver))
}

/// Passes a listening address of `stack` to `tell`, and accepts one peer.
async fn accept(stack: &DynStack, tell: impl FnOnce(SocketAddr)) -> Result<BoxStream> {
    let mut listener = stack.listen(&"127.0.0.1:0".parse()?).await?;
    tell(listener.local_addr()?);
    Ok(listener.accept().await?.open().await?)
}

/// Transfers the bytes between two threads; `near` connects to the address that `far` sends.
fn between<F, A, N, C>(bed: &Bed, far: F, near: N) -> Result<Option<Run>>
where
    F: FnOnce(Sender<SocketAddr>) -> A + Send + 'static,
    A: Future<Output = Result<Box<dyn Both>>>,
    N: FnOnce(SocketAddr) -> C,
    C: Future<Output = Result<Box<dyn Both>>>,
{
    let (sender, place) = channel();
    let bytes = bed.bytes;
    let receiver = thread::spawn(move || {
        runtime()?.block_on(async { receive(far(sender).await?, bytes).await })
    });
    let to = place.recv().context("the receiver listens")?;
    let began = runtime()?.block_on(async { send(near(to).await?, bytes, true).await })?;
    let (ended, receiver) = receiver.join().ok().context("the receiver panicked")??;
    let wall = ended - began;
    Ok(Some(Run { wall, receiver }))
}

/// Runs our driver at both ends, each in a thread.
fn ours_to_ours(bed: &Bed, secured: bool, options: &str) -> Result<Option<Run>> {
    let stack = bed.stack(secured, options)?;
    let far = stack.clone();
    between(
        bed,
        |tell| async move {
            let stream = accept(&far, |at| {
                let _ = tell.send(at);
            })
            .await?;
            Ok(Box::new(stream) as Box<dyn Both>)
        },
        |to| async move {
            let stream = stack.connect(&Target::from(to)).await?;
            Ok(Box::new(stream) as Box<dyn Both>)
        },
    )
}

/// Runs `tokio-rustls` at both ends, each in a thread, with the cipher suites of our driver.
fn tokio_rustls_to_itself(bed: &Bed) -> Result<Option<Run>> {
    let versions = [&rustls::version::TLS13];
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(&bed.ca)? {
        roots.add(root?)?;
    }
    let client = ClientConfig::builder_with_protocol_versions(&versions)
        .with_root_certificates(roots)
        .with_no_client_auth();
    let chain = CertificateDer::pem_file_iter(&bed.host)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&bed.host)?;
    let server = ServerConfig::builder_with_protocol_versions(&versions)
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    between(
        bed,
        |tell| async move {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            tell.send(listener.local_addr()?)?;
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let stream = TlsAcceptor::from(Arc::new(server)).accept(socket).await?;
            Ok(Box::new(stream) as Box<dyn Both>)
        },
        |to| async move {
            let socket = TcpStream::connect(to).await?;
            socket.set_nodelay(true)?;
            let name = ServerName::try_from("localhost")?;
            let connector = TlsConnector::from(Arc::new(client));
            Ok(Box::new(connector.connect(name, socket).await?) as Box<dyn Both>)
        },
    )
}

/// Runs our driver as the sender, `s_server` as the receiver.
fn ours_to_openssl(bed: &Bed, version: &str) -> Result<Option<Run>> {
    let args = ["-cert", &bed.host, version];
    let Some(mut server) = Openssl::serve(SUITE, 1, &args, Path::new("/dev/null"))? else {
        return Ok(None);
    };
    let before = cpu_of_children()?;
    let stack = bed.stack(true, "")?;
    let to = Target::from(server.addr());
    let began =
        runtime()?.block_on(async { send(stack.connect(&to).await?, bed.bytes, true).await })?;
    server.wait(LIMIT)?;
    let wall = began.elapsed();
    let receiver = cpu_of_children()? - before;
    Ok(Some(Run { wall, receiver }))
}

/// Runs `s_client` as the sender, our driver as the receiver. The time includes the start of
/// `s_client`, which does not report its first write.
fn openssl_to_ours(bed: &Bed, version: &str) -> Result<Option<Run>> {
    let stack = bed.stack(true, "")?;
    let mut client = None;
    let tell = |addr| client = Some((Instant::now(), send_file(bed, addr, version)));
    let ended =
        runtime()?.block_on(async { receive(accept(&stack, tell).await?, bed.bytes).await });
    let (began, client) = client.context("the receiver listens")?;
    match client? {
        Some(_client) => {
            let (ended, receiver) = ended?;
            let wall = ended - began;
            Ok(Some(Run { wall, receiver }))
        }
        None => Ok(None),
    }
}

/// Runs OpenSSL's programs at both ends.
fn openssl_to_openssl(bed: &Bed, version: &str) -> Result<Option<Run>> {
    let args = ["-cert", &bed.host, version];
    let Some(mut server) = Openssl::serve(SUITE, 1, &args, Path::new("/dev/null"))? else {
        return Ok(None);
    };
    let before = cpu_of_children()?;
    let began = Instant::now();
    let Some(_client) = send_file(bed, server.addr(), version)? else {
        return Ok(None);
    };
    server.wait(LIMIT)?;
    let wall = began.elapsed();
    // The client is reaped later.
    let receiver = cpu_of_children()? - before;
    Ok(Some(Run { wall, receiver }))
}

/// Starts an `s_client` that sends the file and exits.
fn send_file(bed: &Bed, addr: SocketAddr, version: &str) -> Result<Option<Openssl>> {
    let args = ["-CAfile", &bed.ca, "-no_ign_eof", version];
    Openssl::connect(
        SUITE,
        addr,
        &args,
        &bed.path("sent"),
        Path::new("/dev/null"),
    )
}

/// Returns the bytes per second that one core encrypts, measured by `openssl speed`.
fn one_core() -> Result<Option<f64>> {
    let Some(mut command) = Peer::Openssl.require(SUITE) else {
        return Ok(None);
    };
    let args = [
        "speed",
        "-seconds",
        "1",
        "-bytes",
        "16384",
        "-aead",
        "-evp",
        "aes-256-gcm",
    ];
    let output = command.args(args).output().context("openssl speed")?;
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    // The last word of the last line, in thousands.
    let last = output
        .lines()
        .last()
        .and_then(|line| line.split_whitespace().last());
    let thousands = last.and_then(|word| word.strip_suffix('k')?.parse::<f64>().ok());
    Ok(Some(
        thousands.context("openssl speed prints its result")? * 1000.0,
    ))
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

type Measure = fn(&Bed) -> Result<Option<Run>>;

/// The pairs in the order of a turn; the others are compared with the first.
const PAIRS: [(&str, Measure); 9] = [
    ("OpenSSL to OpenSSL, 1.3", |bed| {
        openssl_to_openssl(bed, "-tls1_3")
    }),
    ("ours to ours, 1.3", |bed| {
        ours_to_ours(bed, true, ";min=1.3")
    }),
    ("tokio-rustls to tokio-rustls, 1.3", tokio_rustls_to_itself),
    ("ours to OpenSSL, 1.3", |bed| {
        ours_to_openssl(bed, "-tls1_3")
    }),
    ("OpenSSL to ours, 1.3", |bed| {
        openssl_to_ours(bed, "-tls1_3")
    }),
    ("OpenSSL to OpenSSL, 1.2", |bed| {
        openssl_to_openssl(bed, "-tls1_2")
    }),
    ("ours to OpenSSL, 1.2", |bed| {
        ours_to_openssl(bed, "-tls1_2")
    }),
    ("OpenSSL to ours, 1.2", |bed| {
        openssl_to_ours(bed, "-tls1_2")
    }),
    ("TCP alone, ours to ours", |bed| {
        ours_to_ours(bed, false, "")
    }),
];

/// Times of a pair in seconds, by turn.
#[derive(Default)]
struct Runs {
    wall: Vec<f64>,
    /// Processor time of both ends, and of the receiver.
    cpu: Vec<f64>,
    receiver: Vec<f64>,
}

/// Returns the processor time of this process and its descendants, in seconds.
fn spent() -> Result<f64> {
    Ok(cpu_of_tree(std::process::id())?.as_secs_f64())
}

fn main() -> Result<()> {
    // Cargo passes `--bench` when it measures; a test runs one short turn.
    let measure = std::env::args().any(|arg| arg == "--bench");
    let turns: usize = match std::env::var("TURNS") {
        Ok(turns) => turns.parse().context("TURNS is a number")?,
        Err(_) if measure => 11,
        Err(_) => 1,
    };
    if std::env::args().any(|arg| arg == "--priority") {
        machine::raise_priority();
    }
    let bed = Bed::new(if measure { 2 << 30 } else { 1 << 20 })?;
    let mut seen = PAIRS.map(|_| Runs::default());
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        if measure {
            theirs.extend(one_core()?);
            ours.push(Speed::of(&AES_256_GCM)?.sealing);
        }
        for ((name, run), seen) in PAIRS.iter().zip(&mut seen) {
            let before = spent()?;
            if let Some(took) = run(&bed).with_context(|| (*name).to_owned())? {
                seen.wall.push(took.wall.as_secs_f64());
                seen.receiver.push(took.receiver.as_secs_f64());
                seen.cpu.push(spent()? - before);
            }
        }
    }
    print(&seen, bed.bytes, turns, (median(&theirs), median(&ours)));
    Ok(())
}

/// Prints the table; `cores` is the speed of one core with OpenSSL and with AWS-LC.
fn print(seen: &[Runs; 9], bytes: u64, turns: usize, cores: (f64, f64)) {
    let [peer, ours, tokio, .., bare] = seen;
    let (bare_cpu, peer_cpu) = (median(&bare.cpu), median(&peer.cpu));
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let bytes = bytes as f64;
    let (pass, our_pass) = (bytes / cores.0, bytes / cores.1);
    println!("{}", machine::caption());
    println!(
        "Bulk over loopback, one connection, medians of {turns} turns, with the 95 % interval; one \
         core's AES-256-GCM: OpenSSL {:.2} GB/s, AWS-LC {:.2} GB/s.\n",
        cores.0 / 1e9,
        cores.1 / 1e9
    );
    println!(
        "| Sender and receiver | GB/s | speed, of the first row | processor time, of the first row | \
         receiver's, of the first row's | beyond TCP, in passes of OpenSSL | in passes of AWS-LC |"
    );
    println!("| --- |{}", " ---: |".repeat(6));
    for ((name, _), these) in PAIRS.iter().zip(seen) {
        let speed = Median::of(&peer.wall, &these.wall);
        let beyond = median(&these.cpu) - bare_cpu;
        println!(
            "| {name} | {:.2} | {:.2} ({:.2} to {:.2}) | {:.2} | {:.2} | {:.1} | {:.1} |",
            bytes / median(&these.wall) / 1e9,
            speed.value,
            speed.low,
            speed.high,
            median(&these.cpu) / peer_cpu,
            median(&these.receiver) / median(&peer.receiver),
            beyond / pass,
            beyond / our_pass,
        );
    }
    let least = bare_cpu + 2.0 * our_pass;
    println!(
        "\nOurs to ours takes {:+.1} % beside bare TCP and AWS-LC's AES-256-GCM there and back.",
        (median(&ours.cpu) / least - 1.0) * 100.0
    );
    println!(
        "Ours to ours beside tokio-rustls: speed {} %, processor time {} %.",
        Median::of(&tokio.wall, &ours.wall).percent(),
        Median::of(&ours.cpu, &tokio.cpu).percent()
    );
}

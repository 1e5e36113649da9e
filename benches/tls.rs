//! Bulk speed of TLS over loopback: our driver and OpenSSL's programs as sender and receiver, side by side in one run.
//!
//! Every pair moves the same number of bytes over one connection; the pairs take turns. A run
//! counts from the first byte that is sent to the end mark, and so does the processor time of both
//! ends together, which says more where other work is done beside it. `openssl speed` says what one
//! core's AES-GCM gives in records of 16 KiB; what TLS costs beyond bare TCP is given in passes of
//! that over the bytes, of which encrypting and decrypting are two.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a bench talks to the person who runs it"
)]

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use workspace_benches::usage::cpu_of_tree;
use workspace_tests::{Openssl, Peer};
use xio_core::{DynStack, Incoming, Listener, Passive, Target, Transport};
use xio_testkit::Authority;

const SUITE: &str = "bench: tls";
const LIMIT: Duration = Duration::from_secs(120);
const BLOCK: usize = 128 * 1024;

/// Certificates, and the file that `s_client` sends.
struct Bed {
    folder: tempfile::TempDir,
    ca: String,
    host: String,
    bytes: u64,
}

impl Bed {
    fn new(bytes: u64) -> Result<Self> {
        // In memory, so that no disk is measured.
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

/// Sends so many bytes and the end mark; gives when it began.
async fn send(stack: &DynStack, to: SocketAddr, bytes: u64, wait: bool) -> Result<Instant> {
    let mut stream = stack.connect(&Target::from(to)).await?;
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

/// Takes all that comes from one peer; gives when the end was seen.
async fn receive(stack: &DynStack, tell: impl FnOnce(SocketAddr), bytes: u64) -> Result<Instant> {
    let mut listener = stack.listen(&"127.0.0.1:0".parse()?).await?;
    tell(listener.info().local.context("an address")?);
    let mut stream = listener.accept().await?.open().await?;
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
    stream.shutdown().await?;
    Ok(ended)
}

/// Our driver at both ends, each in a thread of its own.
fn ours_to_ours(bed: &Bed, secured: bool, options: &str) -> Result<Option<Duration>> {
    let stack = bed.stack(secured, options)?;
    let (sender, place) = std::sync::mpsc::channel();
    let (far, bytes) = (stack.clone(), bed.bytes);
    let receiver = thread::spawn(move || {
        runtime()?.block_on(receive(
            &far,
            |addr| {
                let _ = sender.send(addr);
            },
            bytes,
        ))
    });
    let to = place.recv().context("the receiver listens")?;
    let began = runtime()?.block_on(send(&stack, to, bytes, true))?;
    let ended = receiver.join().ok().context("the receiver lives")??;
    Ok(Some(ended - began))
}

/// Our driver sends, `s_server` receives.
fn ours_to_openssl(bed: &Bed, version: &str) -> Result<Option<Duration>> {
    let args = ["-cert", &bed.host, version];
    let Some(mut server) = Openssl::serve(SUITE, 1, &args, Path::new("/dev/null"))? else {
        return Ok(None);
    };
    let stack = bed.stack(true, "")?;
    let began = runtime()?.block_on(send(&stack, server.addr(), bed.bytes, true))?;
    server.wait(LIMIT)?;
    Ok(Some(began.elapsed()))
}

/// `s_client` sends, our driver receives. Its start counts, since nobody says when it begins.
fn openssl_to_ours(bed: &Bed, version: &str) -> Result<Option<Duration>> {
    let stack = bed.stack(true, "")?;
    let mut client = None;
    let ended = runtime()?.block_on(receive(
        &stack,
        |addr| client = Some((Instant::now(), client_of(bed, addr, version))),
        bed.bytes,
    ));
    let (began, client) = client.context("the receiver listens")?;
    match client? {
        Some(_client) => Ok(Some(ended? - began)),
        None => Ok(None),
    }
}

/// OpenSSL's programs at both ends.
fn openssl_to_openssl(bed: &Bed, version: &str) -> Result<Option<Duration>> {
    let args = ["-cert", &bed.host, version];
    let Some(mut server) = Openssl::serve(SUITE, 1, &args, Path::new("/dev/null"))? else {
        return Ok(None);
    };
    let began = Instant::now();
    let Some(_client) = client_of(bed, server.addr(), version)? else {
        return Ok(None);
    };
    server.wait(LIMIT)?;
    Ok(Some(began.elapsed()))
}

/// An `s_client` that sends the file and leaves.
fn client_of(bed: &Bed, addr: SocketAddr, version: &str) -> Result<Option<Openssl>> {
    let args = ["-CAfile", &bed.ca, "-no_ign_eof", version];
    Openssl::connect(
        SUITE,
        addr,
        &args,
        &bed.path("sent"),
        Path::new("/dev/null"),
    )
}

/// What one core encrypts in a second, in bytes, as `openssl speed` measures it.
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
    let said = command.args(args).output().context("openssl speed")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    // The last word of the last line, in thousands.
    let last = said
        .lines()
        .last()
        .and_then(|line| line.split_whitespace().last());
    let thousands = last.and_then(|word| word.strip_suffix('k')?.parse::<f64>().ok());
    Ok(Some(
        thousands.context("openssl speed says how fast it was")? * 1000.0,
    ))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

type Run = Box<dyn Fn(&Bed) -> Result<Option<Duration>>>;

/// What a pair took, turn by turn: seconds on the wall, and of processor time.
#[derive(Default)]
struct Seen {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

/// Processor time of this process and of what it started, in seconds.
fn spent() -> Result<f64> {
    Ok(cpu_of_tree(std::process::id())?.as_secs_f64())
}

fn main() -> Result<()> {
    // Cargo passes `--bench` when it measures; as a test, one short turn shows that all works.
    let measure = std::env::args().any(|arg| arg == "--bench");
    let turns: usize = match std::env::var("TURNS") {
        Ok(turns) => turns.parse().context("TURNS is a number")?,
        Err(_) => {
            if measure {
                7
            } else {
                1
            }
        }
    };
    let bytes = if measure { 2 << 30 } else { 1 << 20 };
    let bed = Bed::new(bytes)?;
    let runs: Vec<(&str, Run)> = vec![
        (
            "openssl to openssl, 1.3",
            Box::new(|bed| openssl_to_openssl(bed, "-tls1_3")),
        ),
        (
            "ours to ours, 1.3",
            Box::new(|bed| ours_to_ours(bed, true, ";min=1.3")),
        ),
        (
            "ours to openssl, 1.3",
            Box::new(|bed| ours_to_openssl(bed, "-tls1_3")),
        ),
        (
            "openssl to ours, 1.3",
            Box::new(|bed| openssl_to_ours(bed, "-tls1_3")),
        ),
        (
            "openssl to openssl, 1.2",
            Box::new(|bed| openssl_to_openssl(bed, "-tls1_2")),
        ),
        (
            "ours to openssl, 1.2",
            Box::new(|bed| ours_to_openssl(bed, "-tls1_2")),
        ),
        (
            "openssl to ours, 1.2",
            Box::new(|bed| openssl_to_ours(bed, "-tls1_2")),
        ),
        (
            "tcp alone, ours to ours",
            Box::new(|bed| ours_to_ours(bed, false, "")),
        ),
    ];
    let mut seen: Vec<Seen> = runs.iter().map(|_| Seen::default()).collect();
    let mut cores = Vec::new();
    for _ in 0..turns {
        cores.extend(if measure { one_core()? } else { None });
        for ((name, run), seen) in runs.iter().zip(&mut seen) {
            let before = spent()?;
            if let Some(took) = run(&bed).with_context(|| (*name).to_owned())? {
                seen.wall.push(took.as_secs_f64());
                seen.cpu.push(spent()? - before);
            }
        }
    }
    let medians: Vec<(f64, f64)> = seen
        .iter_mut()
        .map(|seen| (median(&mut seen.wall), median(&mut seen.cpu)))
        .collect();
    let peer = medians.first().copied().unwrap_or((f64::NAN, f64::NAN));
    let bare = medians.last().map_or(f64::NAN, |(_, cpu)| *cpu);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let pass = bed.bytes as f64 / median(&mut cores);
    println!("Bulk over loopback, one connection, medians of {turns} turns.\n");
    println!(
        "| Sender and receiver | speed, of the first row | processor time, of the first row | beyond TCP, in passes of AES-256-GCM |"
    );
    println!("| --- | ---: | ---: | ---: |");
    for ((name, _), (wall, cpu)) in runs.iter().zip(medians) {
        println!(
            "| {name} | {:.2} | {:.2} | {:.1} |",
            peer.0 / wall,
            cpu / peer.1,
            (cpu - bare) / pass
        );
    }
    Ok(())
}

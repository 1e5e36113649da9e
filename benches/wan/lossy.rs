//! Copies over a path that loses packets, without BBR, go on over UDT, or over TCP where that is all.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed test names its line"
)]

use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use gridftp_client::{ConnectOptions, CopyOptions, Event, Location, Observer, Totals, copy};
use workspace_benches::shape::Shape;
use workspace_benches::star::{Ray, Star};
use workspace_tests::{
    Finished, Host, Place, Tree, binary, file_url, is_root, run, same_file, skip,
};

/// Longest time of a copy.
const LIMIT: Duration = Duration::from_secs(60);
/// Longest time of a command about the network.
const SOON: Duration = Duration::from_secs(10);
/// Senders that may not change their congestion control, since the kernel has none of this name.
const NO_BBR: &str = "tcp:lossy=none";
/// The copy that a test makes in the network namespace of the client.
const UPLOAD: &str = "LOSSY_UPLOAD";

const OVER_UDT: &str = "going on over UDT";
const STAYS: &str = "staying with TCP";

/// A client and a server with 100 Mbit/s and 60 ms between them, which lose so many packets in a
/// million; TCP has Reno.
fn path(loss: u32) -> Result<Star> {
    let mut shape = Shape::new(12_500_000, Duration::from_millis(15));
    shape.loss = loss;
    let ray = |name: &str, rate, loss| Ray {
        name: name.to_owned(),
        up: Shape {
            rate,
            loss,
            ..shape
        },
        down: Shape {
            rate,
            loss,
            ..shape
        },
    };
    let star = Star::new(1500, &[ray("near", 0, 0), ray("far", shape.rate, loss)])?;
    for end in [0, 1] {
        let reno = "echo reno > /proc/sys/net/ipv4/tcp_congestion_control";
        at(&star.place(end)?, reno)?;
    }
    Ok(star)
}

/// Runs a shell line on a host.
fn at(place: &Place, line: &str) -> Result<Finished> {
    let mut command = place.command(Path::new("sh"));
    run(command.args(["-ec", line]), SOON)?.ok()
}

/// A server at an end of such a path, which offers UDT and has no BBR.
fn serve(star: &Star, end: usize, tree: &Tree) -> Result<Host> {
    let place = star.place(end)?;
    let stacks = format!("{NO_BBR},udt");
    let mut command = place.command(&binary("gridftp-server")?);
    command.args(["--bind", &place.ip.to_string(), "--port", "0"]);
    command.args(["--anonymous", "rw", "--third-party", "anonymous"]);
    command.args(["--net-stacks", &stacks, "--root"]);
    Host::ours_from(command.arg(tree.root()), tree.root())
}

/// Downloads a file, and compares the copy; gives the output of the program.
fn download(star: &Star, server: &Host, tree: &Tree) -> Result<Finished> {
    let copied = tree.path("copied");
    let mut command = star.place(0)?.command(&binary("gridftp-cp")?);
    command.env("XDG_CACHE_HOME", tree.path("cache"));
    command.args(["--verbose", "--fail-fast", "--retries", "0"]);
    command.args([server.url("file"), file_url(&copied)]);
    let done = run(&mut command, LIMIT)?.ok()?;
    same_file(&tree.path("file"), &copied)?;
    std::fs::remove_file(copied)?;
    Ok(done)
}

#[test]
fn a_copy_without_bbr_goes_on_over_udt() {
    if !is_root() {
        return skip("lossy", "network namespaces with a TUN device need root");
    }
    lossy().unwrap();
    between().unwrap();
    blocked().unwrap();
}

/// Sixteen connections of TCP need more than forty seconds for the file, and the link twelve.
fn lossy() -> Result<()> {
    let star = path(10_000)?;
    let tree = Tree::roomy(450_000_000)?;
    tree.file("file", 150_000_000, 1)?;
    let server = serve(&star, 1, &tree)?;
    let done = download(&star, &server, &tree)?;
    eprintln!("download: {:?}", done.took);
    ensure!(
        done.stderr.matches(OVER_UDT).count() == 1,
        "{}",
        done.report()
    );
    ensure!(!done.stderr.contains("again"), "{}", done.report());
    ensure!(done.took < Duration::from_secs(35), "{}", done.report());

    let mut command: Command = star.place(0)?.command(&env::current_exe()?);
    command.args(["--exact", "upload_from_here", "--ignored", "--nocapture"]);
    let words = [file_url(&tree.path("file")), server.url("stored")];
    command.env(UPLOAD, words.join(" "));
    let done = run(&mut command, LIMIT)?.ok()?;
    eprintln!("upload: {:?}", done.took);
    ensure!(done.stdout.contains("1 passed"), "{}", done.report());
    ensure!(done.took < Duration::from_secs(35), "{}", done.report());
    same_file(&tree.path("file"), &tree.path("stored"))
}

/// The client is beside the destination, and the source tells it of the loss.
fn between() -> Result<()> {
    let star = path(10_000)?;
    let [from, to] = [(); 2].map(|()| Tree::roomy(220_000_000));
    let (from, to) = (from?, to?);
    from.file("file", 150_000_000, 3)?;
    let (source, destination) = (serve(&star, 1, &from)?, serve(&star, 0, &to)?);
    let mut command = star.place(0)?.command(&binary("gridftp-cp")?);
    command.env("XDG_CACHE_HOME", to.path("cache"));
    command.args(["--verbose", "--fail-fast", "--retries", "0"]);
    command.args([source.url("file"), destination.url("file")]);
    let done = run(&mut command, LIMIT)?.ok()?;
    eprintln!("between servers: {:?}", done.took);
    ensure!(
        done.stderr.matches(OVER_UDT).count() == 1,
        "{}",
        done.report()
    );
    ensure!(!done.stderr.contains("again"), "{}", done.report());
    same_file(&from.path("file"), &to.path("file"))
}

/// A firewall drops the datagrams of UDT.
fn blocked() -> Result<()> {
    let star = path(5000)?;
    let tree = Tree::roomy(220_000_000)?;
    tree.file("file", 100_000_000, 2)?;
    let server = serve(&star, 1, &tree)?;
    at(&star.place(0)?, "ip rule add pref 0 ipproto udp blackhole")?;
    let done = download(&star, &server, &tree)?;
    eprintln!("blocked: {:?}", done.took);
    ensure!(done.stderr.matches(STAYS).count() == 1, "{}", done.report());
    ensure!(!done.stderr.contains(OVER_UDT), "{}", done.report());
    Ok(())
}

/// The notes and the failed attempts of a copy.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Observer for Told {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Note(text) => self.0.lock().unwrap().push((*text).to_owned()),
            Event::Retrying { error, .. } => self.0.lock().unwrap().push(format!("again: {error}")),
            _ => {}
        }
    }
}

/// Not a test by itself: `a_copy_without_bbr_goes_on_over_udt` runs it on the host of the client.
#[tokio::test]
#[ignore = "needs the path that another test makes"]
async fn upload_from_here() {
    let words = env::var(UPLOAD).context("the words of the copy").unwrap();
    let (from, to) = words.split_once(' ').unwrap();
    let options = CopyOptions::default().connect(ConnectOptions::default().stack(NO_BBR));
    let told = Arc::new(Told::default());
    let observer: Arc<dyn Observer> = Arc::<Told>::clone(&told);
    let (from, to) = (Location::parse(from).unwrap(), Location::parse(to).unwrap());
    let done = copy(&[from], &to, options, observer, Arc::new(Totals::default())).await;
    assert_eq!(done.unwrap().failed, None);
    let told = told.0.lock().unwrap();
    assert_eq!(
        told.iter().filter(|text| text.contains(OVER_UDT)).count(),
        1,
        "{told:?}"
    );
    assert!(
        !told.iter().any(|text| text.starts_with("again")),
        "{told:?}"
    );
}

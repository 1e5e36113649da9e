//! Time from the end of a node in the middle of a copy to the first byte over a new connection.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use workspace_benches::ratio::{Line, middle};
use workspace_tests::{Break, Cluster, Relay, Tree, binary, file_url, run, same_file};

use crate::options::Options;
use workspace_benches::copying::{FILE, Way};

/// Longest time of one copy.
const LIMIT: Duration = Duration::from_secs(120);

/// Bytes a second of each data connection, so that the node ends in the middle.
const RATE: u64 = 40 << 20;

/// Longest time to the next byte, in seconds.
const BOUND: f64 = 1.0;

/// Measures both directions over three nodes, one of which is killed.
pub(crate) fn measure(options: &Options) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for way in Way::ALL {
        let times: Result<Vec<f64>> = (0..options.scale.runs())
            .map(|_| Ok(once(options, way)?.as_secs_f64()))
            .collect();
        let times = times?;
        let longest = times.iter().copied().fold(0.0, f64::max);
        let seconds = middle(times);
        let what = format!(
            "{}, one of 3 nodes killed: 1 s by the time to the next byte",
            way.name()
        );
        eprintln!("{what}: median {seconds:.3} s, longest {longest:.3} s");
        lines.push(Line {
            what,
            ratio: BOUND / seconds,
            cpu: None,
            target: "under 1 s",
            reached: longest < BOUND,
            note: format!("{seconds:.2} s, longest {longest:.2} s"),
        });
    }
    Ok(lines)
}

/// Copies one file, and kills a node when a quarter has passed.
fn once(options: &Options, way: Way) -> Result<Duration> {
    let size = options.scale.amount(256 << 20, 96 << 20);
    let (tree, other) = (Tree::roomy(2 * size)?, Tree::roomy(2 * size)?);
    let (here, there) = match way {
        Way::Put => (&other, &tree),
        Way::Get => (&tree, &other),
    };
    let source = here.file(FILE, size, 1)?;
    let mut cluster = Cluster::start(tree.root(), 3)?;
    let relay = Relay::paced(cluster.front().addr(), Break::Never, RATE)?;
    let (local, url) = (
        file_url(&other.path(FILE)),
        cluster.front().url_at(relay.addr(), FILE),
    );
    let (from, to) = match way {
        Way::Put => (local, url),
        Way::Get => (url, local),
    };
    let mut command = Command::new(binary("gridftp-cp")?);
    command.args(["--debug", &from, &to]);
    let copying = thread::spawn(move || run(&mut command, LIMIT));
    relay.wait_until_passed(size / 4)?;
    let killed = cluster.nodes().pop().context("no node")?;
    relay.mark();
    killed.signal(Signal::KILL)?;
    let copied = copying.join();
    let copied = copied.map_err(|_| anyhow::anyhow!("the copy panicked"))??;
    let copied = copied.ok()?;
    same_file(&source, &there.path(FILE))?;
    ensure!(
        copied.stderr.contains("data node"),
        "the copy ended before the node: {}",
        copied.report()
    );
    relay
        .resumed()
        .with_context(|| format!("no connection was opened again: {}", copied.report()))
}

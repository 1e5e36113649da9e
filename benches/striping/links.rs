//! One file over several nodes, each with a link of its own: its rate beside the sum of the links.

use std::time::Duration;

use anyhow::Result;
use workspace_benches::pair::Side;
use workspace_benches::ratio::{Line, middle};
use workspace_benches::shape::Shape;
use workspace_benches::star::{Ray, Star};
use workspace_tests::{Cluster, ClusterPlan, Place, Tree};

use crate::options::Options;
use workspace_benches::copying::{Client, FILE, Way};

/// Bytes per second of each link: 200 Mbit/s.
const LINK: u64 = 25_000_000;

/// One-way delay of each link.
const DELAY: Duration = Duration::from_millis(1);

/// Headers of 52 bytes take 0.6 % of such packets.
const MTU: u16 = 9000;

/// Least part of the sum of the links.
const LEAST: f64 = 0.95;

/// Flags of the Globus client: without `-sbs` it sends every block to the first address.
const GLOBUS: &[&str] = &["-stripe", "-p", "2", "-sbs", "1048576"];

/// A client, its flags, its name in the table, and the directions in which it uses several nodes: a
/// download by the Globus client asks for one address.
type Row = (Client, &'static [&'static str], String, &'static [Way]);

/// Measures with 1, 2 and 4 nodes, or reports that links cannot be made.
pub(crate) fn measure(options: &Options) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for nodes in [1, 2, 4] {
        let star = match network(nodes) {
            Ok(star) => star,
            Err(error) => {
                eprintln!("SKIPPED bench links: {error:#}");
                return Ok(Vec::new());
            }
        };
        lines.extend(over(&star, nodes, options)?);
    }
    Ok(lines)
}

/// A host without limits for the client and the front ends, and those of two groups of nodes.
fn network(nodes: u8) -> Result<Star> {
    let free = Shape::new(0, Duration::ZERO);
    let link = Shape::new(LINK, DELAY);
    let mut rays = vec![Ray {
        name: "client".to_owned(),
        up: free,
        down: free,
    }];
    rays.extend((1..=2 * nodes).map(|number| Ray {
        name: format!("node{number}"),
        up: link,
        down: link,
    }));
    Star::new(MTU, &rays)
}

/// Measures every client and direction over one network.
fn over(star: &Star, nodes: u8, options: &Options) -> Result<Vec<Line>> {
    let sum = u64::from(nodes) * LINK;
    let size = sum * options.scale.amount(10, 2);
    let (tree, other) = (Tree::roomy(4 * size)?, Tree::roomy(4 * size)?);
    tree.file(FILE, size, 1)?;
    let place = |number: u8| star.place(number.into());
    let cluster = |first: u8, root: &Tree| -> Result<Cluster> {
        let places: Result<Vec<Place>> = (first..first + nodes).map(place).collect();
        let plan = ClusterPlan {
            front: &["--third-party", "all"],
            at: place(0)?,
            nodes: places?,
            ..ClusterPlan::new(0)?
        };
        Cluster::of(root.root(), &plan)
    };
    let (one, two) = (cluster(1, &tree)?, cluster(1 + nodes, &other)?);
    let mut clients: Vec<Row> = Vec::new();
    if let Some(client) = Client::find(Side::Ours, place(0)?)? {
        clients.push((client, &[], "ours".to_owned(), &Way::ALL));
    }
    if let Some(client) = Client::find(Side::Globus, place(0)?)? {
        let name = format!("`globus-url-copy {}`", GLOBUS.join(" "));
        clients.push((client, GLOBUS, name, &[Way::Put]));
    }
    let mut lines = Vec::new();
    for (client, flags, name, ways) in &clients {
        let line = |way: &str, copy: &dyn Fn() -> Result<Duration>| -> Result<Line> {
            let times: Result<Vec<f64>> = (0..options.scale.runs_or(1))
                .map(|_| Ok(copy()?.as_secs_f64()))
                .collect();
            let line = row(nodes, size, &format!("{way}, {name}"), middle(times?));
            eprintln!("{}: {}", line.what, line.note);
            Ok(line)
        };
        for way in *ways {
            lines.push(line(way.name(), &|| {
                client.copy(flags, one.front(), &tree, *way)
            })?);
        }
        lines.push(line("third party", &|| {
            client.third_party(flags, (one.front(), two.front()))
        })?);
    }
    Ok(lines)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn row(nodes: u8, size: u64, what: &str, seconds: f64) -> Line {
    let rate = size as f64 / seconds;
    let ratio = rate / (u64::from(nodes) * LINK) as f64;
    let plural = if nodes == 1 { "" } else { "s" };
    Line {
        what: format!("{what}, {nodes} node{plural} with 200 Mbit/s each: part of their sum"),
        ratio,
        cpu: None,
        target: "0.95",
        reached: ratio >= LEAST,
        note: format!("{:.0} Mbit/s", rate * 8e-6),
    }
}

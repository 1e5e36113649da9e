//! Copies over one emulated path, by each setting.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use workspace_benches::copying::{Client, FILE, Way};
use workspace_benches::options::Scale;
use workspace_benches::pair::Side;
use workspace_benches::ratio::{Line, middle};
use workspace_benches::shape::Shape;
use workspace_benches::star::{Ray, Star};
use workspace_tests::{Host, Peer, Place, Tree, binary, run};

use crate::options::Options;

/// An emulated path.
pub(crate) struct Profile {
    /// Mbit/s.
    rate: u64,
    /// Round trip in ms.
    round_trip: u64,
    /// Lost packets in a million.
    loss: u32,
}

const fn profile(rate: u64, round_trip: u64, loss: u32) -> Profile {
    Profile {
        rate,
        round_trip,
        loss,
    }
}

/// The paths with a target of their own.
pub(crate) const TARGETS: [Profile; 3] = [
    profile(200, 100, 0),
    profile(200, 100, 500),
    profile(200, 100, 5000),
];

/// Others of 200 Mbit/s.
pub(crate) const FAST: [Profile; 5] = [
    profile(200, 10, 0),
    profile(200, 30, 500),
    profile(200, 30, 5000),
    profile(200, 200, 0),
    profile(200, 200, 500),
];

/// Others of 100 Mbit/s and less.
pub(crate) const SLOW: [Profile; 7] = [
    profile(100, 50, 100),
    profile(100, 50, 10_000),
    profile(50, 100, 0),
    profile(50, 100, 500),
    profile(50, 100, 5000),
    profile(50, 300, 1000),
    profile(20, 20, 1000),
];

/// Part of the link that a lossy target has to reach.
const LEAST: f64 = 0.85;

/// Part of the best other setting that default flags have to reach.
const BESIDE: f64 = 0.8;

const LIMIT: Duration = Duration::from_secs(10);

/// The setting of a copy.
#[derive(Clone, Copy, Debug)]
enum Setting {
    /// Default flags.
    Default,
    /// Default flags, and BBR as the congestion control of the system.
    Bbr,
    /// Eight streams with CUBIC.
    Cubic,
    /// `globus-url-copy -p 8` and the Globus server.
    Globus,
}

impl Setting {
    fn side(self) -> Side {
        match self {
            Self::Globus => Side::Globus,
            _ => Side::Ours,
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Default | Self::Bbr => &[],
            Self::Cubic => &["-p", "8", "--stack", "tcp:cc=cubic"],
            Self::Globus => &["-p", "8"],
        }
    }
}

/// The two ends of a path, with a server of each project.
struct Ends {
    star: Star,
    tree: Tree,
    ours: Host,
    /// Our server, which sends with CUBIC whatever the loss.
    cubic: Host,
    globus: Option<Host>,
}

/// Measures every path, or reports that none can be made.
pub(crate) fn measure(profiles: &[Profile], options: &Options) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for profile in profiles {
        let star = match profile
            .star()
            .and_then(|star| Ok((star, Allowed::cubic()?)))
        {
            Ok(star) => star,
            Err(error) => {
                eprintln!("SKIPPED bench wan: {error:#}");
                return Ok(Vec::new());
            }
        };
        let (star, _allowed) = star;
        let ends = Ends::new(star, profile.bytes(&options.scale))?;
        for way in Way::ALL {
            let line = ends.compare(profile, way, options)?;
            eprintln!("{}: {}", line.what, line.note);
            lines.push(line);
        }
    }
    Ok(lines)
}

impl Profile {
    fn star(&self) -> Result<Star> {
        let ray = |name: &str, rate, loss| {
            let delay = Duration::from_micros(self.round_trip * 250);
            let mut shape = Shape::new(rate, delay);
            shape.loss = loss;
            Ray {
                name: name.to_owned(),
                up: shape,
                down: shape,
            }
        };
        // A packet passes two links, of which one loses and bounds.
        let server = ray("server", self.rate * 125_000, self.loss);
        Star::new(1500, &[ray("client", 0, 0), server])
    }

    /// Bytes of the file: 40 s of the link.
    fn bytes(&self, scale: &Scale) -> u64 {
        self.rate * 125_000 * scale.amount(40, 4)
    }
}

impl Ends {
    fn new(star: Star, size: u64) -> Result<Self> {
        let tree = Tree::roomy(3 * size)?;
        tree.file(FILE, size, 1)?;
        let place = star.place(1)?;
        let ip = place.ip.to_string();
        let ours = |stack| {
            let mut command = place.command(&binary("gridftp-server")?);
            command.args(["--bind", &ip, "--port", "0", "--anonymous", "rw"]);
            command.args(["--net-stacks", stack, "--root"]);
            Host::ours_from(command.arg(tree.root()), tree.root())
        };
        let (ours, cubic) = (ours("tcp")?, ours("tcp:cc=cubic")?);
        let globus = match Peer::GlobusServer.require("bench wan") {
            Some(program) => {
                let flags = ["-control-interface", &ip, "-data-interface", &ip];
                let mut command = place.command(Path::new(program.get_program()));
                Some(Host::globus_from(&mut command, tree.root(), &flags)?)
            }
            None => None,
        };
        Ok(Self {
            star,
            tree,
            ours,
            cubic,
            globus,
        })
    }

    /// The rates of all settings, or of the default flags alone.
    fn compare(&self, profile: &Profile, way: Way, options: &Options) -> Result<Line> {
        let others = [Setting::Bbr, Setting::Cubic, Setting::Globus];
        let others = others.into_iter().filter(|_| !options.alone);
        let mut rates = Vec::new();
        for setting in [Setting::Default].into_iter().chain(others) {
            let rate = self.rate(setting, way, options)?;
            eprintln!("{setting:?}, {}: {rate:.1} Mbit/s", way.name());
            rates.push(rate);
        }
        rates.resize(4, 0.0);
        let [own, bbr, cubic, globus] = rates.try_into().ok().context("a rate is missing")?;
        Ok(row(profile, way, own, [bbr, cubic, globus]))
    }

    /// The rate of a setting in Mbit/s; 0 without its programs.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn rate(&self, setting: Setting, way: Way, options: &Options) -> Result<f64> {
        let server = match setting {
            Setting::Cubic => Some(&self.cubic),
            Setting::Globus => self.globus.as_ref(),
            _ => Some(&self.ours),
        };
        let client = Client::find(setting.side(), self.star.place(0)?)?;
        let (Some(server), Some(client)) = (server, client) else {
            return Ok(0.0);
        };
        let client = match setting.side() {
            // Verification is a default.
            Side::Ours => client.with_flags(&["--quiet"]),
            Side::Globus => client,
        };
        let congestion = match setting {
            Setting::Bbr => "bbr",
            _ => "cubic",
        };
        for end in [0, 1] {
            prepare(&self.star.place(end)?, congestion)?;
        }
        let size = self.tree.path(FILE).metadata()?.len();
        let times: Result<Vec<f64>> = (0..options.scale.runs_or(1))
            .map(|_| {
                Ok(client
                    .copy(setting.flags(), server, &self.tree, way)?
                    .as_secs_f64())
            })
            .collect();
        Ok(size as f64 * 8e-6 / middle(times?))
    }
}

/// Lets network namespaces have CUBIC, until it is dropped.
struct Allowed(String);

impl Allowed {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

    fn cubic() -> Result<Self> {
        let before = fs::read_to_string(Self::FILE)?;
        fs::write(Self::FILE, format!("{} cubic bbr", before.trim()))
            .context("BBR and CUBIC cannot be allowed")?;
        Ok(Self(before))
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let _ = fs::write(Self::FILE, &self.0);
    }
}

/// Sets the congestion control of a host, which keeps nothing of earlier connections.
fn prepare(at: &Place, congestion: &str) -> Result<()> {
    const TCP: &str = "/proc/sys/net/ipv4";
    let mut command: Command = at.command(Path::new("sh"));
    let script = format!(
        "echo {congestion} > {TCP}/tcp_congestion_control; echo 1 > {TCP}/tcp_no_metrics_save"
    );
    run(command.args(["-ec", &script]), LIMIT)?.ok()?;
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn row(profile: &Profile, way: Way, own: f64, others: [f64; 3]) -> Line {
    let best = others.into_iter().fold(0.0, f64::max);
    let part = own / profile.rate as f64;
    let (target, reached) = match (profile.rate, profile.round_trip, profile.loss) {
        (200, 100, 1..) => ("85 % of the link", part >= LEAST),
        _ if best == 0.0 => ("none", true),
        _ => ("0.8", own >= best * BESIDE),
    };
    let percent = f64::from(profile.loss) / 1e4;
    let [bbr, cubic, globus] = others.map(|rate| match rate {
        0.0 => "–".to_owned(),
        rate => format!("{rate:.0}"),
    });
    Line {
        what: format!(
            "{} Mbit/s, {} ms, loss {percent} %, {}",
            profile.rate,
            profile.round_trip,
            way.name()
        ),
        ratio: if best > 0.0 { own / best } else { part },
        cpu: None,
        target,
        reached,
        note: format!(
            "{own:.0} Mbit/s; BBR {bbr}, CUBIC × 8 {cubic}, `globus-url-copy -p 8` {globus}"
        ),
    }
}

//! One large file in both directions, MODE S and MODE E with 1 and 4 streams: beside the Globus
//! programs, and the cost of digests.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use workspace_benches::pair::{Pair, Side, cost, quiet};
use workspace_benches::ratio::{Cost, Line, alternate};
use workspace_tests::{Host, Tree, file_url, sha256};

use crate::options::Options;

/// Name, our flags and the Globus flags of each mode.
#[rustfmt::skip]
const MODES: &[(&str, &[&str], &[&str])] = &[
    ("MODE S",            &["--mode", "stream"],              &[]),
    ("MODE E, 1 stream",  &["--mode", "extended", "-p", "1"], &["-p", "1"]),
    ("MODE E, 4 streams", &["--mode", "extended", "-p", "4"], &["-p", "4"]),
];

/// The destination of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Get,
    Put,
    /// Discards the bytes at the client, as GridFTP has been measured since its first paper.
    GetToNull,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::GetToNull => "get to /dev/null",
        }
    }
}

/// Measures every mode in both directions, between files of `folder`.
pub(crate) fn measure(pair: &Pair, options: &Options, folder: &Path) -> Result<Vec<Line>> {
    let size = options.scale.amount(1 << 30, 64 << 20);
    let tree = Tree::new_in(folder)?;
    tree.file("file", size, 1)?;
    let digest = sha256(&tree.path("file"))?;
    let ours = pair.serve(Side::Ours, tree.root())?;
    let globus = pair.serve(Side::Globus, tree.root())?;
    let copy = |side: Side, server: &Host, way: Way, flags: &[&[&str]]| -> Result<Cost> {
        let copy = tree.path("copy");
        let _ = fs::remove_file(&copy);
        let mut command = Command::new(pair.client(side));
        command.args(flags.concat());
        command.args(match way {
            Way::Get => [server.url("file"), file_url(&copy)],
            Way::Put => [file_url(&tree.path("file")), server.url("copy")],
            Way::GetToNull => [server.url("file"), file_url(Path::new("/dev/null"))],
        });
        let cost = cost(&mut command, server)?;
        ensure!(
            way == Way::GetToNull || sha256(&copy)? == digest,
            "the copy by {side:?} with {flags:?} differs"
        );
        Ok(cost)
    };
    let at = folder.display();
    let mut lines = Vec::new();
    for &(mode, our_flags, globus_flags) in MODES {
        for way in [Way::Get, Way::Put, Way::GetToNull] {
            let (us, them) = alternate(
                options.scale.runs(),
                || copy(Side::Ours, &ours, way, &[quiet(Side::Ours), our_flags]),
                || copy(Side::Globus, &globus, way, &[globus_flags]),
            )?;
            let what = format!("{} MiB {}, {mode}, in {at}", size >> 20, way.name());
            let least = ("1.15, no more CPU", 1.15, 1.0);
            lines.push(line(what, us, them, least));
        }
    }
    for &(mode, flags, _) in MODES {
        for way in [Way::Get, Way::Put] {
            let plain = [quiet(Side::Ours), flags];
            let (proven, plain) = alternate(
                options.scale.runs(),
                || copy(Side::Ours, &ours, way, &[&["--quiet"], flags]),
                || copy(Side::Ours, &ours, way, &plain),
            )?;
            let what = format!(
                "{} MiB {}, {mode}, in {at}, all bytes proven, beside `--no-verify`",
                size >> 20,
                way.name()
            );
            lines.push(line(what, proven, plain, ("0.90", 0.9, 0.0)));
        }
    }
    Ok(lines)
}

/// A row of the costs of two sides, with the least ratios of time and CPU that are wanted.
fn line(what: String, us: Cost, them: Cost, least: (&'static str, f64, f64)) -> Line {
    eprintln!("bulk: {what}: {us:.2?}, {them:.2?}");
    let (ratio, cpu) = (them.wall / us.wall, them.cpu / us.cpu);
    let (target, wall, least_cpu) = least;
    Line {
        what,
        ratio,
        cpu: Some(cpu),
        target,
        reached: ratio >= wall && cpu >= least_cpu,
        note: String::new(),
    }
}

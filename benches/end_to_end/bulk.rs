//! One large file in both directions: MODE S, and MODE E with 1 and 4 streams.

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

/// Measures every mode in both directions, between files of `folder`.
pub(crate) fn measure(pair: &Pair, options: &Options, folder: &Path) -> Result<Vec<Line>> {
    let size = options.amount(1 << 30, 64 << 20);
    let tree = Tree::new_in(folder)?;
    tree.file("file", size, 1)?;
    let digest = sha256(&tree.path("file"))?;
    let ours = pair.serve(Side::Ours, tree.root())?;
    let globus = pair.serve(Side::Globus, tree.root())?;
    let mut lines = Vec::new();
    for &(mode, our_flags, globus_flags) in MODES {
        for way in [Way::Get, Way::Put, Way::GetToNull] {
            let copy = |side: Side, server: &Host, flags: &[&str]| -> Result<Cost> {
                let copy = tree.path("copy");
                let _ = fs::remove_file(&copy);
                let mut command = Command::new(pair.client(side));
                command.args(quiet(side)).args(flags);
                command.args(match way {
                    Way::Get => [server.url("file"), file_url(&copy)],
                    Way::Put => [file_url(&tree.path("file")), server.url("copy")],
                    Way::GetToNull => [server.url("file"), file_url(Path::new("/dev/null"))],
                });
                let cost = cost(&mut command, server)?;
                ensure!(
                    way == Way::GetToNull || sha256(&copy)? == digest,
                    "{mode}: the copy by {side:?} differs"
                );
                Ok(cost)
            };
            let (us, them) = alternate(
                options.runs(),
                || copy(Side::Ours, &ours, our_flags),
                || copy(Side::Globus, &globus, globus_flags),
            )?;
            let (ratio, cpu) = (them.wall / us.wall, them.cpu / us.cpu);
            let direction = match way {
                Way::Get => "get",
                Way::Put => "put",
                Way::GetToNull => "get to /dev/null",
            };
            let at = folder.display();
            eprintln!("bulk, {at}, {direction}, {mode}: ours {us:.2?}, Globus {them:.2?}");
            lines.push(Line {
                what: format!("{} MiB {direction}, {mode}, in {at}", size >> 20),
                ratio,
                cpu: Some(cpu),
                target: "1.15, no more CPU",
                reached: ratio >= 1.15 && cpu >= 1.0,
                note: String::new(),
            });
        }
    }
    Ok(lines)
}

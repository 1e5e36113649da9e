//! One large file under Grid security: against the Globus programs, and against our own clear copy.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use aws_lc_rs::aead::AES_256_GCM;
use workspace_benches::pair::{Side, cost};
use workspace_benches::ratio::{Cost, Line, alternate, middle};
use workspace_benches::records::Speed;
use workspace_tests::{file_url, sha256};

use crate::bed::{Bed, FILE};
use crate::options::Options;

/// A protection of data connections, and the flags of both clients for it.
struct Protection {
    name: &'static str,
    ours: &'static [&'static str],
    globus: &'static [&'static str],
}

const PRIVATE: Protection = Protection {
    name: "PROT P",
    ours: &["--protect", "private"],
    globus: &["-dcpriv"],
};

const SAFE: Protection = Protection {
    name: "PROT S",
    ours: &["--protect", "safe"],
    globus: &["-dcsafe"],
};

const AUTHENTICATED: Protection = Protection {
    name: "PROT C",
    ours: &["--protect", "clear"],
    globus: &[],
};

/// Our flags for data connections without a handshake.
const CLEAR: &[&str] = &["--dcau", "none", "--protect", "clear"];

/// A mode, and the flags of both clients for it.
struct Mode {
    name: &'static str,
    ours: &'static [&'static str],
    globus: &'static [&'static str],
}

#[rustfmt::skip]
const MODES: [Mode; 3] = [
    Mode { name: "MODE S",            ours: &["--mode", "stream"],              globus: &[] },
    Mode { name: "MODE E, 1 stream",  ours: &["--mode", "extended", "-p", "1"], globus: &["-p", "1"] },
    Mode { name: "MODE E, 4 streams", ours: &["--mode", "extended", "-p", "4"], globus: &["-p", "4"] },
];

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Get,
    Put,
    /// Discards the bytes at the client.
    GetToNull,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Get, Self::Put, Self::GetToNull];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::GetToNull => "get to /dev/null",
        }
    }
}

/// Copies the large file between a side's programs, and compares it.
fn copy(bed: &Bed, side: Side, way: Way, flags: &[&[&str]], digest: &str) -> Result<Cost> {
    let copied = bed.tree.path("copy");
    let _ = fs::remove_file(&copied);
    let mut command: Command = bed.client(side);
    command.args(flags.concat());
    command.args(match way {
        Way::Get => [bed.url(side, FILE), file_url(&copied)],
        Way::Put => [file_url(&bed.tree.path(FILE)), bed.url(side, "copy")],
        Way::GetToNull => [bed.url(side, FILE), file_url(Path::new("/dev/null"))],
    });
    let cost = cost(&mut command, bed.server(side))?;
    ensure!(
        way == Way::GetToNull || sha256(&copied)? == digest,
        "the copy by {side:?} differs"
    );
    Ok(cost)
}

/// Measures every protection against the Globus programs.
pub(crate) fn against_globus(bed: &Bed, options: &Options) -> Result<Vec<Line>> {
    let [_, one, four] = &MODES;
    let mut lines = Vec::new();
    for mode in &MODES {
        for way in Way::ALL {
            lines.push(beside_globus(bed, options, &PRIVATE, mode, way)?);
        }
    }
    for protection in [&SAFE, &AUTHENTICATED] {
        for mode in [one, four] {
            for way in [Way::Get, Way::Put] {
                lines.push(beside_globus(bed, options, protection, mode, way)?);
            }
        }
    }
    Ok(lines)
}

fn beside_globus(
    bed: &Bed,
    options: &Options,
    protection: &Protection,
    mode: &Mode,
    way: Way,
) -> Result<Line> {
    let digest = sha256(&bed.tree.path(FILE))?;
    let (us, them) = alternate(
        options.scale.runs(),
        || copy(bed, Side::Ours, way, &[protection.ours, mode.ours], &digest),
        || {
            let flags = [protection.globus, mode.globus];
            copy(bed, Side::Globus, way, &flags, &digest)
        },
    )?;
    let what = copied(options, way, mode, protection.name);
    eprintln!("{what}: ours {us:.2?}, Globus {them:.2?}");
    let (ratio, cpu) = (them.wall / us.wall, them.cpu / us.cpu);
    // Without protection of the bytes the target is that of clear copies.
    let (target, least) = match protection.name == AUTHENTICATED.name {
        true => ("1.15, no more CPU", 1.15),
        false => ("1.5, less CPU", 1.5),
    };
    Ok(Line {
        what,
        ratio,
        cpu: Some(cpu),
        target,
        reached: ratio >= least && cpu >= 1.0,
        note: rates(options.size(), us, them),
    })
}

/// Measures our private copies beside our clear ones.
pub(crate) fn against_clear(bed: &Bed, options: &Options) -> Result<Vec<Line>> {
    let digest = sha256(&bed.tree.path(FILE))?;
    let gigabytes = gigabytes(options.size());
    let mut lines = Vec::new();
    for mode in &MODES {
        for way in Way::ALL {
            let passes = RefCell::new(Vec::new());
            let (private, clear) = alternate(
                options.scale.runs(),
                || {
                    let flags = [PRIVATE.ours, mode.ours];
                    copy(bed, Side::Ours, way, &flags, &digest)
                },
                || {
                    let speed = Speed::of(&AES_256_GCM)?;
                    let there_and_back = speed.sealing.recip() + speed.opening.recip();
                    passes.borrow_mut().push(there_and_back * 1e9 * gigabytes);
                    copy(bed, Side::Ours, way, &[CLEAR, mode.ours], &digest)
                },
            )?;
            let aes = middle(passes.take());
            let bound = |clear: f64, private: f64| (clear + aes) / private;
            let ratio = bound(clear.wall, private.wall);
            let what = copied(options, way, mode, "ours, PROT P beside clear and AES-GCM");
            eprintln!("{what}: private {private:.2?}, clear {clear:.2?}, AES-GCM {aes:.3} s");
            lines.push(Line {
                what,
                ratio,
                cpu: Some(bound(clear.cpu, private.cpu)),
                target: "0.75",
                reached: ratio >= 0.75,
                note: format!(
                    "{:.2} s of {:.2} s clear and {aes:.2} s AES-GCM",
                    private.wall, clear.wall
                ),
            });
        }
    }
    Ok(lines)
}

fn copied(options: &Options, way: Way, mode: &Mode, how: &str) -> String {
    let mebibytes = options.size() >> 20;
    format!("{mebibytes} MiB {}, {}, {how}", way.name(), mode.name)
}

/// Returns throughput and processor time of both sides in words.
pub(crate) fn rates(size: u64, us: Cost, them: Cost) -> String {
    let (gigabytes, gibibytes) = (gigabytes(size), gigabytes(size) * 1e9 / f64::from(1 << 30));
    format!(
        "{:.2} / {:.2} GB/s, CPU {:.2} / {:.2} s a GiB",
        gigabytes / us.wall,
        gigabytes / them.wall,
        us.cpu / gibibytes,
        them.cpu / gibibytes
    )
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

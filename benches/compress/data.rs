//! The five data sets of the paper and one more, generated from a fixed seed or from this machine's
//! libraries.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use tempfile::TempDir;
use xio_testkit::Random;

use crate::options::Options;

/// Data sets in files of a temporary folder.
#[derive(Debug)]
pub(crate) struct Sets {
    folder: TempDir,
}

/// Names of the sets, and their origin.
pub(crate) const SETS: [(&str, &str); 6] = [
    ("zero", "bytes of zero"),
    (
        "ascii",
        "a generated census: comma-separated counts of some columns for each tract",
    ),
    (
        "binary",
        "shared libraries of this machine, one after the other",
    ),
    (
        "media",
        "deflated libraries in transport packets of 188 bytes, like video",
    ),
    ("random", "numbers of a seeded generator"),
    (
        "sparse",
        "bytes of zero but one in 512, so that no block is a fill of one byte",
    ),
];

impl Sets {
    /// Returns the file of a set.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the bytes of a set.
    pub(crate) fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.path(name);
        fs::read(&path).with_context(|| path.display().to_string())
    }
}

/// Generates every set in the selected length.
pub(crate) fn make(options: &Options) -> Result<Sets> {
    let folder = tempfile::tempdir()?;
    let size = options.size();
    let libraries = libraries(size)?;
    for (name, about) in SETS {
        let bytes = match name {
            "zero" => vec![0; size],
            "ascii" => census(size),
            "binary" => repeat(&libraries, size),
            "media" => packets(&libraries, size)?,
            "sparse" => (0..size).map(|at| u8::from(at % 512 == 0)).collect(),
            _ => Random::new(5).bytes(size),
        };
        fs::write(folder.path().join(name), bytes)?;
        eprintln!("{name}: {} MiB, {about}", size >> 20);
    }
    Ok(Sets { folder })
}

fn repeat(bytes: &[u8], size: usize) -> Vec<u8> {
    bytes.iter().copied().cycle().take(size).collect()
}

/// Returns shared libraries up to this length; they are repeated if there are fewer, as in the
/// paper.
fn libraries(size: usize) -> Result<Vec<u8>> {
    let mut paths: Vec<_> = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"]
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_library(path))
        .collect();
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        if all.len() >= size {
            break;
        }
        all.extend(fs::read(path)?);
    }
    ensure!(
        !all.is_empty(),
        "this machine has no shared libraries where they are expected"
    );
    Ok(all)
}

fn is_library(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name.contains(".so") && path.is_file() && !path.is_symlink()
}

/// Returns lines like those of census summary files: places in order, and mostly small counts.
fn census(size: usize) -> Vec<u8> {
    let mut random = Random::new(3);
    let mut text = String::with_capacity(size + 1000);
    let (mut record, mut county, mut tract) = (0_u32, 1, 100);
    while text.len() < size {
        record += 1;
        tract += 1;
        if random.percent(2) {
            county += 2;
            tract = 100;
        }
        let people = random.up_to(6000);
        let _ = write!(
            text,
            "uSF1,MT,00001,01,{record:07},30,{county:03},{tract:06},"
        );
        for column in 0..40 {
            // Most columns are 0.
            let count = match column {
                0 => people,
                1 => people * random.up_to(25) / 100,
                _ if random.percent(3) => random.up_to(30),
                _ => 0,
            };
            let _ = write!(text, "{count},");
        }
        text.push_str("0\r\n");
    }
    text.truncate(size);
    text.into_bytes()
}

/// Returns incompressible payload in packets with compressible headers, like an MPEG transport
/// stream.
fn packets(libraries: &[u8], size: usize) -> Result<Vec<u8>> {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::new(6));
    packed.write_all(libraries)?;
    let packed = packed.finish()?;
    let mut bytes = Vec::with_capacity(size + 188);
    let mut counter = 0_u8;
    let mut payload = packed.iter().copied().cycle();
    while bytes.len() < size {
        counter = (counter + 1) & 0x0F;
        bytes.extend([0x47, 0x01, 0x00, 0x10 | counter]);
        bytes.extend(payload.by_ref().take(184));
    }
    bytes.truncate(size);
    Ok(bytes)
}

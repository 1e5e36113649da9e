//! Demonstration: copies between the programs over loopback, with digests and a table of speeds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::striped;
use anyhow::{Context, Result, bail, ensure};
use workspace_tests::{
    Digests, Host, Profile, Tree, binaries, run as run_program, sha256, tree_digests,
};

pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// The amount of data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Bytes of the one large file.
    large: u64,
    /// Number of small files.
    files: u64,
}

impl Size {
    /// The amount of `cargo xtask demo`.
    const FULL: Self = Self {
        large: 256 << 20,
        files: 1000,
    };
    /// The amount of the tests.
    pub(crate) const QUICK: Self = Self {
        large: 16 << 20,
        files: 100,
    };
}

/// Builds the programs in release mode and runs the demonstration.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let has = |flag: &str| words.iter().any(|word| word == flag);
    if let Some(other) = words
        .iter()
        .find(|word| !["--quick", "--striped"].contains(&word.as_str()))
    {
        bail!("demo takes --quick and --striped, not {other}");
    }
    let size = match has("--quick") {
        true => Size::QUICK,
        false => Size::FULL,
    };
    println!("building gridftp-server and gridftp-cp (release)");
    let folder = binaries(Profile::Release)?;
    match has("--striped") {
        true => striped::show(&folder, 4 * size.large),
        false => show(&folder, size),
    }
}

/// Runs the demonstration with the programs in `folder`, and prints a row for each copy.
pub(crate) fn show(folder: &Path, size: Size) -> Result<()> {
    let tree = Tree::new()?;
    let demo = Demo {
        client: folder.join("gridftp-cp"),
        one: Host::from_binary(&folder.join("gridftp-server"), &tree.dir("one")?, &[])?,
        two: Host::from_binary(&folder.join("gridftp-server"), &tree.dir("two")?, &[])?,
        tree: &tree,
    };
    println!(
        "servers listen on {} and {}",
        demo.one.addr(),
        demo.two.addr()
    );
    demo.rows(size)?;
    let root = tree.root().to_path_buf();
    drop(demo);
    drop(tree);
    ensure!(!root.exists(), "{} is left behind", root.display());
    println!(
        "all digests agree; servers stopped; {} removed",
        root.display()
    );
    Ok(())
}

/// The programs and trees of one run.
struct Demo<'a> {
    client: PathBuf,
    one: Host,
    two: Host,
    tree: &'a Tree,
}

impl Demo<'_> {
    /// Copies one large file and a tree of small ones every way.
    fn rows(&self, size: Size) -> Result<()> {
        let large = self.tree.file("local/large", size.large, 1)?;
        for n in 0..size.files {
            self.tree.file(
                &format!("local/small/dir {}/file {n}", n % 10),
                1 + n * 10 % 4096,
                n,
            )?;
        }
        println!(
            "{:<44} {:>10} {:>8} {:>8}  digest",
            "copy", "size", "seconds", "MB/s"
        );
        let streams = ["--parallel", "4", "--mode", "extended"];

        let whole = sha256(&large)?;
        self.row(
            "upload, MODE E, 4 streams",
            size.large,
            &streams,
            &text(&large),
            &self.one.url("up"),
            || Ok(sha256(&self.one.path("up"))? == whole),
        )?;
        self.row(
            "download, MODE E, 4 streams",
            size.large,
            &streams,
            &self.one.url("up"),
            &self.local("down"),
            || Ok(sha256(&self.tree.path("local/down"))? == whole),
        )?;
        let small = tree_digests(&self.tree.path("local/small"))?;
        let bytes = bytes_below(&self.tree.path("local/small"), &small)?;
        let name = format!("upload, tree of {} small files", size.files);
        let source = self.local("small/");
        self.row(
            &name,
            bytes,
            &["--recursive"],
            &source,
            &self.one.url("tree/"),
            || Ok(tree_digests(&self.one.path("tree"))? == small),
        )?;
        let name = format!("download, tree of {} small files", size.files);
        self.row(
            &name,
            bytes,
            &["--recursive"],
            &self.one.url("tree/"),
            &self.local("back/"),
            || Ok(tree_digests(&self.tree.path("local/back"))? == small),
        )?;
        let (from, to) = (self.one.url("up"), self.two.url("copy"));
        self.row(
            "third party, server to server, 4 streams",
            size.large,
            &streams,
            &from,
            &to,
            || Ok(sha256(&self.two.path("copy"))? == whole),
        )?;
        Ok(())
    }

    /// Runs a copy, compares it and prints a row.
    fn row(
        &self,
        name: &str,
        bytes: u64,
        flags: &[&str],
        from: &str,
        to: &str,
        same: impl FnOnce() -> Result<bool>,
    ) -> Result<()> {
        let started = Instant::now();
        let mut copy = Command::new(&self.client);
        run_program(copy.arg("--quiet").args(flags).args([from, to]), LIMIT)?
            .ok()
            .with_context(|| {
                format!(
                    "{name}; output of the servers:\n{}{}",
                    self.one.output(),
                    self.two.output()
                )
            })?;
        let seconds = started.elapsed().as_secs_f64();
        let same = same()?;
        let rate = megabytes(bytes) / seconds;
        let digest = if same { "ok" } else { "WRONG" };
        println!(
            "{name:<44} {:>7.1} MB {seconds:>8.2} {rate:>8.0}  {digest}",
            megabytes(bytes)
        );
        ensure!(same, "{name}: the copy differs from the original");
        Ok(())
    }

    /// Returns the path of a local file or directory; a trailing slash stays.
    fn local(&self, name: &str) -> String {
        text(&self.tree.path("local").join(name))
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[expect(clippy::cast_precision_loss, reason = "the number is rounded")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn bytes_below(root: &Path, files: &Digests) -> Result<u64> {
    files
        .keys()
        .map(|name| Ok(fs::metadata(root.join(name))?.len()))
        .sum()
}

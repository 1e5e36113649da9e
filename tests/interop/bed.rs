//! One copy: servers over fresh trees, files, the client's command line, and the comparison.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_tests::{
    Finished, Host, Peer, Tree, binary, file_url, run, sha256, sha256_range, tree_digests,
};

use crate::cases::{Case, Load};

/// The client of a copy, which determines the server it is tested against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// `globus-url-copy`, against our server.
    Guc,
    /// `gridftp-cp`, against the Globus server.
    Cp,
}

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the server.
    Get,
    /// To the server.
    Put,
    /// Between two servers, the data sent by ours.
    FromOurs,
    /// Between two servers, the data received by ours.
    ToOurs,
}

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(240);

/// Over 4 GiB, and no multiple of a block size.
const HUGE: u64 = (4 << 30) + 3_000_017;

/// One end of a copy: a local directory, or a server over one.
pub(crate) struct End {
    pub(crate) tree: Tree,
    pub(crate) host: Option<Host>,
}

impl End {
    /// Returns a local directory.
    pub(crate) fn local() -> Result<Self> {
        Self::local_in(Tree::new()?)
    }

    fn local_in(tree: Tree) -> Result<Self> {
        Ok(Self { tree, host: None })
    }

    /// Starts our server.
    pub(crate) fn ours() -> Result<Self> {
        Self::ours_in(Tree::new()?)
    }

    fn ours_in(tree: Tree) -> Result<Self> {
        let host = Some(Host::ours(tree.root())?);
        Ok(Self { tree, host })
    }

    /// Starts the Globus server, or returns nothing where it is missing.
    pub(crate) fn globus() -> Result<Option<Self>> {
        Self::globus_in(Tree::new()?)
    }

    fn globus_in(tree: Tree) -> Result<Option<Self>> {
        let host = Host::globus(tree.root(), "interop")?;
        Ok(host.is_some().then_some(Self { tree, host }))
    }

    /// Returns the URL of a file.
    pub(crate) fn url(&self, name: &str) -> String {
        self.host
            .as_ref()
            .map_or_else(|| file_url(&self.path(name)), |host| host.url(name))
    }

    /// Returns the local path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.tree.path(name)
    }

    /// Returns the output of the server, for messages.
    pub(crate) fn output(&self) -> String {
        self.host.as_ref().map(Host::output).unwrap_or_default()
    }
}

impl Client {
    /// Returns the command, or nothing where the client is missing.
    pub(crate) fn command(self) -> Result<Option<Command>> {
        Ok(match self {
            Self::Guc => Peer::GlobusUrlCopy.require("interop"),
            Self::Cp => {
                let mut client = Command::new(binary("gridftp-cp")?);
                // A copy between servers that passes this machine would hide what they refuse.
                client.env("GRIDFTP_RELAY", "never");
                Some(client)
            }
        })
    }

    fn flags(self, case: &Case) -> &'static [&'static str] {
        match self {
            Self::Guc => case.guc,
            Self::Cp => case.cp,
        }
    }

    /// Returns the flags of a recursive copy.
    pub(crate) fn recursive(self) -> &'static [&'static str] {
        match self {
            Self::Guc => &["-r", "-cd"],
            Self::Cp => &["-r"],
        }
    }

    /// Returns source and destination, or nothing where a server is missing.
    pub(crate) fn ends(self, way: Way) -> Result<Option<(End, End)>> {
        self.ends_in(way, Tree::new)
    }

    fn ends_in(self, way: Way, tree: impl Fn() -> Result<Tree>) -> Result<Option<(End, End)>> {
        let server = || match self {
            Self::Guc => End::ours_in(tree()?).map(Some),
            Self::Cp => End::globus_in(tree()?),
        };
        let ends = match way {
            Way::Get => server()?.map(|from| Ok((from, End::local_in(tree()?)?))),
            Way::Put => server()?.map(|to| Ok((End::local_in(tree()?)?, to))),
            Way::FromOurs => End::globus_in(tree()?)?.map(|to| Ok((End::ours_in(tree()?)?, to))),
            Way::ToOurs => End::globus_in(tree()?)?.map(|from| Ok((from, End::ours_in(tree()?)?))),
        };
        ends.transpose()
    }
}

/// Copies the files of one case and compares them.
pub(crate) fn copy(client: Client, way: Way, case: &Case) -> Result<()> {
    let Some(mut command) = client.command()? else {
        return Ok(());
    };
    let huge = matches!(case.load, Load::Sparse);
    // Before any tree is created, so that a tree sees the memory that other tests use.
    let _turn = huge.then(heavy);
    let tree = || if huge { Tree::roomy(HUGE) } else { Tree::new() };
    let Some((from, to)) = client.ends_in(way, tree)? else {
        return Ok(());
    };
    let names = create(&from.tree, case.load)?;
    command.args(client.flags(case));
    match names.as_slice() {
        [name] => {
            to.tree.dir(&folder_of(name))?;
            command.args([from.url(name), to.url(name)]);
        }
        names => {
            to.tree.dir("many")?;
            several(client, &mut command, &from, &to, names)?;
        }
    }
    finish(&mut command, &from, &to)?;
    if let Load::Part { offset, length } = case.load {
        return same_part(&from, &to, offset, length);
    }
    for name in &names {
        let want = if matches!(case.load, Load::Sparse) {
            sparse_digest(&from)?
        } else {
            sha256(&from.path(name))?
        };
        ensure!(want == sha256(&to.path(name))?, "{name} differs");
    }
    let arrived = to.tree.names("")?.len();
    ensure!(
        arrived == names.len(),
        "{arrived} files arrived instead of {}",
        names.len()
    );
    Ok(())
}

/// Copies a tree of files of various sizes and compares it.
pub(crate) fn copy_tree(client: Client, way: Way, case: &Case) -> Result<()> {
    let Some(mut command) = client.command()? else {
        return Ok(());
    };
    let Some((from, to)) = client.ends(way)? else {
        return Ok(());
    };
    for n in 0..25 {
        from.tree.file(&format!("tree/a/file {n}"), n * 1001, n)?;
    }
    from.tree.file("tree/a/b/c d/deep", 700_001, 1)?;
    from.tree.file("tree/a/b/empty", 0, 2)?;
    from.tree.file("tree/one byte", 1, 3)?;
    from.tree.file("tree/large", 3_000_001, 4)?;
    command.args(client.recursive()).args(client.flags(case));
    command.args([from.url("tree/"), to.url("copy/of tree/")]);
    finish(&mut command, &from, &to)?;
    let (want, got) = (
        tree_digests(&from.path("tree"))?,
        tree_digests(&to.path("copy/of tree"))?,
    );
    ensure!(
        want == got,
        "trees differ: {:?} instead of {:?}",
        got.keys(),
        want.keys()
    );
    Ok(())
}

/// Runs a client, and returns an error with the output of all programs unless it succeeds.
pub(crate) fn finish(command: &mut Command, from: &End, to: &End) -> Result<Finished> {
    run(command, LONG).and_then(Finished::ok).with_context(|| {
        format!(
            "output of the source:\n{}output of the destination:\n{}",
            from.output(),
            to.output()
        )
    })
}

/// Creates the files of a load and returns their names.
fn create(tree: &Tree, load: Load) -> Result<Vec<String>> {
    let names = match load {
        Load::Many(count) => {
            for n in 0..count {
                tree.file(&format!("many/file {n}"), n * 117, n)?;
            }
            return Ok((0..count).map(|n| format!("many/file {n}")).collect());
        }
        Load::Blanks => {
            tree.file("a  dir/ with blanks ", 70_001, 5)?;
            "a  dir/ with blanks "
        }
        Load::File(size) => {
            tree.file("file", size, 6)?;
            "file"
        }
        Load::Part { .. } => {
            tree.file("file", 5_000_003, 7)?;
            "file"
        }
        Load::Sparse => {
            tree.sparse("file", HUGE, 8)?;
            "file"
        }
    };
    Ok(vec![names.to_owned()])
}

fn folder_of(name: &str) -> String {
    Path::new(name)
        .parent()
        .map(|folder| folder.display().to_string())
        .unwrap_or_default()
}

/// Names many files on the command line, or in a list file for `globus-url-copy`.
fn several(
    client: Client,
    command: &mut Command,
    from: &End,
    to: &End,
    names: &[String],
) -> Result<()> {
    match client {
        Client::Cp => {
            command
                .args(names.iter().map(|name| from.url(name)))
                .arg(to.url("many/"));
        }
        Client::Guc => {
            let lines = names
                .iter()
                .map(|name| format!("\"{}\" \"{}\"\n", from.url(name), to.url(name)));
            let list = from.path("list");
            fs::write(&list, lines.collect::<String>())?;
            command.arg("-f").arg(&list);
        }
    }
    Ok(())
}

/// Compares a part, whose offset in the copy is that in the source.
fn same_part(from: &End, to: &End, offset: u64, length: u64) -> Result<()> {
    let want = sha256_range(&from.path("file"), offset, length)?;
    ensure!(
        sha256_range(&to.path("file"), offset, u64::MAX)? == want,
        "the part differs"
    );
    let size = fs::metadata(to.path("file"))?.len();
    ensure!(size == offset + length, "the copy ends at {size}");
    Ok(())
}

/// Returns the digest of the sparse file, which is slow and the same in every test.
fn sparse_digest(from: &End) -> Result<String> {
    static DIGEST: OnceLock<String> = OnceLock::new();
    if let Some(digest) = DIGEST.get() {
        return Ok(digest.clone());
    }
    let digest = sha256(&from.path("file"))?;
    Ok(DIGEST.get_or_init(|| digest).clone())
}

/// Waits until no other test fills the disk.
fn heavy() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

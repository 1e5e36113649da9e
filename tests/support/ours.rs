//! Builds this project's programs, and finds them beside the running executable.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};

/// The cargo profile of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// The profile of the tests.
    Dev,
    /// The profile of releases.
    Release,
}

impl Profile {
    /// Returns the argument of cargo's `--profile`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Release => "release",
        }
    }

    /// Returns the profile's folder in the target directory.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// Builds the programs where needed and returns the folder that holds them.
///
/// Where `GRIDFTP_BIN_DIR` is set, it names that folder and nothing is built.
pub fn binaries(profile: Profile) -> Result<PathBuf> {
    if let Some(folder) = env::var_os("GRIDFTP_BIN_DIR") {
        return Ok(folder.into());
    }
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        .args(["build", "--bins", "--profile", profile.name()])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    match profile {
        // The tests are built with the features of the whole workspace too.
        Profile::Dev => build.arg("--workspace"),
        Profile::Release => {
            let packages = ["gridftp-server", "gridftp-client", "xio-perf"];
            build.args(packages.map(|name| ["--package", name]).concat())
        }
    };
    let built = build.status().context("run cargo to build the programs")?;
    ensure!(built.success(), "the programs do not build");
    programs_folder(profile)
}

/// Returns the folder for programs of that profile, which need not be built.
pub fn programs_folder(profile: Profile) -> Result<PathBuf> {
    Ok(target_folder()?.join(profile.folder()))
}

/// Returns the folder for peers that are unpacked instead of installed, or nothing when this
/// program does not lie in a target directory.
pub fn peers_folder() -> Option<PathBuf> {
    Some(target_folder().ok()?.join("peers"))
}

fn target_folder() -> Result<PathBuf> {
    let exe = env::current_exe()?;
    let target = exe
        .ancestors()
        .find(|folder| folder.ends_with("debug") || folder.ends_with("release"));
    let Some(target) = target.and_then(Path::parent) else {
        bail!("{} does not lie in a target directory", exe.display());
    };
    Ok(target.to_path_buf())
}

/// Returns the path of one of our programs, built with the profile of the running test.
pub fn binary(name: &str) -> Result<PathBuf> {
    static FOLDER: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let profile = if cfg!(debug_assertions) {
        Profile::Dev
    } else {
        Profile::Release
    };
    let folder = FOLDER.get_or_init(|| binaries(profile).map_err(|error| format!("{error:#}")));
    let path = folder
        .as_ref()
        .map_err(|error| anyhow::anyhow!("{error}"))?
        .join(name);
    ensure!(path.is_file(), "{} is missing", path.display());
    Ok(path)
}

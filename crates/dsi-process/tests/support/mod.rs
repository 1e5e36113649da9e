//! `Example`: the storage in Python as a process, for the tests of several crates.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The example over `tree` in a directory of its own.
pub(crate) struct Example {
    dir: TempDir,
    python: PathBuf,
    program: PathBuf,
    pub(crate) child: Child,
}

impl Example {
    /// `None` without Python and grpcio, which is told.
    pub(crate) fn start() -> Option<Self> {
        Self::changed("")
    }

    /// The same, whose class `Folder` is changed by these lines of Python.
    pub(crate) fn changed(lines: &str) -> Option<Self> {
        let python = python()?;
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("tree")).unwrap();
        let program = dir.path().join("program.py");
        let text = format!("import sys, folder\n{lines}\nfolder.main(*sys.argv[1:])\n");
        std::fs::write(&program, text).unwrap();
        let child = spawn(&python, &program, dir.path());
        Some(Self {
            dir,
            python,
            program,
            child,
        })
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.python, &self.program, self.dir.path());
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // It may have been killed by the test.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The root of the workspace, whose crates use this file.
fn workspace() -> &'static Path {
    let mut up = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    up.find(|dir| dir.join("crates/dsi-process").is_dir())
        .unwrap()
}

/// Starts the example and waits until it serves.
fn spawn(python: &Path, program: &Path, dir: &Path) -> Child {
    let crates = workspace().join("crates");
    let places = [
        crates.join("dsi-process/examples"),
        crates.join("dsi-rpc/proto"),
    ];
    let mut child = Command::new(python)
        .arg(program)
        .args([dir.join("tree"), dir.join("socket")])
        .env("PYTHONPATH", std::env::join_paths(places).unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

/// A Python with grpcio: that of the system, or one in the folder of peers, which is made once.
fn python() -> Option<PathBuf> {
    let has_grpc = |python: &Path| {
        let mut check = Command::new(python);
        check.args(["-c", "import grpc, grpc_tools, socket; socket.send_fds"]);
        let checked = check.stderr(Stdio::null()).status();
        checked.is_ok_and(|status| status.success())
    };
    let peers = workspace().join("target/peers");
    let venv = peers.join("python-grpc");
    let own = venv.join("bin/python");
    for known in [PathBuf::from("python3"), own.clone()] {
        if has_grpc(&known) {
            return Some(known);
        }
    }
    // Two tests may make it at a time, each in a folder of its own; the first one's stays.
    std::fs::create_dir_all(&peers).unwrap();
    let made = tempfile::tempdir_in(&peers).unwrap();
    let run = |program: &Path, args: &[&str]| {
        let done = Command::new(program)
            .args(args)
            .stdout(Stdio::null())
            .status();
        done.is_ok_and(|status| status.success())
    };
    let pip = made.path().join("bin/python");
    let packages = ["-m", "pip", "install", "--quiet", "grpcio", "grpcio-tools"];
    if run(
        Path::new("python3"),
        &["-m", "venv", &made.path().display().to_string()],
    ) && run(&pip, &packages)
    {
        let made = made.keep();
        drop(std::fs::rename(&made, &venv));
        return Some(own);
    }
    let missing = "python3 with grpcio and grpcio-tools, which pip could not install";
    assert!(std::env::var_os("REQUIRE_PEERS").is_none(), "{missing}");
    eprintln!("SKIPPED storage in a process: {missing}");
    None
}

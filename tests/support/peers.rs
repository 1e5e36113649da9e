//! `Peer`: programs of other projects that the suites test against, and the report of a missing
//! one.

use std::env;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ours::peers_folder;

/// Folders of shared libraries.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// A program or library of another project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Peer {
    /// The GridFTP server of the Grid Community Toolkit.
    GlobusServer,
    /// The copy program of the Grid Community Toolkit.
    GlobusUrlCopy,
    /// The program of the Grid Community Toolkit that makes proxies.
    GridProxyInit,
    /// The program of the Grid Community Toolkit that shows proxies.
    GridProxyInfo,
    /// The `curl` program.
    Curl,
    /// The `lftp` program.
    Lftp,
    /// The `openssl` program.
    Openssl,
    /// The `python3` program.
    Python,
    /// The `ip` program, for network namespaces.
    Ip,
    /// The C++ compiler, for a program of libudt.
    Gxx,
    /// The UDT library of the protocol's author.
    LibUdt,
    /// The measuring program of the Grid Community Toolkit.
    GlobusXioPerf,
    /// The UDT driver of the Grid Community Toolkit.
    GlobusUdt,
    /// The `rclone` program.
    Rclone,
    /// The `aria2c` program.
    Aria2,
    /// The FTP server library of Python.
    Pyftpdlib,
    /// The file system library of Python, `PyFilesystem2`.
    PyFilesystem,
    /// The FTP client library of Apache Commons.
    CommonsNet,
    /// The `java` program of a development kit, which runs source files.
    Java,
    /// The `vsftpd` server.
    Vsftpd,
    /// The `proftpd` server.
    Proftpd,
    /// TLS for `proftpd`.
    ProftpdTls,
    /// The `pure-ftpd` server.
    PureFtpd,
    /// The program that creates accounts of `pure-ftpd`.
    PurePw,
    /// The `strace` program, which makes system calls fail.
    Strace,
    /// The `ssh` program.
    Ssh,
    /// The ssh server.
    Sshd,
    /// The `versitygw` server, which has the interface of S3 over files.
    Versitygw,
    /// The `moto` server, which imitates S3 in memory.
    Moto,
    /// The `zsh` shell.
    Zsh,
    /// The `fish` shell.
    Fish,
}

/// The way to install a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A Debian package, installed.
    Installed,
    /// A Debian package, unpacked into a folder: Debian's FTP server packages conflict with each
    /// other, and installing one starts it.
    Unpacked,
    /// A Go module, compiled into a folder.
    Go,
    /// A Python package in an environment of its own.
    Pip,
}

impl Peer {
    /// All peers.
    pub const ALL: [Self; 31] = [
        Self::GlobusServer,
        Self::GlobusUrlCopy,
        Self::GridProxyInit,
        Self::GridProxyInfo,
        Self::Curl,
        Self::Lftp,
        Self::Openssl,
        Self::Python,
        Self::Ip,
        Self::Gxx,
        Self::LibUdt,
        Self::GlobusXioPerf,
        Self::GlobusUdt,
        Self::Rclone,
        Self::Aria2,
        Self::Pyftpdlib,
        Self::PyFilesystem,
        Self::CommonsNet,
        Self::Java,
        Self::Vsftpd,
        Self::Proftpd,
        Self::ProftpdTls,
        Self::PureFtpd,
        Self::PurePw,
        Self::Strace,
        Self::Ssh,
        Self::Sshd,
        Self::Versitygw,
        Self::Moto,
        Self::Zsh,
        Self::Fish,
    ];

    /// Returns the name of the program, or the file of the library.
    pub fn program(self) -> &'static str {
        match self {
            Self::GlobusServer => "globus-gridftp-server",
            Self::GlobusUrlCopy => "globus-url-copy",
            Self::GridProxyInit => "grid-proxy-init",
            Self::GridProxyInfo => "grid-proxy-info",
            Self::Curl => "curl",
            Self::Lftp => "lftp",
            Self::Openssl => "openssl",
            Self::Python => "python3",
            Self::Ip => "ip",
            Self::Gxx => "g++",
            Self::LibUdt => "udt/udt.h",
            Self::GlobusXioPerf => "globus-xioperf",
            Self::GlobusUdt => "libglobus_xio_udt_driver.so",
            Self::Rclone => "rclone",
            Self::Aria2 => "aria2c",
            Self::Pyftpdlib => "pyftpdlib/__init__.py",
            Self::PyFilesystem => "fs/__init__.py",
            Self::CommonsNet => "commons-net.jar",
            Self::Java => "java",
            Self::Vsftpd => "vsftpd",
            Self::Proftpd => "proftpd",
            Self::ProftpdTls => "mod_tls.so",
            Self::PureFtpd => "pure-ftpd",
            Self::PurePw => "pure-pw",
            Self::Strace => "strace",
            Self::Ssh => "ssh",
            Self::Sshd => "sshd",
            Self::Versitygw => "versitygw",
            Self::Moto => "moto_server",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// Returns the package or module that holds it.
    pub fn package(self) -> &'static str {
        match self {
            Self::GlobusServer => "globus-gridftp-server-progs",
            Self::GlobusUrlCopy => "globus-gass-copy-progs",
            Self::GridProxyInit | Self::GridProxyInfo => "globus-proxy-utils",
            Self::Curl => "curl",
            Self::Lftp => "lftp",
            Self::Openssl => "openssl",
            Self::Python => "python3",
            Self::Ip => "iproute2",
            Self::Gxx => "g++",
            Self::LibUdt => "libudt-dev",
            Self::GlobusXioPerf => "globus-xioperf",
            Self::GlobusUdt => "libglobus-xio-udt-driver",
            Self::Rclone => "rclone",
            Self::Aria2 => "aria2",
            Self::Pyftpdlib => "python3-pyftpdlib",
            Self::PyFilesystem => "python3-fs",
            Self::CommonsNet => "libcommons-net-java",
            Self::Java => "default-jdk-headless",
            Self::Vsftpd => "vsftpd",
            Self::Proftpd => "proftpd-core",
            Self::ProftpdTls => "proftpd-mod-crypto",
            Self::PureFtpd => "pure-ftpd",
            Self::PurePw => "pure-ftpd-common",
            Self::Strace => "strace",
            Self::Ssh => "openssh-client",
            Self::Sshd => "openssh-server",
            Self::Versitygw => "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
            Self::Moto => "moto[server]==5.2.1",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// Returns the tests and measurements that need it.
    pub fn serves(self) -> &'static str {
        match self {
            Self::GlobusServer => {
                "interop: gridftp-cp against globus-gridftp-server, third-party copies; bench"
            }
            Self::GlobusUrlCopy => "interop: globus-url-copy against gridftp-server; bench",
            Self::GridProxyInit | Self::GridProxyInfo => {
                "interop: gridftp-cp proxy against the programs of the Globus project"
            }
            Self::Curl => "interop: curl against gridftp-server",
            Self::Lftp => "interop: lftp against gridftp-server",
            Self::Openssl => {
                "cli, interop: keys with a passphrase, proxies, TLS; bench: bulk speed of TLS"
            }
            Self::Python => {
                "interop: HTTP against the server of its library, its ftplib against gridftp-server"
            }
            Self::Ip => "bench: small files over the emulated link",
            Self::Gxx | Self::LibUdt => "udt, interop: our UDT against libudt; bench",
            Self::GlobusXioPerf | Self::GlobusUdt => {
                "udt, interop: our UDT against globus-xioperf and the Globus server; perf: xio-perf"
            }
            Self::Ssh | Self::Sshd => "interop: copies through ssh",
            Self::Versitygw | Self::Moto => "interop: object stores behind gridftp-server",
            Self::Zsh | Self::Fish => "cli: completions of remote names",
            Self::Strace => "interop: our programs when system calls are interrupted",
            Self::Rclone => "interop: rclone against gridftp-server",
            Self::Aria2 => "interop: aria2 against gridftp-server",
            Self::PyFilesystem => "interop: PyFilesystem2 against gridftp-server",
            Self::CommonsNet | Self::Java => "interop: Apache Commons Net against gridftp-server",
            Self::Pyftpdlib
            | Self::Vsftpd
            | Self::Proftpd
            | Self::ProftpdTls
            | Self::PureFtpd
            | Self::PurePw => "interop: gridftp-cp against widely used FTP servers",
        }
    }

    /// Returns the way to install it.
    pub fn origin(self) -> Origin {
        match self {
            Self::Vsftpd | Self::Proftpd | Self::ProftpdTls | Self::PureFtpd | Self::PurePw => {
                Origin::Unpacked
            }
            Self::Versitygw => Origin::Go,
            Self::Moto => Origin::Pip,
            _ => Origin::Installed,
        }
    }

    /// Returns the command that installs it.
    fn command(self) -> String {
        let program = match self.origin() {
            Origin::Installed | Origin::Unpacked => "apt-get install",
            Origin::Go => "go install",
            Origin::Pip => "pip install",
        };
        format!("{program} {}", self.package())
    }

    /// Returns the path of the program, or nothing when it is not installed.
    pub fn find(self) -> Option<PathBuf> {
        match self {
            Self::LibUdt => return self.find_in(&["/usr/include", "/usr/local/include"]),
            Self::GlobusUdt => return self.find_in(&LIBRARIES),
            Self::Pyftpdlib | Self::PyFilesystem => {
                return self.find_in(&["/usr/lib/python3/dist-packages"]);
            }
            Self::CommonsNet => return self.find_in(&["/usr/share/java"]),
            _ => {}
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        let unpacked = peers_folder().into_iter().flat_map(|peers| {
            [
                "usr/sbin",
                "usr/bin",
                "usr/lib/proftpd",
                "go/bin",
                "python/bin",
            ]
            .map(|folder| peers.join(folder))
        });
        env::split_paths(&path)
            .chain(system)
            .chain(unpacked)
            .map(|folder| folder.join(self.program()))
            .find(|file| file.is_file())
    }

    fn find_in(self, folders: &[&str]) -> Option<PathBuf> {
        let files = folders
            .iter()
            .map(|folder| Path::new(folder).join(self.program()));
        files.into_iter().find(|file| file.is_file())
    }

    /// Returns a command for the program, or nothing after reporting that `suite` is skipped.
    ///
    /// # Panics
    ///
    /// Panics when the program is missing and `REQUIRE_PEERS=1` is set.
    pub fn require(self, suite: &str) -> Option<Command> {
        if let Some(program) = self.find() {
            return Some(Command::new(program));
        }
        let why = format!("{} is not installed ({})", self.program(), self.command());
        skip(suite, &why);
        None
    }
}

/// Reports that `suite` is skipped.
///
/// # Panics
///
/// Panics when `REQUIRE_PEERS=1` is set.
pub fn skip(suite: &str, why: &str) {
    let needed = env::var_os("REQUIRE_PEERS").is_some_and(|value| value == OsStr::new("1"));
    assert!(!needed, "{suite}: {why}, and REQUIRE_PEERS=1 is set");
    // The test runner hides the output of `eprintln!` of a test that passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {suite}: {why}");
}

/// Returns whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

//! `StorageKind`: the kinds of storage by name, with their options and the way to open one.

#[cfg(feature = "gateway")]
mod gridftp;
#[cfg(feature = "object")]
mod object;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gridftp_dsi::error::ErrorKind as Kind;
use gridftp_dsi::{Budget, DynDsi, Memory};
use gridftp_dsi_null::Null;
use gridftp_dsi_posix::Posix;
use gridftp_dsi_staged::{Hooks, Staged};
use xio::{ByteSize, Entry, Error, ErrorKind, NoOptions, Operation, Opt, Options, Setting};

/// A kind of storage that `--storage` and the file name.
#[derive(Debug)]
#[non_exhaustive]
pub struct StorageKind {
    /// The name.
    pub name: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// The options, in alphabetical order.
    pub options: &'static [Opt],
    check: fn(&Entry, &Defaults) -> xio::Result<()>,
    open: fn(&Entry, &Defaults) -> gridftp_dsi::Result<Arc<dyn DynDsi>>,
}

/// The options of the server that hold for storages without their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Defaults {
    pub(crate) root: Option<PathBuf>,
    pub(crate) index: Option<PathBuf>,
    pub(crate) sync: bool,
    /// Bytes of memory for the parts of all uploads.
    pub(crate) part_memory: u64,
    /// Memory for the read-ahead of all downloads.
    pub(crate) read_memory: Budget,
}

impl StorageKind {
    /// Checks the options of an entry.
    pub(crate) fn check(&self, entry: &Entry, defaults: &Defaults) -> xio::Result<()> {
        (self.check)(entry, defaults)
    }

    /// The directory on this machine that a storage serves, and that of its index.
    pub(crate) fn tree(
        &self,
        entry: &Entry,
        defaults: &Defaults,
    ) -> Option<(PathBuf, Option<PathBuf>)> {
        let options = PosixOptions::from_entry(entry).ok();
        options
            .filter(|_| self.name == "posix")
            .map(|options| options.folders(defaults))
    }

    /// Opens a storage with checked options.
    pub(crate) fn open(
        &self,
        entry: &Entry,
        defaults: &Defaults,
    ) -> gridftp_dsi::Result<Arc<dyn DynDsi>> {
        (self.open)(entry, defaults)
    }
}

/// A storage over another one, which `--storage` and the file name behind that.
#[derive(Debug)]
#[non_exhaustive]
pub struct StorageLayer {
    /// The name.
    pub name: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// The options, in alphabetical order.
    pub options: &'static [Opt],
    check: fn(&Entry) -> xio::Result<()>,
    open: fn(&Entry, Arc<dyn DynDsi>) -> Arc<dyn DynDsi>,
}

impl StorageLayer {
    /// Checks the options of an entry.
    pub(crate) fn check(&self, entry: &Entry) -> xio::Result<()> {
        (self.check)(entry)
    }

    /// Puts the layer on a storage, with checked options.
    pub(crate) fn open(&self, entry: &Entry, below: Arc<dyn DynDsi>) -> Arc<dyn DynDsi> {
        (self.open)(entry, below)
    }
}

/// All layers.
pub const LAYERS: [StorageLayer; 1] = [StorageLayer {
    name: "staged",
    about: "Files of another storage that may be in an archive, from which a program retrieves them",
    options: StagedOptions::OPTIONS,
    check: |entry| StagedOptions::from_entry(entry)?.hooks().map(drop),
    open: |entry, below| {
        let options = StagedOptions::from_entry(entry).unwrap_or_default();
        match options.hooks() {
            Ok(hooks) => Arc::new(Staged::new(below, hooks)),
            // The options were checked.
            Err(_) => below,
        }
    },
}];

/// The kind that the data nodes of a front end serve.
pub(crate) const NODES: &str = "nodes";

/// All kinds.
pub const KINDS: &[StorageKind] = &[
    #[cfg(feature = "gateway")]
    StorageKind {
        name: "gridftp",
        about: "A directory of another FTP or GridFTP server, behind which this one is a gateway",
        options: gridftp::GatewayOptions::OPTIONS,
        check: |entry, _| gridftp::config(entry).map(drop),
        open: gridftp::open,
    },
    StorageKind {
        name: "memory",
        about: "Files in memory, which are gone when the server ends",
        options: MemoryOptions::OPTIONS,
        check: |entry, _| MemoryOptions::from_entry(entry).map(drop),
        open: |entry, _| {
            let options = MemoryOptions::from_entry(entry).unwrap_or_default();
            Ok(Arc::new(Memory::with_limit(options.limit.bytes())))
        },
    },
    StorageKind {
        name: NODES,
        about: "The storage of the data nodes, for a front end that has none of its own",
        options: NoOptions::OPTIONS,
        check: |entry, _| NoOptions::from_entry(entry).map(drop),
        open: |_, _| {
            let why = "it is for a front end: say `gridftp-server front`";
            Err(gridftp_dsi::Error::new(Kind::Unsupported, "open").because(why))
        },
    },
    StorageKind {
        name: "null",
        about: "Zeros of any size are read, and written bytes are discarded; for measurements",
        options: NoOptions::OPTIONS,
        check: |entry, _| NoOptions::from_entry(entry).map(drop),
        open: |_, _| Ok(Arc::new(Null::new())),
    },
    #[cfg(feature = "object")]
    StorageKind {
        name: "object",
        about: "A bucket of S3, Google Cloud Storage or Azure, with keys from the environment or a file",
        options: object::ObjectOptions::OPTIONS,
        check: |entry, defaults| object::config(entry, defaults.part_memory).map(drop),
        open: object::open,
    },
    StorageKind {
        name: "posix",
        about: "A directory tree of this machine",
        options: PosixOptions::OPTIONS,
        check: |entry, _| PosixOptions::from_entry(entry).map(drop),
        open: posix,
    },
    StorageKind {
        name: "process",
        about: "Storage in a process of its own, which serves a Unix socket",
        options: ProcessOptions::OPTIONS,
        check: |entry, _| ProcessOptions::from_entry(entry)?.path().map(drop),
        open: |entry, _| {
            let options = ProcessOptions::from_entry(entry).unwrap_or_default();
            let path = options.path().unwrap_or_default();
            Ok(Arc::new(gridftp_dsi_process::open(&path)?))
        },
    },
];

xio::options! {
    /// Options of files in memory.
    struct MemoryOptions for "memory" {
        /// Largest size of a file.
        limit: ByteSize = ByteSize::new(256 << 20), "limit";
    }
}

xio::options! {
    /// Options of a directory tree.
    struct PosixOptions for "posix" {
        /// Directory of the index of partial uploads; .gridftp-index in the root by default.
        index: Option<String> = None, "index", Setting::new().takes("a path", &["/var/lib/gridftp"]).local();
        /// Directory to serve; that of --root by default.
        root: Option<String> = None, "root", Setting::new().takes("a path", &["/srv/data"]).local();
        /// Whether whole blocks of zeros in uploads become holes of their files.
        sparse: bool = false, "sparse";
        /// Whether data is flushed before a marker is sent and before a file is published; as
        /// --sync-writes by default.
        sync: Option<bool> = None, "sync";
    }
}

xio::options! {
    /// Options of storage in a process.
    struct ProcessOptions for "process" {
        /// Socket of the process.
        socket: Option<String> = None, "socket", Setting::new().takes("a path", &["/run/storage.sock"]).local();
    }
}

impl ProcessOptions {
    /// The socket, which must be named.
    fn path(&self) -> xio::Result<PathBuf> {
        absolute("process", "socket", self.socket.as_deref(), "a Unix socket")
    }
}

/// The absolute path of an option that must be given.
fn absolute(of: &'static str, name: &str, value: Option<&str>, what: &str) -> xio::Result<PathBuf> {
    let path = value.map(PathBuf::from);
    path.filter(|path| path.is_absolute()).ok_or_else(|| {
        let fact = format!("the option {name} takes the absolute path of {what}");
        Error::new(ErrorKind::BadOption, of, Operation::Plan, fact)
    })
}

xio::options! {
    /// Options of files in an archive.
    struct StagedOptions for "staged" {
        /// Most processes of each program at a time.
        processes: u16 = 16, "processes", Setting::new().only(|n| *n > 0).local();
        /// Program that retrieves the file of its argument.
        recall: Option<String> = None, "recall", Setting::new().takes("a path", &["/usr/local/bin/recall"]).local();
        /// Longest run of that program.
        recall_limit: Duration = Duration::from_secs(24 * 3600), "recall_limit", Setting::new().local();
        /// Program whose exit status is 0 if the file of its argument is at hand, 1 if not.
        status: Option<String> = None, "status", Setting::new().takes("a path", &["/usr/local/bin/status"]).local();
        /// Longest run of that program.
        status_limit: Duration = Duration::from_secs(10), "status_limit", Setting::new().local();
        /// Longest wait of a download for its file.
        wait: Duration = Duration::from_secs(3600), "wait", Setting::new().local();
    }
}

impl StagedOptions {
    /// The programs, which both must be named.
    fn hooks(&self) -> xio::Result<Hooks> {
        let path = |option: &Option<String>, name| {
            absolute("staged", name, option.as_deref(), "a program")
        };
        let (status, recall) = (path(&self.status, "status")?, path(&self.recall, "recall")?);
        let mut hooks = Hooks::new(status, recall);
        hooks.status_limit = self.status_limit;
        hooks.recall_limit = self.recall_limit;
        hooks.processes = self.processes.into();
        hooks.wait = self.wait;
        Ok(hooks)
    }
}

impl PosixOptions {
    /// The directory to serve, and that of the index.
    fn folders(&self, defaults: &Defaults) -> (PathBuf, Option<PathBuf>) {
        let index = self.index.as_ref().map(PathBuf::from);
        match &self.root {
            Some(root) => (root.into(), index),
            None => (
                defaults.root.clone().unwrap_or_else(|| "/".into()),
                index.or_else(|| defaults.index.clone()),
            ),
        }
    }
}

fn posix(entry: &Entry, defaults: &Defaults) -> gridftp_dsi::Result<Arc<dyn DynDsi>> {
    let options = PosixOptions::from_entry(entry).unwrap_or_default();
    let (root, index) = options.folders(defaults);
    let sync = options.sync.unwrap_or(defaults.sync);
    let mut posix = Posix::open(&root)?
        .with_sync(sync)
        .with_sparse(options.sparse);
    if let Some(index) = index {
        posix = posix.with_index(&index);
    }
    Ok(Arc::new(posix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_can_be_given() {
        let kinds = KINDS.iter().map(|kind| (kind.name, kind.options));
        let layers = LAYERS.iter().map(|layer| (layer.name, layer.options));
        for (name, options) in kinds.chain(layers) {
            for option in options {
                let text = format!("{}=x", option.name);
                let entry = Entry::new(name).unwrap().with_options(&text);
                assert!(entry.is_ok(), "{name}: {entry:?}");
            }
        }
    }
}

//! Receipts: one line of JSON for each copied file, signed in groups by the user's credential.
//!
//! A receipt is a promise that others check later, so its format is fixed. After some receipts comes
//! a signature of all that stand since the one before, by number and SHA-256 of their lines, and of
//! the signature before it, or of the line that begins the run: lines that are changed, moved or
//! taken out before a signature show. The last groups of a run, and whole runs, can be cut off.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use base64ct::{Base64, Encoding as _};
use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::types::ChecksumAlgorithm;
use gsi::credential::Credential;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use xio::gsi::NoCredential;

use crate::Location;
use crate::copy::lock;
use crate::grid::read;
use crate::masked::masked;
use crate::options::{CopyOptions, GridOptions};
use crate::program::ends::path_of;
use crate::program::json::object;
use crate::progress::Event;
use crate::url::show;
use crate::words;

/// Most receipts before a signature, and the time from which on the next receipt brings one.
const GROUP: (u64, Duration) = (1000, Duration::from_secs(10));

/// The receipts of a run.
#[derive(Debug)]
pub struct Receipts {
    /// Protection of the connections to each server, by `host:port`.
    servers: Mutex<HashMap<String, Value>>,
    /// The stacks of data connections so far.
    stacks: Mutex<String>,
    /// Offset and length of the part that is copied of each file.
    part: [Option<u64>; 2],
    grid: GridOptions,
    group: Mutex<Group>,
}

/// The receipts since the last signature.
#[derive(Debug)]
struct Group {
    file: File,
    signer: Option<Credential>,
    lines: Lines,
    /// Time of the first one.
    since: Option<Instant>,
}

/// The number and the digest of lines, and the digest of the signature before them.
#[derive(Debug)]
pub struct Lines {
    pub files: u64,
    hasher: Hasher,
    before: String,
}

impl Default for Lines {
    fn default() -> Self {
        Self::after(String::new())
    }
}

impl Lines {
    /// Begins behind a signature.
    fn after(before: String) -> Self {
        Self {
            files: 0,
            hasher: sha256(),
            before,
        }
    }

    /// Adds a receipt, without its line end.
    pub fn add(&mut self, line: &str) {
        self.files += 1;
        self.hasher.update(line.as_bytes());
        self.hasher.update(b"\n");
    }

    /// The message that is signed at `time`, in seconds since 1970.
    pub fn message(&self, time: u64) -> String {
        let (files, before) = (self.files, &self.before);
        let digest = self.hasher.clone().finish();
        format!(
            "gridftp-receipts 1\nfiles {files}\nsha256 {digest}\nbefore {before}\ntime {time}\n"
        )
    }

    /// Goes on behind `line`, a signature or the beginning of a run.
    pub fn go_on(&mut self, line: &str) {
        let mut hasher = sha256();
        hasher.update(line.as_bytes());
        *self = Self::after(hasher.finish());
    }
}

fn sha256() -> Hasher {
    Hasher::new(ChecksumAlgorithm::Sha256).expect("SHA-256 is computed here")
}

impl Receipts {
    /// Goes on with the receipts in the file `path`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(
        path: &Path,
        options: &CopyOptions,
        signer: Option<Credential>,
    ) -> anyhow::Result<Self> {
        let begun = json!({ "receipt": "run", "time": since_1970().as_secs() }).to_string();
        let open = || {
            let mut options = OpenOptions::new();
            let mut file = options.read(true).append(true).create(true).open(path)?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Err(io::Error::other("another run writes receipts to it"));
            }
            // A run that was killed may have left a torn line.
            let torn = file.seek(SeekFrom::End(-1)).is_ok() && {
                let mut last = [0];
                file.read_exact(&mut last)?;
                last != *b"\n"
            };
            let line_end = if torn { "\n" } else { "" };
            file.write_all(format!("{line_end}{begun}\n").as_bytes())?;
            io::Result::Ok(file)
        };
        let file = open().with_context(|| format!("--receipt: {}: write", path.display()))?;
        let mut lines = Lines::default();
        lines.go_on(&begun);
        Ok(Self {
            servers: Mutex::default(),
            stacks: Mutex::new(options.connect.stack.clone()),
            part: [options.offset, options.length],
            grid: options.connect.grid.clone(),
            group: Mutex::new(Group {
                file,
                signer,
                lines,
                since: None,
            }),
        })
    }

    /// The credential that signs: that of the options, or the one of this user.
    ///
    /// # Errors
    /// There is none.
    pub fn signer(options: &GridOptions) -> Result<Credential, NoCredential> {
        read(options.credential.clone())
    }

    /// Writes the receipt of a finished file, and notes the protection of servers and the stacks.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn event(&self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::Connected {
                site,
                control,
                data,
                ..
            } => {
                let server = json!({
                    "site": site, "control": control, "data": words::of_level(*data),
                });
                let mut servers = lock(&self.servers);
                servers.insert((*site).to_owned(), server);
                Ok(())
            }
            Event::Stack { stack } => {
                lock(&self.stacks).push_str(&format!(", then {stack}"));
                Ok(())
            }
            Event::Finished {
                source,
                destination,
                ..
            } => match self.receipt(event, [source, destination]) {
                Some(line) => self.add(&masked(&line.to_string())),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// The line of a finished file: the fields of its JSON event, and those of the run.
    fn receipt(&self, event: &Event<'_>, [source, destination]: [&str; 2]) -> Option<Value> {
        let mut line = object(event)?;
        let fields = line.as_object_mut()?;
        let seconds = fields.get("seconds").and_then(Value::as_f64);
        let ends = [source, destination].map(|end| match (path_of(end), Location::parse(end)) {
            (None, Ok(Location::Remote(remote))) => Some(remote.site.to_string()),
            _ => None,
        });
        let route = match &ends {
            [None, Some(_)] => "upload",
            [Some(_), None] => "download",
            [Some(_), Some(_)] if fields.remove("relayed").is_some() => "relayed",
            [Some(_), Some(_)] => "third party",
            [None, None] => "local",
        };
        let servers: Vec<_> = {
            let known = lock(&self.servers);
            let known = ends.iter().flatten().filter_map(|site| known.get(site));
            known.cloned().collect()
        };
        let ended = since_1970().as_secs_f64();
        let [offset, length] = self.part;
        fields.remove("event");
        for (key, value) in [
            ("receipt", json!("file")),
            ("source", json!(absolute(source))),
            ("destination", json!(absolute(destination))),
            ("offset", json!(offset)),
            ("length", json!(length)),
            ("route", json!(route)),
            ("stack", json!(*lock(&self.stacks))),
            ("servers", json!(servers)),
            ("started", json!(ended - seconds.unwrap_or(0.0))),
            ("ended", json!(ended)),
        ] {
            fields.insert(key.to_owned(), value);
        }
        Some(line)
    }

    fn add(&self, line: &str) -> io::Result<()> {
        let mut group = lock(&self.group);
        group.write(line)?;
        group.lines.add(line);
        let since = group.since.get_or_insert_with(Instant::now).elapsed();
        if group.lines.files >= GROUP.0 || since >= GROUP.1 {
            self.sign(&mut group)?;
        }
        Ok(())
    }

    /// Signs the receipts that are not signed yet, and waits for the disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&self) -> io::Result<()> {
        let mut group = lock(&self.group);
        self.sign(&mut group)?;
        group.file.sync_data()
    }

    fn sign(&self, group: &mut Group) -> io::Result<()> {
        group.since = None;
        if group.lines.files == 0 {
            return Ok(());
        }
        let time = since_1970().as_secs();
        let is_over = |it: &Credential| it.not_after().as_secs() < time;
        if group.signer.as_ref().is_some_and(is_over) {
            group.signer = read(self.grid.credential.clone())
                .ok()
                .filter(|new| !is_over(new));
            if group.signer.is_none() {
                let what = "the credential has expired: the receipts since the last signature are not signed";
                return Err(io::Error::other(what));
            }
        }
        let Some(signer) = &group.signer else {
            return Ok(());
        };
        let message = group.lines.message(time);
        let statement = signer.sign(message.as_bytes()).map_err(io::Error::other)?;
        let chain = signer.chain().iter();
        let line = json!({
            "receipt": "signature", "files": group.lines.files, "time": time,
            "signer": signer.identity().to_string(),
            "algorithm": Base64::encode_string(&statement.algorithm),
            "signature": Base64::encode_string(&statement.signature),
            "certificates": chain.map(|der| Base64::encode_string(der)).collect::<Vec<_>>(),
        })
        .to_string();
        group.write(&line)?;
        group.lines.go_on(&line);
        Ok(())
    }
}

impl Group {
    /// Writes a line as a whole, or nothing.
    fn write(&mut self, line: &str) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        if written.is_err() {
            self.file.set_len(before)?;
        }
        written
    }
}

/// A local path, as an event tells it, from the root on; any other text as it is.
fn absolute(end: &str) -> String {
    let path = path_of(end).and_then(|path| std::path::absolute(path).ok());
    path.map_or_else(|| end.to_owned(), |path| show(path.as_os_str().as_bytes()))
}

fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Verification;
    use crate::url::unshow;

    #[test]
    fn receipts_name_the_stacks_so_far() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("receipts");
        let receipts = Receipts::open(&path, &CopyOptions::default(), None).unwrap();
        let finished = Event::Finished {
            source: "/a",
            destination: "/b",
            bytes: 1,
            stripes: &[],
            took: Duration::ZERO,
            retries: 0,
            verification: Verification::Size,
            verified: None,
            relayed: false,
        };
        let stack = || {
            let line = receipts.receipt(&finished, ["/a", "/b"]).unwrap();
            line.get("stack").unwrap().clone()
        };
        assert_eq!(stack(), "tcp");
        receipts.event(&Event::Stack { stack: "udt" }).unwrap();
        assert_eq!(stack(), "tcp, then udt");
    }

    #[test]
    fn a_receipt_names_one_local_file() {
        for name in [&b"a\nb"[..], b"a\\nb", b"\xff ", b"a\\", b"host:/a"] {
            let told = absolute(&show(name));
            let read = unshow(&told).unwrap();
            assert!(
                read.starts_with(b"/") && read.ends_with(&[&b"/"[..], name].concat()),
                "{told}"
            );
        }
        assert_eq!(absolute("ftp://h:21/a%5C"), "ftp://h:21/a%5C");
    }

    #[test]
    fn receipts_tell_the_way_of_the_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("receipts");
        let receipts = Receipts::open(&path, &CopyOptions::default(), None).unwrap();
        let (here, there, web) = ("/a", "ftp://host/a", "https://host/a");
        for (source, destination, relayed, route) in [
            (here, here, false, "local"),
            ("host:/a", here, false, "local"),
            (here, there, false, "upload"),
            (there, here, false, "download"),
            (web, here, false, "download"),
            (there, there, false, "third party"),
            (there, there, true, "relayed"),
        ] {
            let finished = Event::Finished {
                source,
                destination,
                bytes: 1,
                stripes: &[],
                took: Duration::ZERO,
                retries: 2,
                verification: Verification::Size,
                verified: None,
                relayed,
            };
            let line = receipts.receipt(&finished, [source, destination]).unwrap();
            let told = ["route", "retries"].map(|key| line.get(key).cloned());
            let wanted = [json!(route), json!(2)].map(Some);
            assert_eq!(told, wanted, "{source} to {destination}");
        }
    }
}

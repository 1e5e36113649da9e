//! `Memory`: the settings that served best between two ends, kept for the next run.
//!
//! A file of text, for its user alone, with a line for each pair of ends and way of their data. It is
//! replaced as a whole, so that no run reads half of one.

use std::fmt;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::bounds::Setting;

const TITLE: &str = "gridftp-paths 1";
const HEADING: &str = "# seconds since 1970, source, destination, way, streams of a file, files at \
                       once, bytes a second";

/// Pairs of ends that are remembered; the oldest go.
const PAIRS: usize = 256;
/// Largest file, in bytes.
const MAX_LEN: u64 = 256 << 10;
/// Longest line.
const LINE: usize = 1000;
/// Longest wait for the disk.
const WITHIN: Duration = Duration::from_secs(5);

/// Bytes that would end a word of a line.
const WORD: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// Two ends and the way of the data between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ends {
    /// The server of the sources, or `-` for this machine.
    pub(crate) source: String,
    pub(crate) destination: String,
    /// The mode and the stack of the data, and the bounds of the caller where there are any.
    pub(crate) way: String,
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// Seconds since 1970.
    at: u64,
    /// The three words of the ends.
    ends: String,
    setting: Setting,
    rate: u64,
}

/// A file of which nothing is known.
#[derive(Debug)]
enum Unread {
    /// It is no such list, and of no use.
    Corrupt,
    /// It cannot be read now, and stays.
    Failed(io::Error),
}

/// The warning of it.
const CORRUPT: &str = "is no list of paths, and is written anew";

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |word| utf8_percent_encode(word, WORD);
        let (from, to, way) = (word(&self.source), word(&self.destination), word(&self.way));
        write!(f, "{from} {to} {way}")
    }
}

impl Line {
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let [at, from, to, way, streams, files, rate] = words.as_slice() else {
            return None;
        };
        let number = |text: &str| text.parse().ok().filter(|n| (1..=256).contains(n));
        Some(Self {
            at: at.parse().ok()?,
            ends: format!("{from} {to} {way}"),
            setting: Setting {
                streams: number(streams)?,
                files: number(files)?,
            },
            rate: rate.parse().ok()?,
        })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { streams, files } = self.setting;
        let Self { at, ends, rate, .. } = self;
        writeln!(f, "{at} {ends} {streams} {files} {rate}")
    }
}

/// Gives what served best between these ends.
///
/// # Errors
/// The warning of a file that is no such list, which the next run writes anew, or that cannot be
/// read.
pub(crate) async fn recall(path: &Path, ends: &Ends) -> Result<Option<Setting>, String> {
    let (path, ends) = (path.to_owned(), ends.to_string());
    let shown = path.display().to_string();
    match blocking(move || read(&path)).await {
        Some(Ok(lines)) => {
            let mut lines = lines.into_iter();
            let line = lines.find(|line| line.ends == ends);
            Ok(line.map(|line| line.setting))
        }
        Some(Err(Unread::Corrupt)) => Err(format!("{shown}: {CORRUPT}")),
        Some(Err(Unread::Failed(error))) => Err(format!("{shown}: {error}")),
        None => Ok(None),
    }
}

/// Keeps what served best between these ends.
pub(crate) async fn keep(path: &Path, ends: &Ends, setting: Setting, rate: u64) {
    let (path, ends) = (path.to_owned(), ends.to_string());
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let at = since.map_or(0, |since| since.as_secs());
    let line = Line {
        at,
        ends,
        setting,
        rate,
    };
    blocking(move || {
        if let Err(error) = write(&path, line) {
            tracing::debug!(path = %path.display(), %error, "the path is not remembered");
        }
    })
    .await;
}

/// Runs work on the disk, which a copy does not wait for any longer than this.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = tokio::task::spawn_blocking(work);
    tokio::time::timeout(WITHIN, done).await.ok()?.ok()
}

/// The lines of the file; none where there is no file.
fn read(path: &Path) -> Result<Vec<Line>, Unread> {
    // A pipe would have the open wait for its writer.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Unread::Failed(error)),
    };
    if !file.metadata().map_err(Unread::Failed)?.is_file() {
        let error = io::Error::new(ErrorKind::InvalidInput, "it is no regular file");
        return Err(Unread::Failed(error));
    }
    let mut text = String::new();
    match file.take(MAX_LEN + 1).read_to_string(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::InvalidData => return Err(Unread::Corrupt),
        Err(error) => return Err(Unread::Failed(error)),
    }
    let mut lines = text.lines();
    if text.len() as u64 > MAX_LEN || lines.next() != Some(TITLE) {
        return Err(Unread::Corrupt);
    }
    let lines = lines.filter(|line| !line.starts_with('#'));
    let lines: Option<Vec<_>> = lines.take(PAIRS).map(Line::parse).collect();
    lines.ok_or(Unread::Corrupt)
}

/// Adds a line in place of the earlier one of its ends.
fn write(path: &Path, line: Line) -> io::Result<()> {
    // Another run may have written meanwhile.
    let mut lines = match read(path) {
        Ok(lines) => lines,
        Err(Unread::Corrupt) => Vec::new(),
        Err(Unread::Failed(error)) => return Err(error),
    };
    lines.retain(|old| old.ends != line.ends);
    lines.insert(0, line);
    lines.sort_by_key(|line| std::cmp::Reverse(line.at));
    lines.truncate(PAIRS);
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    std::fs::create_dir_all(dir)?;
    let private = Permissions::from_mode(0o600);
    let mut file = tempfile::Builder::new()
        .permissions(private)
        .tempfile_in(dir)?;
    writeln!(file, "{TITLE}\n{HEADING}")?;
    for line in lines {
        let line = line.to_string();
        if line.len() <= LINE {
            file.write_all(line.as_bytes())?;
        }
    }
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(source: &str) -> Ends {
        Ends {
            source: source.to_owned(),
            destination: "-".to_owned(),
            way: "extended tcp".to_owned(),
        }
    }

    fn setting(streams: u32) -> Setting {
        Setting { streams, files: 2 }
    }

    #[tokio::test]
    async fn what_served_best_is_recalled_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache/gridftp/paths");
        assert_eq!(recall(&path, &ends("a:1")).await, Ok(None));
        keep(&path, &ends("a:1"), setting(8), 1000).await;
        keep(&path, &ends("b:1"), setting(3), 1000).await;
        keep(&path, &ends("a:1"), setting(6), 1000).await;
        assert_eq!(recall(&path, &ends("a:1")).await, Ok(Some(setting(6))));
        assert_eq!(recall(&path, &ends("b:1")).await, Ok(Some(setting(3))));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("a:1").count(), 1, "{text}");
        assert!(text.contains("a:1 - extended%20tcp 6 2 1000\n"), "{text}");
        let others = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(others, 1);
        let old = |n: usize| format!("{n} host{n}:1 - w 1 1 1\n");
        let all: String = (0..PAIRS).map(old).collect();
        std::fs::write(&path, format!("{TITLE}\n{all}")).unwrap();
        keep(&path, &ends("new:1"), setting(5), 1).await;
        let lines = read(&path).unwrap();
        assert_eq!(lines.len(), PAIRS);
        assert!(lines.iter().all(|line| !line.ends.starts_with("host0:")));
    }

    #[tokio::test]
    async fn a_file_that_is_none_is_told_and_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("paths");
        let long = format!("{TITLE}\n{}", "#".repeat(1 << 20));
        for bad in [
            &b"hello"[..],
            b"",
            b"\xff\xfe",
            b"gridftp-paths 1\n1 a b\n",
            b"gridftp-paths 1\n1 a:1 - w 0 1 1\n",
            b"gridftp-paths 1\n1 a:1 - w 99999 1 1\n",
            long.as_bytes(),
        ] {
            std::fs::write(&path, bad).unwrap();
            let warning = recall(&path, &ends("a:1")).await.unwrap_err();
            assert!(warning.contains("paths: is no list of paths"), "{warning}");
            keep(&path, &ends("a:1"), setting(2), 1).await;
            assert_eq!(recall(&path, &ends("a:1")).await, Ok(Some(setting(2))));
        }
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_told_and_left() {
        let dir = tempfile::tempdir().unwrap();
        let (pipe, loops) = (dir.path().join("pipe"), dir.path().join("loop"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        std::os::unix::fs::symlink(&loops, &loops).unwrap();
        for (path, told) in [(&pipe, "it is no regular file"), (&loops, "symbolic links")] {
            let warning = recall(path, &ends("a:1")).await.unwrap_err();
            assert!(warning.contains(told), "{warning}");
            let before = std::fs::symlink_metadata(path).unwrap().file_type();
            keep(path, &ends("a:1"), setting(2), 1).await;
            let after = std::fs::symlink_metadata(path).unwrap().file_type();
            assert_eq!(after, before);
        }
    }
}

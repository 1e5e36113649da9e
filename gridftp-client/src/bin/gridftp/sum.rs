//! `gridftp sum`: digests of files, by the server or from the bytes.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use clap::ValueHint;
use ftp_proto::client::FailureKind;
use gridftp_client::error::TransferError;
use gridftp_client::file::ReadOptions;
use gridftp_client::program::events::named;
use gridftp_client::program::values::algorithm;
use gridftp_client::url::show;
use gridftp_client::verify;
use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::types::ChecksumAlgorithm;
use serde_json::json;

use crate::change::source;
use crate::end::{End, data_error};
use crate::walk::{Step, Walk};
use crate::work::{Common, Place, Work};

/// The options of `gridftp sum`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
A server that knows the algorithm computes the digest (CKSM); of another the bytes are read. A line is \
the digest, two blanks and the name, as sha256sum writes it.

{}", named(&["digest"])))]
pub(crate) struct SumArgs {
    /// Files
    #[arg(value_name = "PLACE", required = true, value_hint = ValueHint::AnyPath)]
    places: Vec<OsString>,

    /// Algorithm, such as blake3, sha256, md5, crc32c or adler32
    #[arg(short, long, value_name = "ALG", default_value = "sha256", value_parser = algorithm)]
    algorithm: ChecksumAlgorithm,

    /// Take the files below directories
    #[arg(short, long)]
    recursive: bool,

    /// Read the bytes, whatever the server can compute
    #[arg(long)]
    read: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// The computer of a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The server, by `CKSM`.
    Server,
    /// This program, from the bytes.
    Reading,
}

/// Tells digests.
pub(crate) async fn sum(args: &SumArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let mut places = Vec::new();
    for text in &args.places {
        places.push(work.place(text)?);
    }
    work.each(places, async |work, place| {
        let object = work.at(place).await.stat(&place.path).await?;
        if !object.entry.kind.is_dir() {
            return tell(args, work, place, object.size()).await;
        }
        if !args.recursive {
            return Err(source(
                place,
                "is a directory",
                "-r takes the files below it",
            ));
        }
        let mut walk = Walk::new(place.path.clone());
        while let Some(step) = walk.next(work.at(place).await).await {
            match step {
                Step::Found { path, object, .. } if !object.entry.kind.is_dir() => {
                    let at = place.with_path(path);
                    if let Err(error) = tell(args, work, &at, object.size()).await {
                        work.fail(&at, &error);
                    }
                }
                Step::Found { .. } | Step::Left(_) => {}
                Step::Failed(path, error) => work.fail(&place.with_path(path), &error),
            }
        }
        Ok(())
    })
    .await;
    Ok(())
}

async fn tell(
    args: &SumArgs,
    work: &mut Work<'_>,
    place: &Place,
    size: Option<u64>,
) -> Result<(), TransferError> {
    let progress = Progress::new(place, size, args.common.quiet || args.common.json);
    let by = args.read.then_some(By::Reading);
    let at = work.at(place).await;
    let (digest, by) = digest(at, &place.path, args.algorithm, by, |bytes| {
        progress.show(bytes)
    })
    .await?;
    drop(progress);
    if !args.common.json {
        work.report.out(&format!("{digest}  {}", place.url()));
        return Ok(());
    }
    let by = match by {
        By::Server => "server",
        By::Reading => "reading",
    };
    work.report.emit(&json!({
        "event": "digest", "url": place.url(), "algorithm": args.algorithm.name(),
        "digest": digest, "by": by,
    }));
    Ok(())
}

/// The digest of a file, by the server where it knows the algorithm, or else from its bytes; `each`
/// is told how many of these were hashed.
pub(crate) async fn digest(
    end: &mut End,
    path: &[u8],
    algorithm: ChecksumAlgorithm,
    by: Option<By>,
    mut each: impl FnMut(u64),
) -> Result<(String, By), TransferError> {
    if let End::Local = end {
        let local = Path::new(OsStr::from_bytes(path));
        let digest = verify::local(local, algorithm, 0, None).await?;
        return Ok((digest, By::Reading));
    }
    let knows = |abilities: &gridftp_client::abilities::Abilities| {
        abilities.checksums.is_empty() || abilities.cost(algorithm).is_some()
    };
    if by != Some(By::Reading) && knows(end.client().await?.abilities()) {
        let asked = end
            .ask(async |client| client.checksum_with(path, algorithm, &mut each).await)
            .await;
        match asked {
            Ok(digest) => return Ok((digest, By::Server)),
            Err(TransferError::Control(error))
                if error.kind() == Some(FailureKind::Unsupported) => {}
            Err(error) => return Err(error),
        }
    }
    let mut hasher = Hasher::new(algorithm).ok_or_else(|| TransferError::Request {
        what: format!("usage: {}: cannot be computed here", algorithm.name()),
        remedy: "choose another --algorithm",
    })?;
    let mut reader = end.reader(path, ReadOptions::default()).await?;
    let read = loop {
        match reader.piece().await {
            Ok(piece) if piece.is_empty() => break Ok(()),
            Ok(piece) => {
                hasher.update(&piece);
                each(reader.position());
            }
            Err(error) => break Err(data_error(path, error)),
        }
    };
    end.keep(reader.stop().await);
    read.map(|()| (hasher.finish(), By::Reading))
}

/// A line on the terminal that tells how much of a file is hashed.
struct Progress {
    name: String,
    size: u64,
    shown: std::sync::atomic::AtomicBool,
    hidden: bool,
}

impl Progress {
    fn new(place: &Place, size: Option<u64>, hidden: bool) -> Self {
        Self {
            name: show(gridftp_client::names::last(&place.path)),
            size: size.unwrap_or(0),
            shown: false.into(),
            hidden: hidden || !std::io::stderr().is_terminal(),
        }
    }

    fn show(&self, bytes: u64) {
        if self.hidden || self.size == 0 {
            return;
        }
        let percent = bytes.saturating_mul(100) / self.size;
        let _gone = write!(std::io::stderr(), "\r{}: hashing {percent} %", self.name);
        self.shown.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.load(std::sync::atomic::Ordering::Relaxed) {
            let _gone = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

//! `gridftp check`: compares two files or trees, and tells the differences.

use std::cmp::Ordering;
use std::ffi::OsString;

use clap::ValueHint;
use ftp_wire::facts::EntryKind;
use gridftp_client::counted;
use gridftp_client::error::TransferError;
use gridftp_client::names;
use gridftp_client::program::events::named;
use gridftp_client::program::values::algorithm;
use gridftp_client::url::show;
use gridftp_dsi::types::ChecksumAlgorithm;
use serde_json::json;

use crate::end::{End, Object};
use crate::sum::digest;
use crate::work::{Common, Place, Work};

/// Algorithms that prove two files to be the same, the strongest first.
const PROOFS: [ChecksumAlgorithm; 5] = [
    ChecksumAlgorithm::Blake3,
    ChecksumAlgorithm::Sha256,
    ChecksumAlgorithm::Sha512,
    ChecksumAlgorithm::Sha1,
    ChecksumAlgorithm::Md5,
];

/// The options of `gridftp check`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
Names, kinds and sizes are compared; links by their targets, which are not entered. The exit status \
is 0 if all is the same, 5 if something differs, and that of the failure if something could not be \
compared.

{}", named(&["difference", "end"])))]
pub(crate) struct CheckArgs {
    /// The file or directory that is right
    #[arg(value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    source: OsString,

    /// The file or directory that is compared with it
    #[arg(value_name = "DEST", value_hint = ValueHint::AnyPath)]
    destination: OsString,

    /// Compare modification times too, to the second; it is a failure that an end does not tell them
    #[arg(short, long)]
    times: bool,

    /// Compare digests of files of the same size too, with ALG or the strongest one that both ends
    /// know
    #[arg(short = 'c', long, value_name = "ALG", num_args = 0..=1, require_equals = true,
          value_parser = algorithm)]
    checksum: Option<Option<ChecksumAlgorithm>>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// Both ends, and the counts.
struct Check<'a, 'w> {
    args: &'a CheckArgs,
    work: &'a mut Work<'w>,
    source: (Place, End),
    destination: (Place, End),
    files: u64,
    dirs: u64,
    differences: u64,
    failed: u64,
    /// Files without a time to compare.
    untimed: u64,
    /// Whether it is the source that tells none.
    timeless_source: bool,
}

/// Compares two trees.
pub(crate) async fn check(args: &CheckArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let source = work.place(&args.source)?;
    let destination = work.place(&args.destination)?;
    for place in [&source, &destination] {
        if let gridftp_client::Location::Remote(remote) = &place.location {
            anyhow::ensure!(
                remote.pattern.is_none(),
                "usage: {}: a pattern is no tree",
                place.url()
            );
        }
    }
    let mut check = Check {
        args,
        source: (source.clone(), work.another(&source)),
        destination: (destination.clone(), work.another(&destination)),
        work,
        files: 0,
        dirs: 0,
        differences: 0,
        failed: 0,
        untimed: 0,
        timeless_source: false,
    };
    check.run().await;
    let Check {
        source,
        destination,
        ..
    } = check;
    tokio::join!(source.1.close(), destination.1.close());
    Ok(())
}

impl Check<'_, '_> {
    async fn run(&mut self) {
        let (source, destination) = (&self.source.0.path, &self.destination.0.path);
        let (here, there) = tokio::join!(
            self.source.1.stat(source),
            self.destination.1.stat(destination)
        );
        let mut waiting = Vec::new();
        match (here, there) {
            (Ok(here), Ok(there)) => {
                // The places themselves may be links.
                let is_dir = |object: &Object| object.entry.kind.is_dir();
                if is_dir(&here) && is_dir(&there) {
                    waiting.push(Vec::new());
                } else {
                    self.pair(b"", &here, &there).await;
                }
            }
            (Err(error), _) => self.fail(true, b"", &error),
            (_, Err(error)) => self.fail(false, b"", &error),
        }
        while let Some(dir) = waiting.pop() {
            self.dir(&dir, &mut waiting).await;
        }
        self.tell_untimed();
        let Self {
            files,
            dirs,
            differences,
            failed,
            untimed,
            ..
        } = *self;
        if self.args.common.json {
            self.work.report.emit(&json!({
                "event": "end", "files": files, "directories": dirs, "differences": differences,
                "failed": failed, "untimed": untimed,
            }));
        } else if !self.args.common.quiet {
            let compared = counted(files, "file", "files");
            let dirs = counted(dirs, "directory", "directories");
            let mut text = format!("{compared} and {dirs} compared: ");
            text.push_str(&match differences {
                0 => "no difference".to_owned(),
                many => counted(many, "difference", "differences"),
            });
            if failed > 0 {
                text.push_str(&format!(", {failed} failed"));
            }
            if untimed > 0 {
                let times = match untimed {
                    1 => "the time of 1 file".to_owned(),
                    many => format!("times of {many} files"),
                };
                text.push_str(&format!(", {times} not compared"));
            }
            self.work.report.out(&text);
        }
    }

    /// Compares the directory `dir` of both trees; those in it go to `waiting`.
    async fn dir(&mut self, dir: &[u8], waiting: &mut Vec<Vec<u8>>) {
        self.dirs += 1;
        let here = below(&self.source.0, dir).path;
        let there = below(&self.destination.0, dir).path;
        let listed = tokio::join!(self.source.1.list(&here), self.destination.1.list(&there));
        let (here, there) = match listed {
            (Ok(here), Ok(there)) => (here, there),
            (Err(error), _) => return self.fail(true, dir, &error),
            (_, Err(error)) => return self.fail(false, dir, &error),
        };
        let (mut here, mut there) = (here.into_iter().peekable(), there.into_iter().peekable());
        let mut dirs = Vec::new();
        loop {
            let order = match (here.peek(), there.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.name().cmp(b.name()),
            };
            let a = here.next_if(|_| order.is_le());
            let b = there.next_if(|_| order.is_ge());
            let name = a.as_ref().or(b.as_ref()).map_or(&b""[..], Object::name);
            let path = names::join(dir, name);
            match (&a, &b) {
                (Some(a), None) => self.differ(&path, "missing", a.kind(), "nothing"),
                (None, Some(b)) => self.differ(&path, "extra", "nothing", b.kind()),
                (Some(a), Some(b)) if a.is_tree() && b.is_tree() && path.len() <= 4096 => {
                    dirs.push(path);
                }
                (Some(a), Some(b)) => self.pair(&path, a, b).await,
                (None, None) => {}
            }
        }
        waiting.extend(dirs.into_iter().rev());
    }

    /// Compares two objects that are not both directories.
    async fn pair(&mut self, path: &[u8], a: &Object, b: &Object) {
        self.files += 1;
        if let (Some(here), Some(there)) = (&a.entry.target, &b.entry.target) {
            if here != there {
                self.differ(path, "target", &show(here), &show(there));
            }
            return;
        }
        if a.entry.kind != b.entry.kind {
            return self.differ(path, "type", a.kind(), b.kind());
        }
        if a.entry.kind != EntryKind::File {
            return;
        }
        if let (Some(here), Some(there)) = (a.size(), b.size())
            && here != there
        {
            return self.differ(path, "size", &here.to_string(), &there.to_string());
        }
        if self.args.times {
            self.times(path, a, b);
        }
        if let Some(wanted) = self.args.checksum {
            Box::pin(self.digests(path, wanted)).await;
        }
    }

    fn times(&mut self, path: &[u8], a: &Object, b: &Object) {
        let (Some(here), Some(there)) = (a.modified(), b.modified()) else {
            self.untimed += 1;
            self.timeless_source = a.modified().is_none();
            return;
        };
        if here.whole() != there.whole() {
            let (here, there) = (here.whole().to_string(), there.whole().to_string());
            self.differ(path, "time", &here, &there);
        }
    }

    /// Tells, once, that times were not compared.
    fn tell_untimed(&mut self) {
        if self.untimed == 0 {
            return;
        }
        let place = match self.timeless_source {
            true => &self.source.0,
            false => &self.destination.0,
        };
        let error = TransferError::Source {
            path: place.url(),
            what: format!(
                "it tells no time of {}",
                counted(self.untimed, "file", "files")
            ),
            remedy: "leave out --times, or compare the content with --checksum",
        };
        self.work.fail(place, &error);
    }

    async fn digests(&mut self, path: &[u8], wanted: Option<ChecksumAlgorithm>) {
        let algorithm = match wanted {
            Some(algorithm) => algorithm,
            None => match self.common_proof().await {
                Ok(algorithm) => algorithm,
                Err(error) => return self.fail(true, path, &error),
            },
        };
        let here = below(&self.source.0, path).path;
        let there = below(&self.destination.0, path).path;
        let hashed = tokio::join!(
            digest(&mut self.source.1, &here, algorithm, None, |_| ()),
            digest(&mut self.destination.1, &there, algorithm, None, |_| ())
        );
        match hashed {
            (Ok((here, _)), Ok((there, _))) if here == there => {}
            (Ok((here, _)), Ok((there, _))) => {
                let named = |digest| format!("{} {digest}", algorithm.name());
                self.differ(path, "digest", &named(here), &named(there));
            }
            (Err(error), _) => self.fail(true, path, &error),
            (_, Err(error)) => self.fail(false, path, &error),
        }
    }

    /// The strongest proof that both ends compute, or else one that is computed from the bytes.
    async fn common_proof(&mut self) -> Result<ChecksumAlgorithm, TransferError> {
        let mut known = PROOFS.to_vec();
        for end in [&mut self.source.1, &mut self.destination.1] {
            if let End::Remote(_) = end {
                let abilities = end.client().await?.abilities();
                known.retain(|algorithm| abilities.cost(*algorithm).is_some());
            }
        }
        Ok(known.first().copied().unwrap_or(ChecksumAlgorithm::Sha256))
    }

    fn differ(&mut self, path: &[u8], what: &'static str, source: &str, destination: &str) {
        self.differences += 1;
        self.work.differ();
        let shown = match path {
            b"" => ".".to_owned(),
            path => show(path),
        };
        if self.args.common.json {
            return self.work.report.emit(&json!({
                "event": "difference", "path": shown, "what": what, "source": source,
                "destination": destination,
            }));
        }
        if !self.args.common.quiet {
            let text = format!("{what:<7} {shown}: {source}, {destination}");
            self.work.report.out(&text);
        }
    }

    fn fail(&mut self, is_source: bool, path: &[u8], error: &TransferError) {
        self.failed += 1;
        let place = match is_source {
            true => &self.source.0,
            false => &self.destination.0,
        };
        let place = below(place, path);
        self.work.fail(&place, error);
    }
}

/// The place of a path below another.
fn below(place: &Place, path: &[u8]) -> Place {
    match path {
        b"" => place.clone(),
        path => place.with_path(names::join(&place.path, path)),
    }
}

//! `gridftp check-receipt`: the signatures of receipts, and the files that they are of.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use base64ct::{Base64, Encoding as _};
use clap::ValueHint;
use ftp_wire::facts::TimeVal;
use gridftp_client::program::events::named;
use gridftp_client::program::receipts::Lines;
use gridftp_client::url::unshow;
use gridftp_client::{Location, counted};
use gridftp_dsi::types::ChecksumAlgorithm;
use gsi::certificate::Certificate;
use gsi::statement::Statement;
use gsi::trust::TrustOptions;
use gsi::verify::Verifier as _;
use indicatif::HumanBytes;
use rustls_pki_types::{CertificateDer, UnixTime};
use serde::Deserialize;
use serde_json::json;
use xio::gsi::{Environment, TrustDirectory};

use crate::list::when;
use crate::sum;
use crate::work::{Common, Work};

/// Longest line of a file of receipts, in bytes.
const LONGEST: u64 = 1 << 20;

/// Most bytes of receipts that wait for their signature to be compared; gridftp-cp signs a thousand
/// receipts at most at once.
const MOST_WAITING: u64 = 64 << 20;

/// Most certificates of a signature.
const MOST: usize = 16;

/// The options of `gridftp check-receipt`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
Signatures are checked with the certificates in the file, which have to lead to an authority of the \
CA directory ($X509_CERT_DIR, or /etc/grid-security/certificates) and to have been valid at the time \
that the signature tells. Receipts without a signature, of a run that was killed or had no \
credential, are an error. With --compare, receipts of more than 64 MiB before one signature are an \
error too.

{}", named(&["signature", "same"])))]
pub(crate) struct CheckReceiptArgs {
    /// Files that gridftp-cp --receipt has written
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Compare the files at the destinations with the digests of their receipts too
    #[arg(long)]
    compare: bool,

    /// Take receipts that nobody has signed
    #[arg(long)]
    unsigned: bool,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// A line of a file of receipts, with the fields that are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    receipt: String,
    destination: String,
    bytes: u64,
    offset: Option<u64>,
    length: Option<u64>,
    checksum: Option<Checksum>,
    time: u64,
    algorithm: String,
    signature: String,
    certificates: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Checksum {
    algorithm: String,
    digest: String,
}

/// Receipts since the last signature.
#[derive(Default)]
struct Group {
    lines: Lines,
    bytes: u64,
    /// Those that are to be compared, once their signature holds.
    files: Vec<Line>,
    /// The bytes of their lines.
    waiting: u64,
}

impl Group {
    fn go_on(&mut self, line: &str) {
        self.lines.go_on(line);
        (self.bytes, self.files, self.waiting) = (0, Vec::new(), 0);
    }

    /// Has a receipt of `len` bytes compared once its signature holds.
    ///
    /// # Errors
    /// Those that wait are too many, so that none of them is compared.
    fn wait(&mut self, file: Line, len: usize) -> anyhow::Result<()> {
        let before = self.waiting;
        self.waiting = before.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
        if self.waiting <= MOST_WAITING {
            self.files.push(file);
            return Ok(());
        }
        self.files = Vec::new();
        anyhow::ensure!(
            before > MOST_WAITING,
            "more than 64 MiB of receipts come before one signature: they are not compared"
        );
        Ok(())
    }

    /// Tells of receipts at the end of a run without a signature.
    fn end(&self, shown: &impl Display, args: &CheckReceiptArgs, work: &mut Work<'_>) {
        let files = self.lines.files;
        if files > 0 && !args.unsigned {
            let last = match files {
                1 => "the last receipt of a run is".to_owned(),
                _ => format!("the last {files} receipts of a run are"),
            };
            let what = format!("{shown}: {last} not signed");
            work.report.warned(&what);
            work.differ();
        }
    }

    async fn compare(&self, work: &mut Work<'_>) {
        for file in &self.files {
            compare(file, work).await;
        }
    }
}

/// Checks files of receipts.
pub(crate) async fn check(args: &CheckReceiptArgs, work: &mut Work<'_>) -> anyhow::Result<()> {
    let directory = Environment::of_process().trust_directory();
    // Authorities are needed for signatures alone.
    let trust = TrustDirectory::open(directory, TrustOptions::default());
    for path in &args.files {
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("{shown}: open"))?;
        let mut lines = BufReader::new(file);
        let mut group = Group::default();
        for number in 1_u64.. {
            let mut line = String::new();
            let read = lines.by_ref().take(LONGEST).read_line(&mut line);
            if read.with_context(|| format!("{shown}: line {number}: read"))? == 0 {
                break;
            }
            let line = line.trim_end_matches('\n');
            let at = || format!("{shown}: line {number}");
            let value: Line = match serde_json::from_str(line) {
                Ok(value) => value,
                Err(error) => {
                    work.report.warned(&format!("{}: {error}", at()));
                    work.differ();
                    continue;
                }
            };
            match value.receipt.as_str() {
                "file" => {
                    group.lines.add(line);
                    group.bytes = group.bytes.saturating_add(value.bytes);
                    if args.compare && args.unsigned {
                        compare(&value, work).await;
                    } else if args.compare
                        && let Err(error) = group.wait(value, line.len())
                    {
                        work.report.warned(&format!("{}: {error}", at()));
                        work.differ();
                    }
                }
                "signature" => {
                    let trust = trust.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
                    match signed(&value, &group.lines, trust) {
                        Ok(signer) => {
                            tell(&group, &signer, value.time, work);
                            group.compare(work).await;
                        }
                        Err(error) => {
                            work.report.warned(&format!("{}: {error:#}", at()));
                            work.differ();
                        }
                    }
                    group.go_on(line);
                }
                "run" => {
                    group.end(&shown, args, work);
                    group.go_on(line);
                }
                _ => {
                    work.report.warned(&format!("{}: is no receipt", at()));
                    work.differ();
                }
            }
        }
        group.end(&shown, args, work);
    }
    Ok(())
}

/// Checks the signature of these receipts; gives the identity of its signer.
fn signed(line: &Line, lines: &Lines, trust: &TrustDirectory) -> anyhow::Result<String> {
    let decode = |text: &str| Base64::decode_vec(text).map_err(|_| anyhow::anyhow!("no Base64"));
    let chain = &line.certificates;
    anyhow::ensure!(
        (1..=MOST).contains(&chain.len()),
        "a chain of {} certificates",
        chain.len()
    );
    let chain = chain
        .iter()
        .map(|one| decode(one).map(CertificateDer::from));
    let chain = chain.collect::<anyhow::Result<Vec<_>>>()?;
    let at = UnixTime::since_unix_epoch(Duration::from_secs(line.time));
    let peer = trust.verify(&chain, at)?;
    let first = chain.into_iter().next().context("no certificate")?;
    let certificate = Certificate::parse(first)?;
    let statement = Statement::new(decode(&line.algorithm)?, decode(&line.signature)?);
    anyhow::ensure!(
        statement.is_of(&certificate, lines.message(line.time).as_bytes()),
        "the receipts before it are not those that {} has signed",
        peer.identity
    );
    Ok(peer.identity.to_string())
}

fn tell(group: &Group, signer: &str, time: u64, work: &Work<'_>) {
    let (files, bytes) = (group.lines.files, group.bytes);
    let report = &work.report;
    if report.is_json() {
        return report.emit(&json!({
            "event": "signature", "files": files, "bytes": bytes, "signer": signer, "time": time,
        }));
    }
    let seconds = i64::try_from(time).unwrap_or(i64::MAX);
    let at = when(Some(TimeVal::new(seconds, 0)));
    report.out(&format!(
        "{}, {}, signed by {signer} at {at}",
        counted(files, "file", "files"),
        HumanBytes(bytes)
    ));
}

/// Compares the file at the destination of a receipt with its digest, and tells.
async fn compare(receipt: &Line, work: &mut Work<'_>) {
    if let Err(error) = compare_digest(receipt, work).await {
        let what = format!("{}: {error:#}", receipt.destination);
        work.report.warned(&what);
        work.differ();
    }
}

async fn compare_digest(receipt: &Line, work: &mut Work<'_>) -> anyhow::Result<()> {
    let destination = &receipt.destination;
    if receipt.offset.is_some() || receipt.length.is_some() {
        work.report.warned(&format!(
            "{destination}: not compared: its receipt is of a part"
        ));
        return Ok(());
    }
    let place = match Location::parse(destination)? {
        // A path of this machine stands in its receipt as it was told.
        Location::Local(_) => {
            let path = unshow(destination).context("is no name as gridftp-cp writes it")?;
            work.place(&OsString::from_vec(path))?
        }
        _ => work.place(destination.as_ref())?,
    };
    let Some(Checksum {
        algorithm: name,
        digest: value,
    }) = &receipt.checksum
    else {
        let what = format!("{destination}: the receipt has no digest");
        work.report.warned(&what);
        work.differ();
        return Ok(());
    };
    let algorithm = ChecksumAlgorithm::from_name(name.as_bytes())
        .with_context(|| format!("{name}: is no algorithm known here"))?;
    let end = work.at(&place).await;
    match sum::digest(end, &place.path, algorithm, None, |_| ()).await {
        Ok((now, _)) if now.eq_ignore_ascii_case(value) => {
            if work.report.is_json() {
                work.report
                    .emit(&json!({ "event": "same", "url": destination }));
            }
        }
        Ok((now, _)) => {
            let what = format!("{destination}: {name} is {now}, and its receipt has {value}");
            work.report.warned(&what);
            work.differ();
        }
        Err(error) => work.fail(&place, &error),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_that_wait_for_a_signature_are_bounded() {
        let mut group = Group::default();
        let line = usize::try_from(LONGEST).unwrap();
        for _ in 0..MOST_WAITING / LONGEST {
            group.wait(Line::default(), line).unwrap();
        }
        assert_eq!(group.files.len() as u64, MOST_WAITING / LONGEST);
        assert!(group.wait(Line::default(), line).is_err());
        // It is told once, and the rest of the group is not compared either.
        for len in [1, line] {
            group.wait(Line::default(), len).unwrap();
            assert!(group.files.is_empty());
        }
        group.go_on("");
        group.wait(Line::default(), line).unwrap();
        assert_eq!(group.files.len(), 1);
    }
}

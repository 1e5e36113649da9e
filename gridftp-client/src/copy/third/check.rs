//! The check of a copy between two servers, and its name, times and mode.

use ftp_wire::command::Command;
use ftp_wire::path::FtpPath;
use gridftp_dsi::types::ChecksumAlgorithm;
use tokio_util::sync::CancellationToken;

use super::Pair;
use crate::copy::Stop;
use crate::copy::attributes::must_fit;
use crate::copy::digests::DigestQuery;
use crate::copy::ending::Success;
use crate::copy::facts_query::FactsQuery;
use crate::copy::hidden::Hidden;
use crate::copy::job::{Facts, FileJob, Words};
use crate::copy::kept::Digest;
use crate::copy::queue::Taken;
use crate::copy::window::UnderWay;
use crate::error::TransferError;
use crate::verify;

/// A file that both ends say is copied, to be checked.
pub(super) struct Copied {
    pub(super) taken: Taken,
    pub(super) words: Words,
    /// The digest of all its bytes, where they passed this machine.
    pub(super) passed: Option<Digest>,
    pub(super) _under_way: UnderWay,
}

/// A copy that is whole.
#[derive(Debug)]
pub(super) struct Checked {
    /// The digest on which both ends agree.
    verified: Option<Digest>,
    /// Whether they agree on the size.
    sized: bool,
    /// Whether it has the attributes, the time and the mode of its source; its facts, where known.
    set: Result<Option<Facts>, TransferError>,
}

impl Pair<'_> {
    /// Checks a copy and gives it its times and modes. Where the check is `broken` off, or a session
    /// ends over it, the next sessions begin with it.
    ///
    /// # Errors
    /// A session has ended.
    pub(super) async fn settle(
        &self,
        file: Copied,
        broken: &CancellationToken,
    ) -> Result<(), Stop> {
        let shared = self.shared;
        let Copied {
            mut taken,
            words,
            passed,
            _under_way,
        } = file;
        let (after, told, proven) = (words.after, words.sized, words.proven.clone());
        taken.file_mut().words = Some(words);
        let job = taken.file();
        job.leaves_no_part();
        let bytes = shared.expected(job).unwrap_or(0);
        let hidden = job.hidden.clone().zip(FtpPath::new(job.to.clone()));
        let source = (self.source, self.abilities.0);
        let destination = (self.destination, self.abilities.1);
        let optional = match &passed {
            _ if told || job.facts.size == Some(0) => None,
            Some((algorithm, _)) => Some(*algorithm),
            None => shared.without_receipt(&[source, destination]),
        };
        let checked = self.check(job, after, optional, passed);
        let Some(checked) = broken.run_until_cancelled(checked).await else {
            return Ok(());
        };
        // A session that ended over the check has told nothing of the copy: the next asks again.
        let is_gone = checked.as_ref().is_err_and(TransferError::is_gone);
        if !is_gone {
            taken.file_mut().words = None;
        }
        let Checked {
            verified,
            sized,
            set,
        } = match checked {
            Ok(checked) => checked,
            Err(error) => {
                let job = taken.file_mut();
                shared.remove_bad(self.destination, job, &error).await;
                shared.fail(taken, &error);
                return if is_gone { Err(Stop::Replace) } else { Ok(()) };
            }
        };
        let published = match hidden {
            None => Some(taken),
            Some((at, to)) => {
                let hidden = Hidden::ask(self.destination, self.abilities.1.mlst, at, to);
                hidden.publish(self.destination, shared, taken).await
            }
        };
        let is_gone = published.is_none() && self.destination.gone().is_some();
        match (published, set) {
            (Some(taken), Ok(there)) => {
                let success = Success {
                    bytes,
                    verified: verified.or(proven),
                    sized: sized || told,
                    there,
                };
                shared.succeed(taken, &success);
            }
            (Some(taken), Err(error)) => shared.fail(taken, &error),
            (None, _) => {}
        }
        if is_gone { Err(Stop::Replace) } else { Ok(()) }
    }

    /// Compares the digests of both files where one is needed or to be had, else the sizes, and has
    /// the attributes, the time and the mode set; the digest of bytes which `passed` here stands for
    /// the source's.
    pub(super) async fn check(
        &self,
        job: &FileJob,
        after: Option<ChecksumAlgorithm>,
        optional: Option<ChecksumAlgorithm>,
        passed: Option<Digest>,
    ) -> Result<Checked, TransferError> {
        let shared = self.shared;
        let (mut verified, mut sized) = (None, false);
        let (Some(from), Some(to)) = (FtpPath::new(job.from.clone()), FtpPath::new(job.to.clone()))
        else {
            return Err(TransferError::unsendable(&job.to));
        };
        let to = job.hidden.clone().unwrap_or(to);
        let again = (job.facts.lasts() && !shared.through_layers())
            .then(|| FactsQuery::send(self.source, self.abilities.0, from.clone()));
        let needed = self.algorithm.or(after);
        let length = shared.is_partial().then(|| shared.expected(job)).flatten();
        let part = (shared.options.offset.unwrap_or(0), length);
        let expected = job.facts.size.filter(|_| !shared.is_partial());
        let size = (needed.is_none() && expected.is_some())
            .then(|| self.destination.send(Command::Size(to.clone())));
        let destination = (self.destination, self.abilities.1);
        let is_asked = !shared.keeps_times() && shared.asks_of_done(destination);
        let asked_for =
            is_asked.then(|| FactsQuery::send(destination.0, destination.1, to.clone()));
        let attributes = shared.ask_attributes((self.source, self.abilities.0), from.clone());
        let ask = |control, path| DigestQuery::send(control, needed, optional, part, path);
        let asked = match passed {
            Some(_) => None,
            None => ask(self.source, from),
        };
        if let Some(copy) = ask(self.destination, to.clone()) {
            let source = async {
                match asked {
                    Some(asked) => asked.digest(shared, None).await,
                    None => Ok(passed),
                }
            };
            let copy = copy.digest(shared, length.or(expected));
            let (source, copy) = tokio::try_join!(source, copy)?;
            if let (Some((algorithm, source)), Some((_, copy))) = (&source, &copy)
                && source != copy
            {
                let path = shared.name_destination(job);
                return Err(verify::mismatch(path, *algorithm, source, copy));
            }
            verified = source.filter(|_| copy.is_some());
        }
        if let (Some(mut size), Some(expected)) = (size, expected) {
            let path = || shared.name_source(job);
            sized = verify::stored(&mut size, expected..=expected, path).await?;
        }
        if let Some(again) = again
            && let Some(now) = again.facts().await?
            && now.differs_from(&job.facts)
        {
            let path = shared.name_source(job);
            return Err(TransferError::Changed { path });
        }
        let there = match asked_for {
            // Only a later run misses them.
            Some(asked) => asked.facts().await.ok().flatten(),
            None => None,
        };
        let attributes = shared.told_attributes(attributes).await.and_then(|all| {
            must_fit(&all, destination, to.as_bytes())?;
            Ok(all)
        });
        let settings = shared.send_settings(destination, job, to, attributes);
        let set = match shared.settle_settings(job, settings).await {
            Err(error) if !matches!(error, TransferError::Unset { .. }) => return Err(error),
            set => set.map(|told| told.or(there)),
        };
        Ok(Checked {
            verified,
            sized,
            set,
        })
    }
}

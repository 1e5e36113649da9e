//! `WebInput`: a file of a web server as bytes that go to another server; a broken connection to the
//! former is made again behind the last byte.

use std::time::Instant;

use bytes::BytesMut;
use gridftp_dsi_posix::checksum::Hasher;

use super::no_parts;
use crate::copy::job::FileJob;
use crate::copy::kept::Digest;
use crate::copy::state::CopyState;
use crate::copy::stdio::put::Input;
use crate::error::TransferError;
use crate::progress::Event;
use crate::verify;
use crate::web::{Answer, Part};

/// The bytes of a file, compared with the source's own digest at their end.
pub(super) struct WebInput<'a> {
    shared: &'a CopyState,
    /// The file, without its place at the destination.
    job: FileJob,
    answer: Answer,
    /// The digest that the source tells.
    told: Option<Digest>,
    hasher: Option<Hasher>,
    /// Bytes that have come.
    at: u64,
    /// Failures since the last byte, and the time of the first.
    failures: u32,
    since: Instant,
}

impl<'a> WebInput<'a> {
    /// Asks for a file, which has the facts of then.
    pub(super) async fn open(
        shared: &'a CopyState,
        job: &mut FileJob,
    ) -> Result<Self, TransferError> {
        let offset = shared.options.offset.unwrap_or(0);
        job.validator = None;
        let answer = shared.ask_web(job, offset).await?;
        if !answer.head.begins_at(offset) {
            return Err(no_parts(answer, offset));
        }
        let told = shared.web_digest(&answer)?;
        shared.update(job, Some(answer.head.facts));
        job.validator.clone_from(&answer.head.validator);
        let mut own = FileJob::new(job.from.clone(), Vec::new()).with_facts(job.facts);
        own.validator.clone_from(&job.validator);
        Ok(Self {
            hasher: (told.as_ref()).and_then(|(algorithm, _)| Hasher::new(*algorithm)),
            shared,
            job: own,
            answer,
            told,
            at: 0,
            failures: 0,
            since: Instant::now(),
        })
    }

    /// Bytes that have come.
    pub(super) fn passed(&self) -> u64 {
        self.at
    }

    /// The digest that the source tells, which is that of the bytes behind their end.
    pub(super) fn told(&self) -> Option<Digest> {
        self.told.clone()
    }

    /// Connects again behind the last byte.
    async fn go_on(&mut self, mut error: TransferError) -> Result<(), TransferError> {
        let shared = self.shared;
        loop {
            if self.failures == 0 {
                self.since = Instant::now();
            }
            self.failures += 1;
            let again = error.is_transient() && self.job.validator.is_some();
            let (failures, since) = (self.failures, self.since.elapsed());
            if !again || !shared.options.goes_on(failures, since, error.is_gone()) {
                return Err(error);
            }
            shared.observer.event(&Event::Retrying {
                source: &shared.name_source(&self.job),
                error: &error,
                attempt: failures,
            });
            let pause = shared.options.pause(failures).max(error.asked_pause());
            shared.queue.sleep(pause).await;
            let begin = shared.options.offset.unwrap_or(0).saturating_add(self.at);
            let answer = match shared.ask_web(&self.job, begin).await {
                Ok(answer) => answer,
                Err(next) => {
                    error = next;
                    continue;
                }
            };
            let (facts, validator) = (&self.job.facts, self.job.validator.as_ref());
            let is_rest = match begin {
                // No condition is told for all of a file.
                0 => answer.head.begins_at(0) && answer.head.validator.as_ref() == validator,
                _ => answer.head.part(begin, facts, validator) == Part::Rest,
            };
            if !is_rest {
                let path = shared.name_source(&self.job);
                return Err(TransferError::Changed { path });
            }
            if self.job.facts.size.is_none() {
                shared.update(&mut self.job, Some(answer.head.facts));
            }
            self.answer = answer;
            return Ok(());
        }
    }

    /// Compares the bytes that have come with the facts of the source.
    fn judge(&mut self) -> Result<(), TransferError> {
        let path = || self.shared.name_source(&self.job);
        let expected = self.shared.expected(&self.job);
        if let Some(expected) = expected.filter(|expected| *expected != self.at) {
            return Err(TransferError::Size {
                path: path(),
                expected,
                got: self.at,
            });
        }
        let passed = self.hasher.take().map(Hasher::finish);
        match (&self.told, passed) {
            (Some((algorithm, told)), Some(passed)) if *told != passed => {
                Err(verify::mismatch(path(), *algorithm, told, &passed))
            }
            _ => Ok(()),
        }
    }
}

impl Input for WebInput<'_> {
    async fn piece(&mut self, most: u64) -> Result<BytesMut, TransferError> {
        let rest = self
            .shared
            .expected(&self.job)
            .map(|all| all.saturating_sub(self.at));
        let most = most.min(rest.unwrap_or(u64::MAX));
        let piece = loop {
            match self.answer.piece(most).await {
                Ok(piece) => break piece,
                Err(error) => Box::pin(self.go_on(error.into())).await?,
            }
        };
        if piece.is_empty() {
            self.judge()?;
            return Ok(piece);
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&piece);
        }
        self.failures = 0;
        self.at += piece.len() as u64;
        Ok(piece)
    }
}

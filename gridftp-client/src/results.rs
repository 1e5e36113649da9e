//! `Results`: an observer that keeps the result of each file of a copy.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::copy::lock;
use crate::error::{Class, TransferError};
use crate::progress::{Event, Observer, Verification};

/// Keeps the result of each file of a copy, for a caller that asks by name.
///
/// Pass it to [`copy()`](crate::copy()) as the observer. [`take`](Self::take) may be called at the end,
/// or from time to time while the copy runs. A result is some 400 bytes and two names. Names that a
/// filter leaves out of a tree have none.
///
/// # Examples
///
/// ```no_run
/// use std::sync::Arc;
/// use gridftp_client::results::Outcome;
/// use gridftp_client::{CopyOptions, Location, Results, Totals, copy};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let options = CopyOptions::default().recursive(true);
/// let from = [Location::parse("ftp://data.example.org:2811/run7/")?];
/// let to = Location::parse("/scratch/run7/")?;
/// let results = Arc::new(Results::new(100_000));
/// copy(&from, &to, options, results.clone(), Arc::new(Totals::default())).await?;
/// for file in results.take() {
///     match &file.outcome {
///         Outcome::Copied(_) => println!("{}: {:?} {:?}", file.source, file.bytes, file.digest),
///         Outcome::Failed { message, .. } => println!("{}: {message}", file.source),
///         _ => {}
///     }
/// }
/// assert_eq!(results.missed(), 0);
/// # Ok(())
/// # }
/// ```
pub struct Results {
    most: usize,
    kept: Mutex<Vec<FileResult>>,
    missed: AtomicU64,
    next: Option<Arc<dyn Observer>>,
}

/// The result of one file or link of a copy; of a directory, or a server, where that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileResult {
    /// The path or URL of the source, as in [`Event`].
    pub source: String,
    /// The path or URL of the copy; `None` where the file was left out or failed before the copy had
    /// a place.
    pub destination: Option<String>,
    /// Bytes of a copied file, or of the part of it; the size, when known, of one that a dry run would
    /// copy.
    pub bytes: Option<u64>,
    /// Algorithm and digest on which both ends agree, where digests were compared.
    pub digest: Option<(String, String)>,
    /// The end that it came to.
    pub outcome: Outcome,
}

/// The end of one file of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was copied, with this proof.
    Copied(Verification),
    /// It is a symbolic link, which was made at the destination.
    Linked,
    /// It would be copied, or made as a link, were this not a dry run.
    Planned,
    /// It was left out on purpose, or is the same at the destination.
    Skipped {
        /// Why.
        why: String,
    },
    /// It was not copied, or its copy lacks a part.
    Failed {
        /// Kind of failure.
        class: Class,
        /// Code of the server's reply, where that is the reason.
        code: Option<u16>,
        /// Whether another try may help.
        transient: bool,
        /// Site, operation, path and remedy.
        message: String,
    },
}

impl Results {
    /// Creates a collector of at most `most` results at a time; those that find it full are counted by
    /// [`missed`](Self::missed) and not kept.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            kept: Mutex::default(),
            missed: AtomicU64::new(0),
            next: None,
        }
    }

    /// Passes every event on to another observer.
    #[must_use]
    pub fn passing_to(mut self, next: Arc<dyn Observer>) -> Self {
        self.next = Some(next);
        self
    }

    /// Takes the results so far, in the order in which files ended.
    pub fn take(&self) -> Vec<FileResult> {
        std::mem::take(&mut *lock(&self.kept))
    }

    /// Number of results that were not kept, for want of room.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn keep(&self, result: FileResult) {
        let mut kept = lock(&self.kept);
        if kept.len() < self.most {
            kept.push(result);
        } else {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl FileResult {
    fn new(source: &str, destination: Option<&str>, outcome: Outcome) -> Self {
        Self {
            source: source.to_owned(),
            destination: destination.map(str::to_owned),
            bytes: None,
            digest: None,
            outcome,
        }
    }

    /// The result that an event tells, if it is the end of a file.
    fn of(event: &Event<'_>) -> Option<Self> {
        Some(match *event {
            Event::Finished {
                source,
                destination,
                bytes,
                verification,
                verified,
                ..
            } => Self {
                bytes: Some(bytes),
                digest: verified.map(|(name, digest)| (name.to_owned(), digest.to_owned())),
                ..Self::new(source, Some(destination), Outcome::Copied(verification))
            },
            Event::Linked {
                source,
                destination,
                ..
            } => Self::new(source, Some(destination), Outcome::Linked),
            Event::Planned {
                source,
                destination,
                size: bytes,
            } => Self {
                bytes,
                ..Self::new(source, Some(destination), Outcome::Planned)
            },
            Event::PlannedLink {
                source,
                destination,
                ..
            } => Self::new(source, Some(destination), Outcome::Planned),
            Event::Skipped {
                source,
                destination,
                why,
            } => {
                let why = why.to_owned();
                Self::new(source, destination, Outcome::Skipped { why })
            }
            Event::Failed {
                source,
                destination,
                error,
                ..
            } => Self::new(source, destination, Outcome::of_failure(error)),
            _ => return None,
        })
    }
}

impl Outcome {
    fn of_failure(error: &TransferError) -> Self {
        Self::Failed {
            class: error.class(),
            code: error.fields().code,
            transient: error.is_transient(),
            message: error.to_string(),
        }
    }
}

impl Observer for Results {
    fn event(&self, event: &Event<'_>) {
        if let Some(result) = FileResult::of(event) {
            self.keep(result);
        }
        if let Some(next) = &self.next {
            next.event(event);
        }
    }

    fn wants_control(&self) -> bool {
        (self.next.as_ref()).is_some_and(|next| next.wants_control())
    }
}

impl fmt::Debug for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Results")
            .field("most", &self.most)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_of_a_file_is_a_result_and_those_without_room_are_counted() {
        let next = Arc::new(Results::new(1));
        let results = Results::new(2).passing_to(next.clone());
        let error = &TransferError::Changed {
            path: "b".to_owned(),
        };
        let failed = Event::Failed {
            source: "b",
            destination: Some("to/b"),
            name: b"b",
            error,
        };
        let skipped = Event::Skipped {
            source: "a",
            destination: None,
            why: "it exists",
        };
        for event in [&Event::Note("note"), &skipped, &failed, &failed] {
            results.event(event);
        }
        assert_eq!((results.missed(), next.missed()), (1, 2));
        let told = results.take();
        assert_eq!(told.len(), 2);
        let why = "it exists".to_owned();
        assert_eq!(told[0].outcome, Outcome::Skipped { why });
        assert_eq!(told[1].destination.as_deref(), Some("to/b"));
        let Outcome::Failed { class, message, .. } = &told[1].outcome else {
            panic!("{told:?}");
        };
        assert_eq!((*class, message), (Class::Transfer, &error.to_string()));
        // Those that were taken make room.
        results.event(&failed);
        assert_eq!((results.take().len(), results.missed()), (1, 1));
    }
}

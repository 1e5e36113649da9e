//! The outcome of the last request of an upload that the store answered with an error.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use gridftp_dsi::{Error, ErrorKind, Result};
use object_store::{Attribute, Attributes, Error as StoreError, GetOptions, ObjectMeta};

use crate::error::{is_repeated, is_transient, kind, of};
use crate::parts::Parts;
use crate::sink::ObjectSink;
use crate::store::Store;

/// The reason of an upload that was to replace nothing.
pub(crate) const TAKEN: &str = "the upload was to replace nothing, and something has its name";

/// Name of the metadata with the [`Mark`] of an object.
const NAME: &str = "gridftp-upload";

/// A unique value in the metadata of an object that was to replace nothing, which tells it from that
/// of another client with the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark(String);

impl Mark {
    pub(crate) fn new() -> Self {
        Self(random() + &random())
    }

    pub(crate) fn attributes(&self) -> Attributes {
        let name = Attribute::Metadata(NAME.into());
        Attributes::from_iter([(name, self.0.clone())])
    }

    /// The mark of an object.
    fn of(attributes: &Attributes) -> Option<Self> {
        let value = attributes.get(&Attribute::Metadata(NAME.into()))?;
        Some(Self(value.as_ref().to_owned()))
    }
}

/// Random text of 16 digits, base 16.
pub(crate) fn random() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// The object that a completed upload in parts makes.
pub(crate) struct Expected {
    pub(crate) size: u64,
    /// Its entity tag, if the store's tags are digests.
    pub(crate) tag: Option<String>,
    /// Whether it replaces nothing.
    pub(crate) exclusive: bool,
    /// The object before the completion; an error where the store did not tell.
    pub(crate) before: Result<Option<ObjectMeta>, StoreError>,
}

impl Expected {
    /// Whether this may be the object, and not the one before. The reply to an earlier attempt may be
    /// lost, and the object complete. The tag of an encrypted object is unknown, but another one than
    /// before; that may be of another client, so that it is no proof for an exclusive upload.
    fn is(&self, now: &ObjectMeta, is_doubtful: bool) -> bool {
        let is_other = |old: &Option<ObjectMeta>| {
            let old = old.as_ref().map(|old| &old.e_tag);
            is_doubtful && old.is_none_or(|old| *old != now.e_tag)
        };
        let is_expected = match (&self.tag, self.exclusive) {
            (Some(_), _) => now.e_tag == self.tag,
            (None, exclusive) => exclusive,
        };
        let is_new = !self.exclusive && self.before.as_ref().is_ok_and(is_other);
        now.size == self.size && (is_expected || is_new)
    }
}

/// Whether a store refuses an upload that would replace an object.
fn is_taken(error: &StoreError) -> bool {
    matches!(kind(error), ErrorKind::Exists | ErrorKind::Changed)
}

impl Store {
    /// The facts and the mark of an object; `None` if there is none.
    async fn marked(
        &self,
        key: &object_store::path::Path,
    ) -> Result<Option<(ObjectMeta, Option<Mark>)>, StoreError> {
        let head = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        match self.objects.get_opts(key, head).await {
            Ok(got) => {
                let mark = Mark::of(&got.attributes);
                Ok(Some((got.meta, mark)))
            }
            Err(error) if kind(&error) == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl ObjectSink {
    /// The outcome of an exclusive put of `size` bytes with this mark: an earlier attempt of the
    /// request may have put the object that refuses it.
    pub(crate) async fn put_outcome(
        &self,
        mark: &Mark,
        size: u64,
        error: StoreError,
    ) -> Result<()> {
        let is_refused = is_taken(&error);
        let is_doubtful = is_repeated(&error) || (is_transient(&error) && !is_refused);
        if is_refused && let Parts::Local(_) = self.to.store.parts {
            return Err(self.to.refused(ErrorKind::Exists, TAKEN));
        }
        if !is_refused && !is_doubtful {
            return Err(of("write", &self.to.path, error));
        }
        match self.to.store.marked(&self.to.key).await {
            Ok(Some((_, Some(there)))) if there == *mark => Ok(()),
            Ok(Some((now, None))) if is_doubtful && now.size == size => {
                let why = format!(
                    "{TAKEN}; it may be an earlier attempt of this upload: compare it, or remove it and upload again"
                );
                Err(self.to.refused(ErrorKind::Exists, why))
            }
            Ok(Some(_)) => Err(self.to.refused(ErrorKind::Exists, TAKEN)),
            Ok(None) if is_refused => Err(self.busy(&error)),
            Ok(None) => Err(of("write", &self.to.path, error)),
            Err(_) if is_doubtful => Err(self.unknown(&error)),
            Err(_) => Err(self.busy(&error)),
        }
    }

    /// The outcome of a failed completion: the entity tag of the object if it is there.
    pub(crate) async fn completion_outcome(
        &self,
        expected: &Expected,
        error: StoreError,
    ) -> Result<Option<String>> {
        let is_gone = kind(&error) == ErrorKind::NotFound;
        let is_refused = expected.exclusive && is_taken(&error);
        let is_doubtful = is_gone || (is_transient(&error) && !is_refused);
        let now = self.to.store.head(&self.to.key).await;
        if let Ok(Some(now)) = &now
            && expected.is(now, is_doubtful)
        {
            // It may be the object of another upload, and these parts still be at the store.
            match self.abandon().await {
                _ if !expected.exclusive => return Ok(now.e_tag.clone()),
                // Completed by an earlier attempt.
                Some(false) => return Ok(now.e_tag.clone()),
                Some(true) => return Err(self.to.refused(ErrorKind::Exists, TAKEN)),
                None => return Err(self.unknown(&error)),
            }
        }
        if is_gone {
            self.state().is_over = true;
            let why = format!("the store has ended the upload: {error}");
            return Err(self.to.refused(ErrorKind::Changed, why));
        }
        if is_refused {
            if let Ok(Some(_)) = now {
                self.abandon().await;
                return Err(self.to.refused(ErrorKind::Exists, TAKEN));
            }
            return Err(self.busy(&error));
        }
        // The store did not answer: its parts and the journal are kept. No parts are left behind a
        // refusal; if their removal fails too, the journal keeps them for a restart.
        if !is_transient(&error) {
            self.abandon().await;
        }
        Err(of("publish", &self.to.path, error))
    }

    /// The error of an upload that was refused for an object that is not there: of two uploads at the
    /// same time a store may refuse both.
    fn busy(&self, error: &StoreError) -> Error {
        self.to.refused(ErrorKind::Busy, error.to_string())
    }

    /// The error of an upload with an outcome that the store does not tell.
    fn unknown(&self, error: &StoreError) -> Error {
        let why = format!(
            "it is unknown whether the object is written: look at it before another upload ({error})"
        );
        self.to.refused(ErrorKind::Io, why)
    }
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::*;

    fn object(size: u64, tag: &str) -> ObjectMeta {
        ObjectMeta {
            location: Path::from("file"),
            last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
            size,
            e_tag: Some(tag.to_owned()),
            version: None,
        }
    }

    /// Whether an object may be the one of an upload of 9 bytes, behind a doubtful and a sure error.
    fn may_be(tag: Option<&str>, exclusive: bool, before: &str, now: (u64, &str)) -> [bool; 2] {
        let expected = Expected {
            size: 9,
            tag: tag.map(str::to_owned),
            exclusive,
            before: Ok((!before.is_empty()).then(|| object(8, before))),
        };
        let now = object(now.0, now.1);
        [true, false].map(|is_doubtful| expected.is(&now, is_doubtful))
    }

    #[test]
    fn an_exclusive_upload_has_the_expected_tag_or_one_that_cannot_be_known() {
        for (tag, now, expected) in [
            (Some("own"), (9, "own"), true),
            (Some("own"), (9, "other"), false),
            (Some("own"), (8, "own"), false),
            (None, (9, "sealed"), true),
            (None, (8, "sealed"), false),
        ] {
            assert_eq!(may_be(tag, true, "", now), [expected; 2], "{tag:?} {now:?}");
        }
    }

    #[test]
    fn an_upload_that_replaces_has_the_expected_tag_or_behind_doubt_another_than_before() {
        for (tag, before, now, expected) in [
            (Some("own"), "old", (9, "own"), [true, true]),
            (Some("own"), "old", (9, "new"), [true, false]),
            (Some("own"), "old", (9, "old"), [false, false]),
            (None, "old", (9, "new"), [true, false]),
            (None, "", (9, "new"), [true, false]),
            (None, "", (8, "new"), [false, false]),
        ] {
            assert_eq!(
                may_be(tag, false, before, now),
                expected,
                "{tag:?} {before} {now:?}"
            );
        }
    }

    #[test]
    fn marks_are_unique_and_found_in_the_metadata() {
        let (one, other) = (Mark::new(), Mark::new());
        assert_ne!(one, other);
        assert_eq!(Mark::of(&one.attributes()), Some(one));
        assert_eq!(Mark::of(&Attributes::new()), None);
    }
}

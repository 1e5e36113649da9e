//! The bytes of a file in memory.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use super::lock;
use crate::types::{DsiPath, Kind, Stat};

pub(super) type Shared = Arc<Mutex<Body>>;

#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    pub(super) modified: (i64, u32),
    /// Number of writers in place, and whether the one writer excludes others.
    pub(super) writers: u32,
    pub(super) alone: bool,
}

/// The published file that an update is a copy of.
#[derive(Debug, Clone)]
pub(super) struct Over {
    pub(super) body: Shared,
    pub(super) size: u64,
    pub(super) modified: (i64, u32),
}

pub(super) fn now() -> (i64, u32) {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    (
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        since.subsec_nanos(),
    )
}

pub(super) fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

impl Over {
    pub(super) fn copy(body: Shared) -> (Vec<u8>, Self) {
        let inner = lock(&body);
        let (copy, modified) = (inner.bytes.clone(), inner.modified);
        drop(inner);
        let size = len(&copy);
        let over = Self {
            body,
            size,
            modified,
        };
        (copy, over)
    }

    pub(super) fn is_unchanged(&self) -> bool {
        let body = lock(&self.body);
        len(&body.bytes) == self.size && body.modified == self.modified
    }
}

impl Body {
    pub(super) fn new(bytes: Vec<u8>) -> Shared {
        Arc::new(Mutex::new(Self {
            bytes,
            modified: now(),
            writers: 0,
            alone: false,
        }))
    }

    pub(super) fn stat(&self, path: &DsiPath) -> Stat {
        let mut stat = Stat::new(path.name(), Kind::File);
        stat.size = len(&self.bytes);
        stat.modified = self.modified;
        stat
    }
}

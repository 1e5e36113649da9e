//! `Shares`: the shared uploads of the backend in memory, by their tokens.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};

use super::body::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{DsiPath, User};

/// One shared upload, which lives as long as its owner.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) body: Shared,
    path: DsiPath,
    user: String,
    token: [u8; 8],
}

impl Share {
    pub(super) fn token(&self) -> Vec<u8> {
        self.token.to_vec()
    }
}

/// The shared uploads.
#[derive(Debug, Default)]
pub(super) struct Shares(BTreeMap<[u8; 8], Weak<Share>>);

impl Shares {
    pub(super) fn add(&mut self, body: Shared, path: DsiPath, user: String) -> Arc<Share> {
        self.0.retain(|_, share| share.strong_count() > 0);
        let token = RandomState::new().hash_one(&user).to_le_bytes();
        let share = Arc::new(Share {
            body,
            path,
            user,
            token,
        });
        self.0.insert(token, Arc::downgrade(&share));
        share
    }

    /// The upload of `user` to `path` that `token` was made for.
    pub(super) fn find(&self, user: &User, path: &DsiPath, token: &[u8]) -> Result<Weak<Share>> {
        let refuse = |kind| Err(Error::new(kind, "join").at(path));
        let found = <[u8; 8]>::try_from(token).ok();
        let Some(weak) = found.and_then(|token| self.0.get(&token)) else {
            return refuse(ErrorKind::Denied);
        };
        match weak.upgrade() {
            None => refuse(ErrorKind::Changed),
            Some(share) if share.path != *path || share.user != user.name => {
                refuse(ErrorKind::Denied)
            }
            Some(_) => Ok(Weak::clone(weak)),
        }
    }
}

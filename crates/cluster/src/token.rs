//! `JoinToken`: the right to one certificate, made on the front end that holds the authority.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64ct::{Base64UrlUnpadded, Encoding as _};
use zeroize::Zeroizing;

use crate::authority::{hex, random, sha256};
use crate::error::{Error, Result};
use crate::folder::{Folder, file, read};
use crate::identity::{Identity, Role};

const PREFIX: &str = "gridftp-join-1-";
/// Longest address of a front end in a token, in bytes.
const MAX_ADDRESS: usize = 256;
/// Folder of the digests of the tokens that are valid.
const TOKENS: &str = "tokens";

/// The right to join a cluster once: address and authority of a front end, and a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    front: String,
    /// The SHA-256 of the authority's certificate.
    pub(crate) authority: [u8; 32],
    pub(crate) secret: Zeroizing<[u8; 32]>,
}

impl JoinToken {
    /// Returns the address of the front end that issues the certificate.
    pub fn front(&self) -> &str {
        &self.front
    }

    /// Returns the text to be carried to the new member, which contains the secret.
    pub fn reveal(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(64 + self.front.len()));
        bytes.extend_from_slice(&self.authority);
        bytes.extend_from_slice(&*self.secret);
        bytes.extend_from_slice(self.front.as_bytes());
        let text = Zeroizing::new(Base64UrlUnpadded::encode_string(&bytes));
        Zeroizing::new(format!("{PREFIX}{}", &*text))
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken")
            .field("front", &self.front)
            .finish_non_exhaustive()
    }
}

impl FromStr for JoinToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::Token("the text is incomplete or no token");
        let text = text.trim().strip_prefix(PREFIX).ok_or_else(bad)?;
        if text.len() > 2 * (64 + MAX_ADDRESS) {
            return Err(bad());
        }
        let bytes = Base64UrlUnpadded::decode_vec(text).map_err(|_| bad())?;
        let bytes = Zeroizing::new(bytes);
        let (authority, rest) = bytes.split_first_chunk().ok_or_else(bad)?;
        let (secret, front) = rest.split_first_chunk().ok_or_else(bad)?;
        let front = str::from_utf8(front).map_err(|_| bad())?;
        if front.is_empty() || front.len() > MAX_ADDRESS {
            return Err(bad());
        }
        Ok(Self {
            front: front.into(),
            authority: *authority,
            secret: Zeroizing::new(*secret),
        })
    }
}

/// Makes a token to join the cluster once, within `lifetime`.
///
/// `folder` is the one of the front end with the authority, which is running at the address `front`
/// (`HOST:PORT`) as the new member sees it. With a `name`, only a member of this name may use it.
/// The front end keeps a digest of the secret, not the secret.
///
/// # Errors
///
/// The folder holds no authority, a name is not valid, or it cannot be written.
pub fn create_token(
    folder: impl AsRef<Path>,
    front: &str,
    role: Role,
    name: Option<&str>,
    lifetime: Duration,
) -> Result<JoinToken> {
    let folder = Folder::new(folder.as_ref());
    folder.key("ca.key")?;
    let roots = folder.certificates("ca.pem")?;
    let root = roots.first().ok_or(Error::Token("there is no authority"))?;
    if name.is_some_and(|name| Identity::new("any", role, name).is_none()) {
        return Err(Error::Token("the name of the member is not valid"));
    }
    if front.is_empty() || front.len() > MAX_ADDRESS {
        return Err(Error::Token("the address of the front end is not valid"));
    }
    let token = JoinToken {
        front: front.into(),
        authority: sha256(root),
        secret: Zeroizing::new(random()?),
    };
    let until = seconds(SystemTime::now() + lifetime);
    let record = format!("{} {until} {}\n", role.name(), name.unwrap_or("*"));
    let tokens = Folder::new(folder.path(TOKENS));
    tokens.create()?;
    sweep(&tokens, SystemTime::now())?;
    tokens.write(&digest(&*token.secret), record.as_bytes(), 0o600)?;
    Ok(token)
}

/// A token that the front end knows.
#[derive(Debug)]
pub(crate) struct Known {
    tokens: Folder,
    digest: String,
    pub(crate) role: Role,
}

/// Looks a secret up, for a member of this name.
///
/// # Errors
///
/// It is not known, was used, has expired, or is for another name.
pub(crate) fn look_up(
    folder: &Folder,
    secret: &[u8],
    name: &str,
    now: SystemTime,
) -> Result<Known> {
    const UNKNOWN: Error = Error::Token("not known here, or used already: make another one");
    let tokens = Folder::new(folder.path(TOKENS));
    let digest = digest(secret);
    let record = match read(&tokens.path(&digest)) {
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Err(UNKNOWN);
        }
        record => record?,
    };
    let (role, until, only) = parse(&record).ok_or(UNKNOWN)?;
    if seconds(now) >= until {
        return Err(Error::Token("expired: make another one"));
    }
    if only != "*" && only != name {
        return Err(Error::Token("for a member of another name"));
    }
    Ok(Known {
        tokens,
        digest,
        role,
    })
}

impl Known {
    /// Uses the token up; of several that try at the same time one succeeds.
    pub(crate) fn use_up(&self) -> Result<()> {
        let path = self.tokens.path(&self.digest);
        fs::remove_file(&path).map_err(|_| Error::Token("used already: make another one"))
    }
}

/// Reads a record: the role, the end of validity, and the name or `*`.
fn parse(record: &[u8]) -> Option<(Role, u64, &str)> {
    let mut words = str::from_utf8(record).ok()?.split_ascii_whitespace();
    let role = words.next()?;
    let role = [Role::Front, Role::Node]
        .into_iter()
        .find(|known| known.name() == role)?;
    Some((role, words.next()?.parse().ok()?, words.next()?))
}

/// Removes the tokens that have expired.
fn sweep(tokens: &Folder, now: SystemTime) -> Result<()> {
    let path = tokens.path("");
    for entry in fs::read_dir(&path).map_err(file("list", &path))? {
        let path = entry.map_err(file("list", &path))?.path();
        let Ok(record) = read(&path) else { continue };
        if parse(&record).is_some_and(|(_, until, _)| until <= seconds(now)) {
            // Another sweep may have been first.
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

/// The name of the record of a secret. A random secret of 256 bits needs no slower digest.
fn digest(secret: &[u8]) -> String {
    hex(&sha256(secret))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

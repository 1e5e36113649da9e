//! Uploads shared between processes: their tokens, and the lock by which they end with their owner.
//!
//! The owner holds a lock on one byte at a random offset, far beyond the end of the file. Another
//! process learns the offset from the token, and a writer that finds the byte unlocked knows that
//! the owner has ended: the file may be published by now, or belong to another upload. The kernel
//! drops the lock with the owner, so nothing is left to be cleaned up. `flock` cannot tell this:
//! the lock of a later owner looks the same, and a test takes the lock for a moment.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gridftp_dsi::ErrorKind;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::error::{Fault, Outcome};
use crate::late;
use crate::names::Names;
use crate::partial::random;
use crate::root::{Target, must_be_file};

/// First byte of a token.
const VERSION: u8 = 1;

/// Longest use of a check of the owner on file systems of other machines, where each asks the other
/// end.
const REMOTE: Duration = Duration::from_millis(250);

/// Bytes of a token for the user's name.
const USER: usize = 16;

const FORGED: Fault = Fault::Rule(
    ErrorKind::Denied,
    "the token is not that of an upload of this user to this name",
);

const ENDED: Fault = Fault::Rule(
    ErrorKind::Changed,
    "the process that shared this upload has ended it",
);

/// The file of a shared upload, relative to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The partial file.
    Partial,
    /// The partial file with this number in its name.
    Once(u64),
    /// The target itself.
    Itself,
}

/// The byte that the owner of a shared upload has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(i64);

impl Mark {
    /// Locks a byte of `file`.
    pub(crate) fn set(file: BorrowedFd<'_>) -> Outcome<Self> {
        // The upper half of all offsets.
        let mark = Self((random() >> 2 | 1 << 62).cast_signed());
        mark.renew(file)?;
        Ok(mark)
    }

    /// Locks the byte again.
    ///
    /// On NFS, this makes the kernel fetch the size that other machines gave the file.
    pub(crate) fn renew(self, file: BorrowedFd<'_>) -> Outcome<()> {
        fcntl(file, FcntlArg::F_OFD_SETLK(&self.lock()?)).map_err(errno)?;
        Ok(())
    }

    /// Whether another open file has the byte locked.
    fn is_set(self, file: BorrowedFd<'_>) -> Outcome<bool> {
        let mut lock = self.lock()?;
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock)).map_err(errno)?;
        Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK)
    }

    fn lock(self) -> Outcome<libc::flock> {
        let short = |n: libc::c_int| libc::c_short::try_from(n).map_err(|_| Errno::INVAL);
        Ok(libc::flock {
            l_type: short(libc::F_WRLCK)?,
            l_whence: short(libc::SEEK_SET)?,
            l_start: self.0,
            l_len: 1,
            l_pid: 0,
        })
    }
}

fn errno(error: nix::errno::Errno) -> Fault {
    Errno::from_io_error(&error.into())
        .unwrap_or(Errno::IO)
        .into()
}

/// The contents of a token. It has no path: the names derive from the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    place: Place,
    inode: u64,
    mark: Mark,
    user: [u8; USER],
}

impl Token {
    /// The token of the upload of `user` to `file`.
    pub(crate) fn of(place: Place, file: BorrowedFd<'_>, mark: Mark, user: &str) -> Outcome<Self> {
        let inode = rustix::fs::fstat(file)?.st_ino;
        let user = digest(user);
        Ok(Self {
            place,
            inode,
            mark,
            user,
        })
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let (place, number) = match self.place {
            Place::Partial => (b'p', 0),
            Place::Once(number) => (b'o', number),
            Place::Itself => (b'i', 0),
        };
        let mut bytes = vec![VERSION, place];
        for number in [number, self.inode, self.mark.0.cast_unsigned()] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&self.user);
        bytes
    }

    /// Parses a token for `user`.
    pub(crate) fn parse(bytes: &[u8], user: &str) -> Outcome<Self> {
        let parsed = Self::read(bytes).filter(|token| token.user == digest(user));
        parsed.ok_or(FORGED)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (&[version, place], rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (inode, rest) = rest.split_first_chunk()?;
        let (mark, rest) = rest.split_first_chunk()?;
        let place = match (place, u64::from_be_bytes(*number)) {
            (b'p', 0) => Place::Partial,
            (b'o', number) => Place::Once(number),
            (b'i', 0) => Place::Itself,
            _ => return None,
        };
        let mark = i64::from_be_bytes(*mark);
        let token = Self {
            place,
            inode: u64::from_be_bytes(*inode),
            mark: Mark(mark),
            user: rest.try_into().ok()?,
        };
        (version == VERSION && mark >= 0).then_some(token)
    }
}

fn digest(user: &str) -> [u8; USER] {
    let digest = Sha256::digest(user);
    digest.first_chunk().copied().unwrap_or_default()
}

/// The file of an upload that another sink owns.
#[derive(Debug)]
pub(crate) struct Joined {
    file: OwnedFd,
    mark: Mark,
    /// Longest use of a check of the owner.
    lasts: Duration,
    checked: Mutex<Option<Instant>>,
}

impl Joined {
    /// Opens the upload to `target` that `token` was made for.
    pub(crate) fn open(target: &Target, token: Token) -> Outcome<Self> {
        let name = match token.place {
            Place::Partial => Names::of(&target.name).partial,
            Place::Once(number) => Names::once(&target.name, number),
            Place::Itself => target.name.clone(),
        };
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match rustix::fs::openat(&target.dir, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Err(ENDED),
            done => done?,
        };
        let (file, stat) = must_be_file(file)?;
        if stat.st_ino != token.inode {
            return Err(ENDED);
        }
        let remote = late::is_late(file.as_fd());
        let joined = Self {
            file,
            mark: token.mark,
            lasts: if remote { REMOTE } else { Duration::ZERO },
            checked: Mutex::default(),
        };
        joined.must_be_owned()?;
        Ok(joined)
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Fails once the owner has ended the upload.
    pub(crate) fn must_be_owned(&self) -> Outcome<()> {
        let lock = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if lock().is_some_and(|at| at.elapsed() < self.lasts) {
            return Ok(());
        }
        let now = Instant::now();
        if !self.mark.is_set(self.file())? {
            return Err(ENDED);
        }
        *lock() = Some(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_form_and_one_user() {
        let file = tempfile::tempfile().unwrap();
        for place in [Place::Partial, Place::Once(7), Place::Itself] {
            let token = Token::of(place, file.as_fd(), Mark(1 << 62 | 5), "ann").unwrap();
            let bytes = token.to_bytes();
            assert!(bytes.len() <= gridftp_dsi::dsi::MAX_TOKEN);
            assert_eq!(Token::parse(&bytes, "ann").unwrap(), token);
            assert!(Token::parse(&bytes, "bob").is_err());
            for cut in 0..bytes.len() {
                assert!(Token::parse(&bytes[..cut], "ann").is_err(), "{cut}");
            }
            assert!(Token::parse(&[&bytes[..], b"x"].concat(), "ann").is_err());
        }
    }

    #[test]
    fn a_mark_lasts_as_long_as_its_owner() {
        let owner = tempfile::NamedTempFile::new().unwrap();
        let other = owner.reopen().unwrap();
        let mark = Mark::set(owner.as_file().as_fd()).unwrap();
        let (is_set, next) = (|mark: Mark| mark.is_set(other.as_fd()).unwrap(), mark.0 ^ 1);
        assert!(is_set(mark) && !is_set(Mark(next)));
        mark.renew(owner.as_file().as_fd()).unwrap();
        assert!(is_set(mark));
        let joined = |lasts| Joined {
            file: other.try_clone().unwrap().into(),
            mark,
            lasts,
            checked: Mutex::default(),
        };
        let [local, remote] = [Duration::ZERO, Duration::MAX].map(joined);
        for joined in [&local, &remote] {
            joined.must_be_owned().unwrap();
        }
        drop(owner);
        assert!(!is_set(mark));
        assert!(local.must_be_owned().is_err());
        remote.must_be_owned().unwrap();
        assert!(joined(Duration::MAX).must_be_owned().is_err());
    }
}

//! `Hashed`: one password hash of the users file.

use std::fmt;

use argon2::password_hash::phc::{Output, PasswordHash};
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use sha_crypt::ShaCrypt;
use yescrypt::Yescrypt;
use zeroize::Zeroizing;

use super::hashing::Memory;

/// Longest password, in bytes. Hashing takes longer the longer a password is.
pub const LONGEST: usize = 1024;

/// A password hash: argon2 in PHC form, or crypt's `$6$`, `$5$` or `$y$`.
#[derive(Clone, PartialEq, Eq)]
pub struct Hashed {
    scheme: Scheme,
    text: Box<str>,
}

/// The function that made a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Argon2,
    ShaCrypt,
    Yescrypt,
}

/// The fault of a text that is no password hash which this server can verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadHash {
    /// Its prefix is of no known scheme.
    #[error(
        "password hash of an unknown kind, need $argon2id$, $6$ or $y$ (make one with `gridftp-server passwd`)"
    )]
    UnknownScheme,
    /// It names a known scheme, but its fields do not parse.
    #[error("password hash is cut short or damaged")]
    Malformed,
    /// The password to be hashed has more than 1024 bytes.
    #[error("a password has at most 1024 bytes")]
    TooLong,
}

impl Hashed {
    /// Hashes `password` with argon2id, a fresh salt and the crate's recommended cost.
    ///
    /// # Errors
    /// [`BadHash::TooLong`] for a password over the limit, [`BadHash::Malformed`] when the system
    /// gives no random bytes.
    pub fn new(password: &str) -> Result<Self, BadHash> {
        if password.len() > LONGEST {
            return Err(BadHash::TooLong);
        }
        let hash = Argon2::default()
            .hash_password(password.as_bytes())
            .map_err(|_| BadHash::Malformed)?;
        Ok(Self {
            scheme: Scheme::Argon2,
            text: hash.to_string().into(),
        })
    }

    /// Parses a hash of the users file.
    ///
    /// # Errors
    /// [`BadHash`] for a text that no password can match.
    pub fn parse(text: &str) -> Result<Self, BadHash> {
        let scheme = match text.split('$').nth(1) {
            Some("argon2id" | "argon2i" | "argon2d") => Scheme::Argon2,
            Some("5" | "6") => Scheme::ShaCrypt,
            Some("y") => Scheme::Yescrypt,
            _ => return Err(BadHash::UnknownScheme),
        };
        let fields = text.split('$').count();
        let whole = match scheme {
            Scheme::Argon2 => PasswordHash::new(text).is_ok_and(|hash| hash.hash.is_some()),
            Scheme::ShaCrypt => matches!(fields, 4 | 5),
            Scheme::Yescrypt => fields == 5,
        };
        if whole && text.is_ascii() && text.rsplit('$').next().is_some_and(|last| last.len() >= 20)
        {
            Ok(Self {
                scheme,
                text: text.into(),
            })
        } else {
            Err(BadHash::Malformed)
        }
    }

    /// Says whether `password` matches; takes milliseconds of processor time on purpose.
    ///
    /// Argon2 works in the memory that is lent; yescrypt takes its own.
    pub(super) fn verify(&self, password: &str, memory: &mut Memory) -> bool {
        let password = password.as_bytes();
        match self.scheme {
            Scheme::Argon2 => argon2(&self.text, password, memory).unwrap_or(false),
            Scheme::ShaCrypt => ShaCrypt::SHA512
                .verify_password(password, &*self.text)
                .is_ok(),
            Scheme::Yescrypt => {
                let found = Yescrypt::default().verify_password(password, &*self.text);
                give_back();
                found.is_ok()
            }
        }
    }

    /// The text as the users file holds it.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Says whether `text` is the hash of the password; `None` where no hash of this kind can be made.
fn argon2(text: &str, password: &[u8], memory: &mut Memory) -> Option<bool> {
    let hash = PasswordHash::new(text).ok()?;
    let (salt, expected) = (hash.salt?, hash.hash?);
    let version = match hash.version {
        Some(version) => Version::try_from(version).ok()?,
        None => Version::default(),
    };
    let algorithm = Algorithm::try_from(hash.algorithm.as_str()).ok()?;
    let params = Params::try_from(&hash).ok()?;
    let blocks = memory.blocks(params.block_count());
    let mut found = Zeroizing::new(vec![0; expected.len()]);
    Argon2::new(algorithm, version, params)
        .hash_password_into_with_memory(password, &salt, &mut found, blocks)
        .ok()?;
    // Its comparison takes the same time wherever the two differ.
    Some(Output::new(&found).ok()? == expected)
}

/// Makes the allocator return the memory freed by yescrypt on this thread, 16 MiB as a rule.
///
/// glibc keeps it, and shortens a thread's heap only when its free end is more than twice as long
/// as any block that was mapped for itself and freed. These allocations meet that condition, and
/// take no memory, since they are never written to.
fn give_back() {
    let end: [Vec<u8>; 3] = std::array::from_fn(|_| Vec::with_capacity(15 << 20));
    drop(std::hint::black_box(end));
}

/// Shows the scheme only: a hash is a secret too.
impl fmt::Debug for Hashed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hashed({:?})", self.scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_hash_is_argon2id_and_verifies() {
        let hash = Hashed::new("correct horse").unwrap();
        assert!(hash.as_str().starts_with("$argon2id$v=19$"));
        let again = Hashed::parse(hash.as_str()).unwrap();
        let mut memory = Memory::default();
        assert!(again.verify("correct horse", &mut memory));
        assert!(!again.verify("correct horsf", &mut memory));
        assert_eq!(Hashed::new(&"x".repeat(1025)), Err(BadHash::TooLong));
        assert_ne!(hash, Hashed::new("correct horse").unwrap(), "salts differ");
    }

    #[test]
    fn hashes_of_crypt_verify() {
        // Made by crypt(3) of the system from "Hello world!".
        for text in [
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
            "$6$rounds=1000$abc$Z1qGqKjJ955Q3hxAKRENp11lM160CDktIAQXrnkWjszWG6/BYyr9DR5eFLvBn4Tv/XyP46lXwBA6X4flRX5/B0",
            "$5$rounds=5000$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
            "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$42RgPIrXdXSEEs77lDi/4IqKVqFBAVaHJkzw5uD1r57",
        ] {
            let hash = Hashed::parse(text).unwrap();
            assert!(
                hash.verify("Hello world!", &mut Memory::default()),
                "{text}"
            );
            assert!(
                !hash.verify("Hello world", &mut Memory::default()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_text_that_no_password_matches_is_refused() {
        assert_eq!(Hashed::parse("x"), Err(BadHash::UnknownScheme));
        assert_eq!(Hashed::parse("$1$abc$def"), Err(BadHash::UnknownScheme));
        assert_eq!(Hashed::parse("$6$salt"), Err(BadHash::Malformed));
        assert_eq!(
            Hashed::parse("$argon2id$v=19$m=1,t=1"),
            Err(BadHash::Malformed)
        );
        assert_eq!(Hashed::parse("$y$j9T$salt$"), Err(BadHash::Malformed));
    }

    #[test]
    fn debug_does_not_show_the_hash() {
        let hash = Hashed::new("x").unwrap();
        assert_eq!(format!("{hash:?}"), "Hashed(Argon2)");
    }
}

//! Mapping of Grid identities to local names, and the grid-mapfile.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::name::Name;
use crate::text::fold;
use crate::verify::Peer;

/// Upper bound of a file, in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// A way to find the local name of a peer; sites may plug their own.
pub trait Mapping: Send + Sync + fmt::Debug {
    /// Returns the local name: the requested one if the peer may have it, or else its default.
    ///
    /// # Errors
    ///
    /// The peer has no local name, or not the requested one.
    fn map(&self, peer: &Peer, requested: Option<&str>) -> Result<String, Unmapped>;
}

/// The reason why a peer has no local name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unmapped {
    /// No line names the identity.
    #[error("no line of the grid-mapfile maps {identity}: add `\"{identity}\" NAME`")]
    Unknown {
        /// The identity.
        identity: Name,
    },
    /// The line of the identity lacks the requested name.
    #[error("the grid-mapfile does not map {identity} to {name}")]
    NotListed {
        /// The identity.
        identity: Name,
        /// The requested local name.
        name: String,
    },
    /// The identity is mapped to a pool of accounts.
    #[error("the grid-mapfile maps {identity} to the account pool {pool}: name an account instead")]
    Pool {
        /// The identity.
        identity: Name,
        /// The pool, with its leading full stop.
        pool: String,
    },
    /// All accounts of the pool of the identity are leased to others.
    #[error(
        "no account of the pool {pool} is free for {identity}: the server's GRIDMAPDIR needs more \
         accounts, or leases that nobody uses are to be removed there"
    )]
    Exhausted {
        /// The identity.
        identity: Name,
        /// The pool, with its leading full stop.
        pool: String,
    },
    /// Another mapping refused the identity.
    #[error("{identity}: {reason}")]
    Refused {
        /// The identity.
        identity: Name,
        /// The reason.
        reason: String,
    },
}

impl Unmapped {
    /// The remedy for the client's text, where the reason does not name it; it begins with `; `.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Unknown { .. } | Self::NotListed { .. } => {
                "; the server's grid-mapfile needs a line for it"
            }
            Self::Pool { .. } | Self::Exhausted { .. } | Self::Refused { .. } => "",
        }
    }
}

/// A grid-mapfile: lines of `"DN" user[,user...]`.
#[derive(Debug, Clone, Default)]
pub struct GridMap {
    /// The local names of each identity, which is folded.
    entries: HashMap<String, Vec<String>>,
    faults: Vec<BadLine>,
}

/// A line that is no entry and was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("grid-mapfile, line {line}: {reason}")]
#[non_exhaustive]
pub struct BadLine {
    /// The line, from 1; 0 for the file.
    pub line: usize,
    /// The fault.
    pub reason: &'static str,
}

impl GridMap {
    /// Parses a file; lines that are no entries are passed over, see [`GridMap::faults`].
    ///
    /// The first entry of an identity wins.
    pub fn parse(text: &[u8]) -> Self {
        let mut map = Self::default();
        if text.len() > MAX_BYTES {
            map.faults.push(BadLine {
                line: 0,
                reason: "the file is over 64 MiB",
            });
            return map;
        }
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            match entry(line) {
                Ok((identity, names)) => {
                    map.entries.entry(fold(&identity)).or_insert(names);
                }
                Err(reason) => map.faults.push(BadLine {
                    line: index + 1,
                    reason,
                }),
            }
        }
        map
    }

    /// The lines that were passed over.
    pub fn faults(&self) -> &[BadLine] {
        &self.faults
    }

    /// The number of identities.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no identity is mapped.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The local names of an identity, the default first.
    pub fn names(&self, identity: &Name) -> &[String] {
        self.names_of(&identity.to_string())
    }

    /// The local names of an identity in its form of one line, as it stands in the file.
    pub fn names_of(&self, identity: &str) -> &[String] {
        self.entries.get(&fold(identity)).map_or(&[], Vec::as_slice)
    }

    /// The local names of all identities, each once, in the order of the alphabet.
    pub fn all_names(&self) -> BTreeSet<&str> {
        self.entries
            .values()
            .flatten()
            .map(String::as_str)
            .collect()
    }

    /// Returns the local name: the requested one if it is listed, or else the first.
    ///
    /// # Errors
    ///
    /// No line names the identity, or the line lacks the requested name.
    pub fn local_name(&self, identity: &Name, requested: Option<&str>) -> Result<String, Unmapped> {
        let (identity, names) = (identity.clone(), self.names(identity));
        let Some(first) = names.first() else {
            return Err(Unmapped::Unknown { identity });
        };
        let found = match requested {
            None => first,
            Some(name) => match names.iter().find(|listed| *listed == name) {
                Some(listed) => listed,
                None => {
                    return Err(Unmapped::NotListed {
                        identity,
                        name: name.to_owned(),
                    });
                }
            },
        };
        if found.starts_with('.') {
            return Err(Unmapped::Pool {
                identity,
                pool: found.clone(),
            });
        }
        Ok(found.clone())
    }
}

impl Mapping for GridMap {
    fn map(&self, peer: &Peer, requested: Option<&str>) -> Result<String, Unmapped> {
        self.local_name(&peer.identity, requested)
    }
}

/// The identity and the local names of a line.
fn entry(line: &[u8]) -> Result<(String, Vec<String>), &'static str> {
    let (identity, rest) = identity(line)?;
    let text = std::str::from_utf8(rest).map_err(|_| "the local name is not UTF-8")?;
    let separator = |c: char| c == ',' || c.is_ascii_whitespace();
    let names = text
        .split(separator)
        .filter(|name| !name.is_empty())
        .map(str::to_owned);
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        return Err("the local name is missing");
    }
    Ok((identity, names))
}

/// The identity at the start of a line, in the form of one line, and the rest.
fn identity(line: &[u8]) -> Result<(String, &[u8]), &'static str> {
    let (quoted, mut rest) = match line.strip_prefix(b"\"") {
        Some(inner) => (true, inner),
        None => (false, line),
    };
    let mut out = String::new();
    loop {
        let byte = match rest {
            [b'"', after @ ..] if quoted => {
                rest = after;
                break;
            }
            [] if quoted => return Err("the quote is not closed"),
            [] => break,
            [blank, ..] if !quoted && blank.is_ascii_whitespace() => break,
            [b'\\', b'x' | b'X', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                rest = after;
                hex(*high) * 16 + hex(*low)
            }
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                rest = after;
                *byte
            }
        };
        // As in the form of one line.
        match byte {
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02X}")),
        }
    }
    if out.is_empty() {
        Err("the identity is missing")
    } else {
        Ok((out, rest))
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
